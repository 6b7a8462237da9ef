"""What a wrong line of states made and was settled since: its rows stand in what is published, so they count no more.

A release is withheld where it does not go on from what is published, and its partition is parked: another line of
states made it, of rows that the published line holds as well. Who removes the mark says that the right state goes on.
That line accounts for every row by itself (released, rejected or waiting), so once it has come as far as the withheld
release, that one's rows are in its books. What was withheld is settled with them, whatever rows it was made of; an
audit that holds the input against releases would miss a row that is in neither.

Nor does what a wrong line rejected beside it count. Each start of a stream's job is a line of states in each partition
(``states`` in rejected.avsc). One whose releases were withheld there, and that has published none, was wrong there; it
is settled once the published line has come as far as all that it made. A line that has published something there never
is: what it rejected before may be in no other books.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


def version_name(release_id: str, digest: str) -> str:
    """Which release of an id, where there were two."""
    return f"{release_id}-{digest}"


def states_name(partition: str, job_start: int) -> str:
    """A line of states of a partition, whose key is given in hexadecimal."""
    return f"{partition}-{job_start}"


class Settled(NamedTuple):
    """releases: by ``version_name``, those that are out, and those that were withheld and are settled. lines: those
    that were wrong and are settled, by ``states_name``."""

    releases: frozenset[str]
    lines: frozenset[str]


NOTHING_SETTLED = Settled(frozenset(), frozenset())


def settled_releases(records: Iterable[Mapping[str, Any]], parked: Container[str], *, ended: bool) -> Settled:
    """What is settled.

    records: of metrics.avsc, of a whole output. parked: the partitions that are parked, as the records name them.
    ended: whether the feed has ended, after which the published line holds nothing back. O(records).
    """
    every = list(records)
    digested = [record for record in every if record.get("digest")]
    out = [record for record in digested if record.get("released", True)]
    newest: dict[str, Any] = {}
    for record in out:
        before = newest.setdefault(record["partition"], record["window_end"])
        if before is not None and record["window_end"] is not None:
            newest[record["partition"]] = max(before, record["window_end"])

    def passed(record: Mapping[str, Any]) -> bool:
        partition, end = record["partition"], record["window_end"]
        if partition in parked:
            return False
        last = newest.get(partition)
        return ended or (last is not None and end is not None and last >= end)

    withheld = [record for record in digested if not record.get("released", True)]
    releases = [*out, *(record for record in withheld if passed(record))]
    wrong = {_states(record) for record in withheld} - {_states(record) for record in out}
    if wrong:
        wrong -= {_states(record) for record in every if not passed(record)}
    return Settled(
        frozenset(version_name(record["release_id"], record["digest"]) for record in releases),
        frozenset(states_name(*each) for each in wrong),
    )


def _states(record: Mapping[str, Any]) -> tuple[str, int]:
    return record["partition"], record.get("job_start", 0)


@dataclass
class RejectedParts:
    """Which of the rejected rows in several files count: each once, and none that is settled.

    A part in two files came again from an older checkpoint, the same rows. Where a line met it that is not settled, it
    counts. ``meet`` every record first where there are settled lines; then ask ``counts``.
    """

    settled: Settled
    _file_of: dict[str, str] = field(default_factory=dict)

    def meet(self, record: Mapping[str, Any], file: str) -> None:
        """A record of rejected.avsc in a file."""
        part = record.get("part")
        if part is not None and record.get("states") not in self.settled.lines:
            self._file_of.setdefault(part, file)

    def counts(self, record: Mapping[str, Any], file: str) -> bool:
        """Whether it counts in this file."""
        part = record.get("part")
        if part is None:
            return True
        if part in self.settled.releases:
            return False
        if record.get("states") in self.settled.lines:
            return self._file_of.get(part) == file
        return self._file_of.setdefault(part, file) == file
