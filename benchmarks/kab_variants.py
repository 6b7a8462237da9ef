"""Why is k-member in S4 twice as bad as KAB, and here better than it?

Data: UCI Adult as S4 takes it (``adult_taxonomies``), first 10,000 rows. What is measured is GenTotal-IL and GCP as S4
defines them, of everybody alike; what differs is how k-member chooses. In plain numpy: whatever it is told costs and
whatever it looks at, a class begins with a seed and takes k - 1 rows, one at a time; rows left over join the class that
grows least. The variant "as here" is the solver's k-member but for ties (first table).

Each variant differs from "as here" in one thing, the last ones in two. Costs: by sets of values; a mismatch costs 1;
heights in the place of leaves (Byun et al. 2007's own); years, or years and ranks, as they are, not divided by their
range; numbers only. Rows: the nearest to the seed, to the row that joined last, of a random tenth of the free rows, of
the next 100 free rows in the file; the first in the file that costs no more than the mean of all free rows. Seeds:
random in the place of the furthest. The last table has the solvers' three clusterings by normalized years and by years
as they are (weights), on all rows.

Ratio: to NCP clustering in the same process, which on all rows is KAB but for 2% (``kab_tables``), in a twentieth of
its time.
S4's own ratios to KAB are 2.0 (k-member), 1.8 (IKA), 2.3 (OKA). CPU seconds are not compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult_taxonomies import ALL_ROWS, Adult
from benchmarks.data_sets import ADULT, MissingDataError, data_path
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.solvers.loss.class_measures import general_total_loss
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.rivals.clusterings import CLUSTERINGS, individual_input
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import gather_individuals

PAPER_RATIOS = {"k-member": 2.0, "ika": 25 / 14, "oka": 32 / 14}
NEXT_ROWS = 100
SAMPLE = 0.1


@dataclass(frozen=True)
class Variant:
    """How k-member chooses. costs, rows: a word of ``Costs`` and ``_candidates``; seeds: furthest or random."""

    costs: str = "leaves"
    rows: str = "class"
    seeds: str = "furthest"


VARIANTS = {
    "as here": Variant(),
    "costs: sets of values": Variant(costs="sets"),
    "costs: a mismatch is 1": Variant(costs="mismatch"),
    "costs: heights (Byun et al.)": Variant(costs="heights"),
    "costs: years, not normalized": Variant(costs="years"),
    "costs: years and ranks, not normalized": Variant(costs="years and ranks"),
    "costs: numbers only": Variant(costs="numbers"),
    "rows: nearest to the seed": Variant(rows="seed"),
    "rows: nearest to the last that joined": Variant(rows="last"),
    "rows: of a random tenth": Variant(rows="sample"),
    "rows: of the next 100 in the file": Variant(rows="next"),
    "rows: first below the mean cost": Variant(rows="first fit"),
    "seeds: random": Variant(seeds="random"),
    "nearest to the seed, random seeds": Variant(rows="seed", seeds="random"),
    "years, nearest to the seed": Variant(costs="years", rows="seed"),
    "years, a mismatch is 1": Variant(costs="years, mismatch"),
}


def spans(adult: Adult, measure: str) -> NDArray[np.float64]:
    """What the ranges of age and education cost, float64 (2,): 1, or their units where they are not normalized."""
    whole = np.ptp(adult.numbers, axis=0)
    return np.where(["years" in measure, "ranks" in measure], whole, 1.0)


class Costs:
    """What a class costs by its ends: of each attribute a range of places, of sets the values themselves."""

    def __init__(self, adult: Adult, measure: str) -> None:
        self.numbers = adult.table.numeric[:, :2] * spans(adult, measure)
        self.leaves: list[NDArray[np.int64]] = []
        self.ranges: list[NDArray[np.float64]] = []
        self.values = adult.sets.categorical if measure == "sets" else None
        self.prices = 1.0 / np.maximum(adult.sets.cardinality - 1, 1)
        if measure in ("sets", "numbers"):
            return
        for j, taxonomy in enumerate(adult.taxonomies):
            size = len(taxonomy.leaves) - 1
            self.leaves.append(np.rint(adult.table.numeric[:, 2 + j] * size).astype(np.int64))
            table = _ranges(taxonomy, by_height=measure == "heights")
            self.ranges.append((table > 0).astype(float) if "mismatch" in measure else table)

    def joined(self, members: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the members cost with each of ``rows``, float64 (m,)."""
        held = self.numbers[np.array(members)]
        others = self.numbers[rows]
        total = np.sum(np.maximum(held.max(axis=0), others) - np.minimum(held.min(axis=0), others), axis=1)
        for leaf, table in zip(self.leaves, self.ranges, strict=True):
            mine, theirs = leaf[np.array(members)], leaf[rows]
            total += table[np.minimum(mine.min(), theirs), np.maximum(mine.max(), theirs)]
        if self.values is not None:
            for column, price in zip(self.values.T, self.prices, strict=True):
                have = np.unique(column[np.array(members)])
                total += price * (have.size - 1 + ~np.isin(column[rows], have))
        return total


