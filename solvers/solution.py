"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from kanonflow.solvers.bounds.bound_proof import BoundProof
from kanonflow.solvers.lattice.node_checks import KnownNodes, LatticeWork
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.structures.structure import Structure

S = TypeVar("S")


@dataclass(frozen=True)
class Solution:
    """structure: what was found.

    loss: GCP of the structure in [0, 1] on the hulls; waiting rows count 1 each. SIL where that was asked for.
    start_loss: the same of the start. lower_bound: no structure for this table and k has less loss.
    start: which start was taken (``warm`` for the previous window's). evaluations: candidates evaluated.
    deadline_struck: the deadline ended the search, so a repetition may end elsewhere.
    tied_edges: of a graph, edges that are still in a two-edge cut (two_edge_cuts.py); None where it was not looked at.
    proof: the proof of lower_bound, where the method gives one (bound_proof.check_bound verifies it).
    known, lattice: of a lattice solver, what it found out, for the next window, and what that took.
    stack: what was done, in a line; empty where there is one way only.
    trace: (evaluations, loss) after each round. warm_loss, cold_loss: of the starts compared, where both exist.
    warm_kept: where both exist, share of the start that is as the last window left it: slots of a graph that are
    unchanged, individuals in their old class; 0 where the cold start was taken.
    """

    structure: Structure
    loss: float
    start_loss: float
    lower_bound: float
    start: str
    evaluations: int
    deadline_struck: bool = False
    trace: tuple[tuple[int, float], ...] = field(default=())
    warm_loss: float | None = None
    tied_edges: int | None = None
    cold_loss: float | None = None
    proof: BoundProof | None = None
    known: KnownNodes | None = None
    lattice: LatticeWork | None = None
    warm_kept: float | None = None
    stack: str = ""

    @property
    def gap(self) -> float:
        """(loss - lower bound) / lower bound: the loss is at most this share above the least there is."""
        return self.loss / self.lower_bound - 1.0 if self.lower_bound > 0 else float("inf")

    @property
    def graph(self) -> GeneralizationGraph:
        """The structure, when it is a graph; TypeError otherwise."""
        return self._structure(GeneralizationGraph)

    @property
    def partition(self) -> Partition:
        """The structure, when it is a partition; TypeError otherwise."""
        return self._structure(Partition)

    def _structure(self, kind: type[S]) -> S:
        if not isinstance(self.structure, kind):
            raise TypeError(f"the solution is a {type(self.structure).__name__}, not a {kind.__name__}")
        return self.structure

    def summary(self) -> str:
        """One line for people."""
        kind = "bound" if self.proof is None else "proven bound"
        return (
            f"loss {self.loss:.5f} (start {self.start_loss:.5f} by {self.start}, {kind} {self.lower_bound:.5f}, "
            f"gap {self.gap:.1%}), {self.evaluations:,} evaluations"
            + (f": {self.stack}" if self.stack else "")
        )
