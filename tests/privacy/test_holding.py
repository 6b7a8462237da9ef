"""Selective holding: whole classes wait by a choice that sees no payload and no matching, and no row is lost by it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml
from apache_beam.testing import test_stream as stepped
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines import cli
from kanonflow.pipelines.audit_reading import avro_records
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.anonymize_table import anonymize_table
from kanonflow.transforms.element_rows import rows_to_table
from kanonflow.transforms.raw_batch import from_ipc
from kanonflow.transforms.release_parts import release_parts
from kanonflow.transforms.release_window import WindowResult, release_window
from kanonflow.transforms.seeds import ReleaseSlot
from kanonflow.transforms.selective_holding import only_held
from kanonflow.transforms.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.window_ledger import HELD_BY_CHOICE, OVER_LIMIT
from tests.driven_partitions import DrivenPartitions
from tests.privacy.test_retries import files, records, write
from tests.runners import bounded_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, hourly, row

HOLDING: dict[str, Any] = {"hold_share": 0.4, "max_delay": "2h"}


def driven(**head: Any) -> DrivenPartitions:
    """The stateful step under a policy that holds classes."""
    return DrivenPartitions(bound_feed(feed_policy(**{**HOLDING, **head})), SECRET)


def window(rows: list[Row], **head: Any) -> WindowResult:
    """The first hour of a feed."""
    bound = bound_feed(feed_policy(**{**HOLDING, **head}))
    slot = ReleaseSlot(b"partition", START + HOUR, 0)
    return release_window(canonical(rows, bound), bound, WarmState(), SECRET, slot)


def wide_and_narrow(hour: float = 0.5, amounts: int = 0) -> list[Row]:
    """Six people of one age and job, and three who have little in common with anybody."""
    rows = [row(number, number, hour, age="30", job="nurse") for number in range(6)]
    rows += [row(6 + n, 6 + n, hour, age=("0", "60", "120")[n], job="baker") for n in range(3)]
    rng = np.random.default_rng(amounts)
    return [{**each, "amount": str(amount)} for each, amount in zip(rows, rng.permutation(9), strict=True)]


def held_people(result: WindowResult) -> set[str]:
    """Who waits by choice."""
    assert result.warm.waiting is not None
    reasons = np.array(result.warm.waiting_reason) == HELD_BY_CHOICE
    return set(result.warm.waiting.filter(pa.array(reasons)).column("who").to_pylist())


def test_the_worst_class_waits_whole() -> None:
    """The three wait, six go out, and the metrics say why."""
    result = window(wide_and_narrow())
    assert held_people(result) == {"p6", "p7", "p8"}
    assert result.metrics["waiting_reasons"] == {HELD_BY_CHOICE: 3}
    assert (result.metrics["rows_released"], result.metrics["gcp"]) == (6, 0.0)


@pytest.mark.parametrize("amounts", range(1, 5))
def test_payload_does_not_choose_who_waits(amounts: int) -> None:
    """Other payload, the same people."""
    rows = hourly(1, 40, 30, seed=3)
    rng = np.random.default_rng(amounts)
    others = [
        {**each, "amount": str(rng.integers(1000)), "reference": f"x{rng.integers(1000)}"} for each in rows
    ]
    first = held_people(window(rows))
    assert first
    assert held_people(window(others)) == first


def test_what_is_held_leaves_what_is_released_alone() -> None:
    """The classes that go out are those of the same window without holding: their boxes, and everybody in them."""
    rows = hourly(1, 60, 40, seed=5)
    boxes = []
    for share in (0.0, 0.3):
        result = window(rows, hold_share=share)
        assert result.release is not None
        out = pa.ipc.open_stream(result.release.ipc).read_all()
        boxes.append(Counter(zip(*(map(str, out[name].to_pylist()) for name in ("age", "job")), strict=True)))
    assert boxes[1].total() < boxes[0].total()
    assert all(count == boxes[0][box] for box, count in boxes[1].items())


def test_held_rows_leave_with_the_next_window() -> None:
    """With others who are like them, now."""
    step = driven()
    step.send(wide_and_narrow())
    step.advance(START + HOUR)
    assert step.waiting() == 3
    late = [row(20 + n, 20 + n, 1.5, age=("0", "60", "120")[n % 3], job="baker") for n in range(6)]
    step.send(late)
    step.finish()
    assert sorted(step.published()) == sorted(each["reference"] for each in [*wide_and_narrow(), *late])
    assert not step.refused()


def test_held_rows_are_released_at_the_deadline_though_no_window_comes() -> None:
    """Max_delay after the end of their window, not later, though nobody else came."""
    step = driven()
    step.send(wide_and_narrow())
    step.advance(START + 3 * HOUR - 1)
    assert len(step.published()) == 6
    step.advance(START + 3 * HOUR)
    assert (len(step.published()), step.waiting(), step.refused()) == (9, 0, [])
    assert [(each.window_start, each.window_end) for each in step.released[1:]] == [(START, START + 3 * HOUR)]


def test_a_deadline_between_two_windows_means_the_window_before() -> None:
    """Max_delay of one and a half windows: they go out with the next window's end, and are not rejected after it."""
    step = driven(max_delay="90m")
    step.send(wide_and_narrow())
    step.advance(START + 2 * HOUR)
    assert (len(step.published()), step.refused()) == (9, [])


