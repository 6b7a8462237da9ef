"""What policy check and a run say of row mode and of ranges, and what a run says of the payload that it measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.ends_of_ranges import ends_of_ranges_notes, singling_out_note
from kanonflow.schemas.grid import snap_outward
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy

OPEN = ("P(it belongs to u) <= 1/k, does not hold for two", "How many rows a person has is not hidden")


def policy(individual: bool, **head: object) -> Policy:
    """A policy over people, with or without the field that tells them apart."""
    fields = {
        "age": {"role": "quasi", "type": "numeric"},
        "who": {"role": "individual" if individual else "identifier"},
        "pay": {"role": "sensitive"},
        "id": {"role": "insensitive", "accept_risk": "agreed"},
    }
    return parse_policy({"version": 1, "k": 3, "fields": fields, **head}, "", "t")


def covered(asked: Policy) -> tuple[str, ...]:
    """What ``policy check`` says that a policy covers, and what it does not."""
    return asked.promise.covered(asked)


def warned(asked: Policy) -> tuple[str, ...]:
    """What a run says of it before it begins."""
    return asked.promise.warnings(asked)


def test_row_mode_with_individuals_says_what_it_leaves_open() -> None:
    """Linked rows and row counts, the metric that shows how far that goes, and the way out."""
    told = " ".join(covered(policy(True, protect="row")))
    for words in (*OPEN, "k distinct values of who", "linked_candidates", "protect: individual"):
        assert words in told


def test_row_mode_without_individuals_says_that_rows_are_no_people() -> None:
    """k rows of a slot may all be one person's, and then nothing is hidden."""
    told = " ".join(covered(policy(False)))
    for words in (*OPEN, "may be fewer than k people, even one", "role: individual"):
        assert words in told


def test_individual_mode_has_no_such_notes() -> None:
    """Its promise is about all rows of a person."""
    told = " ".join(covered(policy(True)))
    assert not [words for words in (*OPEN, "linked_candidates") if words in told]


def test_each_policy_says_whether_its_promise_is_proved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In what ``policy check`` prints: of cohorts that last proved, as far as that goes, of all others tested."""
    heads = {"lasting": "cohort: lasting", "window": "cohort: window", "row": "protect: row"}
    for name, head in heads.items():
        (tmp_path / "p.yaml").write_text(
            f"version: 1\nk: 3\nwindow: 1d\n{head}\nfields: {{who: individual, at: time,"
            " age: {role: quasi, type: numeric}, pay: {role: sensitive}}\n"
        )
        assert cli.main(["policy", "check", str(tmp_path / "p.yaml")]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        proved = "a proof that a machine checks" in printed
        assert proved is (name == "lasting")
        assert proved is not ("No proof checker has seen it: tested, not proved" in printed)
        assert "every measure of risk and of readers" in printed


@pytest.mark.parametrize("individual", [True, False])
def test_row_mode_notes_are_sentences(individual: bool) -> None:
    """Each begins with a capital and ends with a stop."""
    for note in covered(policy(individual, protect="row")):
        assert note[0].isupper() or note.startswith("protect: row. ")
        assert note.endswith(".")


@pytest.mark.parametrize(("accepted", "quiet"), [(False, False), (False, True), (True, False)])
def test_anonymize_says_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], accepted: bool, quiet: bool
) -> None:
    """A line of its own with its seconds; quiet is quiet, and where every risk is accepted nothing is measured."""
    risk = ", accept_risk: agreed" if accepted else ""
    (tmp_path / "p.yaml").write_text(
        "version: 1\nk: 3\nfields: {age: {role: quasi, type: numeric}, pay: {role: sensitive" + risk + "}}\n"
    )
    (tmp_path / "in.csv").write_text("age,pay\n" + "".join(f"{20 + n},{n % 3}\n" for n in range(30)))
    run = ["anonymize", "--policy", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "in.csv")]
    run += ["--output", str(tmp_path / "out")]
    assert cli.main([*run, *(["--quiet"] if quiet else [])]) == 0
    told = "too few rows to tell of pay, measured on 30 rows ("
    assert (told in capsys.readouterr().err) is not (accepted or quiet)


def test_two_candidates_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With protect: row and k = 2, by policy check and at the run, also with --quiet; not otherwise."""
    for individual in (True, False):
        (told,) = warned(policy(individual, k=2, protect="row"))
        assert "settles every row of its ring" in told
        assert told in covered(policy(individual, k=2, protect="row"))
        assert warned(policy(individual, k=3, protect="row")) == ()
    assert warned(policy(True, k=2)) == ()
    (tmp_path / "p.yaml").write_text(
        "version: 1\nk: 2\nfields: {age: {role: quasi, type: numeric, as: int}}\n"
    )
    (tmp_path / "in.csv").write_text("age\n" + "\n".join(map(str, range(20, 40))) + "\n")
    assert cli.main(["policy", "check", str(tmp_path / "p.yaml")]) == 0
    assert "k is 2 with protect: row" in capsys.readouterr().out
    run = ["anonymize", "--policy", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "in.csv")]
    assert cli.main([*run, "--output", str(tmp_path / "out"), "--quiet"]) == 0
    assert "warning: k is 2 with protect: row" in capsys.readouterr().err


def test_the_ends_of_each_field_are_told() -> None:
    """Under grid: auto the ends of narrow ranges are people's own values; under a fixed grid they are not."""
    fields = {
        "age": {"role": "quasi", "type": "numeric"},
        "born": {"role": "quasi", "type": "date"},
        "pay": {"role": "quasi", "type": "numeric", "grid": "exact"},
        "rent": {"role": "quasi", "type": "numeric", "grid": 5},
        "job": {"role": "quasi", "type": "categorical"},
    }
    age, born, pay = ends_of_ranges_notes(parse_policy({"version": 1, "k": 3, "fields": fields}, "", "t"))
    assert age.startswith("age: grid: auto")
    assert "below 20 units" in age
    assert born.startswith("born: grid: auto")
    assert pay == "pay: grid: exact publishes people's own values as ends of ranges."


def test_what_lowers_singling_out_is_said() -> None:
    """In a line that names the fields released as sets."""
    fields = {"age": {"role": "quasi", "type": "numeric"}, "job": {"role": "quasi", "type": "categorical"}}
    note = singling_out_note(parse_policy({"version": 1, "k": 3, "fields": fields}, "", "t"))
    for words in ("grid", "type: hierarchy for job", "blocks of 5", "a larger k"):
        assert words in note


def test_ends_of_narrow_ranges_are_the_values_themselves() -> None:
    """What the notes say of numbers and dates is where the grid begins."""
    for width in (9, 10, 19, 20):
        low = np.array([3], np.int64)
        ends = snap_outward(low, low + width, grid="auto", kind="integer", domain=None)
        own = [int(ends[0][0]), int(ends[1][0])] == [3, 3 + width]
        assert own is (width < 20)
    day = np.array([5], np.int64)
    for width, own in ((309, True), (310, False)):
        ends = snap_outward(day, day + width, grid="auto", kind="date", domain=None)
        assert (int(ends[0][0]) == 5) is own
