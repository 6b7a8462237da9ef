"""``kanonflow rejected``: rejected rows are counted, lead back to their lines, and are mended and fed again."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.rejected import (
    rejected_rows,
    render,
    summarize_rejected,
    write_rejected,
)
from kanonflow.schemas.avro_schema import rejected_schema
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.rows.elements import RejectedRows
from kanonflow.transforms.sinks.gather_rejected import part_id
from kanonflow.transforms.sinks.sinks import records_file
from tests.pipelines.small_runs import REJECTED

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 2
window: 1d
cohort: {cohort}
fields:
  who: {{role: individual}}
  when: {{role: time}}
  age: {{role: quasi, type: numeric, domain: [0, 120], as: int}}
  town: {{role: quasi, type: categorical, domain: [Bonn, Kiel]}}
  amount: {{role: sensitive, as: "decimal(9,2)", accept_risk: made up for a test}}
  name: {{role: identifier}}
"""
HEADER = "who,when,age,town,amount,name"


def lines_of(rows: int, first: int = 0) -> list[str]:
    """Good rows of one day, one a person."""
    return [
        f"p{number},2024-03-01 08:00:{number % 60:02d},{20 + number % 4},{('Bonn', 'Kiel')[number % 2]},"
        f"{number}.50,Eve {number}"
        for number in range(first, first + rows)
    ]


def anonymize(place: Path, source: str, output: str, *flags: str) -> int:
    """The command over files of ``place``."""
    told = [
        "--policy",
        str(place / "policy.yaml"),
        "--input",
        str(place / source),
        "--output",
        str(place / output),
    ]
    secret = ["--secret-file", str(place / "secret"), "--evaluations", "20", "--quiet"]
    return main(["anonymize", *told, *secret, *flags])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a secret, a policy and two files, five of whose 160 rows are broken in five ways."""
    (tmp_path / "secret").write_bytes(bytes(range(7, 47)))
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "policy.yaml").write_text(POLICY.format(cohort="window"))
    (tmp_path / "in").mkdir()
    first, second = lines_of(80), lines_of(80, 80)
    first[10] = first[10].replace(".50", ",50")  # one value too many
    first[20] = first[20].replace("2024-03-01", "01.03.2024")
    second[5] = second[5].replace("Kiel", "Köln")
    second[6] = second[6].replace(".50,", " EUR,")
    second[7] = second[7].removeprefix("p87")
    for name, rows in (("a", first), ("b", second)):
        (tmp_path / "in" / f"{name}.csv").write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    return tmp_path


WANTED = {
    ("unparseable", None): ("a.csv", 12),
    ("bad_value", "when"): ("a.csv", 22),
    ("outside_domain", "town"): ("b.csv", 7),
    ("bad_value", "amount"): ("b.csv", 8),
    ("missing_value", "who"): ("b.csv", 9),
}


def test_rejected_rows_are_mended_and_fed_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the run to file, line and expected form, to a CSV of the same columns, mended, to a run that rejects none.

    What is printed holds no value of a row; the file is its owner's alone.
    """
    assert anonymize(place, "in/*.csv", "out") == 0
    capsys.readouterr()
    assert main(["rejected", str(place / "out"), "--to", str(place / "mend.csv")]) == 0
    printed = capsys.readouterr().out
    records = list(rejected_rows(str(place / "out")))
    assert {(each["reason"], each["field"]): (each["source"], each["line"]) for each in records} == WANTED
    for record in records:
        text = (place / "in" / record["source"]).read_text(encoding="utf-8").splitlines()
        assert (record["raw"], record["header"]) == (text[record["line"] - 1], HEADER)
        assert record["expected"]
        assert record["expected"] in printed
        assert f"{record['source']}:{record['line']}" in printed
    assert "5 rejected rows" in printed
    assert not [word for word in ("Köln", "EUR", "Eve", "01.03", "p5") if word in printed]

    path = place / "mend.csv"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text(encoding="utf-8")
    assert sorted(text.splitlines()) == sorted([HEADER, *(record["raw"] for record in records)])
    mended = text.replace("10,50", "10.50").replace("01.03.2024", "2024-03-01").replace("Köln", "Kiel")
    mended = mended.replace(" EUR,", ".50,").replace("\n,2024", "\np87,2024")
    (place / "mended.csv").write_text(mended, encoding="utf-8")
    assert anonymize(place, "mended.csv", "again") == 0
    assert list(rejected_rows(str(place / "again"))) == []
    released = [
        row for file in place.glob("again/release/*.avro") for row in fastavro.reader(file.open("rb"))
    ]
    assert sorted(str(row["amount"]) for row in released) == ["10.50", "20.50", "85.50", "86.50", "87.50"]
    assert (
        main(
            [
                "verify",
                "--policy",
                str(place / "policy.yaml"),
                "--input",
                str(place / "in/*.csv"),
                "--release",
                str(place / "out"),
            ]
        )
        == 0
    )


