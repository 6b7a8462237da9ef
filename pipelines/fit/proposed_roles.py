"""Which role each field of a sample could have, and why: what a drafted policy proposes and where it asks.

    individual   a value comes back over rows, and other fields are the same in all rows of one
    identifier   nearly every row has a value of its own, or nearly every individual has
    time         instants, or days that are no attribute of an individual
    quasi        the same in all rows of an individual
    sensitive    differs from row to row of an individual

Without an individual it cannot be told what is somebody's attribute and what came with the row: then the draft asks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.fit.column_facts import (
    ColumnFacts,
    changed_share,
    codes_of,
    column_facts,
    rows_of_several,
)
from kanonflow.pipelines.fit.found_types import FoundType
from kanonflow.schemas.draft import DraftedField
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.prefix_tree import PrefixOf, prefixes_of

NEAR_UNIQUE = 0.95
_ADDRESSES = 0.98
"""Share of different values that must be addresses, for a field to be one of them: others will be rejected."""
STEADY = 0.01
"""Share of an individual's rows that may differ from the rest in what is still an attribute of it."""
FEW_CATEGORIES = 50
_KNOWN = "known of people beforehand (quasi), or what is studied (sensitive)?"
_LEAST_REPEATING = 0.5
_FEW_NULLS = 0.03
_LEAST_ROWS = 20
_DAY_SECONDS = 86_400
_LARGEST_END = 1e15
_OF_PEOPLE = re.compile(
    r"customer|client|account|user|person|patient|member|card|cc_?num|holder|subject|employee|student|(^|_)who$|kunde",
    re.IGNORECASE,
)
_OF_IDS = re.compile(r"(^|_)(id|uuid|guid|no|nr|num|number|key|iban|email|phone|name)$|id$", re.IGNORECASE)
_OF_EVENTS = re.compile(r"time|booked|date|stamp|event|created|trans|when|_at$|(^|_)ts$", re.IGNORECASE)
_OF_BIRTH = re.compile(r"birth|born|dob", re.IGNORECASE)


@dataclass(frozen=True)
class Proposal:
    """fields: by name, in the input's order. window_days: None, one single window. told: of the whole, in words."""

    fields: dict[str, DraftedField]
    window_days: int | None
    told: tuple[str, ...] = ()


def proposed_roles(columns: Mapping[str, FoundType], k: int) -> Proposal:
    """A role for each field of a sample, with reasons. O(n log n) a pair of field and candidate."""
    facts = {name: column_facts(name, found.values) for name, found in columns.items()}
    who = _individual(columns, facts)
    when = _time(columns, facts, who)
    people = None if who is None else codes_of(columns[who].values)
    fields = {}
    for name, found in columns.items():
        if name == who:
            drafted = DraftedField(
                {"role": "individual", **_as(found)},
                f"{facts[name].distinct:,} values in {facts[name].rows:,} rows, and other fields are the same in all"
                " rows of one",
            )
        elif name == when:
            drafted = DraftedField(
                {"role": "time", **_as(found)},
                f"{found.told or found.value}: the event's time; where it is local time, add timezone",
            )
        elif people is not None:
            drafted = _beside_people(found, facts[name], people, facts[who or ""].distinct)
        else:
            drafted = _alone(found, facts[name])
        fields[name] = drafted
    if not any(field.keys.get("role") == "quasi" for field in fields.values()):
        # Something must be known of people, or there is nothing to generalize: which field, the data cannot tell.
        for name, field in fields.items():
            if field.keys.get("role") == "sensitive":
                fields[name] = _asked(_quasi(columns[name], facts[name], field.reason), _KNOWN)
    window, told = _window(columns, facts, when, people, k)
    if who is None:
        told = (
            *told,
            "no field comes back as an individual would: each row then counts as a person of its own",
        )
    return Proposal(fields, window, told)


def _as(found: FoundType) -> dict[str, str]:
    keys = {"as": found.value} if found.value else {}
    return keys if found.format is None else {**keys, "format": found.format}


def _individual(columns: Mapping[str, FoundType], facts: Mapping[str, ColumnFacts]) -> str | None:
    """The field whose values come back, and within which most others are the same; by name where several are."""
    best: tuple[tuple[int, bool, int], str] | None = None
    for name, fact in facts.items():
        kind = columns[name].values.type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind)) or fact.distinct < 3:
            continue
        named = bool(_OF_PEOPLE.search(name))
        if fact.of_rows >= NEAR_UNIQUE or (fact.distinct <= FEW_CATEGORIES and not named):
            continue
        codes = codes_of(columns[name].values)
        if rows_of_several(codes) < _LEAST_REPEATING:
            continue
        # A field with few values, or as few as this one, is the same within everything.
        own = sum(
            other.distinct > 1
            and changed_share(codes_of(columns[each].values), codes, _known(columns[each])) <= STEADY
            for each, other in facts.items()
            if each != name
        )
        if own or named:
            rank = (own, named, fact.distinct)
            if best is None or rank > best[0]:
                best = (rank, name)
    return None if best is None else best[1]


