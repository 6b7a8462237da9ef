"""What the columns of a release are, read from the schema that every release carries."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from kanonflow.schemas.avro_schema import PROPERTY, avro_to_arrow
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.prefix_tree import PrefixOf, PrefixTree
from kanonflow.schemas.published_member import PUBLISHED

WINDOW = ("window_start", "window_end")
_EPOCH_NAMES = ("epoch", "release_epoch", "kanonflow_epoch")


class Kind(StrEnum):
    """What a column's cells are: a range with a flag for nulls, a set of values, a label of a hierarchy, a value by
    itself, or what the release says of itself."""

    RANGE = "range"
    SET = "set"
    LABEL = "label"
    EXACT = "exact"
    OWN = "own"


@dataclass(frozen=True)
class ReleasedField:
    """One column. value: the type of a single value: of a range its ends, of a set its members.

    domain: the declared one, as text; ends first and last. coded: whether its ends mean "this or beyond".
    tree: of labels, what makes them, where the release says it. coarse: of values, what the policy's grid made of them,
    in words; "": they are as they were. scale: by what the policy counts widths as loss; "": by difference."""

    name: str
    kind: Kind
    value: pa.DataType
    domain: tuple[str, ...] | None = None
    coded: bool = False
    tree: PrefixTree | None = None
    coarse: str = ""
    scale: str = dataclasses.field(default="", compare=False)  # it changes nothing of what boxes mean

    @property
    def of_members(self) -> bool:
        """Whether it is the policy's ``publish_member``: a number a person."""
        return self.coarse == PUBLISHED


@dataclass(frozen=True)
class ReleaseForm:
    """The form of releases. arrow: their nested columns. fields: in their order. k: of the policy.

    lasting: whether it names an epoch, which is the promise's of cohorts that last. epoch: the column for it, which
    no field of the release has; None where there is none. single_rows: whether the promise is about rows, and not
    people."""

    arrow: pa.Schema
    fields: tuple[ReleasedField, ...]
    k: int
    policy: str
    epoch: str | None = None
    single_rows: bool = False

    def field(self, name: str) -> ReleasedField:
        """The column of that name. Raises InputError that lists the columns."""
        for field in self.fields:
            if field.name == name:
                return field
        raise InputError(f"the release has no field {name}; it has {', '.join(f.name for f in self.fields)}")


def release_form(schema: Mapping[str, Any], *, with_epoch: bool = True) -> ReleaseForm:
    """The form that an Avro schema of a release says (``schemas.avro_schema.release_avro_schema``).

    with_epoch: add a column for the epoch after ``release_id`` where the schema names one.
    Raises InputError: it is no release's.
    """
    told = schema.get(PROPERTY) if isinstance(schema, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(told.get("k"), int):
        raise InputError("is no release of kanonflow: its schema does not say k")
    arrow = avro_to_arrow(schema)
    fields = list(_fields(schema, arrow))
    names = {field.name for field in fields}
    missing = [name for name in ("release_id", *WINDOW) if name not in names]
    if missing:
        raise InputError(f"is no release of kanonflow: it has no {', '.join(missing)}")
    epoch = None
    if with_epoch and told.get("epoch") is not None:
        epoch = free_name(_EPOCH_NAMES, names)
        fields.insert(1, ReleasedField(epoch, Kind.OWN, pa.string()))
        arrow = arrow.insert(1, pa.field(epoch, pa.string()))
    single = told.get("protect") == "row"
    return ReleaseForm(arrow, tuple(fields), int(told["k"]), str(told.get("policy", "")), epoch, single)


def free_name(names: tuple[str, ...], taken: Collection[str]) -> str:
    """The first of some names that is not taken. Raises InputError: all of them are."""
    for name in names:
        if name not in taken:
            return name
    raise InputError(f"the release has fields of all the names {', '.join(names)}")


def _fields(schema: Mapping[str, Any], arrow: pa.Schema) -> Iterator[ReleasedField]:
    for told, field in zip(schema["fields"], arrow, strict=True):
        own = told.get(PROPERTY)
        if not isinstance(own, Mapping):
            yield ReleasedField(field.name, Kind.OWN, field.type)
        elif own.get("role") != "quasi":
            yield ReleasedField(field.name, Kind.EXACT, field.type, coarse=str(own.get("published") or ""))
        else:
            of_shape = _SHAPES.get(field.type.id, _label)
            yield _TOLD.get(str(own.get("type")), of_shape)(field, own)


def _range(field: pa.Field, own: Mapping[str, Any]) -> ReleasedField:
    domain = own.get("domain")
    ends = None if not domain else (str(domain[0]), str(domain[-1]))
    coded = ends is not None and own.get("outside") == "code"
    return ReleasedField(
        field.name, Kind.RANGE, field.type.field("min").type, ends, coded, scale=str(own.get("scale", ""))
    )


def _set(field: pa.Field, own: Mapping[str, Any]) -> ReleasedField:
    return ReleasedField(field.name, Kind.SET, field.type.value_type)


def _label(field: pa.Field, own: Mapping[str, Any]) -> ReleasedField:
    return ReleasedField(field.name, Kind.LABEL, field.type)


def _prefix(field: pa.Field, own: Mapping[str, Any]) -> ReleasedField:
    try:
        size = own.get("size")
        tree = PrefixTree(
            PrefixOf(own["of"]), tuple(map(int, own["lengths"])), None if size is None else int(size)
        )
    except (KeyError, TypeError, ValueError):
        raise InputError(f"field {field.name}: its schema does not say how its prefixes are made") from None
    return ReleasedField(field.name, Kind.LABEL, field.type, tree=tree)


_SHAPES = {pa.lib.Type_STRUCT: _range, pa.lib.Type_LIST: _set}
"""By the type of the column."""
_TOLD = {"prefix": _prefix}
"""By the type that a release's schema tells, where it tells more than the column."""
