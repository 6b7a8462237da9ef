"""Lattice solvers as their definitions read: every node by dictionaries. Slow, and used only to check the fast ones."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product

from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelVector


def naive_groups(lattice: Lattice, levels: LevelVector) -> dict[tuple[int, ...], list[int]]:
    """Generalized row -> the records that have it."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for record in range(lattice.records):
        key = tuple(
            int(table.codes[level][lattice.values[record, j]])
            for j, (table, level) in enumerate(zip(lattice.tables, levels, strict=True))
        )
        groups[key].append(record)
    return dict(groups)


def naive_suppressed(lattice: Lattice, levels: LevelVector, k: int, *, even_share: bool = False) -> set[int]:
    """Records that may not be published: small groups, and an individual's records beyond its share."""
    suppressed: set[int] = set()
    for records in naive_groups(lattice, levels).values():
        held: dict[int, list[int]] = defaultdict(list)
        for record in records:
            held[record if lattice.individuals is None else int(lattice.individuals[record])].append(record)
        shown = len(records) if len(held) >= k else 0
        while even_share and sum(min(len(own), shown) for own in held.values()) < k * shown:
            shown -= 1
        for own in held.values():
            suppressed.update(own[shown:])
    return suppressed


def naive_minimal(lattice: Lattice, k: int, limit: int, *, even_share: bool = False) -> set[LevelVector]:
    """All minimal k-anonymous nodes."""
    anonymous = {
        node
        for node in product(*(range(height + 1) for height in lattice.top))
        if len(naive_suppressed(lattice, node, k, even_share=even_share)) <= limit
    }
    return {
        node for node in anonymous if not any(other != node and _below(other, node) for other in anonymous)
    }


def naive_log(lattice: Lattice, levels: LevelVector) -> Fraction:
    """LOG of a node, exactly."""
    shares = [
        Fraction(level, table.height) if table.height else Fraction(0)
        for level, table in zip(levels, lattice.tables, strict=True)
    ]
    return sum(shares, Fraction(0)) / len(shares)


def naive_gcp(lattice: Lattice, levels: LevelVector, suppressed: set[int]) -> Fraction:
    """GCP with equal weights, exactly: leaves below the node / all leaves, 0 for one; 1 for a suppressed record."""
    total = Fraction(0)
    for record in range(lattice.records):
        for j, (table, level) in enumerate(zip(lattice.tables, levels, strict=True)):
            above = table.codes[level][lattice.values[record, j]]
            leaves = sum(1 for code in table.codes[level] if code == above)
            loss = Fraction(leaves, table.domain) if leaves > 1 else Fraction(0)
            total += Fraction(1) if record in suppressed else loss
    return total / (lattice.attributes * lattice.records)


def _below(low: LevelVector, high: LevelVector) -> bool:
    return all(a <= b for a, b in zip(low, high, strict=True))
