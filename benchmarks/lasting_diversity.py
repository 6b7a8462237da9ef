"""What do rules for sensitive values cost under ``cohort: lasting``, and what does a reader who links make of them?

Data: the first 28 days of sparkov (``--days``), policy ``sparkov`` with ``cohort: lasting``, k = 5, cohorts of 5, no
partitions, in windows of a day and of a week; the product's own step, one thread, default effort. The transaction's
number is published too, for the truth's sake; no reader sees it. Each rule is met per release (cohorts are merged
further), and counted per epoch (nothing is done for it).

GCP: as published, by rows. Rejected: all reasons, as a share of the feed's rows; not diverse: of these, where all
cohorts of a window together do not meet the rule. Groups that break it: counted here from the released rows. Cohort
found: the reader links all rows of a person over all releases, and takes for its cohort, of all who are ever there
together with it, whoever never is in another group then; share of the people of whom he is right. People failing:
share of the people whose cohort's rows over the epoch do not meet the rule, which is what he then reads. Time:
CPU us a row, without reading the feed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import SPARKOV, WEEK_MS, Feed, MissingDataError, data_path, read_feed
from benchmarks.diversity import broken
from benchmarks.lasting_attacks import SECRET, TAG, Ours, lasting_policy, shown, truth_of
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Per
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep

WEEK, DAY = "week", "day"
CASES: tuple[tuple[str, str, str, float], ...] = (
    (DAY, "merchant", "frequency", 4),
    (DAY, "category", "distinct", 2),
    (DAY, "category", "equal", 0.3),
    (DAY, "category", "frequency", 2),
    (WEEK, "category", "distinct", 4),
    (WEEK, "category", "entropy", 3),
    (WEEK, "category", "equal", 0.3),
)
COLUMNS = (
    "windows", "field", "rule", "per", "rows", "gcp", "rejected %", "not diverse %", "groups", "that break it %",
    "cohort found %", "people failing %", "us/row",
)  # fmt: skip


def policy_of(window: str, name: str, kind: str, limit: float, per: Per) -> Policy:
    """Sparkov with cohorts that last, and a rule for a field."""
    policy = lasting_policy()
    if window == WEEK:
        policy = replace(policy, window_ms=WEEK_MS, max_delay_ms=2 * WEEK_MS)
    close = kind == "equal"
    rule = {"distance": kind, "t": limit} if close else {"kind": kind, "l": limit}
    plain = to_mapping(policy)
    key = "closeness" if close else "diversity"
    plain["fields"][name] = {**plain["fields"][name], "role": "sensitive", key: rule | {"per": str(per)}}
    return parse_policy(plain, "sparkov", "sparkov")


def found_cohorts(ours: Ours, owner: dict[str, int]) -> float:
    """Share of the people of whose cohort are exactly those, of all whom they meet, who are never in another group."""
    people = ours.cohort.size
    apart, met = np.zeros((2, people, people), dtype=np.bool_)
    for rows in ours.rows:
        group = np.full(people, -1, dtype=np.int64)
        number: dict[int, int] = {}
        for row in rows:
            group[owner[row[TAG]]] = number.setdefault(row["class_id"], len(number))
        here = np.flatnonzero(group >= 0)
        met[np.ix_(here, here)] = True
        apart[np.ix_(here, here)] |= group[here, None] != group[None, here]
    own: NDArray[np.bool_] = ours.cohort[:, None] == ours.cohort[None, :]
    right = ((~apart == own) | ~met).all(axis=1)
    return float(right[met.any(axis=1)].mean())


def groups_of(ours: Ours, name: str, kind: str, limit: float) -> tuple[int, int]:
    """Groups of all releases, and those that break a rule in theirs."""
    groups = broke = 0
    for rows in ours.rows:
        labels = np.unique([row["class_id"] for row in rows], return_inverse=True)[1].astype(np.int32)
        values = np.unique([row[name] for row in rows], return_inverse=True)[1]
        groups += int(labels.max()) + 1
        broke += broken(labels, values, kind, limit)
    return groups, broke


def course(feed: Feed, case: tuple[str, str, str, float], per: Per) -> tuple[object, ...]:
    """A line."""
    window, name, kind, limit = case
    names, truth, _ = truth_of(feed)
    partition = PartitionInMemory(PartitionStep(feed.bound, SECRET, 1, epoch=1), b"one partition")
    for each in feed.windows:
        partition.arrive(each.number, each.rows)
    begun = time.process_time()
    results = list(partition.finish())
    taken = time.process_time() - begun
    ours = shown(results, names)
    groups, broke = groups_of(ours, name, kind, limit)
    rows = sum(each.rows.num_rows for each in feed.windows)
    out = [result.metrics for result in results if result.metrics["released"]]
    released = sum(each["rows_released"] for each in out)
    rejected: dict[str, int] = {}
    for result in results:
        for reason, count in result.metrics["rows_rejected"].items():
            rejected[reason] = rejected.get(reason, 0) + count
    told = out[-1]["epoch_diversity"][f"{name}.{kind}"] if out else {"people": 0, "people_counted": 1}
    return (
        window,
        name,
        f"{kind} {limit:g}",
        str(per),
        rows,
        sum(each["gcp"] * each["rows_released"] for each in out) / max(released, 1),
        100 * sum(rejected.values()) / rows,
        100 * rejected.get("not_diverse", 0) / rows,
        groups,
        100 * broke / max(groups, 1),
        100 * found_cohorts(ours, truth.owner) if out else None,
        100 * told["people"] / told["people_counted"],
        1e6 * taken / rows,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description="Rules for sensitive values with cohorts that last.")
    parser.add_argument("--days", type=int, default=28, help="days of sparkov")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("lasting_diversity", __doc__ or "")
    table = findings.table("Sparkov, k = 5, cohorts of 5", COLUMNS)
    for case in CASES:
        for per in Per:
            try:
                feed = read_feed(data_path(SPARKOV), policy_of(*case, per), days=arguments.days, lasting=True)
            except MissingDataError as missing:
                findings.skipped.append(str(missing))
                return publish(findings, arguments, begun)
            table.rows.append(course(feed, case, per))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
