"""What ``verify`` says of runs whose rows went by a plan: nothing against a good one, and each forgery by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.cli import main
from tests.nightly import POLICY, Nights, line, nights_of
from tests.pipelines.audit.good_runs import change_record, change_rows, read

ROWS = POLICY.replace("cohort: lasting\nintake: 6", "protect: row").replace(
    "{role: individual}", "{role: identifier}"
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """One night of two shops in shards, with matching records."""
    lines = [line(who, 1, who, f"n{who}", 2) for who in range(120)]
    made = nights_of(tmp_path_factory.mktemp("rows") / "place", [lines], ROWS)
    place = made.place
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in/1.csv"), "--shards", "3"]
    assert main(["plan", *given, "--output", str(place / "plan.json"), "--accept-small"]) == 0
    assert made.anonymize("1.csv", "out", "--plan", str(place / "plan.json"), "--matching-records") == 0
    return made


@pytest.fixture
def run(good: Nights, tmp_path: Path) -> Nights:
    """A copy to be spoiled."""
    shutil.copytree(good.place, tmp_path / "place")
    return Nights(tmp_path / "place")


def test_a_good_run_passes_in_full(good: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Also with matching records and the secret; what was judged of shards is said."""
    assert good.verify("1.csv", "out", secret=False, flags=["--strict"]) == 0
    capsys.readouterr()
    assert good.verify("1.csv", "out", flags=["--strict", "--matching-records"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    shards = sum(len(cut["keys"]) for cut in _plan(good)["partitions"])
    assert f"has the key of one of {shards} shards of its partition" in told
    assert "was released in the shard that the plan gives" in told
    assert "that the keys of shards are those the secret gives" in told


def _plan(run: Nights) -> Any:
    return json.loads((run.place / "out/restricted/plan.json").read_text())


def _edit_plan(run: Nights, change: Callable[[Any], None]) -> None:
    plain = _plan(run)
    change(plain)
    (run.place / "out/restricted/plan.json").write_text(json.dumps(plain))


def _of_one_shop(run: Nights) -> list[Path]:
    """The releases of the first partition of the plan, in the order of its keys."""
    keys = _plan(run)["partitions"][0]["keys"]
    told = {
        each["partition"]: each["release_id"]
        for path in run.place.glob("out/restricted/metrics/*.avro")
        for each in read(path)[1]
    }
    return [run.place / "out/release" / f"{told[key]}.avro" for key in keys]


def _row_to_another_shard(run: Nights) -> None:
    """A row with its box, and in both releases' metrics."""
    one, other = _of_one_shop(run)[:2]
    moved: list[Any] = []
    change_rows(one, lambda rows: moved.append(rows.pop(0)))
    there = read(other)[1][0]
    change_rows(other, lambda rows: rows.append(moved[0] | {"release_id": there["release_id"]}))
    for path, more in ((one, -1), (other, 1)):
        name = run.place / "out/restricted/metrics" / path.name

        def count(record: dict[str, Any], more: int = more) -> None:
            for field in ("rows_released", "individuals"):
                record[field] += more

        change_record(name, count)


def _edited_plan(run: Nights) -> None:
    """Two shards of a shop have changed places: rows went by another plan than the one that is shown."""

    def change(plain: Any) -> None:
        keys = plain["partitions"][0]["keys"]
        keys[0], keys[1] = keys[1], keys[0]

    _edit_plan(run, change)


def _key_of_no_shard(run: Nights) -> None:
    change_record(
        run.place / "out/restricted/metrics" / _of_one_shop(run)[0].name,
        lambda record: record.update(partition="0" * 32),
    )


def _release_left_out(run: Nights) -> None:
    path = _of_one_shop(run)[0]
    path.unlink()
    (run.place / "out/restricted/metrics" / path.name).unlink()


def _key_of_another_partition(run: Nights) -> None:
    other = _plan(run)["partitions"][1]["keys"][0]
    change_record(
        run.place / "out/restricted/metrics" / _of_one_shop(run)[0].name,
        lambda record: record.update(partition=other),
    )


FORGERIES = {
    "row": (_row_to_another_shard, "not a generalization of the original: 1 of 120 released rows"),
    "plan": (_edited_plan, "not a generalization of the original"),
    "key": (_key_of_no_shard, "1 releases under a key that is none of their partition's in the plan"),
    "release": (_release_left_out, "of the input"),
    "partition": (_key_of_another_partition, "1 releases under a key that is none of their partition's"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_found(name: str, run: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the secret and without matching records."""
    forge, words = FORGERIES[name]
    forge(run)
    capsys.readouterr()
    assert run.verify("1.csv", "out", secret=False) == 1
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_plan_in_a_run_that_takes_none_is_no_excuse(
    run: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two releases of a window pass as those of two shards only where runs go by plans."""
    policy = run.place / "policy.yaml"
    policy.write_text(POLICY.replace("cohort: lasting\nintake: 6", "cohort: window"))
    assert run.verify("1.csv", "out", secret=False) == 2
    assert "with cohort: window no run goes by one" in capsys.readouterr().err
