"""What of an input is lost because it does not fit, and whether that is more than the policy lets pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kanonflow.schemas.against import Against
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.expected_forms import expected_instead

_NO_FIELD = "as many values as the header names, in UTF-8; of a message, one JSON object of plain values"


@dataclass(frozen=True)
class LostRows:
    """Rows that were rejected for one reason that lies in the input.

    field: at fault, the first of the policy's of each row; None: no single one.     share: of the rows read.
    expected: what a value looks like.     proposed: what of the policy would read the values; "": nothing is known.
    """

    reason: str
    field: str | None
    rows: int
    share: float
    expected: str
    proposed: str = ""

    def render(self) -> str:
        """One line."""
        where = "" if self.field is None else f" in {self.field}"
        fits = f"; would fit: {self.proposed}" if self.proposed else ""
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"{self.reason}{where}: {rows} ({self.share:.1%}); expected {self.expected}{fits}"


def lost_rows(
    unfit: Mapping[tuple[str, str | None], int],
    rows_read: int,
    limit: float,
    columns: Iterable[BoundColumn],
    proposed: Mapping[str, str] | None = None,
) -> tuple[LostRows, ...]:
    """What was lost, most first; nothing when all of it together is no more than the limit.

    unfit: rejected rows by reason and field, of reasons that lie in the input.     limit: share of the rows read.
    columns: of the policy, bound to the input.     proposed: by field, what of the policy would read its values.

    Named is each reason and field that is above the limit by itself, and all of them when none is.
    """
    if not rows_read or sum(unfit.values()) / rows_read <= limit:
        return ()
    by_name = {column.name: column for column in columns}
    losses = []
    for (reason, field), rows in unfit.items():
        column = by_name.get(field or "")
        expected = _NO_FIELD if column is None else expected_instead(column, reason)
        fits = (proposed or {}).get(field or "", "")
        losses.append(LostRows(reason, field, rows, rows / rows_read, expected, fits))
    losses.sort(key=lambda lost: (-lost.rows, lost.reason, lost.field or ""))
    above = [lost for lost in losses if lost.share > limit]
    return tuple(above or losses)


def dropped_lines(dropped: int, rows_read: int, against: Against | None) -> tuple[str, ...]:
    """Why a run is a failure that dropped too much for the reader of ``against``; none of others."""
    if against is None or not rows_read or dropped / rows_read <= against.dropped_limit:
        return ()
    return (
        f"{dropped:,} of {rows_read:,} rows read ({dropped / rows_read:.1%}) were rejected for good (known_otherwise),"
        f" so that {against.guaranteed.name} leaves enough people, and max_dropped is {against.dropped_limit:g}."
        " What was released stays. Larger cohorts (cohort_size), longer windows or a coarser payload lose less; or ask"
        " for less in against, or raise max_dropped",
    )


def lost_lines(
    lost: tuple[LostRows, ...],
    unfit: int,
    rows_read: int,
    limit: float,
    *,
    the: str = "",
    known: bool = False,
) -> tuple[str, ...]:
    """Why a run that lost so much is a failure, and each of its reasons on a line of its own; none of nothing.

    unfit: rows lost, for all reasons together.     the: what to call the rows read before their number.
    known: of cohorts that last, rows of people who are known are among them, and are released all the same.
    """
    if not lost:
        return ()
    judged = f"{unfit:,} of {the}{rows_read:,} rows read ({unfit / rows_read:.1%})"
    what = f"{judged} were rejected because they do not fit, and max_rejected is {limit:g}. What was released stays"
    if known:
        what = (
            f"{judged} do not fit, and max_rejected is {limit:g}. What was released stays; rows of people who are known"
            " are released all the same if only quasi-identifiers are at fault"
        )
    mend = "Mend the input, or say in the policy how it is written"
    first = f"{what}; every rejected row is in restricted/rejected. {mend}"
    return (first, *(each.render() for each in lost))
