"""Planted traps are named, each by its field, and a feed without any is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.explain.explanation import Explanation, explain
from kanonflow.pipelines.explain.recommendations import MOST
from tests.pipelines.explain.planted_feed import HONEST, POLICY, canonical, honest_rows, planted_rows


@pytest.fixture(scope="module")
def planted() -> Explanation:
    return explain(*canonical(planted_rows(), POLICY), quick=True)


def test_fields_that_follow_from_others_are_found(planted: Explanation) -> None:
    """A region from its district, a tariff from job and sector together; nothing else follows from anything."""
    found = {(each.by, each.dependent) for each in planted.plain.follows}
    assert (("district",), "region") in found
    assert (("job", "sector"), "tariff") in found
    assert {dependent for _, dependent in found} <= {"region", "tariff", "job", "sector"}
    assert all(each.share == 1.0 for each in planted.plain.follows)


def test_payload_that_tells_too_much_is_found(planted: Explanation) -> None:
    """The device names its person, the shop tells the district and with it the region, receipts rise with time."""
    assert [each.field for each in planted.plain.names] == ["device"]
    told = {(each.by, each.dependent) for each in planted.plain.tells}
    assert {(("shop",), "district"), (("shop",), "region")} <= told
    assert {by for by, _ in told} <= {("shop",), ("device",)}
    assert [each.field for each in planted.plain.rises] == ["receipt"]


def test_sparse_days_are_found(planted: Explanation) -> None:
    """Most days have fewer than five people, and no week has."""
    assert planted.plain.own is not None
    assert planted.plain.own.small > 0.6
    week = next(each for each in planted.plain.windows if each.length_ms == 7 * 86_400_000)
    assert week.small == 0.0
    assert planted.plain.own.rows_in_small < 0.15


def test_the_sentences_name_the_traps(planted: Explanation) -> None:
    """At most five, the most pressing first; each names its field or the window, and what to do."""
    assert len(planted.sentences) == MOST
    for number, words in enumerate(
        (
            ("device", "identifier"),
            ("shop", "district"),
            ("receipt", "time"),
            ("region follows from district", "tariff follows from job and sector", "identifier"),
            ("Say window: 1w",),
        )
    ):
        assert all(word in planted.sentences[number] for word in words), planted.sentences[number]


def test_the_window_that_would_do_is_named() -> None:
    """Where nothing is worse than the window: the shortest one that has people enough."""
    policy = POLICY
    for name in ("region", "tariff", "device", "shop", "receipt"):
        policy = policy.replace(f"\n  {name}: {{role: sensitive", f"\n  {name}: {{role: identifier")
        policy = policy.replace(
            f"\n  {name}: {{role: quasi, type: categorical", f"\n  {name}: {{role: identifier"
        )
    policy = policy.replace("receipt: {role: identifier, as: long}", "receipt: {role: identifier}")
    found = explain(*canonical(planted_rows(), policy), quick=True)
    assert "Say window: 1w" in found.sentences[0]


def test_an_honest_feed_is_left_alone() -> None:
    """Nothing follows, nothing tells, and the window has people enough: no sentence."""
    found = explain(*canonical(honest_rows(), HONEST), quick=True)
    assert found.sentences == ()
    plain = found.plain
    assert (plain.follows, plain.tells, plain.names, plain.rises) == ((), (), (), ())
    assert "Nothing stands out." in found.render()


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_tells_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """From a CSV file, as text and as JSON; no value of a record is in either."""
    pyarrow.csv.write_csv(planted_rows(), tmp_path / "in.csv")
    (tmp_path / "p.yaml").write_text(POLICY)
    flags = ["--json"] if as_json else []
    command = [
        "explain",
        "--policy",
        str(tmp_path / "p.yaml"),
        "--input",
        str(tmp_path / "in.csv"),
        "--quick",
    ]
    assert cli.main([*command, *flags]) == 0
    out = capsys.readouterr().out
    if as_json:
        told = json.loads(out)
        assert len(told["sentences"]) == MOST
        assert [each["sentence"] for each in told["recommendations"]] == told["sentences"]
        assert told["solved"] is None
        assert told["own"]["length_ms"] == 86_400_000
    assert "region follows from district" in out
    assert not any(word in out for word in ("device 1", "shop 1", "j1", "d1 "))


def test_no_row_that_fits_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is explained of a feed of which nothing can be read."""
    (tmp_path / "in.csv").write_text("who,when,district,job,amount\na,never,d,j,1.5\n")
    (tmp_path / "p.yaml").write_text(HONEST)
    assert (
        cli.main(["explain", "--policy", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "in.csv")]) == 2
    )
    assert "policy check says why" in capsys.readouterr().err
