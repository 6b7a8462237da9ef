"""One problem to solve: a table, what is asked of its answer, and what the search may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.problem.parameters import Parameters
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table

DEFAULT_BUDGET = Budget()
# shape -> what the window before leaves for it
SHAPES: dict[str, type] = {"row_graph": WarmGraph, "classes": WarmClasses}


@dataclass(frozen=True, eq=False)
class Task:
    """What every solver takes; each reads what concerns it.

    table: n records. k: how many individuals each released record must hide among.
    shape: ``row_graph`` (k-regular graph over records) or ``classes`` (closed classes of individuals).
    start: what a search begins with, by name; ``auto`` lets it choose.
    loss: what is lowered and reported, ``ncp`` (GCP) or ``sil`` (no lower bound then).
    budget: evaluations, and the deadline.
    seed: of everything that is drawn. threads: the answer is the same with one and with several.
    warm: what the window before left, of the same shape; who returns is kept with the same others where that pays.
    priority: int64 (n,), of an individual's records those with smaller values stay first; None: the first ones.
    parameters: of the method's own, and of the start's, by name (docs/solvers.md lists them).
    sensitive: fields whose values in each class must meet rules (shape classes only).
    clock: seconds, for the deadline. progress: called with evaluations and loss while a search goes on.
    figures: False where the structure and its loss are all that is wanted: solvers may leave lower bound and trace out.

    Raises BudgetError for an unknown shape, and for a ``warm`` or ``sensitive`` that is not for the shape.
    """

    table: Table
    k: int
    _: KW_ONLY
    seed: int
    shape: str = "row_graph"
    start: str = "auto"
    loss: str = "ncp"
    budget: Budget = DEFAULT_BUDGET
    threads: int = 1
    warm: WarmGraph | WarmClasses | None = None
    priority: NDArray[np.int64] | None = None
    parameters: Parameters = field(default_factory=dict)
    sensitive: Sequence[Sensitive] = ()
    clock: Callable[[], float] = time.monotonic
    progress: Callable[[int, float], None] | None = None
    figures: bool = True

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise BudgetError(f"unknown shape {self.shape!r}: choose one of {', '.join(SHAPES)}")
        wanted = SHAPES[self.shape]
        if self.warm is not None and not isinstance(self.warm, wanted):
            raise BudgetError(f"shape {self.shape} takes a {wanted.__name__} as warm start")
        if self.sensitive and self.shape != "classes":
            raise BudgetError("rules for sensitive values need shape classes")

    def deadline(self) -> float | None:
        """When the search must end, on the clock and counted from now; None: never."""
        limit = self.budget.deadline_ms
        return None if limit is None else self.clock() + limit / 1000.0
