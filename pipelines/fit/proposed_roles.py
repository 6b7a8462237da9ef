"""Which role each field of a sample could have, and why: what a drafted policy proposes and where it asks.

    individual   whom a row belongs to (pipelines/fit/person.py)
    identifier   contact data, names, numbers of documents, free text, whatever their distinctness; what nearly every
                 row or every individual has a value of its own of; other times of a row
    time         instants, or days that are no attribute of an individual
    quasi        what people keep: nine of ten have one value in all their rows, or it seldom changes
    sensitive    differs from row to row of an individual

Nothing is drafted as published by a threshold alone where it may be an attribute: what the data cannot decide is asked,
with the evidence. Without an individual a row is taken for a person of its own, which is asked once, and every field
that may be an attribute is quasi.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.fit.found_types import FoundType
from kanonflow.pipelines.fit.person import OF_PEOPLE, Person, person_of
from kanonflow.pipelines.fit.sampled_column import FEW_CATEGORIES, NEAR_UNIQUE, SampledColumn
from kanonflow.pipelines.fit.value_looks import (
    ATTRIBUTES,
    CONTACT,
    PERSONAL,
    Look,
    says_nothing,
    share_of_first_names,
    without_null_words,
)
from kanonflow.schemas.draft import DraftedField
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.prefix_tree import PrefixOf, prefixes_of
from kanonflow.transforms.columns.column_facts import ColumnFacts, Shape, shape_of
from kanonflow.transforms.columns.crowding import crowding
from kanonflow.transforms.risks.within_people import LEAST_PEOPLE, Keeping

STEADY = 0.9
"""Of individuals with several rows, those with one value in all of them, from which on a field is their attribute."""
MOSTLY = 0.7
"""Of how much values would change by chance, what is kept from which on it is an attribute that changes at times."""
SELDOM = 0.4
"""And below which it came with the row."""
USUAL = 0.8
_FEW = 12
_MANY = 0.2
_NAMES = 20
_SOME_NAMES = 0.25
"""Share of different values that have a first name of the list: names of people that are few, or of many countries."""
_LEAST_OTHERS = 3
_DENSE = 0.5
"""Share of the whole numbers from the least id to the greatest that are ids, from which on any number is one."""
_MANY_TEXTS = 0.5
_ADDRESSES = 0.98
"""Share of different values that must be addresses, for a field to be one of them: others will be rejected."""
_KNOWN = "known of people beforehand (quasi), or what is studied (sensitive)?"
_NAMES_OR_PLACES = "names of people (identifier), or of places or trades (quasi)?"
_FEW_NULLS = 0.03
_LEAST_ROWS = 20
_DAY_SECONDS = 86_400
_LARGEST_END = 1e15
_OF_IDS = re.compile(r"(^|_)(id|uuid|guid|no|nr|num|number|key|iban|email|phone|name)$|id$", re.IGNORECASE)
_OF_EVENTS = re.compile(r"time|booked|date|stamp|event|created|trans|when|_at$|(^|_)ts$", re.IGNORECASE)


@dataclass(frozen=True)
class Proposal:
    """fields: by name, in the input's order. window_days: None, one single window. told: of the whole, in words.

    asks_row: whether each row may be a person of its own, which is for the user to say. nulls: words of text columns
    that mean nothing there.
    """

    fields: dict[str, DraftedField]
    window_days: int | None
    told: tuple[str, ...] = ()
    asks_row: bool = False
    nulls: tuple[str, ...] = ()


def proposed_roles(columns: Mapping[str, FoundType], k: int, individual: str | None = None) -> Proposal:
    """A role for each field of a sample, with reasons. individual: the field that is known to be it; None: it is looked
    for. O(n log n) a pair of field and candidate."""
    sampled = {name: SampledColumn(name, found) for name, found in columns.items()}
    if individual is None:
        person = person_of(list(sampled.values()), k)
    else:
        person = Person(sampled[individual], evidence="as was said")
    who = person.column
    when = _time(sampled, who)
    places = _places(list(sampled.values()))
    ids = [each for each in sampled.values() if each is who or (each.label and each.near_unique)]
    fields = {}
    for name, column in sampled.items():
        if who is not None and name == who.name:
            drafted = _individual(column, person)
        elif name == when:
            drafted = DraftedField(
                {"role": "time", **_as(column.found)},
                f"{column.found.told or column.found.value}: the event's time; where it is local time, add timezone",
            )
        elif column in person.rivals:
            drafted = _asked(_dropped("comes back as the individual does"), "or is it the individual?")
        else:
            drafted = _named_or_none(column, who, ids) or (
                _alone(column) if who is None else _beside_people(column, who, k, place=name in places)
            )
        kept_by = [each.name for each in person.rivals if column.within(each).constancy >= SELDOM]
        if drafted.keys.get("role") == "sensitive" and kept_by:
            drafted = _asked(_quasi(column, f"the same in all rows of a {kept_by[0]}"), _KNOWN)
        elif drafted.keys.get("role") == "sensitive" and person.weak:
            drafted = _asked(_quasi(column, drafted.reason.removesuffix(": payload")), _KNOWN)
        fields[name] = drafted
    fields = {name: _where_people_are(field, sampled[name], who) for name, field in fields.items()}
    if not any(field.keys.get("role") == "quasi" for field in fields.values()):
        # Something must be known of people, or there is nothing to generalize: which field, the data cannot tell.
        for name, field in fields.items():
            if field.keys.get("role") == "sensitive":
                fields[name] = _asked(_quasi(sampled[name], field.reason), _KNOWN)
    window, told = _window(columns, when, None if who is None else who.codes, k)
    if who is None:
        told = (*told, *filter(None, (person.evidence,)), "no field comes back as an individual would")
    nulls = () if who is None else _null_words(list(sampled.values()), who)
    return Proposal(fields, window, told, asks_row=who is None, nulls=nulls)


def _null_words(columns: Sequence[SampledColumn], who: SampledColumn) -> tuple[str, ...]:
    """Words for nothing in columns of text: half of the people who have one there have something else there, too.

    Not what anybody keeps anywhere, for a file has one list of them: NA may be a country, and none a schooling. In the
    place of the individual it is nobody.
    """
    nothing: set[str] = set()
    something: set[str] = set()
    for column in columns:
        if not column.text or column.found.cells is None:
            continue
        words = (
            pc.unique(column.found.values.filter(says_nothing(column.found.values))).drop_null().to_pylist()
        )
        for word in filter(None, words):
            there = np.asarray(pc.fill_null(pc.equal(column.found.values, word), False))
            people = np.unique(who.codes[there & who.speaks])
            others = np.isin(people, who.codes[column.speaks & who.speaks]).sum()
            empty = column is who or 2 * others >= max(1, people.size)
            (nothing if empty else something).add(word)
    return tuple(sorted(nothing - something))


def _as(found: FoundType) -> dict[str, str]:
    keys = {"as": found.value} if found.value else {}
    return keys if found.format is None else {**keys, "format": found.format}


def _dropped(reason: str) -> DraftedField:
    return DraftedField({"role": "identifier"}, reason)


def _individual(column: SampledColumn, person: Person) -> DraftedField:
    whole = column.label and column.shape is Shape.FLOATING
    # Nulls have made it floating: the same people come without them in another file.
    keys = {"role": "individual", **({"as": "long"} if whole else _as(column.found))}
    drafted = DraftedField(keys, person.evidence)
    if person.weak:
        drafted = _asked(drafted, "is each of its values one person, or a group of people, a row each?")
    if not person.rivals:
        return drafted
    rivals = " or ".join(each.name for each in person.rivals)
    return _asked(drafted, f"is it whom a row belongs to, or {rivals}? The data cannot tell")


def _time(columns: Mapping[str, SampledColumn], who: SampledColumn | None) -> str | None:
    """The instants, else the days, that are no attribute of an individual; by name where several are."""
    candidates = []
    for place, (name, column) in enumerate(columns.items()):
        instant = column.shape is Shape.INSTANT
        if not column.days or column.facts.distinct < 2 or column.look.look is Look.BIRTH:
            continue
        if column.facts.nulls > _FEW_NULLS * column.facts.rows:  # an event has a time
            continue
        if who is None and not instant:
            continue
        if who is not None and column.within(who).constancy >= MOSTLY:
            continue
        candidates.append((not instant, not _OF_EVENTS.search(name), place, name))
    return min(candidates)[-1] if candidates else None


def _places(columns: Sequence[SampledColumn]) -> set[str]:
    """Columns that are the two halves of places on the earth, by name, or side by side with many decimals."""
    halves = set()
    for first, second in pairwise(columns):
        looks = first.look.look, second.look.look
        if looks in ((Look.LATITUDE, Look.LONGITUDE), (Look.LONGITUDE, Look.LATITUDE)) or (
            _degrees(first, 90.0) and _degrees(second, 180.0)
        ):
            halves |= {first.name, second.name}
    return halves


def _degrees(column: SampledColumn, most: float) -> bool:
    """Floating numbers up to so many, nearly all with four decimals or more."""
    if column.shape is not Shape.FLOATING:
        return False
    numbers = np.asarray(column.values.drop_null())
    if numbers.size < _LEAST_ROWS or np.abs(numbers).max() > most:
        return False
    return float((np.abs(numbers * 1e3 - np.round(numbers * 1e3)) > 1e-6).mean()) >= USUAL


def _named_or_none(
    column: SampledColumn, who: SampledColumn | None, ids: Sequence[SampledColumn]
) -> DraftedField | None:
    """What is dropped whatever else there is: nothing, contact data, names, documents, free text, a value a row, the id
    of somebody else; and what may be names, with a question. ids: columns that name people or rows."""
    facts = column.facts
    if not column.found.value:
        return _dropped(f"{column.found.told}: no type that can be published")
    if not facts.distinct:
        return _dropped("no values: nothing to publish")
    look = column.look
    if look.look is Look.IP and (who is None or column.within(who).constancy >= MOSTLY):
        # Somebody's own: a prefix of it says as much as a postcode.
        return _quasi(column, "addresses that people keep") if addresses_of(column.found.values) else None
    # A name alone says little of a few categories (card: gold, silver; note: late).
    named = column.label and (facts.distinct > _FEW or (look.look is Look.NAME and column.like_names))
    if look.look in CONTACT and (look.by_values or named):
        return _dropped(f"its values {look.words}" if look.by_values else look.words)
    if column.label and column.near_unique and (column.text or _OF_IDS.search(column.name) or column.rising):
        return _dropped(f"near unique: {facts.distinct:,} values in {facts.rows - facts.nulls:,} rows")
    if column.rising:
        return _dropped("whole numbers that rise from row to row: given one after the other")
    if others := next((each.name for each in ids if _names_others(column, each)), None):
        return _dropped(f"its values are of {others}: another person, or row")
    if _may_be_names(column):
        return _asked(_dropped("words with capitals"), _NAMES_OR_PLACES)
    return None


def _names_others(column: SampledColumn, ids: SampledColumn) -> bool:
    """Whether nearly all different values are values of ``ids``, as a manager's number is of the people's.

    Where all whole numbers around are ids, quantities are, too: then the column's name has to say so.
    """
    if column is ids or not column.label or column.text != ids.text or column.facts.distinct < _LEAST_OTHERS:
        return False
    if column.near_unique or column.look.look in ATTRIBUTES:
        return False
    own, theirs = (np.asarray(pc.unique(each.values.drop_null())) for each in (column, ids))
    if np.isin(own, theirs).mean() < USUAL:
        return False
    if column.text or OF_PEOPLE.search(column.name) or _OF_IDS.search(column.name):
        return True
    return bool(theirs.size < _DENSE * (theirs.max() - theirs.min() + 1))


def _may_be_names(column: SampledColumn) -> bool:
    """Whether text may be names of people: words with capitals, of many kinds or with first names among them."""
    if not column.text or column.look.look is not None or not column.like_names:
        return False
    return column.facts.distinct >= _NAMES or share_of_first_names(column.values) >= _SOME_NAMES


def _beside_people(column: SampledColumn, who: SampledColumn, k: int, *, place: bool) -> DraftedField:
    """A field of an input with an individual."""
    facts, look, keeping = column.facts, column.look, column.within(who)
    persons = who.facts.distinct
    if column.label and column.near_unique:
        return _dropped(f"near unique: {facts.distinct:,} values in {facts.rows - facts.nulls:,} rows")
    if facts.distinct == 1:
        return _quasi(column, "one value")
    steady = keeping.steady >= STEADY
    if column.label and look.look not in ATTRIBUTES:
        if steady and facts.distinct >= NEAR_UNIQUE * min(persons, max(1, keeping.people)):
            return _dropped("each individual has a value of its own: it names it")
        if facts.distinct >= _MANY * persons and column.names(who) >= STEADY:
            return _dropped("each of its values is one individual's: it names it")
        if steady and column.text and _coded(column) and facts.distinct * k > persons > 2 * k:
            return _dropped("fewer than k individuals share a value that is a code: it names them")
    if place and keeping.constancy < MOSTLY:
        return _asked(
            _dropped("places of rows: where somebody was"), "publish it generalized (quasi), or not at all?"
        )
    if column.days and keeping.tells and keeping.constancy < SELDOM:
        return _dropped("another time of the row: who knows it knows the row; the window says when it was")
    if keeping.people < LEAST_PEOPLE:
        return _asked(_quasi(column, "few individuals have several rows with a value"), _KNOWN)
    if not keeping.tells or (steady and keeping.constancy < SELDOM):
        return _asked(_quasi(column, "nearly always the same, so it is the same within anything"), _KNOWN)
    if steady:
        return _quasi(column, _kept(keeping))
    if keeping.constancy >= MOSTLY:
        return _quasi(column, f"individuals seldom change it: {_kept(keeping)}")
    if keeping.constancy >= SELDOM or look.look in PERSONAL:
        return _asked(_quasi(column, f"{_kept(keeping)}: more than by chance"), _KNOWN)
    reason = f"differs in {keeping.changed:.0%} of an individual's rows"
    if column.text and facts.of_rows >= _MANY_TEXTS and facts.distinct > FEW_CATEGORIES:
        return _asked(
            _dropped(f"{reason}; text with {facts.distinct:,} values"), "does it say who somebody is?"
        )
    return _payload(column.found, reason)


def _kept(keeping: Keeping) -> str:
    return f"{keeping.steady:.0%} of individuals have one value in all their rows"


def _coded(column: SampledColumn) -> bool:
    """Whether text has digits, as a code does and a name of a place does not."""
    cells = column.values.drop_null()
    return bool(len(cells)) and bool(pc.mean(pc.match_substring_regex(cells, r"\d")).as_py() >= USUAL)


def _alone(column: SampledColumn) -> DraftedField:
    """A field of an input in which no individual comes back: an attribute of the row's person, as far as one knows."""
    facts = column.facts
    if column.text and facts.distinct > FEW_CATEGORIES and facts.of_rows >= _MANY_TEXTS:
        return _dropped(f"text with {facts.distinct:,} values in {facts.rows - facts.nulls:,} rows")
    return _quasi(column, "")


