"""People with a number, a date, a set and a hierarchy, nulls and ties: for what is kept of people over windows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.roster.pool import quasi_schema

TREE = [["a1", "a", "*"], ["a2", "a", "*"], ["b1", "b", "*"], ["b2", "b", "*"]]
LEAVES = [row[0] for row in TREE]


def mixed_bound(**head: Any) -> BoundPolicy:
    """k = 3, windows of an hour, cohorts that last; head: further keys of the file."""
    fields = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "age": {"role": "quasi", "type": "numeric", "domain": [0, 120]},
        "born": {"role": "quasi", "type": "date"},
        "job": {"role": "quasi", "type": "categorical"},
        "place": {"role": "quasi", "type": "hierarchy", "hierarchy": TREE},
        "amount": {"role": "sensitive"},
    }
    given = {"version": 1, "k": 3, "window": "1h", "max_delay": "2h", "cohort": "lasting", "fields": fields}
    solver = {"evaluations_per_row": 20, "threads": 1}
    policy = parse_policy(given | {"solver": solver} | head, "test", "test")
    schema = pa.schema(
        [
            ("who", pa.string()),
            ("when", pa.timestamp("ms", tz="UTC")),
            ("age", pa.int64()),
            ("born", pa.date32()),
            ("job", pa.string()),
            ("place", pa.string()),
            ("amount", pa.float64()),
        ]
    )
    return bind(policy, schema, text=False, source="test")


def mixed_values(people: int, rng: np.random.Generator) -> pa.Table:
    """Quasi-identifiers of people: few values, so that there are ties, and one in eight a null."""
    ages = [None if rng.random() < 0.125 else int(rng.integers(20, 40)) for _ in range(people)]
    days = [
        None
        if rng.random() < 0.125
        else dt.date(1980, 1, 1) + dt.timedelta(days=int(rng.integers(0, 30)) * 100)
        for _ in range(people)
    ]
    jobs = [None if rng.random() < 0.125 else "wxyz"[int(rng.integers(0, 4))] for _ in range(people)]
    places = [None if rng.random() < 0.125 else LEAVES[int(rng.integers(0, 4))] for _ in range(people)]
    columns = {"age": ages, "born": days, "job": jobs, "place": places}
    return pa.table(columns, schema=quasi_schema(mixed_bound()))
