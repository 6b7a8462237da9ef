"""What a release can be asked, a question an object: what it needs, its value, and its bounds.

Of a group, S are the rows that surely are in it and P those that may be (``estimate``); w is the share of a row's box
in it; [a, b] is what x can be in the row, m its middle. All bounds hold for every input that the release can come from.
A new question is a class here and a line of QUESTIONS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.estimates.certain_bounds import (
    MOST,
    Values,
    least_mean,
    least_quantile,
    least_ratio,
    rounding,
    unit_of_sums,
    variance_bounds,
)
from kanonflow.pipelines.estimates.coverage import (
    LEAST,
    Cover,
    Float64s,
    Int64s,
    Interval,
    Missing,
    RangeColumn,
)
from kanonflow.pipelines.estimates.distinct_boxes import DistinctBoxes, distinct_boxes, runs
from kanonflow.pipelines.estimates.group_product import GroupProduct
from kanonflow.schemas.errors import InputError

_EPSILON = float(np.finfo(np.float64).eps)


class Measure(NamedTuple):
    """A column that is asked for: its ranges, a factor from their units to its values, and the type of a mean of
    it, None: a double.

    codes: int64 (n,), equal where its boxes are. name: the field's, to cut its ranges to a query over the same field.
    """

    column: RangeColumn
    codes: Int64s
    factor: float
    kind: pa.DataType | None
    name: str

    def values(self, units: Any) -> Float64s:
        """Of whole units the values, each rounded once."""
        exact = units.astype(np.float64)
        return exact / round(1 / self.factor) if self.factor < 1 else exact * self.factor


class Answers(NamedTuple):
    """Of each group, float64 (g,); NaN: there is no answer. sure, possible: rows that surely are, or may be, in it (and
    have a value). shown: the groups to show, None: all. more: columns that a question has beside these. warnings: what
    to know, a sentence each."""

    value: Float64s
    lower: Float64s
    upper: Float64s
    sure: Int64s
    possible: Int64s
    shown: Int64s | None = None
    more: Mapping[str, pa.Array] = {}
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Options:
    """What questions take beside a column.

    q: of a quantile. n: how many groups ``top`` shows. part: of a ratio, the rows in its numerator, a cover over boxes.
    within: of a share, the fields of ``by`` that its parent has.
    """

    q: Fraction | None = None
    n: int | None = None
    part: Cover | None = None
    within: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Asked:
    """The groups of an estimate, for its questions."""

    product: GroupProduct
    boxes: DistinctBoxes
    options: Options = field(default_factory=Options)

    @cached_property
    def box_of_row(self) -> Int64s:
        """int64 (n,)."""
        boxes = np.empty(self.boxes.rows.size, np.int64)
        boxes[self.boxes.rows] = np.repeat(np.arange(self.boxes.first.size), self.boxes.sizes)
        return boxes

    def cells(self, *measures: Measure) -> Cells:
        """Rows by box and values of measures."""
        alike = distinct_boxes(
            [self.box_of_row, *(measure.codes for measure in measures)], self.box_of_row.size
        )
        boxes = self.box_of_row[alike.first]
        return Cells(np.searchsorted(boxes, np.arange(self.boxes.first.size + 1)), alike.first, alike.sizes)


class Cells(NamedTuple):
    """Rows that are alike in box and measures, box by box. starts: int64 (d + 1,), where the cells of each box begin;
    first: a row of each; rows: how many."""

    starts: Int64s
    first: Int64s
    rows: Int64s

    @property
    def boxes(self) -> Int64s:
        """The box of each."""
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    def of(self, cover: Cover) -> Cover:
        """A cover of boxes as one of cells."""
        sizes = np.diff(self.starts)[cover.rows]
        at = runs(self.starts[cover.rows], sizes)
        return Cover(at, np.repeat(cover.sure, sizes), np.repeat(cover.share, sizes))


class DrawnGroups(NamedTuple):
    """Entries of rows as they may have been (``drawn_rows``), (e,) each. rows: float64, how many. parts: of each field
    of ``by`` the part that each is in, -1: in none. values: of each measure, NaN where there is none. in_part: whether
    each is in the ``part`` of a ratio."""

    rows: Float64s
    parts: Mapping[str, Int64s]
    shape: tuple[int, ...]
    values: tuple[Float64s, ...] = ()
    in_part: NDArray[np.bool_] | None = None

    def groups(self, within: Sequence[str] | None = None) -> tuple[Int64s, int]:
        """Of each entry the group, -1: none; and how many there are. within: of these fields only."""
        own, count = np.zeros(self.rows.size, np.int64), 1
        for (name, part), width in zip(self.parts.items(), self.shape, strict=True):
            if within is None or name in within:
                own = np.where((own >= 0) & (part >= 0), own * width + part, -1)
                count *= width
        return own, count

    def total(self, of_entries: Float64s, within: Sequence[str] | None = None) -> Float64s:
        """What is added up over the rows of each group."""
        own, count = self.groups(within)
        inside = own >= 0
        weights = (of_entries * self.rows)[inside]
        return np.bincount(own[inside], weights, minlength=count).astype(np.float64)

    def sums(self, place: int = 0) -> tuple[Float64s, Float64s]:
        """Of a measure its sums, and of how many rows that have it."""
        there = ~np.isnan(self.values[place])
        return self.total(np.where(there, self.values[place], 0.0)), self.total(there.astype(np.float64))


class Question(ABC):
    """name. columns: how many it can be asked of. takes: options beside these. needs: those that it must have."""

    name: str
    columns: tuple[int, ...] = (1,)
    takes: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    of_instants = False
    """Whether it can be asked of days and instants, and is one."""
    alone = False
    """Whether it chooses the groups, so that no other question goes with it."""

    @abstractmethod
    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        """Of each group."""

    @abstractmethod
    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        """What it is of rows that were drawn, of each group; NaN: nothing."""

    def spreads_evenly(self, columns: int) -> bool:
        """Whether its value is better by boxes that are spread evenly (``coverage``). columns: that it is asked of."""
        return False


class Count(Question):
    """COUNT(*).

    value = sum w    lower = |S|    upper = |S| + |P|

    O(one product)."""

    name = "count"
    columns = (0,)

    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        product, rows = asked.product, asked.boxes.sizes
        sure, possible = product.surely(rows), product.possibly(rows)
        return Answers(product.shares(rows), sure, possible, _counts(sure), _counts(possible))

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        return drawn.total(np.ones(drawn.rows.size))


class Sum(Question):
    """SUM(x).

    value = sum w m    lower = sum_S a + sum_P min(a, 0)    upper = sum_S b + sum_P max(b, 0)

    O(n log n + one product)."""

    name = "sum"

    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        sums = _Sums.of(asked, measures[0])
        value, (lower, upper) = sums.shares(sums.middle), sums.bounds()
        possible = sums.possibly(sums.valued)
        slack = 8 * _EPSILON * possible * sums.possibly(np.abs(sums.low) + np.abs(sums.high))
        if sums.exact:
            slack = np.zeros_like(slack)
        with np.errstate(over="ignore"):
            # Of a sum that no double holds, the largest double is a lower bound.
            lower = np.minimum((lower - slack) * sums.unit, MOST)
            upper = np.maximum((upper + slack) * sums.unit, -MOST)
            value = value * sums.unit
        return Answers(value, lower, upper, _counts(sums.surely(sums.certain)), _counts(possible))

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        return drawn.sums()[0]


class OfRows(Question):
    """What is worked out group by group, of the rows of each."""

    least = 1
    """Rows that an answer needs."""

    def spreads_evenly(self, columns: int) -> bool:
        """Of a ratio of counts it is not."""
        return columns > 0

    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        shape = asked.product.count
        value, lower, upper = (np.full(shape, np.nan) for _ in range(3))
        sure, possible = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        cells = asked.cells(*measures)
        columns = [measure._replace(column=measure.column.of(cells.first)) for measure in measures]
        queries = [_own_queries(asked.product, measure) for measure in measures]
        for group, cover in asked.product.each():
            of_cells = cells.of(cover)
            rows = _rows_of(
                of_cells, cells.rows, columns, [each(group) for each in queries], whole=self.in_units()
            )
            if rows is None:
                continue
            sure[group], possible[group] = int(rows[0].rows[rows[0].sure].sum()), int(rows[0].rows.sum())
            if possible[group] >= self.least:
                value[group], lower[group], upper[group] = self.of_rows(rows, measures, asked.options)
        return Answers(value, lower, upper, sure, possible)

    def in_units(self) -> bool:
        """Whether values are asked for in the column's units."""
        return False

    @abstractmethod
    def of_rows(
        self, rows: Sequence[Values], measures: Sequence[Measure], options: Options
    ) -> tuple[float, float, float]:
        """Value, lower, upper of one group that has rows; of each measure what its rows are."""


