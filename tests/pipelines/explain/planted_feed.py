"""A feed with traps in it, and one without: what ``explain`` must find, and what it must not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import yaml

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import classify

DAY_MS = 86_400_000
POLICY = """version: 1
name: planted
k: 5
window: 1d
max_delay: 2d
fields:
  who: {role: individual}
  when: {role: time, as: timestamp}
  birth: {role: quasi, type: date}
  district: {role: quasi, type: categorical}
  region: {role: quasi, type: categorical}
  job: {role: quasi, type: categorical}
  sector: {role: quasi, type: categorical}
  tariff: {role: quasi, type: categorical}
  amount: {role: sensitive, as: double}
  device: {role: sensitive}
  shop: {role: sensitive}
  receipt: {role: sensitive, as: long}
"""
HONEST = """version: 1
name: honest
k: 5
window: 1w
max_delay: 2w
fields:
  who: {role: individual}
  when: {role: time, as: timestamp}
  district: {role: quasi, type: categorical}
  job: {role: quasi, type: categorical}
  amount: {role: sensitive, as: double}
"""


def planted_rows(people: int = 300, days: int = 60, seed: int = 1) -> pa.Table:
    """Few people come on most days; region follows from district, tariff from job and sector together, and from
    neither alone; the device is the person's; the shop stands in the person's district; receipts are numbered."""
    rng = np.random.default_rng(seed)
    district, job, sector = (
        rng.integers(0, 24, people),
        rng.integers(0, 9, people),
        rng.integers(0, 7, people),
    )
    birth = rng.integers(-14_000, 11_000, people)
    # Weekends are busy; on other days hardly anybody comes.
    counts = np.where(np.arange(days) % 7 >= 5, 120, 3)
    day = np.repeat(np.arange(days), counts)
    who = rng.integers(0, people, day.size)
    when = 18_000 * DAY_MS + day * DAY_MS + np.sort(rng.integers(0, DAY_MS, day.size))
    return pa.table(
        {
            "who": [f"p{each}" for each in who.tolist()],
            "when": pa.array(when, pa.timestamp("ms", tz="UTC")),
            "birth": pa.array(birth[who], pa.int32()).cast(pa.date32()),
            "district": [f"d{each}" for each in district[who].tolist()],
            "region": [f"r{each // 6}" for each in district[who].tolist()],
            "job": [f"j{each}" for each in job[who].tolist()],
            "sector": [f"s{each}" for each in sector[who].tolist()],
            "tariff": [f"t{each}" for each in ((job + sector) % 5)[who].tolist()],
            "amount": np.round(rng.gamma(2.0, 20.0, day.size), 2),
            "device": [f"device {each}" for each in who.tolist()],
            "shop": [
                f"shop {each * 3 + extra}"
                for each, extra in zip(district[who].tolist(), (day % 3).tolist(), strict=True)
            ],
            "receipt": np.argsort(np.argsort(when, kind="stable")) * 7 + rng.integers(0, 7, day.size),
        }
    )


def honest_rows(people: int = 400, days: int = 60, seed: int = 2) -> pa.Table:
    """Enough people every week, fields that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    rows = people * days // 4
    who = rng.integers(0, people, rows)
    district, job = rng.integers(0, 12, people), rng.integers(0, 9, people)
    return pa.table(
        {
            "who": [f"p{each}" for each in who.tolist()],
            "when": pa.array(
                18_000 * DAY_MS + rng.integers(0, days * DAY_MS, rows), pa.timestamp("ms", tz="UTC")
            ),
            "district": [f"d{each}" for each in district[who].tolist()],
            "job": [f"j{each}" for each in job[who].tolist()],
            "amount": np.round(rng.gamma(2.0, 20.0, rows), 2),
        }
    )


def canonical(table: pa.Table, policy: str) -> tuple[pa.Table, BoundPolicy]:
    """Rows as ``explain`` takes them, and the policy bound to them."""
    bound = bind(
        parse_policy(yaml.safe_load(policy), "planted", "planted"), table.schema, text=False, source="planted"
    )
    return classify(table.select(list(bound.input_columns)), bound).rows, bound
