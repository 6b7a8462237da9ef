"""What stands in the name of a folder is a name: an output ``out[1]`` is no glob, for runs, chains and the audit."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.feeds.stored_files import matching_files
from kanonflow.transforms.files import storage
from tests.nightly import Nights, night_lines, nights_of
from tests.simulation.store import Store, serving

pytestmark = pytest.mark.thorough

NAMES = ("nights[3]", "nights?", "night*", "[a]", "a b #1%41", "$x'\"", "[", "nächte")
NIGHTS = 3


def chained(place: Path) -> tuple[Nights, list[str]]:
    """A chain in a folder, with an input by a glob below it."""
    nights = nights_of(place, [night_lines(night) for night in range(1, NIGHTS + 1)])
    return nights, nights.chain(NIGHTS)


def written(nights: Nights, output: str) -> tuple[int, list[str]]:
    """How many releases a run has, and the files of its cohorts."""
    folder = nights.place / output
    cohorts = sorted(path.name for path in (folder / "restricted" / "cohorts").rglob("*.avro"))
    return len(list((folder / "release").iterdir())), cohorts


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_knows_its_people_whatever_its_folder_is_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In out[1] the next night found nobody, and put everybody into a second cohort of the epoch, without a word."""
    beside = tmp_path / "nights3"
    beside.mkdir()
    (beside / "in").mkdir()
    (beside / "in" / "1.csv").write_text("who,when\n")
    nights, outputs = chained(tmp_path / name)
    capsys.readouterr()
    assert nights.verify("*.csv", *outputs, flags=["--strict"]) == 0
    assert "0 people are known" not in capsys.readouterr().out
    plain, same = chained(tmp_path / "plain")
    assert [written(nights, each) for each in outputs] == [written(plain, each) for each in same]
    assert beside.joinpath("in", "1.csv").read_text() == "who,when\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_itself_before_it_is_a_glob(name: str, tmp_path: Path) -> None:
    """And a folder that is there; a glob below it is one."""
    folder = tmp_path / name
    folder.mkdir()
    for file in (f"{name}.csv", "b.csv", ".c.csv", "d.txt"):
        (folder / file).write_text("a\n1\n")
    assert [each.path for each in matching_files(str(folder / f"{name}.csv"))] == [
        str(folder / f"{name}.csv")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {Path(each.path).name for each in matching_files(str(folder / "*.csv"))}
    assert {f"{name}.csv", "b.csv"} <= found
    assert "d.txt" not in found
    assert matching_files(str(tmp_path / "none" / "*.csv")) == []


def test_a_demo_runs_in_a_folder_that_could_be_a_glob(tmp_path: Path) -> None:
    """Its feed is named by its path."""
    assert main(["demo", "--output", str(tmp_path / "demo[2]"), "--quiet"]) == 0


@pytest.mark.parametrize("base", ["{here}/out[1]*?", "gs://simulated/out[1]*?"])
def test_below_a_folder_nothing_of_another_is_found_or_removed(base: str, tmp_path: Path) -> None:
    """On this machine and in a store: names below are globs, the folder is none."""
    with serving(Store()):
        folder = base.format(here=tmp_path)
        others = [folder.replace("[1]", "1"), folder.replace("*", "x"), folder.replace("?", "y")]
        for each in (folder, *others):
            for name in ("a/x.avro", "a/y.state", "b/x.avro", "x.avro"):
                with storage.create(storage.join(each, *name.split("/"))) as file:
                    file.write(each.encode())
        found = storage.paths_below(folder, "*", "*.avro")
        assert found == [storage.join(folder, "a", "x.avro"), storage.join(folder, "b", "x.avro")]
        assert storage.paths_below(folder, "*.avro") == [storage.join(folder, "x.avro")]
        storage.delete(found)
        assert storage.paths_below(folder, "*", "*") == [storage.join(folder, "a", "y.state")]
        for each in others:
            assert len(storage.paths_below(each, "*", "*")) == 3
            with storage.open_stored(storage.join(each, "a", "x.avro")) as file:
                assert file.read() == each.encode()
        assert storage.paths_below(storage.join(folder, "none"), "*") == []
        assert storage.exists(storage.join(folder, "x.avro"))
        assert not storage.exists(storage.join(folder, "y.avro"))


_OF_RUNS = {
    "kanonflow.solvers.catalogue",
    "kanonflow.transforms.windows.step",
    "scipy.sparse",
    "scipy.special",
}


def test_an_audit_and_what_looks_at_a_feed_load_no_beam(tmp_path: Path) -> None:
    """Of files of this machine: it would be a second of each. Nor does an audit, or its page, load what a run does."""
    nights = nights_of(tmp_path / "here", [night_lines(1)])
    (output,) = nights.chain(1)
    policy, feed = str(nights.place / "policy.yaml"), str(nights.place / "in" / "1.csv")
    audit = ["verify", "--policy", policy, "--input", feed, "--release", str(nights.place / output)]
    for command in (
        audit,
        [*audit, "--secret-file", str(nights.place / "secret")],
        ["policy", "draft", "--input", feed],
        ["policy", "check", policy, "--input", feed],
    ):
        code = "import sys; from kanonflow.pipelines.cli import main; main(sys.argv[1:]); print(*sys.modules)"
        ran = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, timeout=500
        )
        loaded = set(ran.stdout.splitlines()[-1].split())
        assert "apache_beam" not in loaded, (command, ran.stderr)
        if command[0] == "verify":
            assert not loaded & _OF_RUNS


@pytest.mark.parametrize("chain", [False, True], ids=["one run", "a chain"])
def test_a_file_that_several_patterns_name_is_audited_once(
    chain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name and by globs, from the folder that it is in: ``./1.csv`` counted as a second file."""
    nights = nights_of(tmp_path / "here", [night_lines(1), night_lines(2)])
    outputs = nights.chain(2 if chain else 1)
    monkeypatch.chdir(nights.place / "in")
    names = ["1.csv", "./1.csv", "[1]*.csv", "../in/1.csv", str(nights.place / "in" / "1.csv")]
    names += ["2.csv", "[12].csv"] if chain else []
    told = [part for name in names for part in ("--input", name)]
    audited = ["--policy", "../policy.yaml", "--secret-file", "../secret", "--release"]
    assert main(["verify", *told, *audited, *(str(nights.place / each) for each in outputs)]) == 0
