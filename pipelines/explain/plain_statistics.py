"""What a feed is like under a policy, as counts of it tell; nothing is solved.

    windows       people a window, for windows of an hour, a day, a week, four weeks       people_in_windows
    alone         whom fields, pairs of them and all of them single out                    alone
    follows       fields that follow from others                                           dependencies
    payload       what names its person, tells a quasi-identifier, or rises with time      risks, dependencies

Everything is a count or a share; no value of a record is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.feed import partitions_of, people_of
from kanonflow.pipelines.explain.alone import Alone, alone
from kanonflow.pipelines.explain.dependencies import Dependency, dependencies, determined
from kanonflow.pipelines.explain.people_in_windows import LENGTHS_MS, PeopleInWindows, people_in_windows
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.value_units import to_units
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.columns.crowding import crowding_of
from kanonflow.transforms.risks.field_values import ranks_of
from kanonflow.transforms.risks.payload_measures import order_along, own_repeats, ranks_within

Int64s = NDArray[np.int64]

OWN_LIMIT = 0.1
"""Share of rows, above what chance gives, that carry a value which their person alone repeats."""
RISES = 0.95
"""Rank correlation with time from which on a field rises or falls with it."""
_LEAST_ROWS = 50
_MOST_ROWS = 50_000
"""Of which what payload tells of quasi-identifiers is looked for; drawn at random."""


class Crowded(NamedTuple):
    """A numeric quasi-identifier in a small part of whose domain half of the people lie: as of ``Crowding``."""

    field: str
    share: float
    keys: dict[str, str | list[str]]


class Share(NamedTuple):
    """A figure of one field."""

    field: str
    share: float


@dataclass(frozen=True)
class PlainStatistics:
    """rows, people: of the feed; without an individual each row is a person. k: of the policy.

    windows: () without a time; own: of the policy's window, None without one. alone, follows: of quasi-identifiers.
    nulls: share of rows without a value. names, tells, rises: payload that names its person (its own values'
    share), that tells a quasi-identifier, that rises or falls with time (rank correlation). crowded: fields in which
    people crowd while differences count.
    """

    rows: int
    people: int
    k: int
    windows: tuple[PeopleInWindows, ...]
    own: PeopleInWindows | None
    alone: tuple[Alone, ...]
    nulls: tuple[Share, ...]
    follows: tuple[Dependency, ...]
    names: tuple[Share, ...]
    tells: tuple[Dependency, ...]
    rises: tuple[Share, ...]
    crowded: tuple[Crowded, ...] = ()

    def without(self, names: Sequence[str]) -> PlainStatistics:
        """The same, where nothing is said against some quasi-identifiers themselves."""
        return replace(
            self,
            alone=tuple(each for each in self.alone if len(each.fields) > 1 or each.fields[0] not in names),
            nulls=tuple(each for each in self.nulls if each.field not in names),
            follows=tuple(each for each in self.follows if each.dependent not in names),
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        told = asdict(self)
        for name in ("windows", "alone", "nulls", "follows", "names", "tells", "rises", "crowded"):
            told[name] = [each._asdict() for each in getattr(self, name)]
        return told | {"own": None if self.own is None else self.own._asdict()}


def plain_statistics(rows: pa.Table, bound: BoundPolicy) -> PlainStatistics:
    """Count a feed under a policy. Deterministic.

    rows: canonical rows of the whole feed. O(n log n) a field, and O(f^3 p log p) of f quasi-identifiers and p people.
    """
    policy = bound.policy
    who = people_of(rows, policy)
    times = None if policy.time is None else to_units(rows.column(policy.time.name))[0]
    partition = partitions_of(rows, policy)
    windows, own = _windows(times, who, partition, bound)
    first = _first_rows(who, times)
    quasis = {column.name: _codes(rows, column.name) for column in bound.quasis}
    of_people = {name: codes[first] for name, codes in quasis.items()}
    payload = {
        column.name: _codes(rows, column.name)
        for column in bound.payload
        if column.name not in policy.partition_by
    }
    some = _some(rows.num_rows)
    return PlainStatistics(
        rows=rows.num_rows,
        people=int(who.max(initial=-1)) + 1,
        k=policy.k,
        windows=windows,
        own=own,
        alone=alone(of_people),
        nulls=tuple(
            Share(column.name, rows.column(column.name).null_count / max(rows.num_rows, 1))
            for column in bound.quasis
        ),
        follows=dependencies(of_people),
        names=tuple(_names(payload, who)),
        tells=tuple(
            determined(
                {name: codes[some] for name, codes in payload.items()},
                {name: codes[some] for name, codes in quasis.items()},
            )
        ),
        rises=tuple(_rises(rows, [*payload, *quasis], times)),
        crowded=tuple(_crowded(rows.take(pa.array(first)), bound)),
    )


def _codes(rows: pa.Table, name: str) -> Int64s:
    return codes_of(rows.column(name).combine_chunks())


def _windows(
    times: Int64s | None, who: Int64s, partition: Int64s, bound: BoundPolicy
) -> tuple[tuple[PeopleInWindows, ...], PeopleInWindows | None]:
    if times is None or not times.size:
        return (), None
    policy = bound.policy
    lengths = sorted({*LENGTHS_MS, *([policy.window_ms] if policy.window_ms else [])})
    found = tuple(
        people_in_windows(
            times - (policy.window_offset_ms if length == policy.window_ms else 0),
            who,
            partition,
            length,
            policy.k,
        )
        for length in lengths
    )
    return found, next((each for each in found if each.length_ms == policy.window_ms), None)


def _first_rows(who: Int64s, times: Int64s | None) -> Int64s:
    """A row of each person, its first; int64 (p,)."""
    order = np.argsort(who, kind="stable") if times is None else np.lexsort((times, who))
    begins = np.append(True, np.diff(who[order]) > 0)[: who.size]
    return order[begins]


def _crowded(of_people: pa.Table, bound: BoundPolicy) -> Iterator[Crowded]:
    for column in bound.quasis:
        if crowd := crowding_of(column, of_people.column(column.name).combine_chunks()):
            yield Crowded(column.name, crowd.share, crowd.keys)


def _some(count: int) -> Int64s:
    if count <= _MOST_ROWS:
        return np.arange(count)
    return np.sort(np.random.default_rng(1).choice(count, _MOST_ROWS, replace=False))


def _names(payload: dict[str, Int64s], who: Int64s) -> Iterator[Share]:
    for name, codes in payload.items():
        own = own_repeats(codes, who)
        if own.rows >= _LEAST_ROWS and own.share > OWN_LIMIT + own.by_chance:
            yield Share(name, own.share)


def _rises(rows: pa.Table, names: Sequence[str], times: Int64s | None) -> Iterator[Share]:
    if times is None:
        return
    together = np.zeros(times.size, dtype=np.int64)
    along = ranks_within(times, together)
    for name in names:
        array = rows.column(name).combine_chunks()
        known = np.flatnonzero(np.asarray(array.is_valid()))
        ranked = ranks_of(array.take(pa.array(known)))
        if ranked is None or known.size < _LEAST_ROWS:
            continue
        here = along if known.size == times.size else ranks_within(times[known], together[known])
        order = order_along(ranks_within(ranked, together[known]), here)
        if order.rows >= _LEAST_ROWS and abs(order.correlation) > RISES:
            yield Share(name, order.correlation)
