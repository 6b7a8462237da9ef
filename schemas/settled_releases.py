"""Which withheld releases are settled: their rows stand in what was published since, so they are no rejected ones.

A release is withheld where it does not go on from what is published, and its partition is parked: another line of
states made it, of rows that the published line holds as well. Who removes the mark says that the right state goes on.
That line accounts for every row by itself (released, rejected or waiting), so once it has come as far as the withheld
release, that one's rows are in its books. What was withheld is settled with them, whatever rows it was made of; an
audit that holds the input against releases would miss a row that is in neither.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any


def version_name(release_id: str, digest: str) -> str:
    """Which release of an id, where there were two."""
    return f"{release_id}-{digest}"


def settled_releases(
    records: Iterable[Mapping[str, Any]], parked: Container[str], *, ended: bool
) -> frozenset[str]:
    """Releases (``version_name``) whose rows are no rejected ones: those that are out, and those that are settled.

    records: of metrics.avsc, of a whole output. parked: the partitions that are parked, as the records name them.
    ended: whether the feed has ended, after which the published line holds nothing back. O(records).
    """
    told = [record for record in records if record.get("digest")]
    out = [record for record in told if record.get("released", True)]
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

    settled = [record for record in told if not record.get("released", True) and passed(record)]
    return frozenset(version_name(record["release_id"], record["digest"]) for record in (*out, *settled))
