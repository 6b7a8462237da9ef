"""A policy bound to the schema of an input: which columns are read, and what type each of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.canonical_types import (
    MILLISECONDS,
    can_become,
    canonical_type,
    grid_kind,
    is_text,
    misfit,
    type_of_text,
)
from kanonflow.schemas.diversity_declaration import no_order
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy import Others, Policy
from kanonflow.schemas.policy_fields import Domain, Field, Quasi, QuasiType, Role
from kanonflow.schemas.policy_rules import RESERVED
from kanonflow.schemas.text_form import ISO, CsvForm, TextForm

OF_COHORTS = ("person", "cohort", "forgotten")
"""Columns of the files in restricted/cohorts beside the quasi-identifiers."""
_EPOCH = date(1970, 1, 1)
_DAY_MS = 86_400_000
Ends = tuple[int, int] | tuple[float, float]
FAULT_COLUMN = "__quasi_fault"
"""Of lasting cohorts, the column of canonical rows that says what was wrong with quasi-identifiers (``quasi_faults``).

It travels with the rows and is part of what tells them apart. It is never published. No field has its name."""


@dataclass(frozen=True)
class BoundColumn:
    """A field that is kept, and its canonical type.

    from_text: whether its values arrive as text and are cast.
    kind: of a numeric or date quasi-identifier, what ``grid.snap_outward`` calls its values; else None.
    domain: of those, the declared domain in the units of ``kind`` (for "float" floats, else ints).
    form: how its cells are written where they are text (schemas/text_inputs.py).
    own_type: the canonical type that its values have before they are cast to ``arrow_type`` (schemas/typed_values.py);
        None: there is no such cast.
    """

    field: Field
    arrow_type: pa.DataType
    from_text: bool
    kind: str | None = None
    domain: Ends | None = None
    form: TextForm = ISO
    own_type: pa.DataType | None = None

    @property
    def name(self) -> str:
        """The field's name in the input and in the policy."""
        return self.field.name

    @property
    def published_name(self) -> str:
        """The field's name in releases: a valid Avro name."""
        return avro_name(self.field.name)

    @property
    def text_type(self) -> pa.DataType:
        """What a cell of text is read as: the canonical type, or an instant of which the canonical type keeps the
        day."""
        instant = self.field.value == "timestamp" and pa.types.is_date(self.arrow_type)
        return MILLISECONDS if instant else self.arrow_type

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The hierarchy of a quasi-identifier that has one."""
        return None if self.field.quasi is None else self.field.quasi.hierarchy

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The declared values of a categorical quasi-identifier, or its hierarchy's leaves, as canonical text; None if
        undeclared."""
        quasi = self.field.quasi
        if quasi is not None and quasi.hierarchy is not None:
            return quasi.hierarchy.leaves
        if quasi is None or quasi.type is not QuasiType.CATEGORICAL or quasi.domain is None:
            return None
        return tuple(str(value) for value in quasi.domain)


@dataclass(frozen=True)
class BoundPolicy:
    """A policy that fits an input. ``columns``: the fields that are kept, in the policy's order (identifiers
    and dropped fields are not among them). ``text``: whether every column arrives as text; ``csv``: whether as cells of
    CSV files."""

    policy: Policy
    columns: tuple[BoundColumn, ...]
    text: bool
    csv: bool = False

    @property
    def canonical_schema(self) -> pa.Schema:
        """Names and canonical types of the kept fields, of lasting cohorts FAULT_COLUMN last; every field nullable."""
        fields = [pa.field(column.name, column.arrow_type) for column in self.columns]
        if self.policy.read_once:
            fields.append(pa.field(FAULT_COLUMN, pa.string()))
        return pa.schema(fields)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The columns to read from the input."""
        return tuple(column.name for column in self.columns)

    @property
    def attributes(self) -> frozenset[str]:
        """Names of the fields that are read once of an individual, when it enters: of lasting cohorts the
        quasi-identifiers, else none. A cell of one that is no value is handed on (schemas/text_inputs.py)."""
        return frozenset(field.name for field in self.policy.read_once)

    @property
    def quasis(self) -> tuple[BoundColumn, ...]:
        """The quasi-identifiers, in the policy's order."""
        return tuple(column for column in self.columns if column.field.quasi is not None)

    @property
    def payload(self) -> tuple[BoundColumn, ...]:
        """What is published as it is, in the release's order: partition fields first, then the policy's."""
        payload = [
            column for column in self.columns if column.field.role in (Role.SENSITIVE, Role.INSENSITIVE)
        ]
        first = [self.column(name) for name in self.policy.partition_by]
        return (*first, *(column for column in payload if column.name not in self.policy.partition_by))

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
    columns = []
    for field in policy.fields:
        if field.name not in input_schema.names or field.role is Role.IDENTIFIER:
            continue
        arrow = pa.string() if text else input_schema.types[input_schema.names.index(field.name)]
        if column := _bind_column(field, arrow, text, mistakes):
            columns.append(replace(column, form=_form(field, policy.csv if csv else None)))
    mistakes += _published_name_mistakes(policy)
    if mistakes:
        raise PolicyError(mistakes, f"{policy.name} does not fit {source}")
    return BoundPolicy(policy, tuple(columns), text, csv)


