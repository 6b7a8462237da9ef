"""Windows that are too small, waiting, late rows, retries: what PRIVACY promises of the way from a feed to releases."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.protections import afresh as module
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, hourly, row
from tests.windows_alone import release_window

pytestmark = pytest.mark.thorough

SHAPES = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False},
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
SIL = {"evaluations_per_row": 20, "threads": 1, "loss": "sil"}
EVERY_LOSS = pytest.mark.parametrize("solver", [None, SIL], ids=["ncp", "sil"])
SLOT = ReleaseSlot(b"partition", START + 2 * HOUR, 5)


def bound_shape(shape: str, **head: Any) -> BoundPolicy:
    """A policy of one of the three kinds of promises."""
    return bound_feed(feed_policy(**SHAPES[shape], **head))


def driven(shape: str, **head: Any) -> DrivenPartitions:
    """The stateful step over such a policy."""
    return DrivenPartitions(bound_shape(shape, **head), SECRET)


def two_windows(rows: list[Row], bound: BoundPolicy) -> list[WindowResult]:
    """An hour of a fixed feed, then ``rows`` as the second hour, warm."""
    first = canonical([row(900 + number, number, 0.5) for number in range(14)], bound)
    before = release_window(first, bound, WarmState(), SECRET, ReleaseSlot(b"partition", START + HOUR, 4))
    return [before, release_window(canonical(rows, bound), bound, before.warm, SECRET, SLOT)]


def second_hour(seed: int, count: int = 30, people: int = 14) -> list[Row]:
    """Rows of the second hour; several a person, ages that differ between the rows of one person."""
    rng = np.random.default_rng(seed)
    return [
        row(number, int(rng.integers(people)), 1.5, age=str(20 + int(rng.integers(9))))
        for number in range(count)
    ]


@EVERY_SHAPE
def test_retry_is_byte_identical(shape: str) -> None:
    """A firing that is repeated from the same state gives the same bytes: release, state, rejected rows."""
    step = driven(shape, max_delay="1h", towns=True)
    feed = hourly(6, 8, 9, seed=4, towns=("Bonn", "Kiel"))
    for hour in range(6):
        step.send(feed[8 * hour : 8 * hour + 8])
        again = step.copy()
        counts = len(step.released), len(step.rejected)
        for each in (step, again):
            each.advance(START + (hour + 1) * HOUR)
        assert again.released == step.released[counts[0] :]
        assert again.rejected == step.rejected[counts[1] :]
        for key, cells in step.cells.items():
            assert again.cells[key].warm.value == cells.warm.value
            assert again.cells[key].clock.value == cells.clock.value


@EVERY_SHAPE
def test_arrival_order_does_not_matter(shape: str) -> None:
    """The rows of each hour in any order and in any batches: the same releases, byte for byte."""
    feed = hourly(4, 10, 12, seed=6, towns=("Bonn", "Kiel"))
    results = []
    for seed in range(4):
        step = driven(shape, max_delay="1h", towns=True)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(feed))
        for part in np.array_split(order, int(rng.integers(1, 9))):
            step.send([feed[index] for index in part])
        step.finish()
        rejected = [(each.name, each.records) for each in step.rejected]
        results.append((sorted(step.released), sorted(rejected, key=lambda each: each[0])))
    assert len(results[0][0]) >= 6
    assert all(result == results[0] for result in results)


@EVERY_SHAPE
def test_small_window_waits_then_rejects(shape: str) -> None:
    """Fewer than k: nothing goes out at the window's end; at max_delay after it the rows are rejected, not before."""
    step = driven(shape, max_delay="2h")
    step.send([row(0, 0, 0.2), row(1, 1, 0.4)])
    step.advance(START + HOUR)
    assert (step.released, step.waiting(), step.refused()) == ([], 2, [])
    step.advance(START + 3 * HOUR - 1)
    assert step.waiting() == 2
    step.advance(START + 3 * HOUR)
    assert step.waiting() == 0
    assert sorted(step.refused()) == [("r0", "too_few_peers"), ("r1", "too_few_peers")]
    assert not step.released


@EVERY_SHAPE
def test_a_small_window_leaves_with_the_next_one(shape: str) -> None:
    """Rows that wait go out with the partition's next release, which is dated back to their window."""
    step = driven(shape, max_delay="2h")
    step.send([row(0, 0, 0.2), row(1, 1, 0.4)])
    step.advance(START + HOUR)
    step.send([row(2, 2, 1.2)])
    step.advance(START + 2 * HOUR)
    assert sorted(step.published()) == ["r0", "r1", "r2"]
    assert [(each.window_start, each.window_end) for each in step.released] == [(START, START + 2 * HOUR)]


