"""Closed classes of people, anew in each window."""

from __future__ import annotations

from collections.abc import Iterator

from kanonflow.schemas.policy_parts import PolicyParts
from kanonflow.schemas.promises.promise import Alternative, Promise, left_out


class Window(Promise):
    """``protect: individual`` with ``cohort: window``."""

    protect, cohort = "individual", "window"
    candidates = "By person: people of its class, in one release"
    no_plan = (
        "With cohort: window rows of a person may have other values within a window, and he would be in two of its"
        " shards; max_window_rows parts such a window"
    )

    def said(self, k: int) -> str:
        """As of ``Promise``."""
        return (
            f"In each release people form closed classes of {k} or more. All rows of a class carry one box, every"
            f" number of rows that occurs is shared by {k} people of the class, and payloads are shuffled within it."
            f" So any set of rows of one release, linked or not, is a given person's with probability at most 1/{k}."
        )

    def limits(self, k: int) -> tuple[str, ...]:
        """As of ``Promise``."""
        return (
            "Each release is promised alone. What several of them tell together of a person who comes back is not"
            " covered: classes are formed anew in each.",
        )

    def covered(self, policy: PolicyParts) -> tuple[str, ...]:
        """As of ``Promise``."""
        return (
            "protect: individual. Any set of rows of one release, linked or not, belongs to a given individual"
            " with a probability of at most 1/k.",
            "It does not cover payload that itself tells whose it is (free text, account numbers, exact places),"
            " nor what several releases tell together about an individual whose class changes between them.",
        )

    def alternatives(self, policy: PolicyParts) -> Iterator[Alternative]:
        """One, of policies with people."""
        change = (
            {} if policy.promise is self else {"protect": None, "cohort": self.cohort, **left_out(policy)}
        )
        told = f"all rows of a person in a release are one of {policy.k} people's or more; fewer to who links releases"
        if policy.owner:
            yield Alternative("window", change, told)
