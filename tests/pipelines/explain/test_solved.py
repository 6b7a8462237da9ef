"""Variants solved on windows of a feed: planted traps are named with what their mends bring, and the JSON holds it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
import yaml

from kanonflow.pipelines import cli
from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.pipelines.explain.explanation import Explanation, explain
from kanonflow.pipelines.explain.solved import lengths_within, solve_variants
from kanonflow.pipelines.explain.variants import Group
from kanonflow.pipelines.run_records.rejected_rows import unsettled_rejected
from tests.pipelines.explain.planted_feed import (
    HONEST,
    POLICY,
    canonical,
    honest_rows,
    planted_rows,
)

pytestmark = pytest.mark.thorough

# Short searches: what is planted is large.
QUICK = "solver: {evaluations_per_row: 30, threads: 1}\n"
FIVE = POLICY.replace("shop: {role: sensitive}", "shop: {role: identifier}") + QUICK


@pytest.fixture(scope="module")
def planted() -> Explanation:
    return explain(*canonical(planted_rows(), FIVE))


def test_the_five_traps_are_named(planted: Explanation) -> None:
    """An id among the payload, a field that grows with time, a redundant column and one that follows from two others,
    sparse days: each with the change that mends it."""
    found = {each.kind: each for each in planted.recommendations}
    assert planted.recommendations[0].kind == "names"
    assert "device names its person" in found["names"].sentence
    assert "receipt rises with time" in found["rises"].sentence
    for words in ("region follows from district", "tariff follows from job and sector"):
        assert words in found["redundant"].sentence
    assert set(found["redundant"].change["fields"]) == {"region", "tariff"}
    assert "A window of 1d has fewer than k = 5 people" in found["window"].sentence
    assert found["window"].change == {"window": "1w"}
    assert len(planted.recommendations) <= 5


def test_sentences_rest_on_figures_of_the_json(planted: Explanation) -> None:
    """Whatever a recommendation measured stands among the variants tried, under the same change."""
    told = json.loads(json.dumps(planted.to_json()))
    tried = told["solved"]["tried"]
    own = next(each for each in tried if not each["change"])
    checked = 0
    for each in told["recommendations"]:
        if "cost" not in each["measured"] and "field" not in each["measured"]:
            continue
        after = next(one for one in tried if one["change"] == each["change"])
        if "cost" in each["measured"]:
            assert each["measured"]["cost"] == [own["cost"], after["cost"]]
        if "field" in each["measured"]:
            widths = [{one["field"]: one["median"] for one in variant["fields"]} for variant in (own, after)]
            name = each["measured"]["field"]
            assert [each["measured"]["before"], each["measured"]["after"]] == [one[name] for one in widths]
        checked += 1
    assert checked >= 2
    assert {each["group"] for each in tried} == {str(group) for group in Group}


def test_workers_have_no_say() -> None:
    """One thread or three: the same figures, to the bit."""
    rows, bound = canonical(honest_rows(150, 20), HONEST.replace("window: 1w", "window: 1d") + QUICK)
    one, three = (solve_variants(rows, bound, [], workers=number) for number in (1, 3))
    assert one.to_json() == three.to_json()


def test_lengths_that_a_feed_has() -> None:
    """Twenty days have hours, days and weeks; four weeks would be one window."""
    rows, bound = canonical(honest_rows(50, 20), HONEST)
    assert lengths_within(rows, bound) == [3_600_000, 86_400_000, 7 * 86_400_000]


def test_large_feeds_end_where_the_first_people_have_come() -> None:
    """So that founding them takes its time; rows of these people that come later are left out as well."""
    rows, bound = canonical(honest_rows(200, 20), HONEST)
    feed = feed_of(rows, bound)
    early = feed.first_people(bound, 60)
    assert len(early.rows.column("who").unique()) == np.unique(early.who).size == 60
    times = np.sort(np.asarray(rows.column("when").cast("int64")))
    assert np.asarray(early.rows.column("when").cast("int64")).max() == times[early.rows.num_rows - 1]
    assert feed.first_people(bound, 200) is feed


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_solves(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """Without an individual and without a time too: k and fields are all that can be varied."""
    text = HONEST.replace("window: 1w\nmax_delay: 2w\n", "")
    text = text.replace("{role: individual}", "{role: identifier}").replace(
        "{role: time, as: timestamp}", "{role: identifier}"
    )
    pyarrow.csv.write_csv(honest_rows(40, 10), tmp_path / "in.csv")
    (tmp_path / "p.yaml").write_text(text + QUICK)
    command = ["explain", "--policy", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "in.csv")]
    assert cli.main([*command, "--for", "district", *(["--json"] if as_json else [])]) == 0
    out = capsys.readouterr().out
    if as_json:
        told = json.loads(out)
        assert told["for"]["fields"] == ["district"]
        assert told["for"]["tried"][0]["name"] == "the policy"
        without = [each["name"] for each in told["solved"]["tried"] if each["group"] == "without"]
        assert without == ["job"]
        assert {each["group"] for each in told["solved"]["tried"]} == {
            "k and window",
            "without",
            "protection",
        }
        assert told["solved"]["played"][0].startswith("the whole input")
    else:
        assert "the whole input" in out
        assert "Loss of the other fields without one" in out
        assert "If you group by district, expect an error of" in out
    assert "d1 " not in out


def test_how_long_it_takes_is_said_before_it_begins() -> None:
    """How many policies over how many rows; and when one has been tried, how long the others take."""
    rows, bound = canonical(honest_rows(), HONEST)
    lines: list[str] = []
    solved = solve_variants(rows, bound, [], tell=lines.append)
    assert len(lines) == 2
    tries = {repr(each.variant.change) for each in solved.tried}
    assert lines[0].startswith(f"tries {len(tries)} policies over {rows.num_rows:,} rows")
    assert re.fullmatch(rf"one is tried; the other {len(tries) - 1} take about [\d,]+ s", lines[1])
    assert solved == solve_variants(rows, bound, [])


def test_what_a_clause_would_drop_is_what_a_run_drops(tmp_path: Path) -> None:
    """Of a feed that is played whole; the more is known, the more rows go, and larger cohorts save most of them."""
    text = HONEST + "cohort_size: 9\n" + QUICK
    table = honest_rows(120, 70)
    rows, bound = canonical(table, text)
    solved = solve_variants(rows, bound, [])
    tried = {each.variant.name: each for each in solved.of(Group.AGAINST)}
    nobody, one, three, larger = (
        tried[name].measures.rejected
        for name in (
            "nobody who knows more",
            "1 window with rows",
            "3 windows with rows",
            "3 windows with rows, cohorts of 18",
        )
    )
    assert [each.split(":")[0] for each in solved.helpless] == [
        "whom no cohort_size helps against 1 window with rows",
        "whom no cohort_size helps against 3 windows with rows",
    ]
    assert nobody <= one < three
    assert larger < 0.5 * three
    clause = tried["3 windows with rows"].variant.change["against"]
    policy = yaml.safe_load(text)
    policy["fields"]["amount"]["accept_risk"] = "made up"
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(policy | {"against": clause | {"max_dropped": 1.0}}))
    pyarrow.csv.write_csv(table, tmp_path / "in.csv")
    flags = [
        "--policy",
        str(tmp_path / "p.yaml"),
        "--input",
        str(tmp_path / "in.csv"),
        "--output",
        str(tmp_path / "out"),
    ]
    assert cli.main(["anonymize", *flags]) == 0
    rejected = sum(1 for _ in unsettled_rejected(str(tmp_path / "out")))
    assert rejected / table.num_rows == pytest.approx(three, abs=0.05)
