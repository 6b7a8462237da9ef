"""AnonymizeRows in Beam YAML: a CSV file in, rows out, rejected rows in an output of their own."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.yaml import yaml_transform

from kanonflow.pipelines.own_pipelines.anonymize_rows import AnonymizeRows
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.transforms.risks.check_record import UncheckedError
from kanonflow.transforms.secret.seeds import SecretError

POLICY = """
version: 1
k: 3
window: 1d
max_delay: 2d
cohort: window
solver: {evaluations_per_row: 20, threads: 1}
fields:
  when: {role: time}
  who: {role: individual}
  age: {role: quasi, type: numeric, as: int}
  zip: {role: quasi, type: categorical}
  born: {role: quasi, type: date}
  amount: {role: sensitive, as: "decimal(8,2)"}
  note: {role: insensitive}
"""
PIPELINE = """
pipeline:
  transforms:
    - {type: ReadFromCsv, name: Feed, config: {path: feed.csv, dtype: str}}
    - {type: KAnonymize, input: Feed, config: {policy: policy.yaml, secret_file: secret, FLAT
       error_handling: {output: rejected}}}
    - {type: WRITER, name: Released, input: KAnonymize, config: {path: out/released}}
    - {type: WriteToJson, name: Rejected, input: KAnonymize.rejected, config: {path: out/rejected}}
providers:
  - {type: python, config: {}, transforms: {KAnonymize: kanonflow.AnonymizeRows}}
"""


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """60 rows of 20 people, three without an age, and one whose time is none; the policy and the secret."""
    monkeypatch.chdir(tmp_path)
    lines = ["when,who,age,zip,born,amount,note"]
    for number in range(60):
        who = number % 20
        age = "" if who % 7 == 3 else 20 + who
        lines.append(
            f"2024-03-0{1 + number // 30}T{number % 24:02d}:00:00Z,p{who},{age},0{1234 + who % 3},"
            f"{1980 + who}-01-02,{number}.50,n{number}"
        )
    lines.append("nonsense,p1,30,01234,1980-01-01,1.00,x")
    Path("feed.csv").write_text("\n".join(lines) + "\n")
    Path("policy.yaml").write_text(POLICY)
    Path("secret").write_bytes(bytes(range(32)))
    Path("secret").chmod(0o600)
    return tmp_path


def run(text: str) -> None:
    """As ``python -m apache_beam.yaml.main`` does."""
    spec = yaml_transform.yaml.load(text, Loader=yaml_transform.SafeLineLoader)
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        yaml_transform.expand_pipeline(pipeline, spec)


def lines_of(pattern: str) -> list[dict[str, Any]]:
    """The JSON lines of files."""
    return [
        json.loads(line)
        for path in sorted(Path("out").glob(pattern))
        for line in path.read_text().splitlines()
    ]


@pytest.mark.thorough
def test_a_yaml_pipeline_anonymizes_a_csv_file(feed: Path) -> None:
    """In ten lines, with one value a cell; text stays text, a date a date. Every row comes out, once."""
    assert len(PIPELINE.strip().splitlines()) <= 12
    logging.getLogger("apache_beam").setLevel(logging.WARNING)
    run(PIPELINE.replace("FLAT", "").replace("WRITER", "WriteToJson"))
    released, rejected = lines_of("released*"), lines_of("rejected*")
    assert len(released) + len(rejected) == 61
    assert len(released) >= 40
    (broken,) = [each for each in rejected if each["field"] == "when"]
    assert (broken["reason"], broken["row"]["when"]) == ("bad_value", "nonsense")
    names = ["release_id", "window_start", "window_end", "age_min", "age_max", "age_mid", "age_nulls", "zip"]
    assert list(released[0])[:8] == names
    assert all(each["zip"].startswith("01") for each in released)
    assert any(each["age_nulls"] for each in released)
    assert released[0]["born_min"].startswith(("19", "20"))
    assert all(each["amount"].endswith(".50") for each in released)
    boxes: dict[tuple[Any, ...], int] = {}
    for each in released:
        box = tuple(each[name] for name in each if name not in ("amount", "note"))
        boxes[box] = boxes.get(box, 0) + 1
    assert min(boxes.values()) >= 3


@pytest.mark.thorough
def test_nested_rows_go_into_parquet(feed: Path) -> None:
    """Ranges as structs, sets as lists."""
    run(PIPELINE.replace("FLAT", "flat: nested,").replace("WRITER", "WriteToParquet"))
    table = pyarrow.parquet.ParquetDataset(sorted(map(str, Path("out").glob("released*")))).read()
    assert table.num_rows >= 40
    assert str(table.schema.field("age").type) == "struct<min: int64, max: int64, nulls: bool not null>"
    assert str(table.schema.field("zip").type).startswith("list<")
    assert table.column("amount").to_pylist()[0].endswith(".50")


def test_options_are_checked_with_the_pipeline(feed: Path) -> None:
    """Each with its mend."""
    errors = {"output": "rejected"}
    with pytest.raises(SecretError, match="give secret_file, secret_env or secret_manager"):
        AnonymizeRows("policy.yaml", error_handling=errors)
    with pytest.raises(SecretError, match="not both"):
        AnonymizeRows("policy.yaml", secret_file="secret", secret_env="S", error_handling=errors)
    with pytest.raises(InputError, match="flat: wide is none of columns, label, mid, nested"):
        AnonymizeRows("policy.yaml", secret_file="secret", flat="wide", error_handling=errors)
    for wrong in (None, {}, {"output": "a", "threshold": "b"}):
        with pytest.raises(InputError, match=r"error_handling: say \{output: NAME\}"):
            AnonymizeRows("policy.yaml", secret_file="secret", error_handling=wrong)
    # Under the name of the released rows the rejected ones would be written in their place.
    for name in ("rows", "good", "", None, 3):
        with pytest.raises(InputError, match="error_handling: output: give the rejected rows a name"):
            AnonymizeRows("policy.yaml", secret_file="secret", error_handling={"output": name})
    with pytest.raises(UncheckedError, match=r"none.json: nobody has measured"):
        AnonymizeRows("policy.yaml", secret_file="secret", verdict="none.json", error_handling=errors)
    with pytest.raises(PolicyError, match="cannot be read"):
        AnonymizeRows("none.yaml", secret_file="secret", error_handling=errors)


def test_rejected_rows_without_a_place_are_an_error_of_yaml(feed: Path) -> None:
    """Nobody loses them by forgetting a line."""
    kept = [line for line in PIPELINE.splitlines() if "name: Rejected" not in line]
    with pytest.raises(ValueError, match="Unconsumed error output"):
        run("\n".join(kept).replace("FLAT", "").replace("WRITER", "WriteToJson"))


def test_yaml_tells_of_the_options() -> None:
    """Their types and what they mean, as Beam YAML reads them from the constructor."""
    from apache_beam.yaml.yaml_provider import InlineProvider

    provider = InlineProvider({"KAnonymize": AnonymizeRows})
    fields = {field.name: field for field in provider.config_schema("KAnonymize").fields}
    assert set(fields) == {
        "policy", "secret_file", "secret_env", "secret_manager", "flat", "plain", "threads", "verdict", "error_handling"
    }  # fmt: skip
    assert "pythonsdk_any" not in str(fields)
    assert all(field.description for field in fields.values())
    assert str(provider.description("KAnonymize")).startswith("K-anonymize rows")
