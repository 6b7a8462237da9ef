"""Chains of runs whose cohorts do not last: places, what was read, one release a slot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.cli import main
from tests.nightly import POLICY, Nights, line, nights_of

pytestmark = pytest.mark.thorough

_ROW = {"who: {role: individual}": "who: {role: identifier}"}
_LEVELS = {
    **_ROW,
    "solver: {": "solver: {method: datafly, ",
    "{role: quasi, type: numeric, as: int, domain: [0, 120]}": (
        "{role: quasi, type: hierarchy, as: int, hierarchy: {widths: [5, 20, 60], domain: [0, 119]}}"
    ),
    "{role: quasi, type: categorical}": (
        "{role: quasi, type: hierarchy, hierarchy: {stars: true, domain: [baker, clerk, nurse, smith]}}"
    ),
}
POLICIES = {
    "window": {"cohort: lasting\nintake: 6": "cohort: window"},
    "row": {"cohort: lasting\nintake: 6": "protect: row", **_ROW},
    "levels": {"cohort: lasting\nintake: 6": "protect: row", **_LEVELS},
}


def policy_of(kind: str) -> str:
    """The policy of nights, with another protection."""
    text = POLICY
    for old, new in POLICIES[kind].items():
        assert old in text
        text = text.replace(old, new)
    return text


def rows_of(night: int) -> list[str]:
    """Rows of 1 March, in every night."""
    return [line(who, 1, 60 + who, f"n{night}-{who}") for who in range(20)]


@pytest.fixture(params=sorted(POLICIES))
def nights(request: pytest.FixtureRequest, tmp_path: Path) -> Nights:
    """Three nights, each with rows of one window."""
    return nights_of(tmp_path / "place", [rows_of(night) for night in (1, 2, 3)], policy_of(request.param))


def names(nights: Nights, *outputs: str) -> list[str]:
    """Ids of the releases of some nights."""
    return [path.stem for name in outputs for path in (nights.place / name / "release").glob("[!.]*")]


def run_json(nights: Nights, output: str) -> Any:
    """What a run says of itself."""
    return json.loads((nights.place / output / "restricted" / "run.json").read_text())


def test_two_nights_of_one_window_have_two_releases(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each id once; each night passes, and so does the whole; exported, no release is lost."""
    outs = nights.chain(3)
    assert len(names(nights, *outs)) == 3
    assert len(set(names(nights, *outs))) == 3
    assert [run_json(nights, each)["chain"]["place"] for each in outs] == [0, 1, 2]
    for night, output in enumerate(outs, 1):
        assert nights.verify(f"{night}.csv", output, secret=False) == 0
    assert nights.verify("*.csv", *reversed(outs), secret=False) == 0
    assert "runs of the chain                            3" in capsys.readouterr().out
    given = [str(nights.place / each) for each in outs]
    assert main(["export", *given, "--to", "csv", "--json", "--output", str(tmp_path / "all.csv")]) == 0
    told, err = capsys.readouterr()
    assert (json.loads(told)["releases"], err) == (3, "")


