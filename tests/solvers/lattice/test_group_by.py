"""The group-by at a node against dictionaries, and what a level table refuses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.lattice.lattice_node import LatticeNode, lattice_node
from kanonflow.solvers.lattice.node_checks import Border, NodeChecks
from kanonflow.solvers.problem.errors import StructureError, TableError
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable
from tests.lattice_levels import check_levels
from tests.naive_lattice import naive_groups, naive_suppressed
from tests.solvers.lattice.small_lattices import lattices, random_lattice, random_table

pytestmark = pytest.mark.thorough


@settings(max_examples=80)
@given(lattices(), st.integers(1, 5), st.booleans(), st.randoms(use_true_random=False))
def test_suppressed_rows_and_classes_are_those_of_dictionaries(
    shape: dict[str, Any], k: int, even_share: bool, random: Any
) -> None:
    """Classes hold equal generalized rows, in the order of records, without what may not be shown."""
    lattice = random_lattice(**shape)
    node = tuple(random.randint(0, height) for height in lattice.top)
    found = lattice_node(lattice, node, k, even_share=even_share)
    suppressed = naive_suppressed(lattice, node, k, even_share=even_share)
    assert set(np.flatnonzero(found.suppressed)) == suppressed
    groups = naive_groups(lattice, node).values()
    kept = [shown for records in groups if (shown := [each for each in records if each not in suppressed])]
    kept.sort()
    for label, records in enumerate(kept):
        assert np.array_equal(np.flatnonzero(found.labels == label), records)
    check_levels(found, lattice, k, even_share=even_share)
    checks = NodeChecks(lattice, k, lattice.records, even_share=even_share)
    assert checks.suppressed(node) == len(suppressed)


def test_wide_rows_that_do_not_fit_one_word_are_told_apart() -> None:
    """60 attributes of 16 values take 240 bits; rows that differ in one attribute only are different."""
    generator = np.random.default_rng(4)
    tables = tuple(random_table(generator, 16, 2) for _ in range(60))
    base = generator.integers(0, 16, size=(1, 60))
    rows = np.repeat(base, 61, axis=0)
    rows[np.arange(60), np.arange(60)] ^= 1
    lattice = Lattice(tables, np.repeat(rows, 2, axis=0).astype(np.int32))
    assert lattice_node(lattice, lattice.bottom, 2).classes == 61
    assert NodeChecks(lattice, 3, lattice.records).suppressed(lattice.bottom) == 122


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=90))
def test_borders_keep_the_lowest(nodes: list[tuple[int, int, int]]) -> None:
    """An antichain of exactly the lowest nodes added; it reaches what is above one of them."""
    border = Border(3)
    for node in nodes:
        border.add(np.array(node, dtype=np.int32))
    lowest = {
        node
        for node in nodes
        if not any(all(a <= b for a, b in zip(o, node, strict=True)) and o != node for o in nodes)
    }
    assert {tuple(node) for node in border.nodes.tolist()} == lowest
    assert len(border.nodes) == len(lowest)
    for probe in np.ndindex(4, 4, 4):
        reached = any(all(a <= b for a, b in zip(node, probe, strict=True)) for node in nodes)
        assert border.reaches(np.array(probe, dtype=np.int32)) == reached


@pytest.mark.parametrize(
    "codes",
    [
        [[0, 2, 1]],
        [[0, 1, 2], [0, 0, 2]],
        [[0, 1, 2], [0, 0, 1], [0, 1, 1]],
        [[0, 1], [0, -1]],
    ],
)
def test_level_tables_refuse_what_is_no_hierarchy(codes: list[list[int]]) -> None:
    """Leaves that are not numbered, codes with holes, levels that split a node, negative codes."""
    with pytest.raises(TableError):
        LevelTable(np.array(codes, dtype=np.int32))


def test_lattices_refuse_what_does_not_fit() -> None:
    """Columns, codes, weights and individuals must match the tables and the records."""
    table = LevelTable(np.array([[0, 1], [0, 0]], dtype=np.int32))
    values = np.zeros((3, 1), dtype=np.int32)
    for broken in (
        {"tables": (), "values": values},
        {"tables": (table, table), "values": values},
        {"tables": (table,), "values": values + 2},
        {"tables": (table,), "values": values, "weights": np.zeros(1)},
        {"tables": (table,), "values": values, "individuals": np.zeros(2, dtype=np.int64)},
    ):
        with pytest.raises(TableError):
            Lattice(**broken)  # type: ignore[arg-type]


def test_a_node_with_wrong_classes_does_not_pass() -> None:
    """Classes that mix generalized rows, split them, are too small or belong to one person mostly."""
    table = LevelTable(np.array([[0, 1], [0, 0]], dtype=np.int32))
    values = np.array([[0], [0], [1], [1]], dtype=np.int32)
    lattice = Lattice((table,), values)
    check_levels(LatticeNode(np.array([0, 0, 1, 1], dtype=np.int32), (0,)), lattice, 2)
    for levels, labels, k in (
        ((0,), [0, 0, 0, 0], 2),
        ((1,), [0, 0, 1, 1], 2),
        ((0,), [0, 0, 1, 1], 3),
        ((0,), [0, 0, 1, -1], 2),
    ):
        with pytest.raises(StructureError):
            check_levels(LatticeNode(np.array(labels, dtype=np.int32), levels), lattice, k)
    owned = Lattice((table,), values, individuals=np.array([1, 1, 1, 2]))
    whole = LatticeNode(np.zeros(4, dtype=np.int32), (1,))
    check_levels(whole, owned, 2)
    with pytest.raises(StructureError):
        check_levels(whole, owned, 2, even_share=True)
