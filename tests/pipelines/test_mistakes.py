"""What people get wrong, one line of a table each: how a command ends, and the words that name field, file and mend.

A mistake is the files that it needs beside ``p.yaml`` and ``in.csv``, a command, its exit code, and words of stderr.
The anonymizer is a stand-in that publishes every row that fits (``pass_through``); reading, casting, judging and
telling are the real ones. To add a mistake, append to ``MISTAKES``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.pipelines.runs.first_look import Measured
from kanonflow.schemas.bound_policy import BoundPolicy
from tests.pass_through import PassThrough

pytestmark = pytest.mark.thorough

POLICY = """\
version: 1
k: 2
window: 1d
cohort: window
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 120]}
  town: {role: quasi, type: categorical}
  amount: {role: sensitive, as: double}
"""
HEADER = "who,when,age,town,amount"
RUN = "anonymize --policy p.yaml --input in.csv --output out --quiet"
VERIFY = "verify --policy p.yaml --input in.csv --release out"
CHECK = "policy check p.yaml"

Content = str | bytes | Callable[[Path], None]
"""Of a file: what stands in it, or what writes it."""


def rows(count: int = 40, bad: int = 0, header: str = HEADER, **cells: str) -> str:
    """A feed of so many rows, of which the first ``bad`` have other cells."""
    lines = [header]
    for number in range(count):
        own = {
            "who": f"p{number % 8}",
            "when": f"2024-03-01 {number % 24:02}:10:00",
            "age": str(20 + number % 50),
            "town": ("Bonn", "Kiel", "Ulm")[number % 3],
            "amount": f"{number}.5",
        }
        lines.append(",".join({**own, **(cells if number < bad else {})}.values()))
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    name: in a few words.     words: each stands in stderr.     files: besides the usual ones, or in their place.
    before: commands that run first, and end as they like.     never: what stands nowhere, for it is a record's value.
    """

    name: str
    command: str
    code: int
    words: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def in_csv(text: str) -> dict[str, Content]:
    """The usual files with another input."""
    return {"in.csv": text}


LOST = "were rejected because they do not fit, and max_rejected is"

