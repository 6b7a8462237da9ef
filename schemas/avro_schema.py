"""Avro schemas: from and to Arrow, of releases; packaged ones of metrics, rejected rows and the like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import pyarrow as pa

from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.payload_grids import grid_property
from kanonflow.schemas.printable import spellable
from kanonflow.schemas.published_member import PUBLISHED

PROPERTY = "kanonflow"
RELEASE_DOC = (
    "A k-anonymized release. Each quasi-identifier is the hull of the values of all members of a row's class "
    "or slot: a range (closed; nulls: a member had no value) or the set of values; the rest is published "
    "as it is."
)

_TO_ARROW: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): MILLISECONDS,
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("string", "uuid"): pa.uuid(),
}
MOST_DIGITS = 76
"""Precision of the widest decimals that Arrow has."""


def avro_to_arrow(schema: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema of an Avro record schema; logical types are kept, enums are text, fixed is bytes.

    Nested types become nested Arrow types, which ``bind`` refuses where a policy keeps them.
    Raises InputError, naming the field, when the schema is not a record or cannot be read.
    """
    if (
        not isinstance(schema, Mapping)
        or schema.get("type") != "record"
        or not isinstance(schema.get("fields"), list)
    ):
        raise InputError("the Avro schema is not a record; every row must be one")
    named: dict[str, pa.DataType | None] = {}
    fields: list[pa.Field] = []
    for field in schema["fields"]:
        if not (isinstance(field, Mapping) and isinstance(field.get("name"), str)):
            raise InputError("a field of the Avro schema has no name")
        if not spellable(field["name"]):
            raise InputError(f"field {field['name']}: its name in the Avro schema holds half of a character")
        if any(field["name"] == other.name for other in fields):
            raise InputError(f"field {field['name']}: is in the Avro schema twice")
        try:
            arrow, nullable = _nullable_arrow(field["type"], named, str(schema.get("namespace", "")))
        except InputError as error:
            raise InputError(f"field {field.get('name')}: {error}") from error
        except (
            KeyError,
            TypeError,
            AttributeError,
            ValueError,
            OverflowError,
            RecursionError,
            pa.ArrowException,
        ) as error:
            raise InputError(f"field {field.get('name')}: its Avro type is not valid") from error
        fields.append(pa.field(field["name"], arrow, nullable=nullable))
    return pa.schema(fields)


def arrow_to_avro(schema: pa.Schema, name: str, doc: str = "") -> dict[str, Any]:
    """The Avro record schema of an Arrow schema of canonical types, and lists and structs of them.

    Nullable fields become unions with null, null first. Raises InputError for a type Avro has no place for.
    """
    fields = [
        {"name": avro_name(field.name), "type": _avro_field(field, f"{avro_name(field.name)}_range")}
        for field in schema
    ]
    return {"type": "record", "name": avro_name(name), "namespace": PROPERTY, "doc": doc, "fields": fields}


def release_arrow_schema(bound: BoundPolicy) -> pa.Schema:
    """The Arrow schema of a release's rows, under published names.

    release_id; window_start, window_end (timestamp ms UTC, nullable without windows); with ``cohort: lasting``
    class_id (long), an opaque number of the rows that share a box, new in every release, and with ``publish_group`` the
    id of the group, 16 hex digits, and how many people it has; the quasi-identifiers
    in the policy's order, numeric and date as struct<min, max, nulls>, categorical as list of values (a null
    among them is a null element), hierarchy as the label of a node (null: all values are null; the root's label stands
    for nulls too); then the payload as ``bound.payload`` orders it, in its own types; last, with ``publish_member``,
    the number of the row's person, 16 hex digits: as a whole number readers of JSON would lose its last digits.
    """
    windowless = bound.policy.time is None
    numbered = [pa.field(name, pa.int64(), nullable=False) for name in bound.policy.promise.group_columns]
    if (group := bound.policy.publish_group) is not None:
        types = (pa.string(), pa.int64())
        numbered += [
            pa.field(name, kind, nullable=False) for name, kind in zip(group.columns, types, strict=False)
        ]
    fields = [
        pa.field("release_id", pa.string(), nullable=False),
        pa.field("window_start", MILLISECONDS, nullable=windowless),
        pa.field("window_end", MILLISECONDS, nullable=windowless),
        *numbered,
    ]
    fields += [_generalized(column) for column in bound.quasis]
    fields += [pa.field(column.published_name, column.arrow_type) for column in bound.payload]
    if (member := bound.policy.publish_member) is not None:
        fields.append(pa.field(member.name, pa.string(), nullable=False))
    return pa.schema(fields)


