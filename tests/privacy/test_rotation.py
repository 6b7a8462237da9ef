"""A secret that is rotated while a feed goes on: each window under the one it began with, nothing lost or doubled."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines import cli
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.avro_encoding import same_records
from kanonflow.transforms.files.create_if_absent import Outcome, create_if_absent
from kanonflow.transforms.secret.seeds import (
    ReleaseSlot,
    Secret,
    SecretError,
    order_key,
    partition_key,
    release_id,
)
from kanonflow.transforms.sinks.sinks import release_file
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, hourly, row

pytestmark = pytest.mark.thorough

NEW = Secret(b"the second secret of this feed, longer")
ROTATED = NEW.after([SECRET], 2)
TOWNS = ("Bonn", "Kiel")
SHAPES = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False},
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)


def bound_shape(shape: str = "people", **head: Any) -> BoundPolicy:
    """A policy of one of the three kinds of promises."""
    return bound_feed(feed_policy(**{**SHAPES[shape], **head}))


def restarted(step: DrivenPartitions, secret: Secret) -> DrivenPartitions:
    """The same state under another job's secret; what it gives from now on."""
    other = DrivenPartitions(step.bound, secret)
    copied = step.copy()
    other.cells, other.watermark = copied.cells, copied.watermark
    return other


def versions(step: DrivenPartitions) -> list[tuple[int, str]]:
    """Window end (hours after START) and secret version of each release, in order."""
    return [
        ((metrics["window_end"] - START) // HOUR, metrics["versions"]["secret"])
        for metrics in step.metrics
        if metrics["released"]
    ]


def two_hours(shape: str, secrets: tuple[Secret, Secret], feed: list[Row]) -> tuple[DrivenPartitions, ...]:
    """Hours 0 to 3 of a feed; the job is restarted in the middle of hour 1, perhaps under another secret."""
    before = DrivenPartitions(bound_shape(shape, towns=True, max_delay="2h"), secrets[0])
    middle = START + 3 * HOUR // 2
    early = [each for each in feed if _at(each) < middle]
    before.send(early)
    before.advance(middle)
    after = restarted(before, secrets[1])
    for hour in range(1, 4):
        after.send([each for each in feed if _at(each) >= middle and (_at(each) - START) // HOUR == hour])
        after.advance(START + (hour + 1) * HOUR)
    after.finish()
    return before, after


def _at(each: Row) -> int:
    return int(dt.datetime.fromisoformat(str(each["when"])).timestamp() * 1000)


@EVERY_SHAPE
def test_a_window_is_finished_under_the_secret_it_began_with(shape: str) -> None:
    """The open hour stays what it would have been, byte for byte; the hours after it are under the new secret."""
    feed = hourly(4, 40, 25, seed=4, towns=TOWNS)
    _, same = two_hours(shape, (SECRET, SECRET), feed)
    _, rotated = two_hours(shape, (SECRET, ROTATED), feed)
    open_hour = [release for release in same.released if release.window_end == START + 2 * HOUR]
    assert open_hour
    assert [each for each in rotated.released if each.window_end == START + 2 * HOUR] == open_hour
    assert dict(versions(rotated)) == {2: "1", 3: "2", 4: "2"}
    assert [each.release_id for each in rotated.released] == [each.release_id for each in same.released]
    # Not each of them: classes that came out the same publish the same rows however they are permuted.
    assert rotated.released[-1] != same.released[-1]


@EVERY_SHAPE
def test_nothing_is_lost_or_published_twice_over_a_rotation(shape: str) -> None:
    """Every row is released once or rejected once, and no slot is used twice."""
    feed = hourly(4, 30, 20, seed=5, towns=TOWNS)
    before, after = two_hours(shape, (SECRET, ROTATED), feed)
    out = Counter([*before.published(), *after.published()])
    out += Counter(name for step in (before, after) for name, _ in step.refused())
    assert out == Counter(each["reference"] for each in feed)
    assert set(after.cells) == {partition_key(SECRET, (town,)) for town in TOWNS}
    slots = Counter(
        (metrics["kind"], metrics["partition"], metrics["window_end"], metrics["release_no"])
        for step in (before, after)
        for metrics in step.metrics
    )
    assert max(slots.values()) == 1


def test_waiting_rows_leave_with_the_window_that_takes_them() -> None:
    """Two people wait under the old secret; with a third one they leave in a window of the new one, in its slot."""
    before = DrivenPartitions(bound_shape(max_delay="2h"), SECRET)
    before.send([row(number, number, 0.5) for number in range(2)])
    before.advance(START + HOUR)
    assert before.waiting() == 2
    after = restarted(before, ROTATED)
    after.send([row(7, 7, 1.5)])
    after.advance(START + 2 * HOUR)
    assert sorted(after.published()) == ["r0", "r1", "r7"]
    (release,) = after.released
    (key,) = after.cells
    slot = ReleaseSlot(key, START + 2 * HOUR, 0)
    assert release.release_id == release_id(SECRET, after.bound.policy.name, slot)
    assert versions(after) == [(2, "2")]


def test_a_retry_after_the_rotation_is_byte_identical() -> None:
    """Restored again from the same state, whether the open window fires before or after: the same bytes."""
    feed = hourly(2, 30, 20, seed=6)
    before = DrivenPartitions(bound_shape(max_delay="1h"), SECRET)
    before.send(feed)
    before.advance(START + HOUR)
    results = []
    for secret in (
        SECRET,
        ROTATED,
        Secret(b"a third secret, after those, of 32").after([SECRET, NEW.after([], 2)], 3),
    ):
        step = restarted(before, secret)
        step.finish()
        results.append((step.released, step.rejected, [cells.warm.value for cells in step.cells.values()]))
    assert results[0][0]
    assert results[0] == results[1] == results[2]


def test_a_replay_from_before_the_rotation_is_a_conflict_and_no_second_release(tmp_path: Path) -> None:
    """A window that was begun and released, and then is begun again from older state under the new secret.

    No state can tell; the slot's name can: the second release finds the first one's file, with other rows.
    """
    older = DrivenPartitions(bound_shape(), SECRET)
    older.send(hourly(1, 30, 20, seed=10))
    older.advance(START + HOUR)
    rows = [row(100 + number, number % 17, 1.5) for number in range(40)]
    outcomes = []
    for secret in (SECRET, SECRET, ROTATED):
        step = restarted(older, secret)
        step.send(rows)
        step.finish()
        (release,) = step.released
        path = tmp_path / f"{release.release_id}.avro"
        data = release_file(release, release_avro_schema(step.bound))
        outcomes.append(create_if_absent(str(path), data, same=same_records))
    assert outcomes == [Outcome.CREATED, Outcome.SAME, Outcome.DIFFERENT]


def test_rejected_rows_keep_their_names_over_a_rotation() -> None:
    """An expiry and a refusal of late rows are named by what the state holds, so a retry finds its files."""
    names = []
    for secret in (SECRET, ROTATED):
        before = DrivenPartitions(bound_shape(max_delay="1h"), SECRET)
        before.send([row(number, number, 0.5) for number in range(5)])
        before.advance(START + HOUR)
        before.send([row(8, 8, 0.6)])
        after = restarted(before, secret)
        after.advance(START + 3 * HOUR)
        after.send([row(9, 9, 0.6), row(10, 8, 0.7)])
        names.append([each.name for each in after.rejected])
    assert len(names[0]) == 1 + 1
    assert names[0] == names[1]


def test_individuals_and_events_are_recognized_over_a_rotation() -> None:
    """A repeat that comes under the new secret is one; a returning person is known to the cohorts."""
    feed = hourly(1, 12, 8, seed=7)
    before = DrivenPartitions(bound_shape(events=True, max_delay="1h"), SECRET)
    before.send(feed)
    before.advance(START + HOUR)
    after = restarted(before, ROTATED)
    again = [{**each, "when": row(0, 0, 1.5)["when"]} for each in feed]
    after.send([*again, *(row(100 + number, number, 1.5) for number in range(8))])
    after.finish()
    assert Counter(reason for _, reason in after.refused())["duplicate_event"] == len(feed)
    assert [metrics["peer_retention"] for metrics in after.metrics if metrics["released"]] != [None]


def test_a_window_whose_secret_is_not_given_stops_the_job() -> None:
    """Neither under another secret nor lost: an error that says what to give."""
    before = DrivenPartitions(bound_shape(), SECRET)
    before.send(hourly(1, 12, 8, seed=9))
    other = Secret(SECRET._key, 5)
    with pytest.raises(SecretError, match=r"version 1 of the secret.*--previous-secret"):
        restarted(before, other).finish()


def test_a_leaked_first_secret_opens_no_later_window() -> None:
    """All that drives a matching under the new secret is independent of the old; names are of the first."""
    for label in ("order", "search", "publish", "commitment"):
        assert ROTATED.derive(label) == NEW.derive(label) != SECRET.derive(label)
    assert order_key(ROTATED) == order_key(NEW) != order_key(SECRET)
    assert ROTATED.lasting.derive("partition") == SECRET.derive("partition")
    assert ROTATED.of(1).derive("publish") == SECRET.derive("publish")
    assert ROTATED.of(2) == ROTATED
    assert ROTATED.of(None).commit() == SECRET.commit()
    assert ROTATED.committed(SECRET.commit()) == SECRET
    assert ROTATED.committed(NEW.commit()) == ROTATED
    assert SECRET.committed(NEW.commit()) is None
    with pytest.raises(SecretError, match="same version"):
        NEW.after([SECRET], SECRET.version)


def test_a_resumed_run_over_files_is_finished_under_its_own_secret(tmp_path: Path) -> None:
    """A release that was lost comes back byte for byte, though a new secret is in force by now; none is made twice."""
    lines = [f"{20 + number % 9},2024-03-0{1 + number % 2},{number}.5" for number in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["age,day,amount", *lines]) + "\n")
    (tmp_path / "p.yaml").write_text(
        "version: 1\nk: 3\nwindow: 1d\nsolver: {evaluations_per_row: 20, threads: 1}\nfields:\n"
        "  age: {role: quasi, type: numeric, as: int}\n  day: {role: time}\n  amount: {role: sensitive, as: double}\n"
    )
    for letter in "ab":
        (tmp_path / letter).write_bytes(bytes(range(ord(letter), ord(letter) + 40)))
        (tmp_path / letter).chmod(0o600)
    places = ["--policy", "p.yaml", "--input", "in.csv", "--output", "out"]
    places = [part if part.startswith("--") else str(tmp_path / part) for part in places]
    assert cli.main(["anonymize", *places, "--quiet", "--secret-file", str(tmp_path / "a")]) == 0
    files = {path: path.read_bytes() for path in (tmp_path / "out" / "release").iterdir()}
    assert len(files) == 2
    next(iter(files)).unlink()
    later = ["--secret-file", str(tmp_path / "b"), "--resume", "--quiet"]
    assert cli.main(["anonymize", *places, *later]) == 2
    assert cli.main(["anonymize", *places, *later, "--previous-secret", f"file:{tmp_path / 'a'}"]) == 0
    assert {path: path.read_bytes() for path in (tmp_path / "out" / "release").iterdir()} == files
