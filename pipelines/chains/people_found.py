"""Whom a run that continues another finds in its input, and whether they can be the same people.

Judged before anything is written: people who are not known again enter a second time, and what both places publish of
them is not covered together. Counts of them are for restricted/run.json and the terminal, never for public files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LEAST_SHARE = 0.05
"""Of an input's people, those who are known; below it they are not the people of the roster, or not their ids."""

LEAST_ROSTER = 50
"""People of a roster from which on a share says something."""

LEAST_PEOPLE = 20
"""People of an input from which on a share says something: a twentieth of fewer is less than one person, and a file of
some mended rows may well have newcomers only."""


class StrangePeopleError(Exception):
    """The people of an input are not those that its run is to know; the message has counts and the likely cause."""

    exit_code = 3


@dataclass(frozen=True)
class PeopleFound:
    """known: people of the roster. here: of those, with a row in the input. new: others with a row in it.

    otherwise: by difference, new people among those tried who are known in another spelling. tried: how many were.
    part: whether only the beginning of the input was read.
    """

    known: int
    here: int
    new: int
    otherwise: Mapping[str, int] = field(default_factory=dict)
    tried: int = 0
    part: bool = False

    def line(self) -> str:
        """For the terminal: of a run over files at its end, of a feed that goes on before it begins."""
        if self.part:
            return (
                f"Of {self.known:,} known people {self.here:,} have rows in what is there of the feed now, where"
                f" {self.new:,} others are new."
            )
        away = self.known - self.here
        return f"Of {self.known:,} known people {self.here:,} were here, {away:,} not, {self.new:,} new."

    def record(self) -> dict[str, Any]:
        """For run.json."""
        return {name: value for name, value in asdict(self).items() if name in ("known", "here", "new")}

    def refusal(self, directory: str, individual: str) -> StrangePeopleError | None:
        """Why a run must not begin with these people; None: it may.

        Two signs: hardly anybody is known though there is a roster to know them by; or of those who would be new more
        than a twentieth are known in another spelling. Why the second: four of a thousand ids that lost a leading zero
        are four people with two places each, and known by that.
        """
        people = self.here + self.new
        comparable = self.known >= max(people, LEAST_ROSTER) and people >= LEAST_PEOPLE
        strange = comparable and self.here < LEAST_SHARE * people
        spelled = sum(self.otherwise.values())
        if not strange and spelled <= LEAST_SHARE * self.tried:
            return None
        of = "people in the input's beginning" if self.part else "people of the input"
        reason = f"{self.here:,} of {people:,} {of} are known, where {self.known:,} people entered"
        if spelled:
            how = ", ".join(f"{name} {count:,}" for name, count in sorted(self.otherwise.items()))
            of_new = (
                f"{self.tried:,} new ones" if self.tried == self.new else f"{self.tried:,} new ones tried"
            )
            reason += f"; of {of_new} {spelled:,} are known in another spelling ({how})"
            cause = (
                f"Write {individual} as it was written there; a chain that begins with as: long under {individual} in"
                " the policy reads whole numbers in text whatever their zeros and fractions"
            )
        else:
            cause = f"Most likely {individual} is written otherwise than there, or is another field"
        return StrangePeopleError(
            f"--continue {directory}: {reason}. Who is not known enters a second time, and what is published of one"
            f" person under two places is not covered together. {cause}. If these are other people indeed, say"
            " --people-changed. Nothing was released"
        )


def people_of_record(told: Any) -> PeopleFound | None:
    """What run.json holds of it; None: nothing."""
    if not isinstance(told, Mapping):
        return None
    return PeopleFound(int(told["known"]), int(told["here"]), int(told["new"]))
