"""A stream goes on from checkpoints and savepoints: with another parallelism, to 1 and from 1, and another secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.cli import main
from kanonflow.transforms.files.output_directories import promise_is_made
from kanonflow.transforms.sinks.divided_people import divided_people
from tests.flink.stream_runs import StreamRun, accounts, policy_text, records
from tests.flink.test_faults import passes
from tests.small_feeds import Row, hourly

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
PARALLELISMS = (1, 2, 4, 1, 2, 4, 1)
"""Of one job after the other: each change over a retained checkpoint of a job that was cancelled, then each over a
savepoint."""
FROM_CHECKPOINTS = 3
FEED = hourly(len(PARALLELISMS) + 1, 80, 45, towns=("Bonn", "Kiel"))


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if f"{first:02d}" <= str(each["when"])[11:13] < f"{last:02d}"]


def towns_policy(cohort: str) -> str:
    """A partition a town. FEED has people in both: where cohorts last the audit passes only if that is accepted."""
    policy = yaml.safe_load(policy_text(partition_by=["town"], cohort=cohort))
    if cohort == "lasting":
        policy["fields"]["town"]["accept_risk"] = "people of a test are in both"
    return str(yaml.safe_dump(policy, sort_keys=False))


def in_both_towns() -> int:
    """How many people of FEED are."""
    seen = {(each["who"], each["town"]) for each in FEED}
    return len(seen) - len({who for who, _ in seen})


@pytest.mark.parametrize("cohort", ["window", "lasting"])
def test_parallelism_and_secret_change_from_state_to_state(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path, cohort: str
) -> None:
    """1 -> 2 -> 4 -> 1 over checkpoints, 1 -> 2 -> 4 -> 1 over savepoints, the last with a new secret: nothing lost,
    nothing twice, and the matching records of all jobs hold. Who is in two partitions is counted once by all jobs."""
    run = StreamRun(cluster, tmp_path, policy_text=towns_policy(cohort))
    runs.append(run)
    run.put(hours(0, 1))
    before: tuple[str, ...] = ()
    for number, parallelism in enumerate(PARALLELISMS):
        run.put(hours(number + 1, number + 2))
        run.start("--matching-records", *before, checkpointing_ms=1_000, parallelism=parallelism)
        if number == len(PARALLELISMS) - 1:
            break
        run.wait_for_releases(2 * (number + 1))
        state = cancelled_at_a_checkpoint(run) if number < FROM_CHECKPOINTS else run.stop_with_savepoint()
        assert run.wait() == 0
        before = ("--resume", f"--savepoint_path={state}")
        if number == len(PARALLELISMS) - 2:
            before = (*before, run.rotate())
    run.end()
    accounts(run, FEED)
    assert len(run.releases()) == 2 * (len(PARALLELISMS) + 1)
    passes(run)
    assert divided_people(str(run.output)) == (in_both_towns() if cohort == "lasting" else 0)
    assert promise_is_made(str(run.output)) == (cohort == "window")
    told = records(run.output / "restricted" / "metrics")
    assert {record["versions"]["secret"] for record in told} == {"1", "2"}
    run_and_policy = ("--policy", str(run.policy), "--release", str(run.output))
    rows_and_secrets = ("--input", str(run.feed / "*.csv"), "--secret-file", str(run.secret), before[-1])
    assert main(["verify", "--matching-records", *run_and_policy, *rows_and_secrets]) == 0


def cancelled_at_a_checkpoint(run: StreamRun) -> str:
    """Cancel the job; the checkpoint that it leaves behind."""
    run.complete_checkpoint()
    checkpoint = run.last_checkpoint()
    run.cluster.patch(f"/jobs/{run.job_id()}?mode=cancel")
    return checkpoint