def _known(found: FoundType) -> NDArray[np.bool_]:
    return np.asarray(found.values.is_valid())


def _time(columns: Mapping[str, FoundType], facts: Mapping[str, ColumnFacts], who: str | None) -> str | None:
    """The instants, else the days, that are no attribute of an individual; by name where several are."""
    people = None if who is None else codes_of(columns[who].values)
    candidates = []
    for place, (name, found) in enumerate(columns.items()):
        kind = found.values.type
        instant = pa.types.is_timestamp(kind)
        if not (instant or pa.types.is_date(kind)) or facts[name].distinct < 2:
            continue
        if facts[name].nulls > _FEW_NULLS * facts[name].rows:  # an event has a time
            continue
        steady = people is not None and changed_share(codes_of(found.values), people, _known(found)) <= STEADY
        if steady or _OF_BIRTH.search(name) or (people is None and not instant):
            continue
        candidates.append((not instant, not _OF_EVENTS.search(name), place, name))
    return min(candidates)[-1] if candidates else None


def _beside_people(
    found: FoundType, fact: ColumnFacts, people: NDArray[np.int64], persons: int
) -> DraftedField:
    """A field of an input with an individual."""
    if not fact.distinct:
        return DraftedField({"role": "identifier"}, "no values: nothing to publish")
    changed = changed_share(codes_of(found.values), people, _known(found))
    label = pa.types.is_string(found.values.type) or pa.types.is_integer(found.values.type)
    if label and _is_near_unique(fact):
        return DraftedField({"role": "identifier"}, _near_unique(fact))
    if changed <= STEADY and fact.distinct > 1:
        if label and fact.distinct >= NEAR_UNIQUE * persons:
            return DraftedField({"role": "identifier"}, "each individual has a value of its own: it names it")
        return _quasi(found, fact, "the same in all rows of an individual")
    return _payload(found, f"differs in {changed:.0%} of an individual's rows")


def _alone(found: FoundType, fact: ColumnFacts) -> DraftedField:
    """A field of an input in which no individual comes back."""
    kind = found.values.type
    label = pa.types.is_string(kind) or pa.types.is_integer(kind)
    if not fact.distinct:
        return DraftedField({"role": "identifier"}, "no values: nothing to publish")
    if label and _is_near_unique(fact) and (pa.types.is_string(kind) or _OF_IDS.search(fact.name)):
        return DraftedField({"role": "identifier"}, _near_unique(fact))
    if addresses_of(found.values) is None and pa.types.is_string(kind) and fact.distinct > FEW_CATEGORIES:
        return _asked(_payload(found, f"text with {fact.distinct:,} values"), "does it say who somebody is?")
    return _asked(_quasi(found, fact, ""), _KNOWN)


def _is_near_unique(fact: ColumnFacts) -> bool:
    """Whether nearly every row has a value of its own, and there are enough of them to say so."""
    return fact.of_rows >= NEAR_UNIQUE and fact.rows - fact.nulls >= _LEAST_ROWS


def _near_unique(fact: ColumnFacts) -> str:
    return f"near unique: {fact.distinct:,} values in {fact.rows - fact.nulls:,} rows"


def _asked(drafted: DraftedField, question: str) -> DraftedField:
    return DraftedField(drafted.keys, "; ".join(filter(None, (drafted.reason, question))), sure=False)


def _payload(found: FoundType, reason: str) -> DraftedField:
    money = " (two decimals: money)" if found.value.startswith("decimal") else ""
    return DraftedField({"role": "sensitive", **_as(found)}, f"{reason}{money}: payload")