class Mean(OfRows):
    """AVG(x), of the rows that have a value.

    value = sum w m / sum w
    lower = min over T within P of (sum_S a + sum_T a) / (|S| + |T|); upper the same with max and b

    O(m) a group, m the cells that meet it (rows alike in box and value), a few times."""

    name = "mean"
    of_instants = True

    def of_rows(
        self, rows: Sequence[Values], measures: Sequence[Measure], options: Options
    ) -> tuple[float, float, float]:
        (values,) = rows
        unit = unit_of_sums(values.low, values.high, rows=int(values.rows.sum()))
        values = values._replace(low=values.low / unit, high=values.high / unit)
        slack = rounding(values.low, values.high, int(values.rows.sum()))
        lower, upper = least_mean(values) - slack, -least_mean(values.mirrored) + slack
        weight = values.weight * values.rows
        total = float(weight.sum())
        middle = (
            float((weight * _middle(values.low, values.high)).sum()) / total
            if total > 0
            else (lower + upper) / 2
        )
        return middle * unit, lower * unit, upper * unit

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        return _over(*drawn.sums())


class Quantile(OfRows):
    """The q-quantile of x, 0 <= q <= 1: of n values in order the ceil(q n)-th; where q n is whole, half way to the
    next.

    That is R's type 2 and SAS's own definition, and of q = 1/2 the median that everybody means; q = 0 and q = 1 are the
    least and the greatest.

    value = the same of weights: each row has its share, spread evenly over [a, b]
    lower = the least over T within P with x = a; upper = the greatest with x = b (``certain_bounds.least_quantile``)

    O(m log m) a group."""

    name = "quantile"
    takes = frozenset({"q"})
    needs = frozenset({"q"})
    of_instants = True

    def in_units(self) -> bool:
        return True

    def of_rows(
        self, rows: Sequence[Values], measures: Sequence[Measure], options: Options
    ) -> tuple[float, float, float]:
        (values,), (measure,) = rows, measures
        q = self.q(options)
        lower, upper = least_quantile(values, q), -least_quantile(values.mirrored, 1 - q)
        value = min(max(_spread_quantile(values, measure.column, q), lower), upper)
        three = measure.values(np.array([value, lower, upper]))
        # Whole numbers beyond 2^53 were rounded to the nearest double.
        slack = 2 * _EPSILON * np.abs(three) if max(abs(lower), abs(upper)) >= 2.0**53 else np.zeros(3)
        return float(three[0]), float(three[1] - slack[1]), float(three[2] + slack[2])

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        own, count = drawn.groups()
        some = np.flatnonzero((own >= 0) & ~np.isnan(drawn.values[0]) & (drawn.rows > 0))
        some = some[np.argsort(drawn.values[0][some], kind="stable")]
        some = some[np.argsort(own[some], kind="stable")]
        x, sums = drawn.values[0][some], np.cumsum(drawn.rows[some])
        begins = np.searchsorted(own[some], np.arange(count + 1))
        there = begins[:-1] < begins[1:]
        begin, end = begins[:-1][there], begins[1:][there]
        before = np.concatenate([[0.0], sums])
        size = before[end] - before[begin]
        # Of whole numbers of rows: q n in fractions, so that half way is half way.
        q = self.q(asked.options)
        aim = np.array([float(q * int(n)) for n in np.unique(size)])[np.unique(size, return_inverse=True)[1]]
        at = np.clip(np.searchsorted(sums, before[begin] + aim), begin, end - 1)
        after = np.where(sums[at] == before[begin] + aim, np.minimum(at + 1, end - 1), at)
        quantiles = np.full(count, np.nan)
        quantiles[there] = x[at] / 2 + x[after] / 2
        return quantiles

    def q(self, options: Options) -> Fraction:
        """Which one."""
        assert options.q is not None
        return options.q


