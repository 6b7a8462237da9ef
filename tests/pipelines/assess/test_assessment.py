"""What assess says of releases with a planted leak, of releases that give nothing away, and where it says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.assess.assessment import Assessed, assess
from kanonflow.pipelines.assess.findings import ATTRIBUTES, Assessment, Line
from kanonflow.pipelines.assess.page import mend, render, verdict
from kanonflow.pipelines.assess.population import population_uniques
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy_choices import JudgedBy
from tests.pipelines.assess.small_feeds import (
    FEED,
    ROWS,
    asked,
    canonical,
    exactly,
    people,
    policy_of,
    released,
)

PEOPLE = 600
_TENS = {
    name: [[str(n), f"{n // 10}x", "*"] for n in range(*ends)]
    for name, ends in (("age", (10, 100)), ("height", (140, 210)))
}
LEVELS = (
    FEED.replace("type: numeric, as: int, domain: [0, 120]", f"type: hierarchy, hierarchy: {_TENS['age']}")
    .replace("type: numeric, as: int, domain: [100, 220]", f"type: hierarchy, hierarchy: {_TENS['height']}")
    .replace("type: categorical", "type: hierarchy, hierarchy: [[F, '*'], [M, '*']]")
)
Table = tuple[BoundPolicy, pa.Table, pa.Table]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A policy, people of whom each has one row, and as many controls."""
    policy = policy_of(ROWS, tmp_path_factory.mktemp("rows"))
    bound, rows = canonical(list(people(PEOPLE, 1)), policy)
    return bound, rows, canonical(list(people(PEOPLE, 2, first=PEOPLE)), policy)[1]


def lines(found: Assessment, attack: str, reader: str | None = None) -> list[Line]:
    """Those of an attack, of a reader."""
    return [each for each in found.lines if each.attack == attack and reader in (None, each.reader)]


def told(found: Assessment, attack: str, reader: str | None = None) -> float:
    """The figure of an attack."""
    figure = lines(found, attack, reader)[0].outcome
    assert figure is not None
    return figure[0]


@pytest.fixture(scope="module")
def clean(table: Table) -> Assessment:
    """Of what the policy makes of the people."""
    bound, rows, controls = table
    return assess(asked(released(rows, bound), rows, controls, bound))


def test_a_release_that_gives_nothing_away_has_figures_near_nothing(clean: Assessment) -> None:
    """Boxes of forty: nobody is singled out or linked by attributes, and all is within the limits but what one row of
    forty tells of a person's own."""
    assert {each.question for each in clean.above} <= {"inference"}
    assert not clean.odd
    assert told(clean, "one person by several values") < 0.01
    assert told(clean, "one row by either half") < 0.01
    assert told(clean, "taste", ATTRIBUTES) < 0.1
    assert told(clean, "boxes of one person") == 0


def test_people_who_are_in_no_release_are_found_as_seldom_as_controls(table: Table) -> None:
    """A release of others: whoever is attacked in it in the place of its people, every interval begins at 0, but for
    one in forty by chance."""
    bound, rows, controls = table
    others = canonical(list(people(PEOPLE, 3, first=2 * PEOPLE)), bound.policy)[1]
    found = assess(asked(released(others, bound), rows, controls, bound))
    figures = [each.outcome for each in found.lines if each.reader == ATTRIBUTES and each.outcome is not None]
    assert len(figures) >= 6
    begins = sorted(interval[0] for _, interval in figures)
    assert begins[:-1] == [0.0] * (len(figures) - 1)
    assert begins[-1] < 0.01


def test_who_knows_the_purchase_finds_the_row_and_attributes_do_not(clean: Assessment) -> None:
    """Readers beside each other: what is within the promise, and what is not."""
    assert told(clean, "one person whose rows fit", "which rows are one person's") == 0
    assert told(clean, "one person whose rows fit", "1 row by its window and taste and spent") > 0.9


def test_predicates_over_boxes_single_out_whatever_the_grouping(clean: Assessment) -> None:
    """(1 - 1/m)^(m-1) of random predicates of weight 1/m, for boxes of forty and more: .37 of 600."""
    assert 0.32 < told(clean, "a random 1/members of a box") < 0.42