def release_avro_schema(bound: BoundPolicy, epoch: int | None = None) -> dict[str, Any]:
    """The Avro schema of a release's rows: that of ``release_arrow_schema``, with a property ``kanonflow`` on
    each field that names the input's field and, for quasi-identifiers, how they were generalized.

    epoch: with ``cohort: lasting``, of the promise, which then stands among the properties; None where only the types
    of the rows matter."""
    schema = arrow_to_avro(release_arrow_schema(bound), "Release", RELEASE_DOC)
    schema[PROPERTY] = {
        "k": bound.policy.k,
        "protect": str(bound.policy.protect),
        "policy": bound.policy.name,
    }
    if bound.policy.against is not None:
        schema[PROPERTY]["against"] = bound.policy.against.in_a_line(bound.policy.k)
    for key, each in bound.policy.followed_by.items():
        schema[PROPERTY][key] = each.words
    if bound.policy.publish_member is not None:
        schema["fields"][-1][PROPERTY] = {"role": "member", "published": PUBLISHED}
    if bound.policy.values_told is not None:
        schema[PROPERTY]["values"] = bound.policy.values_told
    if bound.policy.promise.epochs and epoch is not None:
        schema[PROPERTY]["epoch"] = epoch_text(epoch)
    columns = {column.published_name: column for column in (*bound.quasis, *bound.payload)}
    group = {} if bound.policy.publish_group is None else bound.policy.publish_group.columns
    for field in schema["fields"]:
        if field["name"] in columns:
            field[PROPERTY] = _field_property(columns[field["name"]])
        elif field["name"] in group:
            field[PROPERTY] = {"role": "group", "published": group[field["name"]]}
    return schema


def epoch_text(epoch: int) -> str:
    """How an epoch is written wherever it stands: 16 hex digits."""
    return f"{epoch:016x}"


def metrics_schema() -> dict[str, Any]:
    """The Avro schema of a release's metrics."""
    return _packaged("metrics.avsc")


def metrics_defaults(*, of_a_release: bool = False) -> dict[str, Any]:
    """What a window without a release says in its metrics: the fields of metrics.avsc that have a default, and it.

    of_a_release: only those that say something of what was published.
    """
    return {
        field["name"]: field["default"]
        for field in metrics_schema()["fields"]
        if "default" in field and (not of_a_release or field.get("of") == "release")
    }


def rejected_schema() -> dict[str, Any]:
    """The Avro schema of rejected rows."""
    return _packaged("rejected.avsc")


def matching_record_schema() -> dict[str, Any]:
    """The Avro schema of a release's matching record."""
    return _packaged("matching_record.avsc")


def transaction_schema() -> dict[str, Any]:
    """The Avro schema of card and bank transactions; its custom properties hold a policy for them."""
    return _packaged("transaction.avsc")


def _packaged(name: str) -> dict[str, Any]:
    return json.loads(resources.files("kanonflow.schemas").joinpath(name).read_text(encoding="utf-8"))


def _generalized(column: BoundColumn) -> pa.Field:
    assert column.generalized is not None
    return column.generalized.published(column.published_name, column.arrow_type)


