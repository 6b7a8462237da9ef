"""People of ``cohort: lasting`` whose rows are in more than one partition: refused, or counted and promised nothing."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from kanonflow.pipelines.cli import main
from tests.page_reading import read_page

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
window: 1d
max_delay: 1d
cohort: lasting
intake: 20
partition_by: [place]
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  place: {role: insensitive}
  amount: {role: sensitive, as: "decimal(9,2)"}
"""
ACCEPTED = POLICY.replace("place: {role: insensitive}", "place: {role: insensitive, accept_risk: a test}")
PEOPLE = 120
PROMISED = "All rows of a person over all releases of this epoch"


def kept(who: int, rng: random.Random) -> str:
    """A place that people keep."""
    return ("web", "shop", "")[who % 3]


def changing(who: int, rng: random.Random) -> str:
    """A place that they do not."""
    return rng.choice(["web", "shop"])


class Nights:
    """Runs over files of one day each; every person has three rows a day."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "secret").write_bytes(bytes(range(7, 47)))
        (folder / "secret").chmod(0o600)
        for name, text in (("policy", POLICY), ("accepted", ACCEPTED)):
            (folder / f"{name}.yaml").write_text(text)

    def write(self, name: str, day: int, place=kept, moved: dict[int, str] | None = None) -> Path:
        """A file of one day. moved: people who are elsewhere in it."""
        rng, path = random.Random(day), self.folder / f"{name}.csv"
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["who", "when", "age", "place", "amount"])
            for who in range(PEOPLE):
                for _ in range(3):
                    where = (moved or {}).get(who, place(who, rng))
                    when = f"2024-03-{day:02} {rng.randrange(24):02}:{rng.randrange(60):02}:00"
                    out.writerow([f"p{who}", when, 18 + who % 60, where, f"{rng.random() * 99:.2f}"])
        return path

    def run(self, source: Path, output: str, *flags: str, policy: str = "policy") -> int:
        """``kanonflow anonymize``; its exit code."""
        given = {
            "policy": self.folder / f"{policy}.yaml",
            "input": source,
            "output": self.folder / output,
            "secret-file": self.folder / "secret",
        }
        return main(
            [
                "anonymize",
                *(part for key, value in given.items() for part in (f"--{key}", str(value))),
                *flags,
            ]
        )

    def releases(self, output: str) -> list[Path]:
        """What was published."""
        return sorted((self.folder / output / "release").glob("[!.]*"))

    def certificate(self, output: str) -> str:
        """The certificate's text."""
        return read_page((self.folder / output / "certificate.html").read_text()).text


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """An empty place."""
    return Nights(tmp_path)