def test_a_value_that_one_member_has_singles_out(tmp_path: Path) -> None:
    """Towns of their own: a box and one of its towns is one person of the 600, and a box and one town or another is
    two; now and then it is the sex that is asked."""
    rows = [row | {"town": f"town {place}"} for place, row in enumerate(people(PEOPLE, 1))]
    bound, table = canonical(rows, policy_of(ROWS.replace("k: 40", "k: 5"), tmp_path))
    found = assess(asked(released(table, bound), table, None, bound))
    assert told(found, "this box and a value of its set") > 0.99
    assert told(found, "this box and a value of its set, or another") == 0.0
    assert 0.3 < told(found, "this box and an end cell") <= 1.0
    assert all(each.limit is None for each in lines(found, "this box and a value of its set"))


def test_one_row_a_person_is_guessed_as_often_as_k_allows(tmp_path: Path, table: Table) -> None:
    """Of five candidates one is the row's: a fifth of its values is known beyond what controls give, and that is above
    the limit."""
    text = ROWS.replace("k: 40", "k: 5")
    bound, rows = canonical(list(people(PEOPLE, 1)), policy_of(text, tmp_path))
    found = assess(asked(released(rows, bound), rows, table[2], bound))
    assert 0.1 < told(found, "taste", ATTRIBUTES) < 0.25
    (high,) = (each for each in found.above if each.attack == "taste")
    assert mend(high).startswith("A larger k hides a value among more rows, or this field is left out")
    assert mend(high).endswith("or a limit of your own (assess:), by whoever signs")
    unsure = replace(high, limit=high.outcome[0] + 0.001) if high.outcome else high
    assert unsure.verdict(JudgedBy.UPPER) == "ABOVE"
    assert mend(unsure).endswith(
        "is within it: more people would tell, or judge by figures (assess: {by: figure})"
    )


@pytest.mark.parametrize("given", [True, False], ids=["with controls", "with a twin"])
def test_a_release_made_by_dropping_nothing_is_found(table: Table, given: bool) -> None:
    """Everybody's own values as boxes: singled out and linked, and each box is one person's. Without controls, too,
    though the twin is a good one."""
    bound, rows, controls = table
    if not given:
        rows = pa.concat_tables([rows, controls])
    found = assess(asked(exactly(rows, bound), rows, controls if given else None, bound))
    above = {each.attack for each in found.above}
    assert {"one person by several values", "one row by either half", "boxes of one person"} <= above
    assert told(found, "one person by several values") > 0.5
    assert told(found, "boxes of one person") > 0.9
    mends = {each.attack: mend(each) for each in found.above}
    assert "breaks its promise" in mends["boxes of one person"]
    assert "a coarser grid" in mends["one row by either half"]
    assert verdict(found).kind == "bad"


def test_one_class_of_one_is_found(table: Table, clean: Assessment) -> None:
    """One row of 600 with its own values for a box."""
    bound, rows, controls = table
    found = assess(asked(exactly(rows, bound, 1.5 / PEOPLE), rows, controls, bound))
    assert {each.attack for each in found.above} - {each.attack for each in clean.above} == {
        "boxes of one person"
    }


def test_payload_that_links_is_found(tmp_path: Path) -> None:
    """A card number that somebody called insensitive: everybody is alone in it, and it is guessed from attributes as
    often as k allows, of which controls give nothing."""
    text = ROWS.replace("  taste: {role: sensitive}", "  taste: {role: insensitive}").replace("k: 40", "k: 5")
    rows = [row | {"taste": f"card {place}"} for place, row in enumerate(people(2 * PEOPLE, 1))]
    bound, table = canonical(rows, policy_of(text, tmp_path))
    found = assess(asked(released(table, bound), table, None, bound))
    assert {"taste", "rows that are alone in taste"} <= {each.attack for each in found.above}
    assert told(found, "rows that are alone in taste") == 1.0


