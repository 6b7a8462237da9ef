"""The rows that risks are measured on: those whose quasi-identifiers can be read, under every cohort."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.risks.payload_sample import read_sample
from kanonflow.schemas.bound_policy import FAULT_COLUMN, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.risks.payload_measures import own_repeats
from kanonflow.transforms.risks.payload_risks import OWN_LIMIT

FIELDS = {
    "when": "time",
    "who": "individual",
    "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 120]},
    "amount": "sensitive",
}
LINES = [
    "2020-01-01 10:00:00,a,39,1",
    "2020-01-01 11:00:00,b,old,2",
    "2020-01-01 12:00:00,c,121,3",
    "2020-01-01 13:00:00,d,,4",
    "yesterday,e,40,5",
]


@pytest.mark.parametrize("cohort", ["window", "lasting"])
def test_rows_at_fault_are_left_out(tmp_path: Path, cohort: str) -> None:
    """Rejected at once or handed on, they are not among the rows; a null is a value."""
    (tmp_path / "feed.csv").write_text("\n".join([",".join(FIELDS), *LINES]) + "\n")
    policy = parse_policy(
        {"version": 1, "k": 2, "window": "1d", "cohort": cohort, "fields": FIELDS}, "", "feed"
    )
    files = find_inputs([str(tmp_path / "feed.csv")])
    bound = bind(policy, input_schema(files).columns, text=True, source="feed.csv")
    rows = read_sample(files, bound)
    assert rows.column("who").to_pylist() == ["a", "d"]
    assert (FAULT_COLUMN in rows.schema.names) == (cohort == "lasting")


def test_a_name_that_comes_back_late_is_found(tmp_path: Path) -> None:
    """70,000 people come once with a name of theirs among the payload, and then again: a look at the first rows alone
    would say that there is nothing to tell by."""
    people = [f"{number}" for number in range(70_000)]
    lines = [
        f"2020-01-0{day} 10:00:00,{who},{int(who) % 80},device {who}" for day in (1, 2) for who in people
    ]
    (tmp_path / "feed.csv").write_text("\n".join([",".join(FIELDS), *lines]) + "\n")
    policy = parse_policy({"version": 1, "k": 2, "window": "1d", "fields": FIELDS}, "", "feed")
    files = find_inputs([str(tmp_path / "feed.csv")])
    bound = bind(policy, input_schema(files).columns, text=True, source="feed.csv")
    rows = read_sample(files, bound)
    own = own_repeats(codes_of(rows["amount"].combine_chunks()), codes_of(rows["who"].combine_chunks()))
    assert own.rows == 140_000
    assert own.share > OWN_LIMIT + own.by_chance
