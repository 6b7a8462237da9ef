"""How long a search may go on: evaluations, which are deterministic, and optionally a deadline, which is not."""

from __future__ import annotations

from dataclasses import dataclass

from kanonflow.solvers.problem.errors import BudgetError

# One evaluation costs 40-60 ns with everything around it, so 5,000 are about 0.2 ms a row at k = 5. Adult, 30,162 rows,
# k = 5, loss and seconds: .0154 at 500 (0.9 s), .0148 at 1,800 (2.9 s), .0145 at 6,400 (11 s on a loaded machine).
EVALUATIONS_PER_ROW = 5000.0
# On closed classes it costs 30-50 ns, and there are fewer individuals than rows: 0.05 ms a row. Twice as many lower
# the loss by .3% (40 windows of 850 rows of the demo feed: .1698 without a search, then .1530 at 500, .1517 at 1,000,
# .15125 at 1,500, .15074 at 3,000, .15045 at 5,000) and take 60% more solving time.
CLASS_EVALUATIONS_PER_ROW = 1500.0
REFERENCE_K = 5


@dataclass(frozen=True)
class Budget:
    """evaluations_per_row: None for the default, which grows with k beyond 5 because boxes have more members.

    deadline_ms: stop at this many milliseconds after the start of the search, whatever the evaluations; None: never.
    What then remains, dealing rows and mending two-edge cuts, takes some tenths of a second in large windows.
    """

    evaluations_per_row: float | None = None
    deadline_ms: float | None = None

    def __post_init__(self) -> None:
        if self.evaluations_per_row is not None and not self.evaluations_per_row >= 0:
            raise BudgetError("evaluations_per_row must be 0 or more")
        if self.deadline_ms is not None and not self.deadline_ms > 0:
            raise BudgetError("deadline_ms must be positive")

    def evaluations(self, rows: int, k: int, *, classes: bool = False) -> int:
        """Evaluations for a window of that many rows; classes: of the search on closed classes."""
        each = self.evaluations_per_row
        if each is None:
            each = (CLASS_EVALUATIONS_PER_ROW if classes else EVALUATIONS_PER_ROW) * max(1.0, k / REFERENCE_K)
        return int(each * rows)
