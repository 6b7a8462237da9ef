"""Mistakes in data, one a row: what ``policy check --input`` and ``anonymize`` end with, and the sentence that mends.

Each sentence names the field or the file, and what to write. No value of a record is in any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kanonflow.pipelines import cli

pytestmark = pytest.mark.thorough

POLICY = """\
version: 1
name: people
k: {k}
{head}fields:
  who: {{role: individual{who}}}
  when: {{role: time{when}}}
  age: {{role: quasi, type: numeric, as: int, domain: [0, 120]{age}}}
  born: {{role: quasi, type: date{born}}}
  town: {{role: quasi, {town}}}
  pay: {{role: sensitive, as: {pay}}}
"""
HEAD = "window: 1d\nmax_delay: 1d\ncohort: window\n"
COLUMNS = ("who", "when", "age", "born", "town", "pay")
TOWNS = ("Brno", "Praha", "Příbram")
ROWS = 240
PLACES: dict[str, str] = {
    "who": "",
    "when": "",
    "age": "",
    "born": "",
    "town": "type: categorical",
    "pay": "double",
}


def row(n: int) -> dict[str, str]:
    """A row that fits: 60 people, two days."""
    person = n % 60
    return {
        "who": f"p{person}",
        "when": f"2024-03-0{1 + n % 2} {n % 24:02}:{n % 60:02}:00",
        "age": str(20 + person % 50),
        "born": f"19{50 + person % 40}-{1 + person % 12:02}-{13 + person % 15:02}",
        "town": TOWNS[person % 3],
        "pay": f"{(n * 37) % 900}.{n % 10}5",
    }


Change = Callable[[int, dict[str, str]], None]


def cells(name: str, spelled: Callable[[int, str], str]) -> Change:
    """A change of every cell of one field."""

    def change(n: int, cell: dict[str, str]) -> None:
        cell[name] = spelled(n, cell[name])

    return change


def some(name: str, word: str, every: int = 4) -> Change:
    """A word in every so many-th cell of a field."""
    return cells(name, lambda n, cell: word if n % every == 0 else cell)


def epoch(n: int, _: str) -> str:
    """Seconds since 1970 on two days of March 2024."""
    return str(1_709_251_200 + (n % 2) * 86_400 + n)


@dataclass(frozen=True)
class Mistake:
    """A file and a policy. change: of every row. write: rows as bytes, by default CSV in UTF-8. says: the sentence of
    both commands; also: of ``policy check`` alone. codes: of ``policy check`` and of ``anonymize``."""

    change: Change | None = None
    says: str = ""
    also: str = ""
    codes: tuple[int, int] = (2, 3)
    k: int = 5
    head: str = HEAD
    fields: tuple[tuple[str, str], ...] = ()
    write: Callable[[list[dict[str, str]]], bytes] | None = None
    flags: tuple[str, ...] = ()


def written(rows: list[dict[str, str]], sign: str = ",", columns: tuple[str, ...] = COLUMNS) -> str:
    """CSV with a header; cells with the sign or a comma in them in quotes."""
    lines = [sign.join(columns)]
    lines += [
        sign.join(f'"{each[name]}"' if sign in each[name] else each[name] for name in columns)
        for each in rows
    ]
    return "\n".join(lines) + "\n"


def torn(rows: list[dict[str, str]]) -> bytes:
    """Every fifth row lacks its last cell."""
    lines = written(rows).splitlines()
    return "\n".join(line.rpartition(",")[0] if n % 5 == 4 else line for n, line in enumerate(lines)).encode()


MISTAKES = {
    "decimal comma": Mistake(
        cells("pay", lambda _, cell: cell.replace(".", ",")),
        r'fields\.pay: .*in\.csv.*a number such as 12\.5.*csv: \{decimal: ","\}',
    ),
    "thousands signs": Mistake(
        cells("pay", lambda _, cell: f"1,{int(float(cell)):03}.50"), r'fields\.pay: .*csv: \{thousands: ","\}'
    ),
    "dd.mm.yyyy": Mistake(
        cells("born", lambda _, cell: ".".join(reversed(cell.split("-")))),
        r'fields\.born: 100.0% of the 240 rows.*in\.csv.*YYYY-MM-DD.*born: \{format: "%d\.%m\.%Y"\}',
    ),
    "US dates": Mistake(
        cells("born", lambda _, cell: "/".join((*cell.split("-")[1:], cell[:4]))),
        r'fields\.born: .*born: \{format: "%m/%d/%Y"\}',
    ),
    "dates that can be both": Mistake(
        cells("born", lambda n, _: f"0{1 + n % 9}/0{1 + n % 7}/1970"),
        r'fields\.born: .*"%d/%m/%Y"\} \(100% of them\); "%m/%d/%Y" reads as many',
    ),
    "yymmdd": Mistake(
        cells("born", lambda _, cell: cell.replace("-", "")[2:]),
        r'fields\.born: .*born: \{format: "%y%m%d"\}',
    ),
    "month names": Mistake(
        cells("born", lambda n, _: f"{1 + n % 28:02}-Mar-19{50 + n % 40}"),
        r'fields\.born: .*born: \{format: "%d-%b-%Y"\}',
    ),
    "epoch seconds": Mistake(cells("when", epoch), r"fields\.when: .*when: \{format: epoch_s\}"),
    "epoch milliseconds": Mistake(
        cells("when", lambda n, cell: epoch(n, cell) + "000"), r"fields\.when: .*when: \{format: epoch_ms\}"
    ),
    "local time zone": Mistake(
        None, also=r"when: its times say no zone and are read as UTC.*timezone:", codes=(0, 0)
    ),
    "local times that are none": Mistake(
        cells("when", lambda n, _: f"2024-03-31 02:{n % 60:02}:00"),
        r"fields\.when: .*when: \{fold: first\}",
        fields=(("when", ", timezone: Europe/Prague"),),
    ),
    "NA": Mistake(some("age", "NA"), r'fields\.age: 25\.0% of the 240 rows.*csv: \{nulls: \["NA"\]\}'),
    "NULL": Mistake(some("pay", "NULL"), r'fields\.pay: .*csv: \{nulls: \["NULL"\]\}'),
    "a hyphen for nothing": Mistake(some("born", "-"), r'fields\.born: .*csv: \{nulls: \["-"\]\}'),
    "NA where text is": Mistake(
        some("town", "NA"),
        also=r'town: 60|town: .* rows have "NA", which is a text here; if it means null',
        codes=(0, 0),
    ),
    "NaN": Mistake(some("pay", "NaN"), r'fields\.pay: .*csv: \{nulls: \["NaN"\]\}'),
    "infinity": Mistake(some("pay", "inf"), r"fields\.pay: 25\.0% .*Expected a number such as 12\.5"),
    "2^70": Mistake(
        some("age", str(2**70)), r"fields\.age: .*a whole number of 32 bits.*as: decimal\(38,0\)"
    ),
    "fractions where whole numbers are due": Mistake(
        cells("age", lambda _, cell: cell + ".5"), r"fields\.age: .*age: \{as: double\}"
    ),
    "ids as 17850.0": Mistake(
        cells("who", lambda n, _: f"{17_850 + n % 60}.0"),
        also=r"who: its values are whole numbers that were written as decimals.*as: long",
        codes=(0, 0),
    ),
    "no individual": Mistake(
        some("who", ""), r"fields\.who: 25\.0% of the 240 rows do not fit \(missing_value\)"
    ),
    "outside of the domain": Mistake(
        some("age", "300"), r"fields\.age: .*\(outside_domain\).*its declared domain"
    ),
    "hierarchy gap": Mistake(
        None,
        r"fields\.town: .*\(outside_domain\).*a value of its hierarchy",
        fields=(("town", "type: hierarchy, hierarchy: [[Brno, CZ], [Praha, CZ]]"),),
    ),
    "cp1250": Mistake(
        None,
        r"in\.csv: .*\(unparseable\).*csv: \{encoding: cp1250\}",
        write=lambda rows: written(rows).encode("cp1250"),
    ),
    "cp1250 in the header": Mistake(
        None,
        r"in\.csv: .*header.*csv: \{encoding: cp125",
        codes=(2, 2),
        write=lambda rows: written(rows).replace("town", "město").encode("cp1250"),
    ),
    "UTF-16": Mistake(
        None,
        r"in\.csv: .*csv: \{encoding: utf-16\}",
        codes=(2, 2),
        write=lambda rows: written(rows).encode("utf-16"),
    ),
    "BOM": Mistake(None, codes=(0, 0), write=lambda rows: written(rows).encode("utf-8-sig")),
    "wrong delimiter": Mistake(
        None,
        r"in\.csv: the header is one column .*by ,.*5 of ;: say csv: \{delimiter: \";\"\}",
        codes=(2, 2),
        write=lambda rows: written(rows, ";").encode(),
        flags=("--delimiter", ","),
    ),
    "a delimiter that nobody guesses": Mistake(
        None,
        r"in\.csv: the header is one column .*csv: \{delimiter: \"\^\"\}",
        codes=(2, 2),
        write=lambda rows: written(rows, "^").encode(),
    ),
    "torn rows": Mistake(
        None, r"in\.csv: 20\.0% .*\(unparseable\).*as many values as the header names", write=torn
    ),
    "duplicate columns": Mistake(
        None,
        r"in\.csv: the header names a column more than once: pay",
        codes=(2, 2),
        write=lambda rows: written(rows, columns=(*COLUMNS, "pay")).encode(),
    ),
    "empty feed": Mistake(None, codes=(0, 0), write=lambda _: (",".join(COLUMNS) + "\n").encode()),
    "empty file": Mistake(None, r"in\.csv: the file is empty", codes=(2, 2), write=lambda _: b""),
    "k above people": Mistake(
        None, also=r"k: is 100, and all of the input has 60 individuals", codes=(2, -1), k=100
    ),
}


def place(folder: Path, mistake: Mistake) -> list[str]:
    """Write file and policy; the flags that name them."""
    rows = [row(n) for n in range(ROWS)]
    for n, each in enumerate(rows):
        if mistake.change is not None:
            mistake.change(n, each)
    data = written(rows).encode() if mistake.write is None else mistake.write(rows)
    (folder / "in.csv").write_bytes(data)
    told = PLACES | dict(mistake.fields)
    (folder / "p.yaml").write_text(POLICY.format(k=mistake.k, head=mistake.head, **told))
    return ["--input", str(folder / "in.csv"), *mistake.flags]


@pytest.mark.parametrize("name", MISTAKES)
def test_policy_check_names_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Field or file, share, expected form and mend; "fits" only when it does."""
    mistake = MISTAKES[name]
    flags = place(tmp_path, mistake)
    assert cli.main(["policy", "check", str(tmp_path / "p.yaml"), *flags]) == mistake.codes[0]
    out, err = capsys.readouterr()
    assert re.search(mistake.says or mistake.also, out + err), out + err
    fits = mistake.codes[0] == 0 or name == "k above people"
    assert (f"fits {tmp_path}" in out.replace("does not fit ", "")) is fits
    hidden = ("p17", "Praha", "17860", str(2**70), "1709251")
    assert not [word for word in hidden if word in out + err]


