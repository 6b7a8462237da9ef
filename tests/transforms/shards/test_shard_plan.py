"""Plans of shards: what they say is what was cut, whoever reads them, and what they cannot be read as."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.units.tree_cut import mixed_words
from kanonflow.transforms.kinds.range_values import range_values
from kanonflow.transforms.shards.make_plan import make_plan, people_digest
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan, orders_of, plan_from_json
from kanonflow.transforms.shards.shards import Shards
from tests.small_feeds import SECRET
from tests.transforms.shards.mixed_shards import LEAVES, mixed_bound, mixed_people

ALL = ("age", "born", "height", "job", "place", "zip")
SETS = [ALL, ("age",), ("job",), ("place",), ("zip",), ("age", "job"), ("born", "height", "zip")]


def shard_by_hand(cut: dict[str, Any], person: dict[str, Any], digest: int, bound: BoundPolicy) -> int:
    """The shard of one person as the plan's text says it, value by value."""

    def place(name: str, value: Any) -> Any:
        if value is None:
            return (0, 0)
        tree = bound.column(name).tree
        if name == "place":
            return (1, sorted(LEAVES, key=lambda leaf: ("cab".index(leaf[0]), leaf)).index(value))
        return (1, tree.prefixes.key(value)) if tree is not None else (1, value)

    cell = [person[name] for name in cut["columns"]]
    costs = [
        sum(price for price, one, two in zip(cut["prices"], cell, other, strict=True) if one != two)
        for other in cut["cells"]
    ]
    at = cut["roots"][cut["cells"].index(cell) if cell in cut["cells"] else costs.index(min(costs))]
    while "shard" not in (node := cut["nodes"][at]):
        if "at_most" in node:
            left = place(node["field"], person[node["field"]]) <= place(node["field"], node["at_most"])
        elif "among" in node:
            left = person[node["field"]] in node["among"]
        else:
            own = [place(name, person[name]) for name, _ in node["before"]]
            theirs = [place(name, value) for name, value in node["before"]]
            drawn = int(mixed_words(np.array([(digest + node["node"]) % 2**64], np.uint64))[0]) >> 11
            left = own < theirs or (own == theirs and drawn * node["equal"] < node["first"] * 2**53)
        at = node["left" if left else "right"]
    return int(node["shard"])


