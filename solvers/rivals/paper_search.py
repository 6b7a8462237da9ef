"""The iterated local search of S0 as printed: exhaustive 2-opt, incremental evaluation, random perturbation.

It is the baseline that the search of this package is measured against, so it does what the paper says and no more: no
neighbour lists, no pruning but one that cannot change the result, no kicks. Every scan of a slot costs n k^2 moves.

    ILS (Algorithm 1): best <- LS(start); again and again: found <- LS(perturb(best)); best <- found if strictly better
    LS (Algorithm 2):  list <- all slots
                       while list: b <- a random one, taken off the list
                           scan all moves of b: a in b and c in d change places; delta = loss before - loss after
                           apply the best one (or the first) with delta > 0; b and d go back on the list

Where the paper is silent: only b and d go back, because the neighbourhood is symmetric. A move that does not touch b
or d gains what it gained before, and whether it is legal depends on its own two slots; so when the list is empty no
slot has an improving move. Perturbation puts the slots it touched on the list, for the same reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.paper_moves import PaperWork, local_search, perturb, refresh_all
from kanonflow.solvers.rivals.paper_ncp import NcpSlots, build_ncp
from kanonflow.solvers.rivals.paper_sil import SilSlots, build_sil
from kanonflow.solvers.search.rounds import Progress, SearchResult
from kanonflow.solvers.search.workspace import EPSILON

IMPROVEMENTS = ("best", "first")
LOSSES = ("ncp", "sil", "sil-own")
# Between two looks at the clock; tens of milliseconds, or one scan of a slot if that takes longer.
CHUNK = 2_000_000
NO_LIMIT = int(np.iinfo(np.int64).max)
# Members and their loss.
Best = list[Any]


@dataclass(frozen=True)
class PaperSearch:
    """Parameters of S0's search.

    improvement: ``best`` move of a slot's scan, or the ``first`` that improves. loss: ``ncp``, ``sil`` (mean over all
    n k edges) or ``sil-own`` (eq. 7 as printed: record i against the average of slot i). strict: a move takes four
    distinct indices, as S0 asks: slot i then keeps record i for ever. incremental: evaluate from what is kept for a
    slot (S0, section 5) or by a scan of its members; the moves are the same. perturbation: random swaps between two
    local searches; 0: as many as records, which is how S0 reads.

    Raises BudgetError, naming all mistakes.
    """

    improvement: str = "best"
    loss: str = "ncp"
    strict: bool = False
    incremental: bool = True
    perturbation: int = 10

    def __post_init__(self) -> None:
        mistakes = []
        if self.improvement not in IMPROVEMENTS:
            mistakes.append(f"improvement must be one of {', '.join(IMPROVEMENTS)}")
        if self.loss not in LOSSES:
            mistakes.append(f"loss must be one of {', '.join(LOSSES)}")
        if self.perturbation < 0:
            mistakes.append("perturbation must be 0 or more")
        if mistakes:
            raise BudgetError("; ".join(mistakes))


def with_own_records(members: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same slots in another order, int32 (n, k): slot i holds record i, as S0 numbers anonymized tuples.

    A regular bipartite graph has a perfect matching; it names the slots. O(n k sqrt(n)).
    """
    n, k = members.shape
    # Loaded here: few solvers want it.
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    edges = csr_matrix(
        (np.ones(n * k, dtype=np.int8), members.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n)
    )
    record = maximum_bipartite_matching(edges, perm_type="column")
    renamed = np.empty_like(members)
    renamed[record] = members
    return renamed


def paper_state(table: Table, members: NDArray[np.int32], parameters: PaperSearch) -> NcpSlots | SilSlots:
    """The state that the parameters ask for, over members int32 (n, k) of rows.

    Raises UnservedError when the table has too many categorical values.
    """
    if parameters.strict or parameters.loss == "sil-own":
        members = with_own_records(members)
    if parameters.loss == "ncp":
        return build_ncp(table, members, incremental=parameters.incremental)
    return build_sil(table, members, incremental=parameters.incremental, own=parameters.loss == "sil-own")


