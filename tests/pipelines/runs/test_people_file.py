"""``people:``: a file of people who are known from the start, through runs, chains, the audit and forgetting."""

from __future__ import annotations

import csv
import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that

import kanonflow
from kanonflow.pipelines.cli import main
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.protections import intake
from kanonflow.transforms.publishing import gate_frozen
from kanonflow.transforms.roster import founding
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.windows import expected_people
from kanonflow.transforms.windows.expect_people import PeopleOfBundles, people_of_partition, together
from tests.nightly import HEADER, POLICY, Nights, line, nights_of
from tests.runners import bounded_pipeline, streaming_pipeline

IDLE = range(40, 52)
"""People of the file who never have a row."""
NAMED = (*range(20), *IDLE)
CALLED = POLICY.replace("partition_by: [shop]", "people: customers.csv").replace("intake: 6", "intake: 1000")
ROWS = [line(who, day, 60 * who % 1440, f"n{day}-{who}") for day in (1, 2, 3) for who in range(24)]


def people_lines(named: Sequence[int] = NAMED, age: int | None = None) -> list[str]:
    """Of the file of people: what their rows would say, or another age, and an address that nobody reads."""
    found = []
    for who in named:
        name, _, own, job, shop, *_ = line(who, 1, 0, "").split(",")
        found.append(f"{name},{own if age is None else age},{job},{shop},{name}@example.com")
    return found


def write_people(place: Path, lines: Sequence[str], name: str = "customers.csv") -> Path:
    """The file, beside the policy."""
    path = place / name
    path.write_text("\n".join(["who,age,job,shop,email", *lines]) + "\n")
    return path


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """One night of three days."""
    made = nights_of(tmp_path / "place", [ROWS], CALLED)
    write_people(made.place, people_lines())
    return made


def entered(output: Path) -> list[list[dict[str, Any]]]:
    """The people of each segment, in their order."""
    found = []
    for path in sorted(output.glob("restricted/cohorts/*/*.people.avro")):
        with path.open("rb") as stream:
            found.append(list(fastavro.reader(stream)))  # type: ignore[arg-type]
    return found


def record(output: Path) -> dict[str, Any]:
    """run.json."""
    return dict(json.loads((output / "restricted/run.json").read_text()))


def test_everybody_named_enters_with_the_first_release(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also who has no row; four others, too few for the intake, do when a row of theirs must leave. The audit, by its
    own reading of the file, passes in full with the secret, and without it."""
    assert nights.anonymize("1.csv", "out") == 0
    assert "People known from the start" in capsys.readouterr().err
    segments = entered(nights.place / "out")
    assert [len(people) for people in segments] == [len(NAMED), 4]
    assert nights.verify("1.csv", "out", flags=["--strict"]) == 0
    assert nights.verify("1.csv", "out", secret=False) == 0
    written = (nights.place / "out/restricted/run.json").read_text()
    assert "@example.com" not in written


def test_the_file_that_the_guide_shows_is_read(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines, with others like them behind: a column that is not read, and people of whom no row comes."""
    shown = (
        (Path(__file__).parents[3] / "docs" / "cohorts.md")
        .read_text()
        .partition("    who,age,job,email\n")[2]
    )
    example = shown.partition("\n")[0].strip()
    others = [f"p{who:02},{30 + who},baker,p{who:02}@example.com" for who in range(2, 7)]
    (nights.place / "customers.csv").write_text("\n".join(["who,age,job,email", example, *others]) + "\n")
    assert nights.anonymize("1.csv", "out") == 0
    assert "People known from the start" in capsys.readouterr().err
    assert len(entered(nights.place / "out")[0]) == 6
    assert nights.verify("1.csv", "out", flags=["--strict"]) == 0


def test_what_the_file_says_is_frozen_whatever_rows_say(tmp_path: Path) -> None:
    """And no row is rejected for what it says of somebody whom the file names."""
    made = nights_of(tmp_path / "place", [[*ROWS[:-1], ROWS[-1].replace(",baker,", ",,")]], CALLED)
    write_people(made.place, people_lines(age=33))
    assert made.anonymize("1.csv", "out") == 0
    first = entered(made.place / "out")[0]
    assert {person["age"] for person in first} == {33}
    assert made.verify("1.csv", "out", flags=["--strict"]) == 0


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv.gz", "jsonl"])
def test_other_formats_say_the_same(nights: Nights, kind: str) -> None:
    """The same people in the same cohorts, and the audit reads them, too."""
    import gzip

    rows = list(csv.DictReader((nights.place / "customers.csv").open()))
    typed = [{**row, "age": int(row["age"])} for row in rows]
    path = nights.place / f"people.{kind}"
    if kind == "parquet":
        schema = pa.schema([("age", pa.int32()), *((name, pa.string()) for name in rows[0] if name != "age")])
        pq.write_table(pa.Table.from_pylist(typed, schema), path)
    elif kind == "avro":
        fields = [{"name": name, "type": "int" if name == "age" else "string"} for name in rows[0]]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "P", "fields": fields}, typed)
    elif kind == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in typed))
    else:
        path.write_bytes(gzip.compress((nights.place / "customers.csv").read_bytes()))
    assert nights.anonymize("1.csv", "out1", "--epoch", f"{5:016x}") == 0
    (nights.place / "policy.yaml").write_text(CALLED.replace("customers.csv", path.name))
    assert nights.anonymize("1.csv", "out2", "--epoch", f"{5:016x}") == 0
    assert entered(nights.place / "out1") == entered(nights.place / "out2")
    assert nights.releases("out1") == nights.releases("out2")
    assert nights.verify("1.csv", "out2", flags=["--strict"]) == 0


