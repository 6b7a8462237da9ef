"""Releases as one table: nested as released, flat, as a data frame, and asked for estimates.

read_release("out").estimate("mean", "amount", by={"birth_date": "10y", "gender": "each"})
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.combine import Combined, combine
from kanonflow.pipelines.analysis.flat_columns import Flat, flat_table
from kanonflow.pipelines.analysis.impute import hull_draws, imputed_tables
from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField, ReleaseForm, release_form
from kanonflow.pipelines.analysis.released_files import open_releases
from kanonflow.pipelines.estimates.asked_questions import Columns, asked_questions
from kanonflow.pipelines.estimates.coverage import (
    Cover,
    Float64s,
    Int64s,
    Interval,
    PrefixColumn,
    RangeColumn,
    SetColumn,
    every_row,
    exact_range,
    exact_sets,
    label_column,
    leaves_below,
    nobody,
    prefix_column,
    range_column,
    set_column,
    window_column,
)
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.drawn_rows import DrawnRows, Match, field_of_rows
from kanonflow.pipelines.estimates.estimate import WIDE, Estimate, answer_columns, groups_table, warn_of
from kanonflow.pipelines.estimates.group_product import (
    FieldParts,
    GroupProduct,
    parts_of_column,
    parts_of_cover,
)
from kanonflow.pipelines.estimates.hull_draws import HullDraws
from kanonflow.pipelines.estimates.plausible import Drawing, Plausible, plausible_intervals
from kanonflow.pipelines.estimates.query_parts import (
    EACH,
    Part,
    edge_in_units,
    interval_parts,
    members,
    within_ranges,
)
from kanonflow.pipelines.estimates.questions import QUESTIONS, Answers, Asked, Measure, Options, Question
from kanonflow.pipelines.estimates.regions import Regions, region_cover
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_file import read_hierarchy
from kanonflow.schemas.kinds.forms import form_of

MOST_GROUPS = 10_000_000
WINDOW_FIELD = "window"
SHARE = "share"
Hierarchies = Mapping[str, Hierarchy | str | os.PathLike[str]]
Region = Mapping[str, Any]


def read_release(
    *directories: str | os.PathLike[str], hierarchies: Hierarchies | None = None
) -> ReleasedTable:
    """The releases that are in these directories now, in memory.

    directories: the --output of a run, finished or not, or of several runs of one policy that continue each other.
    hierarchies: of fields of ``type: hierarchy`` by published name, or the path of a file with its rows; a release has
    its labels only. Needed to estimate by such a field.
    Raises InputError: nothing to read, a damaged file, releases of different forms. O(cells).
    """
    files = open_releases([os.fspath(directory) for directory in directories])
    table = pa.concat_tables(files.batches())
    return ReleasedTable(table, files.form, hierarchies)


def hierarchies_of(bound: BoundPolicy) -> dict[str, Hierarchy | str | os.PathLike[str]]:
    """The listed hierarchies of a policy by published name, as ``read_release`` takes them."""
    return {
        column.published_name: column.field.quasi.hierarchy
        for column in bound.quasis
        if column.field.quasi and column.field.quasi.hierarchy
    }


class ReleasedTable:
    """Rows of releases. form: what their columns are. hierarchies: those that were given, by published name."""

    def __init__(self, table: pa.Table, form: ReleaseForm, hierarchies: Hierarchies | None = None) -> None:
        """table: the columns of ``form.arrow``."""
        self.form = form
        self._table = table.combine_chunks()
        self.hierarchies = {name: _hierarchy(each) for name, each in (hierarchies or {}).items()}
        for name in self.hierarchies:
            if form.field(name).kind is not Kind.LABEL:
                raise InputError(f"hierarchies: {name} is released without a hierarchy")
        self._columns: dict[tuple[str, bool], RangeColumn | SetColumn | PrefixColumn] = {}
        self._codes: dict[tuple[str, bool], Int64s] = {}

    @classmethod
    def of(cls, released: pa.Table, bound: BoundPolicy) -> ReleasedTable:
        """The released rows of ``anonymize_table``, with the policy as bound to its input."""
        form = release_form(release_avro_schema(bound), with_epoch=False)
        return cls(released, form, hierarchies_of(bound))

    def __len__(self) -> int:
        """Rows."""
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        """No value of a row."""
        return f"ReleasedTable({len(self):,} rows; {', '.join(field.name for field in self.form.fields)})"

    @property
    def fields(self) -> tuple[ReleasedField, ...]:
        """What the columns are, in their order."""
        return self.form.fields

    def arrow(self) -> pa.Table:
        """As released: ranges as struct<min, max, nulls>, sets as lists."""
        return self._table

    def flat(self, form: Flat | str = Flat.COLUMNS) -> pa.Table:
        """One value a cell, as an Arrow table (``flat_columns.flat_table``): columns, label or mid."""
        return flat_table(self._table, self.form.fields, form)

    def polars(self, form: Flat | str | None = Flat.COLUMNS) -> Any:
        """As a polars DataFrame, flat; form None: nested as released."""
        import polars

        return polars.from_arrow(self._table if form is None else self.flat(form))

    def pandas(self, form: Flat | str | None = Flat.COLUMNS) -> Any:
        """As a pandas DataFrame with Arrow's types (a missing value stays one, a whole number whole), flat; form None:
        nested as released, which pandas cannot group by."""
        import pandas

        table = self._table if form is None else self.flat(form)
        return table.to_pandas(types_mapper=pandas.ArrowDtype)

    def shares(self, by: Mapping[str, Any]) -> pa.Table:
        """Rows cut into parts of fields, for tools that add up: ``SUM(share)``, ``SUM(share * amount)`` of a part are
        the values that ``estimate`` has, up to rounding.

        by: as ``estimate`` takes it. A row of the release is as many rows as it meets combinations of parts: what tells
        these apart (``age_from`` and ``age_to``, or ``gender``) stands in the place of the fields of ``by``, the others
        are flat, and ``share`` is last. The shares of a row are 1 together where the parts hold every value, else
        less. Raises InputError, naming the field. O(rows x combinations) at worst.
        """
        pieces: list[tuple[tuple[Part, ...], Cover]] = [((), every_row(len(self)))]
        for name, asked in by.items():
            column, parts = self._parts(name, asked)
            met = _covered(column, parts)
            both = [((*chosen, part), cover.both(other)) for chosen, cover in pieces for part, other in met]
            pieces = [(chosen, cover) for chosen, cover in both if cover.rows.size]
        rows = np.concatenate([cover.rows for _, cover in pieces] or [np.zeros(0, np.int64)])
        piece = pa.array(np.repeat(np.arange(len(pieces)), [cover.rows.size for _, cover in pieces]))
        columns: dict[str, Any] = {}
        for place, name in enumerate(by):
            for key, values in self._key_columns(name, [chosen[place] for chosen, _ in pieces]).items():
                columns[key] = values.take(piece)
        others = flat_table(self._table, [field for field in self.form.fields if field.name not in by])
        if taken := {*columns, SHARE} & set(others.column_names):
            raise InputError(f"shares: the release has a field {min(taken)}, too; rename it in the input")
        for name in others.column_names:
            columns[name] = others.column(name).take(pa.array(rows))
        columns[SHARE] = pa.array(np.concatenate([cover.share for _, cover in pieces] or [np.zeros(0)]))
        return pa.table(columns)

    def estimate(
        self,
        what: str | Sequence[str],
        of: Columns | Sequence[Columns] | None = None,
        *,
        by: Mapping[str, Any] | None = None,
        where: Region | Sequence[Region] | None = None,
        q: Any = None,
        n: int | None = None,
        part: Region | Sequence[Region] | None = None,
        within: Sequence[str] | None = None,
        wide: float = WIDE,
        level: float = 0.95,
        draws: int = 0,
        seed: int = 0,
    ) -> Estimate:
        """Counts, sums, means and more, with bounds that hold, by parts of fields.

        what: ``"count"``, ``"sum"``, ``"mean"``, ``"quantile"``, ``"median"``, ``"variance"``, ``"ratio"``,
            ``"share"``, ``"top"``, or a list of these; each is defined by its class in ``estimates/questions.py``, and
            what the bounds are about is in ``estimates/estimate.py``.
        of: the column that is asked for, with values as they were or released as ranges; of a ratio a pair ``(x, y)``;
            a list asks each question of each.
        by: for each field its parts, of which every combination is a group; a row is in one part at most:
            a field with ranges, dates or numbers: edges ``[0, 18, 65, None]``, each part with its first edge and
            without its last, None for missing values; or a period of dates and instants, ``"1mo"`` (h, d, w, mo, q, y);
            ``"window"``: the same over the windows of rows, or ``"each"`` (unless a field has that name);
            categories and labels: ``"each"`` value or leaf that occurs, or a list, in which a tuple is one part.
        where: the rows that are asked for: a pair of edges ``(18, 65)`` or a category, or a list of categories; None:
            the missing ones. A list of mappings: rows in any of them, counted once.
        q: of a quantile, 0 to 1, or a list. n: how many groups ``top`` shows.
        part: of a ratio of counts, which rows of a group are in its numerator, as ``where``.
        within: of a share, the fields of ``by`` whose parts make up its parent; () for all rows of ``where``.
        wide: bounds further apart than this share of the value are marked, and warned of; of days and instants: than
            this share of a fifth of the released span. Where plausible intervals are drawn it goes by these.
        level, draws, seed: of the plausible intervals, which are a **model and no guarantee**
            (``estimates/plausible.py``): the share of truths that they are meant to hold, how often people are drawn
            for them, 200 say, and by what. The same seed, the same intervals. draws=0: there are none.

        Returns a row a group; groups in which nobody can be are left out unless they were asked for by edges or
        names. Of several questions each column has the question before it: ``mean_amount``, ``mean_amount_lower``.
        Raises InputError, naming the field. Counts, sums, shares and ratios of counts take one product over distinct
        boxes (``group_product.py``), the rest O(rows that meet a group) a group.
        """
        options = {"q": q, "n": n, "part": part, "within": within}
        model = Plausible(seed, draws, level)
        questions = asked_questions(what, of, options)
        by = by or {}
        wanted, numerator = self._regions(where), self._regions(part)
        for one, other, names in (
            ("by", "where", set(by) & set(wanted.columns)),
            ("part", "by or where", set(numerator.columns) & {*by, *wanted.columns}),
        ):
            if names:
                raise InputError(
                    f"estimate: {', '.join(sorted(names))} is in {one} and in {other}; narrow the parts of {one}"
                )
        divided = {name: self._parts(name, asked) for name, asked in by.items()}
        if math.prod(len(parts) for _, parts in divided.values()) > MOST_GROUPS:
            raise InputError(f"estimate: more than {MOST_GROUPS:,} groups; take fewer parts, or fewer fields")
        columns = wanted.columns | numerator.columns | {name: column for name, (column, _) in divided.items()}
        codes = {name: self._box_codes(name, column) for name, column in columns.items()}
        boxes = distinct_boxes(list(codes.values()), len(self))
        own = {name: column.of(boxes.first) for name, column in columns.items()}
        count = boxes.first.size

        def spread(*, evenly: bool) -> tuple[Cover, list[FieldParts]]:
            """The boxes of ``where``, and what they are to the parts of ``by``."""
            those = {name: column.evenly() if evenly else column for name, column in own.items()}
            parts_of = (
                parts_of_column(name, those[name], codes[name][boxes.first], parts)
                for name, (_, parts) in divided.items()
            )
            return region_cover(those, wanted.queries, count), list(parts_of)

        spreads = {
            evenly: spread(evenly=evenly)
            for evenly in {each.question.spreads_evenly(len(each.columns)) for each in questions}
        }
        chosen = Options(
            n=n,
            part=None if part is None else region_cover(own, numerator.queries, count),
            within=None if within is None else tuple(within),
        )
        answered, asked_of = [], []
        for each in questions:
            measures = [self.measure(each.question.name, name) for name in each.columns]
            cut = [wanted.narrowed(measure) for measure in measures]
            base, by_field = spreads[each.question.spreads_evenly(len(measures))]
            rows = nobody() if None in cut else base
            product = GroupProduct((parts_of_cover(rows, count), *by_field), boxes.sizes)
            there = [one or whole for one, whole in zip(cut, measures, strict=True)]
            groups = Asked(product, boxes, replace(chosen, q=each.q))
            asked_of.append((each.question, there, groups, each.question.answers(groups, there)))
        intervals: Sequence[tuple[Float64s, Float64s] | None] = [None] * len(asked_of)
        if draws:
            drawing = self._drawing(wanted, None if part is None else numerator, divided, asked_of)
            intervals = plausible_intervals(drawing, asked_of, model)
        for each, (question, there, _, answers), ends in zip(questions, asked_of, intervals, strict=True):
            answered.append((each.title, answers, answer_columns(question, answers, there, ends, wide)))
        everything = all(asked != EACH and not isinstance(asked, str) for asked in by.values())
        keys = [self._key_columns(name, parts) for name, (_, parts) in divided.items()]
        table = groups_table(keys, product.parts, answered, everything=everything)
        used = [
            *by,
            *wanted.columns,
            *numerator.columns,
            *(name for each in questions for name in each.columns),
        ]
        windows = [*wanted.of(WINDOW_FIELD), *numerator.of(WINDOW_FIELD)]
        windows += [own.query for own in divided.get(WINDOW_FIELD, (None, []))[1]]
        more = [sentence for _, answers, _ in answered for sentence in answers.warnings]
        return warn_of(
            Estimate(
                table,
                (
                    *self._cut_windows(windows),
                    *self._warnings(used, table, "plausible intervals" if draws else "bounds"),
                    *more,
                ),
            )
        )

    def _drawing(
        self,
        wanted: Regions,
        numerator: Regions | None,
        divided: Mapping[str, tuple[Any, list[Part]]],
        asked_of: Sequence[tuple[Question, Sequence[Measure], Asked, Answers]],
    ) -> Drawing | None:
        """What plausible intervals are drawn from; None: there is nothing that could be otherwise."""
        if all(np.all(answers.lower >= answers.upper) for *_, answers in asked_of):
            return None
        used: dict[tuple[str, bool], tuple[Any, list[Any]]] = {}
        asked = [(name, column, [part.query for part in parts]) for name, (column, parts) in divided.items()]
        for regions in (wanted, numerator or Regions({}, [])):
            asked += [(name, column, regions.of(name)) for name, column in regions.columns.items()]
        measures = [measure for _, own, *_ in asked_of for measure in own]
        asked += [(measure.name, self._range(measure.name), []) for measure in measures]
        for name, column, queries in asked:
            used.setdefault((name, isinstance(column, RangeColumn)), (column, []))[1].extend(queries)
        people = self._people
        fields = {
            key: field_of_rows(key[0], column, queries, people) for key, (column, queries) in used.items()
        }

        def matches(regions: Regions) -> list[dict[tuple[str, bool], Match]]:
            return [
                {key: fields[key].match([region[key[0]]]) for key in fields if regions.has(region, key)}
                for region in regions.queries
            ]

        by = {
            (name, isinstance(column, RangeColumn)): fields[name, isinstance(column, RangeColumn)].match(
                [part.query for part in parts]
            )
            for name, (column, parts) in divided.items()
        }
        return Drawing(
            DrawnRows.of(people, fields),
            matches(wanted),
            None if numerator is None else matches(numerator),
            by,
            tuple(len(parts) for _, parts in divided.values()),
        )

    @cached_property
    def _people(self) -> HullDraws:
        return hull_draws(self, by_window=True)

    def _warnings(self, used: Sequence[str], table: pa.Table, what: str) -> Iterator[str]:
        columns = [table.column(name) for name in table.column_names if name.split("_")[-1] == "wide"]
        flags = np.any([column.to_numpy() for column in columns], axis=0)
        if flags.any():
            yield (
                f"the {what} of {flags.sum()} of {flags.size} groups are wide: the values say little there; ask for"
                " wider parts or fewer fields at once"
            )
        for name in dict.fromkeys(used):
            if self._has_coded_ends(name):
                yield (
                    f"{name}: values beyond the domain that the policy declares are in the release as its ends, and"
                    " count as these"
                )

    def _cut_windows(self, asked: Sequence[Any]) -> Iterator[str]:
        parts = [each for each in asked if isinstance(each, Interval)]
        if not self._has(WINDOW_FIELD) and parts and within_ranges(self._range(WINDOW_FIELD), parts):
            yield (
                "window: parts begin or end within windows of the release, whose rows then may be in either; ask for"
                f' by={{"window": "{EACH}"}} or for edges at which windows begin (window_offset of the policy)'
            )

    def _has_coded_ends(self, name: str) -> bool:
        if name == WINDOW_FIELD and not self._has(name):
            return False
        field = self.form.field(name)
        if field.domain is None or not field.coded:
            return False
        column = self._range(name)
        number = int if column.whole else float
        first = number(edge_in_units(name, field.value, field.domain[0]))
        last = number(edge_in_units(name, field.value, field.domain[-1]))
        valued = column.valued
        return bool(np.any(column.low[valued] <= first) or np.any(column.high[valued] >= last))

    def _key_columns(self, name: str, parts: Sequence[Part]) -> dict[str, pa.Array]:
        """What tells the groups apart: the two edges, or the category."""
        if any(part.ends is not None for part in parts) or (not parts and self._is_range(name, None)):
            kind = self._edge_type(name)
            ends = [part.ends or (None, None) for part in parts]
            return {
                f"{name}_from": _edges([first for first, _ in ends], kind),
                f"{name}_to": _edges([end for _, end in ends], kind),
            }
        values = [part.value for part in parts]
        field = self.form.field(name)
        if field.kind is not Kind.LABEL:
            try:
                return {name: pa.array(values, field.value)}
            except (pa.ArrowException, TypeError, ValueError):
                pass
        return {name: pa.array([None if value is None else str(value) for value in values], pa.string())}

    def _edge_type(self, name: str) -> pa.DataType | None:
        kind = (
            pa.timestamp("ms", "UTC")
            if name == WINDOW_FIELD and not self._has(name)
            else self.form.field(name).value
        )
        return kind if pa.types.is_temporal(kind) else None

    def _parts(self, name: str, asked: Any) -> tuple[Any, list[Part]]:
        if self._is_range(name, asked):
            column = self._range(name)
            kind = self._kind(name)
            return column, interval_parts(name, kind, asked, column)
        sets = self._sets(name)
        if isinstance(asked, str) and asked == EACH:
            queries = [(value, frozenset([value])) for value in sets.each()]
        elif isinstance(asked, str) or not isinstance(asked, Sequence | set | frozenset):
            raise InputError(f"by {name}: give a list of categories, or {EACH}")
        else:
            queries = list(members(asked))
            wanted = [value for _, values in queries for value in values]
            if len(wanted) != len(set(wanted)):
                raise InputError(f"by {name}: a category is in two parts")
        return sets, [Part(self._leaves(name, values), value=value) for value, values in queries]

    def _regions(self, asked: Region | Sequence[Region] | None) -> Regions:
        regions = [
            {name: self._where(name, each) for name, each in region.items()}
            for region in ([asked or {}] if asked is None or isinstance(asked, Mapping) else asked)
        ]
        return Regions(
            {name: column for region in regions for name, (column, _) in region.items()},
            [{name: query for name, (_, query) in region.items()} for region in regions],
        )

    def _where(self, name: str, asked: Any) -> tuple[Any, Any]:
        ranged = self._is_range(name, asked if isinstance(asked, tuple) or asked is None else EACH)
        if ranged and asked is None:
            part = interval_parts(name, self._kind(name), [None], self._range(name))[0]
        elif ranged and isinstance(asked, tuple) and len(asked) == 2:
            part = interval_parts(name, self._kind(name), list(asked), self._range(name))[0]
        elif ranged:
            raise InputError(f"where {name}: give a pair of edges, or None for missing values")
        else:
            wanted = (
                frozenset(asked) if isinstance(asked, list | tuple | set | frozenset) else frozenset([asked])
            )
            return self._sets(name), self._leaves(name, wanted)
        return self._range(name), part.query

    def _leaves(self, name: str, values: frozenset[Any]) -> frozenset[Any]:
        """Of a field with a hierarchy the leaves below labels; else the values."""
        field = self.form.field(name)
        if field.tree is not None:
            if wrong := [
                each for each in values if each is not None and field.tree.prefixes.kept(str(each)) is None
            ]:
                raise InputError(
                    f"{name}: {len(wrong)} of what is asked for is no prefix of {field.tree.of}, nor a value"
                )
            return values
        if field.kind is not Kind.LABEL:
            return values
        tree = self._tree(name)
        try:
            return frozenset(
                leaf
                for value in values
                for leaf in ([None] if value is None else leaves_below(tree, str(value)))
            )
        except KeyError:
            raise InputError(f"{name}: its hierarchy has no such label") from None

    def _has(self, name: str) -> bool:
        return any(field.name == name for field in self.form.fields)

    def _is_range(self, name: str, asked: Any) -> bool:
        """Whether a field is asked for by edges: it is released as ranges, or has units and is not asked value by
        value."""
        if name == WINDOW_FIELD and not self._has(name):
            return True
        field = self.form.field(name)
        if field.kind is Kind.OWN:
            raise InputError(f"{name}: is the release's own; ask for {WINDOW_FIELD}, or a field of the feed")
        return field.kind is Kind.RANGE or (
            field.kind is Kind.EXACT
            and (form_of(field.value).measured or pa.types.is_time64(field.value))
            and not (isinstance(asked, str) and asked == EACH)
        )

    def _kind(self, name: str) -> pa.DataType:
        if name == WINDOW_FIELD and not self._has(name):
            return pa.timestamp("ms", "UTC")
        return self.form.field(name).value

    def column(self, name: str) -> RangeColumn | SetColumn | PrefixColumn:
        """The boxes of a quasi-identifier. Raises InputError."""
        return self._range(name) if self.form.field(name).kind is Kind.RANGE else self._sets(name)

    def _range(self, name: str) -> RangeColumn:
        if (name, True) not in self._columns:
            self._columns[name, True] = self._make_range(name)
        return self._columns[name, True]  # type: ignore[return-value]

    def _make_range(self, name: str) -> RangeColumn:
        k = self.form.k
        if name == WINDOW_FIELD and not self._has(name):
            start, end = self._array("window_start"), self._array("window_end")
            if start.null_count:
                raise InputError(
                    "window: the release has no windows, for its policy has no field of role: time"
                )
            return window_column(start, end, k)
        array = self._array(name)
        return range_column(array, k) if self.form.field(name).kind is Kind.RANGE else exact_range(array, k)

    def _sets(self, name: str) -> SetColumn | PrefixColumn:
        if (name, False) not in self._columns:
            self._columns[name, False] = self._make_sets(name)
        return self._columns[name, False]  # type: ignore[return-value]

    def _make_sets(self, name: str) -> SetColumn | PrefixColumn:
        field = self.form.field(name)
        array, kind = self._array(name), field.kind
        if field.tree is not None:
            try:
                return prefix_column(array, field.tree, self.form.k)
            except KeyError:
                raise InputError(f"{name}: the release has labels that are no prefixes") from None
        if kind is Kind.SET:
            return set_column(array, self.form.k)
        if kind is Kind.EXACT:
            return exact_sets(array)
        try:
            return label_column(array, self._tree(name))
        except KeyError:
            raise InputError(f"{name}: the release has labels that the given hierarchy has not") from None

    def _tree(self, name: str) -> Hierarchy:
        if name not in self.hierarchies:
            raise InputError(
                f"{name}: a release has labels only; give read_release the hierarchy, hierarchies={{'{name}': FILE}}"
            )
        return self.hierarchies[name]

    def _array(self, name: str) -> pa.Array:
        column = self._table.column(name)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def measure(self, what: str, of: str) -> Measure:
        """What ``estimate`` asks of a column. Raises InputError: it has no sum or mean."""
        field = self.form.field(of)
        kind = field.value
        if field.kind not in (Kind.RANGE, Kind.EXACT) or not form_of(kind).measured:
            raise InputError(f"estimate: {of} has no {what}; numbers have, and of days and instants the mean")
        if form_of(kind).per_day is not None and not QUESTIONS[what].of_instants:
            raise InputError(f"estimate: {of} has no {what}; ask for the mean")
        factor, result = 1.0, None
        if pa.types.is_decimal(kind):
            factor = 10.0**-kind.scale
        elif pa.types.is_date(kind):
            factor, result = 86_400_000.0, pa.timestamp("ms")
        elif pa.types.is_timestamp(kind):
            factor, result = {"ms": 1.0, "us": 1e-3}[kind.unit], pa.timestamp("ms", kind.tz)
        column = self._range(of)
        return Measure(column, self._box_codes(of, column), factor, result, of)

    def impute(self, m: int = 5, *, outcome: str | None = None, seed: int) -> list[pa.Table]:
        """m tables with one value a cell for models, as ``analysis/impute.py`` says: **invented rows, which are nobody
        and may not be joined to anything**. outcome: a field of payload that a model is about, lest slopes be drawn
        towards 0. The same seed, the same tables. Raises InputError, naming the argument or field."""
        return imputed_tables(self, m, outcome, seed)

    @staticmethod
    def combine(estimates: Sequence[Any], variances: Sequence[Any], **options: Any) -> Combined:
        """Rubin's rules over what m imputed tables gave; ``analysis/combine.py`` has the formulas."""
        return combine(estimates, variances, **options)

    def _box_codes(self, name: str, column: RangeColumn | SetColumn | PrefixColumn) -> Int64s:
        place = name, isinstance(column, RangeColumn)
        if place not in self._codes:
            self._codes[place] = box_codes(column)
        return self._codes[place]


def _covered(column: Any, parts: Sequence[Part]) -> list[tuple[Part, Cover]]:
    return [(part, column.cover(part.query)) for part in parts]


def _hierarchy(given: Hierarchy | str | os.PathLike[str]) -> Hierarchy:
    return given if isinstance(given, Hierarchy) else read_hierarchy(Path(given))


def _edges(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    """Edges as they were asked for; of days and instants in the field's type where they all are ones."""
    if kind is not None:
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError):
            return pa.array([None if value is None else str(value) for value in values], pa.string())
    try:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    except (TypeError, ValueError):
        return pa.array([str(value) for value in values], pa.string())
