"""S0's Fig. 4: l-greedy as its paper runs it, a scan of all free rows a choice, with and without increments.

With: the open class keeps its least and largest value of each number and which categories it holds (S0, 5.1 and 5.2).
Without: both are found anew from its members for each row that might join. Both choose the same rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper_runs import Bench
from benchmarks.stopwatch import timed
from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.starts.l_greedy import sorted_rows
from kanonflow.solvers.starts.l_greedy_tree import l_greedy_members
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree


def sorted_features(
    table: Table,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Weighted numbers (n, d), codes (n, c), cardinalities and prices of a further value, rows in l-greedy's order."""
    units = group_rows(table)
    rows = sorted_rows(units, np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight))
    codes = units.features.codes[rows].astype(np.int64)
    return units.features.numeric[rows], codes, table.cardinality.astype(np.int64), units.features.code_weight


@kernel
def kept_classes(
    numbers: np.ndarray, codes: np.ndarray, cardinality: np.ndarray, price: np.ndarray, k: int
) -> np.ndarray:
    """Classes, int64 (n // k, k) of places in the order, with increments. O(n^2 d / 2)."""
    n, d, c = numbers.shape[0], numbers.shape[1], codes.shape[1]
    classes = np.empty((n // k, k), dtype=np.int64)
    free = np.ones(n, dtype=np.bool_)
    low, high = np.empty(d), np.empty(d)
    held = np.zeros((c, cardinality.max() if c else 1), dtype=np.bool_)
    first = 0
    for number in range(n // k):
        while not free[first]:
            first += 1
        taken = first
        low[:] = numbers[first]
        high[:] = numbers[first]
        held[:] = False
        for size in range(k):
            if size > 0:
                best = np.inf
                for i in range(first, n):
                    if not free[i]:
                        continue
                    loss = 0.0
                    for j in range(d):
                        loss += max(high[j], numbers[i, j]) - min(low[j], numbers[i, j])
                    for j in range(c):
                        if not held[j, codes[i, j]]:
                            loss += price[j]
                    if loss < best - 1e-12:
                        best = loss
                        taken = i
            free[taken] = False
            classes[number, size] = taken
            for j in range(d):
                low[j] = min(low[j], numbers[taken, j])
                high[j] = max(high[j], numbers[taken, j])
            for j in range(c):
                held[j, codes[taken, j]] = True
    return classes


@kernel
def renewed_classes(
    numbers: np.ndarray, codes: np.ndarray, cardinality: np.ndarray, price: np.ndarray, k: int
) -> np.ndarray:
    """The same classes without increments. O(n^2 k d / 4), and the categories of an attribute a row looked at."""
    n, d, c = numbers.shape[0], numbers.shape[1], codes.shape[1]
    classes = np.empty((n // k, k), dtype=np.int64)
    free = np.ones(n, dtype=np.bool_)
    held = np.zeros(cardinality.max() if c else 1, dtype=np.bool_)
    first = 0
    for number in range(n // k):
        while not free[first]:
            first += 1
        taken = first
        for size in range(k):
            if size > 0:
                best = np.inf
                for i in range(first, n):
                    if not free[i]:
                        continue
                    loss = 0.0
                    for j in range(d):
                        low = high = numbers[i, j]
                        for p in range(size):
                            low = min(low, numbers[classes[number, p], j])
                            high = max(high, numbers[classes[number, p], j])
                        loss += high - low
                    for j in range(c):
                        held[: cardinality[j]] = False
                        held[codes[i, j]] = True
                        for p in range(size):
                            held[codes[classes[number, p], j]] = True
                        loss += price[j] * (np.sum(held[: cardinality[j]]) - 1)
                    if loss < best - 1e-12:
                        best = loss
                        taken = i
            free[taken] = False
            classes[number, size] = taken
    return classes


def l_greedy_part(bench: Bench) -> None:
    """Fig. 4: k = 5, all sizes from 1,000 rows on; and the tree that this project's l-greedy asks."""
    table = bench.findings.table(
        "l-greedy with and without increments, k = 5",
        ["data", "rows", "with s", "without s", "times", "less time %", "same classes", "by a tree s"],
        "CPU seconds of one call, the quickest of three. with, without: S0's own comparison, all free rows are looked"
        " at for each choice. by a tree: the product's l-greedy, grouping and tree included.",
    )
    for name in bench.settings.data:
        for rows in bench.settings.rows:
            data = bench.table(name, rows)
            if data is None:
                continue
            given = sorted_features(data)
            seconds, classes = [], []
            for run in (kept_classes, renewed_classes):
                run(*(part[:20] if part.shape[0] == rows else part for part in given), 5)
                tries = [timed(run, *given, 5) for _ in range(3)]
                seconds.append(min(took.cpu for _, took in tries))
                classes.append(tries[0][0])
            asked = min(timed(_by_tree, data)[1].cpu for _ in range(3))
            same = bool(np.array_equal(classes[0], classes[1]))
            times = seconds[1] / seconds[0]
            table.rows.append((name, rows, *seconds, times, 100 * (1 - 1 / times), same, asked))
            bench.keep()


def _by_tree(data: Table) -> NDArray[np.int32]:
    units = group_rows(data)
    return l_greedy_members(
        units, build_tree(units.features, units.weight, units.individual), 5, distinct=False
    )
