"""The input of a run that continues another, judged before anything of it is written.

Three questions: is an id what it was there (``individual_type``), has the chain read these files (``read_before``), and
are these its people (``people_found``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.chains import read_before
from kanonflow.pipelines.chains.continued_run import ContinueError, EarlierRun, known_people
from kanonflow.pipelines.chains.people_found import PeopleFound
from kanonflow.transforms.secret.seeds import Secret, people_key


@dataclass(frozen=True)
class ContinuingInput:
    """What is asked of an input, and what the user says of it.

    people: sorted digests of whom the roster knows, their key, and the position that a feed is read on behind, to who
        of them is in the input; None: that cannot be told before the run.
    has_rows: whether a file of the input, by name, has any. arrived: of a directory that a feed arrives in, the files
        that are there, as records for run.json; they are read beside those that run.json names.
    individual_type: as --individual-type says of the run before. people_changed: other people are meant.
    """

    people: Callable[[NDArray[np.uint64], bytes, str], PeopleFound | None]
    has_rows: Callable[[str], bool]
    arrived: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    individual_type: str | None = None
    people_changed: bool = False


class Judged(NamedTuple):
    """read: for run.json, what the chain has read before this run. people: who was found. blind: which of its rows it
    would not know."""

    read: read_before.Files
    people: PeopleFound | None
    blind: str

    def notes(self) -> tuple[str, ...]:
        """What to tell before the run: which rows it would not know, and of a feed that goes on, for which no count at
        its end is made, whom."""
        blind = (self.blind,) if self.blind and self.read else ()
        return (*blind, self.people.line()) if self.people is not None and self.people.part else blind

    def record(self) -> dict[str, Any]:
        """For run.json."""
        whole = self.people is not None and not self.people.part
        return {read_before.KEY: self.read} | (
            {"people": self.people.record()} if whole and self.people else {}
        )


def judge(
    earlier: EarlierRun,
    inputs: Sequence[Mapping[str, Any]],
    secret: Secret,
    asked: ContinuingInput | None,
    begins: str = "",
) -> Judged:
    """Judge the input of the run that continues another. inputs: for its run.json, contents keyed with ``secret``.

    begins: of a stream, the position behind what the chain has read of its feed.

    Raises ContinueError: files were read before. StrangePeopleError: hardly anybody is known.
    """
    read = read_before.read_by_chain(earlier.directory, earlier.record)
    blind = read_before.by_whole_files(earlier.bound.policy)
    if asked is None:
        return Judged(read, None, blind)
    files = [*inputs, *(read_before.keyed(each, secret) for each in (asked.arrived() if read else ()))]
    files = [each for each in files if "content" in each]
    if again := read_before.read_again(read, files, asked.has_rows):
        raise ContinueError(read_before.refusal(earlier.directory, again, len(files)))
    if not earlier.bound.policy.promise.epochs:
        if asked.people_changed:
            raise ContinueError(
                "--people-changed: for a policy with cohort: lasting; this one hands on no people"
            )
        return Judged(read, None, blind)
    people = asked.people(known_people(earlier), people_key(secret), begins)
    if people is not None and not asked.people_changed:
        individual = earlier.record["cohorts"]["individual"]
        if (refusal := people.refusal(earlier.directory, individual)) is not None:
            raise refusal
    return Judged(read, people, blind)
