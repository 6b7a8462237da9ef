"""A shard that was split between two runs of a chain: what it left is what its parts began with, divided.

    plan      the second plan is the first one's, and splits that begin with the second run
    cohorts   those of the shard, each in one part, with its people, its release and its box
    pool      who waited for an intake, each in one part; rows that waited as well; the parts have the shard's clock

Which part each belongs in is judged with the cohorts of the run itself (lasting/shards.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.audit.read.carried_state import CAME, carried_facts, carried_rows, clock_in
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import inherited_segments, told_segments


class SplitLink(NamedTuple):
    """A shard that was split: its key, and those of its parts."""

    shard: str
    parts: tuple[str, ...]


def splits_between(before: Path, after: Path, place: int | None) -> tuple[SplitLink, ...] | None:
    """What the run in ``after`` split of what that in ``before`` left; None: its plan is another one.

    place: of the second run in the chain."""
    one, other = _plan(before), _plan(after)
    if one == other:
        return ()
    if not isinstance(other, dict) or place is None:
        return None
    try:
        old = {} if one is None else dict(one)
        splits = old.get("splits", [])
        new = other["splits"][len(splits) :]
        if one is None:
            # What was in one piece is put down as such.
            follows = all(cut.get("whole") is True and len(cut["keys"]) == 1 for cut in other["partitions"])
        else:
            names = (old.keys() | other.keys()) - {"kanonflow_plan", "splits"}
            follows = all(old.get(name) == other.get(name) for name in names)
        follows = follows and other["splits"][: len(splits)] == splits and len(new) > 0
        if not follows or any(split["place"] != place for split in new):
            return None
        keys = [list(cut["keys"]) for cut in other["partitions"]]
        links = []
        for number, split in enumerate(other["splits"]):
            own = keys[split["partition"]]
            if number >= len(splits):
                links.append(SplitLink(own[split["shard"]], tuple(split["keys"])))
            own += split["keys"]
    except (KeyError, TypeError, IndexError, AttributeError):
        return None
    return tuple(links)


def judge_split(pair: str, before: Path, after: Path, split: SplitLink, findings: Findings) -> None:
    """pair: what the two runs are called."""
    try:
        there = [(each.release, each.cohorts) for each in told_segments(before, split.shard)]
        here = [
            (each.release, each.cohorts)
            for part in split.parts
            for each in told_segments(after, part)[: inherited_segments(after, part)]
        ]
        same = _by_release(there) == _by_release(here)
    except (ValueError, KeyError, TypeError):
        same = False
    if not same:
        findings.add(f"{pair}: the cohorts of a shard that was split are not those that its parts began with")
    _judge_carried(pair, before, after, split, findings)


def _by_release(segments: Sequence[tuple[str, Counter[Any]]]) -> Mapping[str, Counter[Any]]:
    by_release: dict[str, Counter[Any]] = {}
    for release, cohorts in segments:
        by_release[release] = by_release.get(release, Counter()) + cohorts
    return by_release


def _judge_carried(pair: str, before: Path, after: Path, split: SplitLink, findings: Findings) -> None:
    left = before / "restricted" / "carried" / f"{split.shard}.state"
    came = [after / "restricted" / "cohorts" / part / CAME for part in split.parts]
    if [path.is_file() for path in came] != [left.is_file()] * len(came):
        findings.add(f"{pair}: what a shard carried over is not what its parts began with")
        return
    if not came or not left.is_file():
        return
    try:
        pools = [carried_facts(path)[1] for path in (left, *came)]
        rows = [carried_rows(path) for path in (left, *came)]
        clocks = {clock_in(path) for path in (left, *came)}
    except ValueError:
        findings.add(f"{pair}: what a shard that was split carried over is damaged")
        return
    pool, parts = pools[0], np.concatenate(pools[1:])
    if len(np.unique(parts)) < len(parts):
        findings.add(f"{pair}: people of a pool wait in two parts of the shard that was split")
    if not np.array_equal(np.sort(pool), np.unique(parts)):
        findings.add(f"{pair}: the pool of a shard that was split is not that of its parts")
    together: Counter[str] = sum(rows[1:], Counter())
    if rows[0] != together:
        other = (rows[0] - together).total() + (together - rows[0]).total()
        findings.add(
            f"{pair}: {other} rows that waited in a shard that was split are in no part of it, or more than once"
        )
    if len(clocks) > 1:
        findings.add(f"{pair}: the parts of a shard that was split began with another clock")


def earlier_segments(first: Path, last: Path, part: str) -> int:
    """How many of the first segments of a part had come before the first of several runs; last: the last of them.

    Raises ValueError: a segment is damaged."""
    releases = {
        each.release
        for folder in (first / "restricted" / "cohorts").glob("*/")
        for each in told_segments(first, folder.name)[: inherited_segments(first, folder.name)]
    }
    count = 0
    for each in told_segments(last, part):
        if each.release not in releases:
            break
        count += 1
    return count


def _plan(folder: Path) -> Any:
    path = folder / "restricted" / "plan.json"
    try:
        return json.loads(path.read_bytes()) if path.is_file() else None
    except ValueError:
        return path.read_bytes()
