"""The slow, obvious twin of the tree cut: what each test of a tree parts, cohort by cohort, and what else there was."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.tree_cut import LEAST, NULL, ROOM, SETS_COUNT, Codes, Pivot, Threshold, TreeCut

Person = tuple[float, ...]


class Crowd(NamedTuple):
    """people: everybody at a node, as values. sample: those of them with a cohort, and which."""

    people: list[Person]
    sample: list[tuple[Person, int]]


def person(table: Table, row: int) -> Person:
    """Values of a row, numbers first."""
    numbers = [NULL if math.isnan(value) else float(value) for value in table.numeric[row]]
    return (*numbers, *map(float, table.categorical[row]))


def limits(people: int, pieces: int) -> tuple[int, int]:
    """The fewest and the most people of a piece."""
    even = people / pieces
    return int(LEAST * even), max(int(ROOM * even), math.ceil(people / pieces))


def can_hold(people: int, pieces: int, bounds: tuple[int, int]) -> bool:
    """Whether so many people fill so many pieces."""
    return pieces * bounds[0] <= people <= pieces * bounds[1]


def is_left(who: Person, column: int, most: float | None, codes: frozenset[int] | None) -> bool:
    """The side of a threshold or of a set."""
    return who[column] <= most if codes is None else int(who[column]) in codes  # type: ignore[operator]


def score(crowd: Crowd, column: int, most: float | None, codes: frozenset[int] | None) -> float:
    """Of the sample, those who are parted from somebody of their cohort, per bit."""
    sides: dict[int, list[bool]] = {}
    for who, cohort in crowd.sample:
        sides.setdefault(cohort, []).append(is_left(who, column, most, codes))
    parted = sum(len(own) for own in sides.values() if len(set(own)) > 1)
    share = sum(is_left(who, column, most, codes) for who in crowd.people) / len(crowd.people)
    bits = -(share * math.log2(share) + (1 - share) * math.log2(1 - share))
    return parted / bits * (1.0 if codes is None else SETS_COUNT)


def leaves_room(crowd: Crowd, left: int, pieces: int, bounds: tuple[int, int]) -> bool:
    """Whether some numbers of pieces hold both sides."""
    right = len(crowd.people) - left
    return any(
        can_hold(left, first, bounds) and can_hold(right, pieces - first, bounds)
        for first in range(1, pieces)
    )


def thresholds(crowd: Crowd, columns: int, pieces: int, bounds: tuple[int, int]) -> Iterator[float]:
    """The score of each threshold that leaves room."""
    for column in range(columns):
        for most in sorted({who[column] for who, _ in crowd.sample}):
            left = sum(who[column] <= most for who in crowd.people)
            if 0 < left < len(crowd.people) and leaves_room(crowd, left, pieces, bounds):
                yield score(crowd, column, most, None)


def check_tree(cut: TreeCut, root: int, crowd: Crowd, bounds: tuple[int, int], numeric: int) -> int:
    """The pieces below a node: each in bounds, each test the best threshold or a set that is no worse."""
    node = cut.nodes[root]
    if node.test is None:
        assert can_hold(len(crowd.people), 1, bounds)
        return 1
    pieces = leaves(cut, root)
    best = min(thresholds(crowd, numeric, pieces, bounds), default=math.inf)
    test = node.test
    if isinstance(test, Pivot):
        assert best == math.inf, "a threshold would have left room"
        ordered = sorted(crowd.people)
        at = len(ordered) * (pieces // 2) // pieces
        assert ordered[at] == test.values
        assert test.first == at - sum(who < test.values for who in ordered)
        assert test.equal == ordered.count(test.values)
        lefts, rights = ordered[:at], ordered[at:]
        # Which of equal ones of the sample went left cannot be told by values: its part is not followed.
        return check_sizes(cut, node.left, len(lefts), bounds) + check_sizes(
            cut, node.right, len(rights), bounds
        )
    column = test.column if isinstance(test, Threshold) else numeric + test.column
    most = test.most if isinstance(test, Threshold) else None
    codes = frozenset(test.codes) if isinstance(test, Codes) else None
    own = score(crowd, column, most, codes)
    assert own <= best + 1e-9
    sides = [
        Crowd(
            [who for who in crowd.people if is_left(who, column, most, codes) is side],
            [each for each in crowd.sample if is_left(each[0], column, most, codes) is side],
        )
        for side in (True, False)
    ]
    for side, child in zip(sides, (node.left, node.right), strict=True):
        assert can_hold(len(side.people), leaves(cut, child), bounds)
    return sum(
        check_tree(cut, child, side, bounds, numeric)
        for side, child in zip(sides, (node.left, node.right), strict=True)
    )


def leaves(cut: TreeCut, root: int) -> int:
    """How many pieces there are below a node."""
    node = cut.nodes[root]
    return 1 if node.test is None else leaves(cut, node.left) + leaves(cut, node.right)


def check_sizes(cut: TreeCut, root: int, people: int, bounds: tuple[int, int]) -> int:
    """Of a node whose people are not known by name: so many can be in its pieces."""
    assert can_hold(people, leaves(cut, root), bounds)
    return leaves(cut, root)
