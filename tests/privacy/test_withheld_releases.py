"""A release that is withheld is told as withheld: in the metrics, in the sums, and nothing of it in public."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest
import yaml
from apache_beam.typehints.decorators import no_annotations

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.commands.rejected import rejected_rows
from kanonflow.pipelines.runs.anonymize_files import connect
from kanonflow.pipelines.runs.stream import summarize_stream
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy_file import to_mapping
from kanonflow.transforms.anonymize import Anonymized
from kanonflow.transforms.files.output_directories import make_output_directories
from tests.driven_partitions import DrivenPartitions
from tests.runners import bounded_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, row

pytestmark = pytest.mark.thorough

LEDGER = ("rows_released", "rows_waiting")


class Came(beam.PTransform):
    """What a driven step gave, as ``KAnonymize`` gives it."""

    def __init__(self, step: DrivenPartitions) -> None:
        super().__init__()
        self._outputs = step.made, step.metrics, step.rejected

    @no_annotations
    def expand(self, records: beam.PCollection) -> Anonymized:
        """The outputs, whatever the records."""
        came = Anonymized(
            *(
                records.pipeline | name >> beam.Create(list(outputs), reshuffle=False)
                for name, outputs in zip(Anonymized._fields, self._outputs, strict=True)
            )
        )
        came.carried = records.pipeline | "carried" >> beam.Create([])
        return came


def publish(
    output: Path, bound: BoundPolicy, step: DrivenPartitions, *, matching_records: bool = False
) -> None:
    """Write what a step gave, as the commands do."""
    make_output_directories(str(output), bound.policy)
    with bounded_pipeline() as pipeline:
        connect(pipeline, beam.Create([0]), Came(step), bound, str(output), matching_records=matching_records)


def records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of each Avro file, by its name."""
    found = {}
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as file:
            found[path.stem] = list(fastavro.reader(file))
    return found


def two_lines() -> tuple[BoundPolicy, list[list[Row]]]:
    """A policy with public metrics, and four people an hour for four hours."""
    bound = bound_feed(feed_policy(people=True, max_delay="2h", metrics="public"))
    hours = [[row(10 * hour + who, 10 * hour + who, hour + 0.5) for who in range(4)] for hour in range(4)]
    return bound, hours


def conflicting(output: Path) -> tuple[BoundPolicy, DrivenPartitions, DrivenPartitions]:
    """Hours 0 and 1 are published; a job that goes on from before makes hour 0 of fewer rows, and hours 1 to 3."""
    bound, hours = two_lines()
    step = DrivenPartitions(bound, SECRET)
    step.send([*hours[0], *hours[1]])
    step.advance(START + 2 * HOUR)
    publish(output, bound, step)
    other = DrivenPartitions(bound, SECRET)
    other.send(hours[0][:3])
    other.advance(START + HOUR)
    other.send([hours[0][3], *hours[1], *hours[2], *hours[3]])
    other.finish()
    publish(output, bound, other)
    return bound, step, other


def failures(folder: Path, output: Path, bound: BoundPolicy, feed: Sequence[Row] | None = None) -> list[str]:
    """What the audit says of the releases in ``output`` over a feed, written into ``folder``; that of ``two_lines``."""
    (folder / "policy.yaml").write_text(yaml.safe_dump(to_mapping(bound.policy)))
    feed = [each for hour in two_lines()[1] for each in hour] if feed is None else feed
    rows = [{name: each[name] for name in each if name != "event"} for each in feed]
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = audit(folder / "policy.yaml", [str(folder / "rows.csv")], output).failures
    # The feed's step was bound to text alone; what a schema says of its policy is judged elsewhere.
    return [each for each in found if "a schema whose names" not in each]


def test_what_is_withheld_is_not_told_as_released(tmp_path: Path) -> None:
    """Releases and rows of the summary are those of the files; each record's own ledger adds up; the withheld rows
    stand in it under their reason; the record of what is published stays."""
    _, step, other = conflicting(tmp_path)
    files = records(tmp_path / "release")
    told = records(tmp_path / "restricted/metrics")
    assert len(files) == len(step.released) == 2
    for each in (record for (record,) in told.values()):
        left = sum(each[name] for name in LEDGER) + sum(each["rows_rejected"].values())
        assert each["rows_new"] + each["rows_waited"] == left
    assert {name for name, (each,) in told.items() if each["released"]} == set(files)
    summary = summarize_stream(str(tmp_path))
    assert (summary.releases, summary.rows_released) == (2, sum(map(len, files.values())))
    withheld = [each for (each,) in told.values() if not each["released"] and each["digest"] is not None]
    assert sorted(each["release_id"] for each in withheld) == sorted(
        each.release_id for each in other.released
    )
    assert sum(each["rows_rejected"]["release_conflict"] for each in withheld) == 16
    assert summary.rejected == {"release_conflict": 16}


