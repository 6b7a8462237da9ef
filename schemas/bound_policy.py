"""A policy bound to the schema of an input: which columns are read, and what type each of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.canonical_types import (
    MILLISECONDS,
    canonical_type,
    misfit,
    type_of_text,
)
from kanonflow.schemas.diversity_declaration import no_order
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.kinds.form import Ends, Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.kind import Kind
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.loss_scales import LINEAR, Scale, scale_of
from kanonflow.schemas.payload_grids import grid_keys, misfits_of_grid, published_type
from kanonflow.schemas.policy import Others, Policy
from kanonflow.schemas.policy_fields import PAYLOAD, Field, PartOfTime, Role
from kanonflow.schemas.policy_rules import RESERVED
from kanonflow.schemas.text_form import ISO, CsvForm, TextForm
from kanonflow.schemas.tree import Tree

OF_COHORTS = ("person", "cohort", "forgotten")
"""Columns of the files in restricted/cohorts beside the quasi-identifiers."""
FAULT_COLUMN = "__quasi_fault"
"""Of lasting cohorts, the column of canonical rows that says what was wrong with quasi-identifiers (``quasi_faults``).

It travels with the rows and is part of what tells them apart. It is never published. No field has its name."""


@dataclass(frozen=True)
class BoundColumn:
    """A field that is kept, and its canonical type.

    from_text: whether its values arrive as text and are cast.
    domain: of a quasi-identifier in ranges, the declared domain in the units of its values (of doubles floats, else
    ints).
    form: how its cells are written where they are text (schemas/text_inputs.py).
    exact: of payload that a grid makes coarse (schemas/payload_grids.py), the column as its cells are read; None: they
        stay as they are read.
    own_type: the canonical type that its values have before they are cast to ``arrow_type`` (schemas/typed_values.py);
        None: there is no such cast.
    """

    field: Field
    arrow_type: pa.DataType
    from_text: bool
    domain: Ends | None = None
    form: TextForm = ISO
    own_type: pa.DataType | None = None
    exact: BoundColumn | None = None

    @property
    def as_read(self) -> BoundColumn:
        """The column as its cells are read."""
        return self.exact or self

    @property
    def source(self) -> str:
        """The name of the input's column that its cells come from."""
        return self.field.column

    @property
    def clocks(self) -> str | None:
        """The time zone by which parts of its times are told; None: UTC."""
        return self.field.timezone or self.as_read.form.timezone

    @cached_property
    def name(self) -> str:
        """The field's name in the input and in the policy."""
        return self.field.name

    @cached_property
    def published_name(self) -> str:
        """The field's name in releases: a valid Avro name."""
        return avro_name(self.field.name)

    @cached_property
    def values(self) -> Form:
        """What its values know of themselves."""
        return form_of(self.arrow_type)

    @property
    def generalized(self) -> Kind | None:
        """The kind of a quasi-identifier; None: it is none."""
        return None if self.field.quasi is None else KINDS[self.field.quasi.type]

    @property
    def weight(self) -> float:
        """Of a quasi-identifier, in the information loss."""
        return 1.0 if self.field.quasi is None else self.field.quasi.weight

    @cached_property
    def scale(self) -> Scale:
        """By which the width of a quasi-identifier's box counts as loss."""
        return LINEAR if self.field.quasi is None else scale_of(self.field.quasi, self.values.scale or 0)

    @property
    def in_ranges(self) -> bool:
        """Whether it is generalized to ranges."""
        return self.generalized is not None and self.generalized.in_ranges

    @property
    def text_type(self) -> pa.DataType:
        """What a cell of text is read as: the canonical type, or an instant of which the canonical type keeps the
        day."""
        return MILLISECONDS if self._keeps_days_of_instants else self.arrow_type

    @property
    def _keeps_days_of_instants(self) -> bool:
        return self.values.per_day == 1 and self.field.value not in (None, self.values.value)

    @property
    def tree(self) -> Tree | None:
        """The tree whose nodes a quasi-identifier's boxes are; None: they are none."""
        quasi = self.field.quasi
        return None if quasi is None else KINDS[quasi.type].tree(quasi)

    def unlisted(self, values: pa.Array) -> NDArray[np.bool_] | None:
        """Which values are none that a quasi-identifier's domain has as text, bool (n,); None: it has no texts."""
        quasi, kind = self.field.quasi, self.generalized
        if quasi is None or kind is None or not kind.has_texts(quasi):
            return None
        return kind.unlisted(quasi, self.values.texts(values))

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The declared values of a categorical quasi-identifier, or its hierarchy's leaves, as canonical text; None if
        undeclared."""
        quasi = self.field.quasi
        return None if quasi is None else KINDS[quasi.type].categories(quasi)


@dataclass(frozen=True)
class BoundPolicy:
    """A policy that fits an input. ``columns``: the fields that are kept, in the policy's order (identifiers
    and dropped fields are not among them). ``text``: whether every column arrives as text; ``csv``: whether as cells of
    CSV files."""

    policy: Policy
    columns: tuple[BoundColumn, ...]
    text: bool
    csv: bool = False

    @cached_property
    def canonical_schema(self) -> pa.Schema:
        """Names and canonical types of the kept fields, of lasting cohorts FAULT_COLUMN last; every field nullable."""
        fields = [pa.field(column.name, column.arrow_type) for column in self.columns]
        if self.policy.read_once:
            fields.append(pa.field(FAULT_COLUMN, pa.string()))
        return pa.schema(fields)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The columns to read from the input."""
        return tuple(column.name for column in self.columns if column.source == column.name)

    def place(self, name: str) -> int:
        """The place of the kept column of that name. Raises ValueError."""
        return [column.name for column in self.columns].index(name)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """Names of the fields that are read once of an individual, when it enters: of lasting cohorts the
        quasi-identifiers, else none. A cell of one that is no value is handed on (schemas/text_inputs.py)."""
        return frozenset(field.name for field in self.policy.read_once)

    @cached_property
    def quasis(self) -> tuple[BoundColumn, ...]:
        """The quasi-identifiers, in the policy's order."""
        return tuple(column for column in self.columns if column.field.quasi is not None)

    @cached_property
    def payload(self) -> tuple[BoundColumn, ...]:
        """What is published as it is, in the release's order: partition and split fields first, then the policy's."""
        payload = [column for column in self.columns if column.field.role in PAYLOAD]
        first = [self.column(name) for name in self.policy.release_by]
        return (*first, *(column for column in payload if column.name not in self.policy.release_by))

    def column(self, name: str) -> BoundColumn:
        """The kept column of that name. Raises KeyError."""
        return {column.name: column for column in self.columns}[name]


