"""What a payload field tells beside its value: measured over an input, judged against limits.

    guess      how often the nearest member of a slot is the truth        member_guess      limit 1.5 / k
    distinct   distinct values / rows                                     payload_measures  0.95; whole numbers 0.999
    own        rows whose value only their own individual repeats         payload_measures  0.1 above chance
    order      rank correlation with time or with the input's order       payload_measures  0.95
    alone      rows that nobody else is like in all that is exact          published_exactly 0.05

The promise of 1/k assumes that payload and quasi-identifiers tell nothing of each other, and that no payload value can
be looked up elsewhere. Each measure is a way in which that fails. A field above a limit is refused unless its
declaration says ``accept_risk: <reason>``. What takes more rows than there are to judge is not refused, and said so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.kinds.category import Truths
from kanonflow.schemas.kinds.date import Days
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.number import DecimalForm, FloatForm, Whole
from kanonflow.schemas.payload_grids import COARSER
from kanonflow.schemas.printable import printable
from kanonflow.schemas.value_units import to_units
from kanonflow.transforms.risks.field_values import field_values, ranks_of
from kanonflow.transforms.risks.member_guess import FieldValues, MemberGuess, Slots, joint_guess, member_guess
from kanonflow.transforms.risks.payload_measures import (
    Order,
    Ranks,
    distinct_share,
    order_along,
    own_repeats,
    ranks_within,
)
from kanonflow.transforms.risks.published_exactly import alone_as_published, steady_fields
from kanonflow.transforms.risks.sample_slots import sample_slots
from kanonflow.transforms.rows.split import window_numbers

MOST_ROWS = 200_000
"""That are measured of an input."""
GUESS_LIMIT = 1.5
"""Times 1/k."""
DISTINCT_LIMIT, WHOLE_NUMBER_LIMIT = 0.95, 0.999
OWN_LIMIT = 0.1
ORDER_LIMIT = 0.95
ALONE_LIMIT = 0.05
LEAST_DISTINCT_ROWS, LEAST_OWN_ROWS, LEAST_ORDER_ROWS = 1_000, 100, 50

GUESS = "guessed right"
OWN = "one person's"
ALONE = "alone"
TOGETHER = "all together"
"""Stands for the payload fields that nobody has accepted the risk of, as one."""

_OK, _REFUSED, _ACCEPTED, _FEW = "ok", "REFUSED", "accepted", "too few rows to tell"


class PayloadRiskError(PolicyError):
    """Payload fields that were measured to tell more than the promise allows, and that nobody has accepted."""

    def __str__(self) -> str:
        head = f"{self.source or 'policy'}: payload that tells more than its value"
        return "\n".join([head, *(f"  - {printable(mistake)}" for mistake in self.mistakes)])


class Risk(NamedTuple):
    """One measure of one field. value, limit: as measured; None: it could not be.  how: in words, for the table.

    high: whether the value is above the limit and means it. judged: whether there was enough to judge by.
    upper: what the value of many more rows of the feed may be, at most; None: that is not known.
    """

    field: str
    measure: str
    value: float | None
    limit: float
    how: str
    high: bool
    judged: bool
    accepted: bool
    upper: float | None

    @property
    def beyond_doubt(self) -> bool:
        """Whether more rows would hardly lead to another verdict."""
        return self.accepted or (self.judged and self.upper is not None and self.upper <= self.limit)

    @property
    def verdict(self) -> str:
        """A word or two for the table."""
        if self.high:
            return _ACCEPTED if self.accepted else _REFUSED
        return _OK if self.judged else _FEW


@dataclass(frozen=True)
class PayloadRisks:
    """All measures of all payload fields. rows: measured; records: in the slots of the member guess.

    loss: GCP of the boxes of those; None: there are none. unseen: of which parts of the files no row can be, in words.
    """

    risks: tuple[Risk, ...]
    rows: int
    records: int
    loss: float | None = None
    unseen: str = ""

    def render(self) -> str:
        """The table as text, a line a measure."""
        if not self.risks:
            return "payload: no field is published as it is"
        head = ("field", "measure", "value", "limit", "verdict", "")
        lines = [head, *((*_shown(risk), risk.verdict, risk.how) for risk in self.risks)]
        lines = [tuple(map(printable, line)) for line in lines]
        widths = [max(len(line[place]) for line in lines) for place in range(5)]
        guessed = f"whose row it is was guessed over {self.records:,} records"
        text = [f"payload of {self.rows:,} rows{printable(self.unseen)}, {guessed}"]
        for line in lines:
            cells = [f"{line[0]:<{widths[0]}}", f"{line[1]:<{widths[1]}}"]
            cells += [
                f"{line[2]:>{widths[2]}}",
                f"{line[3]:>{widths[3]}}",
                f"{line[4]:<{widths[4]}}",
                line[5],
            ]
            text.append("  ".join(cells).rstrip())
        return "\n".join(text)

    def figures(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        told = [
            {
                "field": risk.field,
                "measure": risk.measure,
                "value": risk.value,
                "limit": risk.limit,
                "verdict": risk.verdict,
            }
            for risk in self.risks
        ]
        return {"rows": self.rows, "records": self.records, "risks": told}

    @property
    def beyond_doubt(self) -> bool:
        """Whether more rows would hardly lead to another verdict on anything."""
        return all(risk.beyond_doubt for risk in self.risks)

    @property
    def settled(self) -> bool:
        """Whether there were rows enough to judge all that nobody accepted."""
        return all(risk.judged or risk.accepted for risk in self.risks)

    def words(self) -> str:
        """A line: which fields are within their limits, and of which there are too few rows to tell. None is above."""
        unsure = {risk.field for risk in self.risks if not (risk.judged or risk.accepted)} - {TOGETHER}
        fields = dict.fromkeys(
            risk.field for risk in self.risks if not risk.accepted and risk.field != TOGETHER
        )
        within = ", ".join(name for name in fields if name not in unsure)
        parts = [f"payload within its limits: {within}"] if within else []
        parts += [f"too few rows to tell of {', '.join(sorted(unsure))}"] if unsure else []
        return f"{'; '.join(parts)}, measured on {self.rows:,} rows{printable(self.unseen)}"

    def refusal(self, source: str) -> PayloadRiskError | None:
        """The error for what is too high and not accepted, all at once; None if there is nothing."""
        refused = [risk for risk in self.risks if risk.high and not risk.accepted]
        if any(risk.measure == GUESS and risk.field != TOGETHER for risk in refused):
            # What a field gives away by itself, all of them do.
            refused = [risk for risk in refused if (risk.field, risk.measure) != (TOGETHER, GUESS)]
        mistakes = [_mistake(risk) for risk in refused]
        return PayloadRiskError(mistakes, source) if mistakes else None


def payload_risks(rows: pa.Table, bound: BoundPolicy) -> PayloadRisks:
    """Measure every payload field, partition fields included.

    rows: canonical rows in the order of the input. Deterministic. O(rows log rows) a field, and the slots.
    """
    sample, members, loss = sample_slots(rows, bound)
    found: list[Risk] = []
    quasis = {column.name: field_values(sample, column) for column in bound.quasis}
    slots = Slots(members, _people(sample, bound))
    arrival, people = _arrival(rows, bound), bound.policy.individual is not None
    steady = steady_fields(rows, bound, arrival.who) if people else frozenset[str]()
    payloads: dict[str, FieldValues] = {}
    best: dict[str, str] = {}
    for column in bound.payload:
        guess = None
        if len(members):
            values = field_values(sample, column, steady=column.name in steady)
            guess = member_guess(values, quasis, slots)
            if column.field.accept_risk is None:
                payloads[column.name], best[column.name] = values, guess.attack
        found.append(
            _guess_risk(column.name, guess, bound.policy.k, accepted=column.field.accept_risk is not None)
        )
        found += _column_risks(rows, column, arrival, people=people)
    if len(payloads) > 1:
        guess = joint_guess(payloads, best, quasis, slots)
        found.append(_guess_risk(TOGETHER, guess, bound.policy.k, accepted=False))
    alone = alone_as_published(rows, bound, arrival.who, steady, people=people)
    if alone is not None:
        high = alone.judged and alone.share > ALONE_LIMIT
        how = f"rows that nobody else is like in {', '.join(alone.fields)}, which are published as they are"
        upper = _upper(alone.share, rows.num_rows)
        found.append(Risk(TOGETHER, ALONE, alone.share, ALONE_LIMIT, how, high, alone.judged, False, upper))
    return PayloadRisks(tuple(found), rows.num_rows, sample.num_rows, loss)


def _people(rows: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """The individual of each row, numbered from 0; each row its own without such a field."""
    field = bound.policy.individual
    if field is None:
        return np.arange(rows.num_rows)
    return np.asarray(rows.column(field.name).combine_chunks().dictionary_encode().indices).astype(np.int64)


def _guess_risk(name: str, guess: MemberGuess | None, k: int, *, accepted: bool) -> Risk:
    limit = GUESS_LIMIT / k
    if guess is None:
        return Risk(name, GUESS, None, limit, "no window has k individuals", False, False, accepted, None)
    high = guess.rate > limit and guess.certain
    attack = "the best attacks added up" if name == TOGETHER else guess.attack
    how = f"{attack}; {guess.chance:.2f} by chance"
    upper = guess.rate + guess.noise
    return Risk(name, GUESS, guess.rate, limit, how, high, guess.conclusive, accepted, upper)


def _column_risks(rows: pa.Table, column: BoundColumn, arrival: _Arrival, *, people: bool) -> Iterator[Risk]:
    array = rows.column(column.name).combine_chunks()
    known = np.flatnonzero(np.asarray(array.is_valid()))
    array = array.take(pa.array(known))
    codes = np.asarray(array.dictionary_encode().indices).astype(np.int64)
    accepted = column.field.accept_risk is not None

    def risk(measure: str, value: float, limit: float, how: str, judged: bool) -> Risk:
        high, upper = judged and value > limit, _upper(value, codes.size)
        return Risk(column.name, measure, value, limit, how, high, judged, accepted, upper)

    limit = _distinct_limit(column.arrow_type)
    if limit is not None:
        how = f"distinct values in {codes.size:,} rows"
        yield risk("distinct values", distinct_share(codes), limit, how, codes.size >= LEAST_DISTINCT_ROWS)
    if people:
        own = own_repeats(codes, arrival.who[known])
        how = f"rows whose value one individual alone repeats; {own.by_chance:.2f} by chance"
        yield risk(OWN, own.share, OWN_LIMIT + own.by_chance, how, own.rows >= LEAST_OWN_ROWS)
    ranked = ranks_of(array)
    if ranked is not None:
        order, how = _strongest_order(ranked, known, arrival, people=people)
        yield risk("order", abs(order.correlation), ORDER_LIMIT, how, order.rows >= LEAST_ORDER_ROWS)


def _upper(share: float, rows: int) -> float:
    """Of a share of some rows, at most that of many: its own fourth and four deviations above it.

    Rows of neighbours are alike, so that deviations of rows drawn one by one say too little.
    """
    return 1.25 * share + 4 * math.sqrt(share * (1 - min(share, 1.0)) / max(rows, 1)) + 8 / max(rows, 1)


def _distinct_limit(kind: pa.DataType) -> float | None:
    """None where many distinct values are what a quantity has: fractions, amounts, days."""
    return _DISTINCT_LIMITS.get(type(form_of(kind)), DISTINCT_LIMIT)


_DISTINCT_LIMITS: dict[type[Form], float | None] = {
    Whole: WHOLE_NUMBER_LIMIT,
    **dict.fromkeys((FloatForm, DecimalForm, Days, Truths)),
}


@dataclass(frozen=True)
class _Arrival:
    """Of each row: times in milliseconds, None without a time field; group, its window in its partition; who; place, in
    the input. Ranks are made once, for all columns without nulls."""

    times: NDArray[np.int64] | None
    group: NDArray[np.int64]
    who: NDArray[np.int64]
    place: NDArray[np.int64]

    def of(self, known: NDArray[np.int64]) -> _Arrival:
        """Of some rows; of all, this."""
        if known.size == self.place.size:
            return self
        times = None if self.times is None else self.times[known]
        return _Arrival(times, self.group[known], self.who[known], self.place[known])

    @cached_property
    def in_time(self) -> Ranks:
        """Along time, within windows."""
        assert self.times is not None
        return ranks_within(self.times, self.group)

    @cached_property
    def in_input(self) -> Ranks:
        """Along the input, within windows."""
        return ranks_within(self.place, self.group)

    @cached_property
    def of_people(self) -> Ranks:
        """Along time, within individuals."""
        assert self.times is not None
        return ranks_within(self.times, self.who)


def _arrival(rows: pa.Table, bound: BoundPolicy) -> _Arrival:
    policy, group = bound.policy, np.zeros(rows.num_rows, dtype=np.int64)
    for name in policy.partition_by:
        own = np.asarray(rows.column(name).combine_chunks().dictionary_encode("encode").indices)
        group = _both(group, own.astype(np.int64))
    if policy.time is None:
        return _Arrival(None, group, _people(rows, bound), np.arange(rows.num_rows))
    column = rows.column(policy.time.name)
    times, windows = to_units(column)[0], window_numbers(column, policy)
    return _Arrival(times, _both(group, windows), _people(rows, bound), np.arange(rows.num_rows))


def _both(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each pair of values, int64 (n,)."""
    _, one = np.unique(first, return_inverse=True)
    names, other = np.unique(second, return_inverse=True)
    return one * names.size + other