def test_a_field_that_people_do_not_keep_ends_the_run_before_anything_is_published(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """All are in both places: the run says how many people that is, what to do, and publishes nothing."""
    assert nights.run(nights.write("one", 1, changing), "out") == 3
    said = capsys.readouterr().err
    assert "people have rows in more than one partition (partition_by: place)" in said
    assert "accept_risk" in said
    assert not nights.releases("out")
    assert not list((nights.folder / "out/restricted/metrics").iterdir())
    assert nights.run(nights.write("two", 1), "out") == 0, "the directory is not taken by a run that failed"


def test_an_accepted_risk_is_counted_and_takes_the_promise_away(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The closing table says how many, and does not tell of candidates over the epoch; no page promises anything, nor
    after an audit that passed, nor a certificate that is made of public files alone."""
    source = nights.write("one", 1, changing)
    assert nights.run(source, "out", policy="accepted") == 0
    shown = capsys.readouterr().out
    assert "people have rows in more than one partition" in shown
    assert "candidates over the epoch" not in shown
    assert PROMISED not in nights.certificate("out")
    assert "more than one partition" in nights.certificate("out")
    report = read_page((nights.folder / "out/restricted/report.html").read_text()).text
    assert PROMISED not in report
    flags = ["--input", str(source), "--release", str(nights.folder / "out"), "--secret-file"]
    assert (
        main(
            [
                "verify",
                "--policy",
                str(nights.folder / "accepted.yaml"),
                *flags,
                str(nights.folder / "secret"),
            ]
        )
        == 0
    )
    assert PROMISED not in nights.certificate("out")
    assert "more than one partition" in nights.certificate("out")


def test_people_who_keep_their_partition_are_promised_all(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """A partition without a value is one as any other; what is accepted and does not happen takes nothing away."""
    source = nights.write("one", 1)
    for policy in ("policy", "accepted"):
        assert nights.run(source, policy, policy=policy) == 0
        assert "candidates over the epoch 3 or more" in capsys.readouterr().out
        assert PROMISED in nights.certificate(policy)


def test_no_value_is_a_partition(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody with rows in a place and in none is in two partitions."""
    source = nights.write("one", 1)
    with source.open("a") as file:
        file.write("p0,2024-03-01 10:00:00,18,,1.00\n")
    assert nights.run(source, "out") == 3
    assert "1 person has rows in more than one partition" in capsys.readouterr().err


@pytest.mark.parametrize("night", [2, 3])
def test_a_later_night_is_judged_with_all_before_it(
    nights: Nights, night: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One person of the first night, who was not there since, comes elsewhere: that night publishes nothing, under
    accept_risk it is counted, and the night without her is promised all."""
    last = "n1"
    assert nights.run(nights.write("n1", 1), last) == 0
    for day in range(2, night):
        source = nights.write(f"n{day}", day)
        lines = [line for line in source.read_text().splitlines() if not line.startswith("p7,")]
        source.write_text("\n".join([*lines, ""]))
        assert nights.run(source, f"n{day}", "--continue", str(nights.folder / last)) == 0
        assert PROMISED in nights.certificate(f"n{day}")
        last = f"n{day}"
    source = nights.write("moved", night, moved={7: "web"})
    chain = "--continue", str(nights.folder / last)
    capsys.readouterr()
    assert nights.run(source, "moved", *chain) == 3
    assert "1 person has rows in more than one partition" in capsys.readouterr().err
    assert not nights.releases("moved")
    assert nights.run(source, "moved", *chain, policy="accepted") == 0
    assert "1 person has rows in more than one partition" in capsys.readouterr().out
    assert PROMISED not in nights.certificate("moved")


@pytest.mark.parametrize("flags", [(), ("--carry",)])
def test_who_waits_for_an_intake_is_known_to_the_next_night(
    nights: Nights, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who was seen and is in no cohort comes elsewhere the night after: the pool that is carried over, and
    with ``--carry`` the rows, say where it was. What the chain carries is not released before either."""
    assert nights.run(nights.write("n0", 1), "n0", *flags) == 0
    head, *lines = nights.write("n1", 2).read_text().splitlines()
    new = lines[1].replace("p0,", "new,", 1)
    assert new.startswith("new,")
    (nights.folder / "n1.csv").write_text("\n".join([head, *lines, new, ""]))
    chain = "--continue", str(nights.folder / "n0")
    assert nights.run(nights.folder / "n1.csv", "n1", *chain, *flags) == 0
    entered = json.loads((nights.folder / "n1/restricted/run.json").read_text())
    assert entered["continued"]
    moved = new.replace("03-02", "03-03").replace(",web,", ",shop,")
    assert ",shop," in moved
    (nights.folder / "n2.csv").write_text("\n".join([nights.write("n2", 3).read_text().strip(), moved, ""]))
    capsys.readouterr()
    assert nights.run(nights.folder / "n2.csv", "n2", "--continue", str(nights.folder / "n1"), *flags) == 3
    assert "1 person has rows in more than one partition" in capsys.readouterr().err
    assert not nights.releases("n2")


def test_a_run_that_resumes_counts_nobody_twice(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """The same run begun again comes to the same number."""
    source = nights.write("one", 1, moved={4: "web", 5: "web"})
    with source.open("a") as file:
        file.write("p4,2024-03-01 10:00:00,22,shop,1.00\n")
    told = []
    for flags in ((), ("--resume",)):
        assert nights.run(source, "out", "--json", *flags, policy="accepted") == 0
        told.append(json.loads(capsys.readouterr().out)["lasting"])
    assert told[0] == told[1]
    assert any("1 person has rows in more than one partition" in line for line in told[0])