def test_rows_that_wait_for_another_reason_get_no_release_of_their_own() -> None:
    """A release for held rows takes no others that wait: these would say of everybody that they had more rows."""
    rows = wide_and_narrow() + [row(30 + n, 0, 0.6, age="30", job="nurse") for n in range(4)]
    step = driven()
    step.send(rows)
    step.finish()
    assert Counter(reason for _, reason in step.refused()) == {"individual_over_limit": 4}
    assert len(step.published()) == 9


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    share=st.sampled_from([0.1, 0.3, 0.5]),
    hours=st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True),
    delay=st.sampled_from(["1h", "2h", "150m"]),
    parts=st.booleans(),
    people=st.booleans(),
)
def test_no_row_is_lost_twice_out_or_out_too_late(
    seed: int, share: float, hours: list[int], delay: str, parts: bool, people: bool
) -> None:
    """Ledger at every step, gaps between windows, windows in parts, classes of people and of rows with a rule.

    And nobody is rejected for having been held.
    """
    head: dict[str, Any] = {"hold_share": share, "max_delay": delay}
    if parts:
        head["max_window_rows"] = 30
    mapping = to_mapping(feed_policy(people, max_delay=delay))
    if not people:
        mapping["fields"]["town"] = {"role": "sensitive", "diversity": {"kind": "distinct", "l": 2}}
    bound = bound_feed(parse_policy(mapping | head, "test", "test"))
    step = DrivenPartitions(bound, SECRET)
    rng = np.random.default_rng(seed)
    sent: list[Row] = []
    for hour in sorted(hours):
        rows = [
            row(len(sent) + n, int(rng.integers(40)), hour + 0.5, town=("Bonn", "Kiel")[int(rng.integers(2))])
            for n in range(int(rng.integers(1, 50)))
        ]
        sent += rows
        step.send(rows)
        step.advance(START + (hour + 1) * HOUR)
        assert len(sent) == len(step.published()) + len(step.refused()) + step.waiting() + step.in_bags()
    step.finish()
    gone = [*step.published(), *(name for name, _ in step.refused())]
    assert sorted(gone) == sorted(str(each["reference"]) for each in sent)
    assert HELD_BY_CHOICE not in {reason for _, reason in step.refused()}
    latest = {"1h": 1.0, "2h": 2.0, "150m": 2.5}[delay]
    own = {each["reference"]: int(str(each["when"])[11:13]) for each in sent}
    for release, table in zip(step.released, step.tables(), strict=True):
        assert release.window_end is not None
        for name in table["reference"].to_pylist():
            assert 0 <= (release.window_end - START) / HOUR - (own[name] + 1) <= latest


def test_retries_are_byte_identical_and_arrival_does_not_matter() -> None:
    """A firing repeated from the same state; the same rows in another order; the state through its bytes."""
    feed = hourly(4, 40, 30, seed=6, towns=("Bonn", "Kiel"))
    outputs = []
    for seed in range(3):
        step = driven(towns=True)
        order = np.random.default_rng(seed).permutation(len(feed))
        for part in np.array_split(order, 1 + 2 * seed):
            step.send([feed[index] for index in part])
        step.advance(START + 2 * HOUR)
        assert any(metrics["waiting_reasons"].get(HELD_BY_CHOICE) for metrics in step.metrics)
        again = step.copy()
        count = len(step.released)
        step.finish()
        again.finish()
        assert again.released == step.released[count:]
        for key, cells in step.cells.items():
            assert again.cells[key].warm.value == cells.warm.value
            assert again.cells[key].clock.value == cells.clock.value
            assert warm_state_from_bytes(cells.warm.value).waiting_rows == 0
        outputs.append(sorted(step.released))
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_table_in_memory_is_released_the_same_way() -> None:
    """With a gap after the held rows' window: every row goes out."""
    policy = feed_policy(**HOLDING)
    rows = [*wide_and_narrow(), *(row(50 + n, 50 + n, 7.5) for n in range(6))]
    table = rows_to_table(rows, bound_feed(policy)).table
    result = anonymize_table(table, policy, SECRET, text=True)
    assert (result.released.num_rows, result.rejected) == (15, [])


