"""Windows released at levels of hierarchies: what the policy must be, and what is released, rejected and hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.hierarchy_builders import ranges_by_doubling, star_hierarchy
from kanonflow.schemas.policy import LATTICE_METHODS as NAMES
from kanonflow.schemas.policy_file import parse_policy, policy_digest, to_mapping
from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.lattice.node_checks import KnownNodes
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from kanonflow.solvers.shapes.lattices import LATTICE_SOLVERS
from kanonflow.transforms.protections.levels import lattice_of_rows, solve_levels_of_rows
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret
from kanonflow.transforms.solver_check import check_solver
from tests.lattice_levels import check_levels
from tests.naive_lattice import naive_minimal, naive_suppressed
from tests.windows_alone import release_window

pytestmark = pytest.mark.thorough

SECRET = Secret(bytes(range(32)))
AGES = ranges_by_doubling(range(64), 8)
ZIPS = star_hierarchy([f"NL{number:02d}" for number in range(40)])
SLOT = ReleaseSlot(b"partition", None, 0)


def _mapping(**changed: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "age": {
            "role": "quasi",
            "type": "hierarchy",
            "as": "int",
            "hierarchy": [list(row) for row in AGES.rows],
        },
        "zip": {
            "role": "quasi",
            "type": "hierarchy",
            "hierarchy": [list(row) for row in ZIPS.rows],
            "weight": 3,
        },
        "note": "sensitive",
    }
    head = {"version": 1, "k": 4, "solver": {"method": "ola", "suppression": 0.05}, "fields": fields}
    return {**head, **changed, "fields": fields | changed.get("fields", {})}


def _bound(**changed: Any) -> BoundPolicy:
    policy = parse_policy(_mapping(**changed), "test", "test")
    check_solver(policy)
    schema = pa.schema([(name, pa.string()) for name in ("age", "zip", "note")])
    return bind(policy, schema, text=True, source="test")


def _rows(bound: BoundPolicy, n: int = 120, seed: int = 3, notes: str = "n") -> pa.Table:
    generator = np.random.default_rng(seed)
    ages = [
        None if place % 13 == 5 else str(int(age)) for place, age in enumerate(generator.integers(0, 64, n))
    ]
    zips = [f"NL{int(share**2 * 40):02d}" for share in generator.random(n)]
    columns = {"age": ages, "zip": zips, "note": [f"{notes}{place}" for place in range(n)]}
    return classify(
        pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns])), bound
    ).rows


def _release(bound: BoundPolicy, rows: pa.Table) -> WindowResult:
    result = release_window(rows, bound, WarmState(), SECRET, SLOT)
    assert result.release is not None
    assert from_ipc(result.release.ipc).num_rows + len(result.rejected) == rows.num_rows
    assert result.warm.waiting_rows == 0
    return result


def test_the_names_in_policies_are_those_of_the_solvers() -> None:
    """Schemas hold solver names as texts only."""
    assert set(NAMES) == set(LEVEL_STARTS)


@pytest.mark.parametrize("method", NAMES)
def test_the_released_node_is_k_anonymous_and_within_the_limit(method: str) -> None:
    """Every solver: classes of k, at most the declared share suppressed, and the least GCP of OLA's minimal nodes."""
    bound = _bound(solver={"method": method, "suppression": 0.05})
    rows = _rows(bound)
    solution, gone = solve_levels_of_rows(rows, bound, seed=1)
    node = solution.structure
    assert isinstance(node, LatticeNode)
    lattice = lattice_of_rows(rows, bound)
    check_levels(node, lattice, 4)
    suppressed = naive_suppressed(lattice, node.levels, 4)
    assert set(np.flatnonzero(node.suppressed)) == set(np.flatnonzero(gone)) == suppressed
    assert len(suppressed) <= 6
    if method in ("ola", "exhaustive", "incognito"):
        assert node.levels in naive_minimal(lattice, 4, 6)


