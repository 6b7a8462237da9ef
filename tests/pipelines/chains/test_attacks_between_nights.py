"""What may happen between two nights of a chain: nothing is out twice, nobody enters twice, and what does not fit is
told before it is written."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.cli import main
from tests.nightly import POLICY, Nights, night_lines, nights_of
from tests.object_store import object_store
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

EPOCH = ("--epoch", "00000000000000ab")
EVENTS = POLICY.replace("  ref: {role: insensitive, accept_risk: made up}", "  ref: {role: event_id}")
SET_BACK = """
import sys
from tests.set_back_clock import set_back
set_back()
from kanonflow.pipelines import cli
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Three nights; the first waits at its end."""
    return nights_of(tmp_path / "place", [night_lines(night) for night in (1, 2, 3)])


def released(nights: Nights, *outputs: str) -> Counter[str]:
    """How often each row was published, by its reference."""
    tables = [read_release(nights.place / output).arrow() for output in outputs]
    return Counter(each for table in tables for each in table.column("ref").to_pylist())


def rejected(nights: Nights, output: str) -> list[dict[str, Any]]:
    """Records of rejected rows."""
    paths = sorted((nights.place / output / "restricted/rejected").glob("*.avro"))
    return [record for path in paths for record in read(path)[1]]


def written(nights: Nights, name: str, lines: Sequence[str]) -> str:
    """A further file of the feed; its name."""
    header = (nights.place / "in/1.csv").read_text().split("\n")[0]
    (nights.place / "in" / name).write_text("\n".join([header, *lines]) + "\n")
    return name


def policy(nights: Nights, text: str) -> None:
    """From now on this one."""
    (nights.place / "policy.yaml").write_text(text)


def test_another_type_of_a_partition_is_refused(tmp_path: Path, capsys: Any) -> None:
    """Shop 07 as text is shop 7 as a number: everybody's partition would have been new, and everybody in it."""
    lines = [[each.replace(",s0,", ",07,") for each in night_lines(night)] for night in (1, 2)]
    nights = nights_of(tmp_path / "place", lines)
    nights.chain(1)
    numbers = "shop: {role: insensitive, as: long, accept_risk: made up}"
    policy(nights, POLICY.replace("shop: {role: insensitive, accept_risk: made up}", numbers))
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 2
    assert "the type of shop in partition_by (string there, long here)" in capsys.readouterr().err
    assert not (nights.place / "out2/release").exists()


@pytest.mark.parametrize("now", ["another", "none", "type"])
def test_another_event_id_is_refused(tmp_path: Path, now: str, capsys: Any) -> None:
    """Its repeats would not be known: yesterday's rows in today's file would have been out twice. Where there was none,
    one may be added."""
    whole = "ref: {role: event_id, as: long}"
    begin = EVENTS.replace("ref: {role: event_id}", whole)
    lines = [
        [re.sub(r",n(\d+)-(\d+)-(\d+)$", r",\1\2\3", each) for each in night_lines(day)] for day in (1, 2)
    ]
    nights = nights_of(tmp_path / "place", lines, begin)
    payload = "{role: insensitive, accept_risk: made up}"
    amount = "amount: {role: event_id}\n  ref: " + payload
    changed = {
        "another": begin[: begin.index("  amount:")] + f"  {amount}\n",
        "none": POLICY,
        "type": EVENTS,
    }[now]
    nights.chain(1)
    policy(nights, changed)
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 2
    assert "the event_id (ref, long there" in capsys.readouterr().err
    assert not (nights.place / "out2/release").exists()


def test_an_event_id_may_be_added(nights: Nights) -> None:
    """What is known from then on."""
    nights.chain(1)
    policy(nights, EVENTS)
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    policy(nights, POLICY)
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 2


