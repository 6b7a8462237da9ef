"""Drafting a policy for an input: every field listed, none classified."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import yaml

from kanonflow.schemas.canonical_types import canonical_type
from kanonflow.schemas.field_declaration import UNCLASSIFIED
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.policy_rules import NAME

_VALUES = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.date32(): "date",
}

_HEAD = """\
# A draft: give every field a role. Until then the policy is refused, with a list of what is left to do.
#   individual   whom a row belongs to; never published (at most one field)
#   identifier   dropped
#   quasi        generalized; also say  type: numeric | date | categorical  and, if you know it, a domain
#   sensitive, insensitive   published as they are
#   time         event time, for windows (at most one field); then give a window
#   event_id     recognizes repeats of an at-least-once source; dropped
version: 1
name: {name}
k: 5
# window: 1d
# max_delay: 2d
fields:
"""


def draft_policy(schema: pa.Schema, name: str) -> str:
    """YAML of a policy with the columns of ``schema``, each with ``role: "?"`` and the type of its values.

    Characters of ``name`` that a policy's name must not have become ``_``.
    ``load_policy`` refuses it with one mistake that names every field left unclassified.
    """
    lines = [_HEAD.format(name=_quoted(re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "policy"))]
    for column in schema:
        value = _value(column.type)
        told = f', as: "{value}"' if value.startswith("decimal") else f", as: {value}"
        # Values that no pipeline column can hold can only be dropped, which is for the user to say.
        lines.append(f'  {_quoted(column.name)}: {{role: "{UNCLASSIFIED}"{told if value else ""}}}\n')
    return "".join(lines)


def _value(arrow: pa.DataType) -> str:
    canonical = canonical_type(Field("", Role.SENSITIVE), arrow)
    if canonical is None:
        return ""
    if pa.types.is_decimal(canonical):
        return f"decimal({canonical.precision},{canonical.scale})"
    return "timestamp" if pa.types.is_timestamp(canonical) else _VALUES.get(canonical, "")


def _quoted(text: str) -> str:
    """A YAML scalar: quoted where YAML would read it as anything but this text."""
    return text if NAME.fullmatch(text) and yaml.safe_load(text) == text else json.dumps(text)
