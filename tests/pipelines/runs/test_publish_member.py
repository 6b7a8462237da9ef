"""``publish_member`` through whole runs: chains, a new secret, shards, parts, formats; and who reads the releases."""

from __future__ import annotations

import json
from collections import defaultdict
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from kanonflow.pipelines.analysis.export_release import export_releases
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.kafka.release_messages import json_rows
from kanonflow.pipelines.report.report import write_report
from kanonflow.schemas.avro_schema import release_arrow_schema, release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.columns.avro_encoding import encode_rows
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import Secret, partition_key
from kanonflow.transforms.sinks.beam_rows import beam_rows, row_type
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep
from tests.nightly import HEADER, POLICY, Nights, night_lines, nights_of
from tests.page_reading import read_page
from tests.pipelines.audit.good_runs import read
from tests.pipelines.runs.test_shards import PLANNED, plan, write_people
from tests.pipelines.runs.test_split_shards import DAYS, NAMED
from tests.pipelines.runs.test_split_shards import split as split_shard

pytestmark = pytest.mark.thorough

MEMBER = "publish_member: {name: customer, accept_risk: analysts follow customers}\n"
WITH = POLICY + MEMBER
ALONE = WITH.replace("partition_by: [shop]\n", "")
GROUPS = "publish_group: {members: people, accept_risk: trends of groups}\n"
LINES = [line for night in (1, 2, 3) for line in night_lines(night)]
FIRST = "Every reader links: the column customer has one number a person"


def released(nights: Nights, *outputs: str) -> list[dict[str, Any]]:
    """All rows."""
    return [
        row
        for output in outputs
        for path in sorted((nights.place / output / "release").glob("[!.]*"))
        for row in read(path)[1]
    ]


def numbers(nights: Nights, *outputs: str) -> dict[str, str]:
    """The number of everybody with rows: one each, and nobody has another's."""
    owner = {}
    for path in (nights.place / "in").glob("*.csv"):
        for line in path.read_text().splitlines()[1:]:
            cells = line.split(",")
            owner[cells[-1]] = cells[0]
    found = defaultdict(set)
    for row in released(nights, *outputs):
        found[owner[row["ref"]]].add(row["customer"])
    assert all(len(each) == 1 for each in found.values())
    one = {name: min(each) for name, each in found.items()}
    assert len(set(one.values())) == len(one) > 10
    return one


