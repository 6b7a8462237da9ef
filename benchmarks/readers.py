"""Whom do readers leave who know more than the promise allows, and what do row counts, payload and absence tell?

Data: the first 91 days of sparkov (``--days``), in windows of a day, policy ``sparkov``, no partitions, k = 5, cohorts
of 5; the product's own step, one thread, default effort. The transaction's number is published too, for the truth's
sake; no reader sees it.

Readers (``schemas/readers.py``) know everybody's attributes, link all rows of a person, and know of one person what a
line names; its window is the release. Left: bundles of its cohort that fit, each as likely as any other
(``transforms/release/candidates_left.py``). Everybody counts once, by the share of its cases; *cases* are all windows
or purchases that there are. One left: the reader has the person's whole history.

Row counts: person-windows whose number of rows fewer than k people of the published group share; what ``cohort:
window`` hides. Shared payload: of each group of a window all rows have one value of a field, so it is certain for
everybody in it.

Absence: given a release of one day and everybody's attributes, was a person there? The reader counts the published rows
whose box holds the person and says yes from a number on. Advantage: share of those present of whom he says it, less
that of those absent; from k rows on, and from the number on that serves him best. Everybody of the 91 days is asked
about, in days spread over them; each day is released by itself, but with ``cohort: lasting`` taken from the course.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import SPARKOV, Feed, MissingDataError, Window, afresh, data_path, read_feed
from benchmarks.lasting_attacks import SECRET, TAG, K, Ours, lasting_policy, released, truth_of
from benchmarks.lasting_reader import Truth, holds
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.schemas.readers import Reader, standard_readers
from kanonflow.transforms.release.candidates_left import CohortRows, candidates_left
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep

DAYS_ASKED = 3
Rows = Sequence[Mapping[str, Any]]


def cohort_rows(ours: Ours, truth: Truth, payload: Sequence[str]) -> CohortRows:
    """All released rows, whose they are, and in which release."""
    rows = [row for release in ours.rows for row in release]
    return CohortRows(
        ours.cohort,
        np.array([truth.owner[row[TAG]] for row in rows], dtype=np.int64),
        np.repeat(np.arange(len(ours.rows)), [len(release) for release in ours.rows]),
        pa.table({name: [row[name] for row in rows] for name in payload}),
    )


def reader_rows(readers: Iterable[Reader], rows: CohortRows) -> Iterable[tuple[Any, ...]]:
    """A line a reader."""
    for reader in readers:
        found = candidates_left(reader, rows, 1)
        if found is not None:
            yield (
                reader.name, found.people, found.left.size, found.mean, 100 * found.below(K), 100 * found.alone,
                100 * found.cases_alone,
            )  # fmt: skip


def few_share_the_count(rows: Rows, truth: Truth, k: int) -> tuple[int, int, int]:
    """Person-windows of a release; of them those whose number of rows fewer than k people of the group have, and those
    whose number nobody else has."""
    counts: dict[Any, Counter[int]] = defaultdict(Counter)
    for row in rows:
        counts[row["class_id"]][truth.owner[row[TAG]]] += 1
    people = few = alone = 0
    for group in counts.values():
        sharing = Counter(group.values())
        people += len(group)
        few += sum(shared for shared in sharing.values() if shared < k)
        alone += sum(shared for shared in sharing.values() if shared == 1)
    return people, few, alone


def one_value(rows: Rows, field: str) -> tuple[int, int, int]:
    """Groups of a release, those whose rows all have one value of a field, and the rows of those."""
    values: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        values[row["class_id"]].append(row[field])
    same = [len(each) for each in values.values() if len(set(each)) == 1]
    return len(values), len(same), sum(same)


def rows_that_hold(rows: Rows, truth: Truth) -> NDArray[np.int64]:
    """Of each person, published rows whose box holds its attributes, int64 (p,)."""
    boxes: Counter[str] = Counter()
    of: dict[str, Mapping[str, Any]] = {}
    names = list(truth.values[0])
    for row in rows:
        box = {name: row[name] for name in names}
        boxes[repr(box)] += 1
        of[repr(box)] = box
    cells: dict[tuple[str, str], NDArray[np.bool_]] = {}
    held = np.zeros(len(truth.values), dtype=np.int64)
    for key, times in boxes.items():
        may = np.ones(len(truth.values), dtype=np.bool_)
        for name, cell in of[key].items():
            place = (name, repr(cell))
            if place not in cells:
                cells[place] = np.array([holds(cell, each[name]) for each in truth.values])
            may &= cells[place]
        held += times * may
    return held


def advantage(held: NDArray[np.int64], present: NDArray[np.bool_], least: int) -> float:
    """Share of the present with so many rows that hold them, less that of the absent."""
    yes = held >= least
    return float(yes[present].mean() - yes[~present].mean())


def best_advantage(held: NDArray[np.int64], present: NDArray[np.bool_]) -> float:
    """Under the number of rows that serves the reader best."""
    return max(advantage(held, present, int(least)) for least in np.unique(held))


def day_alone(bound: BoundPolicy, window: Window) -> Rows:
    """What one day is released as by itself."""
    partition = PartitionInMemory(PartitionStep(bound, SECRET, 1, epoch=1), b"one partition")
    partition.arrive(window.number, window.rows)
    return [
        row
        for result in partition.finish()
        if result.release
        for row in from_ipc(result.release.ipc).to_pylist()
    ]


def of_rows(policy: Policy) -> Policy:
    """The policy with ``protect: row``."""
    return dataclasses.replace(afresh(policy), protect=Protection.ROW, cohort=None)


def absence_rows(feed: Feed, ours: Ours, truth: Truth) -> Iterable[tuple[Any, ...]]:
    """A line a protection: means over the days asked about."""
    days = np.linspace(0, len(ours.rows) - 1, DAYS_ASKED + 2).astype(np.int64)[1:-1]
    policy = feed.bound.policy
    for told, changed in (
        ("protect: row", of_rows(policy)),
        ("cohort: window", afresh(policy)),
        ("cohort: lasting", None),
    ):
        found = []
        for day in days.tolist():
            if changed is None:
                rows: Rows = ours.rows[day]
            else:
                rows = day_alone(dataclasses.replace(feed.bound, policy=changed), feed.windows[day])
            there = np.zeros(len(truth.values), dtype=np.bool_)
            there[[truth.owner[row[TAG]] for row in rows]] = True
            held = rows_that_hold(rows, truth)
            found.append(
                (there.mean(), held[~there].mean(), advantage(held, there, K), best_advantage(held, there))
            )
        yield (told, len(found), *np.mean(np.array(found), axis=0).tolist())


def main(argv: list[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description="Readers who know more than the promise allows.")
    parser.add_argument("--days", type=int, default=91, help="days of sparkov")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("readers", __doc__ or "")
    try:
        feed = read_feed(data_path(SPARKOV), lasting_policy(), days=arguments.days, lasting=True)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    names, truth, _ = truth_of(feed)
    ours = released(feed, names)
    own = tuple(column for column in feed.bound.columns if column.name != TAG)
    published = dataclasses.replace(feed.bound, columns=own)
    payload = [column.name for column in published.payload]
    findings.table(
        f"Bundles left, k = {K}",
        (
            "the reader knows",
            "people",
            "cases",
            "left, mean",
            "below k %",
            "one left %",
            "of cases one left %",
        ),
        "The promise is for readers who know nothing of activity.",
    ).rows += reader_rows(standard_readers(published), cohort_rows(ours, truth, payload))
    counted = np.array([few_share_the_count(rows, truth, K) for rows in ours.rows]).sum(axis=0)
    findings.table(
        "Row counts", ("person-windows", f"shared by fewer than {K} %", "by nobody else %")
    ).rows.append((int(counted[0]), *(100 * counted[1:] / counted[0]).tolist()))
    shared = findings.table(
        "Payload that a whole group shares", ("field", "groups", "of one value %", "rows in them %")
    )
    total = sum(map(len, ours.rows))
    for name in payload:
        groups, same, rows = np.array([one_value(each, name) for each in ours.rows]).sum(axis=0).tolist()
        shared.rows.append((name, groups, 100 * same / groups, 100 * rows / total))
    findings.table(
        "Absence",
        (
            "protection",
            "days",
            "present",
            "rows that hold an absent person",
            f"advantage from {K} rows on",
            "at best",
        ),
    ).rows += absence_rows(feed, ours, truth)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
