"""The equations of a matching record, for graphs and classes: a sound one passes, each fault is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.audit.records.record_file import ReadMatchingRecord
from kanonflow.pipelines.audit.records.record_structure import covered, shared_places, structure_faults

EMPTY = np.zeros((0, 0), np.int64)
COMMON: dict[str, Any] = {
    "release_id": "r", "policy": "p", "partition": "00", "window": (None, None), "release_no": 0, "k": 2,
    "digest_key": b"", "secret_commitment": "", "seed_commitment": "", "policy_digest": b"", "box_digest": b"",
    "content_digest": b"",
}  # fmt: skip


def graph() -> tuple[ReadMatchingRecord, np.ndarray]:
    """A ring of four slots of two; two individuals with two records each."""
    members = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    made = ReadMatchingRecord(
        **COMMON, protect="row", structure="graph", digests=(b"",) * 4, groups=np.zeros(0, np.int64),
        members=members, factors=members.T.copy(), chosen=1, matched=members[:, 1].copy(), row=np.arange(4),
    )  # fmt: skip
    return made, np.array([7, 8, 7, 8])


def classes() -> tuple[ReadMatchingRecord, np.ndarray]:
    """Two individuals with two records each in one class, two with one in another, and one record that waits."""
    made = ReadMatchingRecord(
        **COMMON, protect="individual", structure="classes", digests=(b"",) * 7,
        groups=np.array([0, 0, 1, -1, 0, 0, 1]), members=EMPTY, factors=EMPTY, chosen=-1,
        matched=np.array([4, 0, 6, 1, 5, 2]), row=np.arange(6),
    )  # fmt: skip
    return made, np.array([1, 1, 2, 1, 3, 3, 4])


def faults(made: ReadMatchingRecord, who: np.ndarray, **changes: Any) -> str:
    """What is wrong with a matching record after some changes."""
    return "; ".join(structure_faults(replace(made, **changes), who, 2))


@pytest.mark.parametrize("make", [graph, classes])
def test_a_sound_structure_passes(make: Any) -> None:
    """Each of the two shapes."""
    assert faults(*make()) == ""


@pytest.mark.parametrize(
    ("changes", "who", "message"),
    [
        ({"k": 1}, None, "below the policy's 2"),
        ({}, [7, 7, 7, 8], "a slot has fewer than k individuals"),
        ({"members": np.array([[0, 1], [1, 2], [2, 3], [3, 1]])}, None, "not a member of exactly 2 slots"),
        ({"factors": np.array([[0, 2, 1, 3], [1, 2, 3, 0]])}, None, "not disjoint matchings along the edges"),
        ({"factors": np.array([[0, 1, 2, 0], [1, 2, 3, 0]])}, None, "a factor is no perfect matching"),
        ({"chosen": 0}, None, "the published matching is not the chosen factor"),
        ({"matched": np.array([1, 2, 3, 1])}, None, "its matching is not perfect"),
        ({"row": np.array([0, 1, 2, 2])}, None, "its places are not the rows of a release"),
    ],
)
def test_a_fault_of_a_graph_is_named(changes: dict[str, Any], who: list[int] | None, message: str) -> None:
    """One change each."""
    made, right = graph()
    assert message in faults(made, right if who is None else np.array(who), **changes)


@pytest.mark.parametrize(
    ("changes", "who", "message"),
    [
        ({"matched": np.array([4, 0, 1, 6, 5, 2])}, None, "a row carries the payload of another class"),
        ({}, [1, 1, 2, 1, 3, 3, 3], "an individual stands in two classes"),
        ({}, [1, 1, 2, 1, 3, 5, 4], "fewer than k = 2 individuals of a class share a number of rows"),
        ({"matched": np.array([4, 0, 2, 1, 5, 2])}, None, "its matching is not perfect"),
    ],
)
def test_a_fault_of_classes_is_named(changes: dict[str, Any], who: list[int] | None, message: str) -> None:
    """One change each; a record that waits does not count."""
    made, right = classes()
    assert message in faults(made, right if who is None else np.array(who), **changes)


def test_boxes_hold_all_records_of_all_members() -> None:
    """Pairs of places and records; of places that share a box the first stands for all."""
    slots = [
        set(zip(*(side.tolist() for side in covered(make()[0])), strict=True)) for make in (graph, classes)
    ]
    assert slots[0] == {(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 0)}
    assert slots[1] == {(0, 0), (0, 1), (0, 4), (0, 5), (2, 2), (2, 6)}
    assert [shared_places(make()[0])[0].tolist() for make in (graph, classes)] == [
        [0, 1, 2, 3],
        [0, 0, 2, 0, 0, 2],
    ]