class Median(Quantile):
    """The quantile of q = 1/2."""

    name = "median"
    takes = frozenset()
    needs = frozenset()

    def q(self, options: Options) -> Fraction:
        return Fraction(1, 2)


class Variance(OfRows):
    """The sample variance of x, sum (x - mean)^2 / (n - 1), of two rows or more.

    value = the same of weights, where a row has m and, spread evenly, the variance of [a, b] within itself
    lower, upper: ``certain_bounds.variance_bounds``; they hold, and a little is given away: the greatest variance of
    intervals is NP-hard to find.

    O(m log m) a group, some hundred times."""

    name = "variance"
    least = 2

    def of_rows(
        self, rows: Sequence[Values], measures: Sequence[Measure], options: Options
    ) -> tuple[float, float, float]:
        (values,), (measure,) = rows, measures
        lower, upper = variance_bounds(values)
        weight, width = values.weight * values.rows, values.high - values.low
        total = float(weight.sum())
        if not total > 0:
            return (lower / 2 + upper / 2), lower, upper
        step = measure.factor if measure.column.whole else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            middle = _middle(values.low, values.high)
            mean = float((weight * middle).sum()) / total
            around = float((weight * ((middle - mean) ** 2 + width * (width + 2 * step) / 12)).sum())
            value = around / (total - 1) if total > 1 else around / total
        return float(np.clip(np.nan_to_num(value, nan=MOST), lower, upper)), lower, upper

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        sums, rows = drawn.sums()
        own, _ = drawn.groups()
        off = drawn.values[0] - _over(sums, rows)[own]
        there = ~np.isnan(off) & (own >= 0)
        return _over(drawn.total(np.where(there, off, 0.0) ** 2), rows - 1)


