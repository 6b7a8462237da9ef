"""People with a field of each kind, nulls and equal people among them, and plans of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.secret.seeds import people_key
from kanonflow.transforms.windows.expected_people import PeopleRows
from tests.small_feeds import SECRET

JOBS = ("baker", "clerk", "nurse", "smith")
LEAVES = [f"{land}{number}" for land in "cab" for number in range(4)]
PLACES = [[leaf, leaf[0], "*"] for leaf in LEAVES]
FIELDS: dict[str, Any] = {
    "who": {"role": "individual"},
    "when": {"role": "time"},
    "town": {"role": "insensitive"},
    "amount": {"role": "sensitive", "as": "double"},
    "age": {"role": "quasi", "type": "numeric", "as": "int"},
    "born": {"role": "quasi", "type": "date"},
    "height": {"role": "quasi", "type": "numeric", "as": "double"},
    "job": {"role": "quasi", "type": "categorical"},
    "place": {"role": "quasi", "type": "hierarchy", "hierarchy": PLACES},
    "zip": {"role": "quasi", "type": "prefix", "lengths": [1, 2], "size": 3},
}


def mixed_bound(*names: str, **head: Any) -> BoundPolicy:
    """A policy over some of these quasi-identifiers."""
    fields = {name: each for name, each in FIELDS.items() if each["role"] != "quasi" or name in names}
    mapping = {
        "version": 1,
        "k": 3,
        "window": "1h",
        "max_delay": "1h",
        "cohort": "lasting",
        "solver": {"evaluations_per_row": 20, "threads": 1},
        "partition_by": ["town"],
        "fields": fields,
    }
    policy = parse_policy(mapping | head, "test", "test")
    return bind(policy, text_schema(policy), text=True, source="test")


def mixed_people(
    bound: BoundPolicy, count: int, seed: int, towns: int = 1
) -> tuple[pa.Table, NDArray[np.uint64]]:
    """A row for each of so many people, canonical, and their digests."""
    rng = np.random.default_rng(seed)
    values: dict[str, list[str | None]] = {
        "who": [f"p{number}" for number in range(count)],
        "town": [f"t{number % towns}" for number in range(count)],
        "age": [str(int(each)) for each in rng.integers(18, 24, count)],
        "born": [
            f"19{int(year)}-0{int(month)}-01" for year, month in rng.integers((50, 1), (99, 9), (count, 2))
        ],
        "height": [f"{each:.1f}" for each in rng.normal(170, 9, count)],
        "job": [str(each) for each in rng.choice(JOBS, count)],
        "place": [str(each) for each in rng.choice(LEAVES, count)],
        "zip": [f"{int(each):03}" for each in rng.integers(0, 400, count)],
    }
    for name in ("age", "born", "job", "place", "zip"):
        values[name] = [
            None if gone else each for gone, each in zip(rng.random(count) < 0.05, values[name], strict=True)
        ]
    names = ("who", "town", *(column.name for column in bound.quasis))
    table = pa.table({name: pa.array(values[name], pa.string()) for name in names})
    people = PeopleRows(bound, table.schema, "test", text=True)
    people.add(table)
    person, digests = people_in(people.rows.column("who"), people_key(SECRET))
    return people.rows, digests[person]