def _field_property(column: BoundColumn) -> dict[str, Any]:
    quasi = column.field.quasi
    if quasi is None:
        own = {"field": column.name, "role": str(column.field.role)}
        return own | grid_property(column.field, column.clocks)
    assert column.generalized is not None
    quasi_property: dict[str, Any] = {"field": column.name, "role": "quasi", "type": str(quasi.type)}
    quasi_property |= column.generalized.told(quasi)
    if quasi.domain is not None:
        quasi_property["domain"] = [str(value) for value in quasi.domain]
    return quasi_property


def _avro_field(field: pa.Field, type_name: str) -> Any:
    avro = _avro_type(field.type, type_name)
    return ["null", avro] if field.nullable else avro


def _avro_type(arrow: pa.DataType, type_name: str) -> Any:
    if isinstance(arrow, pa.ListType):
        return {"type": "array", "items": _avro_field(arrow.value_field, type_name)}
    if isinstance(arrow, pa.StructType):
        fields = [
            {"name": part.name, "type": _avro_field(part, f"{type_name}_{part.name}")} for part in arrow
        ]
        return {"type": "record", "name": type_name, "fields": fields}
    if (avro := form_of(arrow).avro) is None:
        raise InputError(f"Avro has no place for columns of type {arrow}")
    return avro


def _nullable_arrow(avro: Any, named: dict[str, pa.DataType | None], space: str) -> tuple[pa.DataType, bool]:
    """The Arrow type, and whether values may be null. ``named``: types defined so far (None: still open)."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if not branches:
            return pa.null(), True
        kinds = [_arrow_type(branch, named, space) for branch in branches]
        if len(kinds) > 1:
            kind = pa.dense_union([pa.field(str(number), kind) for number, kind in enumerate(kinds)])
            return kind, True
        return kinds[0], len(branches) < len(avro)
    arrow = _arrow_type(avro, named, space)
    return arrow, arrow == pa.null()


def _arrow_type(avro: Any, named: dict[str, pa.DataType | None], space: str) -> pa.DataType:
    if isinstance(avro, list):
        return _nullable_arrow(avro, named, space)[0]
    if isinstance(avro, str):
        if avro in _TO_ARROW:
            return _TO_ARROW[avro]
        definition = named.get(avro) or named.get(f"{space}.{avro}")
        if definition is None:
            raise InputError("its Avro type is recursive or not defined")
        return definition
    kind = avro["type"]
    if not isinstance(kind, str):
        return _arrow_type(kind, named, space)
    if kind in ("record", "enum", "fixed", "error"):
        return _named_type(avro, named, space)
    if kind == "array":
        return pa.list_(_arrow_type(avro["items"], named, space))
    if kind == "map":
        return pa.map_(pa.string(), _arrow_type(avro["values"], named, space))
    logical = avro.get("logicalType")
    if logical == "decimal" and kind == "bytes":
        return _decimal(avro)
    return _LOGICAL.get((kind, logical)) or _arrow_type(kind, named, space)


def _named_type(avro: Mapping[str, Any], named: dict[str, pa.DataType | None], space: str) -> pa.DataType:
    own_space = str(avro.get("namespace", space))
    name = str(avro["name"])
    names = {name, f"{own_space}.{name}"}
    named.update(dict.fromkeys(names))
    if avro["type"] == "enum":
        arrow = pa.string()
    elif avro["type"] == "fixed":
        arrow = pa.binary()
        if avro.get("logicalType") == "decimal":
            arrow = _decimal(avro)
        elif avro.get("logicalType") == "uuid" and avro.get("size") == 16:
            arrow = pa.uuid()
    else:
        parts = [(part["name"], _arrow_type(part["type"], named, own_space)) for part in avro["fields"]]
        arrow = pa.struct(parts)
    named.update(dict.fromkeys(names, arrow))
    return arrow


def _decimal(avro: Mapping[str, Any]) -> pa.DataType:
    precision = int(avro["precision"])
    if not 1 <= precision <= MOST_DIGITS:
        raise InputError(f"its decimals must have a precision of 1 to {MOST_DIGITS} digits")
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, int(avro.get("scale", 0)))