class Ratio(OfRows):
    """Of two columns SUM(x) / SUM(y); with ``part`` the rows of the group that are in it, over the rows of the group.

    Of two columns: value = sum w m_x / sum w m_y; lower and upper over all T and values, row by row together
    (``certain_bounds.least_ratio``). Where y can be below 0 the sums' bounds are divided, which are -inf, inf if SUM(y)
    can be 0.
    Of a part Q within group G, each row where it counts most (see ``_inner``):
    value = sum w_{G and Q} / sum w_G
    lower = |surely in both| / (|surely in both| + |may be in G and not in Q|)
    upper = |may be in both| / (|may be in both| + |surely in G, not in Q|)

    Of two columns O(m) a group, a few times; of a part one product."""

    name = "ratio"
    columns = (0, 2)
    takes = frozenset({"part"})

    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        if measures:
            return super().answers(asked, measures)
        if asked.options.part is None:
            raise InputError("estimate: ratio needs a pair of columns, of=(x, y), or part={field: what}")
        return _inner(_Within.of_part(asked, asked.options.part), 1.0, 1.0, np.ones(asked.boxes.sizes.size))

    def of_rows(
        self, rows: Sequence[Values], measures: Sequence[Measure], options: Options
    ) -> tuple[float, float, float]:
        top, bottom = rows
        units = [unit_of_sums(each.low, each.high, rows=int(each.rows.sum())) for each in rows]
        top, bottom = (
            each._replace(low=each.low / unit, high=each.high / unit)
            for each, unit in zip(rows, units, strict=True)
        )
        over = [
            float((each.weight * each.rows * _middle(each.low, each.high)).sum()) for each in (top, bottom)
        ]
        if bool((bottom.low < 0).any()):
            lower, upper = _divided(*(_sum_bounds(each) for each in (top, bottom)))
        else:
            least, most = least_ratio(top, bottom), least_ratio(top.mirrored, bottom)
            if least is None or most is None:
                return np.nan, np.nan, np.nan
            lower, upper = least, -most
        count = int(top.rows.sum())
        if any(rounding(each.low, each.high, count) for each in (top, bottom)):
            sums = float((np.maximum(np.abs(top.low), np.abs(top.high)) * top.rows).sum())
            floor = float((bottom.low * bottom.rows)[bottom.sure].sum())
            slack = 16 * _EPSILON * count * (sums / floor if floor > 0 else 1.0)
            lower, upper = lower - slack * (1 + abs(lower)), upper + slack * (1 + abs(upper))
        value = over[0] / over[1] if over[1] else np.nan
        unit = units[0] / units[1]
        value = min(max(value, lower), upper) if np.isfinite(value) else value
        return value * unit, lower * unit, upper * unit

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        if drawn.in_part is not None:
            return _over(drawn.total(drawn.in_part.astype(np.float64)), drawn.total(np.ones(drawn.rows.size)))
        return _over(drawn.sums(0)[0], drawn.sums(1)[0])