def test_nights_that_do_not_continue_are_no_chain(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """What verify says of them: one id of two releases."""
    assert nights.anonymize("1.csv", "out1") == 0
    assert nights.anonymize("2.csv", "out2") == 0
    assert nights.verify("[12].csv", "out1", "out2", secret=False) == 1
    out = capsys.readouterr().out
    assert "it continues no run" in out
    assert "ids stand for a release of two runs" in out


def test_what_was_read_is_refused(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """By its content, whatever it is called, also by the night after the next; nothing is written."""
    nights.chain(2)
    (nights.place / "in" / "again.csv").write_bytes((nights.place / "in" / "1.csv").read_bytes())
    assert nights.anonymize("again.csv", "out3", "--continue", "@out2") == 2
    assert "have read the input already: again.csv (then 1.csv)" in capsys.readouterr().err
    assert not (nights.place / "out3" / "release").exists() or not names(nights, "out3")


def test_event_ids_are_not_handed_on_and_files_are_known_all_the_same(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sorted anew, a file is known by its rows as it is without event ids; of other files it is said."""
    policy = nights.place / "policy.yaml"
    policy.write_text(
        policy.read_text().replace("ref: {role: insensitive, accept_risk: made up}", "ref: event_id")
    )
    assert nights.anonymize("1.csv", "out1") == 0
    capsys.readouterr()
    head, *rows = (nights.place / "in" / "1.csv").read_text().splitlines()
    (nights.place / "in" / "sorted.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")
    assert nights.anonymize("sorted.csv", "out2", "--continue", "@out1") == 2
    assert "have read the input already: sorted.csv (then 1.csv)" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert (
        "Event ids are not handed on here, and only whole files are known as read" in capsys.readouterr().err
    )


@pytest.mark.parametrize("flag", [["--individual-type", "string"], ["--people-changed"]])
def test_flags_of_people_are_refused(
    flag: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would do nothing, in silence: such a chain hands no people on."""
    nights = nights_of(tmp_path / "place", [rows_of(1), rows_of(2)], policy_of("window"))
    assert nights.anonymize("1.csv", "out1") == 0
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", *flag) == 2
    assert f"{flag[0]}: for a policy with cohort: lasting" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0


def test_a_run_has_one_successor(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Two would give one id to two releases."""
    nights.chain(2)
    assert nights.anonymize("3.csv", "other", "--continue", "@out1") == 2
    assert "another run continues it already" in capsys.readouterr().err
    assert nights.anonymize("1.csv", "out1", "--resume") == 2
    assert "another run continues" in capsys.readouterr().err


def test_a_continued_night_resumes(nights: Nights) -> None:
    """Its release and its end are gone, as if it had been killed: the same file comes out again."""
    outs = nights.chain(2)
    (path,) = (nights.place / "out2" / "release").glob("[!.]*")
    before, record = path.read_bytes(), run_json(nights, "out2")
    path.unlink()
    os.unlink(nights.place / "out2" / "restricted" / "ended")
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 2  # it has not ended
    assert nights.anonymize("2.csv", "out2", "--resume") == 0
    assert path.read_bytes() == before
    assert run_json(nights, "out2") == record
    assert nights.verify("[12].csv", *outs, secret=False) == 0


def test_a_place_that_is_not_its_own_is_found(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """A night whose record tells another place than its releases have fails, alone and in the whole."""
    nights.chain(2)
    path = nights.place / "out2" / "restricted" / "run.json"
    record = run_json(nights, "out2")
    record["chain"]["place"] = 4
    path.write_text(json.dumps(record))
    assert nights.verify("2.csv", "out2", secret=False) == 1
    assert "of another place in the chain" in capsys.readouterr().out
    assert nights.verify("[12].csv", "out1", "out2", secret=False) == 1
    assert "places in the chain that do not follow each other (0, 4)" in capsys.readouterr().out


@pytest.mark.parametrize("first", ["window", "lasting"])
def test_another_protection_does_not_go_on(
    first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cohorts that last are not continued by windows, nor the other way round; nothing is released."""
    texts = {"window": policy_of("window"), "lasting": POLICY}
    nights = nights_of(tmp_path / "place", [rows_of(1), rows_of(2)], texts.pop(first))
    assert nights.anonymize("1.csv", "out1") == 0
    (nights.place / "policy.yaml").write_text(*texts.values())
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 2
    says = "its cohorts last" if first == "lasting" else "it has no cohorts"
    assert says in capsys.readouterr().err


def test_without_windows_files_are_a_chain_too(tmp_path: Path) -> None:
    """No time, no window: the two releases have two names, and both together pass."""
    text = (
        policy_of("row")
        .replace("window: 1d\nmax_delay: 2d\n", "")
        .replace("{role: time}", "{role: identifier}")
    )
    nights = nights_of(tmp_path / "place", [rows_of(1), rows_of(2)], text)
    outs = nights.chain(2)
    assert len(set(names(nights, *outs))) == 2
    assert nights.verify("*.csv", *outs, secret=False) == 0


def test_an_event_of_two_nights_is_found_by_the_audit_of_both(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each night by itself knows nothing of it. Twice in one night it is rejected, and that is no failure."""
    policy = nights.place / "policy.yaml"
    policy.write_text(
        policy.read_text().replace("ref: {role: insensitive, accept_risk: made up}", "ref: event_id")
    )
    place = nights.place / "in"
    head, *rows = (place / "1.csv").read_text().splitlines()
    (place / "1.csv").write_text("\n".join([head, *rows, rows[0]]) + "\n")
    second = (place / "2.csv").read_text().splitlines()[1:]
    (place / "2.csv").write_text("\n".join([head, *rows[:6], *second]) + "\n")
    outs = nights.chain(2)
    assert [nights.verify(f"{night}.csv", each, secret=False) for night, each in enumerate(outs, 1)] == [0, 0]
    assert "no event is out twice" not in capsys.readouterr().out
    assert nights.verify("[12].csv", *outs, secret=False) == 1
    assert "6 events are out more than once, 12 rows in all" in " ".join(capsys.readouterr().out.split())
    (place / "2.csv").unlink()
    assert nights.verify("1.csv", outs[0], secret=False) == 0


def test_events_of_a_chain_are_said_to_be_judged(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Where each is out once; while rows may wait it is said that they are not."""
    policy = nights.place / "policy.yaml"
    policy.write_text(
        policy.read_text().replace("ref: {role: insensitive, accept_risk: made up}", "ref: event_id")
    )
    outs = nights.chain(2)
    assert nights.verify("[12].csv", *outs, secret=False) == 0
    assert "no event is out twice, of all runs together" in " ".join(capsys.readouterr().out.split())
    assert nights.verify("[12].csv", *outs, secret=False, flags=["--waiting"]) == 0
    assert "that no event is out twice, of all runs together" in " ".join(capsys.readouterr().out.split())
