"""Whole runs of cohorts that last whose windows are split by a field of rows (``split_by``)."""

from __future__ import annotations

import csv
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from kanonflow.pipelines.cli import main
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.lineage.release_lineage import slot_from_bytes
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.secret.seeds import Secret
from tests.page_reading import read_page
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
window: 1d
max_delay: 1d
cohort: lasting
intake: 20
split_by: [channel]
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  amount: {role: sensitive, as: "decimal(9,2)"}
  channel: {role: insensitive}
"""
WHOLE = POLICY.replace("split_by: [channel]\n", "")
PEOPLE, DAYS = 90, 4
CHANNELS = ("web", "app", "shop", "")


def write(path: Path, days: range) -> Path:
    """Rows of some days: everybody has three a day, by any channel; few by the last two, by one of them hardly any."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["who", "when", "age", "channel", "amount"])
        for day in days:
            rng = random.Random(day)
            for who in range(PEOPLE):
                for _ in range(3):
                    channel = rng.choices(CHANNELS, (0.6, 0.34, 0.05, 0.01))[0]
                    when = f"2024-03-{day:02} {rng.randrange(24):02}:{rng.randrange(60):02}:00"
                    out.writerow([f"p{who}", when, 18 + who % 60, channel, f"{rng.random() * 99:.2f}"])
    return path


