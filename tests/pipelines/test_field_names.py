"""Fields may have any name: hyphens, spaces, umlauts, quotes and leading digits go through all commands and forms."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import apache_beam as beam
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that

import kanonflow
from kanonflow.pipelines import cli
from kanonflow.pipelines.own_pipelines.anonymize_rows import AnonymizeRows
from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.errors import PolicyError
from tests.page_reading import read_page

pytestmark = pytest.mark.thorough

WHO, WHEN, WHERE, AGE, SIZE, JOB, NOTE, PAY, EVENT = NAMES = (
    "person-id",
    "wann genau",
    "2nd town",
    "Älter als",
    "größe 'cm'",
    'job "now"',
    "a:b, {c}",
    "$pay.",
    "#event",
)
POLICY = f"""\
version: 1
name: odd-names
k: 3
window: 1d
max_delay: 2d
csv: {{delimiter: ";", decimal: ","}}
solver: {{evaluations_per_row: 20, threads: 1}}
max_rejected: 0.5
fields:
  "{WHO}": {{role: individual}}
  "{WHEN}": {{role: time}}
  "{WHERE}": {{role: insensitive}}
  "{AGE}": {{role: quasi, type: numeric, as: int, domain: [0, 120]}}
  "{SIZE}": {{role: quasi, type: numeric, as: "decimal(5,1)"}}
  '{JOB}': {{role: quasi, type: categorical}}
  "{NOTE}": {{role: insensitive}}
  "{PAY}": {{role: sensitive, as: "decimal(9,2)"}}
  "{EVENT}": {{role: event_id}}
partition_by: ["{WHERE}"]
"""


def rows(days: range) -> list[dict[str, str]]:
    """60 people of two towns over some days; one row in a hundred has no number for what it pays."""
    draw = random.Random(days.start)
    found = []
    for n in range(140 * len(days)):
        who = draw.randrange(60)
        values = (
            f"p{who}",
            f"2024-03-{1 + days[n % len(days)]:02} {draw.randrange(24):02}:15:00",
            "AB"[who % 2],
            str(20 + who % 50),
            f"{150 + who % 40},{who % 10}",
            ("clerk", "baker", "nurse")[who % 3],
            draw.choice(["x", "y", "ü"]),
            "much" if n % 100 == 99 else f"{draw.randrange(1000)},{draw.randrange(100):02}",
            f"e{days.start}-{n}",
        )
        found.append(dict(zip(NAMES, values, strict=True)))
    return found


def write_csv(path: Path, records: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, NAMES, delimiter=";")
        out.writeheader()
        out.writerows(records)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights, as CSV and as Parquet, their policy and a secret."""
    folder = tmp_path_factory.mktemp("names")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "secret").write_bytes(bytes(range(40)))
    (folder / "secret").chmod(0o600)
    for night in (0, 1):
        write_csv(folder / f"{night}.csv", rows(range(3 * night, 3 * night + 3)))
    text = pyarrow.csv.read_csv(
        folder / "0.csv",
        parse_options=pyarrow.csv.ParseOptions(delimiter=";"),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(NAMES, "string")),
    )
    pq.write_table(text, folder / "0.parquet")
    return folder


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints, which must end with 0."""
    capsys.readouterr()
    code = cli.main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    assert code == 0, (arguments, err)
    assert "Traceback" not in err
    return out


def test_any_name_goes_through_every_command_before_a_run(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Draft to compare: exit code 0, and where a command names fields it names these as they are."""
    policy, feed = place / "policy.yaml", place / "0.csv"
    given = ("--policy", policy, "--input", feed)
    draft = told(capsys, "policy", "draft", "--input", feed)
    (tmp_path / "draft.yaml").write_text(draft, encoding="utf-8")
    assert cli.main(["policy", "check", str(tmp_path / "draft.yaml")]) in (0, 2)
    assert "YAML" not in capsys.readouterr().err
    assert all(name in draft.replace('\\\\"', '"').replace("''", "'") for name in NAMES if '"' not in name)
    checked = told(capsys, "policy", "check", policy, "--input", feed)
    assert all(name in checked for name in (AGE, SIZE, JOB, PAY))
    json.loads(told(capsys, "policy", "check", policy, "--input", feed, "--json"))
    json.loads(told(capsys, "policy", "schema"))

    explained = json.loads(told(capsys, "explain", *given, "--json"))
    fields = {each["field"] for tried in explained["solved"]["tried"] for each in tried["fields"]}
    assert fields == {AGE, SIZE, JOB}
    told(capsys, "explain", *given, "--html", tmp_path / "page.html")
    told(capsys, "compare", *given)
    told(capsys, "compare", *given, "--rows", 200)


