"""The theorem of cohorts that last is checked by a machine, and the step that it speaks of is the product's."""

import itertools
import re
import shutil
import subprocess
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest

from tests.modelled_worlds import Product, Rules, differences, modelled, tools

ROOT = Path(__file__).parents[1]
PARTS = ("Promise", "Items", "Numbers", "Step", "Against", "Left", "Release", "Extract")
THEOREMS = {
    "Items": ("left_with_enough", "fits_moved"),
    "Numbers": ("one_in_k_numbered", "number_of_anybody"),
    "Against": ("against_fair",),
    "Left": ("left_in_step",),
    "Release": (
        "promise",
        "promise_less_known",
        "promise_fitting",
        "promise_numbered",
        "at_least_k",
        "promise_everything",
        "promise_against",
        "promise_left",
    ),
}

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What ``make proofs`` prints, and the program of the model."""
    if (missing := tools()) is not None:
        pytest.skip(missing)
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "proofs", tree / "proofs")
    shutil.copy(ROOT / "Makefile", tree)
    made = subprocess.run(["make", "proofs"], cwd=tree, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout, tree / ".proofs" / "model"


def test_the_theorems_rest_on_no_axiom(checked: tuple[str, Path]) -> None:
    """Each theorem that the documents name is proved, and nothing is assumed but its premises."""
    printed, _ = checked
    assert printed.count("Closed under the global context") == sum(map(len, THEOREMS.values()))
    assert "Axioms:" not in printed
    for part, theorems in THEOREMS.items():
        text = (ROOT / "proofs" / f"{part}.v").read_text()
        assert tuple(re.findall(r"^Print Assumptions (\w+)\.$", text, re.M)) == theorems
    for part in PARTS:
        source = re.sub(r"\(\*.*?\*\)", "", (ROOT / "proofs" / f"{part}.v").read_text(), flags=re.S)
        assert not re.search(r"\b(Admitted|Axiom|Parameter|Conjecture|Abort|admit)\b", source), part


@pytest.mark.parametrize(
    "rules",
    [
        Rules(4, 3),
        Rules(4, 3, delay=0),
        Rules(6, 2),
        Rules(5, 3, cohort_size=3, intake=5, delay=2),
        Rules(6, 3, k=3, cohort_size=3, intake=6),
        Rules(6, 3, intake=4),
        Rules(6, 3, intake=2, percent=75, delay=2),
    ],
    ids=str,
)
def test_the_step_is_that_of_the_model(checked: tuple[str, Path], rules: Rules) -> None:
    """In small worlds drawn at random the product and the model that the theorem speaks of come to the same: who
    enters, with whom, which cohorts are one group, which rows go out, wait, are rejected; and what founding and merging
    answer follows from the pool, and from counts of cohorts, alone."""
    rng = np.random.default_rng(11)
    for alike in (2, 1):
        worlds = [rules.random(rng) for _ in range(40)]
        assert differences(Product(rules, alike=alike), worlds, checked[1]) == []


@pytest.mark.parametrize("rules", [Rules(4, 3), Rules(6, 2), Rules(6, 3)], ids=str)
def test_worlds_up_to_names_agree(checked: tuple[str, Path], rules: Rules) -> None:
    """Of people who are all alike a world stands for all that are equal but for who is called what: a sample of these
    worlds, and the same with people renamed. All of the first two sets were run once (decision 082)."""
    rng = np.random.default_rng(3)
    every = comb(3**rules.windows + rules.people - 1, rules.people) // 40
    worlds = list(itertools.islice(rules.representatives(), int(rng.integers(every)), None, every))
    assert len(worlds) >= 40
    renamed = [tuple(world[person] for person in rng.permutation(rules.people)) for world in worlds]
    assert differences(Product(rules, alike=rules.people), [*worlds, *renamed], checked[1]) == []


@pytest.mark.parametrize("rules", [Rules(4, 2), Rules(3, 2, delay=2, k=3, cohort_size=3)], ids=str)
def test_what_worlds_have_in_common_is_done_once(rules: Rules) -> None:
    """Walked from window to window, each world up to names is there once and comes to what it does by itself."""
    product = Product(rules, alike=rules.people)
    courses = list(product.walk(product.begun(), rules.windows))
    worlds = [tuple(sorted(world)) for world in rules.representatives()]
    assert sorted(tuple(sorted(course.trails)) for course in courses) == sorted(worlds)
    for course in courses:
        assert Product(rules, alike=rules.people).run(course.trails) == product.ended(course)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(4, 3, known=1),
        Rules(5, 3, known=2, delay=2),
        Rules(6, 3, known=2, intake=4),
        Rules(6, 3, known=1, k=3, cohort_size=3, intake=5, delay=2),
    ],
    ids=str,
)
def test_rows_are_dropped_as_the_model_drops_them(checked: tuple[str, Path], rules: Rules) -> None:
    """Under ``against`` with known windows: the same rows go out, are rejected for good and wait, cohorts are merged by
    what is left, and an intake of which nothing would be left comes to nothing."""
    rng = np.random.default_rng(17)
    dropped = undone = 0
    for alike in (2, 1):
        product, worlds = Product(rules, alike=alike), [rules.random(rng) for _ in range(40)]
        assert differences(product, worlds, checked[1]) == []
        dropped, undone = dropped + product.dropped, undone + product.undone
    assert dropped > 40
    assert undone


def test_who_is_in_an_intake_that_comes_to_nothing_stays_together(checked: tuple[str, Path]) -> None:
    """``never_apart``, the premise of the promises with a rule: one and two came to be in one cohort, though an intake
    was tried before with two alone, of which nothing was left; with their rows exchanged something was. Now each enters
    with whom that intake put it together, and exchanging the rows of two people of a cohort changes nobody's cohort."""
    rules = Rules(7, 3, intake=4, delay=3, known=1)
    found = ((0, 0, 1), (0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 1, 1), (0, 0, 1), (1, 0, 1))
    product, rng = Product(rules, alike=3), np.random.default_rng(8)
    assert (
        differences(product, [found, tuple(found[person] for person in (0, 2, 1, 3, 4, 5, 6))], checked[1])
        == []
    )
    assert product.undone
    exchanged = 0
    for world in [found, *(rules.random(rng) for _ in range(60))]:
        homes = [facts.homes.split(",") for facts in product.run(world)[0]]
        for one, other in itertools.combinations(range(rules.people), 2):
            if homes and homes[-1][one] == homes[-1][other] != "-" and rng.random() < 0.4:
                order = list(range(rules.people))
                order[one], order[other] = other, one
                again = product.run(tuple(world[person] for person in order))[0]
                assert [facts.homes.split(",") for facts in again] == homes
                exchanged += 1
    assert exchanged > 30
    assert product.undone > 10