class Share(Question):
    """COUNT or SUM(x) of a group over that of its parent: the rows of ``where`` in the group's parts of the fields
    ``within``, without a word those of ``by`` but the last one.

    As a ratio with the parts of the other fields: see ``Ratio``, with sums of a and b in place of rows if x >= 0. Where
    x can be below 0 the sums' bounds are divided, and -inf, inf where the parent's sum can be 0.

    O(n log n + one product)."""

    name = "share"
    columns = (0, 1)
    takes = frozenset({"within"})

    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        both = _Within.of_parent(asked)
        if not measures:
            return _inner(both, 1.0, 1.0, np.ones(asked.boxes.sizes.size))
        (measure,) = measures
        if asked.product.place(measure.name) is not None:
            raise InputError(f"estimate: share of {measure.name} by {measure.name} itself; ask for its sum")
        sums = _Sums.of(asked, measure)
        low, high, middle = (sums.by_box(each) for each in (sums.least, sums.high * sums.valued, sums.middle))
        if bool((sums.low[sums.valued > 0] >= 0).all()):
            rounded = 0.0 if sums.exact else 16 * _EPSILON * asked.box_of_row.size
            answers = _inner(both, low, high, middle, rows=False)
            lower, upper = answers.lower * (1 - rounded), np.minimum(answers.upper * (1 + rounded), 1.0)
            answers = answers._replace(lower=lower, upper=upper)
        else:
            answers = self._signed(asked, both, measure)
        return answers._replace(
            sure=_counts(sums.surely(sums.certain)), possible=_counts(sums.possibly(sums.valued))
        )

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        both = _Within.of_parent(asked)
        own = np.nan_to_num(drawn.values[0]) if drawn.values else np.ones(drawn.rows.size)
        return _over(drawn.total(own), drawn.total(own, both.within)[both.parent])

    def _signed(self, asked: Asked, both: _Within, measure: Measure) -> Answers:
        own = Sum().answers(asked, [measure])
        whole = Sum().answers(replace(asked, product=asked.product.only(both.within)), [measure])
        at = both.parent
        ends = [
            _divided((low, high), (least, most))
            for low, high, least, most in zip(
                own.lower, own.upper, whole.lower[at], whole.upper[at], strict=True
            )
        ]
        lower, upper = np.array(ends).reshape(-1, 2).T
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(whole.value[at] != 0, own.value / whole.value[at], np.nan)
        none = whole.possible[at] == 0
        lower, upper = np.where(none, np.nan, lower), np.where(none, np.nan, upper)
        return Answers(np.clip(value, lower, upper), lower, upper, own.sure, own.possible)


class Top(Question):
    """The n groups with the greatest count, or sum of x, in order; each with what its rank can be.

    value, lower, upper: of the count or sum. rank: by value
    rank_best = 1 + groups h with lower_h > upper    rank_worst = 1 + other groups h with upper_h > lower
    surely: rank_worst <= n, so that fewer than n other groups can be greater

    Groups that are equal share the better rank. Bounds are those of each group by itself, so ranks hold, and a group
    can be surely among the top n without this being seen. O(groups log groups) beside the count or sum."""

    name = "top"
    columns = (0, 1)
    takes = frozenset({"n"})
    needs = frozenset({"n"})
    alone = True

    def answers(self, asked: Asked, measures: Sequence[Measure]) -> Answers:
        n = asked.options.n
        assert n is not None
        sizes = (Sum() if measures else Count()).answers(asked, measures)
        order = np.argsort(-sizes.value, kind="stable")
        shown = order[:n]
        best = 1 + sizes.lower.size - np.searchsorted(np.sort(sizes.lower), sizes.upper, side="right")
        above = sizes.upper.size - np.searchsorted(np.sort(sizes.upper), sizes.lower, side="right")
        worst = 1 + above - (sizes.upper > sizes.lower)
        others = int(np.sum(best[order[n:]] <= n))
        more = {
            "rank": pa.array(np.argsort(order) + 1),
            "rank_best": pa.array(best),
            "rank_worst": pa.array(worst),
            "surely": pa.array(worst <= n),
        }
        others_too = (f"{others} more groups may be among the top {n}",) if others else ()
        return sizes._replace(shown=shown, more=more, warnings=others_too)

    def of_drawn(self, drawn: DrawnGroups, asked: Asked) -> Float64s:
        return (Sum() if drawn.values else Count()).of_drawn(drawn, asked)


QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (Count(), Sum(), Mean(), Quantile(), Median(), Variance(), Ratio(), Share(), Top())
}


