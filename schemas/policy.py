"""What is published how: the roles of all fields, k, the windows, and whom the promise is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from enum import StrEnum
from typing import Any

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_fields import Field, Outside, Quasi, QuasiType, Role
from kanonflow.schemas.policy_rules import LEAST_PART, find_mistakes

__all__ = [
    "Cohort",
    "Field",
    "MetricsAccess",
    "Others",
    "Outside",
    "Policy",
    "Protection",
    "Quasi",
    "QuasiType",
    "Role",
    "Shape",
    "SolverChoice",
    "build_policy",
]

LEAST_STATE_TTL_MS = 30 * 86_400_000
COHORT_WINDOWS = 5
"""Released windows over which classes are remembered, unless the policy says otherwise."""
MAX_WINDOW_ROWS = 200_000
"""Rows of a partition's window that are solved in one go, unless the policy says otherwise."""


class Protection(StrEnum):
    """Whom the promise is about: single rows, or all rows of a person together."""

    ROW = "row"
    INDIVIDUAL = "individual"


class Shape(StrEnum):
    """What ``protect: individual`` publishes from: closed classes, or a graph over individuals."""

    CLASSES = "classes"
    GRAPH = "graph"


class Others(StrEnum):
    """What happens to an input's fields that the policy does not name."""

    REFUSE = "refuse"
    DROP = "drop"


class Cohort(StrEnum):
    """Whether a returning individual's class is a free choice of the search, kept across windows where that can be, or
    guaranteed to leave k candidates over the last ``cohort_windows`` windows (else the class waits)."""

    FREE = "free"
    KEEP = "keep"
    STRICT = "strict"


class MetricsAccess(StrEnum):
    """Whether metrics stay beside the secrets, or are rounded and written next to the releases."""

    RESTRICTED = "restricted"
    PUBLIC = "public"


@dataclass(frozen=True)
class SolverChoice:
    """Which solver runs a window, from which start, and how long.

    evaluations_per_row: budget of the search, a record; None: the solver's default for k.
    deadline_ms: extra wall-clock limit; None: none.     threads: None: one a core.
    seed: replaces the seed that is derived from the secret (for benchmarks); it never drives publishing.
    loss: what the search lowers, ``ncp`` or ``sil``; the metrics tell both.
    """

    method: str = "auto"
    start: str = "auto"
    evaluations_per_row: float | None = None
    deadline_ms: int | None = None
    threads: int | None = None
    seed: int | None = None
    loss: str = "ncp"