OF_LOST_INPUT = [
    Mistake(
        "decimal commas in a third of the rows",
        RUN,
        3,
        (
            f"20 of 60 rows read (33.3%) {LOST} 0.05",
            "unparseable: 20 rows (33.3%); expected as many values as the header names",
            "restricted/rejected",
        ),
        in_csv(rows(60, 20, amount="12,5")),
    ),
    Mistake(
        "decimal commas behind another delimiter",
        f"{RUN} --delimiter ;",
        3,
        ("bad_value in amount: 40 rows (100.0%); expected a number such as 12.5",),
        in_csv(rows(40, 40, amount="12;5").replace(",", "#").replace(";", ",").replace("#", ";")),
        never=("12,5",),
    ),
    Mistake(
        "German dates",
        RUN,
        3,
        (
            f"40 of 40 rows read (100.0%) {LOST} 0.05",
            "bad_value in when: 40 rows (100.0%); expected a time as YYYY-MM-DD HH:MM:SS",
        ),
        in_csv(rows(40, 40, when="31.12.2023")),
        never=("31.12.2023",),
    ),
    Mistake(
        "US dates",
        RUN,
        3,
        ("bad_value in when: 40 rows (100.0%); expected a time as YYYY-MM-DD",),
        in_csv(rows(40, 40, when="12/31/2023")),
        never=("12/31",),
    ),
    Mistake("yymmdd", RUN, 3, ("bad_value in when: 40 rows (100.0%)",), in_csv(rows(40, 40, when="231231"))),
    Mistake(
        "epoch seconds",
        RUN,
        3,
        ("bad_value in when: 40 rows (100.0%)",),
        in_csv(rows(40, 40, when="1703980800")),
    ),
    Mistake(
        "NA for missing numbers",
        RUN,
        3,
        ("bad_value in age: 10 rows (25.0%); expected a whole number of 32 bits such as 12",),
        in_csv(rows(40, 10, age="NA")),
    ),
    Mistake(
        "a dash for missing numbers",
        RUN,
        3,
        ("bad_value in amount: 10 rows (25.0%); expected a number such as 12.5",),
        in_csv(rows(40, 10, amount="-")),
    ),
    Mistake(
        "ages with a fraction",
        RUN,
        3,
        ("bad_value in age: 40 rows (100.0%); expected a whole number",),
        in_csv(rows(40, 40, age="31.5")),
    ),
    Mistake(
        "no number", RUN, 3, ("bad_value in amount: 10 rows (25.0%)",), in_csv(rows(40, 10, amount="NaN"))
    ),
    Mistake(
        "infinite", RUN, 3, ("bad_value in amount: 10 rows (25.0%)",), in_csv(rows(40, 10, amount="inf"))
    ),
    Mistake(
        "2^70 in 32 bits",
        RUN,
        3,
        ("bad_value in age: 10 rows (25.0%); expected a whole number of 32 bits",),
        in_csv(rows(40, 10, age=str(2**70))),
        never=(str(2**70),),
    ),
    Mistake(
        "nobody's rows",
        RUN,
        3,
        ("missing_value in who: 10 rows (25.0%); expected text in every row, for role: individual needs it",),
        in_csv(rows(40, 10, who="")),
    ),
    Mistake(
        "ages beyond the domain",
        RUN,
        3,
        ("outside_domain in age: 10 rows (25.0%); expected a value of its declared domain", "outside: code"),
        in_csv(rows(40, 10, age="1990")),
        never=("1990",),
    ),
    Mistake(
        "torn rows",
        RUN,
        3,
        ("unparseable: 10 rows (25.0%)",),
        in_csv(rows(40).replace(".5\n", ".5,x\n", 10)),
    ),
    Mistake(
        "many faults, none above the limit alone",
        RUN,
        3,
        (
            f"6 of 100 rows read (6.0%) {LOST} 0.05",
            "bad_value in age: 3 rows (3.0%)",
            "unparseable: 3 rows (3.0%)",
        ),
        in_csv(
            rows(100, 3, age="old").replace("97.5", "97.5,x").replace("98.5", "9,8").replace("99.5", "9,9")
        ),
    ),
    Mistake(
        "a share of its own",
        RUN,
        3,
        (f"2 of 100 rows read (2.0%) {LOST} 0.01",),
        {"p.yaml": POLICY + "max_rejected: 0.01\n"} | in_csv(rows(100, 2, age="old")),
    ),
    Mistake("few bad rows are no failure", RUN, 0, (), in_csv(rows(100, 5, age="old"))),
    Mistake(
        "a share that lets everything pass but nothing out",
        RUN,
        3,
        ("none of the 40 rows read was released: bad_value 40",),
        {"p.yaml": POLICY + "max_rejected: 1\n"} | in_csv(rows(40, 40, age="old")),
    ),
    Mistake(
        "a share that is none",
        CHECK,
        2,
        ("max_rejected: must be a share of the rows, from 0 to 1",),
        {"p.yaml": POLICY + "max_rejected: 5%\n"},
    ),
    Mistake(
        "a share in percent",
        CHECK,
        2,
        ("max_rejected: must be a share of the rows, from 0 to 1",),
        {"p.yaml": POLICY + "max_rejected: 5\n"},
    ),
    Mistake(
        "an empty feed is no failure",
        RUN,
        0,
        ("the input holds no rows, so nothing was released; that is no failure",),
        in_csv(HEADER + "\n"),
    ),
    Mistake(
        "verify of nothing",
        VERIFY,
        1,
        (),
        in_csv(HEADER + "\n"),
        before=(RUN,),
    ),
    Mistake(
        "verify of nothing that is to be",
        f"{VERIFY} --allow-empty",
        0,
        (),
        in_csv(HEADER + "\n"),
        before=(RUN,),
    ),
    Mistake("a resume that finds everything there", f"{RUN} --resume", 0, (), before=(RUN,)),
    Mistake(
        "a resume of a run that lost too much",
        f"{RUN} --resume",
        3,
        ("bad_value in age: 40 rows (100.0%)",),
        in_csv(rows(40, 40, age="old")),
        before=(RUN,),
    ),
    Mistake(
        "another output is another run's",
        RUN,
        2,
        ("--resume",),
        before=(RUN,),
    ),
]

