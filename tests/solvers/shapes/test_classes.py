"""From a table to closed classes: releasable, priced truly, the same each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.catalogue import start_names
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes import classes as module
from kanonflow.solvers.shapes.classes import CLASS_LOSSES, solve_classes
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.units.individuals import gather_individuals, pair_class_loss
from kanonflow.solvers.units.nearest_people import nearest_people
from kanonflow.solvers.units.tree_cut import make_cut
from tests import naive
from tests.levelled_tables import levelled
from tests.mixed_tables import mixed_table, tables
from tests.ticking import Ticking

pytestmark = pytest.mark.thorough

QUICK = Budget(60.0)
feasible = tables(trees=True, individuals=True, k=4, most=50)
with_levels = levelled(individuals=True, k=4, most=50)


def enough(table: Table, k: int) -> bool:
    """Whether there are k individuals."""
    return np.unique(table.individuals).size >= k


def loss_with_waiting(table: Table, solution: Solution) -> float:
    """GCP of the released rows, and 1 for each row that waits."""
    waiting = float((solution.partition.labels < 0).mean())
    return waiting + (1 - waiting) * gcp(table, solution.partition)


@settings(derandomize=True, max_examples=80)
@given(
    with_levels,
    st.integers(2, 4),
    st.sampled_from(start_names("classes")),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_a_solution_could_be_released(table: Table, k: int, start: str, search: bool, seed: int) -> None:
    """Classes hold k individuals, each count shared by k; the loss is that of the rows, not below the bound."""
    priority = np.random.default_rng(seed).integers(0, 3, table.records)
    solution = solve_classes(
        Task(table, k, start=start, budget=Budget(200.0), seed=5, priority=priority, shape="classes"),
        search=search,
    )
    solution.partition.check(k, table.individuals)
    assert solution.loss == pytest.approx(loss_with_waiting(table, solution), abs=1e-9)
    assert solution.lower_bound <= solution.loss + 1e-9
    assert solution.trace[:1] in ((), ((0, solution.start_loss),))
    assert search or solution.evaluations == 0


@settings(derandomize=True, max_examples=60)
@given(feasible, st.integers(2, 4), st.integers(0, 2**20))
def test_rows_stay_by_priority(table: Table, k: int, seed: int) -> None:
    """Of each individual those that stay come before those that wait, by priority and then by row."""
    priority = np.random.default_rng(seed).integers(0, 3, table.records)
    labels = solve_classes(
        Task(table, k, budget=QUICK, seed=5, priority=priority, shape="classes")
    ).partition.labels
    who = np.unique(table.individuals, return_inverse=True)[1]
    kept = np.bincount(who[labels >= 0], minlength=who.max() + 1)
    assert (labels >= 0).tolist() == naive.kept_rows(who.tolist(), kept.tolist(), priority.tolist())


@settings(derandomize=True, max_examples=40)
@given(feasible, st.integers(2, 4))
def test_the_search_is_not_worse_than_its_start(table: Table, k: int) -> None:
    """More evaluations, less loss."""
    start = solve_classes(Task(table, k, budget=QUICK, seed=5, shape="classes"), search=False)
    solution = solve_classes(Task(table, k, budget=Budget(300.0), seed=5, shape="classes"))
    assert solution.loss <= solution.start_loss + 1e-9
    assert solution.start_loss >= start.loss - 1e-9


@settings(derandomize=True, max_examples=60)
@given(feasible, st.integers(2, 4), st.integers(0, 2**20))
def test_any_old_classes_are_a_start(table: Table, k: int, seed: int) -> None:
    """Old classes of any size, newcomers, and a choice of the cheaper of the warm and the cold start."""
    u = np.unique(table.individuals).size
    old = np.random.default_rng(seed).integers(-1, 4, u)
    solution = solve_classes(Task(table, k, budget=QUICK, seed=5, warm=WarmClasses(old), shape="classes"))
    solution.partition.check(k, table.individuals)
    assert solution.cold_loss is not None
    # Where nobody can be left in an old class there is no warm start.
    warm_loss = np.inf if solution.warm_loss is None else solution.warm_loss
    assert solution.start_loss == pytest.approx(min(warm_loss, solution.cold_loss))
    assert solution.start == ("warm" if warm_loss <= solution.cold_loss else "l-greedy")
    sizes = np.bincount(old[old >= 0], minlength=5)
    returned = np.isin(old, np.flatnonzero(sizes >= k)).mean()
    assert solution.warm_kept is not None
    kept = solution.warm_kept
    assert 0.0 < kept <= returned if solution.start == "warm" else kept == 0.0


def classes_of_people(table: Table, solution: Solution) -> np.ndarray:
    """The class of each individual, -1 of who waits."""
    who = np.unique(table.individuals, return_inverse=True)[1]
    old = np.full(who.max() + 1, -1)
    np.maximum.at(old, who, solution.partition.labels)
    return old


@pytest.mark.parametrize("people", [150, 400])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alike", [False, True])
def test_the_same_people_begin_with_what_was_in_hand(people: int, seed: int, alike: bool) -> None:
    """Nothing of it is given up before the search, which ends no higher than a cold one; nor of large classes, of many
    people who are alike."""
    table = mixed_table(seed, 400, people=people)
    if alike:
        first = np.arange(400) % 9
        table = replace(table, numeric=table.numeric[first], categorical=table.categorical[first])
    cold = solve_classes(Task(table, 4, budget=Budget(100.0), seed=1, shape="classes"))
    old = classes_of_people(table, cold)
    warm = WarmClasses(old)
    again = solve_classes(Task(table, 4, budget=Budget(100.0), seed=2, warm=warm, shape="classes"))
    assert again.start == "warm"
    assert again.start_loss <= cold.trace[-1][1] + 1e-12
    assert again.loss <= cold.loss + 1e-12


def test_the_bound_knows_which_rows_stay() -> None:
    """One individual's first row lies far off and waits by priority, the row that stays lies with the others."""
    table = Table(
        np.array([[1.0], [0.0], [0.0], [0.0], [0.0]]),
        np.empty((5, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        np.array([1, 1, 2, 3, 4]),
    )
    priority = np.array([1, 0, 0, 0, 0])
    solution = solve_classes(
        Task(table, 4, start="one-class", budget=QUICK, seed=1, priority=priority, shape="classes")
    )
    assert solution.partition.labels.tolist() == [-1, 0, 0, 0, 0]
    assert solution.lower_bound <= solution.loss + 1e-9


def test_what_has_no_equal_waits() -> None:
    """Three individuals with 5, 5 and 1 rows, k = 2: the five are released whole, or everybody keeps one."""
    individuals = np.repeat([10, 20, 30], [5, 5, 1])
    numeric = np.where(individuals == 30, 1.0, 0.0)[:, None]
    table = Table(numeric, np.empty((11, 0), np.int32), np.empty(0, np.int64), np.ones(1), individuals)
    labels = solve_classes(Task(table, 2, budget=Budget(500.0), seed=1, shape="classes")).partition.labels
    assert labels.tolist() == [0] * 10 + [-1]


def test_one_class_holds_everybody() -> None:
    """The start that pass-through uses: one class, whatever it costs, rows above the levels wait."""
    table = mixed_table(4, 60, people=20)
    solution = solve_classes(Task(table, 4, start="one-class", budget=QUICK, seed=1, shape="classes"))
    assert solution.partition.classes == 1
    assert solution.start_loss == solution.loss
    solution.partition.check(4, table.individuals)


def test_without_individuals_each_row_is_one() -> None:
    """Classes of k rows, none of which waits when k divides up."""
    solution = solve_classes(Task(mixed_table(4, 60), 4, budget=QUICK, seed=1, shape="classes"))
    solution.partition.check(4, np.arange(60))
    assert np.all(solution.partition.labels >= 0)


def test_classes_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 rows, searched in parts: one, two or three threads give the same classes, as does a repetition."""
    monkeypatch.setattr("kanonflow.solvers.shapes.classes.PART_SIZE", 400)
    table = mixed_table(3, 4000, people=1600, cardinality=(6, 80))
    found = [
        solve_classes(Task(table, 4, budget=QUICK, seed=3, threads=threads, shape="classes"))
        for threads in (1, 2, 3, 1)
    ]
    assert all(np.array_equal(other.partition.labels, found[0].partition.labels) for other in found[1:])
    assert found[0].loss < found[0].start_loss
    found[0].partition.check(4, table.individuals)


def in_small_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> list[int]:
    """Pieces of so many people by a sample of as many; of each cut that is made, how many pieces it has."""
    made: list[int] = []

    def recorded(*args: Any) -> Any:
        cut = make_cut(*args)
        made.append(cut.pieces)
        return cut

    monkeypatch.setattr(module, "PART_SIZE", size)
    monkeypatch.setattr(module, "SAMPLE_SIZE", size)
    monkeypatch.setattr(module, "make_cut", recorded)
    return made


def without_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """As people of several rows are searched."""
    monkeypatch.setattr(module, "_in_pieces", lambda problem, effort: (problem, effort))
    monkeypatch.setattr(module, "_cheaper_start", lambda whole, _: (None, whole))


class CutByChance(NamedTuple):
    """What knows nothing of who is near whom."""

    pieces: int

    def piece_of(self, table: Table) -> NDArray[np.int64]:
        """Whatever it draws."""
        return np.random.default_rng(1).integers(0, self.pieces, table.records)


def test_a_tree_whose_start_costs_more_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is then that of the tour, and evaluations are those asked for."""
    in_small_pieces(monkeypatch, 300)
    monkeypatch.setattr(module, "make_cut", lambda *args: CutByChance(args[-1]))
    task = Task(mixed_table(3, 1500), 4, budget=QUICK, seed=3, shape="classes")
    solution = solve_classes(task)
    assert 0.98 * 60 * 1500 <= solution.evaluations <= 1.1 * 60 * 1500
    without_a_tree(monkeypatch)
    assert solution.start_loss == solve_classes(task).start_loss


@pytest.mark.parametrize("loss", ["ncp", "sil"])
def test_people_of_one_row_each_are_searched_in_pieces_of_a_tree(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are called; threads have no say, evaluations are those asked for, and it can be released."""
    made = in_small_pieces(monkeypatch, 300)
    table = mixed_table(3, 1500, cardinality=(2, 80))
    called = replace(table, individuals=np.random.default_rng(1).permutation(1500) * 3)
    for people in (table, called):
        task = Task(people, 4, budget=QUICK, seed=3, shape="classes", loss=loss)
        solutions = [solve_classes(replace(task, threads=threads)) for threads in (1, 3)]
        assert np.array_equal(solutions[0].partition.labels, solutions[1].partition.labels)
        assert 0.98 * 60 * 1500 <= solutions[0].evaluations <= 1.1 * 60 * 1500
        assert solutions[0].loss < solutions[0].start_loss
        assert solutions[0].trace[-1][0] == solutions[0].evaluations
        solutions[0].partition.check(4, np.arange(1500))
    # The first column is dear: its cells are packed whole, in about as many pieces.
    assert len(made) == 4
    assert set(made) <= {4, 5, 6}


def test_a_search_in_pieces_of_a_tree_loses_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Towns, jobs of towns and two attributes that are dear, 6,000 people, three seeds, at equal evaluations."""
    rng = np.random.default_rng(5)
    town = rng.choice(100, 6000, p=rng.dirichlet(np.full(100, 0.5)))
    place = np.clip(rng.random((100, 2))[town] + rng.normal(0, 0.01, (6000, 2)), 0, 1)
    dear = [rng.integers(0, 2, 6000), rng.integers(0, 3, 6000)]
    codes = np.stack([*dear, (town + rng.integers(0, 3, 6000)) % 30], axis=1).astype(np.int32)
    table = Table(place, codes, np.array([2, 3, 30]), np.ones(5))
    in_small_pieces(monkeypatch, 1500)
    task = Task(table, 5, budget=Budget(50.0), seed=1, shape="classes")
    by_tree = [solve_classes(replace(task, seed=seed)).loss for seed in range(3)]
    without_a_tree(monkeypatch)
    by_tour = [solve_classes(replace(task, seed=seed)).loss for seed in range(3)]
    assert np.mean(by_tree) < 0.98 * np.mean(by_tour)


def test_people_of_several_rows_are_searched_along_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree cuts points; nor is one made where nothing is searched, or where rules are to be met."""
    made = in_small_pieces(monkeypatch, 100)
    table, single = mixed_table(3, 900, people=400, cardinality=(6, 80)), mixed_table(3, 400)
    rule = Sensitive(np.arange(400) % 4, "distinct", 2.0)
    for task in (
        Task(table, 4, budget=QUICK, seed=3, shape="classes"),
        Task(single, 4, budget=QUICK, seed=3, shape="classes", sensitive=(rule,)),
    ):
        solve_classes(task)
    solve_classes(Task(single, 4, budget=QUICK, seed=3, shape="classes"), search=False)
    solve_classes(Task(mixed_table(3, 199), 4, budget=QUICK, seed=3, shape="classes"))
    assert made == []
    solve_classes(Task(mixed_table(3, 200), 4, budget=QUICK, seed=3, shape="classes"))
    assert len(made) == 1


def test_parts_are_searched_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts or as a whole about as many evaluations are made as asked for, also from old classes."""
    monkeypatch.setattr("kanonflow.solvers.shapes.classes.PART_SIZE", 100)
    table = mixed_table(3, 900, people=400, cardinality=(6, 80))
    old = np.arange(np.unique(table.individuals).size) // 5
    for warm in (None, WarmClasses(old)):
        solution = solve_classes(Task(table, 4, budget=QUICK, seed=3, warm=warm, shape="classes"))
        solution.partition.check(4, table.individuals)
        assert 0.9 * 60 * 900 <= solution.evaluations <= 1.2 * 60 * 900


def test_classes_depend_on_the_seed() -> None:
    """Equal seeds give equal classes, another one others."""
    table = mixed_table(3, 600, people=250)
    found = [
        solve_classes(Task(table, 4, budget=QUICK, seed=seed, shape="classes")).partition.labels
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_a_deadline_stops_early_and_says_so() -> None:
    """Fewer evaluations, deadline_struck, and classes that could be released."""
    table = mixed_table(3, 300, people=150)
    budget = Budget(5000.0, deadline_ms=2500.0)
    solution = solve_classes(Task(table, 4, budget=budget, seed=1, clock=Ticking(1.0), shape="classes"))
    assert solution.deadline_struck
    assert solution.evaluations < 300 * 5000
    solution.partition.check(4, table.individuals)


def test_a_deadline_that_is_not_reached_changes_nothing() -> None:
    """With time to spare the result is that without a deadline."""
    table = mixed_table(3, 300, people=150)
    free = solve_classes(Task(table, 4, budget=QUICK, seed=1, shape="classes"))
    bounded = solve_classes(
        Task(table, 4, budget=replace(QUICK, deadline_ms=1e9), seed=1, clock=Ticking(1.0), shape="classes")
    )
    assert not bounded.deadline_struck
    assert np.array_equal(free.partition.labels, bounded.partition.labels)


@pytest.mark.parametrize("k", [-1, 0, 1, 256])
def test_k_out_of_range_is_refused(k: int) -> None:
    """k lies between 2 and 255."""
    with pytest.raises(BudgetError, match="k must lie"):
        solve_classes(Task(mixed_table(1, 300, people=300), k, budget=QUICK, seed=1, shape="classes"))


def test_fewer_than_k_individuals_are_refused() -> None:
    """Many rows of few individuals cannot be hidden."""
    with pytest.raises(InfeasibleError, match="4 individuals"):
        solve_classes(Task(mixed_table(1, 80, people=4), 5, budget=QUICK, seed=1, shape="classes"))


def test_what_costs_as_much_as_waiting_is_released() -> None:
    """Exactly k people whose hull is the whole domain, and newcomers only in a warm start: all are released."""
    table = Table(
        np.linspace(0.0, 1.0, 5)[:, None],
        np.empty((5, 0), dtype=np.int32),
        np.empty(0, dtype=np.int64),
        np.ones(1),
        np.arange(5),
    )
    for warm in (None, WarmClasses(np.full(5, -1))):
        solution = solve_classes(Task(table, 5, budget=Budget(), seed=1, warm=warm, shape="classes"))
        assert np.all(solution.partition.labels == 0)
        assert solution.loss == pytest.approx(1.0)


@settings(derandomize=True, max_examples=40)
@given(tables(trees=True, k=2, least=2, most=40), st.integers(0, 2**20))
def test_points_have_their_nearest_from_the_tree(table: Table, seed: int) -> None:
    """As near as a look at everybody finds; of a part, those that are in it, in the part's numbers."""
    table = replace(table, individuals=np.random.default_rng(seed).permutation(table.records))
    people = gather_individuals(table)
    tour, nearest = module._tour(table, people)
    assert nearest is not None
    looked = nearest_people(people, tour, nearest.shape[1])[0]

    def gaps(unit: int, others: NDArray[np.int32]) -> list[float]:
        return [pair_class_loss(people, unit, int(other)) for other in others if other >= 0]

    for unit in range(tour.size):
        assert gaps(unit, nearest[unit]) == pytest.approx(gaps(unit, looked[unit]))
    chosen = np.flatnonzero(np.random.default_rng(seed).random(tour.size) < 0.6)
    within = module._nearest_within(nearest, chosen)
    assert within is not None
    for place, unit in enumerate(chosen):
        found = [int(chosen[other]) for other in within[place] if other >= 0]
        assert found == [other for other in nearest[unit].tolist() if other in chosen.tolist()]
    doubled = replace(table, individuals=table.individuals // 2)
    assert module._tour(doubled, gather_individuals(doubled))[1] is None


@pytest.mark.parametrize("loss", CLASS_LOSSES)
def test_without_figures_the_answer_is_the_same(loss: str) -> None:
    """The structure and its loss; no bound, and nothing of the way."""
    task = Task(mixed_table(4, 60), 4, budget=Budget(100), seed=3, shape="classes", loss=loss)
    told, plain = solve_classes(task), solve_classes(replace(task, figures=False))
    assert plain.partition.labels.tolist() == told.partition.labels.tolist()
    assert (plain.loss, plain.start_loss) == (told.loss, told.start_loss)
    assert (plain.lower_bound, len(plain.trace)) == (0.0, 1)
    assert len(told.trace) > 1
