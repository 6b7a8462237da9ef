"""Warm state as bytes: the same after a round trip, refused when damaged or of another layout."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.release.encode import RangeDomain, SetDomain
from kanonflow.transforms.release.warm_state import MAGIC, Cohorts, WarmState, warm_state_from_bytes
from tests.transforms.window_rows import bound_policy, window_rows

checked = settings(derandomize=True, deadline=None, max_examples=60)


def numbers(rng: np.random.Generator, size: int) -> np.ndarray:
    """Sorted digests."""
    return np.sort(rng.integers(0, 2**64 - 1, size, dtype=np.uint64))


def some_state(seed: int, waiting: int) -> WarmState:
    """A state with something in every part."""
    rng = np.random.default_rng(seed)
    people, slots = int(rng.integers(0, 9)), int(rng.integers(0, 5))
    bound = bound_policy()
    return WarmState(
        waiting=window_rows(waiting, seed, bound) if waiting else None,
        waiting_reason=tuple(rng.choice(["late", "too_few_peers"], waiting).tolist()),
        cohorts=Cohorts(
            people=numbers(rng, people),
            members=rng.integers(0, 9, (slots, 3)).astype(np.int32),
            labels=rng.integers(0, 4, people),
            seen=rng.integers(0, 2**40, people),
            next_label=int(rng.integers(0, 2**40)),
            history=tuple(
                (int(rng.integers(-(2**40), 2**40)), numbers(rng, size), rng.integers(0, 4, size))
                for size in range(int(rng.integers(0, 4)))
            ),
        ),
        domains={
            "lat": RangeDomain(-1.0 / 3, 2.5e300, False),
            "income": RangeDomain(-(2**62), 2**63 - 1, True),
            "job": SetDomain(numbers(rng, 3), None),
            "floor": SetDomain(numbers(rng, 0), 4),
        },
        events=tuple((number, numbers(rng, number)) for number in range(int(rng.integers(0, 3)))),
    )


def assert_equal(one: WarmState, other: WarmState) -> None:
    """Part by part."""
    assert (one.waiting is None) == (other.waiting is None)
    assert one.waiting is None or one.waiting.equals(other.waiting)
    assert one.waiting_reason == other.waiting_reason
    assert one.cohorts.next_label == other.cohorts.next_label
    for name in ("people", "members", "labels", "seen"):
        np.testing.assert_array_equal(getattr(one.cohorts, name), getattr(other.cohorts, name))
    np.testing.assert_equal(one.cohorts.history, other.cohorts.history)
    assert list(one.domains) == list(other.domains)
    np.testing.assert_equal(
        [vars(domain) for domain in one.domains.values()], [vars(domain) for domain in other.domains.values()]
    )
    np.testing.assert_equal(one.events, other.events)


@checked
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_a_state_survives_its_bytes(seed: int, waiting: int) -> None:
    """Every part comes back, and equal states have equal bytes."""
    state = some_state(seed, waiting)
    again = warm_state_from_bytes(state.to_bytes())
    assert_equal(state, again)
    assert again.to_bytes() == state.to_bytes()


@pytest.mark.parametrize("nothing", [None, b""])
def test_no_bytes_are_an_empty_state(nothing: bytes | None) -> None:
    """The first window of a partition, or the first after its state was dropped."""
    assert_equal(warm_state_from_bytes(nothing), WarmState())


@checked
@given(st.integers(0, 10**6), st.floats(0, 0.999))
def test_state_that_is_cut_off_is_refused(seed: int, share: float) -> None:
    """Never a state with fewer event ids or waiting rows than were written."""
    data = some_state(seed, 3).to_bytes()
    with pytest.raises(StateError, match="damaged"):
        warm_state_from_bytes(data[: max(1, int(len(data) * share))])


def test_state_of_another_layout_is_refused_with_what_to_do() -> None:
    """The message names both layouts."""
    with pytest.raises(
        StateError, match=r"warm state has layout 99, this version reads 1; go on with .* empty state"
    ):
        warm_state_from_bytes(struct.pack("<4sII", MAGIC, 99, 0))


def test_a_whole_state_that_is_cut_off_is_refused() -> None:
    """Wherever it ends."""
    data = some_state(3, 2).to_bytes()
    for length in range(1, len(data)):
        with pytest.raises(StateError, match="damaged"):
            warm_state_from_bytes(data[:length])


def test_other_bytes_are_refused() -> None:
    """A pickle, for one, is not read."""
    with pytest.raises(StateError, match="does not begin with its mark"):
        warm_state_from_bytes(b"\x80\x05" + bytes(20))
