"""What is published how: the roles of all fields, k, the windows, and whom the promise is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from functools import cached_property
from typing import Any

from kanonflow.schemas.against import Against
from kanonflow.schemas.avro_names import renamed
from kanonflow.schemas.diversity_declaration import words_of_values
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.lasting_policy import LastingPolicy, there
from kanonflow.schemas.policy_choices import (
    AssessLimits,
    Cohort,
    MetricsAccess,
    Others,
    Protection,
    SolverChoice,
)
from kanonflow.schemas.policy_fields import PAYLOAD, Field, Outside, Quasi, QuasiType, Role
from kanonflow.schemas.policy_rules import LEAST_PART, find_mistakes
from kanonflow.schemas.promises.promise import Promise
from kanonflow.schemas.promises.promises import promise_of
from kanonflow.schemas.published_group import PublishedGroup
from kanonflow.schemas.published_member import PublishedMember
from kanonflow.schemas.renew import Renew
from kanonflow.schemas.text_form import CsvForm

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
    "SolverChoice",
    "build_policy",
]

LEAST_STATE_TTL_MS = 30 * 86_400_000
MAX_AHEAD_MS = 86_400_000
"""How much later than its arrival a row's time may be, unless the policy says otherwise: one day."""
COHORT_WINDOWS = 5
"""Released windows over which classes are remembered, for what the metrics say of several windows."""
LATTICE_METHODS = ("ola", "kgen", "exhaustive", "incognito", "samarati", "datafly", "random-search")
"""Solvers that publish every field at one level of its hierarchy, from closed classes of equal labels."""
MAX_WINDOW_ROWS = 200_000
"""Rows of a partition's window that are solved in one go, unless the policy says otherwise."""
MAX_REJECTED = 0.05
"""Share of the rows read that may be rejected because they do not fit, unless the policy says otherwise."""


