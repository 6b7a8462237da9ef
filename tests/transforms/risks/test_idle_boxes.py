"""Boxes that lose nothing beside much payload: the check and the run ask whether attributes of people are published."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
from kanonflow.pipelines.commands.policy import check_policy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.risks.idle_boxes import MANY, NOTHING, idle_boxes
from tests.schemas.test_example_policies import FILES

ASKED = "the boxes hide next to nothing: mean loss 0 with 9 payload fields"
PAYLOAD = [f"answer_{number}" for number in range(9)]


def survey(folder: Path, fields: int = 9, regions: int = 1, head: str = "cohort: window") -> list[str]:
    """A survey of 400 people, of which the region alone is quasi-identifying; the arguments of check and run."""
    rng = np.random.default_rng(6)
    who = np.tile(np.arange(400), 3)
    columns = {name: rng.integers(0, 3, who.size) for name in PAYLOAD[:fields]}
    days = np.repeat(np.arange(3), 400) * 86_400_000 + rng.integers(0, 86_400_000, who.size)
    table = pa.table(
        {
            "who": [f"p{each}" for each in who],
            "when": pa.array(days, pa.timestamp("ms")),
            "region": [f"r{each % regions}" for each in who],
            **columns,
        }
    )
    pa.csv.write_csv(table, folder / "survey.csv")
    lines = [
        f"version: 1\nk: 5\nwindow: 1d\nmax_delay: 2d\n{head}\nfields:\n  who: individual\n  when: time",
        "  region: {role: quasi, type: categorical}",
        *(f"  {name}: sensitive" for name in columns),
    ]
    (folder / "p.yaml").write_text("\n".join(lines) + "\n")
    return ["--policy", str(folder / "p.yaml"), "--input", str(folder / "survey.csv")]


@pytest.mark.parametrize("head", ["cohort: window", "protect: row", "cohort: lasting"])
def test_check_and_run_ask_and_refuse_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str
) -> None:
    """Whatever is protected; with the fields' names, in text and for programs."""
    given = survey(tmp_path, head=head)
    assert cli.main(["policy", "check", *given]) == 0
    told = capsys.readouterr().out
    assert ASKED in told
    assert f"({', '.join(PAYLOAD)}): are attributes of people among them?" in told
    assert cli.main(["anonymize", *given, "--output", str(tmp_path / "out")]) == 0
    assert ASKED in capsys.readouterr().err


def test_programs_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a note of the run, which counts as done."""
    given = survey(tmp_path)
    assert cli.main(["anonymize", *given, "--output", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["problems"], told["gcp"]) == ([], 0.0)
    assert [note[: len(ASKED)] for note in told["notes"]] == [ASKED]


@pytest.mark.parametrize(("fields", "regions"), [(MANY - 1, 1), (9, 300)])
def test_few_fields_and_boxes_that_lose_are_not_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: int, regions: int
) -> None:
    """Four fields of a booking are usual; and what a region of two people loses is something."""
    given = survey(tmp_path, fields, regions)
    assert cli.main(["policy", "check", *given]) == 0
    assert cli.main(["anonymize", *given, "--output", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert "next to nothing" not in told.out + told.err


def test_the_rule() -> None:
    """Up to a thousandth of loss, from five fields on that nobody answers for."""
    fields = {"region": {"role": "quasi", "type": "categorical"}, **dict.fromkeys("abcde", "sensitive")}
    written = {"version": 1, "k": 5, "fields": fields}
    policy = parse_policy(written, "p", "p")
    assert idle_boxes(NOTHING, policy) is not None
    assert idle_boxes(None, policy) is None
    assert idle_boxes(0.0011, policy) is None
    answered = {**fields, "a": {"role": "sensitive", "accept_risk": "agreed"}}
    assert idle_boxes(0.0, parse_policy({**written, "fields": answered}, "p", "p")) is None


def test_our_policy_of_the_demo_is_not_asked(tmp_path: Path) -> None:
    """Over the feed that the demo makes."""
    feed = write_feed(FeedShape(rows=4_000, days=5, seed=1), tmp_path)
    with resources.as_file(resources.files("kanonflow.policies") / "transactions.yaml") as path:
        check = check_policy(str(path), [str(feed)])
    assert check.figures is not None
    assert "next to nothing" not in check.text


@pytest.mark.data
@pytest.mark.skipif("KANONFLOW_DATA" not in os.environ, reason="needs KANONFLOW_DATA")
@pytest.mark.parametrize("name", FILES)
def test_our_policies_are_not_asked(name: str) -> None:
    """Over the data that they are for."""
    file, delimiter = FILES[name]
    with resources.as_file(resources.files("kanonflow.policies") / f"{name}.yaml") as path:
        check = check_policy(str(path), [str(Path(os.environ["KANONFLOW_DATA"]) / file)], delimiter)
    assert check.figures is not None
    assert "next to nothing" not in check.text
