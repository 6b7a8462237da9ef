"""Nights that an older build made, before runs of a chain had places: judged, exported, and gone on from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.cli import main
from tests.old_chains import old_chains

pytestmark = pytest.mark.thorough


@pytest.fixture
def chains(tmp_path: Path) -> Path:
    """The chains of two nights."""
    return old_chains(tmp_path)


def verify(chains: Path, chain: str, nights: str, *outputs: str, secret: bool = True) -> int:
    """The command over some outputs of a chain, and the input of so many nights."""
    given = [
        "--policy",
        str(chains / chain / "policy.yaml"),
        "--input",
        str(chains / "in" / f"[{nights}].csv"),
    ]
    given += ["--secret-file", str(chains / "secret")] if secret else []
    return main(["verify", *given, "--release", *(str(chains / chain / output) for output in outputs)])


def go_on(chains: Path, chain: str, *flags: str) -> int:
    """The third night, by this build."""
    given = ["--policy", str(chains / chain / "policy.yaml"), "--input", str(chains / "in" / "3.csv")]
    given += ["--output", str(chains / chain / "out3"), "--continue", str(chains / chain / "out2")]
    return main(["anonymize", *given, "--secret-file", str(chains / "secret"), *flags])


def ids(output: Path) -> set[str]:
    return {path.stem for path in (output / "release").iterdir()}


@pytest.mark.parametrize("secret", [True, False])
def test_old_nights_that_were_right_pass(
    chains: Path, secret: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by itself, both as a whole, and the one run over both nights; with the secret and without."""
    for night in "12":
        assert verify(chains, "waits", night, f"out{night}", secret=secret) == 0
    assert verify(chains, "waits", "12", "whole", secret=secret) == 0
    capsys.readouterr()
    assert verify(chains, "waits", "12", "out1", "out2", secret=secret) == 0
    out, err = capsys.readouterr()
    assert "runs of the chain                            2" in out
    assert "no verdict is kept of several runs" in err


def test_outputs_are_given_as_the_others_are(chains: Path) -> None:
    """``verify OUT1 OUT2 --policy P --input I``, as export takes them."""
    outputs = [str(chains / "waits" / name) for name in ("out1", "out2")]
    given = ["--policy", str(chains / "waits" / "policy.yaml"), "--input", str(chains / "in" / "[12].csv")]
    assert main(["verify", *outputs, *given]) == 0
    assert main(["verify", *given, *outputs[:0]]) == 2
    assert main(["verify", outputs[0], outputs[0], *given]) == 2


def test_two_releases_of_one_id_are_told_as_such(chains: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first night is right. The second and both together are not, and nothing else is said to be wrong."""
    assert verify(chains, "collides", "1", "out1") == 0
    (shared,) = ids(chains / "collides" / "out1") & ids(chains / "collides" / "out2")
    for nights, outputs, says in (
        ("2", ["out2"], "1 releases have the id of a release of an earlier run: two releases, one id"),
        ("12", ["out1", "out2"], "1 ids stand for a release of two runs"),
    ):
        capsys.readouterr()
        assert verify(chains, "collides", nights, *outputs) == 1
        out = capsys.readouterr().out
        assert says in out
        assert f"(release {shared})" in out
        assert "people_entered" not in out


def test_both_releases_of_one_id_are_exported(chains: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None is lost, and the command says that the id does not tell them apart; a directory given twice is refused."""
    outputs = [str(chains / "collides" / name) for name in ("out1", "out2")]
    rows = sum(len((chains / "in" / f"{night}.csv").read_text().splitlines()) - 1 for night in (1, 2))
    assert len(read_release(*outputs)) == rows
    assert main(["export", *outputs, "--to", "csv", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == rows
    assert "1 release ids stand for two releases each" in err
    assert main(["export", *outputs, outputs[0], "--to", "csv"]) == 2
    waits = [str(chains / "waits" / name) for name in ("out1", "out2")]
    assert main(["export", *waits, "--to", "parquet"]) == 0
    assert "release ids" not in capsys.readouterr().err


@pytest.mark.parametrize("chain", ["waits", "collides"])
@pytest.mark.parametrize("carry", [False, True])
def test_a_third_night_goes_on_from_old_ones(
    chains: Path, chain: str, carry: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their epoch, under ids of its own, though it releases the window that the second released at its end; the
    night passes by itself, and so do all that were right together. Of what kind the ids of people are, the old ones did
    not write down: it is asked for once, before anything is written."""
    asked = ["--carry"] if carry else []
    out = chains / chain / "out3"
    assert go_on(chains, chain, *asked) == 2
    assert "--individual-type" in capsys.readouterr().err
    assert not (out / "release").exists()
    assert not (chains / chain / "out2" / "restricted" / "continued_by.json").exists()
    assert go_on(chains, chain, *asked, "--individual-type", "string") == 0
    records = [
        json.loads((out.parent / name / "restricted/run.json").read_text()) for name in ("out2", "out3")
    ]
    assert records[0]["epoch"] == records[1]["epoch"]
    assert ids(out)
    assert not ids(out) & (ids(out.parent / "out1") | ids(out.parent / "out2"))
    assert verify(chains, chain, "3", "out3") == 0
    if chain == "waits":
        assert verify(chains, chain, "123", "out1", "out2", "out3") == 0
        assert verify(chains, chain, "23", "out2", "out3") == 0