def bind(
    policy: Policy, input_schema: pa.Schema, *, text: bool, source: str, csv: bool = False
) -> BoundPolicy:
    """The policy bound to an input.

    input_schema: the input's columns; with ``text`` only their names count (CSV, JSON).
    csv: whether cells of text are those of CSV files, which the policy's ``csv`` is about.
    source: what an error calls the input.

    In a typed input, columns of text are read as text is. Others are cast where a field's ``as`` says another type than
    theirs (schemas/typed_values.py); an instant keeps its unit.
    Raises PolicyError with everything that does not fit: missing fields, fields without a role, types.
    """
    mistakes = list(_name_mistakes(policy, input_schema.names))
    columns = _bind_columns(policy.fields, input_schema, policy.csv if csv else None, mistakes, text=text)
    mistakes += _published_name_mistakes(policy)
    if mistakes:
        raise PolicyError(mistakes, f"{policy.name} does not fit {source}")
    return BoundPolicy(policy, columns, text, csv)


def bind_columns(
    fields: Sequence[Field], schema: pa.Schema, form: CsvForm | None, *, text: bool
) -> tuple[BoundColumn, ...]:
    """Some fields bound to the columns of another file than the feed. form: as of a CSV file; None: it is none.

    Fields that the file does not have are left out. Raises PolicyError with everything that does not fit.
    """
    mistakes: list[str] = []
    columns = _bind_columns(fields, schema, form, mistakes, text=text)
    if mistakes:
        raise PolicyError(mistakes)
    return columns


def _bind_columns(
    fields: Sequence[Field], schema: pa.Schema, form: CsvForm | None, mistakes: list[str], *, text: bool
) -> tuple[BoundColumn, ...]:
    columns = []
    for field in fields:
        if field.column not in schema.names or field.role is Role.IDENTIFIER:
            continue
        arrow = pa.string() if text else schema.types[schema.names.index(field.column)]
        read = next((each for each in fields if each.name == field.source), field)
        if column := _bind_column(read, arrow, text, mistakes if read is field else []):
            column = replace(column, form=_form(read, form))
            columns.append(_coarse(field, column, arrow, mistakes) if grid_keys(field) else column)
    return tuple(columns)


