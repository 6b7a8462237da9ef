"""The words that a policy chooses among, and how its windows are solved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Protection(StrEnum):
    """Whom the promise is about: single rows, or all rows of a person together."""

    ROW = "row"
    INDIVIDUAL = "individual"


class Others(StrEnum):
    """What happens to an input's fields that the policy does not name."""

    REFUSE = "refuse"
    DROP = "drop"


class Cohort(StrEnum):
    """With whom individuals are put together. window: afresh in each window, in closed classes in which every row count
    is shared by k of them; the classes of the window before are a start for the search and nothing more. lasting: once,
    when they enter, in cohorts of at least ``cohort_size`` that stay; each window publishes groups of whole cohorts."""

    WINDOW = "window"
    LASTING = "lasting"


class MetricsAccess(StrEnum):
    """Whether metrics stay beside the secrets, or are rounded and written next to the releases."""

    RESTRICTED = "restricted"
    PUBLIC = "public"


class JudgedBy(StrEnum):
    """What of a figure a limit is for: the upper end of its interval, or the figure itself."""

    UPPER = "upper"
    FIGURE = "figure"


@dataclass(frozen=True)
class AssessLimits:
    """What ``kanonflow assess`` lets a release give away, as shares; above one of them it ends with 1.

    singling_out, linkability, inference: of the attacks by attributes, beyond what controls give. exact_uniqueness: of
    rows that are alone in what is published exactly. by: what of the figures is judged.
    """

    singling_out: float = 0.15
    linkability: float = 0.05
    inference: float = 0.05
    exact_uniqueness: float = 0.05
    by: JudgedBy = JudgedBy.UPPER


@dataclass(frozen=True)
class SolverChoice:
    """Which solver runs a window, from which start, and how long.

    evaluations_per_row: budget of the search, a record; None: the solver's default for k.
    deadline_ms: extra wall-clock limit; None: none.     threads: None: one a core.
    seed: replaces the seed that is derived from the secret (for benchmarks); it never drives publishing.
    loss: what the search lowers, ``ncp`` or ``sil``; the metrics tell both.
    suppression: of solvers that publish levels, the share of a window's rows that may be left out (they are rejected).
    parameters: of the method's own and of the start's, in the order of the policy; those who know solvers check them.
    """

    method: str = "auto"
    start: str = "auto"
    evaluations_per_row: float | None = None
    deadline_ms: int | None = None
    threads: int | None = None
    seed: int | None = None
    loss: str = "ncp"
    suppression: float = 0.0
    parameters: tuple[tuple[str, bool | int | float | str], ...] = ()
