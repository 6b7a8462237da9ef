"""Each row by itself: a row stands for k of them."""

from __future__ import annotations

from collections.abc import Iterator

from kanonflow.schemas.policy_parts import PolicyParts
from kanonflow.schemas.promises.promise import Alternative, Promise, left_out


class Row(Promise):
    """``protect: row``, also where rows are in closed classes, for rules of sensitive values or levels."""

    protect = "row"
    whose, units = "record", "rows"
    of_people = False
    candidates = "By person: people in the slots of all of its rows, in one release"

    def said(self, k: int) -> str:
        """As of ``Promise``."""
        return (
            f"In each release every row stands for {k} records: its payload stands on each of {k} boxes with"
            f" probability exactly 1/{k}, for a reader who has the attributes of everybody at hand and knows the"
            " method to the letter."
        )

    def limits(self, k: int) -> tuple[str, ...]:
        """As of ``Promise``."""
        return (
            "Rows of one person that the payload links, in one release or over several, are not covered: often one"
            " person alone lies in all of their boxes.",
        )

    def covered(self, policy: PolicyParts) -> tuple[str, ...]:
        """As of ``Promise``."""
        return (
            "protect: row. To somebody who knows all quasi-identifiers, a record is the origin of a single row"
            " with a probability of at most 1/k.",
            "It does not cover several rows of one individual that their payload links (together they can have"
            " fewer than k candidates), nor how many rows an individual has.",
            *_of_people(policy.owner),
            *self.warnings(policy),
        )

    def warnings(self, policy: PolicyParts) -> tuple[str, ...]:
        """What k = 2 leaves.

        Why it is no mistake: without known matches each row is on each of its two boxes with probability 1/2 exactly.
        """
        if policy.k != 2:
            return ()
        return (
            "k is 2 with protect: row. Every row then has one other place only: whoever knows a single match, his own"
            " row for instance, settles every row of its ring, all edges of which are tied. Nobody may know any. Take"
            " k = 5 or more, or protect: individual.",
        )

    def alternatives(self, policy: PolicyParts) -> Iterator[Alternative]:
        """One, of any policy."""
        gone = {"cohort": None, **left_out(policy)}
        change = {} if policy.promise is self else {"protect": self.protect, **gone}
        whom = "people" if policy.owner else "rows"
        told = f"a row by itself is one of {policy.k} {whom}'s; fewer to who links rows"
        yield Alternative("row", change, told)


def _of_people(owner: tuple[str, ...]) -> tuple[str, ...]:
    """owner: the field that names people, if there is one."""
    single = (
        "What holds for a single row, P(it belongs to u) <= 1/k, does not hold for two: whoever can tell by the"
        " payload that r rows are one person's looks for those who are candidates of all of them, and they may be fewer"
        " than k, down to one."
    )
    counts = (
        "How many rows a person has is not hidden: somebody who knows the number, or sees that one person has most of"
        " them, can use it."
    )
    for name in owner:
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
