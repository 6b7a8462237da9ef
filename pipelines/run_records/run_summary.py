"""What a run over files told at its end, and under which settings: kept for who looks at it later.

    OUT/restricted/summary.json    settings as a policy spells them, the closing table, when it ended

``restricted/run.json`` says nothing of the policy, on purpose; this file does. It holds no value of a record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kanonflow.pipelines.run_records.replaced_file import replace_file
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import to_mapping

NAME = "summary.json"


def settings_of(policy: Policy) -> dict[str, str]:
    """A policy's keys but for its fields, with defaults spelled out; parts of a key behind a point."""
    head = {name: value for name, value in to_mapping(policy).items() if name != "fields"}
    return dict(_flat(head))


def write_summary(output: str, policy: Policy, table: Mapping[str, Any], now_ms: int) -> None:
    """Write it below ``output``, in the place of an earlier one. table: the closing table, as JSON has it.

    Raises OSError.
    """
    values = {
        "ended_at": datetime.fromtimestamp(now_ms // 1000, UTC).isoformat(timespec="seconds"),
        "settings": settings_of(policy),
        "summary": dict(table),
    }
    replace_file(Path(output, "restricted", NAME), json.dumps(values, indent=1).encode(), private=True)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; {} where there is none."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
