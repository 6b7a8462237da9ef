"""What ``protect: row`` does not cover, in words for ``policy check``: the promise that is easily taken for more."""

from __future__ import annotations

from kanonflow.schemas.policy import Policy, Protection


def row_mode_notes(policy: Policy) -> tuple[str, ...]:
    """A sentence for each thing that a policy with ``protect: row`` leaves open; none for other policies."""
    if policy.protect is not Protection.ROW:
        return ()
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
