"""Splitting rows: Beam's windows, partitions as text, every row in exactly one part."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.rows.split import END_OF_TIME_MS, part_codes, split, window_bounds, window_numbers

MILLISECONDS = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema([("when", MILLISECONDS), ("state", pa.string()), ("no", pa.int64()), ("x", pa.int64())])


def bound(**head: Any) -> BoundPolicy:
    """A feed with a unique number a row."""
    fields = {
        "when": "time",
        "state": "insensitive",
        "no": "insensitive",
        "x": {"role": "quasi", "type": "numeric"},
    }
    if "window" not in head:
        fields["when"] = "insensitive"
    policy = parse_policy({"version": 1, "k": 2, "fields": fields, **head}, "", "feed")
    return bind(policy, SCHEMA, text=False, source="feed")


def rows_of(times: list[int], states: list[str | None] | None = None) -> pa.Table:
    """Rows numbered in their order."""
    states = states or [None] * len(times)
    numbers = list(range(len(times)))
    columns = [
        pa.array(times, pa.int64()).cast(MILLISECONDS),
        pa.array(states, pa.string()),
        numbers,
        numbers,
    ]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


@settings(derandomize=True, max_examples=100)
@given(
    times=st.lists(st.integers(-(10**13), END_OF_TIME_MS), min_size=1, max_size=20),
    size=st.integers(1, 10**9),
    offset=st.integers(0, 10**9),
)
def test_windows_are_those_of_beam(times: list[int], size: int, offset: int) -> None:
    """Number and bounds of each row's window are what FixedWindows assigns, before 1970 too."""
    offset %= size
    policy = bound(window=f"{size}ms", window_offset=f"{offset}ms").policy
    beam = FixedWindows(Duration(micros=size * 1000), Timestamp(micros=offset * 1000))
    numbers = window_numbers(pa.array(times, pa.int64()).cast(MILLISECONDS), policy)
    for time, number in zip(times, numbers.tolist(), strict=True):
        stamp = Timestamp(micros=time * 1000)
        (window,) = beam.assign(beam.AssignContext(stamp))
        assert window_bounds(number, policy) == (window.start.micros // 1000, window.end.micros // 1000)


@settings(derandomize=True, max_examples=100)
@given(st.lists(st.tuples(st.integers(-20, 20), st.sampled_from(["NY", "CA", "", None])), max_size=30))
def test_every_row_is_in_the_part_of_its_partition_and_window(rows: list[tuple[int, str | None]]) -> None:
    """Parts are a partition of the rows, in arrival order within, windows in order of time."""
    table = rows_of([time for time, _ in rows], [state for _, state in rows])
    expected: dict[Any, list[int]] = defaultdict(list)
    for number, (time, state) in enumerate(rows):
        expected[(state,), time // 10].append(number)
    parts = split(table, bound(window="10ms", partition_by=["state"]))
    assert {(values, window): batch.column("no").to_pylist() for values, window, batch in parts} == expected
    assert len(parts) == len(expected)
    states = [values for values, _, _ in parts]
    assert list(dict.fromkeys(states)) == list(dict.fromkeys((state,) for _, state in rows))
    for state in set(states):
        windows = [window for values, window, _ in parts if values == state]
        assert windows == sorted(windows)


def test_two_partition_fields_and_their_canonical_text() -> None:
    """Partition values are canonical text in the order of the policy; null and empty text stay apart."""
    table = rows_of([0, 0, 0, 0], ["a", None, "", "a"]).set_column(2, "no", pa.array([7, 7, 8, 8]))
    parts = split(table, bound(window="1s", partition_by=["no", "state"]))
    assert [values for values, _, _ in parts] == [("7", "a"), ("7", None), ("8", ""), ("8", "a")]


def test_without_a_window_everything_is_one_part() -> None:
    """The only window has number 0 and no bounds."""
    policy = bound()
    ((values, window, batch),) = split(rows_of([5, -5, END_OF_TIME_MS]), policy)
    assert (values, window, batch.num_rows) == ((), 0, 3)
    assert window_bounds(window, policy.policy) == (None, None)
    assert split(rows_of([]), policy) == []


def test_parts_carry_their_own_rows_only() -> None:
    """A part's IPC bytes hold no other part's rows, nor grow with the batch."""
    table = rows_of(list(range(10_000)), [f"{number:040d}" for number in range(10_000)])
    parts = split(table, bound(window="10ms"))
    sizes = {len(to_ipc(batch)) for _, _, batch in parts}
    assert len(parts) == 1000
    assert max(sizes) < 2_000
    again = from_ipc(to_ipc(parts[7][2]))
    assert again.column("no").to_pylist() == list(range(70, 80))
    assert np.array_equal(again.column("x"), again.column("no"))


def test_parts_of_a_window_are_numbered_by_their_values() -> None:
    """Nulls first, as text, whatever row comes first: numbers, too, for whom 10 comes before 9."""
    rows = rows_of([0, 0, 0, 0, 0], ["web", None, "app", "web", ""])
    fields = {"who": "individual", "when": "time", "state": "insensitive", "no": "insensitive"}
    head = {
        "version": 1,
        "k": 2,
        "window": "1h",
        "fields": {**fields, "x": {"role": "quasi", "type": "numeric"}},
    }
    by_state = parse_policy({**head, "split_by": ["state"]}, "", "feed")
    assert part_codes(rows, by_state).tolist() == [3, 0, 2, 3, 1]
    assert part_codes(rows.take([4, 3, 2, 1, 0]), by_state).tolist() == [1, 3, 2, 0, 3]
    both = parse_policy({**head, "split_by": ["state", "no"]}, "", "feed")
    assert part_codes(rows.take([3, 0, 1]), both).tolist() == [2, 1, 0]
    assert part_codes(rows, parse_policy(head, "", "feed")).tolist() == [0] * 5
    assert part_codes(rows.slice(0, 0), by_state).size == 0