def _asked(drafted: DraftedField, question: str) -> DraftedField:
    return DraftedField(drafted.keys, "; ".join(filter(None, (drafted.reason, question))), sure=False)


def _payload(found: FoundType, reason: str) -> DraftedField:
    money = " (two decimals: money)" if found.value.startswith("decimal") else ""
    return DraftedField({"role": "sensitive", **_as(found)}, f"{reason}{money}: payload")


def _quasi(column: SampledColumn, reason: str) -> DraftedField:
    found, fact, days, addresses = column.found, column.facts, column.days, addresses_of(column.found.values)
    if addresses is not None:
        told = f"{fact.distinct:,} addresses: prefixes"
        return DraftedField({"role": "quasi", "type": "prefix", "of": str(addresses)}, _both(reason, told))
    if column.text or fact.low is None or fact.high is None:
        told = f"{fact.distinct:,} values: categorical"
        return DraftedField({"role": "quasi", "type": "categorical", **_as(found)}, _both(reason, told))
    if column.shape is Shape.WHOLE and fact.distinct <= 2:
        told = f"{fact.distinct} values: categorical"
        return DraftedField({"role": "quasi", "type": "categorical", **_as(found)}, _both(reason, told))
    ends = (
        _round_days(fact, instants=column.shape is Shape.INSTANT)
        if days
        else _round_numbers(fact.low, fact.high)
    )
    keys = {"role": "quasi", "type": "date" if days else "numeric", **_as(found)}
    if ends is not None:
        keys |= {"domain": f"[{ends[0]}, {ends[1]}]", "outside": "code"}
    return DraftedField(keys, _both(reason, found.told))


