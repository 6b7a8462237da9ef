"""What a solver takes, and what a feed will ask of it: compared before the first window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class Attribute(NamedTuple):
    """A quasi-identifier of the feed. numeric: numbers or dates. height: of its hierarchy, None where it has none."""

    name: str
    numeric: bool
    height: int | None = None


@dataclass(frozen=True)
class Demand:
    """What a feed asks in window after window. rows: the most rows of a window."""

    rows: int
    k: int
    attributes: tuple[Attribute, ...]


class Refusal(NamedTuple):
    """One thing that a solver does not take.

    what: rows, categories, hierarchies, k, levels (attributes that have none) or nodes (of the lattice).
    most: the limit. asked: what the demand has instead. names: of the attributes that are in the way.
    """

    what: str
    most: int = 0
    asked: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What a solver takes; None: any number.

    rows: at once. k: the largest. numeric_only: numbers and dates, no categories. hierarchies: whether it knows them.
    levels_only: every attribute must have a hierarchy. nodes: of the lattice of all levels; with of_subsets those of
    the lattices of all subsets of the attributes count too.
    """

    rows: int | None = None
    k: int | None = None
    numeric_only: bool = False
    hierarchies: bool = True
    levels_only: bool = False
    nodes: int | None = None
    of_subsets: bool = False

    def refusals(self, demand: Demand) -> list[Refusal]:
        """All that is wrong; empty: the solver can serve the feed."""
        found = []
        if self.rows is not None and demand.rows > self.rows:
            found.append(Refusal("rows", self.rows, demand.rows))
        categories = tuple(each.name for each in demand.attributes if not each.numeric)
        if self.numeric_only and categories:
            found.append(Refusal("categories", names=categories))
        levelled = tuple(each.name for each in demand.attributes if each.height is not None)
        if not self.hierarchies and levelled:
            found.append(Refusal("hierarchies", names=levelled))
        if self.k is not None and demand.k > self.k:
            found.append(Refusal("k", self.k, demand.k))
        flat = tuple(each.name for each in demand.attributes if each.height is None)
        if self.levels_only and flat:
            found.append(Refusal("levels", names=flat))
        if self.nodes is not None:
            more = 2 if self.of_subsets else 1
            nodes = math.prod(each.height + more for each in demand.attributes if each.height is not None)
            if nodes > self.nodes:
                found.append(Refusal("nodes", self.nodes, nodes))
        return found


ANYTHING = Limits()
"""Of a solver that serves any feed."""
ANY_LEVELS = Limits(levels_only=True)
"""Of one that serves any feed whose attributes all have hierarchies."""