OF_FILES = [
    Mistake("no such file", RUN.replace("in.csv", "no*.csv"), 2, ("--input no*.csv: no file matches",)),
    Mistake("a file of 0 bytes", RUN, 2, ("in.csv: the file is empty (0 bytes",), in_csv("")),
    Mistake(
        "a column twice",
        RUN,
        2,
        ("in.csv: the header names a column more than once: age",),
        in_csv(rows(header="who,when,age,town,age")),
    ),
    Mistake(
        "a column without a name",
        RUN,
        2,
        ("in.csv: column 3 of the header has no name",),
        in_csv(rows(header="who,when,,town,amount")),
    ),
    Mistake(
        "a header in another encoding",
        RUN,
        2,
        ("in.csv", "UTF-8"),
        {"in.csv": rows(header="who,when,age,town,Betr\u00e4ge").encode("cp1250")},
    ),
    Mistake(
        "a quote that does not end", RUN, 2, ("in.csv: a quoted value does not end",), in_csv(rows() + '"x')
    ),
    Mistake(
        "a file that is no gzip",
        RUN.replace("in.csv", "in.csv.gz"),
        2,
        ("in.csv.gz: not a gzip file",),
        {"in.csv.gz": rows()},
    ),
    Mistake(
        "a file that is no Avro",
        RUN.replace("in.csv", "in.avro"),
        2,
        ("in.avro: not an Avro file",),
        {"in.avro": rows()},
    ),
    Mistake(
        "a file that is no Parquet",
        RUN.replace("in.csv", "in.parquet"),
        2,
        ("in.parquet: not a Parquet file",),
        {"in.parquet": rows()},
    ),
    Mistake(
        "a kind of file that nobody reads",
        RUN.replace("in.csv", "in.xls"),
        2,
        ("in.xls: unknown kind of file; expected .avro",),
        {"in.xls": rows()},
    ),
    Mistake(
        "two formats",
        f"{RUN} --input in.avro",
        2,
        ("one run reads one format",),
        {"in.avro": rows()},
    ),
    Mistake(
        "a renamed column",
        RUN,
        2,
        ("fields that the input does not have: amount", "input fields without a role: sum"),
        in_csv(rows(header="who,when,age,town,sum")),
    ),
    Mistake(
        "the wrong delimiter",
        f"{RUN} --delimiter ;",
        2,
        ("fields that the input does not have: who",),
    ),
]


def zigzag(number: int) -> bytes:
    """A long as Avro writes it."""
    number, out = (number << 1) ^ (number >> 63), b""
    while number & ~0x7F:
        out, number = out + bytes([(number & 0x7F) | 0x80]), number >> 7
    return out + bytes([number])


def avro(*, records: int, length: int, kind: object = "string", body: bytes = b"") -> bytes:
    """An Avro file of one block that says it has so many records and bytes."""
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": kind} for name in HEADER.split(",")],
    }
    told = json.dumps(schema).encode()
    head = (
        b"Obj\x01"
        + zigzag(1)
        + zigzag(11)
        + b"avro.schema"
        + zigzag(len(told))
        + told
        + zigzag(0)
        + bytes(16)
    )
    return head + zigzag(records) + zigzag(length) + body + bytes(16)


def sparse(size: int, head: bytes = b"") -> Callable[[Path], None]:
    """A file of so many zero bytes, which takes no place on the disk."""

    def write(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, size)

    return write


def letters(size: int) -> Callable[[Path], None]:
    """A file of one line of so many letters."""

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            for _ in range(size >> 20):
                stream.write(b"a," * (1 << 19))

    return write


AVRO = RUN.replace("in.csv", "in.avro").replace("p.yaml", "texts.yaml")
OF_TEXTS = {"texts.yaml": POLICY.replace("role: time", "role: time, as: timestamp")}
LONG_HEADER = "in.csv: the header is longer than 1,048,576 bytes; is this a CSV file?"
DEEP = "p.yaml: 1 mistake in the policy\n  - file: is nested too deeply"

OF_MANNERS = [
    Mistake(
        "a directory",
        RUN.replace("in.csv", "feed"),
        2,
        ("--input feed: a directory; name its files, as in --input 'feed/*.csv'",),
        {"feed/a.csv": rows()},
    ),
    Mistake(
        "a directory to verify",
        VERIFY.replace("in.csv", "."),
        2,
        ("--input .: a directory; name its files",),
        before=(RUN,),
    ),
    Mistake(
        "an output directory with something else in it",
        RUN,
        0,
        ("out also holds what is not of a run and is left as it is: notes.txt",),
        {"out/notes.txt": "mine"},
    ),
    Mistake(
        "a column that Avro has no name for",
        RUN.replace(" --quiet", ""),
        0,
        ("Published under names that Avro takes: salary-class -> salary_class.",),
        {"p.yaml": POLICY.replace("amount", "salary-class")}
        | in_csv(rows(header="who,when,age,town,salary-class")),
    ),
    Mistake(
        "a flag with a letter missing",
        f"{RUN} --delimter ;",
        2,
        ("unknown flag --delimter; did you mean --delimiter?",),
    ),
    Mistake("a flag of another command", f"{RUN} --rewind", 2, ("unknown flag --rewind",)),
    Mistake("an argument too many", f"{RUN} in2.csv", 2, ("unexpected argument in2.csv",)),
    Mistake(
        "a runner by its old name",
        f"{RUN} --runner DirectRunner",
        0,
        ("--runner DirectRunner runs as FnApiRunner",),
    ),
    Mistake(
        "a runner that counts nothing",
        f"{RUN} --runner BundleBasedDirectRunner",
        2,
        ("--runner BundleBasedDirectRunner is refused", "say --runner FnApiRunner"),
    ),
    Mistake(
        "a duration without a length",
        CHECK,
        2,
        (
            "window: must be a whole number and a unit, such as 30s, 10m, 1h, 1d or 1w, or an ISO 8601 duration",
        ),
        {"p.yaml": POLICY.replace("1d", "P1M")},
    ),
    Mistake("a duration as ISO 8601 has it", CHECK, 0, (), {"p.yaml": POLICY.replace("1d", "P1D")}),
]

