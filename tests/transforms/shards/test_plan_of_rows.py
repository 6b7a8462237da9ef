"""Plans of rows: each row goes by its own values, equal ones together, whatever way a plan is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.shards.shard_plan import Placing
from kanonflow.pipelines.audit.shards.shard_plan import read_plan as read_by_audit
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.rows.row_places import RowPlaces, places_from_bytes
from kanonflow.transforms.secret.seeds import partition_key
from kanonflow.transforms.shards.make_plan import make_plan
from kanonflow.transforms.shards.route import rows_by_shard
from kanonflow.transforms.shards.shard_plan import Before, PlanError, ShardPlan, plan_from_json
from kanonflow.transforms.shards.shards import Shards
from kanonflow.transforms.shards.trial import cost_words, refusal
from tests.small_feeds import SECRET
from tests.transforms.shards.mixed_shards import FIELDS, mixed_bound, mixed_people

ALL = ("age", "born", "height", "job", "place", "zip")


def rows_bound(*names: str, **fields: Any) -> BoundPolicy:
    """``mixed_bound`` with ``protect: row``, and no individual."""
    own = {name: each for name, each in FIELDS.items() if each["role"] != "quasi" or name in names}
    mapping = {
        "version": 1,
        "k": 3,
        "window": "1h",
        "max_delay": "1h",
        "protect": "row",
        "solver": {"evaluations_per_row": 20, "threads": 1},
        "partition_by": ["town"],
        "fields": own | {"who": {"role": "identifier"}} | fields,
    }
    policy = parse_policy(mapping, "test", "test")
    return bind(policy, text_schema(policy), text=True, source="test")


def rows_of(names: tuple[str, ...], count: int, seed: int, copies: int = 1) -> pa.Table:
    """Canonical rows, each so many times."""
    people, _ = mixed_people(mixed_bound(*names), count, seed)
    return people.drop_columns(["who"]).take(pa.array(np.repeat(np.arange(count), copies)))


def plan_of(rows: pa.Table, bound: BoundPolicy, shards: int) -> ShardPlan:
    """A plan of rows, as the command makes it."""
    return make_plan(rows, np.zeros(rows.num_rows, np.uint64), bound, shards).plan


@pytest.mark.parametrize("names", [ALL, ("age",), ("job",), ("age", "job"), ("place", "zip")])
def test_a_plan_names_nobody_and_is_read_as_it_was_written(names: tuple[str, ...]) -> None:
    """Its tests part no equal rows, its counts are those of the rows that go there, and the file says all of it."""
    bound = rows_bound(*names)
    rows = rows_of(names, 300, 1, copies=2)
    plan = plan_of(rows, bound, 4)
    assert (plan.individual, plan.people) == (None, "")
    assert plan_from_json(plan.to_json(), "x") == plan
    plan.refuse_other_policy(bound, "x")
    (cut,) = plan.partitions
    assert all(fork.test.first == fork.test.equal for fork in cut.forks if isinstance(fork.test, Before))
    shards = Shards(plan, bound, SECRET)
    keys, at = shards.of_rows(partition_key(SECRET, ("t0",)), rows)
    assert len(keys) == cut.shards >= 2
    assert tuple(np.bincount(at, minlength=cut.shards).tolist()) == cut.people
    np.testing.assert_array_equal(at[::2], at[1::2])


def test_a_batch_is_dealt_out_row_by_row() -> None:
    """In whatever batches rows come; their places and windows stay with them; what is not cut passes as it is."""
    bound = rows_bound("age", "job")
    rows = rows_of(("age", "job"), 200, 2)
    shards = Shards(plan_of(rows, bound, 3), bound, SECRET)
    key = partition_key(SECRET, ("t0",))

    def gone(order: np.ndarray, size: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for begin in range(0, order.size, size):
            own = order[begin : begin + size]
            batch = (key, (7, to_ipc(rows.take(pa.array(own))), RowPlaces("x", own).to_bytes()))
            for shard, (window, ipc, places) in rows_by_shard(batch, shards):
                there = places_from_bytes(places)
                assert there is not None
                assert (window, there.numbers.size) == (7, from_ipc(ipc).num_rows)
                assert from_ipc(ipc).equals(rows.take(pa.array(there.numbers)))
                found |= dict.fromkeys(there.numbers.tolist(), shard)
        return found

    whole = gone(np.arange(200), 200)
    assert set(whole) == set(range(200))
    assert len(set(whole.values())) == len(shards.partition_of)
    assert gone(np.random.default_rng(1).permutation(200), 7) == whole
    other = (partition_key(SECRET, ("t9",)), (7, to_ipc(rows), b""))
    assert list(rows_by_shard(other, shards)) == [other]


def test_the_audit_reads_it_alike(tmp_path: Path) -> None:
    """With code of its own: also of rows that the plan has not seen."""
    bound = rows_bound(*ALL)
    plan = plan_of(rows_of(ALL, 300, 3), bound, 4)
    (tmp_path / "restricted").mkdir()
    text = plan.to_json().decode().replace('"cells"', f'"keys": {keys_text(plan)}, "cells"', 1)
    (tmp_path / "restricted/plan.json").write_text(text)
    read = read_by_audit(tmp_path, bound)
    assert read is not None
    rows = rows_of(ALL, 400, 4)
    books = [CodeBook(column) for column in bound.quasis]
    codes = np.column_stack(
        [book.codes_of_canonical(rows.column(book.column.name).combine_chunks()) for book in books]
    )
    found = Placing(read, books).shards(read.partitions[0], codes, np.zeros(400, np.uint64))
    _, at = Shards(plan, bound, SECRET).of_rows(partition_key(SECRET, ("t0",)), rows)
    np.testing.assert_array_equal(found, at)


def keys_text(plan: ShardPlan) -> str:
    """Keys of shards as a run writes them down."""
    return str([f"{number:032x}" for number in range(plan.partitions[0].shards)]).replace("'", '"')


def test_many_equal_rows_are_one_shard() -> None:
    """Half of all rows are equal: they are one shard, the others are cut; all of them equal: there is no cut."""
    bound = rows_bound("age", "job")
    rows = rows_of(("age", "job"), 120, 5)
    alike = pa.concat_tables([rows, *[rows.slice(0, 1)] * 3000])
    plan = plan_of(alike, bound, 4)
    _, at = Shards(plan, bound, SECRET).of_rows(partition_key(SECRET, ("t0",)), alike)
    assert len(set(at[120:].tolist())) == 1
    assert max(plan.partitions[0].people if plan.partitions else (3120,)) >= 3000
    assert plan_of(pa.concat_tables([rows.slice(0, 1)] * 500), bound, 4).partitions == ()


def test_what_goes_by_no_plan_is_refused_by_name() -> None:
    """Cohorts of a window, event ids; and a plan of people by a policy of rows, and the other way round."""
    bound, rows = rows_bound("age"), rows_of(("age",), 100, 6)
    plan = plan_of(rows, bound, 2)
    people, digests = mixed_people(mixed_bound("age"), 100, 6)
    window = mixed_bound("age", cohort="window")
    with pytest.raises(PlanError, match="With cohort: window rows of a person"):
        plan.refuse_other_policy(window, "x")
    with pytest.raises(PlanError, match="With cohort: window rows of a person"):
        make_plan(people, digests, window, 2)
    ids = rows_bound("age", ref={"role": "event_id"})
    with pytest.raises(PlanError, match=r"fields\.ref: an event id is known within a shard"):
        plan.refuse_other_policy(ids, "x")
    with pytest.raises(PlanError, match="differs in the individual"):
        plan.refuse_other_policy(mixed_bound("age"), "x")
    of_people = make_plan(people, digests, mixed_bound("age"), 2).plan
    with pytest.raises(PlanError, match="differs in the individual"):
        of_people.refuse_other_policy(bound, "x")


def test_a_share_that_is_none_is_damaged() -> None:
    """More of equal ones than there are, or of none."""
    bound, rows = rows_bound("age", "job"), rows_of(("age", "job"), 90, 7)
    plan = plan_of(rows, bound, 5)
    (cut,) = plan.partitions
    for first, equal in ((3, 2), (-1, 2), (0, 0)):
        test = Before((("job", "clerk"),), first, equal, 0)
        forks = tuple(fork if fork.test is None else replace(fork, test=test) for fork in cut.forks)
        other = replace(plan, partitions=(replace(cut, forks=forks),))
        assert any(fork.test is not None for fork in cut.forks)
        with pytest.raises(PlanError, match="damaged"):
            plan_from_json(other.to_json(), "x")


def test_rows_are_counted_by_window() -> None:
    """In words of their own."""
    few = refusal((2, 900), 3, accept_small=True, rows=True)
    assert few is not None
    assert "2 rows a window, fewer than k (3): equal rows stay together" in few
    words = refusal((249, 900), 3, rows=True)
    assert words is not None
    assert "249 rows a window. Below 250 rows a shard" in words
    told = cost_words((999,), rows=True)
    assert told is not None
    assert "999 rows a window: below 1,000 slots" in told
