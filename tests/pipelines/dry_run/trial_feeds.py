"""A feed of people who come and go, and policies over it: what is tried, and what runs whole to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import classify

DAY_MS = 86_400_000


def feed(
    people: int = 240, days: int = 24, active: float = 0.25, seed: int = 3, towns: int = 1, most: int = 3
) -> pa.Table:
    """Each day some of the people come, up to ``most`` times; a fifth of them are seen from the middle on only."""
    rng = np.random.default_rng(seed)
    here = rng.random((days, people)) < active
    here[: days // 2, : people // 5] = False
    day, who = np.nonzero(here)
    times = rng.integers(1, most + 1, day.size)
    day, who = np.repeat(day, times), np.repeat(who, times)
    birth, job = rng.integers(1940, 2005, people), rng.integers(0, 8, people)
    return pa.table(
        {
            "who": [f"p{each}" for each in who.tolist()],
            "when": pa.array(
                18_000 * DAY_MS + day * DAY_MS + rng.integers(0, DAY_MS, day.size),
                pa.timestamp("ms", tz="UTC"),
            ),
            "birth": birth[who],
            "income": np.round(rng.lognormal(10.5, 0.5, people))[who],
            "job": [f"j{each}" for each in job[who].tolist()],
            "town": [f"t{each}" for each in (who % towns).tolist()],
            "amount": np.round(rng.gamma(2.0, 20.0, day.size), 2),
        }
    )


def policy(**head: Any) -> Policy:
    """k = 4, windows of a day; keys of ``head`` are added, None takes one out."""
    fields: dict[str, Any] = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "birth": {"role": "quasi", "type": "numeric", "domain": [1930, 2010]},
        "income": {"role": "quasi", "type": "numeric", "domain": [0, 400000], "outside": "code"},
        "job": {"role": "quasi", "type": "categorical", "domain": [f"j{each}" for each in range(8)]},
        "town": {"role": "identifier"},
        "amount": {"role": "sensitive"},
    }
    fields |= head.pop("fields", {})
    mapping: dict[str, Any] = {
        "version": 1,
        "k": 4,
        "window": "1d",
        "max_delay": "2d",
        "fields": fields,
        "solver": {"seed": 7, "evaluations_per_row": 300, "threads": 1},
    }
    given = {key: value for key, value in (mapping | head).items() if value is not None}
    return parse_policy(given, "tried", "tried")


def bound_rows(table: pa.Table, made: Policy) -> tuple[pa.Table, BoundPolicy]:
    """The policy over the table, and its canonical rows."""
    bound = bind(made, table.schema, text=False, source="tried")
    return classify(table.select(list(bound.input_columns)), bound).rows, bound