@pytest.mark.parametrize("form", ["parquet", "csv.gz", "sorted.csv", "crlf.csv"])
def test_the_last_night_in_other_bytes_is_refused(nights: Nights, form: str, capsys: Any) -> None:
    """Converted, compressed, sorted or with other line ends it says the same rows: they would have been out twice."""
    nights.chain(1)
    header, *lines = (nights.place / "in/1.csv").read_text().splitlines()
    path = nights.place / f"in/again.{form}"
    if form == "parquet":
        types = {"when": pa.timestamp("us"), "age": pa.int64(), "amount": pa.decimal128(9, 2)}
        convert = pyarrow.csv.ConvertOptions(column_types=types)
        table = pyarrow.csv.read_csv(nights.place / "in/1.csv", convert_options=convert)
        when = pc.assume_timezone(table.column("when"), "UTC")
        pq.write_table(table.set_column(table.schema.get_field_index("when"), "when", when), path)
    elif form == "csv.gz":
        path.write_bytes(gzip.compress((nights.place / "in/1.csv").read_bytes()))
    else:
        end = "\r\n" if form == "crlf.csv" else "\n"
        path.write_text(end.join([header, *(sorted(lines) if form == "sorted.csv" else lines)]), newline="")
    assert nights.anonymize(path.name, "out2", "--continue", "@out1") == 2
    assert f"have read the input already: again.{form} (then 1.csv)" in capsys.readouterr().err
    assert not list((nights.place / "out2").glob("release/*"))


