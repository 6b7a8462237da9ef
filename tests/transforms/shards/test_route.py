"""The route of rows to shards: everybody has one, whatever the order in which rows come, and no row is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.release.cohorts import people_in, person_digests
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.rows.row_places import RowPlaces, places_from_bytes
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import partition_key, people_key
from kanonflow.transforms.shards.make_plan import make_plan
from kanonflow.transforms.shards.route import (
    Settled,
    Waiting,
    known_parts,
    settled,
    strangers_by_bucket,
    waiting_from_bytes,
)
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.windows.expected_people import PeopleRows
from tests.small_feeds import HOUR, SECRET, START
from tests.transforms.shards.mixed_shards import JOBS, mixed_bound, mixed_people

KEY = people_key(SECRET)
FIRST = START // HOUR


@pytest.fixture(scope="module")
def bound() -> BoundPolicy:
    return mixed_bound("age", "job")


@pytest.fixture(scope="module")
def shards(bound: BoundPolicy) -> Shards:
    rows, digests = mixed_people(bound, 150, 1)
    return Shards(make_plan(rows, digests, bound, 4).plan, bound, SECRET)


def batches(bound: BoundPolicy, lines: list[tuple[str, int, str | None, str | None]]) -> list[Waiting]:
    """Batches of windows, from rows (who, hour, age, job); the place of each is its number."""
    records = [
        {
            "who": who,
            "when": f"2024-03-01T{hour:02}:30:00Z",
            "town": "t0",
            "amount": str(number),
            "age": age,
            "job": job,
        }
        for number, (who, hour, age, job) in enumerate(lines)
    ]
    schema = pa.schema([(name, pa.string()) for name in bound.input_columns])
    rows = classify(pa.Table.from_pylist(records, schema), bound).rows
    assert rows.num_rows == len(lines)
    made = []
    for values, window, part in split(rows, bound):
        table = pa.Table.from_batches([part])
        numbers = table.column("amount").to_numpy().astype(np.int64)
        made.append(
            Waiting(partition_key(SECRET, values), window, to_ipc(table), RowPlaces("x", numbers).to_bytes())
        )
    return made


def gone(done: Settled | list[Any]) -> dict[int, bytes]:
    """The key under which each row went on, by its number."""
    parts = done.out if isinstance(done, Settled) else done
    found: dict[int, bytes] = {}
    for key, (_, ipc, places) in parts:
        numbers = from_ipc(ipc).column("amount").to_numpy().astype(np.int64).tolist()
        there = places_from_bytes(places)
        assert there is not None
        assert there.numbers.tolist() == numbers
        assert not found.keys() & set(numbers)
        found |= dict.fromkeys(numbers, key)
    return found


def by_values(bound: BoundPolicy, shards: Shards, who: str, age: str | None, job: str | None) -> bytes:
    """The key of somebody with these values."""
    table = pa.table(
        {
            name: pa.array([each], pa.string())
            for name, each in zip(("who", "town", "age", "job"), (who, "t0", age, job), strict=True)
        }
    )
    rows = PeopleRows(bound, table.schema, "test", text=True)
    rows.add(table)
    person, digests = people_in(rows.rows.column("who"), KEY)
    keys, at = shards.keys_of(("t0",), rows.rows, digests[person])
    return keys[int(at[0])]


def end(hour: int) -> int:
    """Of a window."""
    return START + (hour + 1) * HOUR


def test_the_first_window_decides_and_later_rows_change_nothing(bound: BoundPolicy, shards: Shards) -> None:
    """A person who says something else in the next window, and one who moves within the first."""
    lines = [
        ("a", 1, "20", "baker"),
        ("a", 2, "70", "smith"),
        ("b", 2, "23", "clerk"),
        ("b", 2, "19", "nurse"),
    ]
    waiting = batches(bound, lines)
    before = settled(waiting, FirstPartitions(), shards, KEY, end(0))
    assert not before.out
    assert before.until == end(1)
    one = settled(waiting, FirstPartitions(), shards, KEY, end(1))
    a = by_values(bound, shards, "a", "20", "baker")
    assert gone(one) == {0: a, 1: a}
    assert one.until == end(2)
    two = settled(one.waits, one.memory, shards, KEY, end(2))
    assert gone(two) == dict.fromkeys((2, 3), by_values(bound, shards, "b", "19", "clerk"))
    assert two.until is None
    assert two.memory.people.size == 2
    parts, rest = known_parts(
        (waiting[0].partition, tuple(batches(bound, [("a", 5, "90", "smith")])[0][1:])),
        two.memory,
        KEY,
        "who",
    )
    assert gone(parts) == {0: a}
    assert rest is None


@pytest.mark.parametrize("seed", range(8))
def test_no_row_is_lost_and_no_order_decides(bound: BoundPolicy, shards: Shards, seed: int) -> None:
    """Rows of many people over hours, in batches of any order, through the buckets and at each end of a window."""
    rng = np.random.default_rng(seed)
    people = [(f"s{number}", str(18 + number % 7), str(rng.choice(JOBS))) for number in range(40)]
    lines: list[tuple[str, int, str | None, str | None]] = []
    for _ in range(200):
        who, age, job = people[rng.integers(40)]
        said = age if rng.random() < 0.9 else None
        lines.append((who, int(rng.integers(5)), said, job if rng.random() < 0.9 else str(rng.choice(JOBS))))

    def run(order: np.random.Generator) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        bags: dict[int, list[Waiting]] = {}
        memories: dict[int, FirstPartitions] = {}
        whole = batches(bound, lines)
        for place in order.permutation(len(whole)):
            for bucket, rest in strangers_by_bucket(whole[place], KEY, "who"):
                bags.setdefault(bucket, []).append(waiting_from_bytes(rest.to_bytes()))
        for bucket, own in bags.items():
            for hour in range(5):
                done = settled(own, memories.get(bucket, FirstPartitions()), shards, KEY, end(hour))
                found |= gone(done)
                own, memories[bucket] = list(done.waits), done.memory
            assert not own
        return found

    found = run(np.random.default_rng(1))
    assert sorted(found) == list(range(200))
    assert run(np.random.default_rng(2)) == found
    for who, _, _ in people:
        own = [number for number, row in enumerate(lines) if row[0] == who]
        assert len({found[number] for number in own}) <= 1
        if own:
            first = min(lines[number][1] for number in own)
            said = [lines[number] for number in own if lines[number][1] == first]
            ages = [row[2] for row in said if row[2] is not None]
            jobs = [str(row[3]) for row in said]
            assert found[own[0]] == by_values(bound, shards, who, min(ages, default=None), min(jobs))


def test_rows_that_nobody_can_read_say_nothing_of_their_person(bound: BoundPolicy, shards: Shards) -> None:
    """They go to the first shard, whosever they are; the person is placed by what can be read."""
    lines = [
        ("a", 1, "old", "baker"),
        ("b", 1, "old", "smith"),
        ("a", 2, "20", "baker"),
        ("b", 1, "22", "nurse"),
    ]
    waiting = batches(bound, lines)
    one = settled(waiting, FirstPartitions(), shards, KEY, end(1))
    first = shards.of_people(waiting[0].partition, mixed_people(bound, 1, 1)[0], np.zeros(1, np.uint64))[0][0]
    b = by_values(bound, shards, "b", "22", "nurse")
    assert gone(one) == {0: first, 1: b, 3: b}
    two = settled(one.waits, one.memory, shards, KEY, end(2))
    assert gone(two) == {2: by_values(bound, shards, "a", "20", "baker")}


def test_who_has_a_shard_stays_there(bound: BoundPolicy, shards: Shards) -> None:
    """Whatever his rows say, also where they waited when he got it."""
    waiting = batches(bound, [("a", 1, "20", "baker"), ("c", 1, "20", "baker")])
    keys = shards.of_people(waiting[0].partition, mixed_people(bound, 1, 1)[0], np.zeros(1, np.uint64))[0]
    own = by_values(bound, shards, "a", "20", "baker")
    other = next(key for key in keys if key != own)
    people = in_partition(waiting[0].partition, person_digests(["a"], KEY))
    memory = FirstPartitions().having(other, people)
    done = settled(waiting, memory, shards, KEY, end(1))
    assert gone(done) == {0: other, 1: own}
    assert done.memory.people.size == 2


def test_damaged_bags_are_told() -> None:
    """Rather than routed."""
    good = Waiting(bytes(16), 3, b"abc", b"d")
    assert waiting_from_bytes(good.to_bytes()) == good
    for data in (b"", good.to_bytes()[:20], good.to_bytes()[:34]):
        with pytest.raises(StateError, match="rows that wait for a shard"):
            waiting_from_bytes(data)
