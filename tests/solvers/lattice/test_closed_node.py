"""Lattice nodes closed over individuals: nobody in two classes, shared row counts, and nobody lost needlessly."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.lattice.closed_node import closed_node
from kanonflow.solvers.lattice.lattice_node import lattice_node
from tests.solvers.lattice.small_lattices import random_lattice

pytestmark = pytest.mark.thorough


@settings(max_examples=80)
@given(st.integers(0, 2**20), st.integers(1, 60), st.integers(1, 20), st.integers(1, 4), st.data())
def test_closed_classes_can_be_released(seed: int, records: int, people: int, k: int, data: Any) -> None:
    """The partition's own check passes; who is suppressed has rows in several classes, or a class of fewer than k."""
    lattice = random_lattice(seed, records, 2, individuals=people)
    node = tuple(data.draw(st.integers(0, height)) for height in lattice.top)
    assert lattice.individuals is not None
    _, who = np.unique(lattice.individuals, return_inverse=True)
    found = lattice_node(lattice, node, k)
    closed, suppressed = closed_node(found, who, k, np.zeros(records, dtype=np.int64))
    closed.check(k, who)
    assert closed.levels == node
    assert not np.any(suppressed & ~closed.suppressed)
    own = {person: set(found.labels[who == person].tolist()) for person in set(who.tolist())}
    members = {
        label: [p for p, labels in own.items() if labels == {label}] for label in set(found.labels.tolist())
    }
    for person, labels in own.items():
        alone = len(labels) > 1 or -1 in labels or len(members[next(iter(labels))]) < k
        assert np.all(suppressed[who == person] == alone)
        assert alone == bool(np.all(closed.labels[who == person] < 0))
