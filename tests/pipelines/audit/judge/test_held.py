"""Boxes that the records in them do not explain: ranges, sets and labels, one by one and in slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.judge import held as judged
from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph, RecordGroups
from kanonflow.pipelines.audit.judge.held import HeldBoxes, box_faults
from kanonflow.pipelines.audit.read.boxes import BoxBook, encode_records
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy import Field, Policy, Quasi, QuasiType, Role

PLACES = Hierarchy(
    (
        ("Breda", "Brabant", "south", "*"),
        ("Tilburg", "Brabant", "south", "*"),
        ("Goes", "Zeeland", "south", "*"),
        ("Assen", "Drenthe", "north", "*"),
    )
)
NUMERIC, TOWN, PLACE = (
    Quasi(QuasiType.NUMERIC),
    Quasi(QuasiType.CATEGORICAL),
    Quasi(QuasiType.HIERARCHY, hierarchy=PLACES),
)
Case = tuple[Any, list[Any]]
"""A box, and the values of the records in it."""


def faults(quasi: Quasi, cases: list[Case], *, by_levels: bool = False) -> list[list[str]]:
    """What is wrong with each box when it holds these records."""
    kind = pa.int32() if quasi is NUMERIC else pa.string()
    policy = Policy(name="t", k=2, fields=(Field("x", Role.QUASI, quasi=quasi),))
    bound = bind(policy, pa.schema({"x": kind}), text=False, source="rows")
    column = CodeBook(bound.column("x"))
    values = [value for _, own in cases for value in own]
    codes = column.codes_of_objects(values)
    book = BoxBook(column)
    cells = [{"min": box[0], "max": box[1], "nulls": box[2]} if quasi is NUMERIC else box for box, _ in cases]
    numbers = book.numbers(cells)
    count = len(values)
    indptr = np.concatenate([[0], np.cumsum([len(own) for _, own in cases])]).astype(np.int64)
    ones, nobody = np.ones(count, np.int64), np.zeros(count, np.int64)
    held = HeldBoxes(
        numbers[:, None],
        np.zeros(len(cases), np.int32),
        CandidateGraph(
            indptr,
            np.arange(count, dtype=np.int32),
            np.ones(len(cases), np.int64),
            ones,
            np.zeros(len(cases), np.int64),
            nobody,
        ),
        RecordGroups(
            encode_records(codes[:, None], [book]), nobody.astype(np.int32), nobody, ones, np.arange(count)
        ),
    )
    told: list[list[str]] = [[] for _ in cases]
    for field, message, bad in box_faults(held, [book], as_low=not by_levels):
        assert field == "x"
        for place in np.flatnonzero(bad):
            told[place].append(message)
    return told


NULL_RANGE = "a range holds null, and no record in its box has none"
NO_VALUE = "a range that no record in its box has a value for"
END = "an end that is not the line of its grid next to a record in the box"
NULL_SET = "a set holds null, and no record in its box has none"
IDLE = "a set with values that no record in its box has"
LABEL = "a label that is not the lowest over any records in its box"

RANGES: list[tuple[Case, list[str]]] = [
    (((1, 3, False), [1, 3, 2]), []),
    (((1, 3, True), [1, 3]), [NULL_RANGE]),
    (((1, 3, True), [1, 3, None]), []),
    (((1, 3, False), [1, 2]), [END]),
    (((1, 3, False), [2, 3]), [END]),
    (((1, 1, False), [1]), []),
    (((1, 1, True), [1]), [NULL_RANGE]),
    (((1, 3, False), [None]), [NO_VALUE]),
    (((None, None, True), [None]), []),
    (((None, None, True), [5]), [NULL_RANGE]),
]
SETS: list[tuple[Case, list[str]]] = [
    ((["a"], ["a"]), []),
    ((["a", "z"], ["a", "z"]), []),
    ((["a", "z"], ["a", "a"]), [IDLE]),
    ((["a", "z"], ["z"]), [IDLE]),
    (([None, "z"], ["z"]), [NULL_SET]),
    (([None, "z"], ["z", None]), []),
    (([None, "z"], [None]), [IDLE]),
    (([None], [None]), []),
    (([None], ["a"]), [NULL_SET]),
]
LABELS: list[tuple[Case, list[str]]] = [
    (("Breda", ["Breda"]), []),
    (("Breda", ["Tilburg"]), [LABEL]),
    (("Brabant", ["Breda", "Tilburg"]), []),
    (("Brabant", ["Breda", "Breda"]), [LABEL]),
    (("south", ["Breda", "Goes"]), []),
    (("south", ["Breda", "Tilburg"]), [LABEL]),
    (("Zeeland", ["Goes"]), [LABEL]),
    (("*", ["Breda", "Assen"]), []),
    (("*", ["Breda", "Goes"]), [LABEL]),
    (("*", ["Breda", None]), []),
    (("*", [None]), [LABEL]),
    ((None, [None]), []),
    ((None, ["Assen"]), [LABEL]),
]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("quasi", "table"), [(NUMERIC, RANGES), (TOWN, SETS), (PLACE, LABELS)])
def test_boxes_say_what_some_record_in_them_has(
    quasi: Quasi, table: list[tuple[Case, list[str]]], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each box by itself; all at once and in slices of a few pairs and boxes."""
    if not whole:
        monkeypatch.setattr(judged, "_MOST_PAIRS", 3)
        monkeypatch.setattr(judged, "_MOST_CELLS", 12)
    assert faults(quasi, [case for case, _ in table]) == [messages for _, messages in table]
    for case, messages in table:
        assert faults(quasi, [case]) == [messages]


def test_labels_at_levels_need_not_be_the_lowest() -> None:
    """Every class of a release has one level."""
    assert faults(PLACE, [(("south"), ["Breda"])], by_levels=True) == [[]]


def test_slices_cover_every_box_once() -> None:
    """Of at most so many pairs, or one box; and of at most so many boxes."""
    sizes = [2, 1, 5, 0, 1, 1]
    graph = CandidateGraph(
        np.concatenate([[0], np.cumsum(sizes)]), *(np.zeros(0, np.int64) for _ in range(5))
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(judged, "_MOST_PAIRS", 3)
        assert list(judged._slices(graph, 10)) == [(0, 2), (2, 3), (3, 6)]
        assert list(judged._slices(graph, 2)) == [(0, 2), (2, 3), (3, 5), (5, 6)]