@pytest.mark.parametrize("change", ["one more", "one less", "one cell", "two cells change rows"])
def test_other_rows_are_another_file(nights: Nights, change: str, capsys: Any) -> None:
    """A single cell is enough. That rows of a file that is cut otherwise are not known is said before it writes."""
    nights.chain(1)
    one, other, *lines = [each.split(",") for each in night_lines(1)]
    if change == "one more":
        lines.append([*one[:-1], "more"])
    elif change == "one cell":
        other[-2] = "999.99"
    elif change == "two cells change rows":
        one[-2], other[-2] = other[-2], one[-2]
    rows = [other, *lines] if change == "one less" else [one, other, *lines]
    written(nights, "2.csv", [",".join(each) for each in rows])
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert "Without an event_id in the policy only whole files are known" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [(), ("--carry",)], ids=["closing", "carry"])
def test_a_clock_that_is_set_back_changes_nothing(
    nights: Nights, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Nights go by the time of their rows: a machine that wakes in 2023 releases what it would have."""
    straight = nights_of(tmp_path / "straight", [night_lines(night) for night in (1, 2, 3)])
    for each in (straight, nights):
        assert each.anonymize("1.csv", "out1", *EPOCH, *flags) == 0
        if each is nights:
            given = [each.place / name for name in ("policy.yaml", "in/2.csv", "out2", "secret", "out1")]
            names = ("--policy", "--input", "--output", "--secret-file", "--continue")
            told = [str(word) for pair in zip(names, given, strict=True) for word in pair]
            subprocess.run([sys.executable, "-c", SET_BACK, "anonymize", *told, *flags], check=True)
        else:
            assert each.anonymize("2.csv", "out2", "--continue", "@out1", *flags) == 0
        assert each.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    outputs = ("out1", "out2", "out3")
    assert nights.releases(*outputs) == straight.releases(*outputs)
    assert nights.verify("*.csv", *outputs) == 0


def test_a_run_touches_no_other_output_below_its_own(nights: Nights) -> None:
    """An output in the folder of another: what a process there is about to rename is not a leftover of this run."""
    nights.chain(1)
    live = nights.place / "out2/inner/release/.r.avro.0123.tmp"
    live.parent.mkdir(parents=True)
    live.write_bytes(b"half")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert live.read_bytes() == b"half"


def test_a_chain_in_one_bucket_beside_others(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs whose names begin alike: each has its own cohorts, files and carried rows, as on a disk."""
    with object_store(monkeypatch) as store:
        place = nights.place
        for name, (file, flags) in {
            "n1": ("1.csv", (*EPOCH, "--carry")),
            "n11": ("3.csv", ("--epoch", "00000000000000cd", "--carry")),
            "n2": ("2.csv", ("--continue", "gs://bucket/n1")),
        }.items():
            given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in" / file), "--quiet"]
            given += ["--output", f"gs://bucket/{name}", "--secret-file", str(place / "secret")]
            assert main(["anonymize", *given, *flags]) == 0
        for path, content in store.objects.items():
            local = place / path.removeprefix("gs://bucket/").replace("n", "out", 1)
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(content)
        again = ["--continue", "gs://bucket/n1", "--output", "gs://bucket/n3"]
        assert (
            main(["anonymize", *given[:4], *given[5:5], *again, "--secret-file", str(place / "secret")]) == 2
        )
    straight = nights_of(place / "straight", [night_lines(night) for night in (1, 2)])
    assert straight.anonymize("1.csv", "out1", *EPOCH, "--carry") == 0
    assert straight.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert nights.releases("out1", "out2") == straight.releases("out1", "out2")


@pytest.mark.parametrize("flags", [(), ("--carry",)], ids=["closing", "carry"])
def test_partitions_come_and_go(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """A shop that is closed for a night, and one that opens: who was known there is, who waits leaves or goes on."""
    lines = [night_lines(night, shops=3) for night in (1, 2, 3, 4)]
    open_shops = ("s0 s1", "s1 s2", "s0 s2", "s0 s1 s2")
    feed = [
        [each for each in night if any(f",{shop}," in each for shop in shops.split())]
        for night, shops in zip(lines, open_shops, strict=True)
    ]
    nights = nights_of(tmp_path / "place", feed)
    outputs = nights.chain(3, *flags)
    assert nights.anonymize("4.csv", "out4", "--continue", "@out3") == 0
    outputs.append("out4")
    assert set(released(nights, *outputs).values()) == {1}
    ids = Counter(path.name for out in outputs for path in (nights.place / out / "release").glob("[!.]*"))
    assert set(ids.values()) == {1}
    assert nights.verify("*.csv", *outputs) == 0
    if flags:
        assert nights.anonymize("*.csv", "whole") == 0
        assert nights.releases(*outputs) == nights.releases("whole")


@pytest.mark.parametrize("begun", [("--continue", "@out1"), ()], ids=["continued", "new"])
def test_resume_with_another_continue_is_refused(nights: Nights, begun: tuple[str, ...], capsys: Any) -> None:
    """A run that began an epoch does not go on with one, nor one that continues DIR with another: it was taken in
    silence. The same DIR, or none, is fine; so is one that is not there any more."""
    nights.chain(1)
    assert nights.anonymize("3.csv", "other") == 0
    assert nights.anonymize("2.csv", "out2", *begun) == 0
    for directory in ("@other", *(() if begun else ("@out1",))):
        capsys.readouterr()
        assert nights.anonymize("2.csv", "out2", "--resume", "--continue", directory) == 2
        assert "leave --continue out" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out2", "--resume", *begun) == 0
    if begun:
        shutil.rmtree(nights.place / "out1")
        assert nights.anonymize("2.csv", "out2", "--resume", *begun) == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--carry",), "--carry: the run began without it"),
        (("--until", "2024-04-01"), "--until"),
        (("--epoch", "00000000000000cd"), "--epoch"),
        (("--release-format", "parquet"), "--release-format avro goes on"),
        (("--seed", "9"), "is another one"),
        (("--evaluations", "7"), "is another one"),
        (("--second-release",), "--second-release"),
    ],
    ids=lambda each: each[0].strip("-") if isinstance(each, tuple) else "",
)
def test_resume_with_other_flags_is_refused(
    nights: Nights, flags: tuple[str, ...], said: str, capsys: Any
) -> None:
    """Whatever a release depends on is what it was when the run began."""
    nights.chain(1)
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    before = released(nights, "out2")
    capsys.readouterr()
    assert nights.anonymize("2.csv", "out2", "--resume", *flags) == 2
    assert said in capsys.readouterr().err
    assert released(nights, "out2") == before
    policy(nights, POLICY.replace("max_rejected: 1", "max_rejected: 0.9"))  # changes no release
    assert nights.anonymize("2.csv", "out2", "--resume") == 0


def test_people_who_are_forgotten_between_nights(nights: Nights, tmp_path: Path) -> None:
    """Their values are gone from the cohorts, and the next night is what it would have been; the chain is verified."""
    straight = nights_of(tmp_path / "straight", [night_lines(night) for night in (1, 2, 3)])
    (nights.place / "names").write_text("p03\np07\nnobody\n")
    told = ["--individual-file", str(nights.place / "names"), "--secret-file", str(nights.place / "secret")]
    for each in (straight, nights):
        assert each.anonymize("1.csv", "out1", *EPOCH, "--carry") == 0
        if each is nights:
            assert main(["forget", str(nights.place / "out1"), *told]) == 0
        assert each.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
        assert each.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    outputs = ("out1", "out2", "out3")
    assert nights.releases(*outputs) == straight.releases(*outputs)
    gone = [
        row["forgotten"]
        for path in (nights.place / "out3").glob("restricted/cohorts/*/*.people.avro")
        for row in read(path)[1]
    ]
    assert sum(gone) == 2