class Answer(NamedTuple):
    """Of one query over rows. value, lower, upper: None where no row can be in it."""

    value: float | None
    lower: float | None
    upper: float | None
    sure: int
    possible: int


def answer_count(cover: Cover, count: Int64s | None = None) -> Answer:
    """COUNT of the rows of a query. count: rows of each box; None: the cover is one of rows."""
    own = np.ones(cover.rows.size, np.int64) if count is None else count[cover.rows]
    sure, possible = int(own[cover.sure].sum()), int(own.sum())
    return Answer(float((cover.share * own).sum()), float(sure), float(possible), sure, possible)


def answer_mean(cover: Cover, measure: Measure) -> Answer:
    """MEAN of a measure over the rows of a query, if anybody is in it. O(m)."""
    ones = np.ones(measure.column.valued.size, np.int64)
    rows = _rows_of(cover, ones, [measure], [None], whole=False)
    if rows is None:
        return Answer(None, None, None, 0, 0)
    three = Mean().of_rows(rows, [measure], Options())
    return Answer(*three, int(rows[0].sure.sum()), rows[0].rows.size)


def _own_queries(product: GroupProduct, measure: Measure) -> Callable[[int], Any]:
    """Of each group, what it asks of the measure's own field."""
    place = product.place(measure.name)
    if place is None:
        return lambda group: None
    parts, asked = product.parts[place - 1], product.fields[place].asked
    return lambda group: asked[parts[group]].query


def _rows_of(
    cover: Cover, rows: Int64s, measures: Sequence[Measure], queries: Sequence[Any], *, whole: bool
) -> list[Values] | None:
    """Of the rows of a group what each measure can be; None: nobody has a value. whole: in units. Of several measures a
    missing value adds nothing."""
    if any(isinstance(query, Missing) for query in queries):
        return None
    many, of_each = len(measures) > 1, []
    if not many:
        valued = measures[0].column.valued[cover.rows]
        cover = Cover(cover.rows[valued], cover.sure[valued], cover.share[valued])
    for measure, query in zip(measures, queries, strict=True):
        column = measure.column.of(cover.rows)
        low, high = column.clipped(query)
        weight = cover.share if query is not None else cover.share * (1.0 - column.missing_share())
        sure = cover.sure if many else cover.sure & ~column.nulls
        one, other = (
            each.astype(np.float64) if whole else measure.values(each)
            for each in (low, np.maximum(low, high))
        )
        if many:
            one = np.where(column.nulls, np.where(column.valued, np.minimum(one, 0.0), 0.0), one)
            other = np.where(column.nulls, np.where(column.valued, np.maximum(other, 0.0), 0.0), other)
        of_each.append(Values(sure, one, other, weight, rows[cover.rows]))
    return of_each if cover.rows.size else None