@pytest.mark.parametrize("flags", [(), ("--release-format", "parquet")], ids=["avro", "parquet"])
def test_a_person_keeps_the_number_over_nights_and_a_new_secret(
    tmp_path: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an epoch that is given: what one run over all files has; in another one everybody has another."""
    nights = nights_of(tmp_path / "place", map(night_lines, (1, 2, 3)), WITH)
    given = (*flags, "--epoch", "00000000000000aa")
    assert nights.anonymize("1.csv", "out1", "--carry", *given) == 0
    assert nights.anonymize("2.csv", "out2", "--carry", "--continue", "@out1", *flags) == 0
    (nights.place / "secret").rename(nights.place / "old")
    (nights.place / "secret").write_bytes(bytes(range(60, 100)))
    (nights.place / "secret").chmod(0o600)
    rotated = ("--previous-secret", f"file:{nights.place / 'old'}")
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", *rotated, *flags) == 0
    outputs = ("out1", "out2", "out3")
    chained = numbers(nights, *outputs)
    capsys.readouterr()
    assert nights.verify("*.csv", *outputs, flags=rotated) == 0
    assert "the member number that the secret gives the person" in capsys.readouterr().out
    assert nights.verify("*.csv", *outputs, secret=False) == 0
    assert "whose member number each is: no secret given" in capsys.readouterr().out
    (nights.place / "old").replace(nights.place / "secret")
    assert nights.anonymize("*.csv", "whole", *given) == 0
    assert nights.verify("*.csv", "whole") == 0
    whole = numbers(nights, "whole")
    assert {name: whole[name] for name in chained} == chained
    assert nights.anonymize("*.csv", "again", *flags) == 0
    assert not {*numbers(nights, "again").values()} & {*whole.values()}


def test_ids_of_groups_stay_over_nights_shards_and_a_shard_that_is_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit works them out again over the whole chain, also where a part numbers its cohorts anew; trends by group
    are a question of the release."""
    nights = nights_of(tmp_path / "place", DAYS, PLANNED + GROUPS)
    write_people(nights.place, NAMED)
    assert plan(nights, 2) == 0
    assert nights.anonymize("1.csv", "out1", "--plan", str(nights.place / "plan.json"), "--carry") == 0
    assert split_shard(nights, "out1") == 0
    again = str(nights.place / "plan2.json")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--plan", again, "--carry") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    outputs = ("out1", "out2", "out3")
    capsys.readouterr()
    assert nights.verify("*.csv", *outputs) == 0, capsys.readouterr().out
    assert "the id that the secret gives their cohorts" in capsys.readouterr().out
    releases: dict[str, set[str]] = defaultdict(set)
    for row in released(nights, *outputs):
        releases[row["group_id"]].add(row["release_id"])
        assert row["people"] % 3 == 0
    assert sum(len(each) > 1 for each in releases.values()) > 2
    table = read_release(*(str(nights.place / name) for name in outputs))
    found = table.estimate("count", by={"group_id": "each"}).table.to_pylist()
    assert all(row["lower"] == row["value"] == row["upper"] for row in found)
    assert sum(row["value"] for row in found) == len(released(nights, *outputs))


@pytest.mark.parametrize("public", [True, False])
def test_certificate_and_report_say_that_groups_are_followed(tmp_path: Path, public: bool) -> None:
    """By public metrics, or by what releases say; the reason is told inside only."""
    text = POLICY + GROUPS + "metrics: public\n" * public
    nights = nights_of(tmp_path / "place", [night_lines(1) + night_lines(2)], text)
    assert nights.anonymize("1.csv", "out") == 0
    report, certificate = (Path(path).read_text() for path in write_report(str(nights.place / "out")))
    for html in (report, certificate):
        body = html[html.index('id="verdict"') :]
        assert body.index("Every reader follows groups") < body.index("People enter in cohorts of")
    assert "trends of groups" in report
    assert "trends of groups" not in certificate


def test_numbers_of_parts_shards_and_people_who_are_known(tmp_path: Path) -> None:
    """Parts of windows share them, and shards have them of one kind; a file of people changes nothing of it."""
    given = ("--epoch", "00000000000000aa")
    lines = [*map(night_lines, (1, 2, 3))]
    split = nights_of(tmp_path / "split", lines, ALONE + "split_by: [shop]\n")
    assert split.anonymize("*.csv", "out", *given) == 0
    assert split.verify("*.csv", "out") == 0
    shards = nights_of(tmp_path / "shards", lines, ALONE + "people: customers.csv\n")
    write_people(shards.place)
    assert plan(shards, 2) == 0
    planned = ("--plan", f"@{'plan.json'}")
    assert shards.anonymize("1.csv", "out1", "--carry", *planned, *given) == 0
    assert shards.anonymize("[23].csv", "out2", "--continue", "@out1", *planned) == 0
    assert shards.verify("*.csv", "out1", "out2") == 0
    one, other = numbers(split, "out"), numbers(shards, "out1", "out2")
    assert {one[name] == other[name] for name in one.keys() & other.keys()} == {True}


def test_a_run_that_resumes_has_the_same_bytes(tmp_path: Path) -> None:
    """A release that is made once more is the one that is there."""
    nights = nights_of(tmp_path / "place", [night_lines(1) + night_lines(2)], WITH)
    assert nights.anonymize("1.csv", "out") == 0
    before = {path.name: path.read_bytes() for path in (nights.place / "out/release").iterdir()}
    gone = sorted((nights.place / "out/release").glob("[!.]*"))[0]
    gone.unlink()
    assert nights.anonymize("1.csv", "out", "--resume") == 0
    assert {path.name: path.read_bytes() for path in (nights.place / "out/release").iterdir()} == before


@pytest.mark.parametrize("public", [True, False])
def test_certificate_and_report_begin_with_it(tmp_path: Path, public: bool) -> None:
    """By public metrics, or by what releases say; the reason is told inside only, and the column among the fields."""
    text = WITH + "metrics: public\n" * public
    nights = nights_of(tmp_path / "place", [night_lines(1) + night_lines(2)], text)
    assert nights.anonymize("1.csv", "out") == 0
    assert nights.verify("1.csv", "out") == 0
    report, certificate = (Path(path).read_text() for path in write_report(str(nights.place / "out")))
    for html in (report, certificate):
        body = html[html.index('id="verdict"') :]
        assert body.index(FIRST) < body.index("People enter in cohorts of")
        assert body.index(FIRST) == body.index("<p>") + len("<p>")
    assert "customer" in certificate[certificate.index('id="fields"') :]
    assert (
        "one number a person, on all of its rows of the epoch"
        in certificate[certificate.index('id="fields"') :]
    )
    assert "analysts follow customers" in report
    assert "analysts follow customers" not in certificate
    assert read_page(certificate) is not None
    record = json.loads((nights.place / "out/restricted/run.json").read_text())
    assert record["accepted_risks"]["publish_member"] == "analysts follow customers"


def test_readers_and_exports_join_by_it(tmp_path: Path) -> None:
    """Text in every tool; an estimate by it counts the rows of each person."""
    nights = nights_of(tmp_path / "place", [night_lines(1), night_lines(2)], WITH)
    nights.chain(2, "--carry")
    places = [str(nights.place / name) for name in ("out1", "out2")]
    rows = released(nights, "out1", "out2")
    table = read_release(*places)
    assert table.arrow().column("customer").type == pa.string()
    estimate = table.estimate("count", by={"customer": "each"}).table.to_pylist()
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["customer"]] += 1
    assert {row["customer"]: (row["lower"], row["value"], row["upper"]) for row in estimate} == {
        number: (count, count, count) for number, count in counts.items()
    }
    one = next(iter(counts))
    assert table.estimate("count", where={"customer": one}).table.column("value").to_pylist() == [counts[one]]
    assert table.estimate("mean", "amount", by={"customer": "each"}).table.num_rows == len(counts)
    export_releases(places, "csv", output=str(tmp_path / "all.csv"))
    options = pyarrow.csv.ConvertOptions(column_types={"customer": pa.string()})
    exported = pyarrow.csv.read_csv(tmp_path / "all.csv", convert_options=options)
    assert sorted(exported.column("customer").to_pylist()) == sorted(row["customer"] for row in rows)