def _form(field: Field, csv: CsvForm | None) -> TextForm:
    csv = csv or CsvForm()
    return TextForm(csv.decimal, csv.thousands, csv.nulls, field.format, field.timezone, field.fold)


def _name_mistakes(policy: Policy, names: list[str]) -> Iterator[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        yield f"the input has several columns of the name {', '.join(repeated)}"
    declared = {field.name for field in policy.fields}
    missing = [field.name for field in policy.fields if field.name not in names]
    if missing:
        yield f"fields that the input does not have: {', '.join(missing)}; correct or remove them"
    unnamed = [name for name in dict.fromkeys(names) if name not in declared]
    if unnamed and policy.others is Others.REFUSE:
        yield f"input fields without a role: {', '.join(unnamed)}; give each a role, or say others: drop"


def _published_name_mistakes(policy: Policy) -> Iterator[str]:
    published = {field.name for field in (*policy.quasis, *policy.payload)}
    reserved = (*RESERVED, *policy.group_columns)
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
    from_text = (
        text
        or pa.types.is_null(arrow)
        or (is_text(arrow) and (field.value not in (None, "string") or field.format is not None))
        or (pa.types.is_integer(arrow) and field.format is not None)
    )
    canonical = type_of_text(field) if from_text else canonical_type(field, arrow)
    if canonical is None:
        mistakes.append(f"{where}: columns of type {arrow} are not supported; give it role: identifier")
        return None
    own = None
    if (
        not from_text
        and field.value is not None
        and not _both_instants(canonical, declared := type_of_text(field))
    ):
        if not can_become(canonical, declared):
            mistakes.append(f"{where}.as: {_no_cast(field, arrow)}")
            return None
        own, canonical = canonical, declared
        if own == canonical or pa.types.is_date(canonical) or pa.types.is_timestamp(canonical):
            own = None  # the same, or days and instants, which need no cast of their own
    problem = misfit(field, canonical)
    if problem is not None:
        mistakes.append(f"{where}: is {'text' if from_text else arrow} in the input, but {problem}")
        return None
    quasi = field.quasi
    mistakes += no_order(field, canonical)
    if quasi is None or quasi.type in (QuasiType.CATEGORICAL, QuasiType.HIERARCHY):
        return BoundColumn(field, canonical, from_text, own_type=own)
    kind = grid_kind(canonical)
    assert kind is not None  # misfit() has seen to it
    mistakes += _grid_mistakes(where, quasi, kind)
    ends = _ends(where, quasi.domain, kind, mistakes)
    return BoundColumn(field, canonical, from_text, kind, ends, own_type=own)


def _both_instants(own: pa.DataType, declared: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(own) and pa.types.is_timestamp(declared))


def _no_cast(field: Field, arrow: pa.DataType) -> str:
    if field.value in ("date", "timestamp") and pa.types.is_integer(arrow):
        return (
            f"{arrow} in the input; say how the numbers spell it, as in format: epoch_s or format: '%Y%m%d'"
        )
    return f"{arrow} in the input cannot be read as {field.value}; leave it out, or give another type"


def _grid_mistakes(where: str, quasi: Quasi, kind: str) -> Iterator[str]:
    if kind == "date" and quasi.grid in ("second", "minute", "hour"):
        yield f"{where}.grid: {quasi.grid} is finer than the days this field has"
    if isinstance(quasi.grid, Decimal) and kind != "float":
        step = Fraction(quasi.grid) * 10 ** _scale(kind)
        if step.denominator != 1 or step >= 2**62:
            yield f"{where}.grid: the field's type {kind} cannot hold multiples of it"


def _ends(where: str, domain: Domain | None, kind: str, mistakes: list[str]) -> Ends | None:
    """A declared domain in the units of ``kind``; for instants, a last date means its whole day."""
    if domain is None:
        return None
    low, high = domain[0], domain[-1]
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        if kind == "float":
            return float(low), float(high)
        units = [Fraction(end) * 10 ** _scale(kind) for end in (low, high)]
        if all(end.denominator == 1 and abs(end) < 2**63 for end in units):
            return int(units[0]), int(units[1])
        mistakes.append(f"{where}.domain: the field's type {kind} cannot hold its ends")
    elif isinstance(low, datetime) and isinstance(high, datetime):
        if kind == "timestamp":
            return _milliseconds(low), _milliseconds(high)
        mistakes.append(f"{where}.domain: the field has days; give two dates without a time")
    elif isinstance(low, date) and isinstance(high, date):
        first, last = (low - _EPOCH).days, (high - _EPOCH).days
        return (first, last) if kind == "date" else (first * _DAY_MS, (last + 1) * _DAY_MS - 1)
    return None


def _scale(kind: str) -> int:
    return int(kind[len("decimal(") : -1]) if kind.startswith("decimal") else 0


def _milliseconds(instant: datetime) -> int:
    since = instant - datetime.combine(_EPOCH, time(), UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
