"""The rows that risks are measured on: of all over the files, those whose quasi-identifiers can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kanonflow.pipelines.feeds.input_files import InputFile, find_inputs, input_schema
from kanonflow.pipelines.risks import payload_sample
from kanonflow.pipelines.risks.payload_sample import measured_files, read_sample
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.risks.payload_measures import own_repeats
from kanonflow.transforms.risks.payload_risks import OWN_LIMIT, payload_risks

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


def feed_of(lines: list[str], folder: Path) -> tuple[list[InputFile], BoundPolicy]:
    """A file with these lines, and the policy over it."""
    (folder / "feed.csv").write_text("\n".join([",".join(FIELDS), *lines]) + "\n")
    policy = parse_policy({"version": 1, "k": 2, "window": "1d", "fields": FIELDS}, "", "feed")
    files = list(find_inputs([str(folder / "feed.csv")]))
    return files, bind(policy, input_schema(files).columns, text=True, source="feed.csv")


def test_what_begins_in_the_middle_of_a_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its middle on a system writes a name of the person into what is published: the first rows tell nothing."""
    monkeypatch.setattr(payload_sample, "FIRST_ROWS", 2_000)
    monkeypatch.setattr(payload_sample, "MOST_ROWS", 4_000)
    lines = [
        f"2020-01-{1 + n // 1_000:02} 10:00:00,{n % 500},{n % 80},{'card ' + str(n % 500) if n >= 10_000 else n % 9}"
        for n in range(20_000)
    ]
    files, bound = feed_of(lines, tmp_path)
    rows, risks = measured_files(files, bound)
    assert rows.num_rows == 4_000
    refusal = risks.refusal("feed")
    assert refusal is not None
    assert "amount" in str(refusal)
    first = payload_risks(read_sample(files, bound).slice(0, 4_000), bound)
    assert first.refusal("feed") is None


@pytest.mark.parametrize(("told", "looked_at"), [(False, 2_000), (True, 20_000)])
def test_more_rows_are_looked_at_where_a_few_leave_a_doubt(
    told: bool, looked_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is far below every limit is believed of some rows; what is above one only of as many as may be measured."""
    monkeypatch.setattr(payload_sample, "FIRST_ROWS", 2_000)
    draw = np.random.default_rng(3)
    lines = [
        f"2020-01-{1 + n // 1_000:02} 10:00:00,{n % 500},{n % 80},{n % 500 if told else draw.integers(9)}"
        for n in range(20_000)
    ]
    rows, risks = measured_files(*feed_of(lines, tmp_path))
    assert rows.num_rows == looked_at
    assert (risks.refusal("feed") is not None) is told
    assert risks.beyond_doubt is not told
