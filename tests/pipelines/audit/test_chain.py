"""Chains of runs: each night passes, and so does the whole; each fault of a chain is found by a sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.audit.read.carried_state import carried_facts
from kanonflow.pipelines.cli import main
from kanonflow.transforms.files.state_parts import Content, pack, unpack
from tests.nightly import Nights, line, night_lines, nights_of
from tests.pipelines.audit.good_runs import change_rows, read
from tests.pipelines.audit.lasting_runs import change_file

pytestmark = pytest.mark.thorough

NIGHTS = 8
DAY = 86_400_000
_MARK, _WARM = b"KFCS", b"KFWS"


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """Eight nights in two partitions that keep what waits, and one run over all eight."""
    files = [night_lines(night, shops=2) for night in range(1, NIGHTS + 1)]
    nights = nights_of(tmp_path_factory.mktemp("carried") / "place", files)
    nights.chain(NIGHTS, "--carry", "--matching-records")
    assert nights.anonymize("*.csv", "whole", "--carry") == 0
    return nights


@pytest.fixture
def spoiled(carried: Nights, tmp_path: Path) -> Nights:
    """A copy of the chain of eight nights."""
    return Nights(Path(shutil.copytree(carried.place, tmp_path / "place")))


def outs(first: int = 1, last: int = NIGHTS) -> list[str]:
    """Outputs of some nights."""
    return [f"out{night}" for night in range(first, last + 1)]


def found(nights: Nights, says: str, files: str, *outputs: str, capsys: Any, secret: bool = False) -> None:
    """The audit fails and says this."""
    capsys.readouterr()
    assert nights.verify(files, *outputs, secret=secret) == 1
    out = capsys.readouterr().out
    assert says in out, out[: out.index("\n\n")]


# Chains that are right


@pytest.mark.parametrize("secret", [True, False])
def test_every_night_passes(carried: Nights, secret: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """With what it was left, and without the input of other nights; rows come from the night before, and are left."""
    came = left = 0
    for night in range(1, NIGHTS + 1):
        capsys.readouterr()
        assert carried.verify(f"{night}.csv", f"out{night}", secret=secret, flags=["--json"]) == 0
        figures = json.loads(capsys.readouterr().out)["figures"]
        assert figures["place"] == night - 1
        assert (figures["carried_in"] or 0) == left
        assert figures["records"] + left == figures["rows"] + figures["rejected"] + figures["carried_out"]
        came, left = came + left, figures["carried_out"]
    assert came > 20


@pytest.mark.parametrize("secret", [True, False])
def test_the_whole_passes(carried: Nights, secret: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """All nights together, in any order, over the input of all; also without the first ones, and as two."""
    assert carried.verify("*.csv", *reversed(outs()), secret=secret) == 0
    assert carried.verify("[5-8].csv", *outs(5), secret=secret) == 0
    assert carried.verify("*.csv", "whole", secret=secret) == 0
    out = capsys.readouterr().out
    assert f"runs of the chain                            {NIGHTS}" in out
    assert "no run makes" not in out


def test_what_lies_in_a_night_and_no_run_makes_is_named(
    spoiled: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the output that it lies in, and nothing else is."""
    (spoiled.place / "out3" / "restricted" / "rejected" / "notes.txt").write_text("who is who")
    assert spoiled.verify("*.csv", *outs(), secret=False) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "no run makes" in line)
    assert "(out3/restricted/rejected/notes.txt)" in line


def test_matching_records_of_a_chain_pass(carried: Nights) -> None:
    """Of a night, whose records came with the night before in part, and of the whole."""
    assert carried.verify("4.csv", "out4", flags=["--matching-records"]) == 0
    assert carried.verify("*.csv", *outs(), flags=["--matching-records"]) == 0


def test_nights_are_one_run_release_by_release(carried: Nights) -> None:
    """No row comes later than its own night: a chain that carries comes to what one run over all of it comes to."""
    chained, whole = carried.releases(*outs()), carried.releases("whole")
    assert len(chained) > NIGHTS
    assert chained == whole