def values_of(rows: pa.Table, bound: BoundPolicy) -> list[dict[str, Any]]:
    """Each person's values as a plan states them."""
    columns: dict[str, list[Any]] = {}
    for column in bound.quasis:
        array = rows.column(column.name).combine_chunks()
        if column.in_ranges:
            numbers, valid = range_values(array)
            columns[column.name] = [
                number if there else None for number, there in zip(numbers.tolist(), valid, strict=True)
            ]
        else:
            columns[column.name] = array.to_pylist()
    return [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("names", SETS, ids=",".join)
@pytest.mark.parametrize("shards", [2, 5])
def test_the_plan_says_who_goes_where(names: tuple[str, ...], shards: int) -> None:
    """Read back from its text, value by value, for the people that it was made from and for others."""
    bound = mixed_bound(*names)
    rows, digests = mixed_people(bound, 160, 1)
    plan = plan_from_json(make_plan(rows, digests, bound, shards).plan.to_json(), "x")
    plain = json.loads(plan.to_json())["partitions"][0]
    other, others = mixed_people(bound, 200, 2)
    for people, own in ((rows, digests), (other, others)):
        (cut,) = plan.partitions
        assert cut.values == ("t0",)
        found = cut.shard_of(people, own, orders_of(bound))
        by_hand = [
            shard_by_hand(plain, person, int(digest), bound)
            for person, digest in zip(values_of(people, bound), own, strict=True)
        ]
        assert found.tolist() == by_hand
    assert np.bincount(cut.shard_of(rows, digests, orders_of(bound)), minlength=shards).tolist() == list(
        cut.people
    )
    assert min(cut.people) * shards >= 160 * 0.4


def test_a_plan_of_several_partitions_cuts_each() -> None:
    """Of partitions with too few people none; the keys of shards are nobody else's."""
    bound = mixed_bound("age", "job")
    rows, digests = mixed_people(bound, 120, 3, towns=3)
    few = rows.slice(0, 3).set_column(rows.schema.get_field_index("town"), "town", pa.array(["few"] * 3))
    made = make_plan(pa.concat_tables([rows, few]), np.append(digests, digests[:3] + 1), bound, 2)
    plan = made.plan
    assert [cut.values for cut in plan.partitions] == [("t0",), ("t1",), ("t2",)]
    assert made.whole == 1
    shards = Shards(plan, bound, SECRET)
    keys = [key for each in shards.keys_by_partition(plan) for key in each]
    assert len({*keys, *shards.partition_of.values()}) == 6 + 3
    assert shards.keys_of(("few",), few, digests[:3])[1].tolist() == [0, 0, 0]


def test_the_order_of_people_decides_nothing() -> None:
    """The same people in another order make the same plan."""
    bound = mixed_bound(*ALL)
    rows, digests = mixed_people(bound, 150, 4)
    order = np.random.default_rng(1).permutation(150)
    again = rows.take(pa.array(order))
    assert make_plan(again, digests[order], bound, 3).plan == make_plan(rows, digests, bound, 3).plan
    assert people_digest(again) == people_digest(rows)
    assert people_digest(rows.slice(1)) != people_digest(rows)


@pytest.fixture(scope="module")
def plan() -> ShardPlan:
    bound = mixed_bound(*ALL)
    rows, digests = mixed_people(bound, 120, 5)
    return make_plan(rows, digests, bound, 3).plan


def test_a_plan_of_another_policy_is_refused(plan: ShardPlan) -> None:
    """With everything in which it differs, and never a value."""
    plan.refuse_other_policy(mixed_bound(*ALL), "p.json")
    with pytest.raises(PlanError, match=r"--plan p.json: .* quasi-identifiers or their types"):
        plan.refuse_other_policy(mixed_bound("age", "job"), "p.json")
    other = mixed_bound(*ALL, partition_by=[])
    with pytest.raises(PlanError, match="partition_by"):
        plan.refuse_other_policy(other, "p.json")
    moved = replace(plan, orders={"place": tuple(reversed(plan.orders["place"]))})
    with pytest.raises(PlanError, match="values of a hierarchy"):
        moved.refuse_other_policy(mixed_bound(*ALL), "p.json")
    with pytest.raises(PlanError, match="cohort: lasting"):
        plan.refuse_other_policy(mixed_bound(*ALL, cohort="window"), "p.json")


def _changed(plan: ShardPlan, change: Any) -> bytes:
    plain = json.loads(plan.to_json())
    change(plain)
    return json.dumps(plain).encode()


DAMAGES: dict[str, Any] = {
    "no fields": lambda plain: plain.pop("quasi"),
    "a node that leads back": lambda plain: plain["partitions"][0]["nodes"].insert(
        0, {"field": "age", "at_most": 3, "left": 0, "right": 0}
    ),
    "a field of nobody": lambda plain: plain["partitions"][0]["columns"].append("payload"),
    "a shard too many": lambda plain: plain["partitions"][0]["people"].append(3),
    "no root": lambda plain: plain["partitions"][0].update(roots=[99]),
    "a partition twice": lambda plain: plain["partitions"].append(plain["partitions"][0]),
    "values of other fields": lambda plain: plain["partitions"][0].update(values=[]),
    "numbers for texts": lambda plain: plain["partitions"][0].update(values=[7]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_plan_is_refused(plan: ShardPlan, name: str) -> None:
    """Whatever it lacks."""
    with pytest.raises(PlanError, match=r"--plan x: it is no plan of kanonflow, or damaged"):
        plan_from_json(_changed(plan, DAMAGES[name]), "x")


def test_what_is_no_plan_is_refused(plan: ShardPlan) -> None:
    """No JSON, something else, or of another build."""
    for data in (b"", b"[]", b"{}", b"\xff", b"[" * 99_999):
        with pytest.raises(PlanError, match="no plan"):
            plan_from_json(data, "x")
    with pytest.raises(PlanError, match="another build"):
        plan_from_json(_changed(plan, lambda plain: plain.update(kanonflow_plan=3)), "x")


def test_a_value_of_another_type_is_refused(plan: ShardPlan) -> None:
    """A text where numbers are compared."""
    one = {"field": "age", "at_most": "old", "left": 1, "right": 2}
    nodes = [one, {"shard": 0}, {"shard": 1}]
    data = _changed(
        plan,
        lambda plain: plain["partitions"][0].update(
            nodes=nodes, people=[1, 1], columns=[], prices=[], cells=[[]], roots=[0]
        ),
    )
    with pytest.raises(PlanError, match="the values that it names"):
        plan_from_json(data, "x").refuse_other_policy(mixed_bound(*ALL), "x")