@dataclass(frozen=True)
class Policy:
    """A complete, valid policy. Durations are integer milliseconds; ``window_ms`` None: one single window.

    max_delay_ms counts from the end of a row's own window and is also the allowed lateness;
    out_of_orderness_ms is how long a window stays open after its end; state_ttl_ms is how long state that
    nothing uses is kept (by default 30 days, or twice window + max_delay when that is longer).
    max_window_rows: a partition's window with more rows, waiting ones included, is released in several parts of near
    rows, each a release with k individuals of its own (by default 200,000, or 10 k when that is more).
    protect: by default ``individual`` if a field has that role, else ``row``. With the former come
    ``shape: classes``. cohort: by default ``free``; ``keep`` holds returning individuals in their class, which costs
    many rows where row counts change from window to window; ``strict`` lets classes wait that do not leave k candidates
    over the last ``cohort_windows`` released windows of the partition, this one included. stability: with ``free``,
    what it costs to publish a returning individual in another class than the last one, a row that waits being 1.

    Raises PolicyError with all mistakes at once.
    """

    name: str
    k: int
    fields: tuple[Field, ...]
    version: int = 1
    window_ms: int | None = None
    window_offset_ms: int = 0
    max_delay_ms: int = 0
    out_of_orderness_ms: int = 0
    state_ttl_ms: int = 0
    partition_by: tuple[str, ...] = ()
    # None stands for "by the other keys" and is gone once the policy exists.
    max_window_rows: int = None  # type: ignore[assignment]
    protect: Protection = None  # type: ignore[assignment]
    shape: Shape | None = None
    others: Others = Others.REFUSE
    cohort: Cohort = None  # type: ignore[assignment]
    cohort_windows: int = COHORT_WINDOWS
    stability: float = 0.0
    metrics: MetricsAccess = MetricsAccess.RESTRICTED
    solver: SolverChoice = member(default_factory=SolverChoice)

    def __post_init__(self) -> None:
        self._choose_defaults()
        mistakes = find_mistakes(self)
        if mistakes:
            raise PolicyError(mistakes, self.name)

    def _choose_defaults(self) -> None:
        chosen: dict[str, Any] = {}
        if self.protect is None:
            chosen["protect"] = Protection.ROW if self.individual is None else Protection.INDIVIDUAL
        by_individual = chosen.get("protect", self.protect) is Protection.INDIVIDUAL
        if by_individual and self.shape is None:
            chosen["shape"] = Shape.CLASSES
        if self.cohort is None:
            chosen["cohort"] = Cohort.FREE
        if self.max_window_rows is None:
            least = LEAST_PART * self.k if isinstance(self.k, int) else 0
            chosen["max_window_rows"] = max(MAX_WINDOW_ROWS, least)
        if self.state_ttl_ms == 0:
            twice = 2 * ((self.window_ms or 0) + self.max_delay_ms)
            remembered = 0
            if self.cohort is Cohort.STRICT and isinstance(self.cohort_windows, int):
                remembered = self.cohort_windows * (self.window_ms or 0)
            chosen["state_ttl_ms"] = max(LEAST_STATE_TTL_MS, twice, remembered)
        for name, value in chosen.items():
            object.__setattr__(self, name, value)

    @property
    def individual(self) -> Field | None:
        """The field that says whom a record belongs to; None: each record is its own individual."""
        return self._with_role(Role.INDIVIDUAL)

    @property
    def time(self) -> Field | None:
        """The event-time field; None when the whole input is one window."""
        return self._with_role(Role.TIME)

    @property
    def event_id(self) -> Field | None:
        """The field by which repeats are recognized, if there is one."""
        return self._with_role(Role.EVENT_ID)

    @property
    def quasis(self) -> tuple[Field, ...]:
        """The quasi-identifiers in the policy's order, a time field that is also one included."""
        return tuple(field for field in self.fields if field.quasi is not None)

    @property
    def payload(self) -> tuple[Field, ...]:
        """The fields that are published as they are, in the policy's order (partition fields included)."""
        return tuple(field for field in self.fields if field.role in (Role.SENSITIVE, Role.INSENSITIVE))

    @property
    def gated(self) -> tuple[Field, ...]:
        """The sensitive fields whose values every class must show enough of, in the policy's order."""
        return tuple(field for field in self.fields if field.diversity or field.closeness)

    @property
    def closed(self) -> bool:
        """Whether releases are made of closed classes: of individuals, or of rows when a field is ``gated``."""
        by_individual = self.protect is Protection.INDIVIDUAL and self.shape is not Shape.GRAPH
        return by_individual or bool(self.gated)

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The fields of ``partition_by``, in its order; published as they are."""
        by_name = {field.name: field for field in self.fields}
        return tuple(by_name[name] for name in self.partition_by)

    def field(self, name: str) -> Field:
        """The field of that name. Raises KeyError."""
        return {field.name: field for field in self.fields}[name]

    def _with_role(self, role: Role) -> Field | None:
        return next((field for field in self.fields if field.role is role), None)


def build_policy(
    parts: Mapping[str, Any], *, mistakes: Sequence[str] = (), unread: Collection[str] = (), source: str = ""
) -> Policy:
    """A policy from what a reader found, reporting the reader's mistakes and the policy's own together.

    parts: constructor arguments.     mistakes: what the reader already has to report.
    unread: fields among ``parts`` that stand in for declarations that could not be read.

    Raises PolicyError with all mistakes when there is any.
    """
    policy = object.__new__(Policy)
    for attribute in dataclasses.fields(Policy):
        value = SolverChoice() if attribute.name == "solver" else attribute.default
        object.__setattr__(policy, attribute.name, parts.get(attribute.name, value))
    policy._choose_defaults()
    found = [*mistakes, *find_mistakes(policy, unread)]
    if found:
        raise PolicyError(found, source)
    return policy
