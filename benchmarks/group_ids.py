"""What does ``publish_group`` hand to a reader who does not link groups of different releases today?

Data: the first days of sparkov (``--days``), policy ``sparkov`` with ``cohort: lasting``, k = 5, cohorts of 5 and of
10, in windows of a day and of a week; the product's own step, default effort. The transaction's number is published
too, for the truth's sake; no reader sees it.

The reader takes a group of a release and looks for the same cohorts in all others: by equal boxes, which he has
today, or by the id. Groups again: share of the groups whose set of cohorts is that of a group of another release.
Right: of all pairs of groups of two releases that he takes for the same cohorts, the share that are. Rows of the
person: who knows whose one row is finds so many of the person's other rows in the groups that he follows, on average,
and they are such a share of the rows that he follows.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data_sets import SPARKOV, WEEK_MS, MissingDataError, data_path, read_feed
from benchmarks.lasting_attacks import TAG, Ours, lasting_policy, released, truth_of
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.published_group import GROUP_ID, PublishedGroup

COLUMNS = (
    "windows", "cohorts of", "groups", "groups again %", "reader", "right %", "rows of the person %",
    "of what he follows %",
)  # fmt: skip


class Shown(NamedTuple):
    """A group of a release. cohorts: of everybody with rows in it. people: of each row. keys: by reader."""

    release: int
    cohorts: frozenset[int]
    people: tuple[int, ...]
    keys: Mapping[str, Hashable]


def policy_of(window: str, size: int) -> Policy:
    """Sparkov with ids of groups."""
    policy = replace(lasting_policy(), cohort_size=size, publish_group=PublishedGroup("a benchmark"))
    return replace(policy, window_ms=WEEK_MS, max_delay_ms=2 * WEEK_MS) if window == "week" else policy


def groups_of(ours: Ours, owner: Mapping[str, int], quasis: Sequence[str]) -> list[Shown]:
    """All groups of all releases."""
    found = []
    for release, rows in enumerate(ours.rows):
        own: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            own[row["class_id"]].append(row)
        for each in own.values():
            people = tuple(owner[row[TAG]] for row in each)
            keys = {"equal boxes": repr([each[0][name] for name in quasis]), "the id": each[0][GROUP_ID]}
            found.append(Shown(release, frozenset(ours.cohort[list(people)].tolist()), people, keys))
    return found


def followed(groups: Sequence[Shown], reader: str) -> tuple[float, float, float]:
    """Right pairs, and of a random row's person the share of its other rows that are followed, and their share."""
    by_key: dict[Hashable, list[Shown]] = defaultdict(list)
    rows_of: dict[int, int] = defaultdict(int)
    for group in groups:
        by_key[group.keys[reader]].append(group)
        for person in group.people:
            rows_of[person] += 1
    pairs = right = 0
    found, among = [], []
    for own in by_key.values():
        for place, one in enumerate(own):
            for other in own[place + 1 :]:
                pairs += one.release != other.release
                right += one.release != other.release and one.cohorts == other.cohorts
        everybody = np.array([person for group in own for person in group.people])
        for person, count in zip(*np.unique(everybody, return_counts=True), strict=True):
            if rows_of[int(person)] > 1:
                found += [(count - 1) / (rows_of[int(person)] - 1)] * int(count)
                among += [(count - 1) / max(everybody.size - 1, 1)] * int(count)
    return right / max(pairs, 1), float(np.mean(found)), float(np.mean(among))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description="Ids of groups, before a reader who does not link.")
    parser.add_argument("--days", type=int, default=28, help="days of sparkov")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("group_ids", __doc__ or "")
    table = findings.table("Sparkov, k = 5", COLUMNS)
    for window in ("day", "week"):
        for size in (5, 10):
            try:
                feed = read_feed(
                    data_path(SPARKOV), policy_of(window, size), days=arguments.days, lasting=True
                )
            except MissingDataError as missing:
                findings.skipped.append(str(missing))
                return publish(findings, arguments, begun)
            names, truth, _ = truth_of(feed)
            quasis = [column.published_name for column in feed.bound.quasis]
            groups = groups_of(released(feed, names), truth.owner, quasis)
            releases: dict[frozenset[int], set[int]] = defaultdict(set)
            for group in groups:
                releases[group.cohorts].add(group.release)
            again = np.mean([len(releases[group.cohorts]) > 1 for group in groups])
            for reader in ("equal boxes", "the id"):
                figures = (100 * each for each in followed(groups, reader))
                table.rows.append((window, size, len(groups), 100 * float(again), reader, *figures))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
