"""A stream wants to see that its payload was measured, under the policy that it runs."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.run_records.payload_check import keep_measured, refuse_unchecked
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.risks.check_record import UncheckedError

POLICY = """\
version: 1
name: p
k: 2
window: 1d
cohort: window
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  pay: {role: sensitive, as: int}
"""


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A policy and a sample of a feed."""
    (tmp_path / "p.yaml").write_text(POLICY)
    lines = [f"p{n},2024-03-01 10:00:00,{20 + n},{n % 3}" for n in range(12)]
    (tmp_path / "in.csv").write_text("who,when,age,pay\n" + "\n".join(lines) + "\n")
    return tmp_path


def check(places: Path, *more: str) -> int:
    """``policy check`` for a stream into ``out``."""
    flags = ["--input", str(places / "in.csv"), "--for", str(places / "out"), *more]
    return cli.main(["policy", "check", str(places / "p.yaml"), *flags])


def test_what_was_measured_is_kept_for_the_stream(places: Path) -> None:
    """Digest, fields, figures and date; nobody else may read it, and no value is in it."""
    assert check(places) == 0
    path = places / "out/restricted/check.json"
    told = json.loads(path.read_text())
    assert {risk["field"] for risk in told["risks"]} == {"pay", "all together"}
    assert {"policy", "policy_name", "measured_at", "rows", "records"} <= told.keys()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    refuse_unchecked(str(places / "out"), read_policy(str(places / "p.yaml")))


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ("k: 3", False),
        ("k: 2\nsolver: {threads: 1}", True),
        ("k: 2\nmax_rejected: 0.2", True),
        ("k: 2\nothers: drop", False),
    ],
)
def test_it_is_of_one_policy(places: Path, changed: str, fits: bool) -> None:
    """But for the solver and the limit of rejected rows, which no payload is measured by."""
    assert check(places) == 0
    (places / "p.yaml").write_text(POLICY.replace("k: 2", changed))
    policy = read_policy(str(places / "p.yaml"))
    if fits:
        refuse_unchecked(str(places / "out"), policy)
        return
    with pytest.raises(UncheckedError, match="of another policy"):
        refuse_unchecked(str(places / "out"), policy)


def test_a_refused_check_keeps_nothing(places: Path) -> None:
    """Nor does one without files."""
    (places / "in.csv").write_text((places / "in.csv").read_text().replace(",2024", ",yesterday 2024"))
    assert check(places) == 2
    assert cli.main(["policy", "check", str(places / "p.yaml"), "--for", str(places / "out")]) == 2
    assert not (places / "out/restricted/check.json").exists()


def test_a_sample_that_tells_nothing_keeps_nothing(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header alone is no measure of payload that will go out for ever."""
    (places / "in.csv").write_text((places / "in.csv").read_text().splitlines()[0] + "\n")
    assert check(places) == 2
    assert "nothing was measured, and nothing is kept" in capsys.readouterr().err
    assert not (places / "out/restricted/check.json").exists()


def test_a_stream_without_one_is_refused(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By name, with both ways on; before a secret, a directory or a job."""
    (places / "feed").mkdir()
    run = ["stream", "--policy", str(places / "p.yaml"), "--source", str(places / "feed")]
    assert cli.main([*run, "--output", str(places / "out")]) == 2
    told = capsys.readouterr().err
    assert f"--for {places}/out" in told
    assert "--unmeasured" in told
    assert not (places / "out").exists()


def test_where_every_risk_is_accepted_there_is_nothing_to_measure(places: Path) -> None:
    """Nobody asks for a check."""
    (places / "p.yaml").write_text(
        POLICY.replace("as: int}\n", "as: int, accept_risk: agreed}\n", 2).replace(
            "type: numeric, as: int, accept_risk: agreed", "type: numeric, as: int"
        )
    )
    refuse_unchecked(str(places / "out"), read_policy(str(places / "p.yaml")))


def test_what_a_run_measured_lets_no_stream_pass(places: Path) -> None:
    """A run over files looks at less than a check does, which refuses what cohorts that last would tell."""
    policy = read_policy(str(places / "p.yaml"))
    path = keep_measured(str(places / "out"), policy, {"rows": 3, "records": 3, "risks": []}, 0)
    assert Path(path).name == "measured.json"
    with pytest.raises(UncheckedError, match="nobody has measured"):
        refuse_unchecked(str(places / "out"), policy)
