"""Drafted policies: every field is listed, and none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kanonflow.schemas.draft import draft_policy
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_file import load_policy

COLUMNS = {
    "id": pa.int64(),
    "on": pa.string(),
    "a: b": pa.decimal128(9, 2),
    "1": pa.date32(),
    "when": pa.timestamp("us"),
    "tags": pa.list_(pa.string()),
}


def test_a_draft_reports_all_unclassified_fields_at_once(tmp_path: Path) -> None:
    """A draft is valid YAML with every column, whatever its name, and is refused with one full list."""
    path = tmp_path / "draft.yaml"
    path.write_text(draft_policy(pa.schema(list(COLUMNS.items())), "my people"))
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"fields without a role: {', '.join(COLUMNS)};")


def test_a_draft_with_its_roles_filled_in_is_a_policy(tmp_path: Path) -> None:
    """The types that a draft notes are those a policy takes."""
    text = draft_policy(pa.schema(list(COLUMNS.items())), "my people")
    text = text.replace('id: {role: "?", as: long}', "id: {role: quasi, type: numeric, as: long}")
    path = tmp_path / "draft.yaml"
    path.write_text(text.replace('role: "?"', "role: sensitive"))
    policy = load_policy(path)
    assert policy.name == "my_people"
    values = ["long", "string", "decimal(9,2)", "date", "timestamp", None]
    assert [field.value for field in policy.fields] == values