def test_export_takes_the_whole_chain(
    carried: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No release is lost, and one epoch is told."""
    outputs = [str(carried.place / name) for name in outs()]
    asked = ["--to", "csv", "--json", "--output", str(tmp_path / "all.csv")]
    assert main(["export", *outputs, *asked]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    files = sum(len(list((carried.place / name / "release").iterdir())) for name in outs())
    assert (told["releases"], len(told["epochs"]), err) == (files, 1, "")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == told["rows"] + 1


def test_nights_without_carry_pass(tmp_path: Path) -> None:
    """What waits leaves with the night's end, beside what the next night releases at the same end; the pool goes on."""
    nights = nights_of(tmp_path / "place", [night_lines(night) for night in range(1, 6)])
    outputs = nights.chain(5)
    for night, output in enumerate(outputs, 1):
        for secret in (True, False):
            assert nights.verify(f"{night}.csv", output, secret=secret) == 0
    assert nights.verify("*.csv", *outputs) == 0
    assert nights.verify("*.csv", *outputs, secret=False) == 0


def test_nights_in_which_nobody_enters_pass(tmp_path: Path) -> None:
    """Too few people for an intake: nothing is released, and no cohort is there; then nobody's row comes at all."""
    files = [
        [line(who, night, 60 * who, f"few-{night}-{who}") for who in range(2 * night)] for night in (1, 2)
    ]
    nights = nights_of(tmp_path / "place", [*files, [], night_lines(4)])
    outputs = nights.chain(4, "--carry")
    assert not any((nights.place / "out1" / "release").iterdir())
    for night, output in enumerate(outputs, 1):
        for secret in (True, False):
            assert nights.verify(f"{night}.csv", output, secret=secret) == 0
    assert nights.verify("*.csv", *outputs) == 0
    assert nights.verify("[1-3].csv", *outputs[:3]) == 0


@pytest.mark.parametrize("flags", [["--carry", "--matching-records"], []])
def test_late_and_mended_rows_pass(tmp_path: Path, flags: list[str]) -> None:
    """Rows of the day before, and of five days a week before, which leave in closing slots, in groups of more windows
    than rows may wait; of people who are known, and of so many who are not that they enter with those rows."""
    files = [night_lines(night) for night in range(1, 10)]
    files[4] += [line(who, 4, 60 + who, f"late-{who}") for who in range(5)]
    files[7] += [
        line(who, 1 + who % 5, 90 + who, f"mended-{who}") for who in (0, 1, 2, 3, 4, 5, 90, 91, 92, 93)
    ]
    nights = nights_of(tmp_path / "place", files)
    outputs = nights.chain(9, *flags)
    # Nights whose files have such rows, and those behind them, in which these leave.
    for night, output in [(5, outputs[4]), (6, outputs[5]), (8, outputs[7]), (9, outputs[8])]:
        for secret in (True, False):
            assert nights.verify(f"{night}.csv", output, secret=secret) == 0
        if "--matching-records" in flags:
            assert nights.verify(f"{night}.csv", output, flags=["--matching-records"]) == 0
    assert nights.verify("*.csv", *outputs) == 0
    kinds = {
        record["kind"]
        for path in (nights.place / outputs[7] / "restricted" / "metrics").glob("*.avro")
        for record in read(path)[1]
    }
    assert ("closing" in kinds) == bool(flags)


# Faults


def test_a_release_that_is_dropped_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """From a night, and from the whole."""
    next((spoiled.place / "out4" / "release").iterdir()).unlink()
    found(spoiled, "metrics of releases that are not there", "4.csv", "out4", capsys=capsys)
    found(spoiled, "payloads of records are missing", "*.csv", *outs(), capsys=capsys)


def test_a_night_that_is_left_out_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Places have a gap."""
    outputs = [name for name in outs() if name != "out4"]
    found(spoiled, "out5 after", "[1235678].csv", *outputs, capsys=capsys)
    found(spoiled, "do not follow each other (2, 4)", "[1235678].csv", *outputs, capsys=capsys)


def test_nights_that_are_exchanged_are_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Each says that it is the other."""
    one, other = (spoiled.place / name / "restricted" / "run.json" for name in ("out3", "out4"))
    texts = one.read_text(), other.read_text()
    other.write_text(texts[0])
    one.write_text(texts[1])
    found(
        spoiled, "releases of another place in the chain than that of the run", "3.csv", "out3", capsys=capsys
    )
    found(spoiled, "what 2 partitions began with is not what was left", "*.csv", *outs(), capsys=capsys)
    found(spoiled, "are not those that were left", "*.csv", *outs(), capsys=capsys)


def test_a_row_in_two_nights_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """A row of one night stands in a release of the next once more."""
    (one, *_), (other, *_) = (list((spoiled.place / name / "release").iterdir()) for name in ("out3", "out4"))
    again = read(one)[1][0]
    change_rows(
        other,
        lambda rows: rows.append({**rows[0], "amount": again["amount"], "ref": again["ref"]}),
    )
    says = "1 released rows have a payload that the input has not, or less often"
    found(spoiled, says, "4.csv", "out4", capsys=capsys)
    found(spoiled, says, "*.csv", *outs(), capsys=capsys)


def test_another_place_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """In run.json alone, and in the metrics too."""
    path = spoiled.place / "out4" / "restricted" / "run.json"
    record = json.loads(path.read_text())
    record["chain"]["place"] = 7
    path.write_text(json.dumps(record))
    found(spoiled, "releases of another place in the chain", "4.csv", "out4", capsys=capsys)
    for each in (spoiled.place / "out4" / "restricted" / "metrics").iterdir():
        change_file(each, lambda _, rows: [row.update(chain_place=7) for row in rows])
    found(spoiled, "carried states of another run of the chain", "4.csv", "out4", capsys=capsys)
    found(spoiled, "places in the chain that do not follow each other", "*.csv", *outs(), capsys=capsys)


def test_another_epoch_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one run's record."""
    path = spoiled.place / "out4" / "restricted" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"epoch": "0" * 15 + "1"}))
    found(spoiled, "releases of another epoch than run.json tells", "4.csv", "out4", capsys=capsys)
    found(spoiled, "another epoch", "*.csv", *outs(), capsys=capsys)


