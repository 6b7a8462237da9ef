"""Every table that a command prints can be had as JSON, with nothing else beside it on stdout."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.compare import Comparison, Outcome, to_json
from kanonflow.pipelines.commands.forget import Forgotten
from kanonflow.pipelines.options import table
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.pipelines.runs.stream import StreamSummary
from kanonflow.schemas.bound_policy import BoundPolicy
from tests.pass_through import PassThrough

POLICY = """\
version: 1
k: 2
fields:
  age: {role: quasi, type: numeric, as: int}
  job: {role: quasi, type: categorical}
  amount: {role: sensitive}
"""
CSV = "age,job,amount\n30,nurse,1\n31,cook,2\nold,cook,3\n32,cook,4\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy, an input, and a stand-in for the anonymizer."""

    def make(bound: BoundPolicy, secret: object, **_: Any) -> beam.PTransform:
        return PassThrough(bound)

    monkeypatch.setattr(anonymize_files, "kanonymize", make)
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(POLICY)
    Path("in.csv").write_text(CSV)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, Any]:
    """The exit code of a command, and what it printed, read."""
    code = cli.main(command.split())
    return code, json.loads(capsys.readouterr().out)


def test_a_runs_ledger(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was wrong; also of a run that failed, and with --quiet."""
    # What a sample tells before is another test's; here it looks at none of the rows.
    monkeypatch.setattr(anonymize_files, "refuse_misfits", lambda *_: {"age": "age: {as: string}"})
    code, told = printed(capsys, "anonymize --policy p.yaml --input in.csv --output out --json --quiet")
    assert code == 3
    assert (told["rows_read"], told["rows_released"], told["rows_rejected"]) == (4, 3, 1)
    assert (told["rejected"], told["rows_missing"], told["output"]) == ({"bad_value": 1}, 0, "out")
    assert told["problems"][1].startswith("bad_value in age: 1 row (25.0%)")
    assert told["problems"][1].endswith("; would fit: age: {as: string}")


def test_what_a_check_found(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the policy alone, and over an input with its measures."""
    code, told = printed(capsys, "policy check p.yaml --json")
    assert (code, told["policy"], told["k"], told["fits"], told["refused"]) == (0, "p", 2, [], [])
    code, told = printed(capsys, "policy check p.yaml --json --input in.csv")
    assert (code, told["fits"]) == (2, ["in.csv"])
    assert told["refused"][0].startswith("fields.age: 25.0%")
    Path("in.csv").write_text(CSV.replace("old", "33"))
    code, told = printed(capsys, "policy check p.yaml --json --input in.csv")
    assert {"field", "measure", "value", "limit", "verdict"} <= told["payload"][0].keys()
    assert (code == 2) == bool(told["refused"])


def test_what_was_rejected(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object for each reason and field, without a value."""
    policy = POLICY.replace("{role: sensitive}", "{role: sensitive, accept_risk: a test}")
    Path("p.yaml").write_text(policy + "max_rejected: 0.5\n")
    command = "anonymize --policy p.yaml --input in.csv --output out --quiet"
    assert cli.main(command.split()) == 0
    capsys.readouterr()
    code, (told,) = printed(capsys, "rejected out --json")
    assert code == 0
    assert (told["reason"], told["field"], told["rows"]) == ("bad_value", "age", 1)
    assert "old" not in json.dumps(told)


def test_a_streams_ledger() -> None:
    """With its problems, as the exit code has them."""
    told = json.loads(StreamSummary(2, 10, {"gate_refused": 3}).to_json())
    assert (told["releases"], told["rows_released"], told["rejected"]) == (2, 10, {"gate_refused": 3})
    assert len(told["problems"]) == 1


def test_what_a_comparison_found() -> None:
    """An object a setting; what is not known is null."""
    outcome = Outcome("auto", 5, None, "graph", 0.25, None, 1.0, None, 1.5)
    told = json.loads(to_json(Comparison((outcome,), ("magic: no",))))
    assert told["refused"] == ["magic: no"]
    (told,) = told["outcomes"]
    assert (told["method"], told["loss"], told["bound"], told["gap"]) == ("auto", 0.25, None, None)


def test_how_many_were_forgotten() -> None:
    """Numbers only."""
    assert json.loads(Forgotten(3, 1).to_json()) == {"found": 3, "missing": 1}


def test_every_command_with_a_table_has_the_flag() -> None:
    """Those that print something else, a policy or a schema, have none."""
    (commands,) = (
        each for each in table.command_parser()._actions if isinstance(each, argparse._SubParsersAction)
    )
    with_flag = {
        name for name, parser in commands.choices.items() if "--json" in parser._option_string_actions
    }
    assert with_flag == commands.choices.keys() - {"policy", "report"}