def test_suppressed_rows_are_rejected_and_the_rest_is_released_in_classes() -> None:
    """Reasons, counts, classes of equal labels with k rows, and metrics of what is published."""
    bound = _bound()
    result = _release(bound, _rows(bound))
    released = from_ipc(result.release.ipc)  # type: ignore[union-attr]
    assert {record["reason"] for record in result.rejected} == {"suppressed"}
    assert 0 < len(result.rejected) <= 6
    labels = list(zip(released["age"].to_pylist(), released["zip"].to_pylist(), strict=True))
    assert min(labels.count(label) for label in set(labels)) >= 4
    assert result.metrics["classes"] == len(set(labels))
    assert result.metrics["gcp"] == result.metrics["gcp_hull"]
    assert result.metrics["start"] == "ola"


def test_metrics_tell_the_level_of_each_field() -> None:
    """Every label is one of the level that is told; LOG and LOS are those of the paper's formulas."""
    bound = _bound()
    result = _release(bound, _rows(bound))
    metrics, released = result.metrics, from_ipc(result.release.ipc)  # type: ignore[union-attr]
    trees = {"age": AGES, "zip": ZIPS}
    assert metrics["levels"].keys() == trees.keys()
    for name, tree in trees.items():
        there = set(released[name].to_pylist()) - {None}
        assert there <= {row[metrics["levels"][name]] for row in tree.rows}
    assert any(level > 0 for level in metrics["levels"].values())
    shares = [metrics["levels"][name] / (len(tree.rows[0]) - 1) for name, tree in trees.items()]
    assert metrics["log"] == pytest.approx(sum(shares) / 2)
    out = metrics["rows_rejected"]["suppressed"]
    assert metrics["los"] == pytest.approx(out / (out + metrics["rows_released"]))
    assert metrics["c_avg"] == pytest.approx(metrics["rows_released"] / metrics["classes"] / 4)


def test_a_window_of_which_nothing_is_suppressed_goes_out_whole() -> None:
    """Without a budget of suppression levels rise until every class has k rows."""
    bound = _bound(solver={"method": "datafly", "suppression": 0.0})
    result = _release(bound, _rows(bound))
    assert not result.rejected
    assert result.metrics["rows_released"] == from_ipc(result.release.ipc).num_rows  # type: ignore[union-attr]


def test_payload_and_order_do_not_shape_the_levels() -> None:
    """Another order of the rows gives the same bytes; other payloads the same boxes and the same suppressed rows."""
    bound = _bound()
    rows = _rows(bound)
    first = _release(bound, rows)
    shuffled = rows.take(pa.array(np.random.default_rng(1).permutation(rows.num_rows)))
    again = _release(bound, shuffled)
    assert first.release.ipc == again.release.ipc  # type: ignore[union-attr]
    other = _release(bound, _rows(bound, notes="another "))
    boxes = [
        sorted(
            map(
                str,
                zip(*(from_ipc(each.release.ipc)[name].to_pylist() for name in ("age", "zip")), strict=True),
            )
        )
        for each in (first, other)  # type: ignore[union-attr]
    ]
    assert boxes[0] == boxes[1]
    gone = [sorted(str((r["row"]["age"], r["row"]["zip"])) for r in each.rejected) for each in (first, other)]
    assert gone[0] == gone[1]


@pytest.mark.parametrize("seed", range(4))
def test_individuals_stay_in_one_class(seed: int) -> None:
    """Rows of individuals with equal and with other values: closed classes, shared row counts, and no row lost."""
    bound = _bound(fields={"note": "individual"}, solver={"method": "ola", "suppression": 0.2})
    rows = _rows(bound, n=160, seed=seed)
    generator = np.random.default_rng(seed)
    who = pa.array([f"p{person}" for person in generator.integers(0, 60, 160)])
    rows = rows.set_column(rows.schema.get_field_index("note"), "note", who)
    _, first = np.unique(np.array(who), return_index=True)
    place = {name.as_py(): int(at) for name, at in zip(who.take(pa.array(first)), first, strict=True)}
    # Nearly all have the values of their first row.
    same = [place[name] if generator.random() < 0.97 else at for at, name in enumerate(who.to_pylist())]
    for name in ("age", "zip"):
        column = rows.column(name).take(pa.array(same))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    result = release_window(rows, bound, WarmState(), SECRET, SLOT)
    assert result.release is not None
    released = from_ipc(result.release.ipc)
    reasons = {record["reason"] for record in result.rejected}
    assert reasons <= {"suppressed", "individual_over_limit"}
    assert released.num_rows + len(result.rejected) == 160
    assert sum(record["reason"] == "suppressed" for record in result.rejected) <= 32
    labels = [released[name].to_pylist() for name in ("age", "zip")]
    assert result.metrics["classes"] == len(set(zip(*labels, strict=True)))
    assert result.metrics["candidates_min"] >= 4