@EVERY_SHAPE
def test_late_row_never_forms_its_own_release(shape: str) -> None:
    """However many rows come late, there is no release but that of the next window; without one they are rejected."""
    step = driven(shape, max_delay="1h")
    step.send([row(number, number, 0.5) for number in range(6)])
    step.advance(START + HOUR)
    step.send([row(10 + number, number, 0.6) for number in range(9)])
    step.advance(START + 2 * HOUR - 1)
    assert len(step.released) == 1
    late = step.copy()
    late.finish()
    assert not late.released
    assert Counter(reason for _, reason in late.refused()) == {"late": 9}
    step.send([row(20 + number, number, 1.5) for number in range(6)])
    step.finish()
    assert [table.num_rows for table in step.tables()] == [6, 15]


@EVERY_SHAPE
def test_window_start_is_the_oldest(shape: str) -> None:
    """One start for all rows of a release, that of the oldest window of any of them: nothing marks the late row."""
    step = driven(shape, max_delay="3h")
    step.send([row(number, number, 2.5) for number in range(6)])
    step.advance(START + 3 * HOUR)
    step.send([*(row(10 + number, number, 3.5) for number in range(6)), row(20, 8, 0.5), row(21, 9, 1.5)])
    step.finish()
    first, second = step.tables()
    assert set(first.column("window_start").cast(pa.int64()).to_pylist()) == {START + 2 * HOUR}
    assert set(second.column("window_start").cast(pa.int64()).to_pylist()) == {START}
    assert set(second.column("window_end").cast(pa.int64()).to_pylist()) == {START + 4 * HOUR}


def test_heavy_individual_is_trimmed_and_waits() -> None:
    """One person with half of the rows: as many stay as k - 1 others can hide, the rest wait, then are rejected."""
    rows = [row(number, 0 if number < 12 else number, 0.5) for number in range(24)]
    step = driven("people", max_delay="1h")
    step.send(rows)
    step.advance(START + HOUR)
    (release,) = step.tables()
    assert release.num_rows == 18
    assert step.waiting() == 6
    step.finish()
    assert {reason for _, reason in step.refused()} == {"individual_over_limit"}
    assert len(step.refused()) == 6
    step = driven("classes", max_delay="1h")
    step.send(rows)
    step.finish()
    assert len(step.published()) == 13
    assert {reason for _, reason in step.refused()} == {"individual_over_limit"}


@pytest.mark.parametrize("shape", ["classes", "people"])
def test_one_person_cannot_be_k(shape: str) -> None:
    """k - 1 individuals, any number of rows: nothing is released."""
    step = driven(shape, max_delay="1h")
    step.send([row(number, number % 2, 0.5) for number in range(40)])
    step.finish()
    assert not step.released
    assert len(step.refused()) == 40


@EVERY_SHAPE
def test_an_empty_input_releases_nothing(shape: str) -> None:
    """No key, no timer, no output."""
    step = driven(shape)
    step.send([])
    step.finish()
    assert (step.cells, step.released, step.metrics, step.rejected) == ({}, [], [], [])


class Structures:
    """Listens to what the solver finds for a window."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[np.ndarray] = []
        solve = module.solve

        def listen(*positional: Any, **named: Any) -> Solution:
            solution = solve(*positional, **named)
            structure = solution.structure
            self.found.append(structure.members if hasattr(structure, "members") else structure.labels)
            return solution

        monkeypatch.setattr(module, "solve", listen)


def with_payloads(rows: list[Row], order: list[int] | np.ndarray) -> list[Row]:
    """Row i with the payload of row ``order[i]``."""
    payload = ("amount", "reference", "town")
    return [
        each | {name: rows[other][name] for name in payload} for each, other in zip(rows, order, strict=True)
    ]


@EVERY_SHAPE
@EVERY_LOSS
@pytest.mark.parametrize("seed", range(4))
def test_permuting_payloads_of_one_individual_does_not_change_the_graph(
    shape: str, solver: dict[str, Any] | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots, classes and who waits are the same whichever of a person's rows holds which payload."""
    structures = Structures(monkeypatch)
    rows = second_hour(seed)
    rng = np.random.default_rng(seed)
    order = np.arange(len(rows))
    for who in {each["who"] for each in rows}:
        own = np.flatnonzero([each["who"] == who for each in rows])
        order[own] = rng.permutation(own)
    bound = bound_shape(shape, **({} if solver is None else {"solver": solver}))
    two_windows(rows, bound)
    two_windows(with_payloads(rows, order), bound)
    np.testing.assert_array_equal(structures.found[1], structures.found[3])


