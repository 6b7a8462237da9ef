"""What promises do not cover, in words for ``policy check``: row mode, ends of ranges, which are taken for more."""

from __future__ import annotations

from kanonflow.schemas.policy import Policy, Protection


def row_mode_notes(policy: Policy) -> tuple[str, ...]:
    """A sentence for each thing that a policy with ``protect: row`` leaves open; none for other policies."""
    if policy.protect is not Protection.ROW:
        return ()
    return (*_of_people(policy), *two_candidates_warning(policy))


def two_candidates_warning(policy: Policy) -> tuple[str, ...]:
    """What k = 2 leaves in row mode, for ``policy check`` and for runs; nothing for other policies.

    Why it is no mistake: without known matches each row is on each of its two boxes with probability 1/2 exactly.
    """
    if policy.protect is not Protection.ROW or policy.k != 2:
        return ()
    return (
        "k is 2 with protect: row. Every row then has one other place only: whoever knows a single match, his own row"
        " for instance, settles every row of its ring, all edges of which are tied. Nobody may know"
        " any. Take k = 5 or more, or protect: individual.",
    )


def ends_of_ranges_notes(policy: Policy) -> tuple[str, ...]:
    """A sentence for each field whose ends of ranges are people's own values, always or where ranges are narrow."""
    notes = []
    for field in policy.quasis:
        quasi = field.quasi
        if quasi is None or quasi.type not in ("numeric", "date"):
            continue
        if quasi.grid == "exact":
            notes.append(f"{field.name}: grid: exact publishes people's own values as ends of ranges.")
        elif quasi.grid == "auto" and quasi.type == "date":
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


def _of_people(policy: Policy) -> tuple[str, ...]:
    single = (
        "What holds for a single row, P(it belongs to u) <= 1/k, does not hold for two: whoever can tell by the"
        " payload that r rows are one person's looks for those who are candidates of all of them, and they may be fewer"
        " than k, down to one."
    )
    counts = (
        "How many rows a person has is not hidden: somebody who knows the number, or sees that one person has most of"
        " them, can use it."
    )
    if policy.individual is not None:
        name = policy.individual.name
        return (
            f"Slots hold k distinct values of {name}, and the promise is still about rows. {single} The metrics say how"
            " far that goes (linked_candidates).",
            f"{counts} To protect all rows of {name} together, leave protect out or say protect: individual.",
        )
    return (
        "No individual: every row counts as a person of its own. If one person can have several rows, k rows of a slot"
        " may be fewer than k people, even one, and then its row is not hidden at all: name the field that tells whom a"
        " row belongs to (role: individual).",
        f"{single} {counts}",
    )