@dataclass(frozen=True)
class _Sums:
    """What is added up of a measure over all groups at once: of cells, or, where its own field is in ``by``, of each
    box in each part. certain: whether there surely is a value, as 1 or 0; valued: whether there may be. weight: rows,
    and of these the share with a value: ``present``."""

    asked: Asked
    low: Float64s
    high: Float64s
    certain: Float64s
    valued: Float64s
    present: Float64s
    rows: Float64s
    unit: float
    exact: bool
    boxes: Int64s
    place: int | None

    @classmethod
    def of(cls, asked: Asked, measure: Measure) -> _Sums:
        place = asked.product.place(measure.name)
        if place is None:
            cells = asked.cells(measure)
            column, rows, boxes = measure.column.of(cells.first), cells.rows.astype(np.float64), cells.boxes
            ends = column.low, column.high
            certain, valued = column.valued & ~column.nulls, column.valued
            present = np.where(valued, 1.0 - column.missing_share(), 0.0)
        else:
            field = asked.product.fields[place]
            boxes = field.boxes
            column, rows = measure.column.of(asked.boxes.first[boxes]), np.ones(boxes.size)
            intervals = [part.query if isinstance(part.query, Interval) else None for part in field.asked]
            firsts = np.array([0 if each is None else each.first for each in intervals])[field.parts]
            lasts = np.array([0 if each is None else each.end for each in intervals])[field.parts]
            valued = np.array([each is not None for each in intervals], bool)[field.parts]
            low = np.maximum(column.low, firsts)
            ends = low, np.maximum(low, np.minimum(column.high, lasts))
            certain, present = valued, valued.astype(float)
        low, high = (np.where(valued, measure.values(each), 0.0) for each in ends)
        count = asked.box_of_row.size
        unit = unit_of_sums(low, high, rows=count)
        low, high = low / unit, high / unit
        exact = rounding(low, high, count) == 0.0
        return cls(
            asked,
            low,
            high,
            certain.astype(float),
            valued.astype(float),
            present,
            rows,
            unit,
            exact,
            boxes,
            place,
        )

    @property
    def middle(self) -> Float64s:
        return _middle(self.low, self.high) * self.present

    @property
    def least(self) -> Float64s:
        """What surely is there of values that are not below 0."""
        return self.low * self.certain

    def bounds(self) -> tuple[Float64s, Float64s]:
        """Of the sum of each group."""
        below, over = np.minimum(self.low, 0.0), np.maximum(self.high, 0.0)
        lower = self.surely((self.low - below) * self.certain) + self.possibly(below)
        return lower, self.surely((self.high - over) * self.certain) + self.possibly(over)

    def by_box(self, values: Float64s) -> Float64s:
        """Added up of the rows of each box."""
        sums = np.bincount(self.boxes, values * self.rows, minlength=self.asked.boxes.first.size)
        return sums.astype(np.float64)

    def surely(self, values: Float64s) -> Float64s:
        return self._total(values, [each.sure for each in self.asked.product.fields])

    def possibly(self, values: Float64s) -> Float64s:
        return self._total(values, [each.meets for each in self.asked.product.fields])

    def shares(self, values: Float64s) -> Float64s:
        return self._total(values, [each.share for each in self.asked.product.fields])

    def _total(self, values: Float64s, of_fields: list[Float64s]) -> Float64s:
        product = self.asked.product
        if self.place is None:
            return product.total(self.by_box(values), of_fields)
        of_fields[self.place] = of_fields[self.place] * values
        return product.total(self.asked.boxes.sizes, of_fields)


@dataclass(frozen=True)
class _Within:
    """Groups, each within a larger one. inner, surely: what is added up of boxes that meet the group, or lie within it.
    halfway: of those that meet the larger one and if they are in it are in the group. other: of those that surely are
    in the larger one and may be in the group. shares: by shares. outer: the larger groups; parent: which
    one each is in.
    """

    inner: Callable[[Any], Float64s]
    surely: Callable[[Any], Float64s]
    halfway: Callable[[Any], Float64s]
    other: Callable[[Any], Float64s]
    shares: Callable[[Any], Float64s]
    outer: GroupProduct
    parent: Int64s
    sizes: Int64s
    within: tuple[str, ...] = ()

    @classmethod
    def of_part(cls, asked: Asked, part: Cover) -> _Within:
        """The rows of each group that are in a part."""
        product, count = asked.product, asked.boxes.first.size
        meets, sure, share = np.zeros(count), np.zeros(count), np.zeros(count)
        meets[part.rows], sure[part.rows], share[part.rows] = 1.0, part.sure, part.share
        return cls(
            lambda weights: product.possibly(weights * meets),
            lambda weights: product.surely(weights * sure),
            lambda weights: product.possibly(weights * sure),
            lambda weights: product.surely(weights * meets),
            lambda weights: product.shares(weights * share),
            product,
            np.arange(product.count),
            asked.boxes.sizes,
        )

    @classmethod
    def of_parent(cls, asked: Asked) -> _Within:
        """The groups of ``by`` in those of fewer fields."""
        product = asked.product
        names = [each.name for each in product.fields[1:]]
        within = tuple(names[:-1]) if asked.options.within is None else asked.options.within
        if others := sorted(set(within) - set(names)):
            raise InputError(f"estimate: {', '.join(others)} is in within and not in by")
        outer = product.only(within)
        own = [part for name, part in zip(names, product.parts, strict=True) if name in within]
        parent = np.ravel_multi_index(own, outer.shape) if own else np.zeros(product.count, np.int64)
        held = [not each.name or each.name in within for each in product.fields]
        halfway = [
            each.meets if stays else each.sure for each, stays in zip(product.fields, held, strict=True)
        ]
        other = [each.sure if stays else each.meets for each, stays in zip(product.fields, held, strict=True)]
        return cls(
            product.possibly,
            product.surely,
            lambda weights: product.total(weights, halfway),
            lambda weights: product.total(weights, other),
            product.shares,
            outer,
            parent,
            asked.boxes.sizes,
            within,
        )