def test_controls_of_another_kind_are_called_so(tmp_path: Path) -> None:
    """A release of hundreds of towns from which nobody but the controls comes: predicates on these find controls."""
    rows = [row | {"town": f"town {place % 2}"} for place, row in enumerate(people(PEOPLE, 1))]
    bound, table = canonical(rows, policy_of(ROWS, tmp_path))
    other = canonical(
        [row | {"town": f"town {n}"} for n, row in enumerate(people(PEOPLE, 2, first=PEOPLE))], bound.policy
    )[1]
    found = assess(asked(exactly(other, bound), table, other, bound))
    assert found.odd
    assert verdict(found).kind != "good"
    assert "another kind" in render(found)


@pytest.mark.parametrize(("inside", "outside"), [(150, 300), (300, 150)])
def test_fewer_than_two_hundred_give_no_figure(table: Table, inside: int, outside: int) -> None:
    """Of either side: it is said in words, and no limit is judged but those that need no controls."""
    bound, rows, controls = table
    rows, controls = rows.slice(0, inside), controls.slice(0, outside)
    found = assess(asked(released(rows, bound), rows, controls, bound))
    assert {each.attack for each in found.open} >= {
        "one person by several values",
        "one row by either half",
        "payload",
    }
    assert "an interval takes 200 of either" in render(found)
    assert "no figure" in render(found)
    assert verdict(found).kind == "open"
    assert all(each.outcome is None for each in found.lines if each.reader == ATTRIBUTES)


@pytest.mark.parametrize("sampled", [2_000, 5_000, 10_000])
def test_population_uniqueness_is_estimated(sampled: int) -> None:
    """People of a made-up population who take values as Pitman's model has it, and what a part of them says of all."""
    rng = np.random.default_rng(1)
    alpha, theta, sizes = 0.4, 300.0, np.zeros(10_000)
    population = np.zeros(10_000, dtype=np.int64)
    sizes[0], cells = 1, 1
    for place in range(1, population.size):
        shares = np.append(sizes[:cells] - alpha, theta + cells * alpha)
        population[place] = np.searchsorted(np.cumsum(shares), rng.random() * shares.sum())
        cells = max(cells, int(population[place]) + 1)
        sizes[population[place]] += 1
    truth = (np.unique(population, return_counts=True)[1] == 1).sum() / population.size
    _, counts = np.unique(rng.permutation(population)[:sampled], return_counts=True)
    assert population_uniques(counts, population.size) == pytest.approx(truth, rel=0.25)


def test_a_population_is_told_with_its_estimator(table: Table) -> None:
    """Where its size is given, and with no limit."""
    bound, rows, controls = table
    found = assess(replace(asked(released(rows, bound), rows, controls, bound), population=5_000))
    assert found.lines[-1].reader == "a register of 5,000 people"
    assert "Hoshino 2001" in found.lines[-1].attack
    assert found.lines[-1].limit is None


def test_the_same_seed_gives_the_same_figures(table: Table, clean: Assessment) -> None:
    """Nothing else is drawn."""
    bound, rows, controls = table
    again = assess(asked(released(rows, bound), rows, controls, bound))
    assert again.to_dict() == clean.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        "",
        "cohort: window\n",
        "protect: row\n",
        pytest.param("protect: row\nsolver: ola\n", marks=pytest.mark.thorough),
    ],
    ids=["lasting", "window", "row", "levels"],
)
def test_every_protection_is_assessed(tmp_path: Path, change: str) -> None:
    """People who come back, under each protection: all questions have a figure, and k people lie in every box."""
    text = LEVELS if "ola" in change else FEED
    policy = policy_of(text + change, tmp_path)
    bound, rows = canonical(list(people(440, 1, days=4)), policy)
    base = asked(None, rows, None, bound)  # type: ignore[arg-type]
    from kanonflow.pipelines.assess.twin import twin_of

    whole = twin_of(base.feed, np.ones(rows.num_rows, np.bool_), bound)
    found = assess(Assessed(base.feed, whole.released, bound, base.split, 1))
    questions = {each.question for each in found.lines if each.outcome is not None}
    assert {"singling out", "linkability", "inference"} <= questions
    assert told(found, "boxes of one person") == 0
