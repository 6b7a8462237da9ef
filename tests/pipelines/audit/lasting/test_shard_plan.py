"""Plans of shards as the audit reads them: what it says by values, what the product says, and what is no plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.shards.shard_plan import UNDECIDED, Placing, ShardPlan, read_plan
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.shards.make_plan import make_plan
from kanonflow.transforms.shards.shard_plan import orders_of
from tests.transforms.shards.mixed_shards import LEAVES, mixed_bound, mixed_people

ALL = ("age", "born", "height", "job", "place", "zip")
SETS = [ALL, ("age",), ("job",), ("place",), ("zip",), ("age", "job"), ("born", "height", "zip")]
JOB_FIRST = {"columns": ["job"], "prices": [1.0], "cells": [["baker"], ["clerk"], [None]], "roots": [0, 1, 2]}


def plain_plan(bound: BoundPolicy, *partitions: dict[str, Any]) -> dict[str, Any]:
    """A plan's file of partitions, under keys of their own."""
    plain = []
    for place, each in enumerate(partitions):
        shards = 1 + max(node.get("shard", 0) for node in each["nodes"])
        own: dict[str, Any] = {
            "values": [f"t{place}"],
            "columns": [],
            "prices": [],
            "cells": [[]],
            "roots": [0],
        }
        own |= {"people": [9] * shards, "keys": [f"{100 * place + shard:032x}" for shard in range(shards)]}
        plain.append(own | each)
    quasi = [[each.name, str(each.field.quasi and each.field.quasi.type), str(each.arrow_type)]
             for each in bound.quasis]  # fmt: skip
    return {
        "kanonflow_plan": 1, "individual": "who", "quasi": quasi, "partition_by": ["town"], "people": "00",
        "orders": {"place": LEAVES} if "place" in bound.input_columns else {}, "partitions": plain,
    }  # fmt: skip


def put(folder: Path, plain: Any) -> Path:
    """Write a plan where a run keeps it."""
    (folder / "restricted").mkdir(exist_ok=True)
    (folder / "restricted/plan.json").write_text(plain if isinstance(plain, str) else json.dumps(plain))
    return folder


def placed(
    folder: Path, names: tuple[str, ...], partition: dict[str, Any], people: list[list[str | None]],
    digests: list[int] | None = None,
) -> list[int]:  # fmt: skip
    """The shards of people, whose cells are texts."""
    bound = mixed_bound(*names)
    plan = read_plan(put(folder, plain_plan(bound, partition)), bound)
    assert plan is not None
    books = [CodeBook(column, attribute=True) for column in bound.quasis]
    columns = [book.codes_of_texts([row[place] for row in people]) for place, book in enumerate(books)]
    own = None if digests is None else np.array(digests, np.uint64)
    return Placing(plan, books).shards(plan.partitions[0], np.column_stack(columns), own).tolist()


def two(**test: Any) -> dict[str, Any]:
    """A partition whose first node is a test."""
    return {"nodes": [{**test, "left": 1, "right": 2}, {"shard": 0}, {"shard": 1}]}


def test_a_border_and_what_is_missing_go_left(tmp_path: Path) -> None:
    """As do values that are none; what is greater goes right."""
    ages: list[list[str | None]] = [["9"], ["43"], ["44"], [None], ["many"]]
    assert placed(tmp_path, ("age",), two(field="age", at_most=43), ages) == [0, 0, 1, 0, 0]


def test_fields_have_orders_of_their_own(tmp_path: Path) -> None:
    """Leaves by their place in the plan, days by number, prefixes by their keys, texts by code points."""
    at_c = two(field="place", at_most=LEAVES[2])
    assert placed(tmp_path, ("place",), at_c, [["a0"], ["c1"], ["c2"], ["c3"], [None]]) == [1, 0, 0, 1, 0]
    days = two(field="born", at_most=0)
    assert placed(tmp_path, ("born",), days, [["1969-12-31"], ["1970-01-01"], ["1970-01-02"]]) == [0, 0, 1]
    assert placed(tmp_path, ("zip",), two(field="zip", at_most="100"), [["099"], ["100"], ["101"]]) == [
        0,
        0,
        1,
    ]
    assert placed(tmp_path, ("job",), two(field="job", at_most="b"), [["Z"], ["a"], ["ba"]]) == [0, 0, 1]


def test_sets_go_left(tmp_path: Path) -> None:
    """Null only where it is one of them."""
    jobs: list[list[str | None]] = [["smith"], ["clerk"], [None]]
    assert placed(tmp_path, ("job",), two(field="job", among=["clerk", None]), jobs) == [1, 0, 0]
    assert placed(tmp_path, ("job",), two(field="job", among=["clerk"]), jobs) == [1, 0, 1]


def test_cells_and_the_nearest_one(tmp_path: Path) -> None:
    """Who is in no cell is of that which costs least, the first of those."""
    leaves = [{"shard": number} for number in range(3)]
    jobs: list[list[str | None]] = [["clerk"], [None], ["nurse"], ["baker"]]
    assert placed(tmp_path, ("job",), JOB_FIRST | {"nodes": leaves}, jobs) == [1, 2, 0, 0]
    both = {
        "columns": ["age", "job"], "prices": [0.5, 0.1], "roots": [0, 1, 2], "nodes": leaves,
        "cells": [["30", "baker"], ["40", "clerk"], ["40", "baker"]],
    }  # fmt: skip
    people: list[list[str | None]] = [["40", "nurse"], ["30", "nurse"], ["50", "baker"], ["40", "baker"]]
    assert placed(tmp_path, ("age", "job"), both, people) == [1, 0, 0, 2]


