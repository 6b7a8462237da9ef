"""Losses of lattice nodes against their definitions, and the worked values of the sources."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.node_losses import accuracy, node_losses
from kanonflow.solvers.lattice.lattice_node import LatticeNode, lattice_node
from kanonflow.solvers.lattice.losses import log_of, node_gcp
from kanonflow.solvers.loss.class_measures import classification_metric
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable
from tests.naive_lattice import naive_gcp, naive_groups, naive_log, naive_suppressed
from tests.solvers.lattice.small_lattices import lattices, random_lattice, random_table

pytestmark = pytest.mark.thorough


@settings(max_examples=60)
@given(lattices(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_losses_are_their_definitions(shape: dict[str, Any], k: int, random: Any) -> None:
    """LOG, LOS, GCP, DM and C_AVG of any node, with suppressed rows."""
    lattice = random_lattice(**shape)
    node = tuple(random.randint(0, height) for height in lattice.top)
    found = node_losses(lattice, lattice_node(lattice, node, k), k)
    suppressed = naive_suppressed(lattice, node, k)
    sizes = [len(g) for g in naive_groups(lattice, node).values() if g[0] not in suppressed]
    n = lattice.records
    assert found.log == pytest.approx(float(naive_log(lattice, node)))
    assert found.los == pytest.approx(len(suppressed) / n)
    assert found.gcp == pytest.approx(float(naive_gcp(lattice, node, suppressed)))
    assert found.gcp == node_gcp(lattice, lattice_node(lattice, node, k))
    assert found.dm == sum(size**2 for size in sizes) + len(suppressed) * n
    assert found.c_avg == pytest.approx(sum(sizes) / (len(sizes) * k) if sizes else 0.0)
    assert 0 <= found.gen_total <= 100
    if sizes:
        assert found.gcp == pytest.approx((np.mean(found.ncp) * sum(sizes) + len(suppressed)) / n)


def test_log_of_the_paper() -> None:
    """S1, 2.4: heights 3, 4, 1; [1, 0, 0] loses 0.11 and [0, 0, 1] loses 0.33."""
    generator = np.random.default_rng(0)
    tables = tuple(random_table(generator, 6, height) for height in (3, 4, 1))
    lattice = Lattice(tables, np.zeros((1, 3), dtype=np.int32))
    nodes = np.array([[1, 0, 0], [0, 0, 1], [3, 4, 1]], dtype=np.int32)
    assert log_of(nodes, lattice) == pytest.approx([1 / 9, 1 / 3, 1.0])


def test_gen_total_of_a_balanced_hierarchy() -> None:
    """Half of the height for all rows is 50%; a node with a single leaf loses nothing."""
    table = LevelTable(np.array([[0, 1, 2], [0, 0, 1], [0, 0, 0]], dtype=np.int32))
    lattice = Lattice((table,), np.array([[0], [1], [2], [2]], dtype=np.int32))
    losses = node_losses(lattice, lattice_node(lattice, (1,), 2), 2)
    assert losses.gen_total == pytest.approx(25.0)
    assert losses.ncp == pytest.approx((1 / 3,))


def test_classification_metric_counts_minorities_and_suppressed() -> None:
    """Two of a class of three agree, one record is suppressed: 2 of 4 lose."""
    node = LatticeNode(np.array([0, 0, 0, -1], dtype=np.int32), (0,))
    assert classification_metric(node, np.array([7, 7, 8, 7])) == pytest.approx(0.5)


def test_accuracy_of_solutions() -> None:
    """1 at a minimal node, 0 at the top, and in between by height above the lowest optimum below."""
    minimal = np.array([[1, 0], [0, 3]], dtype=np.int32)
    assert accuracy(minimal, minimal, (2, 3)) == 1.0
    assert accuracy(np.array([[2, 3]]), minimal, (2, 3)) == 0.0
    assert accuracy(np.array([[1, 2], [1, 0]]), minimal, (2, 3)) == pytest.approx((0.5 + 1) / 2)
    assert accuracy(np.array([[2, 3]]), np.array([[2, 3]]), (2, 3)) == 1.0
    assert accuracy(np.empty((0, 2), dtype=np.int32), minimal, (2, 3)) == 0.0