@pytest.mark.parametrize("name", [name for name, mistake in MISTAKES.items() if mistake.codes[1] > 0])
def test_anonymize_ends_with_it_before_anything_is_there(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same sentence, and no release and no directory; with --resume too."""
    mistake = MISTAKES[name]
    run = ["anonymize", "--policy", str(tmp_path / "p.yaml"), *place(tmp_path, mistake), "--quiet"]
    for more in ((), ("--resume",)):
        assert cli.main([*run, "--output", str(tmp_path / "out"), *more]) == mistake.codes[1]
        err = capsys.readouterr().err
        assert re.search(mistake.says, err), err
        assert not (tmp_path / "out").exists()


def test_what_is_read_is_released(tmp_path: Path) -> None:
    """A mark of the byte order is no mistake, nor are times without a zone: the run ends with 0."""
    flags = place(tmp_path, MISTAKES["BOM"])
    run = ["anonymize", "--policy", str(tmp_path / "p.yaml"), *flags, "--quiet"]
    assert cli.main([*run, "--output", str(tmp_path / "out")]) == 0
    assert list((tmp_path / "out/release").glob("*.avro"))


MENDED = {
    "decimal comma": ('csv: {decimal: ","}\n', ()),
    "dd.mm.yyyy": ("", (("born", ', format: "%d.%m.%Y"'),)),
    "yymmdd": ("", (("born", ", format: '%y%m%d'"),)),
    "epoch seconds": ("", (("when", ", format: epoch_s"),)),
    "NA": ("csv: {nulls: [NA]}\n", ()),
    "cp1250": ("csv: {encoding: cp1250}\n", ()),
    "UTF-16": ("csv: {encoding: utf-16}\n", ()),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_is_proposed_mends_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The policy with the keys that the sentence names fits the file."""
    head, fields = MENDED[name]
    mistake = MISTAKES[name]
    mended = Mistake(mistake.change, k=5, head=HEAD + head, fields=fields, write=mistake.write)
    flags = place(tmp_path, mended)
    assert cli.main(["policy", "check", str(tmp_path / "p.yaml"), *flags]) == 0, capsys.readouterr()
    assert f"fits {tmp_path}" in capsys.readouterr().out