def test_a_warm_window_checks_less_and_releases_the_same() -> None:
    """What the window before found out is in its state, survives bytes, saves passes, and decides nothing."""
    bound = _bound()
    first = _release(bound, _rows(bound, n=400))
    state = warm_state_from_bytes(first.warm.to_bytes())
    assert state.known is not None
    assert np.array_equal(state.known.anonymous, first.warm.known.anonymous)  # type: ignore[union-attr]
    assert np.array_equal(state.known.failing, first.warm.known.failing)  # type: ignore[union-attr]
    rows = _rows(bound, n=400, seed=4)
    warm = release_window(rows, bound, state, SECRET, SLOT)
    cold = release_window(rows, bound, replace(state, known=None), SECRET, SLOT)
    assert warm.release == cold.release
    assert warm.rejected == cold.rejected
    assert (warm.metrics["start"], cold.metrics["start"]) == ("warm", "ola")
    assert warm.metrics["evaluations"] < cold.metrics["evaluations"]
    size = (AGES.height + 1) * (ZIPS.height + 1)
    assert [result.metrics["lattice_nodes"] for result in (warm, cold)] == [size, size]
    assert cold.metrics["last_cold_evaluations"] == cold.metrics["evaluations"]
    assert warm.metrics["last_cold_evaluations"] == first.metrics["evaluations"]
    assert cold.metrics["nodes_seeded"] is None
    assert 0 < warm.metrics["nodes_seeded"] <= size
    assert warm.warm.known.cold == first.metrics["evaluations"]  # type: ignore[union-attr]
    # State of a build that did not count.
    uncounted = replace(state, known=state.known._replace(cold=None))
    again = release_window(rows, bound, warm_state_from_bytes(uncounted.to_bytes()), SECRET, SLOT)
    assert again.release == cold.release
    assert again.metrics["last_cold_evaluations"] is None
    few = release_window(rows.slice(0, 3), bound, state, SECRET, SLOT)
    assert few.release is None
    assert few.warm.known is state.known
    strange = KnownNodes(np.zeros((1, 5), dtype=np.int32), np.zeros((0, 5), dtype=np.int32))
    assert release_window(rows, bound, replace(state, known=strange), SECRET, SLOT).release == cold.release


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"fields": {"note": "individual"}, "protect": "row"}, "that takes protect: individual"),
        (
            {"fields": {"note": {"role": "sensitive", "diversity": {"kind": "frequency", "l": 2}}}},
            "cannot meet rules for sensitive values",
        ),
        ({"fields": {"zip": {"role": "quasi", "type": "categorical"}}}, "do not have: zip; give each"),
        ({"solver": {"method": "ola", "deadline": "5s"}}, "solver.deadline: ola has none"),
        ({"solver": {"method": "ola", "start": "l-greedy"}}, "solver.start: ola has no start"),
        (
            {"solver": {"method": "auto", "suppression": 0.1}},
            "solver.suppression: only solvers that publish levels",
        ),
        ({"solver": {"method": "kgen", "suppression": 1}}, "solver.suppression: must be a share"),
        ({"solver": "magic"}, "for levels of hierarchies ola, kgen"),
        (
            {"solver": {"method": "ola", "population": 9}},
            "solver.population: is a parameter of kgen, not of ola",
        ),
        (
            {"solver": {"method": "kgen", "evaluations": 9, "evaluations_per_row": 2}},
            "solver.evaluations: evaluations_per_row says it, too",
        ),
    ],
)
def test_policies_that_cannot_be_released_at_levels_are_refused(changed: dict[str, Any], part: str) -> None:
    """Before the first window, and by name."""
    with pytest.raises(PolicyError) as caught:
        _bound(**changed)
    assert part in str(caught.value)