def test_a_pool_that_is_lost_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Out of what a night left."""
    night, _ = _carrying(spoiled, pool=True)

    def lose(parts: dict[str, bytes], meta: dict[str, Any]) -> None:
        warm = unpack(parts["warm"], _WARM, 1, "warm")
        kept = {name: warm.take(name) for name in _names(parts["warm"])}
        kept["pool_people"], kept["pool_ends"] = b"", b""
        parts["warm"] = pack(_WARM, 1, Content(dict(warm.meta), kept))
        meta["pool"] = 0

    for path in (spoiled.place / f"out{night}" / "restricted" / "carried").iterdir():
        _change_state(path, lose)
    says = "of the pool that the run began with neither entered nor wait any more"
    found(spoiled, says, f"{night}.csv", f"out{night}", capsys=capsys)
    found(spoiled, "partitions began with is not what was left", "*.csv", *outs(), capsys=capsys)


def test_rows_that_are_lost_on_the_way_are_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """They were left, and the next night began without them; or nobody tells that they were left."""
    night, partition = _carrying(spoiled)
    came = spoiled.place / f"out{night + 1}" / "restricted" / "cohorts" / partition.stem / "carried.state"
    came.unlink()
    says = "began with is not what was left"
    found(spoiled, says, "*.csv", *outs(), capsys=capsys)
    # Its rows are released, or left once more, and nobody brought them.
    found(spoiled, "in the input", f"{night + 1}.csv", f"out{night + 1}", capsys=capsys)
    partition.unlink()
    found(spoiled, "the carried states of 1 partitions", f"{night}.csv", f"out{night}", capsys=capsys)


def test_rows_that_are_carried_and_released_are_found(
    spoiled: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a night left is what the one before left: those rows are out."""
    night, _ = _carrying(spoiled)
    one, other = (spoiled.place / f"out{each}" / "restricted" / "carried" for each in (night, night + 1))
    for path in other.iterdir():
        shutil.copy(one / path.name, path)
    files, output = f"{night + 1}.csv", f"out{night + 1}"
    found(spoiled, "carried states of another run of the chain", files, output, capsys=capsys)

    def say_so(_: dict[str, bytes], meta: dict[str, Any]) -> None:
        meta["place"] = night
        # Two days later, as if this night had gone on.
        meta["clock"] = re.sub(
            r'"last_end": (\d+)', lambda at: f'"last_end": {int(at[1]) + 2 * DAY}', meta["clock"]
        )

    for path in other.iterdir():
        _change_state(path, say_so)
    found(spoiled, "are carried on whose time was over", files, output, capsys=capsys)


