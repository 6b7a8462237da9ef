"""Drafted policies: every field is listed, and none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kanonflow.schemas.draft import DraftedField, draft_policy, undecided
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_file import load_policy
from kanonflow.schemas.text_form import CsvForm

COLUMNS = {
    "id": pa.int64(),
    "on": pa.string(),
    "a: b": pa.decimal128(9, 2),
    "1": pa.date32(),
    "when": pa.timestamp("us"),
    "tags": pa.list_(pa.string()),
    # To YAML a date of no calendar, a number without digits, no scalar at all.
    "2024-02-30": pa.string(),
    "0x_": pa.string(),
    "-": pa.string(),
}


def test_a_draft_reports_all_unclassified_fields_at_once(tmp_path: Path) -> None:
    """A draft is valid YAML with every column, whatever its name, and is refused with one full list."""
    path = tmp_path / "draft.yaml"
    path.write_text(draft_policy(undecided(pa.schema(list(COLUMNS.items()))), "my people"))
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"fields without a role: {', '.join(COLUMNS)};")


def test_a_draft_with_its_roles_filled_in_is_a_policy(tmp_path: Path) -> None:
    """The types that a draft notes are those a policy takes."""
    text = draft_policy(undecided(pa.schema(list(COLUMNS.items()))), "my people")
    text = text.replace('id: {role: "?", as: long}', "id: {role: quasi, type: numeric, as: long}")
    path = tmp_path / "draft.yaml"
    path.write_text(text.replace('role: "?"', "role: sensitive"))
    policy = load_policy(path)
    assert policy.name == "my_people"
    values = ["long", "string", "decimal(9,2)", "date", "timestamp", None, *["string"] * 3]
    assert [field.value for field in policy.fields] == values


def test_a_draft_says_why_and_asks_where_it_cannot_tell(tmp_path: Path) -> None:
    """A reason and a role; of what the data cannot tell, the proposal as a comment and no key that a role excludes."""
    fields = {
        "who": DraftedField({"role": "individual", "as": "string"}, "comes back"),
        "born": DraftedField({"role": "quasi", "type": "date", "format": "%d.%m.%Y"}, "days"),
        "pay": DraftedField({"role": "quasi", "type": "numeric", "as": "decimal(9,2)"}, "either", sure=False),
    }
    csv = CsvForm(delimiter="\t", decimal=",", nulls=("NA", "-"))
    text = draft_policy(fields, "people", csv=csv, window_days=7, told=("short",))
    for line in (
        'csv: {delimiter: "tab", decimal: ",", nulls: ["NA", "-"]}',
        "# others: drop",
        "window: 7d",
        "# short",
        "  # comes back",
        '  born: {role: quasi, type: date, format: "%d.%m.%Y"}',
        '  # either; proposed: {role: quasi, type: numeric, as: "decimal(9,2)"}',
        '  pay: {role: "?", as: "decimal(9,2)"}',
    ):
        assert f"{line}\n" in text
    path = tmp_path / "draft.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError, match="fields without a role: pay;"):
        load_policy(path)
    path.write_text(draft_policy(fields, "people", csv=csv, answered=True))
    policy = load_policy(path)
    assert policy.csv == csv
    assert [field.name for field in policy.quasis] == ["born", "pay"]
