"""What does it cost to leave k people to a reader who knows more (``against``), and what does he find?

Data: the first 91 days of sparkov (``--days``), policy ``sparkov`` with ``cohort: lasting``, k = 5, no partitions, in
windows of a day and of a week; the product's own step, one thread, default effort. The transaction's number is
published too, for the truth's sake; no reader sees it.

Beside it the whole of complete_journey in weeks and the demo's feed in days and weeks, under their example policies
with cohorts that last, each row with a number that is published for the truth's sake.

Dropped: rows rejected for good (``known_otherwise``), as a share of the feed's rows; GCP: as published, by rows.
Fewest left: of the people whom the clause's reader is tried on (``transforms/release/candidates_left.py``, which knows
nothing of what was dropped; who knows one window or row is tried with every one), once the people whom he knows are
taken away; below k: share of these people. Without a clause the same reader is tried on what goes out then.
State: bytes of the items that are kept, at the end. Time: CPU us a row, without reading the feed.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from benchmarks.data_sets import SPARKOV, WEEK_MS, Feed, MissingDataError, data_path, read_feed
from benchmarks.lasting import FEEDS, Source
from benchmarks.lasting_attacks import SECRET, TAG, K, lasting_policy, shown, truth_of
from benchmarks.readers import cohort_rows
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.release.candidates_left import candidates_left
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep

WEEK, DAY = "week", "day"
THREE = {"known_windows": {"count": 3, "drop": True}}
AND_ONE = THREE | {"known_people": 1}
BOUGHT = {"known_purchases": {"count": 1, "of": ["amt"], "drop": True}}
COARSE = {"round": 50, "top": 200}
CASES = (
    (WEEK, 10, THREE, {}),
    (WEEK, 10, AND_ONE, {}),
    (DAY, 10, THREE, {}),
    (DAY, 10, AND_ONE, {}),
    (DAY, 20, THREE, {}),
    (WEEK, 10, BOUGHT, COARSE),
    (WEEK, 10, THREE | BOUGHT, COARSE),
)
ONE = {"known_windows": {"count": 1, "drop": True}}
Cases = tuple[tuple[str, int, dict[str, Any], dict[str, Any]], ...]
OTHERS: dict[str, Cases] = {
    "complete_journey weeks": (
        (WEEK, 10, ONE, {}),
        (WEEK, 15, ONE, {}),
        (WEEK, 15, THREE, {}),
        (WEEK, 15, {"known_purchases": {"count": 1, "of": ["department"], "drop": True}}, {}),
    ),
    "demo": (
        (DAY, 10, ONE, {}),
        (DAY, 20, ONE, {}),
        (WEEK, 10, ONE | {"known_people": 1}, {}),
        (WEEK, 20, {"known_purchases": {"count": 1, "of": ["merchant_category"], "drop": True}}, {}),
    ),
}
"""Of the feeds of ``lasting``, by their names there."""
COLUMNS = (
    "windows", "cohorts of", "the reader knows", "rule", "rows", "dropped %", "rejected %", "gcp", "people tried",
    "fewest left", "below k %", "state bytes", "us/row",
)  # fmt: skip


def policy_of(window: str, size: int, against: dict[str, Any], amount: dict[str, Any]) -> Policy:
    """Sparkov with cohorts of a size, and a clause."""
    policy = lasting_policy()
    if window == WEEK:
        policy = dataclasses.replace(policy, window_ms=WEEK_MS, max_delay_ms=2 * WEEK_MS)
    plain = to_mapping(policy)
    plain["fields"]["amt"] = {**plain["fields"]["amt"], **amount}
    return parse_policy(plain | {"cohort_size": size, "against": against}, "sparkov", "sparkov")


def other_policy(source: Source, window: str, size: int, against: dict[str, Any]) -> Policy:
    """An example policy with cohorts of a size, a clause, and the number of each row."""
    plain = to_mapping(source.policy)
    plain["fields"] = {**plain["fields"], TAG: {"role": "insensitive"}}
    weeks = {"window": "1w", "max_delay": "2w"} if window == WEEK else {}
    cohorts = {"cohort": "lasting", "cohort_size": size, "against": against}
    return parse_policy({**plain, **weeks, **cohorts}, source.name, source.name)


def other_feed(source: Source, policy: Policy, folder: Path) -> Feed:
    """The whole feed, each row with a number of its own."""
    path = folder / "feed.csv"
    if not path.exists():
        numbers = pa.array(map(str, range(source.table.num_rows)), pa.string())
        pyarrow.csv.write_csv(source.table.append_column(TAG, numbers), path)
    return read_feed(path, policy, lasting=True)


def others(findings: Findings) -> None:
    """A table a feed."""
    for name, cases in OTHERS.items():
        try:
            source = FEEDS[name]()
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        table = findings.table(f"{name.split()[0]}, k = {K}", COLUMNS)
        with tempfile.TemporaryDirectory(prefix="kanonflow-bench-") as folder:
            for window, size, against, _ in cases:
                with_it = other_policy(source, window, size, against)
                for policy in (dataclasses.replace(with_it, against=None), with_it):
                    feed = other_feed(source, policy, Path(folder))
                    table.rows.append(course(feed, window, size, with_it))


def course(feed: Feed, window: str, size: int, clause: Policy) -> tuple[Any, ...]:
    """A line. clause: the policy with it; the feed's may be without."""
    against = clause.against
    assert against is not None
    names, truth, _ = truth_of(feed)
    partition = PartitionInMemory(PartitionStep(feed.bound, SECRET, 1, epoch=1), b"one partition")
    for each in feed.windows:
        partition.arrive(each.number, each.rows)
    begun = time.process_time()
    results = list(partition.finish())
    taken = time.process_time() - begun
    bundles = cohort_rows(shown(results, names), truth, [field.name for field in clause.payload])
    left = candidates_left(against.guaranteed, bundles)
    rows = sum(each.rows.num_rows for each in feed.windows)
    out = [result.metrics for result in results if result.metrics["released"]]
    rejected: dict[str, int] = {}
    for result in results:
        for reason, count in result.metrics["rows_rejected"].items():
            rejected[reason] = rejected.get(reason, 0) + count
    roster = None if partition.warm_state is None else partition.warm_state.roster
    items = None if roster is None else roster.items
    return (
        window,
        size,
        against.guaranteed.name,
        "off" if feed.bound.policy.against is None else "on",
        rows,
        100 * rejected.get("known_otherwise", 0) / rows,
        100 * sum(rejected.values()) / rows,
        sum(each["gcp"] * each["rows_released"] for each in out) / sum(each["rows_released"] for each in out),
        *((0, None, None) if left is None else (left.people, int(left.left.min()), 100 * left.below(K))),
        None if items is None else sum(map(len, items.content().parts.values())),
        1e6 * taken / rows,
    )


def main(argv: list[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description="Readers who know more, and k people left to them.")
    parser.add_argument("--days", type=int, default=91, help="days of sparkov")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("against", __doc__ or "")
    table = findings.table(f"Sparkov, k = {K}", COLUMNS)
    for window, size, against, amount in CASES:
        with_it = policy_of(window, size, against, amount)
        for policy in (dataclasses.replace(with_it, against=None), with_it):
            try:
                feed = read_feed(data_path(SPARKOV), policy, days=arguments.days, lasting=True)
            except MissingDataError as missing:
                findings.skipped.append(str(missing))
                return publish(findings, arguments, begun)
            table.rows.append(course(feed, window, size, with_it))
    others(findings)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
