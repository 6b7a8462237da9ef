"""What a node of a lattice loses, by every measure that the sources use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.lattice.losses import level_ncp, log_of
from kanonflow.solvers.loss.class_measures import average_class_size, class_sizes, discernibility, total_loss
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelVector


@dataclass(frozen=True)
class NodeLosses:
    """log: LOG in [0, 1]. los: share of suppressed records. gcp: in [0, 1], a suppressed record counts 1.

    gen_total: GenTotal-IL in percent over the released records (S4, eq. 13-14; an attribute at level l of a node with
    more than one leaf loses l / height). dm: sum of squared class sizes, plus n for each suppressed record.
    c_avg: released records / (classes k); 0 without classes. ncp: per attribute, over the released records.
    """

    log: float
    los: float
    gcp: float
    gen_total: float
    dm: int
    c_avg: float
    ncp: tuple[float, ...]


def node_losses(lattice: Lattice, node: LatticeNode, k: int) -> NodeLosses:
    """All losses of a node. O(n d)."""
    kept = ~node.suppressed
    n, released = lattice.records, int(kept.sum())
    ncp, totals = [], []
    for j, (table, level) in enumerate(zip(lattice.tables, node.levels, strict=True)):
        leaf = lattice.values[kept, j]
        mean = float(level_ncp(table)[level][leaf].mean()) if released else 0.0
        several = table.leaves[level][table.codes[level]] > 1
        share = level / table.height if table.height else 0.0
        ncp.append(mean)
        totals.append(float(several[leaf].mean()) * share if released else 0.0)
    sizes = class_sizes(node)
    within = float(lattice.normalized_weights @ np.array(ncp))
    return NodeLosses(
        log=float(log_of(np.array([node.levels], dtype=np.int32), lattice)[0]),
        los=1 - released / n if n else 0.0,
        gcp=(released * within + (n - released)) / n if n else 0.0,
        gen_total=total_loss(totals, 0.0),
        dm=discernibility(sizes, n - released),
        c_avg=average_class_size(sizes, k),
        ncp=tuple(ncp),
    )


def accuracy(found: NDArray[np.int32], minimal: NDArray[np.int32], top: LevelVector) -> float:
    """Mean over solutions of (H(top) - H(x)) / (H(top) - H(opt)), H the sum of levels (S1, 4.2; its formula is lost).

    found: int32 (m, d), solutions. minimal: int32 (o, d), all minimal k-anonymous nodes; opt is the lowest of those
    on a strategy path through x, that is of those nowhere above x. 1 where x is minimal, 0 at the top unless the top
    is the only answer. O(m o d). 0 without solutions.
    """
    if found.shape[0] == 0:
        return 0.0
    whole = sum(top)
    heights = minimal.sum(axis=1)
    shares = []
    for node in found:
        below = heights[np.all(minimal <= node, axis=1)]
        best = int(below.min()) if below.size else whole
        shares.append(1.0 if best == whole else (whole - int(node.sum())) / (whole - best))
    return float(np.mean(shares))
