"""The four numbers that a page begins with, beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanonflow.pipelines.pages.pages import KeyNumber
from kanonflow.pipelines.terminal.table import Cell, count, share
from kanonflow.schemas.promises.promises import promise_of


def key_numbers(
    head: Mapping[str, Any],
    lost: str | None,
    *,
    released: int,
    read: int | None,
    left: tuple[int, int],
    loss: float | None,
) -> tuple[KeyNumber, ...]:
    """head: k, protect and cohort, as metrics have them. lost: ``no_promise``. read: rows; None: not told. left: rows
    rejected and rows waiting. loss: the mean; None: not told."""
    rejected, waiting = left
    rows: Cell = count(released) if read is None else share(released / read if read else 0.0, 2)
    of = "rows are released" if read is None else f"of {read:,} rows are released"
    at_least = "at least so many rows are rejected" if read is None else "rows are rejected"
    return (
        _promised(head, lost),
        KeyNumber(rows, of),
        KeyNumber(count(rejected), f"{at_least}; {waiting:,} wait"),
        KeyNumber(
            share(loss),
            "of what could be lost is lost, on average; 0% is the value itself, 100% its whole domain",
        ),
    )


def _promised(head: Mapping[str, Any], lost: str | None) -> KeyNumber:
    if not head:
        return KeyNumber(None, "nothing says what is promised")
    if lost is not None:
        return KeyNumber("none", "is promised here any more; the verdict says why")
    whose = promise_of(head["protect"], head.get("cohort")).whose
    return KeyNumber(
        f"1 in {head['k']}", f"is the best chance to find the right {whose}, as far as it is promised"
    )