def test_nothing_is_public_of_what_is_withheld(tmp_path: Path) -> None:
    """Public metrics stand beside releases only: a withheld one's would tell of rows that another release holds."""
    conflicting(tmp_path)
    assert set(records(tmp_path / "metrics")) == set(records(tmp_path / "release"))


def test_what_is_withheld_leaves_no_matching_record(tmp_path: Path) -> None:
    """Under the id of a release stands how that one was matched, and of what is not there nothing: a withheld release
    of another state once took the name for good, and the audit of the right one failed ever after."""
    bound, hours = two_lines()
    stray, step = (DrivenPartitions(bound, SECRET, matching_records=True) for _ in range(2))
    step.send([row for hour in hours for row in hour])
    step.advance(START + HOUR)
    publish(tmp_path, bound, step, matching_records=True)
    stray.send([*hours[0][:3], *hours[1]])
    stray.advance(START + 2 * HOUR)
    publish(tmp_path, bound, stray, matching_records=True)
    place = tmp_path / "restricted/matching_records"
    assert set(records(place)) == set(records(tmp_path / "release")) == {step.released[0].release_id}
    (mark,) = (tmp_path / "restricted/parked").iterdir()
    mark.unlink()
    step.finish()
    publish(tmp_path, bound, step, matching_records=True)
    made = {each.release_id: each.matching_record for each in step.made}
    assert stray.released[1].release_id in made
    assert len(made) == 4
    assert {path.stem: path.read_bytes() for path in place.glob("*.avro")} == {
        name: record.avro for name, record in made.items() if record is not None
    }


def test_what_is_written_again_changes_nothing(tmp_path: Path) -> None:
    """A replay of either line: the same files, the published line's records told as released."""
    bound, step, other = conflicting(tmp_path)
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*.avro"))}
    for again in (other, step):
        publish(tmp_path, bound, again)
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*.avro"))} == before


def test_what_is_published_after_all_is_no_rejected_row(tmp_path: Path) -> None:
    """The mark of a parked partition is removed, the right state goes on: its releases were withheld once, and are out
    now. Their rows count as released, and the sum is that of the feed; what the wrong state made of them is settled
    with them, for summary, command and audit, and not before."""
    bound, hours = two_lines()
    step = DrivenPartitions(bound, SECRET)
    step.send([row for hour in hours for row in hour])
    step.advance(START + HOUR)
    publish(tmp_path, bound, step)
    stray = DrivenPartitions(bound, SECRET)
    stray.send([*hours[0][:2], *hours[1]])
    stray.advance(START + 2 * HOUR)
    publish(tmp_path, bound, stray)
    (mark,) = (tmp_path / "restricted/parked").iterdir()
    step.finish()
    publish(tmp_path, bound, step)
    assert len(records(tmp_path / "release")) == 1
    assert summarize_stream(str(tmp_path)).rejected == {"release_conflict": 6 + 12}
    told = [each["reason"] for each in rejected_rows(str(tmp_path))]
    assert told == ["release_conflict"] * (6 + 12)
    mark.unlink()
    publish(tmp_path, bound, step)
    assert len(records(tmp_path / "release")) == 4
    summary = summarize_stream(str(tmp_path))
    assert (summary.releases, summary.rows_released) == (4, 16)
    assert summary.rejected == {}
    assert list(rejected_rows(str(tmp_path))) == []
    assert failures(tmp_path, tmp_path, bound) == []


def test_what_the_right_state_has_not_come_to_is_not_settled(tmp_path: Path) -> None:
    """Without the mark, but with nothing published as far as a withheld window: its rows stay rejected, and the audit
    fails, until the right state gets there."""
    bound, hours = two_lines()
    step, stray = DrivenPartitions(bound, SECRET), DrivenPartitions(bound, SECRET)
    for each in hours:
        step.send(each)
    step.advance(START + HOUR)
    publish(tmp_path, bound, step)
    stray.send([*hours[0][:2], *hours[1], *hours[2]])
    stray.advance(START + 3 * HOUR)
    publish(tmp_path, bound, stray)
    (mark,) = (tmp_path / "restricted/parked").iterdir()
    mark.unlink()
    step.advance(START + 2 * HOUR)
    publish(tmp_path, bound, step)
    assert summarize_stream(str(tmp_path)).rejected == {"release_conflict": 4}
    assert any("4 rows belong to releases" in each for each in failures(tmp_path, tmp_path, bound))
    step.finish()
    publish(tmp_path, bound, step)
    assert summarize_stream(str(tmp_path)).rejected == {}
    assert failures(tmp_path, tmp_path, bound) == []


