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


def singling_out_note(policy: Policy) -> str:
    """What lowers the rates at which a box and one detail of it are one person's (``kanonflow assess``)."""
    kinds = [
        (field.name, quasi, KINDS[quasi.type])
        for field in policy.quasis
        if (quasi := field.quasi) is not None
    ]
    sets = [name for name, quasi, kind in kinds if not kind.in_ranges and kind.tree(quasi) is None]
    return (
        "Somebody can be singled out without a name: a box with one value of its set, or with the end of its range, is"
        " often one person's (kanonflow assess counts it). What lowers that: a coarser grid for ranges, type: hierarchy"
        f" for {', '.join(sets) or 'sets'}, whose first level are blocks of 5 of a closed list, and a larger"
        f" {'cohort_size' if policy.cohort_size else 'k'}."
    )