def _where_people_are(
    drafted: DraftedField, column: SampledColumn, who: SampledColumn | None
) -> DraftedField:
    """With a scale, where people crowd in a small part of the domain."""
    if "domain" not in drafted.keys or column.days:
        return drafted
    there = np.flatnonzero(column.speaks if who is None else column.speaks & who.speaks)
    if who is not None:
        there = there[np.unique(who.codes[there], return_index=True)[1]]
    numbers = np.asarray(column.values.take(pa.array(there)).cast(pa.float64()))
    low, high = drafted.keys["domain"].strip("[]").split(",")
    crowd = crowding(numbers, float(low), float(high))
    if crowd is None:
        return drafted
    return DraftedField(
        {**drafted.keys, **crowd.written}, _both(drafted.reason, crowd.words), sure=drafted.sure
    )


def addresses_of(values: pa.Array) -> PrefixOf | None:
    """Of which version of addresses nearly all different values are; None: of none. O(n)."""
    texts = pc.unique(without_null_words(values)).drop_null().to_pylist() if form_of(values.type).text else []
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
    when: str | None,
    people: NDArray[np.int64] | None,
    k: int,
) -> tuple[int | None, tuple[str, ...]]:
    """Days of a window that most have enough people for; None: one single window."""
    if when is None:
        return None, ()
    there = np.asarray(columns[when].values.is_valid())
    times = _days_of(columns[when].values.drop_null())
    span = float(times.max() - times.min())
    who = np.arange(times.size) if people is None else people[there]
    for days in (1, 7, 28):
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
    if shape_of(values) is Shape.DAY:
        return np.asarray(values.cast(pa.date32()).cast(pa.int32())).astype(np.float64)
    return np.asarray(values.cast(pa.timestamp("s", tz="UTC"), safe=False).cast(pa.int64())) / _DAY_SECONDS
