"""Counts of people in windows, people alone and dependencies, against twins that go row by row."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from kanonflow.pipelines.explain.alone import alone
from kanonflow.pipelines.explain.dependencies import FOLLOWS, LEAST_SURPRISE, dependencies, determined
from kanonflow.pipelines.explain.people_in_windows import people_in_windows


@pytest.mark.parametrize("seed", range(5))
def test_people_in_windows(seed: int) -> None:
    """Against sets of people; times before 1970 too."""
    rng = np.random.default_rng(seed)
    n = 400
    times, who, partition = rng.integers(-5_000, 5_000, n), rng.integers(0, 40, n), rng.integers(0, 3, n)
    found = people_in_windows(times, who, partition, 700, 5)
    people: dict[tuple[int, int], set[int]] = defaultdict(set)
    rows: Counter[tuple[int, int]] = Counter()
    for when, person, place in zip(times.tolist(), who.tolist(), partition.tolist(), strict=True):
        people[place, when // 700].add(person)
        rows[place, when // 700] += 1
    sizes = [len(each) for each in people.values()]
    small = [key for key, each in people.items() if len(each) < 5]
    assert found.windows == len(sizes)
    assert found.median == np.median(sizes)
    assert found.tenth == np.quantile(sizes, 0.1)
    assert found.small == pytest.approx(len(small) / len(sizes))
    assert found.rows_in_small == pytest.approx(sum(rows[key] for key in small) / n)


@pytest.mark.parametrize("seed", range(5))
def test_alone(seed: int) -> None:
    """Against counts of tuples; every pair, and all of three."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, size, 120) for name, size in (("a", 4), ("b", 30), ("c", 9))}
    found = alone(codes)
    assert [each.fields for each in found] == [
        ("a",),
        ("b",),
        ("c",),
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
        ("a", "b", "c"),
    ]
    for each in found:
        tuples = list(zip(*(codes[name].tolist() for name in each.fields), strict=True))
        counts = Counter(tuples)
        assert each.share == pytest.approx(sum(counts[one] == 1 for one in tuples) / 120)


def _follows(by: list[int], values: list[int]) -> float | None:
    groups: dict[int, Counter[int]] = defaultdict(Counter)
    for one, value in zip(by, values, strict=True):
        groups[one][value] += 1
    several = {one: counts for one, counts in groups.items() if sum(counts.values()) >= 2}
    rows = sum(sum(counts.values()) for counts in several.values())
    if rows < len(by) / 2:
        return None
    all_values = sum(several.values(), Counter())
    if max(all_values.values()) / rows > 1 - LEAST_SURPRISE:
        return None
    right = sum(most for counts in several.values() if (most := max(counts.values())) >= 2) / rows
    return right if right >= FOLLOWS else None


@pytest.mark.parametrize("seed", range(20))
def test_dependencies(seed: int) -> None:
    """Against counts group by group, with noise around the limit; pairs only where neither field suffices."""
    rng = np.random.default_rng(seed)
    n = 600
    a, b = rng.integers(0, 12, n), rng.integers(0, 5, n)
    c, d = a // 3, (a + b) % 4
    noisy = rng.random(n) < 0.005 * (seed % 4)
    c = np.where(noisy, rng.integers(0, 4, n), c)
    codes = {"a": a, "b": b, "c": c, "d": d}
    found = {(each.by, each.dependent): each.share for each in dependencies(codes)}
    expected: dict[tuple[tuple[str, ...], str], float] = {}
    for one in codes:
        for name in codes:
            if one != name and (share := _follows(codes[one].tolist(), codes[name].tolist())) is not None:
                expected[(one,), name] = share
    single = {(by[0], name) for by, name in expected}
    for first, second in (("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")):
        if (first, second) in single or (second, first) in single:
            continue
        both = (codes[first] * 100 + codes[second]).tolist()
        for name in codes:
            if name in (first, second) or (first, name) in single or (second, name) in single:
                continue
            if (share := _follows(both, codes[name].tolist())) is not None:
                expected[(first, second), name] = share
    assert found == pytest.approx(expected)
    assert (("a", "b"), "d") in found


def test_what_is_nearly_the_same_for_everybody_follows_from_nothing() -> None:
    """A field with one value, a field of near unique values, and nothing at all."""
    a = np.arange(200) % 10
    assert dependencies({"a": a, "b": np.zeros(200, dtype=np.int64)}) == ()
    assert list(determined({"x": np.arange(200)}, {"a": a})) == []
    assert dependencies({"a": a[:0], "b": a[:0]}) == ()