def test_any_name_goes_through_runs_audits_and_exports(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nights that continue each other: released, audited, reported, exported, and somebody forgotten."""
    policy, feed, out = place / "policy.yaml", place / "0.csv", tmp_path / "out"
    given = ("--policy", policy, "--input", feed)
    told(
        capsys, "anonymize", *given, "--output", out, "--secret-file", place / "secret", "--matching-records"
    )
    report = read_page((out / "restricted" / "report.html").read_text(encoding="utf-8"))
    assert {tuple(table.head[1:]) for name, table in report.tables.items() if name.startswith("shape_")} == {
        ("input", "release")
    }
    told(capsys, "verify", *given, "--release", out, "--secret-file", place / "secret")
    told(capsys, "verify", *given, "--release", out, "--matching-records")
    told(capsys, "report", out, *given)
    assert avro_name(SIZE) in (out / "restricted" / "report.html").read_text(encoding="utf-8")
    assert PAY in told(capsys, "rejected", out)
    told(capsys, "rejected", out, "--to", tmp_path / "mend.csv", "--input", feed, "--policy", policy)
    assert (tmp_path / "mend.csv").read_text(encoding="utf-8").count("much") >= 1
    for to in ("csv", "parquet"):
        for flat in ("columns", "label", "mid"):
            target = tmp_path / f"{flat}.{to}"
            told(capsys, "export", out, "--to", to, "--flat", flat, "--output", target)
    assert f"{avro_name(AGE)}_min" in polars.read_csv(tmp_path / "columns.csv").columns

    night = ("--policy", policy, "--input", place / "1.csv")
    told(
        capsys,
        "anonymize",
        *night,
        "--output",
        tmp_path / "2",
        "--continue",
        out,
        "--secret-file",
        place / "secret",
    )
    told(capsys, "verify", *night, "--release", tmp_path / "2", "--secret-file", place / "secret")
    (tmp_path / "gone").write_text("p3\n")
    asked = ("--individual-file", tmp_path / "gone", "--secret-file", place / "secret")
    assert told(capsys, "forget", tmp_path / "2", *asked).startswith("1 people")


@pytest.mark.parametrize("protection", ["cohort: window", "protect: row"])
def test_any_name_goes_through_the_other_protections_in_parquet(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], protection: str
) -> None:
    """From Parquet, released as Parquet, and audited."""
    text = POLICY.replace('csv: {delimiter: ";", decimal: ","}\n', f"{protection}\n")
    text = text.replace("{role: time}", "{role: time, as: timestamp}").replace("max_rejected: 0.5\n", "")
    text = text.replace('"decimal(5,1)"', "string").replace('"decimal(9,2)"', "string")
    text = text.replace("numeric, as: string", "categorical").replace(
        "numeric, as: int, domain: [0, 120]", "categorical"
    )
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    given = ("--policy", tmp_path / "policy.yaml", "--input", place / "0.parquet")
    told(capsys, "anonymize", *given, "--output", tmp_path / "out", "--release-format", "parquet")
    told(capsys, "verify", *given, "--release", tmp_path / "out")
    told(capsys, "explain", *given)
    if protection == "cohort: window":
        told(capsys, "compare", *given, "--rows", 200, "--field", PAY, "--l", "1,2")
    told(capsys, "export", tmp_path / "out", "--to", "csv")


def test_the_shipped_policy_of_adult_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """policies/adult.yaml has names with hyphens: explain and compare --rows went down on them."""
    policy = Path(__file__).parents[2] / "policies" / "adult.yaml"
    names = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]
    draw = random.Random(1)
    lines = [",".join([*names, "salary-class"])]
    lines += [
        ",".join(
            [
                *(
                    str(18 + draw.randrange(60)) if name == "age" else f"{name} {draw.randrange(4)}"
                    for name in names
                ),
                "x",
            ]
        )
        for _ in range(300)
    ]
    (tmp_path / "adult.csv").write_text("\n".join(lines) + "\n")
    given = ("--policy", policy, "--input", tmp_path / "adult.csv")
    assert "marital-status" in told(capsys, "explain", *given)
    told(capsys, "compare", *given, "--rows", 100)


def test_any_name_is_read_and_estimated_in_python(place: Path, tmp_path: Path) -> None:
    """Released names are those of Avro; a data frame goes through anonymize_table, and estimates take the fields."""
    table = pa.Table.from_pylist(rows(range(3)))
    secret = kanonflow.Secret(bytes(range(40)))
    found = kanonflow.anonymize_table(table, str(place / "policy.yaml"), secret, text=True)
    assert avro_name(AGE) in found.released.column_names
    given = [
        "--policy",
        place / "policy.yaml",
        "--input",
        place / "0.csv",
        "--output",
        tmp_path / "out",
        "--quiet",
    ]
    assert cli.main(["anonymize", *map(str, given)]) == 0
    release = kanonflow.read_release(tmp_path / "out")
    by = {avro_name(AGE): [20, 40, 60, None], avro_name(JOB): "each"}
    assert release.estimate("count", by=by).rows()
    assert release.estimate("mean", of=avro_name(PAY), where={avro_name(JOB): "baker"}).rows()


def test_names_go_through_rows_of_beam_or_are_refused_by_name(place: Path, tmp_path: Path) -> None:
    """Dicts into AnonymizeRows. A field of a Beam row cannot begin with _, as the published names of three fields do:
    these are refused, named, before the pipeline runs. (Beam's own ReadFromCsv takes no hyphens at all.)"""
    records = rows(range(3))
    refused = AnonymizeRows(
        str(place / "policy.yaml"), str(place / "secret"), error_handling={"output": "bad"}
    )
    with pytest.raises(PolicyError, match="_2nd_town: is published under a name that no Beam row can have"):
        beam.Pipeline() | beam.Create(records) | refused
    renamed = {WHERE: "town-2", AGE: "alter als ß", PAY: "pay ($)"}
    text = POLICY
    for name, other in renamed.items():
        text = text.replace(name, other)
    text = text.replace('csv: {delimiter: ";", decimal: ","}\n', "")
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    # Elements are no text of a CSV file: decimals have a point.
    records = [
        {renamed.get(name, name): v.replace(",", ".") for name, v in record.items()} for record in records
    ]
    step = AnonymizeRows(
        str(tmp_path / "policy.yaml"),
        secret_file=str(place / "secret"),
        error_handling={"output": "bad"},
        threads=1,
    )

    def there(found: list[object]) -> None:
        assert len(found) > 100
        assert hasattr(found[0], f"{avro_name(renamed[AGE])}_min")

    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        anonymized = pipeline | beam.Create(records) | step
        assert_that(anonymized["rows"], there)
