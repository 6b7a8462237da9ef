"""The condition that cohorts that last rest on (``test_swap``), over nights of the command: a night that is killed and
resumed, and a night that is released once more on purpose."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.cli import main
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.secret.seeds import Secret, people_key
from tests.nightly import PEOPLE, Nights, night_lines, nights_of
from tests.pipelines.audit.good_runs import read
from tests.swapped_feeds import metrics_shown

pytestmark = pytest.mark.thorough

EPOCH = ("--epoch", "0123456789abcdef")
NIGHTS = 3
DYING = """
import sys
from kanonflow.pipelines import cli
from tests.pipelines.runs.killed_runs import dying_at
sys.exit(dying_at(int(sys.argv[1]), lambda: cli.main(sys.argv[2:]))())
"""
Course = Callable[[Nights], list[str]]


def late_lines(night: int) -> list[str]:
    """Rows of a night, and some of the days before that come only then."""
    rng = random.Random(100 + night)
    before = [each for earlier in range(1, night) for each in night_lines(earlier)]
    late = [f"{each.rpartition(',')[0]},late{night}-{each.rpartition(',')[2]}" for each in before]
    return [*night_lines(night), *rng.sample(late, len(late) // 8)]


def feed() -> list[list[str]]:
    """The lines of each night."""
    return [late_lines(night) for night in range(1, NIGHTS + 1)]


def exchanged(lines: list[list[str]], one: str, other: str) -> list[list[str]]:
    """The feed in which each of two people has the rows of the other."""
    cells = {row[0]: (row[0], *row[2:4]) for night in lines for row in [each.split(",") for each in night]}
    owner = {one: cells[other], other: cells[one]}

    def given(line: str) -> str:
        who, when, age, job, *payload = line.split(",")
        who, age, job = owner.get(who, (who, age, job))
        return ",".join([who, when, age, job, *payload])

    return [[given(each) for each in night] for night in lines]


def pair_of_a_cohort(nights: Nights, output: str) -> tuple[str, str]:
    """Two people who entered together, the second one not in the first night's cohorts alone if that can be."""
    names = [f"p{who:02}" for who in range(PEOPLE + 2 * NIGHTS)]
    secret = Secret.from_file(str(nights.place / "secret"))
    known = dict(zip(person_digests(names, people_key(secret)).tolist(), names, strict=True))
    cohorts: dict[tuple[str, int], list[str]] = defaultdict(list)
    for path in (nights.place / output).glob("restricted/cohorts/*/*.people.avro"):
        for row in read(path)[1]:
            cohorts[path.name, row["cohort"]].append(known[row["person"] % (1 << 64)])
    _, people = max(cohorts.items(), key=lambda each: each[0])
    return people[0], people[1]


def shown(nights: Nights, outputs: list[str]) -> list[Any]:
    """All that is published or kept of nights, but whose rows they are."""
    found: list[Any] = []
    for output in (nights.place / name for name in outputs):
        for path in sorted((output / "release").glob("[!.]*")):
            groups: dict[int, list[str]] = defaultdict(list)
            for row in read(path)[1]:
                groups[row.pop("class_id")].append(repr(sorted(row.items())))
            found.append((output.name, path.name, sorted(sorted(rows) for rows in groups.values())))
        metrics = [row for path in output.glob("restricted/metrics/*.avro") for row in read(path)[1]]
        found.append(sorted(repr(sorted(metrics_shown(row).items())) for row in metrics))
        rejected = [row for path in output.glob("restricted/rejected/*.avro") for row in read(path)[1]]
        found.append(sorted(f"{row['reason']} {row['window_end']} {row['row']['ref']}" for row in rejected))
        segments = sorted(output.glob("restricted/cohorts/*/*.people.avro"))
        found.append([sorted(row["cohort"] for row in read(path)[1]) for path in segments])
    return found


def references(nights: Nights, outputs: list[str]) -> list[str]:
    """Of all rows that were released or rejected."""
    found = []
    for output in (nights.place / name for name in outputs):
        found += [row["ref"] for path in (output / "release").glob("[!.]*") for row in read(path)[1]]
        rejected = [row for path in output.glob("restricted/rejected/*.avro") for row in read(path)[1]]
        found += [row["row"]["ref"] for row in rejected]
    return sorted(found)


def killed_in_the_middle(*flags: str) -> Course:
    """Three nights, the second of which dies before its first release has a name, and later once more."""

    def course(nights: Nights) -> list[str]:
        place = nights.place
        assert nights.anonymize("1.csv", "out1", *EPOCH, *flags) == 0
        second = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in" / "2.csv")]
        second += ["--output", str(place / "out2"), "--secret-file", str(place / "secret"), "--quiet"]
        begun = [["--continue", str(place / "out1"), *flags], ["--resume"]]
        # A partition's copied cohorts are files, too.
        for operation, how in zip((13, 5), begun, strict=True):
            command = [sys.executable, "-c", DYING, str(operation), "anonymize", *second, *how]
            died = subprocess.run(command, capture_output=True, text=True, check=False)
            assert died.returncode == -signal.SIGKILL, died.stderr
            assert not (place / "out2" / "restricted" / "ended").exists()
        assert main(["anonymize", *second, "--resume"]) == 0
        assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
        return ["out1", "out2", "out3"]

    return course


