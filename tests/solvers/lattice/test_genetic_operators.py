"""KGen's operators against the worked examples of its paper."""

import numpy as np
import pytest

from kanonflow.solvers.lattice.genetic_operators import (
    crossover,
    horizontal_mutation,
    selection_weights,
    standard_mutation,
)


def test_selection_of_the_paper() -> None:
    """S1, figure 5: LOG .85, .44, .55 and penalties 0, 3, 1 print .51, .19, .30; ours favours little loss."""
    log, age = np.array([0.85, 0.44, 0.55]), np.array([0, 3, 1])
    literal = selection_weights(log, age, literal=True)
    assert literal == pytest.approx([0.51, 0.19, 0.30], abs=0.005)
    ours = selection_weights(log, np.zeros(3, dtype=np.int64), literal=False)
    assert np.argmax(ours) == 1
    assert np.argmin(ours) == 0
    assert selection_weights(np.ones(4), np.zeros(4, dtype=np.int64), literal=False) == pytest.approx(
        [0.25] * 4
    )


def test_crossover_by_meet_and_join() -> None:
    """Each case of S1, 3.5, with the nodes it may return."""
    generator = np.random.default_rng(0)
    one, other = np.array([2, 0, 3]), np.array([1, 4, 3])
    meet, join = [1, 0, 3], [2, 4, 3]
    asked: list[list[int]] = []

    def ask(node: np.ndarray) -> bool:
        asked.append(node.tolist())
        return answer

    answer = True
    children = crossover(one, other, (True, True), ask, generator)
    assert [child.tolist() for child in children] == [join, meet]
    answer = False
    joined, left, right = crossover(one, other, (True, True), ask, generator)
    assert joined.tolist() == join
    assert np.all((left >= meet) & (left <= one))
    assert np.all((right >= meet) & (right <= other))
    assert asked == [meet, meet]
    assert [child.tolist() for child in crossover(one, other, (False, False), ask, generator)] == [join]
    (child,) = crossover(one, other, (False, True), ask, generator)
    assert np.all((child >= meet) & (child <= other))
    assert len(asked) == 2


def test_mutations_stay_inside_and_move_as_they_say() -> None:
    """One attribute of any level; or half of the attributes, in turn not lower and not higher."""
    generator = np.random.default_rng(1)
    low, high = np.zeros(5, dtype=np.int32), np.full(5, 4, dtype=np.int32)
    node = np.full(5, 2, dtype=np.int32)
    seen = set()
    for _ in range(200):
        child = standard_mutation(node, low, high, generator)
        assert (child != node).sum() <= 1
        moved = horizontal_mutation(node, low, high, 0.5, generator)
        assert (moved > node).sum() <= 1
        assert (moved < node).sum() <= 1
        assert np.all((moved >= low) & (moved <= high))
        seen.add(tuple(moved.tolist()))
    assert len(seen) > 20
    assert horizontal_mutation(node[:1], low[:1], high[:1], 0.5, generator)[0] >= 2
