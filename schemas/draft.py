"""Drafting a policy for an input: every field listed, with the role that its data speak for, or none."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import yaml

from kanonflow.schemas.canonical_types import canonical_type
from kanonflow.schemas.durations import UNITS, format_duration, offset_of_weeks
from kanonflow.schemas.field_declaration import UNCLASSIFIED
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.policy_rules import NAME
from kanonflow.schemas.printable import printable
from kanonflow.schemas.text_form import EPOCH, CsvForm

_HEAD = """\
# A draft, from the data alone. Look at every role: who reads what is released knows more than this file says. A field
# whose role is "?" is one that the data cannot tell; until it has a role the policy is refused.
#   individual   whom a row belongs to; never published (at most one field)
#   identifier   dropped
#   quasi        generalized; also say  type: numeric | date | categorical  and, if you know it, a domain
#   sensitive, insensitive   published as they are
#   time         event time, for windows (at most one field); then give a window
#   event_id     recognizes repeats of an at-least-once source; dropped
version: 1
name: {name}
k: 5
"""
_ASKS_ROW = """\
# Is each row a person of its own (row)? If one has several rows, name the field that says whose they are
# (role: individual), and draft again with --individual FIELD: every field here was looked at as if nobody came back.
protect: "?"
"""
_NO_WINDOW = "# window: 1d\n# max_delay: 2d\n"
_OTHERS = """\
# Fields of later files that have no role here: by default (others: refuse) such a file is refused.
# others: drop
"""
_DOMAINS = """\
# Ends of a domain are published. Those here are round numbers outside of this file's values: put in what you know of
# the field (the ages that there can be, the bounds of the country), not what this data happens to hold.
"""


@dataclass(frozen=True)
class DraftedField:
    """What a draft says of a field. keys: of its declaration, with values as YAML has them. reason: why, in words.

    sure: whether the data say so; if not, the draft has no role, and the keys as a proposal.
    """

    keys: Mapping[str, str]
    reason: str = ""
    sure: bool = True


def undecided(schema: pa.Schema) -> dict[str, DraftedField]:
    """Every column of ``schema`` with the type of its values and no role."""
    drafted = {}
    for column in schema:
        value = value_type(column.type)
        # Values that no pipeline column can hold can only be dropped, which is for the user to say.
        drafted[column.name] = DraftedField({"as": value} if value else {}, sure=False)
    return drafted


def draft_policy(
    fields: Mapping[str, DraftedField],
    name: str,
    *,
    csv: CsvForm | None = None,
    window_days: int | None = None,
    told: Sequence[str] = (),
    asks_row: bool = False,
    answered: bool = False,
) -> str:
    """YAML of a policy with these fields.

    Characters of ``name`` that a policy's name must not have become ``_``. csv: how the files are written; None: as
    they are by default. told: of the whole, a comment each. asks_row: whether each row may be a person of its own,
    which the user has to say. answered: with what is proposed in the place of each "?".
    ``load_policy`` refuses a draft with one mistake that names every field left without a role.
    """
    parts = [_HEAD.format(name=_quoted(re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "policy"))]
    parts += [f"# {printable(line)}\n" for line in told]
    if asks_row:
        parts.append("protect: row\n" if answered else _ASKS_ROW)
    parts.append(_NO_WINDOW if window_days is None else "".join(_window_lines(window_days)))
    parts += [f"csv: {{{', '.join(said)}}}\n"] if csv is not None and (said := list(_csv_keys(csv))) else []
    parts.append(_OTHERS)
    parts += [_DOMAINS] if any("domain" in field.keys for field in fields.values()) else []
    parts.append("fields:\n")
    for field_name, field in fields.items():
        parts += _lines(field_name, field, answered=answered)
    return "".join(parts)


def _window_lines(days: int) -> Iterator[str]:
    yield f"window: {days}d\n"
    if offset := offset_of_weeks(days * UNITS["d"]):
        yield f"window_offset: {format_duration(offset)}  # weeks begin on Mondays\n"
    yield f"max_delay: {2 * days}d\n"


def value_type(arrow: pa.DataType) -> str:
    """What ``as`` calls the values of an Arrow type; "" for those that have no name there, or that cannot be kept."""
    canonical = canonical_type(Field("", Role.SENSITIVE), arrow)
    if canonical is None:
        return ""
    return form_of(canonical).value


def _lines(name: str, field: DraftedField, *, answered: bool) -> Iterator[str]:
    keys = ", ".join(_written(field.keys))
    if field.sure or (answered and "role" in field.keys):
        yield f"  # {printable(field.reason)}\n" if field.reason else ""
        yield f"  {_quoted(name)}: {{{keys}}}\n"
        return
    proposed = f"; proposed: {{{keys}}}" if "role" in field.keys else ""
    if field.reason or proposed:
        yield f"  # {printable(field.reason + proposed)}\n"
    # Only what any role may have: the user gives the rest with the role.
    forms = {key: value for key, value in field.keys.items() if key in ("as", "format")}
    yield f"  {_quoted(name)}: {{{', '.join(_written({'role': json.dumps(UNCLASSIFIED), **forms}))}}}\n"


def _written(keys: Mapping[str, str]) -> Iterator[str]:
    for key, value in keys.items():
        text = key == "format" and value not in EPOCH
        yield f"{key}: {json.dumps(value) if text or value.startswith('decimal') else value}"


def _csv_keys(csv: CsvForm) -> Iterator[str]:
    plain = CsvForm()
    for key in ("delimiter", "encoding", "decimal", "thousands", "quote", "header"):
        value = getattr(csv, key)
        if value != getattr(plain, key):
            yield f"{key}: {json.dumps('tab' if value == chr(9) else value)}"
    if csv.nulls:
        yield f"nulls: [{', '.join(json.dumps(word) for word in csv.nulls)}]"


def _quoted(text: str) -> str:
    """A YAML scalar: quoted where YAML would read it as anything but this text."""
    # What YAML trips over, as a date that no calendar has, is quoted too.
    with contextlib.suppress(ValueError, OverflowError, yaml.YAMLError):
        if NAME.fullmatch(text) and yaml.safe_load(text) == text:
            return text
    # As people read it, where nothing in it could mean something else.
    return json.dumps(text, ensure_ascii=not text.isprintable())