def undisturbed(*flags: str) -> Course:
    """Three nights."""

    def course(nights: Nights) -> list[str]:
        assert nights.anonymize("1.csv", "out1", *EPOCH, *flags) == 0
        assert nights.anonymize("2.csv", "out2", "--continue", "@out1", *flags) == 0
        assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
        return ["out1", "out2", "out3"]

    return course


def released_once_more(*flags: str) -> Course:
    """Three nights; the first file is fed again, refused, and released a second time on purpose."""

    def course(nights: Nights) -> list[str]:
        place = nights.place
        assert nights.anonymize("1.csv", "out1", *EPOCH, *flags) == 0
        assert nights.anonymize("1.csv", "out2", "--continue", "@out1", *flags) == 2
        again = (place / "policy.yaml").read_text().replace("name: nights", "name: again")
        (place / "again.yaml").write_text(again)
        given = ["--policy", str(place / "again.yaml"), "--input", str(place / "in" / "1.csv")]
        given += ["--output", str(place / "out1"), "--secret-file", str(place / "secret"), "--quiet"]
        assert main(["anonymize", *given, "--second-release"]) == 0
        assert nights.anonymize("2.csv", "out2", "--continue", "@out1", *flags) == 0
        assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
        return ["out1", "out2", "out3"]

    return course


@pytest.mark.parametrize("flags", [(), ("--carry",)], ids=["closing", "carry"])
@pytest.mark.parametrize("disturbed", [killed_in_the_middle, released_once_more])
def test_exchanging_two_trails_shows_nothing_over_disturbed_nights(
    tmp_path: Path, disturbed: Callable[..., Course], flags: tuple[str, ...]
) -> None:
    """(S), and the chain shows what one that nothing happened to shows: no row twice, none lost, both audits pass."""
    lines, course = feed(), disturbed(*flags)
    nights = nights_of(tmp_path / "as it was", lines)
    outputs = course(nights)
    quiet = nights_of(tmp_path / "quiet", lines)
    assert shown(quiet, undisturbed(*flags)(quiet)) == shown(nights, outputs)
    other = nights_of(tmp_path / "exchanged", exchanged(lines, *pair_of_a_cohort(nights, "out3")))
    assert shown(other, course(other)) == shown(nights, outputs)
    assert references(nights, outputs) == sorted(each.rpartition(",")[2] for night in lines for each in night)
    for night, output in enumerate(outputs, 1):
        assert nights.verify(f"{night}.csv", output) == 0
    assert nights.verify("*.csv", *outputs) == 0


def test_across_cohorts_an_exchange_shows_over_nights(tmp_path: Path) -> None:
    """A control: two people of different cohorts of the first night."""
    lines, course = feed(), undisturbed()
    nights = nights_of(tmp_path / "as it was", lines)
    outputs = course(nights)
    other = nights_of(tmp_path / "exchanged", exchanged(lines, "p00", pair_of_two_cohorts(nights)))
    assert shown(other, course(other)) != shown(nights, outputs)


def pair_of_two_cohorts(nights: Nights) -> str:
    """Somebody who is in another cohort than the first person."""
    lines = [each.split(",") for each in (nights.place / "in" / "1.csv").read_text().splitlines()[1:]]
    ages = {who: (int(age), job) for who, _, age, job, *_ in lines}
    return max(ages, key=lambda who: abs(ages[who][0] - ages["p00"][0]))


def test_what_a_chain_tells_once_its_first_night_was_released_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nights that go on from it promise nothing either: they hold the same people, and the releases of both epochs
    together leave fewer candidates. Also where the second release came when they were there already."""
    lines = feed()
    for name in ("before", "after"):
        nights = nights_of(tmp_path / name, lines)
        if name == "before":
            outputs = released_once_more()(nights)
        else:
            outputs = undisturbed()(nights)
            again = (nights.place / "policy.yaml").read_text().replace("name: nights", "name: again")
            (nights.place / "again.yaml").write_text(again)
            given = ["--policy", str(nights.place / "again.yaml"), "--quiet", "--second-release"]
            given += ["--input", str(nights.place / "in" / "1.csv"), "--output", str(nights.place / "out1")]
            assert main(["anonymize", *given, "--secret-file", str(nights.place / "secret")]) == 0
        for night, output in enumerate(outputs, 1):
            capsys.readouterr()
            assert nights.verify(f"{night}.csv", output) == 0
            assert "released again" in capsys.readouterr().out, f"{name}: {output}"
            page = (nights.place / output / "certificate.html").read_text()
            assert "THE PROMISE IS LOST" in page, f"{name}: {output}"
            verdict = json.loads((nights.place / output / "verdict.json").read_text())
            assert verdict["second_release"], f"{name}: {output}"