def _inner(both: _Within, low: Any, high: Any, middle: Any, *, rows: bool = True) -> Answers:
    """The ratio of what is added up of groups to that of the larger ones. low, high, middle: of each box; rows: of a
    row of it. A / (A + B) of values not below 0 is least where all rows are in B that can be, and none in A that need
    not be:

    lower = A_- / (A_- + B_+)    upper = A_+ / (A_+ + B_-)

    A_-  low of boxes that lie within the group            A_+  high of those that meet it
    B_-  low of boxes within the larger group that do not meet the group
    B_+  high of boxes that meet the larger group and are not bound to be in the group if they are in it
    """
    each = both.sizes if rows else 1
    low, high, middle = low * each, high * each, middle * each
    at = both.parent
    least, most = both.surely(low), both.inner(high)
    rest_least = both.outer.surely(low)[at] - both.other(low)
    rest_most = both.outer.possibly(high)[at] - both.halfway(high)
    shares, whole = both.shares(middle), both.outer.shares(middle)[at]
    if not rows:
        # What is left of a difference by rounding is nothing.
        rest_least, rest_most = (np.where(rest > 0, rest, 0.0) for rest in (rest_least, rest_most))
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(least + rest_most > 0, least / (least + rest_most), np.where(most > 0, 1.0, np.nan))
        upper = np.where(
            most + rest_least > 0, most / (most + rest_least), np.where(rest_most > 0, 0.0, np.nan)
        )
        value = np.where(whole > 0, shares / whole, lower / 2 + upper / 2)
    value = np.clip(value, lower, upper)
    return Answers(
        value, lower, upper, _counts(both.surely(both.sizes)), _counts(both.outer.possibly(both.sizes)[at])
    )


def _sum_bounds(values: Values) -> tuple[float, float]:
    lower = float((np.where(values.sure, values.low, np.minimum(values.low, 0.0)) * values.rows).sum())
    return lower, float(
        (np.where(values.sure, values.high, np.maximum(values.high, 0.0)) * values.rows).sum()
    )


def _divided(top: tuple[float, float], bottom: tuple[float, float]) -> tuple[float, float]:
    """Bounds on a quotient by those of its parts."""
    if bottom[0] <= 0 <= bottom[1]:
        return -np.inf, np.inf
    ends = [one / other for one in top for other in bottom]
    return min(ends), max(ends)


def _spread_quantile(values: Values, column: RangeColumn, q: Fraction) -> float:
    """The q-quantile of weights, each spread over its range; in units."""
    weight = values.weight * values.rows
    total = float(weight.sum())
    if not total > 0:
        return float(values.low.min() / 2 + values.high.max() / 2)
    aim = float(q) * total
    if not np.any(values.low != values.high):
        order = np.argsort(values.low, kind="stable")
        sums = np.cumsum(weight[order])
        # Sums of shares are whole but for rounding where the shares are.
        at = int(np.searchsorted(sums, aim - 1e-12 * total))
        after = max(at, int(np.searchsorted(sums, aim + 1e-12 * total)))
        one, other = (values.low[order[min(place, order.size - 1)]] for place in (at, after))
        return float(one / 2 + other / 2)
    none = np.zeros(weight.size, np.bool_)
    low, high = ((each.astype(np.int64) if column.whole else each) for each in (values.low, values.high))
    ranges = RangeColumn(low, high, ~none, none, column.k)
    first, last = ranges.low.min(), ranges.high.max()
    first, last = (int(first) - 1, int(last)) if column.whole else (float(first), float(last))
    for _ in range(64):
        middle = (first + last) // 2 if column.whole else first / 2 + last / 2
        if middle in (first, last):
            break
        least = LEAST + 1 if column.whole else -np.inf
        cover = ranges.cover(Interval(least, middle, column.whole))
        if float((weight[cover.rows] * cover.share).sum()) >= aim:
            last = middle
        else:
            first = middle
    return float(last)


def _over(top: Float64s, bottom: Float64s) -> Float64s:
    """A quotient; NaN where there is none."""
    return np.divide(top, bottom, out=np.full(top.size, np.nan), where=bottom > 0)


def _middle(low: Float64s, high: Float64s) -> Float64s:
    return low / 2 + high / 2


def _counts(values: Float64s) -> Int64s:
    return np.rint(values).astype(np.int64)