def test_a_model_of_another_policy_differs(checked: tuple[str, Path]) -> None:
    """The comparison sees each rule: with another k, size, intake or delay the model comes to something else."""
    rules, rng = Rules(5, 3, intake=2), np.random.default_rng(5)
    worlds = [rules.random(rng) for _ in range(40)]
    for change in ({"k": 3, "cohort_size": 3}, {"intake": 4}, {"percent": 99}, {"delay": 0}, {"known": 1}):
        other = replace(rules, **change)
        product = Product(rules)
        runs = [product.run(world) for world in worlds]
        lines = []
        for _, line in runs:
            words = line.split()
            policy = (
                other.k,
                other.cohort_size,
                other.intake,
                other.percent,
                other.delay,
                other.known,
                other.k,
            )
            words[1:8] = map(str, policy)
            lines.append(" ".join(words))
        models = modelled(lines, checked[1])
        assert any(ours != theirs for (ours, _), theirs in zip(runs, models, strict=True)), other


def test_an_answer_that_hangs_on_who_has_which_rows_is_seen(
    checked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merging that looks at more than counts of cohorts gives two answers to one question, and that is told."""
    from kanonflow.transforms.roster import window_groups

    merge, calls = window_groups.merge_cohorts, iter(range(10**6))

    def by_chance(task):
        merged = merge(task)
        return merged._replace(labels=merged.labels.max() - merged.labels) if next(calls) % 2 else merged

    monkeypatch.setattr(window_groups, "merge_cohorts", by_chance)
    rng = np.random.default_rng(5)
    rules = Rules(4, 3)
    told = differences(Product(rules), [rules.random(rng) for _ in range(40)], checked[1])
    assert any(line.startswith("two answers to") for line in told)
