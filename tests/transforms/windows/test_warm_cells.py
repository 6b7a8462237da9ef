"""The warm state in cells: what is read is what was written, a window writes what changed, older cells go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.release.warm_state import Events, WarmState, warm_state_from_bytes
from kanonflow.transforms.windows.warm_cells import EVENT_BAGS, WarmCells
from tests.driven_partitions import Cells, DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, row

LASTING = feed_policy(cohort="lasting", intake=12, max_delay="2h", events=True)
WINDOW = feed_policy(max_delay="2h", events=True)

checked = settings(derandomize=True, max_examples=60)


class Watched:
    """A cell that remembers the bytes that were written to it."""

    def __init__(self, cell: Any, log: list[int]) -> None:
        self._cell = cell
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cell, name)

    def write(self, value: bytes) -> None:
        self._log.append(len(value))
        self._cell.write(value)

    def add(self, value: bytes) -> None:
        self._log.append(len(value))
        self._cell.add(value)


def after_a_window(cells: Cells, change: Any) -> tuple[WarmState, dict[str, int]]:
    """Read, change and write the state; what was read the next time, and the bytes written by cell."""
    logs: list[list[int]] = [[] for _ in cells.of_warm()]
    names = [spec.name for spec in WarmCells.SPECS]
    warm = WarmCells([Watched(cell, log) for cell, log in zip(cells.of_warm(), logs, strict=True)])
    warm.write(change(warm.read()))
    return cells.state(), {name: sum(log) for name, log in zip(names, logs, strict=True) if log}


def digests(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64)


def as_lists(events: Events) -> list[tuple[int, list[int]]]:
    return [(end, ids.tolist()) for end, ids in events]


@checked
@given(st.data())
def test_event_ids_come_back_in_their_order_and_are_written_twice_at_most(data: st.DataObject) -> None:
    """Windows that add ids, lose some of them to rejections, and forget old windows; and no bag keeps what is over."""
    cells, told, came, written = Cells(), 0, 0, 0
    for turn in range(data.draw(st.integers(1, 30))):
        oldest = turn - data.draw(st.integers(1, 9))
        lost = data.draw(st.sets(st.integers(0, max(told, 1)), max_size=3))
        new = data.draw(st.integers(0, 5))

        def change(
            state: WarmState, oldest: int = oldest, lost: set[int] = lost, new: int = new, turn: int = turn
        ) -> WarmState:
            nonlocal told, came, expected
            events = []
            for end, ids in state.events:
                left = ids if not lost & set(ids.tolist()) else digests(*(set(ids.tolist()) - lost))
                if end > oldest and left.size:
                    events.append((end, left))
                    came += 0 if left is ids else left.size
            if new:
                events.append((turn, digests(*range(told, told + new))))
            told, came = told + new, came + new
            expected = as_lists(tuple(events))
            return replace(state, events=tuple(events))

        expected: list[Any] = []
        state, wrote = after_a_window(cells, change)
        assert as_lists(state.events) == expected
        written += sum(size for name, size in wrote.items() if name.startswith("events"))
        if not expected:
            assert not any(bag.values for bag in cells.events)
    # An entry has a header of 32 bytes, and an id 8.
    assert written <= 2 * came * (32 + 8)


def feed(hours: int) -> Iterator[list[Row]]:
    """Ten people an hour of sixty, some late by an hour, each third event said twice."""
    for hour in range(hours):
        rows = [
            row(100 * hour + each, (7 * hour + each) % 60, hour + 0.5, event=f"e{hour}.{each}")
            for each in range(10)
        ]
        rows += [
            row(100 * hour + 50 + each, 60 + each, hour - 0.5, event=f"l{hour}.{each}") for each in range(2)
        ]
        yield [*rows, *rows[::3]]


@pytest.mark.parametrize("policy", [LASTING, WINDOW], ids=["lasting", "window"])
@pytest.mark.parametrize("hour", range(1, 6))
def test_the_state_of_an_older_build_goes_on(policy: Policy, hour: int) -> None:
    """There one value held all of it: the same releases and rejected rows come out as without the change of builds."""
    step = DrivenPartitions(bound_feed(policy), SECRET, clock=lambda: 0.0)
    for number, rows in enumerate(feed(8)):
        step.send(rows)
        step.advance(START + (number + 1) * HOUR)
        if number == hour:
            older = step.copy(clock=lambda: 0.0)
            for cells in older.cells.values():
                cells.warm.value = cells.state().to_bytes()
                cells.pool.clear()
                for bag in cells.events:
                    bag.clear()
        elif number > hour:
            older.send(rows)
            older.advance(START + (number + 1) * HOUR)
    step.finish()
    older.finish()
    assert older.released == step.released[-len(older.released) :]
    assert older.metrics == step.metrics[-len(older.metrics) :]
    assert older.rejected == step.rejected[-len(older.rejected) :]
    assert older.released
    for key, cells in step.cells.items():
        assert older.cells[key].state().to_bytes() == cells.state().to_bytes()


def test_a_window_writes_what_changed() -> None:
    """Where nobody new came the pool is not written, and of event ids those of the window are."""
    step = DrivenPartitions(bound_feed(LASTING), SECRET)
    step.send([row(each, each, 0.5) for each in range(500)])
    step.advance(START + HOUR)
    (cells,) = step.cells.values()
    held = sum(cells.sizes())
    assert held > 4000
    bags = [list(bag.values) for bag in cells.events]
    before = cells.pool.value
    writes: list[bytes] = []
    cells.pool.write = writes.append  # type: ignore[method-assign]
    step.send([row(1000 + each, each, 1.5) for each in range(10)])
    step.advance(START + 2 * HOUR)
    assert before is not None
    assert writes == []
    new = [
        value for bag, old in zip(cells.events, bags, strict=True) for value in bag.values if value not in old
    ]
    assert [len(value) for value in new] == [32 + 80]


def test_all_cells_are_dropped_with_the_state() -> None:
    """Or the next rows of the partition would meet a state that counts in others."""
    step = DrivenPartitions(bound_feed(feed_policy(events=True, state_ttl="5h")), SECRET)
    step.send([row(each, each, 0.5) for each in range(6)])
    step.advance(START + HOUR)
    (cells,) = step.cells.values()
    assert any(bag.values for bag in cells.events)
    step.advance(START + 6 * HOUR)
    assert cells.warm.value is cells.pool.value is None
    assert not any(bag.values for bag in cells.events)


def test_what_is_missing_or_damaged_is_refused_by_name() -> None:
    """A pool or event ids that are gone would be people and repeats forgotten in silence."""
    step = DrivenPartitions(bound_feed(replace(LASTING, intake=100)), SECRET)
    step.send([row(each, each, 0.5) for each in range(6)])
    step.advance(START + HOUR)
    (cells,) = step.cells.values()
    pool, warm = cells.pool.value, cells.warm.value
    assert pool is not None
    assert warm is not None
    for wrong, what in (
        (None, "pool is not there"),
        (pool[:-1], "pool is damaged"),
        (b"x" + pool[1:], "pool is damaged"),
    ):
        cells.pool.value = wrong
        with pytest.raises(StateError, match=what):
            cells.state()
    cells.pool.value = pool
    number = next(index for index in range(EVENT_BAGS) if cells.events[index].values)
    (entry,) = cells.events[number].values
    for values, what in (
        ([], "not all of its event ids"),
        ([entry[:20]], "cut off"),
        ([b"x" + entry[1:]], "mark"),
    ):
        cells.events[number].values = values
        with pytest.raises(StateError, match=what):
            cells.state()
    with pytest.raises(StateError, match="has layout 2, this version reads 1"):
        warm_state_from_bytes(warm)