def test_the_audit_passes_and_waiting_rows_are_accounted_for(tmp_path: Path) -> None:
    """A run over files with holding, certificates included, through ``anonymize`` and ``verify``."""
    policy = feed_policy(**HOLDING)
    rows = hourly(6, 40, 60, seed=9)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(to_mapping(policy)))
    names = [name for name in rows[0] if name != "event"]
    table = pa.table({name: [each[name] for each in rows] for name in names})
    pyarrow.csv.write_csv(table, tmp_path / "feed.csv")
    (tmp_path / "secret").write_bytes(bytes(range(40)))
    files = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(tmp_path / "feed.csv")]
    out, secret = str(tmp_path / "out"), str(tmp_path / "secret")
    assert cli.main(["anonymize", *files, "--output", out, "--secret-file", secret, "--certificates"]) == 0
    told = [record for path in (tmp_path / "out").rglob("metrics/*.avro") for record in avro_records(path)]
    assert sum(record["waiting_reasons"].get(HELD_BY_CHOICE, 0) for record in told) > 10
    assert not any(record["rows_rejected"].get(HELD_BY_CHOICE) for record in told)
    assert cli.main(["verify", *files, "--release", out]) == 0
    assert cli.main(["verify", *files, "--release", out, "--certificates", "--secret-file", secret]) == 0


def test_batch_and_stream_release_held_rows_alike(tmp_path: Path) -> None:
    """Beam's own timers: a window that has no rows of its own is released for the held ones, on either runner."""
    policy = feed_policy(**HOLDING, towns=True)
    feed = [*wide_and_narrow(), *({**each, "town": "Kiel"} for each in wide_and_narrow(0.2, 1))]
    later = [row(60 + n, 60 + n, 6.5) for n in range(5)]
    with bounded_pipeline() as pipeline:
        write(pipeline | beam.Create([*feed, *later]), tmp_path / "batch", policy)
    stream = stepped.TestStream()
    for hour, rows in ((1, feed), (7, later)):
        stream.add_elements(rows, event_timestamp=Timestamp((START + hour * HOUR) // 1000 - 1))
        stream.advance_watermark_to(Timestamp((START + hour * HOUR) // 1000 + 1))
    with streaming_pipeline() as pipeline:
        write(pipeline | stream.advance_watermark_to_infinity(), tmp_path / "stream", policy)
    batch = files(tmp_path / "batch")
    assert batch == files(tmp_path / "stream")
    assert sum(name.startswith("release/") for name in batch) == 5
    assert len(records(tmp_path / "batch", "release")) == len(feed) + len(later)


def test_leftovers_of_an_earlier_window_are_never_held() -> None:
    """Three people's second rows wait for the next hour. Held there, they would stand in a release of their own.

    Such a release would say of everybody in it that there were more rows than were published the first time.
    """
    step = driven(hold_share=0.5, max_delay="3h", running=True)
    feed: list[Row] = []
    for group, (age, job) in enumerate((("0", "baker"), ("60", "clerk"), ("120", "nurse"))):
        for who in (4 * group, 4 * group + 1, 4 * group + 2, 4 * group + 3, 4 * group + 3):
            feed.append(row(len(feed), who, 0.5, age=age, job=job))
    for who in range(30, 45):
        feed.append(row(len(feed), who, 1.5, age="30", job="smith"))
    step.send(feed)
    step.finish()
    heavy = {"p3", "p7", "p11"}
    owner = {each["reference"]: each["who"] for each in feed}
    released = [
        {owner[reference] for reference in from_ipc(release.ipc).column("reference").to_pylist()}
        for release in step.released
    ]
    assert len(released) == 2
    assert all(not people <= heavy for people in released)
    assert heavy <= released[1]


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_rest_do_not_cut_the_window_of_held_ones(seed: int) -> None:
    """Four held rows of one class go out together, however many rows wait for another reason beside them."""
    bound = bound_feed(feed_policy(**{**HOLDING, "max_window_rows": 30}))
    rng = np.random.default_rng(seed)
    held = [row(n, 500 + n, 0.5, age=("0", "40", "80", "120")[n], job="baker") for n in range(4)]
    resting = [
        row(100 + n, 600 + n % 4, 0.5, age=str(int(rng.integers(0, 121))), job="nurse") for n in range(40)
    ]
    reasons = (HELD_BY_CHOICE,) * 4 + (OVER_LIMIT,) * 40
    warm = WarmState(waiting=canonical(held + resting, bound), waiting_reason=reasons)
    slot = ReleaseSlot(b"p", START + 3 * HOUR, 0)
    results = list(release_parts(None, bound, warm, SECRET, slot, resting=only_held(warm)))
    assert sum(result.metrics["rows_released"] for result in results) == 4
    assert not any(result.rejected for result in results)
    assert results[-1].warm.waiting_reason == (OVER_LIMIT,) * 40
