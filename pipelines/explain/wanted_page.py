"""What was tried for fields that are counted by, as a part of the explanation's page or text."""

from __future__ import annotations

from collections.abc import Iterator

from kanonflow.pipelines.dry_run.field_width import in_words
from kanonflow.pipelines.explain.wanted_fields import SECRETS, CountedBy, ExpectedError, Try, Wanted
from kanonflow.pipelines.pages.charts import bars
from kanonflow.pipelines.pages.pages import Block, Figure, Items, Paragraph, Section
from kanonflow.pipelines.terminal.table import Cell, Number, Table, count, decimal, rows_of, share

_CAUTION = (
    "Whoever leaves a field out leaves out its column (role: identifier). Moved to the payload it would be published as"
    " it is, and would tell apart whom the others hide."
)


def wanted_section(wanted: Wanted, *, drawn: bool) -> Section:
    """drawn: with a drawing."""
    blocks: list[Block] = [
        Items(tuple(_expected(wanted))),
        Paragraph(
            f"Each try released the same {wanted.rows:,} rows {SECRETS} times, with other people together each time: in"
            " brackets are the least and the most of these, and no more than that varies. Rows that are rejected count"
            " as error. Tries with smaller errors come first."
        ),
        _tries(wanted, drawn=drawn),
        Paragraph(_best(wanted)),
    ]
    if wanted.best is not None:
        blocks.append(Items(wanted.best.lines))
    blocks.append(Paragraph(_CAUTION))
    return Section("for", f"What counts by {', '.join(wanted.fields)} are off", tuple(blocks))


def expected_words(by: str, error: str, ninth: float) -> str:
    """What to expect of a count. by: what it is by; error: as it is told."""
    return (
        f"If you group by {by}, expect an error of {error} of a count (median; of ten bands nine are off by less than"
        f" {ninth:.1%})."
    )


def _expected(wanted: Wanted) -> Iterator[str]:
    for each, error in zip(wanted.asked, wanted.own.errors, strict=True):
        yield expected_words(_by(each), _error(error), error.ninth)


def _by(asked: CountedBy) -> str:
    if asked.width is not None:
        return f"{asked.name}, in bands of a tenth of the rows (half of these narrower than {in_words(asked.width)})"
    return asked.name


def _error(error: ExpectedError) -> str:
    return f"{error.median:.1%} [{error.least:.1%}, {error.most:.1%}]"


def _tries(wanted: Wanted, *, drawn: bool) -> Figure:
    said = f"Median error of a count by bands of {', '.join(wanted.fields)}, by what is left out or weighed"
    head = ("", "loss", "rows", "rejected", *(each.name for each in wanted.asked))
    table = Table("tried_for", said, head, rows_of(_row(each, wanted.own) for each in wanted.tries))
    chart = None
    if drawn:
        chart = bars(
            said, [each.name for each in wanted.tries], [each.error for each in wanted.tries], percent=True
        )
    return Figure("Errors, the mean of all that is asked", chart, table)


def _row(each: Try, own: Try) -> tuple[Cell, ...]:
    return (
        each.name + (" *" if each.better_than(own) else ""),
        decimal(each.loss),
        count(round(each.rows)),
        share(each.rejected),
        *(Number(error.median, _error(error)) for error in each.errors),
    )


def _best(wanted: Wanted) -> str:
    if wanted.best is None:
        return f"Nothing that was tried makes the errors smaller each of the {SECRETS} times."
    return f"* is better each of the {SECRETS} times. The best, in the policy under fields:"
