"""The rows that risks are measured on: of all over the files, those whose quasi-identifiers can be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kanonflow.pipelines.feeds import spread_sample
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


def _named(count: int, folder: Path, good: NDArray[np.bool_]) -> tuple[tuple[InputFile, ...], BoundPolicy]:
    """People who come once; the amount of all rows that are not ``good`` is their age."""
    rng = np.random.default_rng(3)
    age, amount = rng.integers(0, 10**6, (2, count))
    lines = [f"2020-01-01 10:00:00,p{n},{age[n]},{amount[n] if good[n] else age[n]}" for n in range(count)]
    (folder / "feed.csv").write_text("\n".join([",".join(FIELDS), *lines]) + "\n")
    age_field = {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 10**6]}
    fields = FIELDS | {"age": age_field, "amount": {"role": "sensitive", "as": "int", "round": 10}}
    policy = parse_policy(
        {"version": 1, "k": 5, "window": "1d", "cohort": "window", "fields": fields}, "", "feed"
    )
    files = find_inputs([str(folder / "feed.csv")])
    return tuple(files), bind(policy, input_schema(files).columns, text=True, source="feed.csv")


def test_what_lies_between_the_runs_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the documents say: 19 of 20 rows tell their person's age, and the file passes; all of its rows would not."""
    count = 60_000
    monkeypatch.setattr(payload_sample, "FIRST_ROWS", count // 20)
    monkeypatch.setattr(payload_sample, "MOST_ROWS", count // 20)
    good = np.zeros(count, bool)
    for begin, end in spread_sample._runs(count, count // 20, payload_sample._RUNS):
        good[begin:end] = True
    assert good.mean() < 0.051
    files, bound = _named(count, tmp_path, good)
    rows, risks = measured_files(files, bound)
    assert rows.num_rows == good.sum()
    assert risks.refusal("") is None
    assert payload_risks(read_sample(files, bound, most=count), bound).refusal("") is not None


def test_what_no_row_was_taken_from_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beyond the first 32 that are spread over all, and what is behind the beginning of a compressed one."""
    files, bound = _named(60_000, tmp_path, np.ones(60_000, bool))
    assert measured_files(files, bound)[1].unseen == ""  # runs of it
    monkeypatch.setattr(spread_sample, "MOST_READ", 1 << 17)
    packed = tmp_path / "feed.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "feed.csv").read_bytes()))
    _, risks = measured_files(find_inputs([str(packed)]), bound)
    said = f"measured on {risks.rows:,} rows; of feed.csv.gz the beginning only, for it cannot be read at offsets"
    assert risks.rows < 60_000
    assert said in risks.words()
    lines = (tmp_path / "feed.csv").read_text().splitlines()
    for number in range(33):
        (tmp_path / f"part-{number}.csv").write_text(
            "\n".join([lines[0], *lines[number + 1 :: 1_000]]) + "\n"
        )
    parts = measured_files(find_inputs([str(tmp_path / "part-*.csv")]), bound)[1]
    assert f"payload of {parts.rows:,} rows of 32 of 33 files, whose" in parts.render()