def test_newcomers_of_lasting_cohorts_lead_back_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their attributes' faults wait with the row in a window, which keeps file and line and not the text: it is looked
    up in the input."""
    (place / "policy.yaml").write_text(POLICY.format(cohort="lasting"))
    lines = [HEADER, *lines_of(80)]
    lines[31] = "p999,2024-03-01 08:00:00,old,Bonn,1.50,Zoe"
    (place / "in" / "a.csv").write_text("\n".join([*lines, ""]))
    assert anonymize(place, "in/a.csv", "out") == 0
    capsys.readouterr()
    (record,) = [each for each in rejected_rows(str(place / "out")) if each["reason"] == "bad_value"]
    assert (record["field"], record["source"], record["line"], record["raw"]) == ("age", "a.csv", 32, None)
    assert record["expected"]
    to = str(place / "mend.csv")
    assert main(["rejected", str(place / "out"), "--to", to]) == 2
    assert "--input GLOB names the run's input" in capsys.readouterr().err
    assert main(["rejected", str(place / "out"), "--to", to, "--input", str(place / "in/a.csv")]) == 0
    assert Path(to).read_text().splitlines() == [HEADER, lines[31]]


def run_of(place: Path, *records: dict[str, Any]) -> str:
    """A run's folder with such rejected rows."""
    folder = place / "run" / "restricted" / "rejected"
    folder.mkdir(parents=True)
    plain = {"reason": "bad_value", "field": "a", "message": "x", "expected": "text", "row": {}}
    data = records_file([plain | record for record in records], rejected_schema(), "x")
    (folder / "x.avro").write_bytes(data)
    return str(place / "run")


def test_one_csv_a_header(tmp_path: Path) -> None:
    """Rows of two headers are two files; a name that is taken is refused, and nothing is written."""
    rows = [
        {"raw": "1", "header": "a", "source": "f", "line": 2},
        {"raw": "1;2", "header": "a;b"},
        {"raw": "3", "header": "a"},
    ]
    output = run_of(tmp_path, *rows, {"reason": "late", "expected": None})
    said = write_rejected(rejected_rows(output), str(tmp_path / "m.csv"))
    assert (tmp_path / "m-1.csv").read_text() == "a\n1\n3\n"
    assert (tmp_path / "m-2.csv").read_text() == "a;b\n1;2\n"
    assert "left out: 1 rows that are not kept as they came" in said
    (tmp_path / "m-1.csv").unlink()
    with pytest.raises(InputError, match="the file is there already"):
        write_rejected(rejected_rows(output), str(tmp_path / "m.csv"))
    assert not (tmp_path / "m-1.csv").exists()


def test_messages_are_written_as_lines_of_json(tmp_path: Path) -> None:
    """A message of several lines is one; asked for CSV, the error names the mend."""
    output = run_of(tmp_path, {"raw": '{"a":\n 1}', "source": "cards/0/7", "line": 7})
    with pytest.raises(InputError, match=r"the rows are JSON; name a FILE.jsonl"):
        write_rejected(rejected_rows(output), str(tmp_path / "m.csv"))
    write_rejected(rejected_rows(output), str(tmp_path / "m.jsonl"))
    assert (tmp_path / "m.jsonl").read_text() == '{"a":  1}\n'
    assert "cards/0/7\n" in render(summarize_rejected(rejected_rows(output)))


def test_values_stay_as_they_came(tmp_path: Path) -> None:
    """Line separators within a string of JSON are no line ends; bytes that are no text have no spelling, and such rows
    are left out and counted."""
    output = run_of(tmp_path, {"raw": '{"a": "x\u2028y\x85z"}', "source": "cards/0/7", "line": 7})
    write_rejected(rejected_rows(output), str(tmp_path / "m.jsonl"))
    assert (tmp_path / "m.jsonl").read_text() == '{"a": "x\u2028y\x85z"}\n'
    foul = tmp_path / "foul"
    output = run_of(foul, {"raw": "1,Zden\ufffdk", "header": "a,b"}, {"raw": "2,Jan", "header": "a,b"})
    said = write_rejected(rejected_rows(output), str(foul / "m.csv"))
    assert (foul / "m.csv").read_text() == "a,b\n2,Jan\n"
    assert "left out: 1 rows with bytes that are no text" in said


def test_rows_that_came_again_count_once(tmp_path: Path) -> None:
    """A part in two files is the same rows."""
    output = run_of(
        tmp_path, {"part": "p", "source": "f", "line": 9}, {"part": "q", "source": "f", "line": 3}
    )
    folder = tmp_path / "run" / "restricted" / "rejected"
    (folder / "y.avro").write_bytes((folder / "x.avro").read_bytes())
    (group,) = summarize_rejected(rejected_rows(output))
    assert (group.rows, group.places) == (2, [("f", 3), ("f", 9)])


def test_older_files_are_read(tmp_path: Path) -> None:
    """Of builds that knew no lines: counted, without a place."""
    folder = tmp_path / "out" / "restricted" / "rejected"
    folder.mkdir(parents=True)
    with (folder / "x.avro").open("wb") as file:
        fastavro.writer(file, REJECTED, [{"reason": "late", "row": {"a": "1"}}])
    (group,) = summarize_rejected(rejected_rows(str(tmp_path / "out")))
    assert (group.reason, group.rows, group.places) == ("late", 1, [])


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the folder that is missing, and a damaged file by its name."""
    assert main(["rejected", str(tmp_path)]) == 2
    assert "has no restricted/rejected; give the --output of a run" in capsys.readouterr().err
    output = run_of(tmp_path)
    assert render(summarize_rejected(rejected_rows(output))) == "no rejected rows"
    (tmp_path / "run/restricted/rejected/y.avro").write_bytes(b"no")
    assert main(["rejected", output]) == 2
    assert "y.avro: not an Avro file, or damaged" in capsys.readouterr().err


def test_how_a_row_leads_back_is_no_part_of_what_it_is() -> None:
    """A file that could not be read again gives the same part, and the row counts once."""
    row = {"reason": "bad_value", "field": "a", "source": "f", "row": {"a": "x"}}
    found = row | {"line": 3, "raw": "x", "header": "a", "expected": "text", "unread": ["a"]}
    assert part_id(RejectedRows("n", (row,))) == part_id(RejectedRows("n", (found,)))
    assert part_id(RejectedRows("n", (row,))) != part_id(RejectedRows("n", (row | {"source": "g"},)))