@EVERY_SHAPE
@EVERY_LOSS
@pytest.mark.parametrize("seed", range(4))
def test_no_payload_at_all_can_change_the_graph(
    shape: str, solver: dict[str, Any] | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor when payloads go from person to person, or are replaced: the structure, the state and the losses stay."""
    structures = Structures(monkeypatch)
    rows = second_hour(seed)
    bound = bound_shape(shape, max_delay="2h", **({} if solver is None else {"solver": solver}))
    order = np.random.default_rng(seed).permutation(len(rows))
    replaced = [each | {"amount": None, "reference": "", "town": "Ulm"} for each in rows]
    results = [two_windows(some, bound)[1] for some in (rows, with_payloads(rows, order), replaced)]
    for other in (structures.found[3], structures.found[5]):
        np.testing.assert_array_equal(structures.found[1], other)
    untouched = ("gcp", "ncp", "loss_end", "rows_released", "waiting_reasons", "evaluations", "domains")
    for result in results[1:]:
        assert {name: result.metrics[name] for name in untouched} == {
            name: results[0].metrics[name] for name in untouched
        }
        np.testing.assert_array_equal(result.warm.cohorts.people, results[0].warm.cohorts.people)
        np.testing.assert_array_equal(result.warm.cohorts.labels, results[0].warm.cohorts.labels)


def test_rows_published_from_a_table_are_in_no_order_of_the_input() -> None:
    """anonymize_table: reversing the input changes nothing, not even the order of partitions."""
    from kanonflow.transforms.one_table import anonymize_table

    policy = feed_policy(towns=True, max_delay="1h")
    feed = hourly(3, 20, 9, towns=("Bonn", "Kiel", "Ulm", "Worms"))
    tables = [
        anonymize_table(pa.Table.from_pylist(rows).select(["who", "when", "age", "job", "town", "amount", "reference"]),
                        policy, SECRET, text=True)
        for rows in (feed, feed[::-1])
    ]  # fmt: skip
    assert tables[0].released.num_rows > 40
    assert tables[0].released.equals(tables[1].released)


@st.composite
def feeds(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[list[Row], int]]]:
    """A policy's head, and steps: rows of any hours (late ones among them), then the watermark's next hour."""
    head = {
        "max_delay": f"{draw(st.integers(0, 6)) * 30}m",
        "out_of_orderness": f"{draw(st.integers(0, 2)) * 20}m",
        "running": draw(st.booleans()),
        "events": draw(st.booleans()),
    }
    steps, number, hour = [], 0, 0
    for _ in range(draw(st.integers(1, 5))):
        rows = []
        for at, who, town, repeats in draw(
            st.lists(
                st.tuples(st.integers(-4, 2), st.integers(0, 6), st.booleans(), st.booleans()), max_size=14
            )
        ):
            event = f"e{number // 2 if repeats else number}"
            rows.append(
                row(number, who, max(0, hour + at) + 0.5, town="Bonn" if town else "Kiel", event=event)
            )
            number += 1
        hour += draw(st.integers(0, 3))
        steps.append((rows, hour))
    return head, steps


@pytest.mark.parametrize("shape", SHAPES)
@settings(derandomize=True, max_examples=40)
@given(feed=feeds())
def test_every_row_is_released_or_rejected_once(
    shape: str, feed: tuple[dict[str, Any], list[tuple[list[Row], int]]]
) -> None:
    """Any feed of two partitions: at each moment every row is in exactly one place, at the end nowhere inside.

    Each release holds k individuals or more, opens with its oldest window and closes with the one that ended; no
    reference is published twice; the ledger of each record adds up; rows leave within max_delay.
    """
    head, steps = feed
    step = driven(shape, towns=True, **head)
    sent: dict[str, Row] = {}
    for rows, hour in steps:
        step.send(rows)
        sent |= {str(each["reference"]): each for each in rows}
        step.advance(START + hour * HOUR)
        assert len(step.published()) + len(step.refused()) + step.waiting() + step.in_bags() == len(sent)
    step.finish()
    refused = [name for name, _ in step.refused()]
    assert Counter(step.published() + refused) == Counter(dict.fromkeys(sent, 1))
    policy = step.bound.policy
    for record in step.metrics:
        gone = record["rows_released"] + sum(record["rows_rejected"].values())
        assert record["rows_new"] + record["rows_waited"] == gone + record["rows_waiting"]
    for release, table in zip(step.released, step.tables(), strict=True):
        rows = [sent[name] for name in table.column("reference").to_pylist()]
        assert len({each["town"] for each in rows}) == 1
        assert len({each["who" if policy.individual else "reference"] for each in rows}) >= policy.k
        hours = [int(str(each["when"])[11:13]) for each in rows]
        assert release.window_start == START + min(hours) * HOUR
        assert release.window_end is not None
        assert START + (max(hours) + 1) * HOUR <= release.window_end
        assert release.window_end <= START + (min(hours) + 1) * HOUR + policy.max_delay_ms
    slots = Counter(
        (record["partition"], record["window_end"], record["release_no"]) for record in step.metrics
    )
    assert max(slots.values(), default=1) == 1
