"""Which questions an estimate is asked: names, columns and options turned into objects of ``questions.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from kanonflow.pipelines.estimates.questions import QUESTIONS, Question
from kanonflow.schemas.errors import InputError

Columns = str | tuple[str, ...]
_FINEST = 1_000_000


class OneQuestion(NamedTuple):
    """question. columns: that it is asked of. q: of a quantile."""

    question: Question
    columns: tuple[str, ...]
    q: Fraction | None

    @property
    def title(self) -> str:
        """What its columns begin with where several questions are asked."""
        level = [] if self.q is None else [f"{float(self.q):g}"]
        return "_".join([self.question.name, *level, *self.columns])


def asked_questions(
    what: str | Sequence[str], of: Columns | Sequence[Columns] | None, options: Mapping[str, Any]
) -> list[OneQuestion]:
    """Each question of each column that it takes. options: by name, None where they were not given. Raises InputError:
    no such question, a column or an option that none of them takes, or one that is missing."""
    names = [what] if isinstance(what, str) else list(what)
    if unknown := [name for name in names if name not in QUESTIONS] or ([] if names else ["nothing"]):
        raise InputError(f"estimate: {unknown[0]} is none of {', '.join(QUESTIONS)}")
    questions = [QUESTIONS[name] for name in dict.fromkeys(names)]
    columns = [(each,) if isinstance(each, str) else tuple(each) for each in _listed(of)]
    together = " and ".join(question.name for question in questions)
    if any(not any(len(each) in question.columns for question in questions) for each in columns):
        least = max(most for question in questions for most in question.columns)
        raise InputError(f"estimate: {together} takes {_COLUMNS[least]}")
    for name in [name for name, option in options.items() if option is not None]:
        if not any(name in question.takes for question in questions):
            able = ", ".join(each.name for each in QUESTIONS.values() if name in each.takes)
            raise InputError(f"estimate: {name} is for {able}, not for {together}")
    asked = []
    for question in questions:
        if missing := [name for name in sorted(question.needs) if options.get(name) is None]:
            raise InputError(f"estimate: {question.name} needs {missing[0]}")
        own = [each for each in columns if len(each) in question.columns]
        if not own and 0 not in question.columns:
            raise InputError(f"estimate: {question.name} needs the name of a column")
        levels = list(_levels(options.get("q"))) if "q" in question.takes else [None]
        asked += [OneQuestion(question, each, level) for each in own or [()] for level in levels]
    if len(asked) > 1 and any(each.question.alone for each in asked):
        raise InputError(f"estimate: {together}: top orders groups by one column, and is asked by itself")
    return asked


_COLUMNS = ("no column", "one column", "two columns, of=(x, y)")


def _listed(of: Columns | Sequence[Columns] | None) -> Sequence[Columns]:
    if of is None:
        return []
    return of if isinstance(of, list) else [of]  # type: ignore[list-item]


def _levels(q: Any) -> Iterator[Fraction]:
    for each in q if isinstance(q, list | tuple) else [q]:
        try:
            level = Fraction(str(each)).limit_denominator(_FINEST)
        except (ValueError, ZeroDivisionError):
            raise InputError("estimate: q is a number from 0 to 1, or a list of them") from None
        if not 0 <= level <= 1:
            raise InputError("estimate: q is a number from 0 to 1, or a list of them")
        yield level
