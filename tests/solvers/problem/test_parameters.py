"""A solver's own parameters by name: what is chosen, what is refused, and that the page lists them all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kanonflow.solvers.catalogue import solver_named, solver_names, taking_parameters
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.parameters import chosen, parameter_defaults, unknown_parameters
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.black_hole import BlackHoleParameters
from kanonflow.solvers.rivals.clusterings import individual_input, star_problem
from kanonflow.solvers.rivals.kab import kab_result
from kanonflow.solvers.rivals.paper_graphs import solve_paper
from kanonflow.solvers.rivals.paper_search import PaperSearch
from kanonflow.solvers.units.individuals import gather_individuals
from tests.mixed_tables import mixed_table

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Own:
    """One parameter of each kind, and a field that the task says."""

    rounds: int = 3
    share: float = 0.5
    way: str = "best"
    strict: bool = False
    loss: str = "ncp"


def test_what_is_not_chosen_stays_as_it_was() -> None:
    """Names of others are let be; what the task says is no parameter."""
    assert chosen(Own, {"share": 1, "stars": 7}, loss="sil") == Own(share=1, loss="sil")
    assert parameter_defaults(Own) == {"rounds": 3, "share": 0.5, "way": "best", "strict": False}


def test_all_values_of_another_kind_are_told_at_once() -> None:
    """A whole number is a number; true is neither, and nothing is cut to fit."""
    with pytest.raises(BudgetError) as caught:
        chosen(Own, {"rounds": 2.5, "share": "much", "way": 1, "strict": 1})
    assert str(caught.value) == (
        "rounds must be a whole number; share must be a number; way must be a word; strict must be true or false"
    )
    with pytest.raises(BudgetError, match="rounds must be a whole number"):
        chosen(Own, {"rounds": True})


def test_a_name_that_nobody_has_is_told_with_what_may_be_meant() -> None:
    """Of several solvers, each of which may have it."""
    given = {"rounds": 1, "stras": 2, "colour": 3}
    assert unknown_parameters([Own, None, BlackHoleParameters], given) == {
        "stras": "did you mean stars?",
        "colour": "it has rounds, share, way, strict, stars, iterations, horizon, literal",
    }
    assert unknown_parameters([None], {"rounds": 1}) == {"rounds": "it has none"}


def test_a_task_takes_parameters_of_its_method_and_of_its_start_only() -> None:
    """By name, before anything is solved."""
    table = mixed_table(3, 40)
    given: dict[str, Any] = {"shape": "classes", "budget": Budget(5.0), "seed": 1}
    for method, start in (("kab", "auto"), ("auto", "kab")):
        solve(Task(table, 3, start=start, parameters={"stars": 2}, **given), method)
        with pytest.raises(BudgetError, match="no parameter 'star': did you mean stars"):
            solve(Task(table, 3, start=start, parameters={"star": 2}, **given), method)
    for method in ("auto", "k-member"):
        with pytest.raises(
            BudgetError, match=f"method {method}, start auto: no parameter 'stars': it has none"
        ):
            solve(Task(table, 3, parameters={"stars": 2}, **given), method)
    with pytest.raises(BudgetError, match="a population needs at least 1 star"):
        solve(Task(table, 3, parameters={"stars": 0}, **given), "kab")


@pytest.mark.parametrize(
    "parameters", [{}, {"stars": 1}, {"iterations": 0, "literal": True}, {"horizon": 0.0}]
)
def test_kab_by_name_is_kab_with_these_parameters(parameters: dict[str, Any]) -> None:
    """What the clustering alone finds."""
    table = mixed_table(5, 60)
    people = gather_individuals(table)
    found = solve(Task(table, 3, shape="classes", parameters=parameters, seed=4), "kab")
    problem = star_problem(individual_input(table, people, 3, 4))
    labels = kab_result(problem, 4, BlackHoleParameters(**parameters)).labels
    assert np.array_equal(found.partition.labels, labels[people.of_row])


@pytest.mark.parametrize(
    "parameters",
    [
        {"improvement": "first"},
        {"strict": True},
        {"incremental": False},
        {"perturbation": 0},
        {"perturbation": 1},
    ],
)
def test_the_papers_search_by_name_is_that_search(parameters: dict[str, Any]) -> None:
    """Best or first improvement, strict moves, n swaps between two local searches; the loss is the task's."""
    table = mixed_table(6, 30)
    method = "paper-iterated-local-search"
    for loss in ("ncp", "sil"):
        task = Task(table, 3, loss=loss, budget=Budget(300.0), parameters=parameters, seed=2)
        found = solve(task, method)
        wanted = solve_paper(task, method=method, parameters=PaperSearch(loss=loss, **parameters))
        assert np.array_equal(found.graph.members, wanted.graph.members)
        assert found.evaluations == wanted.evaluations


def test_the_page_lists_every_parameter_with_its_default() -> None:
    """docs/solvers.md, one line a parameter, with the methods that have it."""
    page = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(\w+)` \| (`[^|]*`) \| ([^|]+) \|", page, re.MULTILINE)
    told = {
        (method, name, default.strip())
        for name, methods, default in lines
        for method in re.findall(r"`([^`]+)`", methods)
    }
    real = set()
    for method in solver_names():
        if (of := solver_named(method).parameters) is not None:
            real |= {(method, name, str(value).lower()) for name, value in parameter_defaults(of).items()}
    assert told == real
    assert {method for method, _, _ in real} == {
        "kab", "black-hole", "kgen", "random-search", "paper-local-search", "paper-iterated-local-search",
    }  # fmt: skip


def test_the_pages_examples_are_taken() -> None:
    """Each ``solver: {...}`` of the section names parameters that its method or its start has, with values for them."""
    page = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")
    section = page.split("## Parameters of the papers' methods")[1].split("\n## ")[0]
    examples = [
        yaml.safe_load(line)["solver"] for line in re.findall(r"^ {4}(solver: .*)$", section, re.MULTILINE)
    ]
    assert len(examples) == 3
    for example in examples:
        method, start = example.pop("method", "auto"), example.pop("start", "auto")
        taking = taking_parameters(solver_named(method), start)
        assert example
        assert unknown_parameters(taking, example) == {}
        for of in taking:
            if of is not None:
                chosen(of, example)