OF_SIZES = [
    Mistake("a policy 3,000 levels deep", CHECK, 2, (DEEP,), {"p.yaml": "[" * 3000}),
    Mistake("and closed again", CHECK, 2, (DEEP,), {"p.yaml": POLICY + "name: " + "[" * 3000 + "]" * 3000}),
    Mistake(
        "a number of 6,000 digits",
        CHECK,
        2,
        ("p.yaml: 1 mistake in the policy\n  - line 2: not valid YAML: a number of more than 300 digits",),
        {"p.yaml": POLICY.replace("k: 2", "k: " + "9" * 6000)},
    ),
    Mistake(
        "a number that no memory holds",
        CHECK,
        2,
        ("fields.age.domain: must be [low, high], two numbers",),
        {"p.yaml": POLICY.replace("120]", "1e999999999]")},
    ),
    Mistake("a header of 8 MB", RUN, 2, (LONG_HEADER,), {"in.csv": letters(8 << 20)}),
    Mistake("a header of 1.5 GB", RUN, 2, (LONG_HEADER,), {"in.csv": sparse(3 << 29, b"who," * (1 << 19))}),
    Mistake("in an open quote", RUN, 2, (LONG_HEADER,), {"in.csv": sparse(3 << 29, b'"who')}),
    Mistake(
        "verify of such a header",
        VERIFY,
        2,
        (LONG_HEADER,),
        {"in.csv": sparse(3 << 29, b'"who')},
        before=("demo",),
    ),
    Mistake(
        "decimals of 10^9 digits",
        AVRO,
        2,
        ("in.avro: field who: its decimals must have a precision of 1 to 76 digits",),
        OF_TEXTS
        | {
            "in.avro": avro(
                records=0,
                length=0,
                kind={"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 2},
            )
        },
    ),
    Mistake(
        "a block of 2^62 bytes",
        AVRO,
        2,
        ("in.avro: the Avro file is damaged or cut off",),
        OF_TEXTS | {"in.avro": avro(records=1, length=2**62)},
    ),
    Mistake(
        "a block of fewer than no bytes",
        AVRO,
        2,
        ("in.avro: the Avro file is damaged or cut off",),
        OF_TEXTS | {"in.avro": avro(records=1, length=-5)},
    ),
    Mistake(
        "a block of 2^62 records of nothing",
        AVRO,
        2,
        ("in.avro: ",),
        OF_TEXTS | {"in.avro": avro(records=2**62, length=0, kind="null")},
    ),
    Mistake(
        "a header's length of 2^62",
        AVRO,
        2,
        ("in.avro: not an Avro file",),
        OF_TEXTS | {"in.avro": b"Obj\x01" + zigzag(1) + zigzag(2**62) + b"avro.schema"},
    ),
]

MISTAKES = [*OF_LOST_INPUT, *OF_FILES, *OF_SIZES, *OF_MANNERS]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is solved."""

    def make(bound: BoundPolicy, secret: object, **_: Any) -> beam.PTransform:
        return PassThrough(bound)

    monkeypatch.setattr(anonymize_files, "kanonymize", make)
    # What a run says before it begins is test_mistakes_in_data.py's; here the end judges by itself.
    monkeypatch.setattr(anonymize_files, "refuse_misfits", lambda *_: {})
    monkeypatch.setattr(anonymize_files, "measure_payload", lambda *_: Measured(""))


def run(command: str) -> int:
    """The exit code of a command, as a process would have it."""
    try:
        return cli.main(command.split())
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_said(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code, the words, no traceback, no value of a record."""
    monkeypatch.chdir(tmp_path)
    for name, content in ({"p.yaml": POLICY, "in.csv": rows()} | mistake.files).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
    for command in mistake.before:
        run(command)
    capsys.readouterr()
    code = run(mistake.command)
    out, err = capsys.readouterr()
    assert code == mistake.code, err
    for words in mistake.words:
        assert words in err, err
    assert "Traceback" not in out + err
    assert "unexpectedly" not in err
    for value in mistake.never:
        assert value not in out + err


def test_every_mistake_has_a_name_of_its_own() -> None:
    """So that a failing one is found."""
    names = [mistake.name for mistake in MISTAKES]
    assert len(names) == len(set(names))
