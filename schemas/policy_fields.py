"""The parts of a policy that describe one field: its role, its type, how it is generalized."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.prefix_tree import PrefixOf
from kanonflow.schemas.text_form import Fold


class Role(StrEnum):
    """What a field is for.

    individual: whom we protect; never published.      identifier: dropped before anything else.
    quasi: generalized.      sensitive, insensitive: published as they are.
    time: event time; published only as the window, unless also a quasi-identifier.
    event_id: removes repeats of an at-least-once source; never published.
    """

    INDIVIDUAL = "individual"
    IDENTIFIER = "identifier"
    QUASI = "quasi"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"
    TIME = "time"
    EVENT_ID = "event_id"


PAYLOAD = (Role.SENSITIVE, Role.INSENSITIVE)
"""Roles of fields that are published beside the boxes."""


class PartOfTime(StrEnum):
    """What of an instant is published: ``as`` of a payload field."""

    HOUR = "hour"
    WEEKDAY = "weekday"
    PART_OF_DAY = "part_of_day"


_PARTS_OF_TIME: Mapping[str, PartOfTime] = {part.value: part for part in PartOfTime}


class QuasiType(StrEnum):
    """How a quasi-identifier is generalized: a range, a range of days or instants, a set of values, a node of a
    hierarchy, or a prefix."""

    NUMERIC = "numeric"
    DATE = "date"
    CATEGORICAL = "categorical"
    HIERARCHY = "hierarchy"
    PREFIX = "prefix"


class Outside(StrEnum):
    """What happens to a value outside of a declared domain: its row is rejected, or it is cut to the domain's
    end, which then means "this or beyond"."""

    REJECT = "reject"
    CODE = "code"


class ScaleName(StrEnum):
    """By what the width of a numeric box is counted as loss (schemas/loss_scales.py)."""

    LINEAR = "linear"
    LOG = "log"
    RANK = "rank"


class DiversityKind(StrEnum):
    """How the l different values of a class are counted; the formulas stand in ``partition_search/diversity.py``."""

    DISTINCT = "distinct"
    ENTROPY = "entropy"
    FREQUENCY = "frequency"


class ClosenessDistance(StrEnum):
    """How far a class's values are from the release's: every two values equally far, or by their order."""

    EQUAL = "equal"
    ORDERED = "ordered"


RULES_OF_VALUES = ("diversity", "closeness")
"""Keys of a sensitive field that say what its values must show."""


class Per(StrEnum):
    """What a rule for sensitive values is about, with cohorts that last.

    release: the rows of every class of a release meet it.  epoch: the rows of a cohort over the epoch, measured only.
    """

    RELEASE = "release"
    EPOCH = "epoch"


@dataclass(frozen=True)
class Diversity:
    """l-diversity of a sensitive field in every class. l: a whole number, for entropy any above 1.

    per: what shows so many values; None: every class of a release, of protections that make them anew.
    max_failing: of an epoch, the share of people in cohorts that do not show it above which a run has failed.
    """

    kind: DiversityKind
    l: float  # noqa: E741 - the name it has everywhere
    per: Per | None = None
    max_failing: float | None = None

    @property
    def name(self) -> str:
        """Of what is counted, as metrics have it."""
        return str(self.kind)

    @property
    def words(self) -> str:
        """In words."""
        return f"diversity ({self.kind}, l {self.l:g})"


@dataclass(frozen=True)
class Closeness:
    """t-closeness of a sensitive field: no class is further than t, in (0, 1), from the whole release.

    per, max_failing: as of ``Diversity``; of an epoch, no cohort is further from all rows of it.
    """

    distance: ClosenessDistance
    t: float
    per: Per | None = None
    max_failing: float | None = None

    @property
    def name(self) -> str:
        """As of ``Diversity``."""
        return str(self.distance)

    @property
    def words(self) -> str:
        """As of ``Diversity``."""
        return f"closeness ({self.distance}, t {self.t:g})"


_Rule = TypeVar("_Rule", Diversity, Closeness)


def _of_releases(rule: _Rule | None) -> _Rule | None:
    return None if rule is not None and rule.per is Per.EPOCH else rule


DATE_UNITS = ("second", "minute", "hour", "day", "month", "quarter", "year")

PLAIN_VALUES = ("int", "long", "float", "double", "string", "boolean", "date", "timestamp")
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")

Domain = tuple[Decimal, Decimal] | tuple[date, date] | tuple[datetime, datetime] | tuple[str, ...]


def decimal_value(value: str) -> tuple[int, int] | None:
    """Precision and scale of ``decimal(p,s)`` with 1 <= p <= 38 and 0 <= s <= p; None for anything else."""
    match = _DECIMAL.fullmatch(value)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None


@dataclass(frozen=True)
class Quasi:
    """How one quasi-identifier is generalized.

    domain: numeric (low, high) as Decimal; date (first, last) as date, or as datetime in UTC; categorical all
        values; None when it is not declared.
    grid: "auto" (by the width of each box), "exact" (the ends are people's own values), a positive Decimal
        (multiples of it, from 0), or for dates a unit of DATE_UNITS.
    weight: positive weight of the field in the information loss.
    hierarchy: of ``type: hierarchy``, its rows; their leaves are the field's domain.
    of, lengths, size: of ``type: prefix``, as ``PrefixTree`` has them; None: its usual ones.
    scale, quantiles, log_from: by what a width of ``type: numeric`` counts (schemas/loss_scales.py).
    """

    type: QuasiType
    domain: Domain | None = None
    grid: str | Decimal = "auto"
    weight: float = 1.0
    outside: Outside = Outside.REJECT
    hierarchy: Hierarchy | None = None
    of: PrefixOf | None = None
    lengths: tuple[int, ...] | None = None
    size: int | None = None
    scale: ScaleName = ScaleName.LINEAR
    quantiles: tuple[Decimal, ...] | None = None
    log_from: Decimal | None = None


@dataclass(frozen=True)
class Field:
    """One field of the input.

    value: the type of its values, int, long, float, double, string, boolean, date, timestamp or decimal(p,s); or, of
        instants of the payload, a PartOfTime; None: of text what the role says, of typed columns their own.
    quasi: set for ``role: quasi`` and for a time field that is also a quasi-identifier.
    diversity, closeness: what every class must show of a sensitive field; None: nothing.
    accept_risk: why a payload field is published although it was measured to tell more than 1/k; None: it is not to be.
    format: of dates and times, how text spells them; None: as ISO 8601 does.
    timezone: where local times without a zone are; None: UTC. fold: what one that exists twice, or not at all, means;
        None: such a cell is a bad value.
    source: the time field, whose cells these are; None: the column of the field's own name.
    round, bottom, top, truncate: of payload, the grid of its cells (schemas/payload_grids.py); None: none of that.
    """

    name: str
    role: Role
    value: str | None = None
    quasi: Quasi | None = None
    diversity: Diversity | None = None
    closeness: Closeness | None = None
    accept_risk: str | None = None
    format: str | None = None
    timezone: str | None = None
    fold: Fold | None = None
    source: str | None = None
    round: Decimal | None = None
    bottom: Decimal | None = None
    top: Decimal | None = None
    truncate: int | None = None

    @property
    def column(self) -> str:
        """The column of the input that its cells come from."""
        return self.source or self.name

    @property
    def part_of_time(self) -> PartOfTime | None:
        """What of an instant is published; None: the whole, or it is none."""
        return _PARTS_OF_TIME.get(self.value or "")

    @property
    def rules(self) -> tuple[Diversity | Closeness, ...]:
        """What is asked of its values, diversity first."""
        return tuple(rule for rule in (self.diversity, self.closeness) if rule is not None)

    @property
    def of_releases(self) -> Field:
        """The field with the rules alone that every class of a release meets."""
        if not self.rules:
            return self
        return replace(
            self,
            diversity=_of_releases(self.diversity),
            closeness=_of_releases(self.closeness),
        )

    @property
    def also_quasi(self) -> bool:
        """Whether this is a time field that is published generalized as well."""
        return self.role is Role.TIME and self.quasi is not None
