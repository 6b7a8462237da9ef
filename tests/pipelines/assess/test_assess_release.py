"""The command: what it writes and where, what it refuses, chains, and what goes on the certificate."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines import cli
from tests.page_checks import SCHEMES, WIDTHS, check_fits, check_keyboard, opened
from tests.pipelines.assess.small_feeds import COLUMNS, FEED, people, write

FIELDS = tuple(name for name in COLUMNS if name not in ("area", "town"))
VISITS = FEED + "max_rejected: 1\n"


def run(folder: Path, name: str, *more: str, output: str = "out") -> int:
    """Anonymize a file of the folder."""
    ask = ["anonymize", "--policy", str(folder / "p.yaml"), "--input", str(folder / name), "--quiet"]
    return cli.main([*ask, "--output", str(folder / output), *more])


def assess(folder: Path, *more: str, output: str = "out", name: str = "in.csv") -> int:
    """Assess what is there."""
    ask = ["assess", str(folder / output), "--policy", str(folder / "p.yaml"), "--input", str(folder / name)]
    return cli.main([*ask, *more])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy, a feed, controls, and what was released of the feed."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "p.yaml").write_text(VISITS)
    write(folder / "in.csv", list(people(420, 1, days=4)), FIELDS)
    write(folder / "others.csv", list(people(420, 2, days=4, first=1000)), FIELDS)
    assert run(folder, "in.csv") == 0
    return folder


def test_it_writes_for_its_owner_only_and_says_so(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Page and figures of 0600 below restricted/, and nothing beside the releases; no value of a record in either."""
    code = assess(ran, "--controls", str(ran / "others.csv"), "--json")
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert code == (1 if figures["above"] else 0)
    assert "about as long as a run" in printed.err
    for name in ("assessment.html", "assessment.json"):
        path = ran / "out" / "restricted" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_text()
        assert not re.search(r"P00\d{4}", text)
        assert "taste 1" not in text
    assert not (ran / "out" / "assessment.json").exists()
    assert json.loads((ran / "out" / "restricted" / "assessment.json").read_text()) == figures
    assert not figures["twin"]


def test_without_controls_half_of_the_people_are(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And it is said."""
    assert assess(ran) in (0, 1)
    printed = capsys.readouterr().out
    assert "No controls were given: half of the 41" in printed
    assert "Singling out" in printed


def test_limits_are_the_policys(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Above one: 1. Above none: 0. With --strict a limit without a figure is 1, too."""
    loose = "assess: {singling_out: 1, linkability: 1, inference: 1, exact_uniqueness: 1}\n"
    (ran / "loose.yaml").write_text(VISITS + loose)
    (ran / "tight.yaml").write_text(VISITS + "assess: {inference: 0}\n")
    few = ran / "few.csv"
    write(few, list(people(100, 2, days=4, first=1000)), FIELDS)
    ask = ["assess", str(ran / "out"), "--input", str(ran / "in.csv")]
    assert cli.main([*ask, "--policy", str(ran / "loose.yaml")]) == 0
    assert cli.main([*ask, "--policy", str(ran / "tight.yaml")]) == 1
    assert cli.main([*ask, "--policy", str(ran / "loose.yaml"), "--controls", str(few)]) == 0
    assert cli.main([*ask, "--policy", str(ran / "loose.yaml"), "--controls", str(few), "--strict"]) == 1
    assert "no figure" in capsys.readouterr().out


def test_what_does_not_belong_together_is_refused(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another policy, another input, controls who are in it: 2, in a sentence with the mend."""
    (ran / "six.yaml").write_text(VISITS.replace("k: 5", "k: 6"))
    ask = ["assess", str(ran / "out"), "--input", str(ran / "in.csv"), "--policy"]
    assert cli.main([*ask, str(ran / "six.yaml")]) == 2
    assert "k is 5 there, not 6" in capsys.readouterr().err
    (ran / "less.yaml").write_text(
        VISITS.replace("  taste: {role: sensitive}", "  taste: {role: identifier}")
    )
    assert cli.main([*ask, str(ran / "less.yaml")]) == 2
    assert "taste" in capsys.readouterr().err
    assert assess(ran, name="others.csv") == 2
    assert "does not hold rows of" in capsys.readouterr().err
    assert assess(ran, "--controls", str(ran / "in.csv")) == 2
    assert "controls are people who are not in the release" in capsys.readouterr().err


def test_the_certificate_tells_it_only_if_the_owner_says_so(ran: Path) -> None:
    """Rounded figures with their intervals; and no longer once the releases are others."""
    page = ran / "out" / "certificate.html"
    assert "What attacks found" not in page.read_text()
    assess(ran, "--controls", str(ran / "others.csv"), "--publish-assessment")
    public = json.loads((ran / "out" / "assessment.json").read_text())
    assert public["people"] == 400
    for line in public["lines"]:
        assert all(round(line[name], 2) == line[name] for name in ("figure", "low", "high"))
    assert "What attacks found" in page.read_text()
    (ran / "out" / "assessment.json").write_text(json.dumps(public | {"people": 417}))
    assert cli.main(["report", str(ran / "out")]) == 2
    (ran / "out" / "assessment.json").write_text(json.dumps(public | {"digest": "0" * 64}))
    assert cli.main(["report", str(ran / "out")]) == 0
    assert "What attacks found" not in page.read_text()


def test_nights_that_continue_each_other_are_assessed_together(tmp_path: Path) -> None:
    """Over the input of both; of one night alone the input of both is not refused, but of the other night it is."""
    (tmp_path / "p.yaml").write_text(VISITS)
    rows = list(people(420, 1, days=4))
    write(tmp_path / "one.csv", [row for row in rows if row["at"] < "2026-03-03"], FIELDS)
    write(tmp_path / "two.csv", [row for row in rows if row["at"] >= "2026-03-03"], FIELDS)
    assert run(tmp_path, "one.csv", output="out1") == 0
    assert run(tmp_path, "two.csv", "--continue", str(tmp_path / "out1"), output="out2") == 0
    ask = ["assess", str(tmp_path / "out1"), str(tmp_path / "out2"), "--policy", str(tmp_path / "p.yaml")]
    assert cli.main([*ask, "--input", str(tmp_path / "one.csv"), "--input", str(tmp_path / "two.csv")]) in (
        0,
        1,
    )
    figures = json.loads((tmp_path / "out2" / "restricted" / "assessment.json").read_text())
    assert {line["question"] for line in figures["lines"] if line["verdict"] == "within"} >= {"singling out"}
    ones = [line for line in figures["lines"] if line["attack"] == "boxes of one person"]
    assert ones[0]["figure"] == 0
    assert cli.main([*ask, "--input", str(tmp_path / "one.csv")]) == 2


@pytest.mark.browser
def test_the_pages_are_readable_in_a_browser(browser: Any, ran: Path) -> None:
    """Assessment and certificate, which have no drawing; on a phone and on a screen, in light and dark, by keyboard."""
    assess(ran, "--controls", str(ran / "others.csv"), "--publish-assessment")
    for page in (ran / "out" / "restricted" / "assessment.html", ran / "out" / "certificate.html"):
        for width in WIDTHS:
            for scheme in SCHEMES:
                with opened(browser, page, width, scheme) as tab:
                    check_fits(tab, width)
                    check_keyboard(tab)