def _strongest_order(
    ranked: NDArray[np.generic], known: NDArray[np.int64], arrival: _Arrival, *, people: bool
) -> tuple[Order, str]:
    """Within windows along time and along the input; if there are ``people``, within each along time."""
    here = arrival.of(known)
    within = ranks_within(ranked, here.group)
    if here.times is None:
        return order_along(within, here.in_input), "along the input"
    tried = [
        (order_along(within, here.in_time), "along time, within windows"),
        (order_along(within, here.in_input), "along the input, within windows"),
    ]
    if people:
        own = order_along(ranks_within(ranked, here.who), here.of_people)
        tried.append((own, "along time, within individuals"))
    judged = [each for each in tried if each[0].rows >= LEAST_ORDER_ROWS] or tried
    return max(judged, key=lambda each: abs(each[0].correlation))


def _shown(risk: Risk) -> Sequence[str]:
    return (risk.field, risk.measure, "-" if risk.value is None else f"{risk.value:.3f}", f"{risk.limit:.3f}")


_MEANING = {
    GUESS: "whoever knows the quasi-identifiers can tell whose row it is",
    "distinct values": "the value names the row in any other copy of the feed",
    OWN: "the value names its individual, and links the rows and releases of one",
    "order": "the value tells when the row came, and which rows are neighbours",
}


def _mistake(risk: Risk) -> str:
    if risk.measure == ALONE:
        return (
            f"fields: {risk.value:.1%} are {risk.how}, limit {risk.limit:.0%}: who knows these of somebody finds the "
            "row whatever its box is. Publish what may be known of people generalized (role: quasi), leave it out "
            "(role: identifier), or say accept_risk: <reason>"
        )
    if risk.field == TOGETHER:
        return (
            f"fields: {risk.measure} from all payload fields together {risk.value:.3f}, limit {risk.limit:.3f}: "
            f"{_MEANING[risk.measure]}. Leave out or generalize those with the highest rates, or say "
            "accept_risk: <reason> for them"
        )
    return (
        f"fields.{risk.field}: {risk.measure} {risk.value:.3f}, limit {risk.limit:.3f} ({risk.how}): "
        f"{_MEANING[risk.measure]}. Leave it out (role: identifier), publish it generalized (role: quasi), {COARSER}, "
        "or say accept_risk: <reason>"
    )