def _no_job(lines: list[str]) -> list[str]:
    return [",".join(cell for at, cell in enumerate(row.split(",")) if at != 2) for row in lines]


MISTAKES: dict[str, tuple[Callable[[list[str]], list[str]], Sequence[str]]] = {
    "a person twice": (lambda lines: [*lines, lines[1]], ["1 rows name a person who stands there already"]),
    "outside of a domain": (
        lambda lines: [*lines, "q1,199,baker,s0,x", "q2,200,baker,s0,x"],
        ["age: outside_domain in 2 rows, the first in row 33"],
    ),
    "no number": (lambda lines: [*lines, "q1,old,baker,s0,x"], ["age: bad_value in 1 rows"]),
    "nobody": (lambda lines: [*lines, ",20,baker,s0,x"], ["who: missing_value in 1 rows"]),
    "broken": (lambda lines: [*lines, "q1,20,baker"], ["unparseable in 1 rows"]),
    "empty": (lambda lines: [], ["names nobody"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_file_is_refused_before_anything_is_written(
    nights: Nights, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """By the run, and by policy check; the message names file and field, and no value."""
    change, told = MISTAKES[name]
    path = write_people(nights.place, change(people_lines()))
    policy = str(nights.place / "policy.yaml")
    given = ["--input", str(nights.place / "in/1.csv")]
    for call in (lambda: nights.anonymize("1.csv", "out"), lambda: main(["policy", "check", policy, *given])):
        code = call()
        err = capsys.readouterr().err
        assert code == 2, err
        assert "people: " in err
        assert name == "a person twice" or str(path) in err
        for words in told:
            assert words in err
        assert not any(value in err for value in ("199", "old", "q1", "@"))
    assert not list((nights.place / "out").glob("release/*.avro"))


def test_missing_columns_and_other_types_are_told_at_once(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them, and a file that is not there."""
    pq.write_table(pa.table({"who": ["p1"], "age": ["20"]}), nights.place / "people.parquet")
    (nights.place / "policy.yaml").write_text(
        CALLED.replace("customers.csv", "people.parquet").replace("as: int", "as: long")
    )
    assert nights.anonymize("1.csv", "out") == 2
    assert "has no column job" in capsys.readouterr().err
    (nights.place / "policy.yaml").write_text(CALLED.replace("customers.csv", "nobody.csv"))
    assert nights.anonymize("1.csv", "out") == 2
    assert "people: " in (err := capsys.readouterr().err)
    assert "nobody.csv" in err


def test_only_cohorts_that_last_know_people_from_the_start(tmp_path: Path) -> None:
    """Others are refused by name, as is a pipeline that has no collection of them."""
    path = tmp_path / "p.yaml"
    path.write_text(CALLED.replace("cohort: lasting\nintake: 1000", "cohort: window"))
    with pytest.raises(PolicyError, match="people: belongs to cohort: lasting"):
        read_policy(path)
    path.write_text(CALLED)
    with pytest.raises(PolicyError, match="hands them in as a collection"):
        KAnonymize(path, Secret(bytes(40)))
    with pytest.raises(PolicyError, match="a table of them is handed in"):
        anonymize_table(_table(ROWS), path, Secret(bytes(40)), text=True)


def _table(lines: Sequence[str], header: str = HEADER) -> pa.Table:
    rows = [dict(zip(header.split(","), row.split(","), strict=True)) for row in lines]
    return pa.Table.from_pylist(rows)


def test_a_table_and_a_collection_come_to_what_the_file_does(nights: Nights) -> None:
    """anonymize_table and KAnonymize, under the secret and the epoch of a run."""
    assert nights.anonymize("1.csv", "out", "--epoch", f"{5:016x}") == 0
    secret = Secret.from_file(str(nights.place / "secret"))
    path, people = nights.place / "policy.yaml", _table(people_lines(), "who,age,job,shop,email")
    made = anonymize_table(_table(ROWS), path, secret, text=True, epoch=5, people=people)
    assert _boxes(made.released.to_pylist()) == _boxes(
        [row for each in _released(nights.place / "out") for row in each]
    )
    released: list[dict[str, Any]] = []

    def keep(releases: list[Any]) -> None:
        assert releases
        released.extend(row for each in releases for row in from_ipc(each.ipc).to_pylist())
        assert _boxes(released) == _boxes(made.released.to_pylist())

    with bounded_pipeline() as pipeline:
        rows = pipeline | "Rows" >> beam.Create(_table(ROWS).to_pylist())
        names = pipeline | "People" >> beam.Create(people.to_pylist())
        out = rows | KAnonymize(path, secret, epoch=5, people=names)
        assert_that(out.released, keep)


def _released(output: Path) -> list[list[dict[str, Any]]]:
    found = []
    for path in sorted(output.glob("release/*.avro")):
        with path.open("rb") as stream:
            found.append(list(fastavro.reader(stream)))  # type: ignore[arg-type]
    return found


def _boxes(rows: list[dict[str, Any]]) -> list[str]:
    """Boxes of the released rows, sorted: payload stands anywhere in its group."""
    return sorted(repr((row["age"], row["job"])) for row in rows)


def test_a_collection_with_mistakes_ends_the_pipeline(nights: Nights) -> None:
    """A person twice, in one element of the collection and in two bundles alike, and no value of a type."""
    secret = Secret.from_file(str(nights.place / "secret"))
    people = _table(people_lines(), "who,age,job,shop,email").to_pylist()
    for wrong, told in (([*people, people[0]], "already"), ([*people, {**people[0], "age": "old"}], "age")):
        with pytest.raises(Exception, match=told) as caught, bounded_pipeline() as pipeline:  # noqa: PT012
            rows = pipeline | "Rows" >> beam.Create(_table(ROWS).to_pylist())
            names = pipeline | "People" >> beam.Create(wrong)
            rows | KAnonymize(nights.place / "policy.yaml", secret, epoch=5, people=names)
        assert "InputError" in repr(caught.value) or isinstance(caught.value, InputError | RuntimeError)


def test_a_resumed_run_wants_the_same_file(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte; under another name it is the same."""
    assert nights.anonymize("1.csv", "out") == 0
    before = nights.releases("out")
    assert nights.anonymize("1.csv", "out", "--resume") == 0
    (nights.place / "customers.csv").rename(nights.place / "people.csv")
    (nights.place / "policy.yaml").write_text(CALLED.replace("customers.csv", "people.csv"))
    capsys.readouterr()
    assert nights.anonymize("1.csv", "out", "--resume") == 0
    assert nights.releases("out") == before
    write_people(nights.place, people_lines(NAMED[:-1]), "people.csv")
    assert nights.anonymize("1.csv", "out", "--resume") == 2
    assert "the file of people (people) is another one" in capsys.readouterr().err


def test_what_a_run_laid_down_that_came_no_further_is_nobodys(nights: Nights) -> None:
    """Killed before its record was written, it is begun anew: with another file, or without one."""
    assert nights.anonymize("1.csv", "out") == 0
    kept = next((nights.place / "out").glob("restricted/cohorts/*/expected.state"))
    for output, people in (("other", "people: customers.csv\n"), ("none", "")):
        place = nights.place / output / "restricted" / "cohorts" / kept.parent.name
        place.mkdir(parents=True)
        for folder in (place, *list(place.parents)[:3]):
            folder.chmod(0o700)
        (place / kept.name).write_bytes(kept.read_bytes())
        (nights.place / "policy.yaml").write_text(CALLED.replace("people: customers.csv\n", people))
        write_people(nights.place, people_lines(NAMED[:-2]))
        assert nights.anonymize("1.csv", output) == 0
        assert nights.verify("1.csv", output, flags=["--strict"]) == 0
        assert (place / kept.name).exists() == bool(people)
        assert len(entered(nights.place / output)[0]) == (len(NAMED) - 2 if people else 24)


def test_nights_of_a_chain_take_newcomers_from_a_file_that_grows(tmp_path: Path) -> None:
    """Who is known stays as entered, who is new in the file enters with the night's first release, who waited in the
    pool enters as the file has it; each night and the whole verify."""
    days = [[row for row in ROWS if row.split(",")[-1].startswith(f"n{day}-")] for day in (1, 2, 3)]
    made = nights_of(tmp_path / "place", days, CALLED)
    counts = []
    for night, named in enumerate((range(10), range(16), range(30)), 1):
        write_people(made.place, people_lines([*named]), f"people{night}.csv")
        (made.place / "policy.yaml").write_text(CALLED.replace("customers.csv", f"people{night}.csv"))
        before = ("--continue", f"@out{night - 1}") if night > 1 else ()
        assert made.anonymize(f"{night}.csv", f"out{night}", "--carry", *before) == 0
        assert made.verify(f"{night}.csv", f"out{night}", flags=["--strict"]) == 0
        counts.append([len(each) for each in entered(made.place / f"out{night}")])
    assert counts == [[10], [10, 6], [10, 6, 14]]
    assert made.verify("*.csv", "out1", "out2", "out3") == 0


def test_too_few_for_a_cohort_are_known_by_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two people of a partition cannot be one: the run says how many, and they enter with others who were seen."""
    policy = POLICY.replace("cohort: lasting", "cohort: lasting\npeople: customers.csv")
    rows = [line(who, 1, who, f"n-{who}", 2) for who in range(24)]
    made = nights_of(tmp_path / "place", [rows], policy)
    few = [0, 2, 4, 6, 8, 1, 3]
    write_people(
        made.place,
        [each.replace(",s0,", f",s{who % 2},") for who, each in zip(few, people_lines(few), strict=True)],
    )
    assert made.anonymize("1.csv", "out") == 0
    assert "2 of them are in partitions with fewer than cohort_size = 3" in capsys.readouterr().err
    assert made.verify("1.csv", "out", flags=["--strict"]) == 0


def test_who_is_named_in_one_partition_and_has_rows_in_another_is_divided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As who has rows in two is: nothing is released."""
    policy = POLICY.replace("cohort: lasting", "cohort: lasting\npeople: customers.csv")
    policy = policy.replace("shop: {role: insensitive, accept_risk: made up}", "shop: {role: insensitive}")
    rows = [line(who, 1, who, f"n-{who}", 2) for who in range(24)]
    made = nights_of(tmp_path / "place", [rows], policy)
    lines = [each.replace(",s0,", f",s{who % 2},") for who, each in enumerate(people_lines(range(12)))]
    write_people(made.place, lines)
    assert made.anonymize("1.csv", "good") == 0
    write_people(made.place, [lines[0].replace(",s0,", ",s1,"), *lines[1:]])
    capsys.readouterr()
    assert made.anonymize("1.csv", "out") == 3
    assert "more than one partition" in capsys.readouterr().err
    assert not list((made.place / "out").glob("release/*.avro"))


def test_the_audit_finds_what_is_wrong_with_who_was_expected(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that changed since; a run that knew nobody; a run that knew others."""
    assert nights.anonymize("1.csv", "out") == 0
    (nights.place / "policy.yaml").write_text(CALLED.replace("people: customers.csv\n", ""))
    assert nights.anonymize("1.csv", "alone") == 0
    assert nights.verify("1.csv", "alone") == 0
    # Under the policy that names nobody these people entered before they were seen, or could not be told.
    assert nights.verify("1.csv", "out") in (0, 1)
    (nights.place / "policy.yaml").write_text(CALLED)
    capsys.readouterr()
    assert nights.verify("1.csv", "alone") == 1
    assert f"{len(NAMED)} not whom it names" in capsys.readouterr().out
    for lines, told in (
        (people_lines(NAMED[1:]), "knew 1 people from the start whom the file of people does not name"),
        (people_lines(age=44), "were known from the start with other values"),
        ([*people_lines(), people_lines()[0]], "stands twice"),
    ):
        write_people(nights.place, lines)
        assert nights.verify("1.csv", "out") == 1
        assert told in capsys.readouterr().out


def test_what_a_run_keeps_of_the_file_can_be_forgotten(nights: Nights) -> None:
    """Values go in the cohorts and in the copy; who comes back is known, and the audit passes."""
    assert nights.anonymize("1.csv", "out") == 0
    names = nights.place / "names.txt"
    names.write_text("p01\np41\n")
    given = ["--individual-file", str(names), "--secret-file", str(nights.place / "secret")]
    kept = next((nights.place / "out").glob("restricted/cohorts/*/expected.state"))
    before = kept.read_bytes()
    assert main(["forget", str(nights.place / "out"), *given]) == 0
    assert kept.read_bytes() != before
    assert sum(person["forgotten"] for each in entered(nights.place / "out") for person in each) == 2
    assert nights.verify("1.csv", "out") == 0
    again = kept.read_bytes()
    assert main(["forget", str(nights.place / "out"), *given]) == 0
    assert kept.read_bytes() == again


def test_explain_and_compare_play_with_the_people(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run founds whom the file names."""
    policy, given = str(nights.place / "policy.yaml"), ["--input", str(nights.place / "in/1.csv")]
    assert main(["compare", "--policy", policy, *given, "--json"]) == 0
    with_people = json.loads(capsys.readouterr().out)
    (nights.place / "policy.yaml").write_text(CALLED.replace("people: customers.csv\n", ""))
    assert main(["compare", "--policy", policy, *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) != with_people


def test_the_face_says_it() -> None:
    """``people`` is an argument of both ways in."""
    assert "people" in (
        kanonflow.KAnonymize.__init__.__annotations__ | kanonflow.anonymize_table.__annotations__
    )


def test_a_collection_in_many_bundles_is_one_collection(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a runner cuts it: who is handed over one by one is expected as who comes at once; a person in two bundles
    is there twice, and too many are too many together."""
    secret = Secret.from_file(str(nights.place / "secret"))
    people = _table(people_lines(), "who,age,job,shop,email").to_pylist()
    policy = read_policy(nights.place / "policy.yaml")
    bound = bind(policy, text_schema(policy), text=True, source="test")
    read = PeopleOfBundles(bound, secret, 5)

    def cut(bundles: Sequence[Sequence[dict[str, Any]]]) -> tuple[bytes, tuple[int, bytes, bytes]]:
        states = []
        for bundle in bundles:
            read.start_bundle()
            for person in bundle:
                read.process(person)
            states += [made.value for made in read.finish_bundle()]
        assert len({key for key, _ in states}) == 1
        return together((states[0][0], [state for _, state in states]), bound)

    whole = cut([people])
    assert cut([[person] for person in reversed(people)]) == whole
    assert len(people_of_partition(whole)[1]) == 8 * len(people)
    with pytest.raises(InputError, match="1 rows name a person who stands there already"):
        cut([people, people[3:4]])
    monkeypatch.setattr(expected_people, "MOST", len(people) - 1)
    with pytest.raises(InputError, match="31 may enter together"):
        cut([[person] for person in people])


def test_a_stream_of_ones_own_expects_a_bounded_collection(nights: Nights) -> None:
    """Rows that come while time goes on; whoever is named enters with the first release, before who was seen."""
    secret = Secret.from_file(str(nights.place / "secret"))
    people = _table(people_lines(), "who,age,job,shop,email").to_pylist()
    rows = TestStream()
    for day in (1, 2, 3):
        rows = rows.add_elements(
            [each for each in _table(ROWS).to_pylist() if each["ref"].startswith(f"n{day}-")]
        )
        rows = rows.advance_watermark_to(dt.datetime(2024, 3, day + 1, 12, tzinfo=dt.UTC).timestamp())

    def judge(metrics: list[dict[str, Any]]) -> None:
        entered_with = sorted(
            (each["window_end"], each["people_entered"]) for each in metrics if each["released"]
        )
        assert entered_with[0][1] == len(NAMED)
        assert sum(each["rows_released"] for each in metrics) == len(ROWS)

    with streaming_pipeline() as pipeline:
        names = pipeline | "People" >> beam.Create(people)
        out = pipeline | rows | KAnonymize(nights.place / "policy.yaml", secret, epoch=5, people=names)
        assert_that(out.metrics | beam.WindowInto(beam.window.GlobalWindows()), judge)


def test_one_new_customer_a_night_enters_when_there_are_enough(tmp_path: Path) -> None:
    """Fewer than a cohort who are new in the file are known by their rows; each night passes its audit, and who is in
    the file still enters once enough of them are new."""
    days = [[row for row in ROWS if row.split(",")[-1].startswith(f"n{day}-")] for day in (1, 2, 3)]
    made = nights_of(tmp_path / "place", days, CALLED)
    counts = []
    for night, named in enumerate((range(20), [*range(20), 40], [*range(20), 40, 41, 42]), 1):
        write_people(made.place, people_lines([*named]), f"people{night}.csv")
        (made.place / "policy.yaml").write_text(CALLED.replace("customers.csv", f"people{night}.csv"))
        before = ("--continue", f"@out{night - 1}") if night > 1 else ()
        assert made.anonymize(f"{night}.csv", f"out{night}", "--carry", *before) == 0
        assert made.verify(f"{night}.csv", f"out{night}", flags=["--strict"]) == 0
        counts.append([len(each) for each in entered(made.place / f"out{night}")])
    assert counts[:2] == [[20], [20]]
    assert counts[2] == [20, 3 + 4], "those of the file, and beside them those who were seen"
    assert made.verify("*.csv", "out1", "out2", "out3") == 0


LATER = (*range(16), 20, *range(40, 44))
"""The longer file of the second night: of those whom it adds, one was seen in the first, and four never have a row."""


def two_files(place: Path) -> Nights:
    """Three nights. In the first two people have rows, of whom the file names one, and nothing is released; the second
    night's file is longer, and all of either one enter."""
    days = [[row for row in ROWS if row.split(",")[-1].startswith(f"n{day}-")] for day in (1, 2, 3)]
    days[0] = [row for row in days[0] if row.startswith(("p00", "p20"))]
    return nights_of(place, days, CALLED)


def played_nights(made: Nights, files: Sequence[Sequence[int]] = (range(10), LATER, LATER)) -> None:
    """Each of them with its own file; the last one carries nothing over."""
    for night, named in enumerate(files, 1):
        write_people(made.place, people_lines([*named]), f"people{night}.csv")
        under_file(made, night, called=bool(named))
        flags = [*(("--continue", f"@out{night - 1}") if night > 1 else ()), *(["--carry"] * (night < 3))]
        assert made.anonymize(f"{night}.csv", f"out{night}", *flags) == 0


def under_file(made: Nights, night: int, *, called: bool = True) -> None:
    """The policy of a night. called: whether it has a file."""
    people = f"people: people{night}.csv\n" if called else ""
    (made.place / "policy.yaml").write_text(CALLED.replace("people: customers.csv\n", people))


def test_those_who_wait_by_a_file_and_those_of_a_longer_one_enter_apart(tmp_path: Path) -> None:
    """Both with the first release, each in cohorts of their own; no row is lost; every night passes its audit, so do
    all of them together, and all from the second one on."""
    made = two_files(tmp_path / "place")
    played_nights(made)
    assert not list((made.place / "out1").glob("release/*.avro"))
    first, *_ = entered(made.place / "out2")
    kinds: dict[int, set[bool]] = {}
    for person in first:
        kinds.setdefault(person["cohort"], set()).add(person["age"] in BY_FIRST)
    assert len(first) == len(LATER)
    assert {len(each) for each in kinds.values()} == {1}
    assert set.union(*kinds.values()) == {True, False}
    rows = sum(len((made.place / "in" / f"{night}.csv").read_text().splitlines()) - 1 for night in (1, 2, 3))
    out = [made.place / f"out{night}" for night in (1, 2, 3)]
    rejected = [path for each in out for path in each.glob("restricted/rejected/*.avro")]
    assert sum(len(each) for name in out for each in _released(name)) == rows
    assert not rejected
    for night in (1, 2, 3):
        under_file(made, night)
        assert made.verify(f"{night}.csv", f"out{night}", flags=["--strict"]) == 0
    assert made.verify("*.csv", "out1", "out2", "out3", flags=["--strict"]) == 0
    assert made.verify("[23].csv", "out2", "out3", flags=["--strict"]) == 0


BY_FIRST = frozenset(int(line(who, 1, 0, "").split(",")[2]) for who in range(10))
"""Ages, which no two of ``LATER`` share over both files."""


def test_the_audit_finds_people_of_two_files_in_one_cohort(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Founded as one pool, past a gate that says nothing: by the night itself, from it on, and over the whole chain."""
    apart = founding._apart
    monkeypatch.setattr(
        founding, "_apart", lambda table, kind, *rest: apart(table, np.minimum(kind, 0), *rest)
    )
    monkeypatch.setattr(gate_frozen, "_are_mixed", lambda *_: False)
    made = two_files(tmp_path / "place")
    played_nights(made)
    for files, outputs in (
        ("2.csv", ["out2"]),
        ("[23].csv", ["out2", "out3"]),
        ("*.csv", ["out1", "out2", "out3"]),
    ):
        under_file(made, 2)
        capsys.readouterr()
        assert made.verify(files, *outputs) == 1
        assert (
            "cohorts have people whom files of different runs were the first to name"
            in capsys.readouterr().out
        )


@pytest.mark.parametrize("second", [LATER, ()], ids=["a longer file", "no file"])
def test_the_audit_finds_who_waits_by_a_file_and_does_not_enter(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    second: Sequence[int],
) -> None:
    """Those of the first night's file are put off behind the first release, whether the second has a file or not."""
    entering = intake._entering
    made = two_files(tmp_path / "place")
    played_nights(made, (range(10), second, second))
    under_file(made, 2, called=bool(second))
    assert made.verify("[23].csv", "out2", "out3", flags=["--strict"]) == 0
    monkeypatch.setattr(intake, "_entering", lambda pool, *rest: entering(pool, *rest) & (pool.kind != 0))
    made = two_files(tmp_path / "forged")
    played_nights(made, (range(10), second, second))
    # Without a longer file nobody else enters in the second night, and nothing is released.
    alone = [("2.csv", ["out2"])] if second else [("3.csv", ["out3"])]
    for files, outputs in (
        *alone,
        ("[23].csv", ["out2", "out3"]),
        ("*.csv", ["out1", "out2", "out3"]),
    ):
        under_file(made, 2, called=bool(second))
        capsys.readouterr()
        assert made.verify(files, *outputs) == 1
        assert "10 people who were known from the start did not enter" in capsys.readouterr().out


def test_people_of_a_partition_without_a_row_are_known_since_their_file(tmp_path: Path) -> None:
    """The first night has rows of one shop, its file people of both; in either, they and those of the longer file are
    apart, and the nights pass their audits."""
    days = [[line(who, day, 60 * who % 1440, f"n{day}-{who}", 2) for who in range(24)] for day in (1, 2)]
    policy = POLICY.replace("cohort: lasting", "cohort: lasting\npeople: customers.csv")
    first = [row for row in days[0] if row.startswith(("p00", "p20"))]
    made = nights_of(tmp_path / "place", [first, days[1]], policy)
    shops = [",".join(line(who, 1, 0, "", 2).split(",")[each] for each in (0, 2, 3, 4)) for who in range(24)]
    for night, count in ((1, 12), (2, 24)):
        write_people(made.place, [f"{own},x" for own in shops[:count]], f"people{night}.csv")
        (made.place / "policy.yaml").write_text(policy.replace("customers.csv", f"people{night}.csv"))
        flags = ("--continue", "@out1") if night > 1 else ("--carry",)
        assert made.anonymize(f"{night}.csv", f"out{night}", *flags) == 0
        assert made.verify(f"{night}.csv", f"out{night}", flags=["--strict"]) == 0
    assert [len(each) for each in entered(made.place / "out2")] == [12, 12]
    assert made.verify("*.csv", "out1", "out2", flags=["--strict"]) == 0
    assert made.verify("2.csv", "out2", flags=["--strict"]) == 0
    assert len(list(made.place.glob("out1/restricted/carried/*.state"))) == 2
