"""What of an assessment may go with the releases, where their owner says so: rounded figures with their intervals.

    OUT/assessment.json    question, what was attacked, figure, interval and limit in hundredths; the files it is of

It is told as long as the public files are those that were assessed, as a verdict is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kanonflow.pipelines.run_records.replaced_file import replace_file
from kanonflow.pipelines.run_records.run_summary import read_json
from kanonflow.pipelines.run_records.verdict import Judged, judged_files
from kanonflow.schemas.errors import InputError

NAME = "assessment.json"
QUESTIONS = ("singling out", "linkability", "inference")
_LONGEST = 200


class PublicLine(NamedTuple):
    """question: one of ``QUESTIONS``. attack: in words, with names of released fields. figure, low, high: in
    hundredths; limit: of the policy."""

    question: str
    attack: str
    figure: float
    low: float
    high: float
    limit: float


class PublicAssessment(NamedTuple):
    """lines: what is told. people: the least number on a side, in hundreds."""

    lines: tuple[PublicLine, ...]
    people: int


def publish_assessment(output: str, assessment: PublicAssessment, judged: Judged) -> None:
    """Write it beside the releases. judged: the files that were assessed. Raises InputError: it cannot be written."""
    values = {
        "lines": [line._asdict() for line in assessment.lines],
        "people": assessment.people,
        "files": judged.files,
        "digest": judged.digest,
    }
    try:
        replace_file(Path(output, NAME), json.dumps(values, indent=1).encode(), private=False)
    except OSError as error:
        raise InputError(f"{output}/{NAME}: cannot be written ({error.strerror})") from None


def read_assessment(output: Path, judged: Judged | None) -> PublicAssessment | None:
    """What may be told of it; None: there is none, or the files are others.

    judged: those that are there, where they were looked at.

    Raises InputError: there is something in it that is not public.
    """
    values = read_json(output / NAME)
    if not values:
        return None
    there = judged or judged_files(output)
    if (values.get("files"), values.get("digest")) != (there.files, there.digest):
        return None
    lines, people = values.get("lines"), values.get("people")
    if (
        not isinstance(lines, list)
        or not all(map(_is_public, lines))
        or not isinstance(people, int)
        or people % 100
    ):
        raise InputError(
            f"{output / NAME}: is none that kanonflow assess --publish-assessment wrote; take it away"
        )
    return PublicAssessment(tuple(PublicLine(**line) for line in lines), people)


def _is_public(line: Any) -> bool:
    if not isinstance(line, dict) or set(line) != set(PublicLine._fields):
        return False
    numbers: Sequence[Any] = [line[name] for name in ("figure", "low", "high")]
    rounded = all(
        isinstance(each, int | float) and 0 <= each <= 1 and round(each, 2) == each for each in numbers
    )
    words = (
        line["question"] in QUESTIONS and isinstance(line["attack"], str) and len(line["attack"]) <= _LONGEST
    )
    return rounded and words and isinstance(line["limit"], int | float)