def test_lattices_that_are_too_large_are_refused_before_the_first_window() -> None:
    """Exact solvers name their limit and KGen; KGen takes the same policy."""
    entry = {"role": "quasi", "type": "hierarchy", "hierarchy": [list(row) for row in ZIPS.rows]}
    fields = {f"zip{number}": entry for number in range(20)}
    for method in ("ola", "exhaustive", "samarati", "incognito"):
        policy = parse_policy(_mapping(solver={"method": method}, fields=fields), "test", "test")
        with pytest.raises(PolicyError, match=rf"{method} takes lattices of at most .* nodes.*take kgen"):
            check_solver(policy)
    check_solver(parse_policy(_mapping(solver={"method": "kgen"}, fields=fields), "test", "test"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("people", [False, True])
def test_a_feed_is_searched_from_levels_by_name(name: str, people: bool) -> None:
    """Hardly a row waits, none is suppressed; the metrics name the start, and no release is worse than it."""
    head: dict[str, Any] = {"fields": {"note": "individual"}, "protect": "individual"} if people else {}
    bound = _bound(solver={"start": name, "evaluations_per_row": 20, "threads": 1}, **head)
    result = _release(bound, _rows(bound))
    released = from_ipc(result.release.ipc).num_rows  # type: ignore[union-attr]
    assert released >= 115 if people else released == 120
    assert released + result.metrics["rows_rejected"].get("held_back", 0) == 120
    assert (result.metrics["solver"], result.metrics["start"]) == ("auto", name)
    assert result.metrics["loss_end"] <= result.metrics["loss_start"] + 1e-12


def test_levels_as_a_start_need_hierarchies_and_a_lattice_that_fits() -> None:
    """Found out with the policy: which fields lack one, and what to take for a lattice that is too large."""
    with pytest.raises(
        PolicyError, match=r"solver.start: ola needs levels .* do not have: zip; give each type"
    ):
        _bound(solver={"start": "ola"}, fields={"zip": {"role": "quasi", "type": "categorical"}})
    entry = {"role": "quasi", "type": "hierarchy", "hierarchy": [list(row) for row in ZIPS.rows]}
    fields = {f"zip{number}": entry for number in range(20)}
    policy = parse_policy(_mapping(solver={"start": "ola"}, fields=fields), "test", "test")
    with pytest.raises(PolicyError, match=r"solver.start: ola takes lattices of at most .*take kgen"):
        check_solver(policy)
    check_solver(parse_policy(_mapping(solver={"start": "kgen"}, fields=fields), "test", "test"))


def test_suppression_is_part_of_the_policy() -> None:
    """It is read back from the mapping, and policies without it have the digest that they always had."""
    policy = parse_policy(_mapping(), "test", "test")
    assert policy.solver.suppression == 0.05
    assert parse_policy(to_mapping(policy), "test", "test") == policy
    assert b"suppression" in policy_digest(policy)
    assert b"suppression" not in policy_digest(
        parse_policy(_mapping(solver={"method": "ola"}), "test", "test")
    )


def test_a_policys_parameters_reach_the_method() -> None:
    """Of a method that publishes levels, and of the same one as a start: as many nodes as they say are looked at."""
    rows = _rows(_bound())
    for evaluations in (3, 40):
        bound = _bound(solver={"method": "random-search", "evaluations": evaluations})
        assert _release(bound, rows).metrics["evaluations"] <= evaluations + 1
    calls = []

    def counted(checks: Any, task: Any) -> Any:
        calls.append(dict(task.parameters))
        return LATTICE_SOLVERS["ola"].run(checks, task)

    started = replace(LATTICE_SOLVERS["kgen"], run=counted)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(LATTICE_SOLVERS, "kgen", started)
        for choice in ({"method": "kgen"}, {"start": "kgen", "evaluations_per_row": 5, "threads": 1}):
            bound = _bound(solver={**choice, "population": 7, "descent": False})
            _release(bound, rows)
    assert calls == [{"population": 7, "descent": False}] * 2