def _coarse(field: Field, read: BoundColumn, arrow: pa.DataType, mistakes: list[str]) -> BoundColumn:
    """The column of a field with a grid. read: the column as its cells are read; arrow: their type in the input."""
    where, kind = f"fields.{field.name}", published_type(field, read.arrow_type)
    mistakes += misfits_of_grid(where, field, read.values)
    if form_of(arrow).per_day == 1 and field.part_of_time not in (None, PartOfTime.WEEKDAY):
        mistakes.append(f"{where}.as: {field.value} needs times, and the column has days; say weekday")
    mistakes += no_order(field, kind)
    return BoundColumn(field, kind, read.from_text, form=read.form, exact=read)


def _form(field: Field, csv: CsvForm | None) -> TextForm:
    csv = csv or CsvForm()
    return TextForm(csv.decimal, csv.thousands, csv.nulls, field.format, field.timezone, field.fold)


def _name_mistakes(policy: Policy, names: list[str]) -> Iterator[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        yield f"the input has several columns of the name {', '.join(repeated)}"
    declared = {field.name for field in policy.fields}
    for field in policy.fields:
        if field.source is not None and field.name in names:
            yield f"fields.{field.name}.from: the input has a column of this name itself; give the field another"
    missing = [field.name for field in policy.fields if field.column not in names]
    if missing:
        yield f"fields that the input does not have: {', '.join(missing)}; correct or remove them"
    unnamed = [name for name in dict.fromkeys(names) if name not in declared]
    if unnamed and policy.others is Others.REFUSE:
        yield f"input fields without a role: {', '.join(unnamed)}; give each a role, or say others: drop"


def _published_name_mistakes(policy: Policy) -> Iterator[str]:
    published = {field.name for field in (*policy.quasis, *policy.payload)}
    reserved = (*RESERVED, *policy.promise.group_columns)
    taken: dict[str, str] = dict.fromkeys(reserved, "the release itself")
    for field in policy.read_once:
        if avro_name(field.name) in OF_COHORTS:
            yield (
                f"fields.{field.name}: restricted/cohorts has a column {avro_name(field.name)} of its own beside the "
                "quasi-identifiers; rename the field in the input, or say cohort: window"
            )
    for name in sorted(published):
        published_name = avro_name(name)
        if published_name in taken:
            yield (
                f"fields.{name}: would be published as {published_name}, like {taken[published_name]}; "
                "rename it in the input"
            )
        taken[published_name] = name


def _bind_column(field: Field, arrow: pa.DataType, text: bool, mistakes: list[str]) -> BoundColumn | None:
    where = f"fields.{field.name}"
    formatted = field.format is not None
    declared = None if field.value is None else form_of(type_of_text(field))
    from_text = (
        text
        or arrow == pa.null()
        or (form_of(arrow).text and (formatted or not (declared is None or declared.text)))
        or (formatted and form_of(arrow).spelled)
    )
    canonical = type_of_text(field) if from_text else canonical_type(field, arrow)
    if canonical is None:
        mistakes.append(f"{where}: columns of type {arrow} are not supported; give it role: identifier")
        return None
    own = None
    if not from_text and declared is not None and not form_of(canonical).keeps_own_unit(declared):
        if not form_of(canonical).becomes(declared):
            mistakes.append(f"{where}.as: {_no_cast(field, arrow)}")
            return None
        own = canonical if declared.casts and declared.arrow != canonical else None
        canonical = declared.arrow
    problem = misfit(field, canonical)
    if problem is not None:
        mistakes.append(f"{where}: is {'text' if from_text else arrow} in the input, but {problem}")
        return None
    mistakes += () if grid_keys(field) else no_order(field, canonical)
    domain = None
    if field.quasi is not None:
        domain = KINDS[field.quasi.type].ends(where, field.quasi, form_of(canonical), mistakes)
    return BoundColumn(field, canonical, from_text, domain, own_type=own)


def _no_cast(field: Field, arrow: pa.DataType) -> str:
    if form_of(type_of_text(field)).per_day is not None and form_of(arrow).spelled:
        return (
            f"{arrow} in the input; say how the numbers spell it, as in format: epoch_s or format: '%Y%m%d'"
        )
    return f"{arrow} in the input cannot be read as {field.value}; leave it out, or give another type"