def _quasi(found: FoundType, fact: ColumnFacts, reason: str) -> DraftedField:
    kind, addresses = found.values.type, addresses_of(found.values)
    if addresses is not None:
        told = f"{fact.distinct:,} addresses: prefixes"
        return DraftedField({"role": "quasi", "type": "prefix", "of": str(addresses)}, _both(reason, told))
    if pa.types.is_string(kind) or pa.types.is_boolean(kind) or fact.low is None or fact.high is None:
        told = f"{fact.distinct:,} values: categorical"
        return DraftedField({"role": "quasi", "type": "categorical", **_as(found)}, _both(reason, told))
    if pa.types.is_integer(kind) and fact.distinct <= 2:
        told = f"{fact.distinct} values: categorical"
        return DraftedField({"role": "quasi", "type": "categorical", **_as(found)}, _both(reason, told))
    days = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    ends = (
        _round_days(fact, instants=pa.types.is_timestamp(kind))
        if days
        else _round_numbers(fact.low, fact.high)
    )
    keys = {"role": "quasi", "type": "date" if days else "numeric", **_as(found)}
    if ends is not None:
        keys |= {"domain": f"[{ends[0]}, {ends[1]}]", "outside": "code"}
    return DraftedField(keys, _both(reason, found.told))


def addresses_of(values: pa.Array) -> PrefixOf | None:
    """Of which version of addresses nearly all different values are; None: of none. O(n)."""
    texts = pc.unique(values).drop_null().to_pylist() if form_of(values.type).text else []
    for of in (PrefixOf.IPV4, PrefixOf.IPV6):
        key = prefixes_of(of, None).key
        if texts and sum(key(text) is not None for text in texts) >= _ADDRESSES * len(texts):
            return of
    return None


def _both(first: str, second: str) -> str:
    return "; ".join(filter(None, (first, second)))


def _round_numbers(low: float, high: float) -> tuple[str, str] | None:
    """Round numbers outside of the two; never one of them. 0 is the least of what is not negative and near it.

    None of numbers that are no quantities of people: not finite, or too large to be written.
    """
    if not -_LARGEST_END < low <= high < _LARGEST_END:
        return None
    size = max(abs(low), abs(high), 1e-9)
    # Around a single value the domain is as wide as the value is large, or its ends would tell it.
    step = 10.0 ** math.floor(math.log10(max(high - low or size, size / 100)))
    first = math.floor(low / step) * step
    last = math.ceil(high / step) * step
    first = first - step if first == low else first
    last = last + step if last == high else last
    if low >= 0 and (first < 0 or first <= (high - low) / 2):
        first = 0.0
    return _plain(first), _plain(last)


def _plain(number: float) -> str:
    return f"{round(number, 9):.9f}".rstrip("0").rstrip(".") or "0"


def _round_days(fact: ColumnFacts, *, instants: bool) -> tuple[str, str] | None:
    """The first day of a decade, or of a year, and the last, outside of all values."""
    assert fact.low is not None
    assert fact.high is not None
    unit = _DAY_SECONDS if instants else 1
    epoch = date(1970, 1, 1)
    try:
        low, high = (epoch + timedelta(days=math.floor(end / unit)) for end in (fact.low, fact.high))
    except OverflowError:
        return None
    years = 10 if (high - low).days > 3 * 365 else 1
    first, last = low.year // years * years, high.year // years * years + years - 1
    if (low.month, low.day) == (1, 1) and low.year == first:
        first -= years
    if (high.month, high.day) == (12, 31) and high.year == last:
        last += years
    if not 1 <= first <= last <= 9999:
        return None
    return f"{first:04}-01-01", f"{last:04}-12-31"


def _window(
    columns: Mapping[str, FoundType],
    facts: Mapping[str, ColumnFacts],
    when: str | None,
    people: NDArray[np.int64] | None,
    k: int,
) -> tuple[int | None, tuple[str, ...]]:
    """Days of a window that most have enough people for; None: one single window."""
    if when is None:
        return None, ()
    there = _known(columns[when])
    times = _days_of(columns[when].values.drop_null())
    span = float(times.max() - times.min())
    who = np.arange(times.size) if people is None else people[there]
    for days in (1, 7, 30):
        if span < 3 * days:
            break
        windows = np.floor(times / days).astype(np.int64)
        pairs = np.unique(np.stack([windows, who], axis=1), axis=0)
        sizes = np.unique(pairs[:, 0], return_counts=True)[1]
        if float(np.median(sizes)) >= 4 * k:
            return days, (
                f"window: in the sample alone most windows of {days} d have {4 * k} individuals or more",
            )
    return None, (
        "window: the feed is short, or thin: one single window. Say window: 1d for releases as it goes on",
    )


def _days_of(values: pa.Array) -> NDArray[np.float64]:
    """Times as days since 1970."""
    if pa.types.is_date(values.type):
        return np.asarray(values.cast(pa.date32()).cast(pa.int32())).astype(np.float64)
    return np.asarray(values.cast(pa.timestamp("s", tz="UTC"), safe=False).cast(pa.int64())) / _DAY_SECONDS
