"""What ``policy check`` says of ends of ranges, which are taken for less than they are."""

from __future__ import annotations

from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy import Policy


def ends_of_ranges_notes(policy: Policy) -> tuple[str, ...]:
    """A sentence for each field whose ends of ranges are people's own values, always or where ranges are narrow."""
    notes = []
    for field in policy.quasis:
        quasi = field.quasi
        if quasi is None:
            continue
        kind = KINDS[quasi.type]
        if not kind.in_ranges:
            continue
        if quasi.grid == "exact":
            notes.append(f"{field.name}: grid: exact publishes people's own values as ends of ranges.")
        elif quasi.grid == "auto" and kind.dated:
            notes.append(
                f"{field.name}: grid: auto publishes days as they are in ranges below 310 days (instants: seconds in"
                " ranges below 10), so their ends are people's own. A grid (month, year...) hides them."
            )
        elif quasi.grid == "auto":
            notes.append(
                f"{field.name}: grid: auto publishes whole numbers (and the last digit of a decimal) as they are in"
                " ranges below 20 units, so their ends are people's own values, and so is a range of width 0. A fixed"
                " grid (grid: 5) hides them."
            )
    return tuple(notes)
