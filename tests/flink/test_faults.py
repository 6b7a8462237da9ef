"""What a stream on a cluster withstands: machines that die at a chosen moment, restarts, bad rows.

What dies at a moment that chance chooses is in test_chaos.py; restarts from checkpoints and savepoints are in
test_parallelism.py.

After each fault: every row is released or rejected, once; no slot is there twice; the audit passes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.audit.audit import audit
from tests.flink.stream_runs import SELDOM_MS, StreamRun, accounts, policy_text, wait_for
from tests.small_feeds import HOUR, START, Row, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 8
FEED = hourly(HOURS, 60, 40)


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if f"{first:02d}" <= str(each["when"])[11:13] < f"{last:02d}"]


def begin(cluster: SessionCluster, runs: list[StreamRun], folder: Path, **head: object) -> StreamRun:
    """A run that has not begun yet."""
    run = StreamRun(cluster, folder, policy_text=policy_text(**head))
    runs.append(run)
    return run


def passes(run: StreamRun) -> None:
    """The audit finds nothing wrong."""
    report = audit(run.policy, [str(run.feed / "*.csv")], run.output)
    assert report.passed, report.render()


def test_a_release_is_one_checkpoints(cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path) -> None:
    """A TaskManager dies before, during and just after the checkpoint that holds a release."""
    run = begin(cluster, runs, tmp_path)
    run.put(hours(0, 2))
    run.start(checkpointing_ms=SELDOM_MS, parallelism=1)
    run.put(hours(2, 3))

    # Before: the first two windows are solved, and nobody may see them.
    run.reaches(START + 2 * HOUR)
    visible = run.releases()
    if visible:
        # Not before a checkpoint has completed, though the REST API may be late to count it.
        wait_for(run.completed, "a checkpoint for what is visible", 10)
    restart(cluster, run)
    run.reaches(START + 2 * HOUR)
    assert visible.items() <= run.releases().items()
    run.commit(2)
    first = run.releases()

    # During: the checkpoint is asked for and the machines die; it may have come about or not.
    run.put(hours(3, 5))
    run.reaches(START + 4 * HOUR)
    run.checkpoint()
    restart(cluster, run)
    run.reaches(START + 4 * HOUR)
    run.commit(4)

    # Just after: it is complete, and the sinks may not have written yet.
    run.put(hours(5, 7))
    run.reaches(START + 6 * HOUR)
    run.complete_checkpoint()
    restart(cluster, run)
    run.commit(6)

    run.put(hours(7, HOURS))
    run.end_with_checkpoints()
    assert first.items() <= run.releases().items()
    accounts(run, FEED)
    passes(run)


def restart(cluster: SessionCluster, run: StreamRun) -> None:
    """Every TaskManager dies and is started again; wait until the job runs."""
    for number in range(2):
        cluster.kill_task_manager(number)
    for number in range(2):
        cluster.start_task_manager(number)
    wait_for(lambda: not run.running(), "the loss to be noticed")
    wait_for(run.running, "the job to run again")


def test_rows_that_are_wrong_late_or_out_of_order(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """Poison is rejected, disorder within out_of_orderness changes nothing, lateness costs the window or the row."""
    run = begin(cluster, runs, tmp_path, out_of_orderness="10m", max_delay="2h", cohort="window")
    poison = [
        row(9001, 1, 0.5, when="yesterday"),
        row(9002, 1, 0.5, age="old"),
        row(9003, 1, 0.5) | {"who": ""},
    ]
    mixed = hours(0, 2)
    mixed[40:80] = mixed[40:80][::-1]
    run.put(mixed[:70] + poison + mixed[70:])
    run.start(checkpointing_ms=1_000)
    run.put(hours(2, 5))
    run.wait_for_releases(3)
    late = [row(9100 + who, who, 2.5) for who in range(8)]
    very_late = [row(9200 + who, who, 0.25) for who in range(8)]
    run.put([*late, *very_late])
    run.put(hours(5, HOURS))
    run.end()
    reasons = accounts(run, [*FEED, *poison, *late, *very_late])
    assert reasons["late"] == len(very_late)
    assert reasons.total() - reasons["late"] >= len(poison)
    assert {row["reference"] for row in late} <= set(run.released()) | {
        reference for reference, reason in run.rejected() if reason != "late"
    }
    passes(run)