def _ranges(taxonomy: Hierarchy, *, by_height: bool) -> NDArray[np.float64]:
    """What the node above the leaves from one place to another costs, float64 (leaves, leaves)."""
    order = np.argsort(taxonomy.places)
    codes = taxonomy.codes[:, order]
    met = codes[:, :, None] == codes[:, None, :]
    level = np.argmax(met, axis=0)
    if by_height:
        return level / taxonomy.height
    return np.where(level > 0, taxonomy.ncp[level, order[:, None]], 0.0)


def _pick(
    costs: Costs, variant: Variant, members: list[int], free: NDArray[np.int64], rng: np.random.Generator
) -> int:
    """The place in ``free`` of the row that joins."""
    looked = np.arange(free.size)
    if variant.rows == "sample":
        looked = rng.choice(free.size, max(int(SAMPLE * free.size), 1), replace=False)
    elif variant.rows == "next":
        looked = np.arange(min(NEXT_ROWS, free.size))
    against = {"seed": members[:1], "last": members[-1:]}.get(variant.rows, members)
    found = costs.joined(against, free[looked])
    if variant.rows == "first fit":
        return int(np.argmax(found <= found.mean()))
    return int(looked[np.argmin(found)])


def labels_of(adult: Adult, k: int, variant: Variant, seed: int) -> NDArray[np.int32]:
    """Classes of a variant, int32 (n,). O(n^2 d)."""
    costs = Costs(adult, variant.costs)
    rng = np.random.default_rng(seed)
    free = np.arange(adult.table.records)
    labels = np.full(free.size, -1, dtype=np.int32)
    place = int(rng.integers(free.size))
    classes: list[list[int]] = []
    while free.size >= k:
        members = [int(free[place])]
        free = np.delete(free, place)
        while len(members) < k:
            chosen = _pick(costs, variant, members, free, rng)
            members.append(int(free[chosen]))
            free = np.delete(free, chosen)
        labels[members] = len(classes)
        classes.append(members)
        if free.size:
            far = variant.seeds == "furthest"
            place = int(np.argmax(costs.joined(members[:1], free)) if far else rng.integers(free.size))
    for row in free:
        rest = np.array([row])
        growth = [
            (len(members) + 1) * costs.joined(members, rest)[0]
            - len(members) * costs.joined(members, np.array(members[:1]))[0]
            for members in classes
        ]
        labels[row] = int(np.argmin(growth))
        classes[labels[row]].append(int(row))
    return labels


def losses(adult: Adult, labels: NDArray[np.int32]) -> tuple[float, float]:
    """(GenTotal-IL, GCP) in %."""
    classes = Partition(labels)
    return general_total_loss(adult.sets, classes, adult.heights), 100 * gcp(adult.table, classes)


def add_weights(findings: Findings, adult: Adult, ks: Sequence[int], seed: int) -> None:
    """The solvers' clusterings told that a year costs what a whole category costs, measured as ever."""
    into = findings.table(
        f"By what a year costs, {adult.table.records:,} rows",
        ("costs", "method", "GenTotal-IL %", "to NCP clustering", "S4's, to KAB", "GCP %"),
        "To NCP clustering that is told the truth.",
    )
    base = 0.0
    for costs in ("normalized", "years", "years and ranks"):
        weights = adult.table.weights.copy()
        weights[:2] = spans(adult, costs)
        told = replace(adult.table, weights=weights)
        people = gather_individuals(told)
        for name in ("ncp-clustering", *PAPER_RATIOS):
            found = [losses(adult, CLUSTERINGS[name](individual_input(told, people, k, seed))) for k in ks]
            whole, leaves = np.mean(found, axis=0).tolist()
            base = base or whole
            into.rows.append((costs, name, whole, whole / base, PAPER_RATIOS.get(name), leaves))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Ways to get k-member wrong, or S4's.")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--all-rows", type=int, default=ALL_ROWS, help="of the last table")
    parser.add_argument("--k", type=int, nargs="+", default=[2, 5, 10, 20, 30, 40])
    parser.add_argument("--seed", type=int, default=1)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("kab_variants", __doc__ or "")
    try:
        adult = Adult(data_path(ADULT), arguments.rows)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    means = findings.table(
        f"Means over k, {adult.table.records:,} rows",
        ("method", "GenTotal-IL %", "to NCP clustering", "GCP %", "to NCP clustering "),
    )
    each = findings.table("By k", ("k", "method", "GenTotal-IL %", "GCP %"))
    people = gather_individuals(adult.table)

    def add(name: str, found: list[tuple[float, float]]) -> None:
        each.rows += [(k, name, *pair) for k, pair in zip(arguments.k, found, strict=True)]
        whole, leaves = np.mean(found, axis=0).tolist()
        base = means.rows[0] if means.rows else (name, whole, 1.0, leaves, 1.0)
        means.rows.append((name, whole, whole / base[1], leaves, leaves / base[3]))
        print(name, f"{whole:.2f} {leaves:.2f}", flush=True)

    for name in ("ncp-clustering", "k-member", "ika", "oka"):
        add(
            name,
            [
                losses(adult, CLUSTERINGS[name](individual_input(adult.table, people, k, arguments.seed)))
                for k in arguments.k
            ],
        )
    for name, variant in VARIANTS.items():
        found = [losses(adult, labels_of(adult, k, variant, arguments.seed)) for k in arguments.k]
        add(name, found)
    add_weights(findings, Adult(data_path(ADULT), arguments.all_rows), arguments.k, arguments.seed)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
