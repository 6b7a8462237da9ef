"""Warm state as bytes: the same after a round trip, refused when damaged or of another layout."""

from __future__ import annotations

import contextlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.lattice.node_checks import KnownNodes
from kanonflow.transforms.files.state_parts import Content, joined, pack, unpack
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.kinds.domains import RangeDomain, SetDomain
from kanonflow.transforms.release.warm_state import MAGIC, VERSION, Cohorts, WarmState, warm_state_from_bytes
from tests.transforms.window_rows import bound_policy, window_rows

HEADER = struct.Struct("<4sII")

checked = settings(derandomize=True, max_examples=60)


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
        known=some_known(rng) if seed % 3 else None,
    )


def some_known(rng: np.random.Generator) -> KnownNodes:
    """What a lattice solver may have found out, nothing included."""
    anonymous, failing = (rng.integers(0, 5, (int(rng.integers(0, 4)), 2)).astype(np.int32) for _ in "ab")
    return KnownNodes(anonymous, failing, int(rng.integers(0, 99)) if rng.random() < 0.5 else None)


def contents(state: WarmState) -> Content:
    """The meta and the parts of a state's bytes, read without the reader under test."""
    data = state.to_bytes()
    _, _, length = HEADER.unpack_from(data)
    index = json.loads(data[HEADER.size : HEADER.size + length])
    assert index.keys() == {"meta", "parts"}
    at, parts = HEADER.size + length, {}
    for name, size in index["parts"]:
        parts[name] = data[at : at + size]
        at += size
    return Content(index["meta"], parts)


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
    assert (one.known is None) == (other.known is None)
    if one.known is not None and other.known is not None:
        np.testing.assert_equal(tuple(one.known), tuple(other.known))


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


def test_a_part_that_nobody_knows_is_refused() -> None:
    """It was written by a version that keeps more; going on without it would lose what it keeps."""
    whole = contents(some_state(4, 2))
    assert pack(MAGIC, VERSION, whole) == some_state(4, 2).to_bytes()
    more = whole._replace(parts={**whole.parts, "roster": b"1234"})
    with pytest.raises(StateError, match="damaged: its parts do not fit its index"):
        warm_state_from_bytes(pack(MAGIC, VERSION, more))


def test_a_part_that_is_missing_is_refused() -> None:
    """Whichever it is, though the lengths of the others add up; and so is every key of the meta."""
    whole = contents(some_state(4, 2))
    assert {
        "waiting",
        "people",
        "history_labels_0",
        "set_2",
        "events_0",
        "known_failing",
    } <= whole.parts.keys()
    for name in whole.parts:
        less = {other: data for other, data in whole.parts.items() if other != name}
        with pytest.raises(StateError, match="damaged: its parts do not fit its index"):
            warm_state_from_bytes(pack(MAGIC, VERSION, whole._replace(parts=less)))
    for key in whole.meta:
        told = {other: value for other, value in whole.meta.items() if other != key}
        with pytest.raises(StateError, match="damaged: its parts do not fit its index"):
            warm_state_from_bytes(pack(MAGIC, VERSION, whole._replace(meta=told)))


@checked
@given(st.integers(0, 16), st.integers(0, 10**6))
def test_altered_bytes_are_another_state_or_refused(seed: int, at: int) -> None:
    """Raw arrays have no check sum; whatever does not read as a state is refused with the one error."""
    data = bytearray(some_state(seed, seed % 4).to_bytes())
    data[at % len(data)] ^= 1 << at % 8
    with contextlib.suppress(StateError):
        again = warm_state_from_bytes(bytes(data))
        assert len(again.waiting_reason) == again.waiting_rows


def test_waiting_rows_with_fewer_or_more_reasons_are_refused() -> None:
    """Each waiting row has its reason."""
    whole = contents(some_state(4, 3))
    for reasons in ([], [["late", 2]], [["late", 10**15]]):
        with pytest.raises(StateError, match="damaged: its parts do not fit its index"):
            warm_state_from_bytes(
                pack(MAGIC, VERSION, whole._replace(meta={**whole.meta, "reasons": reasons}))
            )


@pytest.mark.parametrize(
    "parts",
    [
        [["a", 2], ["a", 2]],
        [["a", 6], ["b", -2]],
        [["a", 4.0]],
        [["a", 3]],
        [["a", 5]],
        [["a"]],
        ["a", "b"],
        {"a": 4},
        4,
        None,
    ],
    ids=str,
)
def test_an_index_that_does_not_tell_the_parts_is_refused(parts: object) -> None:
    """Four bytes of parts: a name twice, a length below 0, one that is none, too short, too long, no list."""
    index = json.dumps({"meta": {}, "parts": parts}).encode()
    with pytest.raises(StateError, match="the roster is damaged: its parts do not fit its index"):
        unpack(HEADER.pack(b"ROST", 1, len(index)) + index + b"1234", b"ROST", 1, "roster")


def test_pieces_of_a_state_have_names_of_their_own() -> None:
    """A number in the meta is a number, whatever it is called; two pieces with one name are a mistake."""
    whole = joined(Content({"people": 3}, {"people": b"123"}), Content({"next": 4}, {"set": b""}))
    parts = unpack(pack(b"ROST", 1, whole), b"ROST", 1, "roster")
    assert parts.meta == {"people": 3, "next": 4}
    assert (parts.take("people"), parts.take("set")) == (b"123", b"")
    parts.end()
    with pytest.raises(KeyError):
        parts.take("people")
    with pytest.raises(ValueError, match="two pieces of a state use one name"):
        joined(whole, Content({}, {"set": b"1"}))