@dataclass(frozen=True)
class Policy:
    """A complete, valid policy. Durations are integer milliseconds; ``window_ms`` None: one single window.

    max_delay_ms counts from the end of a row's own window and is also the allowed lateness (with cohorts that last,
    whole windows of it: ``waiting_ms``);
    out_of_orderness_ms is how long a window stays open after its end; max_ahead_ms how much later than its arrival a
    row's time may be where the source tells arrivals (None: a day), as streams do and files do not; state_ttl_ms is
    how long state that nothing uses is kept (by default 30 days, or twice window + max_delay when that is longer).
    max_window_rows: a partition's window with more rows, waiting ones included, is released in several parts of near
    rows, each a release with k individuals of its own (by default 200,000, or 10 k when that is more).
    protect: by default ``individual`` if a field has that role, else ``row``. cohort: of ``protect: individual``, by
    default ``lasting`` with a window and ``window`` without one; None with ``protect: row``.
    cohort_size, intake, intake_share, max_outdated: of ``cohort: lasting``, None without it. cohort_size: people a
    cohort, by default k. intake, intake_share: newcomers enter when so many wait, and so large a share of the people
    who have entered, or when a row of one must leave; by default 200 k and 0.05, the share 0 with another intake;
    with no max_delay at once (cohort_size and 0). max_outdated: share of a window's rows whose values have left their
    frozen box above which the run says that a renewal is due, by default 0.02.
    split_by: of ``cohort: lasting``, fields of rows: each of their values has releases of its own in a window, of the
    cohorts that the whole partition has.
    people: of ``cohort: lasting``, the name of the file of people known from the start, as the policy says it; None:
    there is none.
    against: of ``cohort: lasting``, the reader who knows more and to whom k people shall be left; None: there is none.
    renew: of ``cohort: lasting``, how a run begins a new epoch of the people of the one before; None: none does.
    publish_member: of ``cohort: lasting``, the column by which every reader links a person's rows; None: there is none.
    publish_group: of ``cohort: lasting``, the columns by which every reader follows groups; None: there are none.
    csv: how CSV files of the input are written; None: as ``CsvForm()`` says.
    max_rejected: share of the rows read that may be rejected because of what the input holds (None: 0.05).
    assess: what ``kanonflow assess`` lets a release give away (None: as ``AssessLimits()`` says).

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
    max_ahead_ms: int | None = None
    state_ttl_ms: int = 0
    partition_by: tuple[str, ...] = ()
    # None stands for "by the other keys" and is gone once the policy exists.
    max_window_rows: int = None  # type: ignore[assignment]
    protect: Protection = None  # type: ignore[assignment]
    others: Others = Others.REFUSE
    cohort: Cohort | None = None
    cohort_size: int | None = None
    intake: int | None = None
    intake_share: float | None = None
    max_outdated: float | None = None
    split_by: tuple[str, ...] = ()
    people: str | None = None
    against: Against | None = None
    renew: Renew | None = None
    publish_member: PublishedMember | None = None
    publish_group: PublishedGroup | None = None
    csv: CsvForm | None = None
    max_rejected: float | None = None
    assess: AssessLimits | None = None
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
        if self.cohort is None and chosen.get("protect", self.protect) is Protection.INDIVIDUAL:
            chosen["cohort"] = _default_cohort(self.window_ms)
        promise = promise_of(chosen.get("protect", self.protect), chosen.get("cohort", self.cohort))
        defaults = promise.defaults(self)
        chosen |= {name: value for name, value in defaults.items() if getattr(self, name) is None}
        if self.max_window_rows is None:
            least = LEAST_PART * self.k if isinstance(self.k, int) else 0
            chosen["max_window_rows"] = max(MAX_WINDOW_ROWS, least)
        if not self.split_by:
            chosen["split_by"] = ()
        if self.state_ttl_ms == 0:
            twice = 2 * ((self.window_ms or 0) + self.max_delay_ms)
            chosen["state_ttl_ms"] = max(LEAST_STATE_TTL_MS, twice)
        for name, value in chosen.items():
            object.__setattr__(self, name, value)

    @property
    def promise(self) -> Promise:
        """What is promised, in words, and what that asks of a policy."""
        return promise_of(self.protect, self.cohort)

    @property
    def lasting(self) -> bool:
        """Whether people are put together once, in cohorts that last over windows."""
        return self.promise.epochs

    @cached_property
    def cohorts(self) -> LastingPolicy:
        """What the policy says of cohorts that last, of which nothing is missing. Raises LookupError: it has none."""
        return LastingPolicy(
            there(self.individual),
            there(self.time),
            there(self.window_ms),
            there(self.cohort_size),
            there(self.intake),
            there(self.intake_share),
            there(self.max_outdated),
        )

    @property
    def entering(self) -> str | None:
        """The name of the field of people who enter for good; None: nobody does."""
        return self.cohorts.individual.name if self.promise.epochs else None

    @property
    def events_last(self) -> bool:
        """Whether runs that go on from one know its rows by their event ids: these are handed on with cohorts."""
        return self.event_id is not None and self.entering is not None

    @property
    def read_once(self) -> tuple[Field, ...]:
        """The fields that are read of each person once, when it enters, and of nobody who is known."""
        return self.quasis if self.promise.epochs else ()

    @property
    def can_divide(self) -> bool:
        """Whether somebody can have rows in more than one partition, and a promise is lost by that."""
        return self.promise.epochs and bool(self.partition_by)

    @property
    def release_by(self) -> tuple[str, ...]:
        """The fields of which all rows of a release say the same: those that part the feed, then those that split."""
        return (*self.partition_by, *self.split_by)

    @property
    def accepts_divided(self) -> bool:
        """Whether people with rows in more than one partition are accepted: a field of ``partition_by`` says it."""
        return any(self.field(name).accept_risk is not None for name in self.partition_by)

    @property
    def followed_by(self) -> dict[str, PublishedMember | PublishedGroup]:
        """By key, the columns by which every reader follows rows over releases."""
        columns = {"publish_member": self.publish_member, "publish_group": self.publish_group}
        return {key: each for key, each in columns.items() if each is not None}

    @property
    def accepted_risks(self) -> dict[str, str]:
        """Each reason why a risk is accepted, by the field, or the key, that says it."""
        accepted = {field.name: field.accept_risk for field in self.fields if field.accept_risk}
        accepted |= {key: each.accept_risk for key, each in self.followed_by.items()}
        if self.renew is not None and self.renew.accept_risk:
            accepted["renew"] = self.renew.accept_risk
        return accepted

    @property
    def ahead_limit_ms(self) -> int:
        """How much later than its arrival a row's time may be, the default in the place of None."""
        return MAX_AHEAD_MS if self.max_ahead_ms is None else self.max_ahead_ms

    @property
    def rejected_limit(self) -> float:
        """Share of the rows read that may be rejected as unfit, the default in the place of None."""
        return MAX_REJECTED if self.max_rejected is None else self.max_rejected

    @property
    def waiting_ms(self) -> int:
        """How long after the end of its own window a row may wait at most, in ms."""
        return self.promise.waiting_ms(self)

    @cached_property
    def individual(self) -> Field | None:
        """The field that says whom a record belongs to; None: each record is its own individual."""
        return self._with_role(Role.INDIVIDUAL)

    @cached_property
    def owner(self) -> tuple[str, ...]:
        """The name of that field, if there is one."""
        return () if self.individual is None else (self.individual.name,)

    @cached_property
    def time(self) -> Field | None:
        """The event-time field; None when the whole input is one window."""
        return self._with_role(Role.TIME)

    @cached_property
    def event_id(self) -> Field | None:
        """The field by which repeats are recognized, if there is one."""
        return self._with_role(Role.EVENT_ID)

    @cached_property
    def quasis(self) -> tuple[Field, ...]:
        """The quasi-identifiers in the policy's order, a time field that is also one included."""
        return tuple(field for field in self.fields if field.quasi is not None)

    @cached_property
    def payload(self) -> tuple[Field, ...]:
        """The fields that are published as they are, in the policy's order (partition fields included)."""
        return tuple(field for field in self.fields if field.role in PAYLOAD)

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """The fields that releases have under another name than the input, each with its published name."""
        return renamed(
            field.name for field in self.fields if field.quasi is not None or field in self.payload
        )

    @cached_property
    def ruled(self) -> tuple[Field, ...]:
        """The fields whose values every class must show enough of, with these rules, in the policy's order."""
        return tuple(field for field in (each.of_releases for each in self.fields) if field.rules)

    @cached_property
    def counted(self) -> tuple[Field, ...]:
        """The fields whose values are counted by cohort over an epoch, in the policy's order: all with rules."""
        return tuple(field for field in self.fields if field.rules and self.promise.per is not None)

    @cached_property
    def values_told(self) -> str | None:
        """What the rules for sensitive values are with cohorts that last, in words; None: there are none."""
        return " ".join(words_of_values(self.counted)) or None

    @property
    def closed(self) -> bool:
        """Whether releases are made of closed classes: of individuals, or of rows when a field is ``ruled`` or the
        solver publishes levels."""
        return self.promise.of_people or bool(self.ruled) or self.by_levels

    @property
    def by_levels(self) -> bool:
        """Whether every field of a release stands at one level of its hierarchy."""
        return self.solver.method in LATTICE_METHODS

    def field(self, name: str) -> Field:
        """The field of that name. Raises KeyError."""
        return {field.name: field for field in self.fields}[name]

    def _with_role(self, role: Role) -> Field | None:
        return next((field for field in self.fields if field.role is role), None)


def _default_cohort(window_ms: int | None) -> Cohort:
    """With whom individuals are put together unless the policy says it. window_ms: None, one single window."""
    return Cohort.WINDOW if window_ms is None else Cohort.LASTING


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
    all_mistakes = [*mistakes, *find_mistakes(policy, unread)]
    if all_mistakes:
        raise PolicyError(all_mistakes, source)
    return policy