def wrong_and_right(output: Path, *, again: bool) -> tuple[BoundPolicy, list[Row], DrivenPartitions]:
    """A wrong state rejects rows that the right one releases: as late, and for want of peers; the right one rejects a
    row of its own. The policy, the feed, and the right state's last step.

    again: what each wrote is written a second time, by other starts of the job.
    """
    bound, hours = two_lines()
    late, lonely = row(98, 4, 0.7), row(97, 97, 10.5)
    feed = [*(each for hour in hours for each in hour), late]
    feed += [row(70 + who, 70 + who, 7.5) for who in range(4)] + [lonely]

    def right(start: int) -> DrivenPartitions:
        step = DrivenPartitions(bound, SECRET, job_start=start)
        step.send(feed)
        return step

    step = right(0)
    step.advance(START + HOUR)
    publish(output, bound, step)
    for start in (1, 2) if again else (1,):
        stray = DrivenPartitions(bound, SECRET, job_start=start)
        stray.send([*hours[0][:3], hours[1][0], hours[2][0]])
        stray.advance(START + 3 * HOUR)
        stray.send([late])
        stray.finish()
        assert {reason for _, reason in stray.refused()} == {"late", "too_few_peers"}
        publish(output, bound, stray)
    assert summarize_stream(str(output)).rejected.keys() == {"late", "too_few_peers", "release_conflict"}
    for mark in (output / "restricted/parked").iterdir():
        mark.unlink()
    for start in (3, 4) if again else (3,):
        step = right(start)
        step.finish()
        publish(output, bound, step)
    return bound, feed, step


@pytest.mark.parametrize("again", [False, True])
def test_what_a_wrong_state_rejected_is_settled_too(tmp_path: Path, again: bool) -> None:
    """Rows that it came to reject are in the books of the right one: released; and what that one rejects stays, though
    the wrong one rejected it, too."""
    bound, feed, step = wrong_and_right(tmp_path, again=again)
    told = [(each["row"]["reference"], each["reason"]) for each in rejected_rows(str(tmp_path))]
    assert told == step.refused() == [("r97", "too_few_peers")]
    summary = summarize_stream(str(tmp_path))
    assert (summary.rows_released, summary.rejected) == (len(feed) - 1, {"too_few_peers": 1})
    assert failures(tmp_path, tmp_path, bound, feed) == []


def test_what_the_right_state_rejects_counts_though_a_wrong_one_rejected_it(tmp_path: Path) -> None:
    """The same rows under the same name: of two lines the one that is not settled counts, in whichever file."""
    bound, hours = two_lines()
    lonely = row(97, 97, 4.5)
    right, stray = (DrivenPartitions(bound, SECRET, job_start=start) for start in range(2))
    right.send([*hours[0], *hours[1]])
    right.advance(START + 2 * HOUR)
    right.send([lonely, *(row(70 + who, 70 + who, 9.5) for who in range(4))])
    right.finish()
    stray.send([*hours[0][:3], *hours[1]])
    stray.advance(START + 2 * HOUR)
    stray.send([lonely])
    stray.finish()
    publish(tmp_path, bound, right)
    publish(tmp_path, bound, stray)
    for mark in (tmp_path / "restricted/parked").iterdir():
        mark.unlink()
    assert summarize_stream(str(tmp_path)).rejected == {"too_few_peers": 1}


def test_a_line_that_published_is_not_settled(tmp_path: Path) -> None:
    """What it rejected before its releases were withheld is in no other books."""
    bound, hours = two_lines()
    right, other = (DrivenPartitions(bound, SECRET, job_start=start) for start in range(2))
    right.send(hours[0])
    right.advance(START + HOUR)
    publish(tmp_path, bound, right)
    other.send([*hours[0], *hours[1][:3], row(97, 97, 4.5)])
    other.finish()
    publish(tmp_path, bound, other)
    right.send([*hours[1], *hours[2], *(row(70 + who, 70 + who, 9.5) for who in range(4))])
    right.finish()
    publish(tmp_path, bound, right)
    for mark in (tmp_path / "restricted/parked").iterdir():
        mark.unlink()
    assert summarize_stream(str(tmp_path)).rejected["too_few_peers"] == 1


def test_verify_counts_what_the_metrics_withhold(tmp_path: Path) -> None:
    """A run with withheld releases fails for their rows, and not for metrics of releases that are not there; a record
    that is gone is missed."""
    output = tmp_path / "out"
    bound, _, _ = conflicting(output)

    def told() -> str:
        return "; ".join(failures(tmp_path, output, bound))

    said = told()
    assert "16 rows belong to releases that lost their slot" in said
    assert "metrics" not in said
    path, *_ = sorted((output / "restricted/metrics").glob("withheld-*.avro"))
    (gone,) = records(path.parent)[path.stem]
    path.unlink()
    left = 16 - gone["rows_rejected"]["release_conflict"]
    assert f"the metrics say that {left} rows were withheld, but 16 were rejected as such" in told()