def test_a_secret_that_is_rotated_between_nights(tmp_path: Path, capsys: Any) -> None:
    """Files, people and events of the time before are known under it; without the one before nothing begins."""
    nights = nights_of(tmp_path / "place", [night_lines(night) for night in (1, 2, 3)], EVENTS)
    nights.chain(1, "--carry")
    before = nights.place / "before"
    (nights.place / "secret").rename(before)
    (nights.place / "secret").write_bytes(bytes(range(60, 100)))
    (nights.place / "secret").chmod(0o600)
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 2
    assert not list((nights.place / "out2").glob("release/*"))
    rotated = ("--previous-secret", f"file:{before}")
    capsys.readouterr()
    assert nights.anonymize("1.csv", "out2", "--continue", "@out1", "--carry", *rotated) == 2
    assert "have read the input already: 1.csv" in capsys.readouterr().err
    again = written(nights, "again.csv", [*night_lines(2), *night_lines(1)[::-1]])
    assert nights.anonymize(again, "out2", "--continue", "@out1", "--carry", *rotated) == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", *rotated) == 0
    repeats = [row for row in rejected(nights, "out2") if row["reason"] == "duplicate_event"]
    assert len(repeats) == len(night_lines(1))
    rows = sum(len(read_release(nights.place / out).arrow()) for out in ("out1", "out2", "out3"))
    gone = sum(len(rejected(nights, out)) for out in ("out1", "out2", "out3"))
    assert rows + gone - len(repeats) == sum(len(night_lines(night)) for night in (1, 2, 3))


@pytest.mark.parametrize("flags", [(), ("--carry",)], ids=["closing", "carry"])
def test_a_night_that_ends_with_too_many_rejected(
    nights: Nights, flags: tuple[str, ...], capsys: Any
) -> None:
    """Exit 3 says so; what is out is out: the next night goes on, takes the mended rows, and refuses the same file."""
    bad = [
        each.replace("2024-03-02", "2024-03-32") if at % 4 == 0 else each
        for at, each in enumerate(night_lines(2))
    ]
    written(nights, "2.csv", bad)
    nights.chain(1, *flags)
    policy(nights, POLICY.replace("max_rejected: 1", "max_rejected: 0.3"))
    ends = nights.anonymize("2.csv", "out2", "--continue", "@out1", *flags)
    assert ends in (0, 3)
    capsys.readouterr()
    assert nights.anonymize("2.csv", "out3", "--continue", "@out2") == 2
    assert "have read the input already" in capsys.readouterr().err
    mended = [each for at, each in enumerate(night_lines(2)) if at % 4 == 0]
    written(nights, "mended.csv", [*mended, *night_lines(3)])
    assert nights.anonymize("mended.csv", "out3", "--continue", "@out2") in (0, 3)
    outputs = ("out1", "out2", "out3")
    assert set(released(nights, *outputs).values()) == {1}
    accounted = len(released(nights, *outputs)) + sum(len(rejected(nights, out)) for out in outputs)
    assert accounted == sum(map(len, (night_lines(1), bad, mended, night_lines(3))))


def test_a_released_night_without_its_end_is_not_continued(nights: Nights, capsys: Any) -> None:
    """It may have rows that wait; --resume makes nothing twice and writes the end, and the chain goes on."""
    nights.chain(1, "--carry")
    (nights.place / "out1/restricted/ended").unlink()
    before = nights.releases("out1")
    capsys.readouterr()
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 2
    assert "go on with it by --resume first" in capsys.readouterr().err
    assert not (nights.place / "out2/release").exists()
    assert nights.anonymize("1.csv", "out1", "--resume") == 0
    assert nights.releases("out1") == before
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert set(released(nights, "out1", "out2").values()) == {1}
