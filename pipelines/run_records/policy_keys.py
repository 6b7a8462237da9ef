"""Which keys of a policy differ from those that a run began with: run.json has a keyed digest of each.

Keyed by the secret, as the digest of the whole policy is: a domain or a limit could be guessed from a plain one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import to_mapping

if TYPE_CHECKING:
    from kanonflow.transforms.secret.seeds import Secret

_FIELDS = "fields"


def policy_keys(policy: Policy, secret: Secret) -> dict[str, str]:
    """A keyed digest of each key at the policy's head, and of each field, as ``fields.NAME``."""
    head = to_mapping(policy)
    fields = head.pop(_FIELDS)
    keys = {**head, **{f"{_FIELDS}.{name}": value for name, value in fields.items()}, _FIELDS: list(fields)}
    return {
        name: secret.lasting.derive("run", "policy key", json.dumps([name, value], sort_keys=True)).hex()[:16]
        for name, value in keys.items()
    }


def told_changed(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """In which keys two policies differ, as words behind "the policy"; none where an earlier build kept no keys."""
    if before is None:
        return ""
    changed = sorted(_changed(before, now))
    return f" in {', '.join(changed)}" if changed else ""


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    names = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    fields = {name for name in names if name.startswith(f"{_FIELDS}.")}
    yield from names - {_FIELDS}
    if _FIELDS in names and not fields:
        yield f"the order of {_FIELDS}"
