"""``policy draft``: what it proposes of a file passes ``policy check`` on that file."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.trade_feeds import bank
from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
from kanonflow.pipelines.commands.draft import draft_from_input
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_fields import Role
from kanonflow.schemas.policy_file import load_policy

pytestmark = pytest.mark.thorough


def german(path: Path, rows: int = 1_200) -> Path:
    """People with several rows each: comma decimals, German dates, null words, cp1252, semicolons."""
    rng = np.random.default_rng(4)
    lines = ["kunde;vorgang;gebucht;geboren;größe;ort;betrag;kind;leer"]
    for n in range(rows):
        who = int(rng.integers(200))
        lines.append(
            f"{3_000 + who};{n:07};{1 + n // 60 % 28:02}.03.2024 {n % 24:02}:{n % 60:02};"
            f"{1 + who % 28:02}.{1 + who % 12:02}.{1950 + who % 50};{150 + who % 40},{who % 10};"
            f"{('Köln', 'Kiel', 'Bonn')[who % 3]};{rng.integers(900)},{n % 90 + 10};"
            f"{'NA' if rng.random() < 0.2 else int(rng.integers(4))};"
        )
    path.write_bytes(("\n".join(lines) + "\n").encode("cp1252"))
    return path


def checked(text: str, source: Path, folder: Path) -> int:
    """What ``policy check`` ends with over the file, under a drafted policy."""
    (folder / "draft.yaml").write_text(text)
    return cli.main(["policy", "check", str(folder / "draft.yaml"), "--input", str(source)])


def test_a_raw_file_is_drafted_into_a_policy_that_fits_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Roles by what comes back and what stays the same; formats, signs, null words and encoding as they are."""
    feed = german(tmp_path / "feed.csv")
    text = draft_from_input([str(feed)], answered=True)
    assert checked(text, feed, tmp_path) == 0, text + capsys.readouterr().out
    assert f"fits {feed}" in capsys.readouterr().out
    policy = load_policy(tmp_path / "draft.yaml")
    assert policy.csv is not None
    assert (policy.csv.encoding, policy.csv.decimal, policy.csv.nulls) == ("cp1252", ",", ("NA",))
    roles = {field.name: field.role for field in policy.fields}
    assert roles == {
        "kunde": Role.INDIVIDUAL,
        "vorgang": Role.IDENTIFIER,
        "gebucht": Role.TIME,
        "geboren": Role.QUASI,
        "größe": Role.QUASI,
        "ort": Role.QUASI,
        "betrag": Role.SENSITIVE,
        "kind": Role.SENSITIVE,
        "leer": Role.IDENTIFIER,
    }
    assert policy.field("gebucht").format == "%d.%m.%Y %H:%M"
    assert policy.field("geboren").format == "%d.%m.%Y"
    assert policy.field("betrag").value == "decimal(12,2)"


def test_domains_are_round_and_wider_than_the_data(tmp_path: Path) -> None:
    """Their ends are published, so none of them is somebody's value; values of records are nowhere in a draft."""
    text = draft_from_input([str(german(tmp_path / "feed.csv"))])
    assert "domain: [1940-01-01, 1999-12-31]" in text or "domain: [1950-01-01, 1999-12-31]" in text
    assert re.search(r"type: numeric, .*domain: \[1[0-4]0, (190|200)\]", text)
    assert "put in what you know" in text
    for value in ("Köln", "Kiel", "Bonn", "189,9", "150,0", "3000", "3199"):
        assert value not in text


def test_without_people_that_come_back_it_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table with a row a person: one question, whether it is one, and every attribute known of people."""
    rng = np.random.default_rng(1)
    rows = [f"{n},{rng.integers(18, 90)},{('a', 'b')[n % 2]},{rng.integers(9)}" for n in range(400)]
    (tmp_path / "t.csv").write_text("id,age,sex,score\n" + "\n".join(rows) + "\n")
    text = draft_from_input([str(tmp_path / "t.csv")])
    assert "  id: {role: identifier}\n" in text
    assert '\nprotect: "?"\n' in text
    for name in ("age", "sex", "score"):
        assert f"  {name}: {{role: quasi" in text
    assert checked(text, tmp_path / "t.csv", tmp_path) == 2
    assert "protect: say row if each row is a person of its own" in capsys.readouterr().err
    answered = draft_from_input([str(tmp_path / "t.csv")], answered=True)
    assert "\nprotect: row\n" in answered
    assert checked(answered, tmp_path / "t.csv", tmp_path) == 0


def test_the_person_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--individual takes the data's place; a field that there is not is refused with those that there are."""
    feed = german(tmp_path / "feed.csv")
    assert cli.main(["policy", "draft", "--input", str(feed), "--individual", "ort"]) == 0
    assert "ort: {role: individual" in capsys.readouterr().out
    assert cli.main(["policy", "draft", "--input", str(feed), "--individual", "orte"]) == 2
    assert "has no such field; it has kunde, vorgang, gebucht" in capsys.readouterr().err