def test_a_damaged_state_is_found(spoiled: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Cut off, and something else that lies beside it."""
    path = next((spoiled.place / "out4" / "restricted" / "carried").iterdir())
    path.write_bytes(path.read_bytes()[:-9])
    (path.parent / "notes.txt").write_text("x")
    found(spoiled, "the carried state of a partition", "4.csv", "out4", capsys=capsys)
    found(spoiled, "1 entries that are no carried state", "4.csv", "out4", capsys=capsys)


def test_a_run_that_continues_another_one_is_found(
    spoiled: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second night of another chain over the same files, in the same epoch's place."""
    other = nights_of(tmp_path / "other", [night_lines(night, shops=2) for night in range(1, 3)])
    other.chain(2, "--carry")
    shutil.rmtree(spoiled.place / "out2")
    shutil.copytree(other.place / "out2", spoiled.place / "out2")
    found(spoiled, "another epoch", "[12].csv", "out1", "out2", capsys=capsys)
    found(spoiled, "are not those that were left", "[12].csv", "out1", "out2", capsys=capsys)


def test_what_cannot_be_judged_together_is_refused(
    carried: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2: no run's output, known matches, a topic."""
    (carried.place / "empty").mkdir(exist_ok=True)
    assert carried.verify("*.csv", "out1", "empty") == 2
    assert "no run's output" in capsys.readouterr().err
    assert carried.verify("*.csv", "out1", "out2", flags=["--known", "1"]) == 2
    assert carried.verify("*.csv", "out1", "out2", flags=["--restricted", "x"]) == 2


def _names(data: bytes) -> list[str]:
    length = int.from_bytes(data[8:12], "little")
    return [name for name, _ in json.loads(data[12 : 12 + length])["parts"]]


def _carrying(nights: Nights, *, pool: bool = False) -> tuple[int, Path]:
    """A night that left rows to the next one, and in which partition; pool: and people of the pool it began with."""
    for night in range(2, NIGHTS - 1):
        for path in (nights.place / f"out{night}" / "restricted" / "carried").iterdir():
            meta, left = carried_facts(path)
            came = nights.place / f"out{night}" / "restricted" / "cohorts" / path.stem / "carried.state"
            stay = np.isin(carried_facts(came)[1], left).any()
            if meta["waiting"] and (stay or not pool):
                return night, path
    raise AssertionError


def _change_state(path: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> None:
    data = path.read_bytes()
    state = unpack(data, _MARK, 1, "carried")
    parts, meta = {name: state.take(name) for name in _names(data)}, dict(state.meta)
    change(parts, meta)
    path.write_bytes(pack(_MARK, 1, Content(meta, parts)))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("ref: {role: insensitive, accept_risk: made up}", "ref: identifier", "fields.ref"),
        ("domain: [0, 120]}", "domain: [0, 120], grid: 10}", "fields.age"),
    ],
)
def test_a_chain_whose_policy_changed_is_judged_night_by_night(
    old: str, new: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each night passes by its own policy; of the whole the keys that changed are told before all that follows."""
    nights = nights_of(tmp_path / "place", [night_lines(night) for night in (1, 2)])
    assert nights.anonymize("1.csv", "out1") == 0
    policy = nights.place / "policy.yaml"
    before = policy.read_text()
    assert nights.verify("1.csv", "out1") == 0
    policy.write_text(before.replace(old, new))
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert nights.verify("2.csv", "out2") == 0
    capsys.readouterr()
    assert nights.verify("[12].csv", "out1", "out2") == 1
    told = capsys.readouterr().out.splitlines()[1]
    assert f"in {named}: one policy judges a chain as a whole" in told
    assert "verify each run by itself, with its own policy and files" in told


def test_another_solver_changes_no_verdict_of_a_chain(tmp_path: Path) -> None:
    """What no audit judges may change between nights."""
    nights = nights_of(tmp_path / "place", [night_lines(night) for night in (1, 2)])
    assert nights.anonymize("1.csv", "out1") == 0
    policy = nights.place / "policy.yaml"
    policy.write_text(policy.read_text().replace("evaluations_per_row: 20", "evaluations_per_row: 30"))
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert nights.verify("[12].csv", "out1", "out2") == 0