def paper_search(
    slots: NcpSlots | SilSlots,
    individuals: NDArray[np.int64] | None,
    parameters: PaperSearch,
    *,
    iterated: bool,
    evaluations: int | None,
    seed: int,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    progress: Progress | None = None,
) -> SearchResult:
    """Lower the loss of ``slots`` in place.

    slots: of ``paper_state`` for the same parameters. individuals: int64 (n,), whose each row is; None: its own.
    iterated: perturb and repeat (Algorithm 1); else one local search (Algorithm 2). evaluations: of a slot's loss;
    None: until the first local optimum, iterated: as many again. deadline: a time of ``clock``. progress: told
    evaluations and loss after each chunk. Postcondition: the graph is legal if it was, its loss is not higher.
    O(n k^2 d) a scan of a slot.
    """
    run = _Run(slots, individuals, parameters, seed, deadline, clock, progress)
    run.descend(NO_LIMIT if evaluations is None else evaluations)
    limit = 2 * run.spent if evaluations is None else evaluations
    best: Best = [slots.members.copy(), float(slots.loss.mean())]
    while iterated and run.spent < limit and not run.struck:
        _perturb_and_search(run, best, limit)
    run.note(best[1])
    return SearchResult(run.spent, run.struck, tuple(run.trace))


def _perturb_and_search(run: _Run, best: Best, limit: int) -> None:
    """One turn of Algorithm 1; ``best`` is replaced if the turn ends strictly better, else put back."""
    run.perturb()
    run.descend(limit)
    loss = float(run.slots.loss.mean())
    if loss < best[1] - EPSILON:
        best[:] = [run.slots.members.copy(), loss]
    else:
        run.put_back(best[0])
    run.note(best[1])


class _Run:
    """One search: its state, its scratch memory, its clock and its trace."""

    def __init__(
        self,
        slots: NcpSlots | SilSlots,
        individuals: NDArray[np.int64] | None,
        parameters: PaperSearch,
        seed: int,
        deadline: float | None,
        clock: Callable[[], float],
        progress: Progress | None,
    ) -> None:
        n = slots.members.shape[0]
        self.slots, self._parameters = slots, parameters
        self._who = np.arange(n) if individuals is None else np.unique(individuals, return_inverse=True)[1]
        self._who = np.ascontiguousarray(self._who, dtype=np.int64)
        self._deadline, self._clock, self._progress = deadline, clock, progress
        self._work = PaperWork(
            listed=np.arange(n, dtype=np.int32),
            at=np.arange(n, dtype=np.int32),
            size=np.array([n], dtype=np.int64),
            random=np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64),
            evaluations=np.zeros(1, dtype=np.int64),
            move=np.zeros(3, dtype=np.int64),
        )
        self.struck = False
        self.trace: list[tuple[int, float]] = []

    @property
    def spent(self) -> int:
        """Evaluations made so far."""
        return int(self._work.evaluations[0])

    def descend(self, limit: int) -> None:
        """A local search from the slots on the list, with a look at the clock between chunks."""
        while self._work.size[0] > 0 and self.spent < limit:
            if self._deadline is not None and self._clock() >= self._deadline:
                self.struck = True
                return
            local_search(
                self.slots, self._who, self._work, self._parameters.improvement == "first", self._parameters.strict,
                min(self.spent + CHUNK, limit),
            )  # fmt: skip
            if not self.trace or self._progress is not None:
                self.note(float(self.slots.loss.mean()))

    def perturb(self) -> None:
        """The perturbation of section 5.4."""
        swaps = self._parameters.perturbation
        # A swap that found nothing still counts, so that a graph without legal moves ends the search.
        self._work.evaluations[0] += 1
        perturb(
            self.slots, self._who, self._work, swaps or self.slots.members.shape[0],
            self._parameters.strict,
        )  # fmt: skip

    def put_back(self, members: NDArray[np.int32]) -> None:
        """Return to an earlier graph, a local optimum: nothing is left to look at."""
        self.slots.members[...] = members
        refresh_all(self.slots)
        self._work.size[0] = 0
        self._work.at[...] = -1

    def note(self, loss: float) -> None:
        """Put a point on the trace."""
        self.trace.append((self.spent, loss))
        if self._progress is not None:
            self._progress(self.spent, loss)
