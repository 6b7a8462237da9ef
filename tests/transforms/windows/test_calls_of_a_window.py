"""How often a window of 50 rows asks Arrow and numpy: on short columns each call costs the same, whatever it does.

No timing: what is counted is equal on every machine, and a limit that is reached may only fall.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.columns.sort_keys import sort_keys
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from tests.lasting_feeds import lasting_policy, partition_of
from tests.small_feeds import Row, row

HOURS, ROWS = 24, 50
PLACES = [[f"{land}{number}", land, "*"] for land in "abc" for number in range(3)]
FIELDS: dict[str, Any] = {
    "who": {"role": "individual"},
    "when": {"role": "time"},
    "age": {"role": "quasi", "type": "numeric", "as": "int"},
    "born": {"role": "quasi", "type": "date"},
    "job": {"role": "quasi", "type": "categorical"},
    "place": {"role": "quasi", "type": "hierarchy", "hierarchy": PLACES},
    "town": {"role": "insensitive"},
    "amount": {"role": "sensitive", "as": "double"},
    "reference": {"role": "insensitive"},
    "event": {"role": "event_id"},
}
ROOT = Path(__file__).parents[3]
ARROW = pc.__file__
SOLVERS = str(ROOT / "solvers")
FLOORS = tuple(str(ROOT / floor) for floor in ("schemas", "solvers", "transforms"))


def policy() -> Policy:
    """People in cohorts that last; a number, a day, a category and a place."""
    return lasting_policy(fields=FIELDS, cohort_size=4, intake=8, max_delay="3h")


def feed() -> list[Row]:
    """50 rows an hour of more and more people, so that somebody enters in about every second window."""
    rng = np.random.default_rng(5)
    rows: list[Row] = []
    for hour in range(HOURS):
        for minute in np.sort(rng.random(ROWS)).tolist():
            who = int(rng.integers(80 + 4 * hour))
            own = {"born": f"{1940 + who % 60}-0{1 + who % 9}-01", "place": PLACES[who % 9][0]}
            rows.append(row(len(rows), who, hour + 0.99 * minute, **own))
    return rows


def partition() -> PartitionInMemory:
    """One that holds the feed."""
    return partition_of(feed(), policy(), time=lambda: 0.0)


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts calls of Python while it lasts: ``take``, ``cast`` and every other function of Arrow's (whoever asks for
    it, but for Arrow itself), ``np.unique`` and ``sort_keys``; of what solvers do nothing but ``unique in solvers``.
    ``ours``: of all functions of the package, solvers' too."""
    counts: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_back is None:
            return
        code, caller = frame.f_code, frame.f_back.f_code
        if code.co_filename.startswith(FLOORS):
            counts["ours"] += 1
        if code.co_filename == ARROW and caller.co_filename != ARROW:
            counts[code.co_name if code.co_name in ("take", "cast") else "other Arrow"] += 1
        elif code.co_name == "unique" and code.co_filename.endswith("_arraysetops_impl.py"):
            counts["unique in solvers" if caller.co_filename.startswith(SOLVERS) else "unique"] += 1
        elif code.co_name == "sort_keys":
            counts["sort_keys"] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        yield counts
    finally:
        sys.setprofile(before)


LIMITS = {"take": 23, "cast": 2.2, "other Arrow": 25, "unique": 8.6, "sort_keys": 38, "ours": 2_000}
"""Calls a release. When they were first counted: 43 takes, 120 casts, 130 others, 43 unique, 51 sort_keys; and 2,600 of
functions of ours."""
SLACK = 0.9
"""A count below this share of its limit is a count reached: the limit has to say so."""


@pytest.fixture(scope="module")
def calls() -> dict[str, float]:
    """Calls a release."""
    list(partition().finish())  # what is done once a process is no window's
    held = partition()
    with counted() as counts:
        made = list(held.finish())
    assert all(each.release is not None for each in made)
    assert HOURS // 3 < sum(each.segment is not None for each in made) < HOURS
    return {name: count / len(made) for name, count in counts.items()}


@pytest.mark.parametrize("name", LIMITS)
def test_a_window_asks_no_more_often_than_it_did(name: str, calls: dict[str, float]) -> None:
    """Columns of 50 rows: what is asked is the price."""
    assert SLACK * LIMITS[name] <= calls.get(name, 0) <= LIMITS[name]


def test_what_is_counted_is_there() -> None:
    """Each kind of call is counted where it is made, once, and nothing of what Arrow does inside."""
    rows = pa.table({"a": [2, 1, 1], "b": ["x", "y", None]})
    with counted() as counts:
        rows.take(pa.array([0, 1]))
        rows.column("a").cast(pa.float64())
        pc.add(rows.column("a"), 1)
        np.unique(np.array([1, 1]))
        sort_keys(rows.column("a"))
    assert counts.pop("ours") > counts["sort_keys"]
    assert counts == {"take": 1, "cast": 1, "other Arrow": 1, "unique": 1, "sort_keys": 1}