def test_check_and_explain_say_that_every_reader_links(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before what they say of readers; the reason is among what was accepted."""
    nights = nights_of(tmp_path / "place", [LINES], WITH)
    policy, source = str(nights.place / "policy.yaml"), str(nights.place / "in/1.csv")
    main(["policy", "check", policy, "--input", source])
    told = capsys.readouterr().out
    assert told.index(FIRST) < told.index("cohort: lasting. All rows of a person")
    assert "Accepted risk of publish_member: analysts follow customers" in told
    assert told.index("publish_member: every reader links all rows of a person by customer") < told.rindex(
        "the reader knows"
    )
    assert main(["explain", "--policy", policy, "--input", source, "--quick"]) == 0
    assert FIRST in capsys.readouterr().out


def test_assess_takes_it_for_what_it_is(tmp_path: Path) -> None:
    """The number is no attribute and no payload: what is found is what is found without it."""
    figures = []
    for name, text in (("with", WITH), ("without", POLICY)):
        nights = nights_of(tmp_path / name, [LINES], text)
        assert nights.anonymize("1.csv", "out", "--epoch", "00000000000000aa") == 0
        given = ["--policy", str(nights.place / "policy.yaml"), "--input", str(nights.place / "in/1.csv")]
        main(["assess", str(nights.place / "out"), *given])
        (path,) = (nights.place / "out/restricted").glob("assess*.json")
        figures.append(json.loads(path.read_text()))
    assert figures[0].keys() == figures[1].keys()
    assert figures[0]["lines"] == figures[1]["lines"]


def test_a_table_has_it_too() -> None:
    """``anonymize_table``, where nothing is written."""
    cells = [line.split(",") for line in LINES]
    table = pa.table({name: [row[at] for row in cells] for at, name in enumerate(HEADER.split(","))})
    policy = parse_policy(
        yaml.safe_load(WITH.replace("role: time", "role: time, as: timestamp")), "test", "test"
    )
    made = anonymize_table(table, policy, Secret(bytes(range(40)))).released
    owner = {row[-1]: row[0] for row in cells}
    pairs = {(owner[row["ref"]], row["customer"]) for row in made.to_pylist()}
    assert len(pairs) == len({name for name, _ in pairs}) == len({number for _, number in pairs}) > 20


def test_numbers_stand_nowhere_but_in_releases_and_forgetting_leaves_them(tmp_path: Path) -> None:
    """Nothing of them is kept inside. Who is forgotten and comes back has the number of before."""
    nights = nights_of(tmp_path / "place", map(night_lines, (1, 2)), WITH)
    assert nights.anonymize("1.csv", "out1", "--carry", "--matching-records") == 0
    before = numbers(nights, "out1")
    for path in (nights.place / "out1/restricted").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        records = repr(read(path)[1]) if path.suffix == ".avro" else ""
        for number in before.values():
            assert number.encode() not in content
            assert number not in records
            for order in ("big", "little"):
                assert int(number, 16).to_bytes(8, order) not in content
            assert str(int(number, 16)) not in records
    names = sorted(before)[:3]
    (nights.place / "names").write_text("\n".join(names) + "\n")
    told = ("--individual-file", str(nights.place / "names"), "--secret-file", str(nights.place / "secret"))
    assert main(["forget", str(nights.place / "out1"), *told]) == 0
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    after = numbers(nights, "out2")
    assert {name: after[name] for name in before.keys() & after.keys()} == {
        name: before[name] for name in before.keys() & after.keys()
    }
    assert set(names) & after.keys()


def test_a_later_night_may_begin_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of before have none. Each night is judged by its own policy; releases of two forms are read apart."""
    nights = nights_of(tmp_path / "place", map(night_lines, (1, 2)), POLICY)
    assert nights.anonymize("1.csv", "out1") == 0
    assert nights.verify("1.csv", "out1") == 0
    (nights.place / "policy.yaml").write_text(WITH)
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert nights.verify("2.csv", "out2") == 0
    assert len(numbers(nights, "out2")) > 10
    capsys.readouterr()
    assert nights.verify("*.csv", "out1", "out2") == 1
    assert "fields that the policy publishes are missing: customer" in capsys.readouterr().out
    with pytest.raises(InputError):
        read_release(*(str(nights.place / name) for name in ("out1", "out2")))


def test_a_run_does_not_resume_under_another_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its policy is the one that it began with."""
    nights = nights_of(tmp_path / "place", map(night_lines, (1,)), POLICY)
    assert nights.anonymize("1.csv", "out") == 0
    (nights.place / "policy.yaml").write_text(WITH)
    assert nights.anonymize("1.csv", "out", "--resume") != 0
    assert "publish_member" in capsys.readouterr().err


def test_messages_and_rows_of_a_pipeline_have_it() -> None:
    """Text as JSON of a topic, in Avro messages, and as a field of Beam rows."""
    policy = parse_policy(yaml.safe_load(WITH), "test", "test")
    bound = bind(policy, text_schema(policy), text=True, source="test")
    names = HEADER.split(",")
    cells = [line.split(",") for line in LINES]
    table = pa.table({name: [row[at] for row in cells] for at, name in enumerate(names)})
    classified = classify(table.select(list(bound.input_columns)), bound)
    assert not classified.rejected
    step = PartitionStep(bound, Secret(bytes(range(40))), 1, epoch=7)
    parts = split(classified.rows, bound)
    partition = PartitionInMemory(step, partition_key(Secret(bytes(range(40))), parts[0][0]))
    for _, number, batch in parts:
        partition.arrive(number, pa.Table.from_batches([batch]))
    made = [result.release for result in partition.finish() if result.release is not None]
    assert made
    schema = release_avro_schema(bound, 7)
    kind = row_type(release_arrow_schema(bound))
    for release in made:
        rows = from_ipc(release.ipc)
        cells = rows.column("customer").to_pylist()
        assert [json.loads(message)["customer"] for message in json_rows(rows)] == cells
        parsed = fastavro.parse_schema(schema)
        messages = [
            fastavro.schemaless_reader(BytesIO(each), parsed, None) for each in encode_rows(rows, schema)
        ]
        assert [message["customer"] for message in messages] == cells  # type: ignore[index, call-overload]
        assert [row.customer for row in beam_rows(rows, kind)] == cells