class Runs:
    """Runs under one policy and secret."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "secret").write_bytes(bytes(range(7, 47)))
        (folder / "secret").chmod(0o600)
        (folder / "policy.yaml").write_text(POLICY)

    def flags(self) -> list[str]:
        """Of every command."""
        return ["--policy", str(self.folder / "policy.yaml"), "--secret-file", str(self.folder / "secret")]

    def run(self, source: Path, output: str, *flags: str) -> int:
        """``kanonflow anonymize``; its exit code."""
        return main(
            [
                "anonymize",
                *self.flags(),
                "--input",
                str(source),
                "--output",
                str(self.folder / output),
                *flags,
            ]
        )

    def verify(self, source: Path, output: str) -> int:
        """``kanonflow verify``; its exit code."""
        return main(["verify", *self.flags(), "--input", str(source), "--release", str(self.folder / output)])

    def releases(self, output: str) -> list[list[dict[str, Any]]]:
        """The rows of each release."""
        return [read(path)[1] for path in sorted((self.folder / output / "release").glob("[!.]*"))]

    def segments(self, output: str) -> list[Path]:
        """The files of who entered."""
        return sorted((self.folder / output / "restricted/cohorts").glob("*/*.people.avro"))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """An empty place."""
    return Runs(tmp_path)


def test_a_run_over_files_passes_its_audit(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """A release has one channel, a window several releases, few people wait; the first of a window brings who enters,
    and the certificate promises all of it."""
    source = write(runs.folder / "feed.csv", range(1, DAYS + 1))
    assert runs.run(source, "out", "--matching-records") == 0
    table = capsys.readouterr().out
    assert "more than one partition" not in table
    releases = runs.releases("out")
    assert all(len({row["channel"] for row in rows}) == 1 for rows in releases)
    assert {rows[0]["channel"] for rows in releases} >= {"web", "app", "shop"}
    assert len(releases) > 2 * DAYS
    assert sum(map(len, releases)) > 0.95 * 3 * PEOPLE * DAYS
    places = (runs.folder / "out/restricted/slots").glob("*/*/*")
    slots = sorted((slot_from_bytes(path.read_bytes()) for path in places), key=lambda slot: slot.place)
    assert len({slot.partition for slot in slots}) == 1
    assert len({slot.place for slot in slots}) == len(slots)
    entered = [slot for slot in slots if slot.roster and slot.roster.entered]
    assert len(entered) == len(runs.segments("out")) > 0
    for slot in entered:
        assert slot.part == min(each.part for each in slots if each.window_end == slot.window_end)
    for earlier, later in pairwise(slots):
        assert earlier.claim in later.built_on
    assert runs.verify(source, "out") == 0
    page = read_page((runs.folder / "out/certificate.html").read_text()).text
    assert "All rows of a person over all releases of this epoch" in page


def test_a_run_that_is_repeated_makes_the_same_releases(runs: Runs) -> None:
    """After half of the releases of a run are lost; who entered stays."""
    source = write(runs.folder / "feed.csv", range(1, DAYS + 1))
    assert runs.run(source, "out") == 0
    place = runs.folder / "out/release"
    before = {path.name: path.read_bytes() for path in place.glob("[!.]*")}
    for name in sorted(before)[::2]:
        (place / name).unlink()
    segments = {path: path.read_bytes() for path in runs.segments("out")}
    assert runs.run(source, "out", "--resume") == 0
    assert {path.name: path.read_bytes() for path in place.glob("[!.]*")} == before
    assert {path: path.read_bytes() for path in runs.segments("out")} == segments
    assert runs.verify(source, "out") == 0


@pytest.mark.parametrize(("carry", "began"), [((), POLICY), (("--carry",), POLICY), (("--carry",), WHOLE)])
def test_a_chain_goes_on_with_the_cohorts(runs: Runs, carry: tuple[str, ...], began: str) -> None:
    """Two nights: nobody enters twice, and each passes its audit; also where the first was not split."""
    first, second = (write(runs.folder / f"{day}.csv", range(day, day + 2)) for day in (1, 3))
    (runs.folder / "policy.yaml").write_text(began)
    assert runs.run(first, "one", *carry) == 0
    assert runs.verify(first, "one") == 0
    (runs.folder / "policy.yaml").write_text(POLICY)
    assert runs.run(second, "two", "--continue", str(runs.folder / "one")) == 0
    assert len(runs.releases("two")) > 2
    assert runs.verify(second, "two") == 0
    assert len(runs.segments("two")) >= len(runs.segments("one")) > 0


def test_a_table_in_memory_has_the_releases_of_the_run(runs: Runs) -> None:
    """Row for row, window for window."""
    source = write(runs.folder / "feed.csv", range(1, DAYS + 1))
    assert runs.run(source, "out") == 0
    table = pyarrow.csv.read_csv(source, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))
    texts = table.cast(pyarrow.schema([(name, pyarrow.string()) for name in table.column_names]))
    made = anonymize_table(texts, load_policy(runs.folder / "policy.yaml"), secret(runs), text=True)
    own = sorted((row["channel"] or "", str(row["amount"])) for row in made.released.to_pylist())
    theirs = sorted(
        (row["channel"] or "", str(row["amount"])) for rows in runs.releases("out") for row in rows
    )
    assert own == theirs
    by_release: dict[str, set[str | None]] = {}
    for row in made.released.to_pylist():
        by_release.setdefault(row["release_id"], set()).add(row["channel"])
    assert {len(channels) for channels in by_release.values()} == {1}


def secret(runs: Runs) -> Secret:
    """That of the runs."""
    return Secret((runs.folder / "secret").read_bytes())


def test_check_tells_what_it_costs(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """How many parts have too few people, and how many rows wait for that; and who parts the feed by it hears of it."""
    source = write(runs.folder / "feed.csv", range(1, DAYS + 1))
    main(["policy", "check", str(runs.folder / "policy.yaml"), "--input", str(source)])
    told = capsys.readouterr().out
    assert "parts of windows (split_by: channel) with fewer than 3 people:" in told
    (runs.folder / "policy.yaml").write_text(POLICY.replace("split_by", "partition_by"))
    assert main(["policy", "check", str(runs.folder / "policy.yaml"), "--input", str(source)]) != 0
    assert "Say split_by in the place of partition_by" in capsys.readouterr().err
    assert runs.run(source, "parted") == 3
    assert "Say split_by in the place of partition_by" in capsys.readouterr().err
