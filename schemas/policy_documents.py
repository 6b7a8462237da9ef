"""What a policy may say, for people (tables of docs/policy.md) and for editors (a JSON Schema)."""

from __future__ import annotations

from collections.abc import Iterator

from kanonflow.schemas.built_hierarchies import KEYS as BUILT_KEYS
from kanonflow.schemas.key_kinds import Group, JsonSchema, Key, keys_schema
from kanonflow.schemas.policy_fields import Role
from kanonflow.schemas.policy_keys import AGAINST, ASSESS, CSV, FIELD, HEAD, RENEW, SOLVER

_TABLES = (
    ("At the top", HEAD),
    ("Under `solver`", SOLVER),
    ("Under `csv`", CSV),
    ("Under `assess`", ASSESS),
    ("Under `against`", AGAINST),
    ("Under `renew`", RENEW),
    ("Of a field", FIELD),
)
_OWN_TABLES = [keys for _, keys in _TABLES]


def policy_schema() -> JsonSchema:
    """The JSON Schema (draft 2020-12) of policy files: keys, kinds of values, and limits of single keys.

    What it takes may still break a rule that needs more than one key, or name a file or column that is not there:
    ``policy check`` is the judge. What it refuses is refused there too.
    """
    schema = keys_schema(HEAD, required=("version", "k", "fields"))
    described = schema["properties"]["fields"].pop("type")
    roles = {"enum": [str(role) for role in Role]}
    entry = {"anyOf": [roles, keys_schema(FIELD), {"type": "null"}]}
    schema["properties"]["fields"] |= {"type": described, "additionalProperties": entry}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A policy of kanonflow",
        **schema,
    }


def policy_tables() -> str:
    """The tables of all keys, in Markdown."""
    lines = [line for title, keys in _TABLES for line in _table(title, keys)]
    lines += [*_head("Under `hierarchy`, where a mapping builds it")]
    lines += [
        f"| `{key.name}` | {key.value} | {key.without or 'another one builds it'} | {key.doc} |"
        for key in BUILT_KEYS
    ]
    return "\n".join([*lines, ""])


def _head(title: str) -> Iterator[str]:
    yield from (f"## {title}", "", "| key | value | without it | |", "|---|---|---|---|")


def _table(title: str, keys: tuple[Key, ...]) -> Iterator[str]:
    yield from _head(title)
    for key in keys:
        yield _row(key.name, key)
        if isinstance(key.kind, Group) and key.kind.whole:
            for part in key.kind.keys:
                yield _row(f"{key.name}.{part.name}", part, part.without or "has to be there")
        elif isinstance(key.kind, Group) and key.kind.keys not in _OWN_TABLES:
            yield from (_row(f"{key.name}.{part.name}", part) for part in key.kind.keys)
    yield ""


def _row(name: str, key: Key, without: str = "") -> str:
    without = without or key.without
    return f"| `{name}` | {key.kind.told} | {without} | {key.doc} |"