def test_equal_people_by_digest(tmp_path: Path) -> None:
    """Without digests, of these only, it is not said; shares of nobody and of all take none."""
    node = {"before": [["age", 43], ["job", "clerk"]], "first": 1, "equal": 2, "node": 7}
    people: list[list[str | None]] = [
        ["42", "smith"], ["44", None], ["43", None], ["43", "baker"], ["43", "nurse"],
        *([["43", "clerk"]] * 4),
    ]  # fmt: skip
    sides = placed(tmp_path, ("age", "job"), two(**node), people)
    assert sides == [0, 1, 0, 0, 1, *[UNDECIDED] * 4]
    # Worked out by hand from the constants of the format.
    drawn = placed(tmp_path, ("age", "job"), two(**node), people, [5] * 5 + [0, 1, 2, 2**64 - 3])
    assert drawn[:5] == sides[:5]
    assert set(drawn[5:]) <= {0, 1}
    assert placed(tmp_path, ("age", "job"), two(**node | {"first": 2}), people)[5:] == [0] * 4
    assert placed(tmp_path, ("age", "job"), two(**node | {"first": 0}), people)[5:] == [1] * 4


@pytest.mark.parametrize("names", SETS)
@pytest.mark.parametrize("shards", [2, 7])
def test_the_run_comes_to_the_same(names: tuple[str, ...], shards: int, tmp_path: Path) -> None:
    """People a plan was made from, and others: two readings of one file."""
    bound = mixed_bound(*names)
    rows, digests = mixed_people(bound, 400, 3, towns=2)
    plan = make_plan(rows, digests, bound, shards).plan
    plain = json.loads(plan.to_json())
    for number, partition in enumerate(plain["partitions"]):
        partition["keys"] = [f"{number * 64 + shard:032x}" for shard in range(len(partition["people"]))]
    own = read_plan(put(tmp_path, plain), bound)
    assert own is not None
    for seed in (3, 4):
        rows, digests = mixed_people(bound, 400, seed, towns=2)
        books = [CodeBook(column, attribute=True) for column in bound.quasis]
        codes = np.column_stack(
            [book.codes_of_canonical(rows.column(book.column.name).combine_chunks()) for book in books]
        )
        for partition, other in zip(own.partitions, plain["partitions"], strict=True):
            (cut,) = (each for each in plan.partitions if each.values == tuple(other["values"]))
            assert cut is not None
            right = cut.shard_of(rows, digests, orders_of(bound))
            assert Placing(own, books).shards(partition, codes, digests).tolist() == right.tolist()
            assert len(set(right.tolist())) > 1


def _circle(plain: dict[str, Any]) -> None:
    plain["partitions"][0]["nodes"][1] = {"field": "age", "at_most": 1, "left": 0, "right": 2}


DAMAGES: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("version 1", lambda plain: plain.update(kanonflow_plan=3)),
    ("another policy", lambda plain: plain.update(individual="when")),
    ("another policy", lambda plain: plain["quasi"][0].__setitem__(2, "string")),
    ("another policy", lambda plain: plain.update(partition_by=[])),
    ("damaged", lambda plain: plain.pop("orders")),
    ("damaged", lambda plain: plain["partitions"][0].pop("keys")),
    ("damaged", lambda plain: plain["partitions"][0]["keys"].__setitem__(1, f"{0:032x}")),
    ("damaged", lambda plain: plain["partitions"][0]["keys"].__setitem__(1, "A" * 32)),
    ("damaged", lambda plain: plain["partitions"].append(plain["partitions"][0] | {"keys": ["f" * 32] * 2})),
    ("damaged", lambda plain: plain["partitions"][0]["nodes"][2].update(shard=2)),
    ("damaged", lambda plain: plain["partitions"][0]["nodes"][0].update(left=3)),
    ("damaged", lambda plain: plain["partitions"][0]["nodes"][0].update(field="job")),
    ("damaged", lambda plain: plain["partitions"][0]["nodes"][0].pop("at_most")),
    ("damaged", lambda plain: plain["partitions"][0].update(roots=[-1])),
    ("damaged", lambda plain: plain["partitions"][0].update(cells=[])),
    ("damaged", _circle),
]


@pytest.mark.parametrize(("words", "change"), DAMAGES)
def test_what_is_no_plan_is_refused(
    words: str, change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    """Whatever would lead somebody nowhere, or two shards to one key."""
    bound = mixed_bound("age")
    plain = plain_plan(bound, two(field="age", at_most=43))
    assert isinstance(read_plan(put(tmp_path, plain), bound), ShardPlan)
    change(plain)
    with pytest.raises(InputError, match=words):
        read_plan(put(tmp_path, plain), bound)


def test_a_torn_plan_and_none(tmp_path: Path) -> None:
    """No file is no plan."""
    bound = mixed_bound("age")
    assert read_plan(tmp_path, bound) is None
    with pytest.raises(InputError, match="no JSON"):
        read_plan(put(tmp_path, '{"kanonflow_plan": 1'), bound)
