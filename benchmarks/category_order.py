"""In which order should Mondrian cut categories, and what does an order by codes cost?

Data: UCI Adult as S4 takes it (``adult_taxonomies``), 30,162 rows, with sets of values and with taxonomies; the first
6,000 rows of sparkov as ``protect: row`` has them (jobs and genders in sets). GCP in % of the same measure that widths
are taken from.

Orders: by codes (of taxonomies: by the lines of the file, depth first), several random numberings (of taxonomies:
random orders of lines), least, mean and largest; by frequency in the whole table; by frequency among what is cut, which
is the solver's. All but the last are cut here, in plain numpy, by an order that is given; tests/test_kab_benchmarks.py
holds this against the solver where categories have one order only.

Ratios: to the mean of the random numberings, in one process. CPU seconds are of the solver alone.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.adult_taxonomies import ALL_ROWS, Adult
from benchmarks.data_sets import ADULT, SPARKOV, MissingDataError, data_path, example_policy, read_feed
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.clusterings import CLUSTERINGS, individual_input
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import gather_individuals
from kanonflow.solvers.units.leaf_orders import leaf_numbers
from kanonflow.transforms.columns.encode import encode

COLUMNS = (
    *("categories", "cut", "k", "by codes, least", "by codes, mean", "by codes, largest"),
    *("by frequency in the table", "by frequency in the cut", "to the mean by codes", "CPU s"),
)


def cut_in_order(table: Table, k: int, *, relaxed: bool) -> NDArray[np.int32]:
    """Mondrian's classes, int32 (n,), categories in the order of codes and leaves. No nulls. O(n log n d) in numpy."""
    weights = table.weights / table.weights.sum()
    dn = table.numeric.shape[1]
    places = np.concatenate([table.numeric, table.categorical], axis=1)
    heights = table.heights or (None,) * dn

    def width(j: int, values: NDArray[np.float64]) -> float:
        if j >= dn:
            return weights[j] * (np.unique(values).size - 1) / max(int(table.cardinality[j - dn]) - 1, 1)
        tree = heights[j]
        if tree is None:
            return weights[j] * float(np.ptp(values))
        ends = leaf_numbers(np.array([values.min(), values.max()]), tree)
        return weights[j] * float(tree[ends[0] : ends[1]].max(initial=0.0))

    labels = np.full(table.records, -1, dtype=np.int32)
    waiting = [np.arange(table.records)]
    classes = 0
    while waiting:
        rows = waiting.pop()
        widths = [width(j, places[rows, j]) for j in range(table.attributes)] if rows.size >= 2 * k else []
        for j in np.argsort(-np.array(widths), kind="stable"):
            if widths[j] <= 0 and not relaxed:
                continue
            ranked = rows[np.argsort(places[rows, j], kind="stable")]
            values = places[ranked, j]
            cut = rows.size // 2
            if not relaxed:
                cut = int(np.searchsorted(values, values[(rows.size - 1) // 2], side="right"))
            if min(cut, rows.size - cut) >= k:
                waiting += [ranked[cut:], ranked[:cut]]
                break
        else:
            labels[rows] = classes
            classes += 1
    return labels


def renumbered(table: Table, orders: list[NDArray[np.int64]]) -> Table:
    """The same sets of values with other codes. orders: of each attribute the new code of each old one."""
    columns = [order[codes] for order, codes in zip(orders, table.categorical.T, strict=True)]
    return Table(table.numeric, np.stack(columns, axis=1).astype(np.int32), table.cardinality, table.weights)


def frequency_orders(table: Table) -> list[NDArray[np.int64]]:
    """The most frequent value of each attribute gets code 0, and so on."""
    counts = [
        np.bincount(codes, minlength=int(size))
        for codes, size in zip(table.categorical.T, table.cardinality, strict=True)
    ]
    return [np.argsort(np.argsort(-count, kind="stable")) for count in counts]


def by_frequency(texts: Counter[str]) -> Callable[[Hierarchy], Hierarchy]:
    """Puts the lines of a hierarchy's file into the order of frequency, from the root down."""

    def relined(tree: Hierarchy) -> Hierarchy:
        below: Counter[str] = Counter()
        for row in tree.rows:
            for label in set(row):
                below[label] += texts[row[0]]
        return Hierarchy(
            tuple(sorted(tree.rows, key=lambda row: [(-below[name], name) for name in row[::-1]]))
        )

    return relined


def numberings(table: Table, count: int) -> Iterator[Table]:
    """Sets of values by frequency, then by random numberings."""
    yield renumbered(table, frequency_orders(table))
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield renumbered(table, [rng.permutation(int(size)) for size in table.cardinality])


def relinings(path: Path, rows: int, count: int) -> Iterator[Table]:
    """Adult with the files of its taxonomies by frequency, then in random orders of lines."""
    adult = Adult(path, rows)
    texts: Counter[str] = Counter()
    for tree, column in zip(adult.taxonomies, adult.table.numeric.T[2:], strict=True):
        at = np.argsort(tree.places)
        leaves = np.rint(column * (len(tree.leaves) - 1)).astype(int)
        texts.update(tree.leaves[at[leaf]] for leaf in leaves)
    yield Adult(path, rows, by_frequency(texts)).table
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield Adult(
            path,
            rows,
            lambda tree, rng=rng: Hierarchy(
                tuple(tree.rows[place] for place in rng.permutation(len(tree.rows)))
            ),
        ).table


def sparkov_table(rows: int) -> Table:
    """The first rows of sparkov, each for itself. Raises MissingDataError."""
    feed = read_feed(data_path(SPARKOV), example_policy("sparkov_rows"), rows=rows)
    whole = pa.concat_tables([window.rows for window in feed.windows])
    return replace(encode(whole, feed.bound, None, {}).table, individuals=None)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Orders of categories for Mondrian, on Adult.")
    parser.add_argument("--rows", type=int, default=ALL_ROWS)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--numberings", type=int, default=5)
    parser.add_argument("--sparkov-rows", type=int, default=6_000)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("category_order", __doc__ or "")
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    found = findings.table("Mondrian, GCP %", COLUMNS)
    tiny, adult = Adult(path, 200), Adult(path, arguments.rows)
    for table in (tiny.sets, tiny.table):
        CLUSTERINGS["mondrian"](individual_input(table, gather_individuals(table), 5, 1))
    tables = {"sets": adult.sets, "taxonomies": adult.table}
    try:
        tables["sparkov, sets"] = sparkov_table(arguments.sparkov_rows)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
    for kind, table in tables.items():
        count = arguments.numberings
        renamed = relinings(path, arguments.rows, count) if table.hierarchical else numberings(table, count)
        others = list(renamed)
        people = gather_individuals(table)
        for cut in ("mondrian", "relaxed-mondrian"):
            for k in arguments.k:
                frequent, *losses = (
                    100 * gcp(other, Partition(cut_in_order(other, k, relaxed=cut != "mondrian")))
                    for other in others
                )
                labels, spent = timed(CLUSTERINGS[cut], individual_input(table, people, k, 1))
                ours, mean = 100 * gcp(table, Partition(labels)), float(np.mean(losses))
                found.rows.append(
                    (kind, cut, k, min(losses), mean, max(losses), frequent, ours, ours / mean, spent.cpu)
                )
                print(found.rows[-1], flush=True)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