def test_what_check_would_refuse_has_no_role(tmp_path: Path) -> None:
    """An account's balance is no payload, though it differs from row to row: it is measured, and the draft asks with
    the figure."""
    rows = []
    for n in range(800):
        balance = f"{n % 100 * 370 + n // 100 * 7}.{n % 90 + 10}"
        rows.append(f"p{n % 100},2024-03-{1 + n // 100:02} 10:00:00,{20 + n % 100 % 60},{balance}")
    (tmp_path / "t.csv").write_text("person,at,age,balance\n" + "\n".join(rows) + "\n")
    text = draft_from_input([str(tmp_path / "t.csv")])
    assert re.search(r'# measured to tell more .*\n  balance: \{role: "\?"\}', text)


@pytest.mark.parametrize("form", ["csv", "parquet", "avro"])
def test_the_demos_feed_is_drafted_and_fits(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From every format; the person is found among fifteen fields."""
    feed = write_feed(FeedShape(rows=4_000, days=6, seed=1), tmp_path / "feed", form)
    text = draft_from_input([str(feed)], answered=True)
    assert re.search(r"  customer: \{role: individual", text)
    assert re.search(r"  booked_at: \{role: time", text)
    assert re.search(r"  birth_date: \{role: quasi, type: date", text)
    assert checked(text, feed, tmp_path) == 0, text + capsys.readouterr().out


def test_fields_that_follow_from_others_are_remarked(tmp_path: Path) -> None:
    """A region from its district, among the fields of people; the district is left alone."""
    rng = np.random.default_rng(6)
    lines = ["customer_id,booked,district,region,sector,amount"]
    for row in range(2_000):
        who = int(rng.integers(250))
        lines.append(
            f"{5_000 + who},2024-03-{1 + row % 28:02} {row % 24:02}:00:00,d{who % 24},r{who % 24 // 6},"
            f"s{who * 7919 % 251 % 5},{rng.integers(900)}.{row % 90 + 10}"
        )
    feed = tmp_path / "feed.csv"
    feed.write_text("\n".join(lines) + "\n")
    text = draft_from_input([str(feed)], answered=True)
    lines = text.splitlines()
    # What is said of a field stands above it.
    said = {
        line.split(":")[0].strip(): lines[place - 1]
        for place, line in enumerate(lines)
        if "role: quasi" in line
    }
    assert {"district", "region", "sector"} <= said.keys()
    assert "follows from district: leave it out" in said["region"]
    assert "follows" not in said["district"] + said["sector"]
    assert checked(text, feed, tmp_path) == 0


def test_words_for_nothing_are_declared_and_the_field_is_not_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """N/A and unknown in the rows of people who have an occupation elsewhere: nulls of the file, and the occupation is
    known of people; drafted, checked, and nothing of it published."""
    feed = bank()
    lines = [",".join(feed.cells), *map(",".join, zip(*feed.cells.values(), strict=True))]
    (tmp_path / "bank.csv").write_text("\n".join(lines) + "\n")
    text = draft_from_input([str(tmp_path / "bank.csv")])
    assert 'csv: {nulls: ["N/A", "unknown"]}' in text
    assert "  job: {role: quasi" in text
    assert '"?"' not in text.partition("fields:")[2]
    assert checked(text, tmp_path / "bank.csv", tmp_path) == 0, text + capsys.readouterr().out


def _visits(rows: int) -> dict[str, list[Any]]:
    """People with several rows, their sex, and an amount of the row."""
    rng = np.random.default_rng(6)
    who = rng.integers(60, size=rows)
    return {
        "who": [f"p{n}" for n in who],
        "at": [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=30 * n) for n in range(rows)],
        "sex": ["mf"[n % 2] for n in who],
        "amount": (rng.integers(900, size=rows) / 10).tolist(),
    }


ODD = {
    "list": pa.array([[1, 2]] * 400),
    "large_list": pa.array([["a"]] * 400, pa.large_list(pa.string())),
    "structs": pa.array([[{"a": 1}]] * 400),
    "map": pa.array([[("a", 1)]] * 400, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"\x00\xff"] * 400),
    "fixed": pa.array([bytes(16)] * 400, pa.binary(16)),
    "time": pa.array([time(3, 4)] * 400, pa.time64("us")),
    "duration": pa.array([timedelta(seconds=n) for n in range(400)], pa.duration("us")),
    "nothing": pa.nulls(400),
    "empty": pa.nulls(400, pa.string()),
}


def test_fields_of_types_that_are_never_published_are_identifiers(tmp_path: Path) -> None:
    """Of Parquet, one beside the other: with the type as the reason; the other fields have their roles."""
    feed = tmp_path / "odd.parquet"
    pq.write_table(pa.table({**_visits(400), **ODD}), feed)
    text = draft_from_input([str(feed)], answered=True)
    (tmp_path / "draft.yaml").write_text(text)
    policy = load_policy(tmp_path / "draft.yaml")
    assert {name: policy.field(name).role for name in ODD} == dict.fromkeys(ODD, Role.IDENTIFIER)
    assert policy.field("who").role is Role.INDIVIDUAL
    assert text.count(": no type that can be published") == len(ODD) - 1, text


def test_numbers_beyond_doubles_and_unions_and_uuids_give_a_draft(tmp_path: Path) -> None:
    """Whole numbers above 2^53, and an Avro file with a union of two types and people who are UUIDs."""
    feed = tmp_path / "large.parquet"
    pq.write_table(
        pa.table({**_visits(400), "large": pa.array([2**63 + n for n in range(400)], pa.uint64())}), feed
    )
    assert "large:" in draft_from_input([str(feed)])
    avro, visits = tmp_path / "odd.avro", _visits(400)
    fields = [
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "sex", "type": ["null", "string"]},
        {"name": "amount", "type": "double"},
        {"name": "either", "type": ["null", "string", "long"]},
    ]
    rows = [dict(zip(visits, row, strict=True)) for row in zip(*visits.values(), strict=True)]
    people = {who: f"00000000-0000-4000-8000-{n:012}" for n, who in enumerate(sorted({*visits["who"]}))}
    odd = [{**row, "who": people[row["who"]], "either": "x" if n % 2 else n} for n, row in enumerate(rows)]
    with avro.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), odd)
    text = draft_from_input([str(avro)], answered=True)
    assert re.search(r"either: \{role: identifier\}", text), text
    assert re.search(r"who: \{role: (individual|identifier)", text), text


def test_a_compressed_file_has_the_encoding_of_the_plain_one(tmp_path: Path) -> None:
    """cp1252 and UTF-16, told from what gzip holds."""
    for encoding in ("cp1252", "utf-16"):
        plain = german(tmp_path / "feed.csv").read_bytes().decode("cp1252").encode(encoding)
        (tmp_path / "feed.csv").write_bytes(plain)
        (tmp_path / "feed.csv.gz").write_bytes(gzip.compress(plain))
        drafts = [draft_from_input([str(tmp_path / name)]) for name in ("feed.csv", "feed.csv.gz")]
        assert drafts[0] == drafts[1]
        assert f'encoding: "{encoding}"' in drafts[0]


def test_rows_that_end_with_a_delimiter_are_no_empty_file(tmp_path: Path) -> None:
    """Every row would be none: a header of one column more is proposed; where rows are longer still, it is said."""
    feed = tmp_path / "feed.csv"
    feed.write_text("who;amount\n" + "".join(f"{n};{n};\n" for n in range(50)))
    assert 'header: "numbered"' in draft_from_input([str(feed)])
    feed.write_text("who;amount\n" + "".join(f"{n};{n};;\n" for n in range(50)))
    with pytest.raises(InputError, match="no row has as many cells as the header"):
        draft_from_input([str(feed)])


@pytest.mark.parametrize("names", [("nachname", "vorname"), ("c1", "c2")])
def test_few_names_of_people_are_names(tmp_path: Path, names: tuple[str, str]) -> None:
    """Ten first and last names are not published as sets; first names are told by their values, too."""
    visits, (last, first) = _visits(400), names
    some = ("Hans", "Peter", "Sabine", "Thomas", "Martin", "Anna", "Maria", "Julia", "Paul", "Michael")
    number = [int(who[1:]) for who in visits["who"]]
    visits[last] = [("Krüger", "Weiß", "Bauer", "Vogt", "Lang")[n // 10 % 5] for n in number]
    visits[first] = [some[n % 10] for n in number]
    pq.write_table(pa.table(visits), tmp_path / "feed.parquet")
    text = draft_from_input([str(tmp_path / "feed.parquet")], answered=True)
    assert f"{first}: {{role: identifier}}" in text, text
    assert last != "nachname" or f"{last}: {{role: identifier}}" in text, text


def test_names_of_people_in_a_file_of_one_row_a_person_are_asked_about(tmp_path: Path) -> None:
    """Words with capitals that neither their column nor a list of names tells: never categories without a question."""
    last = ("Krüger", "Weiß", "Bauer", "Vogt", "Lang", "Groß")
    rows = [f"E{n};Q{'aeiou'[n % 5]}x {last[n // 5 % 6]};{20_000 + 7 * n}" for n in range(600)]
    (tmp_path / "staff.csv").write_text("number;c1;pay\n" + "\n".join(rows) + "\n")
    assert 'c1: {role: "?"' in draft_from_input([str(tmp_path / "staff.csv")])
