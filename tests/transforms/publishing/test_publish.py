"""Publishing: every row once, every payload inside its record's slot or class, in an order of content."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Field, Policy, Protection, Quasi, QuasiType, Role
from kanonflow.schemas.policy_fields import Diversity, DiversityKind
from kanonflow.solvers.matching.random_words import shuffled_within
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.publish import publish, published_order
from kanonflow.transforms.secret.seeds import Keystream
from tests.regular_graphs import searched
from tests.transforms.window_rows import bound_policy, window_rows

pytestmark = pytest.mark.thorough

ROW = bound_policy(3)
INDIVIDUAL = bound_policy(3, Protection.INDIVIDUAL)
WINDOW = (86_400_000, 2 * 86_400_000)


def row_window(n: int = 60) -> tuple[pa.Table, GeneralizationGraph]:
    return window_rows(n, 11, ROW), GeneralizationGraph(searched(n, 3, 6))


def individual_window() -> tuple[pa.Table, Partition]:
    """20 people with 3 rows each in 4 classes; one person's rows wait."""
    rows = window_rows(60, 12, INDIVIDUAL, people=20)
    labels = np.array([person // 5 if person < 19 else -1 for person in np.arange(60) % 20], dtype=np.int32)
    return rows, Partition(labels)


def released(structure: Any, rows: pa.Table, bound: BoundPolicy, key: int = 1) -> pa.Table:
    return publish(rows, structure, bound, Keystream(bytes([key]) * 32), "name", WINDOW).rows


def test_rows_have_the_release_schema_id_and_window() -> None:
    """Columns and types are the release schema's; the id and the window are the same on every row."""
    rows, graph = row_window()
    table = released(graph, rows, ROW)
    assert table.schema == release_arrow_schema(ROW)
    assert set(table["release_id"].to_pylist()) == {"name"}
    assert {when.timestamp() * 1000 for when in table["window_start"].to_pylist()} == {WINDOW[0]}
    assert {when.timestamp() * 1000 for when in table["window_end"].to_pylist()} == {WINDOW[1]}


def test_every_payload_is_released_once_and_whole() -> None:
    """Payload rows come out as they went in, each once; waiting rows do not come out."""
    names = [column.name for column in ROW.payload]
    rows, graph = row_window()
    assert _counted(released(graph, rows, ROW).select(names)) == _counted(rows.select(names))
    rows, partition = individual_window()
    kept = rows.filter(pa.array(partition.labels >= 0))
    assert _counted(released(partition, rows, INDIVIDUAL).select(names)) == _counted(kept.select(names))


def _counted(table: pa.Table) -> Counter:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_the_individual_and_the_time_are_not_published() -> None:
    """No column of the release is named like them, and no individual's name stands anywhere in it."""
    rows, partition = individual_window()
    table = released(partition, rows, INDIVIDUAL)
    assert not {"person", "when"} & set(table.column_names)
    assert "p0000" not in str(table.to_pylist())


def test_a_class_has_one_box_and_its_own_payloads() -> None:
    """In individual mode the rows of a class agree in every box and hold the class's payloads."""
    rows, partition = individual_window()
    table = released(partition, rows, INDIVIDUAL)
    boxes = table.select([column.published_name for column in INDIVIDUAL.quasis]).to_pylist()
    serials = table["serial"].to_pylist()
    label = dict(zip(rows["serial"].to_pylist(), partition.labels.tolist(), strict=True))
    by_class: dict[int, set[str]] = {}
    for box, serial in zip(boxes, serials, strict=True):
        by_class.setdefault(label[serial], set()).add(str(box))
    assert sorted(by_class) == [0, 1, 2, 3]
    assert all(len(found) == 1 for found in by_class.values())


def test_payloads_are_permuted_uniformly_within_a_class() -> None:
    """Over 2,000 keys each of 4 payloads comes out at each of 4 places equally often: the chi-square of the
    16 counts stays below 31.4 (9 degrees: false alarm 0.025%)."""
    labels = np.zeros(4, dtype=np.int32)
    counts = np.zeros((4, 4))
    for key in range(2_000):
        dealt = shuffled_within(labels, Keystream(key.to_bytes(32, "big")).words(4))
        counts[np.arange(4), dealt] += 1
    assert ((counts - 500) ** 2 / 500).sum() < 31.4


def test_the_same_words_give_the_same_table_and_others_another() -> None:
    """Publishing is a function of its arguments and the keystream."""
    rows, graph = row_window()
    assert released(graph, rows, ROW).equals(released(graph, rows, ROW))
    assert not released(graph, rows, ROW).equals(released(graph, rows, ROW, key=2))


@pytest.mark.parametrize("seed", range(3))
def test_any_arrangement_sorts_to_the_same_table(seed: int) -> None:
    """Shuffled released rows sort to identical tables: no trace of the order they had is left."""
    rows, graph = row_window()
    table = released(graph, rows, ROW)
    doubled = pa.concat_tables([table, table])
    expected = doubled.take(pa.array(published_order(doubled)))
    shuffled = doubled.take(pa.array(np.random.default_rng(seed).permutation(doubled.num_rows)))
    assert (
        shuffled.take(pa.array(published_order(shuffled))).combine_chunks().equals(expected.combine_chunks())
    )
    assert np.array_equal(published_order(table), np.arange(table.num_rows))


@pytest.mark.parametrize("swapped", [False, True])
def test_the_last_tie_is_told_apart_by_the_last_column(swapped: bool) -> None:
    """All rows but two are told apart by the first column, and these two by the last only."""
    table = pa.table(
        {"one": [3, 1, 1, 2], "two": ["x"] * 4, "three": [0, 5, 4, 0] if swapped else [0, 4, 5, 0]}
    )
    least, most = (2, 1) if swapped else (1, 2)
    assert published_order(table).tolist() == [least, most, 3, 0]


def test_ranked_boxes_give_the_order_of_all_cells() -> None:
    """Where rows share boxes these are ranked once each; the order is that of the columns all the same."""
    rows, partition = individual_window()
    published = publish(rows, partition, INDIVIDUAL, Keystream(bytes(32)), "name", WINDOW)
    assert published.boxes.of_row is not None
    # As publish met them, before they were in order.
    met = published.rows.take(pa.array(np.argsort(published.order)))
    assert np.array_equal(published_order(met, published.boxes), published_order(met))
    assert np.array_equal(published_order(met), published.order)
    assert not np.array_equal(published.order, np.arange(met.num_rows))


def test_what_is_measured_of_sensitive_values_is_of_the_classes() -> None:
    """A rule's figure comes with the release of classes, counted from its rows; a graph has no classes."""
    field = next(each for each in INDIVIDUAL.policy.fields if each.name == "shop")
    ruled = dataclasses.replace(field, role=Role.SENSITIVE, diversity=Diversity(DiversityKind.DISTINCT, 2))
    fields = tuple(ruled if each.name == "shop" else each for each in INDIVIDUAL.policy.fields)
    rows, partition = individual_window()
    bound = dataclasses.replace(INDIVIDUAL, policy=dataclasses.replace(INDIVIDUAL.policy, fields=fields))
    shown = publish(rows, partition, bound, Keystream(bytes(32)), "name", WINDOW).diversity
    shops, labels = np.array(rows["shop"].to_pylist(), dtype=object), partition.labels
    least = min(len(set(shops[labels == label])) for label in range(4))
    assert shown == {"shop.distinct": least}
    rows, graph = row_window()
    assert publish(rows, graph, ROW, Keystream(bytes(32)), "name", WINDOW).diversity == {}


def test_a_graph_that_would_break_the_promise_goes_nowhere() -> None:
    """publish raises what the gate raises; there is no way around it."""
    rows = window_rows(60, 11, ROW, people=5)
    with pytest.raises(GateError, match="same individual twice"):
        released(row_window()[1], rows, ROW)


@pytest.mark.parametrize(
    "structure",
    [
        Partition(np.full(20, -1, dtype=np.int32)),
        Partition(np.array([0, 0] + [-1] * 18, dtype=np.int32)),
        GeneralizationGraph(np.zeros((20, 3), dtype=np.int32)),
    ],
    ids=["all rows wait", "two rows", "no graph"],
)
def test_what_cannot_be_released_is_a_gate_error(structure: Any) -> None:
    """No rows, fewer than k, or a structure that cannot even be matched: GateError, nothing else."""
    bound = bound_policy(3, individual=False)
    with pytest.raises(GateError):
        released(structure, window_rows(20, 1, bound), bound)


def test_a_partition_may_be_published_under_protect_row() -> None:
    """Closed classes keep the row promise too; without an individual each row is its own."""
    bound = bound_policy(3, individual=False)
    labels = np.repeat(np.arange(4), 5).astype(np.int32)
    assert released(Partition(labels), window_rows(20, 1, bound), bound).num_rows == 20


def test_a_window_without_time_and_with_odd_names() -> None:
    """No time field: the window is null. Names Avro refuses are replaced; partition fields come first."""
    schema = pa.schema({"marital-status": pa.string(), "pay": pa.int64(), "area": pa.string()})
    fields = (
        Field("marital-status", Role.QUASI, quasi=Quasi(QuasiType.CATEGORICAL)),
        Field("pay", Role.SENSITIVE),
        Field("area", Role.INSENSITIVE),
    )
    policy = Policy(name="t", k=2, fields=fields, partition_by=("area",))
    bound = bind(policy, schema, text=False, source="rows")
    rows = pa.table([["m", "s", None], [1, 2, 3], ["x", "x", "x"]], schema=schema)
    graph = GeneralizationGraph(np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32))
    table = publish(rows, graph, bound, Keystream(bytes(32)), "name", (None, None)).rows
    assert table.column_names == ["release_id", "window_start", "window_end", "marital_status", "area", "pay"]
    assert table["window_start"].null_count == 3
    assert sorted(map(str, table["marital_status"].to_pylist())) == [
        "['m', 's']",
        "[None, 'm']",
        "[None, 's']",
    ]
