"""How much of a run was followed to the people who stand in it, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

FULL = 1000


@dataclass(frozen=True)
class FollowedShare:
    """Of groups, people and rows the share that was followed, in tenths of a percent, rounded down.

    Without cohorts that last everything is: each row was held against all records that may stand behind it.
    """

    groups: int = FULL
    people: int = FULL
    rows: int = FULL

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.least() >= FULL

    def least(self) -> int:
        """The smallest of the three."""
        return min(self.groups, self.people, self.rows)

    def told(self) -> str:
        """The end of a sentence that begins with what came of the audit."""
        groups, people, rows = (f"{each / 10:.1f}%" for each in (self.groups, self.people, self.rows))
        return (
            f"{groups} of the groups, {people} of the people and {rows} of the rows were followed to the only cohorts "
            "that can have them, and of the others it is not known who stands in them"
        )


WHOLE = FollowedShare()


def share(followed: int | None, total: int | None) -> int:
    """``followed`` of ``total`` in tenths of a percent, rounded down; None: nothing was followed."""
    if not total:
        return FULL
    return (followed or 0) * FULL // total
