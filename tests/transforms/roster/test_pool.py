"""The pool: who is remembered, and what of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys, whole
from kanonflow.transforms.roster.pool import MOST_PLACES, Pool, empty_pool
from kanonflow.transforms.roster.roster_state import pool_from_bytes, pool_to_bytes
from tests.mixed_people import mixed_bound, mixed_values


def naive_pool(digests: list[int], ends: list[int], rows: pa.Table) -> dict[int, dict[str, object]]:
    """Of each field the least value of the latest window that had one, person by person."""
    found: dict[int, dict[str, object]] = {who: {} for who in digests}
    for name in rows.schema.names:
        array = whole(rows.column(name))
        values, ranks = array.to_pylist(), dense_ranks(sort_keys(array))
        for who in found:
            mine = [
                (-ends[n], ranks[n], values[n])
                for n in range(len(digests))
                if digests[n] == who and values[n] is not None
            ]
            found[who][name] = min(mine)[2] if mine else None
    return found


def told(pool: Pool) -> dict[int, dict[str, object]]:
    """The pool in the same form."""
    return {int(who): values for who, values in zip(pool.people, pool.values.to_pylist(), strict=True)}


@pytest.mark.parametrize("seed", range(20))
def test_the_pool_is_what_its_rows_say_in_whatever_calls_they_came(seed: int) -> None:
    """Against the definition; in one call, in several, in another order, and with rows that are seen twice."""
    rng = np.random.default_rng(seed)
    bound = mixed_bound()
    rows = mixed_values(80, rng)
    digests = rng.integers(1, 12, 80).astype(np.uint64)
    ends = rng.integers(1, 5, 80) * 3_600_000
    expected = naive_pool(digests.tolist(), ends.tolist(), rows)
    assert told(empty_pool(bound).having_seen(digests, ends, rows, bound)) == expected
    pool = empty_pool(bound)
    assert pool.people.size == pool.changed.size == 0
    # Rows that wait are gathered again with each window: the last thirty come twice.
    for part in np.array_split(np.concatenate([rng.permutation(80), np.arange(50, 80)]), 7):
        pool = pool.having_seen(digests[part], ends[part], rows.take(pa.array(part)), bound)
    assert told(pool) == expected
    assert np.all(np.diff(pool.people) > 0)


def naive_changed(digests: list[int], rows: pa.Table) -> set[int]:
    """Who has two different values of some field, nulls aside."""
    return {
        who
        for who in digests
        for name in rows.schema.names
        if len(
            {
                v
                for d, v in zip(digests, rows.column(name).to_pylist(), strict=True)
                if d == who and v is not None
            }
        )
        > 1
    }


@pytest.mark.parametrize("seed", range(20))
def test_who_changed_is_known_in_whatever_calls_the_rows_came(seed: int) -> None:
    """Against the definition, also where the rows of before are gone; a null is no other value."""
    rng = np.random.default_rng(seed)
    bound = mixed_bound()
    # Twenty people with three rows each, most of which repeat their first.
    first = mixed_values(20, rng)
    of_row = np.concatenate([np.arange(20), np.arange(20), np.where(rng.random(20) < 0.7, np.arange(20), 0)])
    rows = first.take(pa.array(of_row))
    digests = np.tile(np.arange(20), 3).astype(np.uint64)
    ends = rng.integers(1, 5, 60) * 3_600_000
    expected = naive_changed(digests.tolist(), rows)
    assert expected
    assert len(expected) < 20
    pool = empty_pool(bound)
    for part in np.array_split(np.concatenate([rng.permutation(60), np.arange(50, 60)]), 7):
        pool = pool.having_seen(digests[part], ends[part], rows.take(pa.array(part)), bound)
    assert set(pool.people[pool.changed].tolist()) == expected


def test_who_is_seen_stays_when_the_rows_are_gone() -> None:
    """Nothing but an intake empties the pool."""
    bound = mixed_bound()
    rows = mixed_values(3, np.random.default_rng(0))
    pool = empty_pool(bound).having_seen(
        np.array([5, 6, 7], dtype=np.uint64), np.array([1, 1, 1]), rows, bound
    )
    none = np.empty(0, dtype=np.uint64)
    again = pool.having_seen(none, none.astype(np.int64), rows.slice(0, 0), bound)
    assert told(again) == told(pool)


def test_people_known_from_the_start_stand_for_good() -> None:
    """In the place of what rows said of them, a null as well; no later row says more, and nothing of theirs changed.
    Others go on as ever, whichever digests are smaller."""
    bound = mixed_bound()
    rows = mixed_values(12, np.random.default_rng(4))
    seen = np.array([9, 3, 5, 5], dtype=np.uint64)
    before = empty_pool(bound).having_seen(seen, np.full(4, 1), rows.slice(0, 4), bound)
    assert not before.from_start.any()
    names = np.array([5, 1, 12], dtype=np.uint64)
    blank = pa.table({name: pa.nulls(3, rows.schema.field(name).type) for name in rows.schema.names})
    stated = pa.concat_tables([rows.slice(4, 2), blank.slice(2)]).combine_chunks()
    pool = before.expecting(names, stated, bound)
    assert pool.people.tolist() == [1, 3, 5, 9, 12]
    assert pool.from_start.tolist() == [True, False, True, False, True]
    assert told(pool)[5] == stated.to_pylist()[0]
    assert told(pool)[1] == stated.to_pylist()[1]
    assert set(told(pool)[12].values()) == {None}
    assert {who: told(pool)[who] for who in (3, 9)} == {who: told(before)[who] for who in (3, 9)}
    assert pool.changed.tolist() == [False, *before.changed[before.people == 3], False, False, False]
    every = np.array([1, 5, 12, 9, 20], dtype=np.uint64)
    later = pool.having_seen(every, np.full(5, 99), rows.slice(6, 5), bound)
    assert later.people.tolist() == [1, 3, 5, 9, 12, 20]
    assert later.from_start.tolist() == [True, False, True, False, True, False]
    assert {who: told(later)[who] for who in (1, 5, 12)} == {who: told(pool)[who] for who in (1, 5, 12)}
    assert told(later)[20] == rows.to_pylist()[10]
    assert not later.changed[later.from_start].any()
    alone = later.of(later.from_start)
    assert alone.people.tolist() == [1, 5, 12]
    assert told(alone) == {who: told(later)[who] for who in (1, 5, 12)}
    assert alone.from_start.all()
    assert (alone.kind == 0).all()
    assert (alone.ends.shape, alone.changed.shape) == ((3, len(bound.quasis)), (3,))


def test_people_are_of_the_kind_of_the_run_that_named_them_first() -> None:
    """Who was seen is of none; rows that come later, nulls and some of the people change nothing of it."""
    bound = mixed_bound()
    rows = mixed_values(12, np.random.default_rng(4))
    seen = empty_pool(bound).having_seen(
        np.array([2, 8], dtype=np.uint64), np.full(2, 1), rows.slice(0, 2), bound
    )
    blank = pa.table({name: pa.nulls(2, rows.schema.field(name).type) for name in rows.schema.names})
    first = seen.expecting(np.array([9, 4], dtype=np.uint64), blank, bound)
    pool = first.expecting(np.array([6, 1], dtype=np.uint64), rows.slice(4, 2), bound, 3)
    pool = pool.expecting(np.array([7], dtype=np.uint64), rows.slice(6, 1), bound, MOST_PLACES - 1)
    kinds = {1: 3, 2: -1, 4: 0, 6: 3, 7: MOST_PLACES - 1, 8: -1, 9: 0}
    assert dict(zip(pool.people.tolist(), pool.kind.tolist(), strict=True)) == kinds
    every = np.array([*kinds, 20], dtype=np.uint64)
    later = pool.having_seen(every, np.full(8, 99), rows.slice(2, 8), bound)
    assert dict(zip(later.people.tolist(), later.kind.tolist(), strict=True)) == {**kinds, 20: -1}
    assert np.array_equal(later.from_start, later.kind >= 0)
    assert later.people[later.known_by_file(2)].tolist() == [1, 4, 6, 9]
    assert not later.known_by_file(3).any()
    assert later.of(later.kind == 3).kind.tolist() == [3, 3]
    assert pool_from_bytes(pool_to_bytes(later)).kind.tolist() == later.kind.tolist()
    assert empty_pool(bound).kind.size == 0


def test_who_was_put_together_in_vain_stays_so() -> None:
    """In the state, in parts of the pool, and as rows come; another such intake counts on; others are of no kind."""
    rng = np.random.default_rng(4)
    bound, values = mixed_bound(), mixed_values(12, rng)
    people, ends = np.arange(12, dtype=np.uint64), np.full(12, 5, dtype=np.int64)
    pool = empty_pool(bound).having_seen(people[:6], ends[:6], values.slice(0, 6), bound)
    tried = pool.having_tried(people[:4], np.array([9, 8, 8, 9]))
    more = tried.having_seen(people, ends + 1, values, bound)
    again = more.having_tried(people[4:8], np.array([0, 1, 1, 0]))
    assert again.tried.tolist() == [1, 0, 0, 1, 2, 3, 3, 2, -1, -1, -1, -1]
    assert again.kind.tolist() == [each + MOST_PLACES if each >= 0 else -1 for each in again.tried]
    assert pool_from_bytes(pool_to_bytes(again)).tried.tolist() == again.tried.tolist()
    assert b"pool_tried" not in pool_to_bytes(pool)
    assert again.of(people % 2 == 0).tried.tolist() == [1, 0, 2, 3, -1, -1]
    assert again.known_by_file(2).tolist() == [True] * 8 + [False] * 4
    assert not again.of(people > 0).known_by_file(2)[2]  # the one of the first cohort who is left
