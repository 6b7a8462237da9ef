"""Attributes of people that are published as they are: refused by the check and by the run, whoever drafted it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.risks.payload_risks import ALONE, GUESS, PayloadRisks, payload_risks

QUASI = {"role": "quasi", "type": "numeric", "as": "int"}
PAYLOAD = {"role": "sensitive"}


def census(rows: int = 2_000) -> pa.Table:
    """Sampling units of two or three people, each a row with what a census asks."""
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "unit": [f"u{each // 5 * 2 + each % 5 // 3}" for each in range(rows)],
            "region": np.repeat(np.arange(rows // 100 + 1), 100)[:rows] % 9,
            "age": rng.integers(0, 90, rows),
            "sex": rng.choice(["m", "f"], rows),
            "race": rng.choice(["a", "b", "c", "d"], rows, p=[0.7, 0.15, 0.1, 0.05]),
            "income": rng.integers(5, 120, rows) * 500,
            "weight": rng.lognormal(5, 1, rows),
        }
    )


def bookings(people: int = 300, each: int = 8) -> pa.Table:
    """People who keep their sex and town, and pay in shops at other times, each time another amount."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(people), each)
    minutes = rng.integers(0, 28 * 1440, who.size)
    return pa.table(
        {
            "who": [f"p{person}" for person in who],
            "when": pa.array(minutes * 60_000, pa.timestamp("ms", "UTC")),
            "age": rng.integers(18, 90, people)[who],
            "sex": np.array(["m", "f"])[rng.integers(0, 2, people)][who],
            "town": [f"t{person % 60}" for person in who],
            "shop": [f"s{shop}" for shop in rng.integers(0, 900, who.size)],
            "amount": np.round(rng.lognormal(3, 1, who.size), 2),
        }
    )


def measured(table: pa.Table, fields: dict[str, Any], **head: Any) -> PayloadRisks:
    """The risks of a table under a policy of these fields."""
    written = {"version": 1, "k": 5, "others": "drop", **head, "fields": fields}
    bound = bind(parse_policy(written, "t", "t"), table.schema, text=False, source="t")
    return payload_risks(table.select(list(bound.input_columns)).cast(bound.canonical_schema), bound)


def of_census(table: pa.Table, **accepted: str) -> PayloadRisks:
    """Drafted as badly as a census can be: the sampling unit is the person, and the people's attributes are payload."""
    fields: dict[str, Any] = {"unit": {"role": "individual"}, "region": QUASI}
    for name in ("age", "sex", "race", "income", "weight"):
        fields[name] = {**PAYLOAD, **({"accept_risk": accepted[name]} if name in accepted else {})}
    return measured(table, fields, cohort="window")


def of_bookings(*payload: str) -> PayloadRisks:
    fields: dict[str, Any] = {"who": {"role": "individual"}, "when": {"role": "time"}, "age": QUASI}
    fields |= dict.fromkeys(payload, PAYLOAD)
    return measured(bookings(), fields, window="7d", cohort="window")


def test_a_census_whose_people_are_payload_is_refused() -> None:
    """Nine of ten rows are alone in age, sex, race and income; the weight, an amount, is not counted."""
    (alone,) = (risk for risk in of_census(census()).risks if risk.measure == ALONE)
    assert alone.value is not None
    assert alone.value > 0.9
    assert "in age, sex, race, income, which" in alone.how
    refusal = str(of_census(census()).refusal("p.yaml"))
    assert "are rows that nobody else is like in age, sex, race, income" in refusal
    assert "limit 5%" in refusal


def test_what_somebody_answers_for_is_not_counted() -> None:
    """Without income and age the rest is shared; a single sampling unit's rows are each by itself."""
    accepted = {"age": "agreed", "income": "agreed"}
    (alone,) = (risk for risk in of_census(census(), **accepted).risks if risk.measure == ALONE)
    assert alone.value == 0.0
    assert not alone.high


def test_few_rows_are_not_refused_and_not_called_right() -> None:
    """Of 40 rows most are alone in anything."""
    (alone,) = (risk for risk in of_census(census(40)).risks if risk.measure == ALONE)
    assert alone.value is not None
    assert alone.value > 0.9
    assert alone.verdict == "too few rows to tell"


def test_what_people_keep_is_known_of_them() -> None:
    """A sex of one's own, in each row, tells whose they are in more than 1.5/k of cases; shops and amounts do not."""
    found = {risk.field: risk for risk in of_bookings("sex", "shop", "amount").risks if risk.measure == GUESS}
    assert found["sex"].high
    assert "known of people" in found["sex"].how
    assert not found["shop"].high
    assert not found["amount"].high


def test_who_comes_back_is_alone_in_what_it_keeps() -> None:
    """Five people a town: alone with their sex are some, whose rows are all theirs; shops and amounts of a booking are
    counted nowhere."""
    (alone,) = (risk for risk in of_bookings("sex", "town", "shop", "amount").risks if risk.measure == ALONE)
    table = bookings()
    pairs: dict[tuple[str, str], set[str]] = {}
    rows = list(
        zip(table["sex"].to_pylist(), table["town"].to_pylist(), table["who"].to_pylist(), strict=True)
    )
    for sex, town, who in rows:
        pairs.setdefault((sex, town), set()).add(who)
    assert alone.value == pytest.approx(np.mean([len(pairs[sex, town]) == 1 for sex, town, _ in rows]))
    assert alone.high
    assert "like in sex, town, which" in alone.how
    assert not [risk for risk in of_bookings("shop", "amount").risks if risk.measure == ALONE]


def test_the_run_refuses_it_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """anonymize, without a check before it: exit code 2, no release, and no record's value in what is said."""
    pa.csv.write_csv(census(), tmp_path / "census.csv")
    (tmp_path / "p.yaml").write_text(
        "version: 1\nk: 5\ncohort: window\nfields:\n  unit: {role: individual}\n"
        "  region: {role: quasi, type: numeric, as: int}\n"
        + "".join(f"  {name}: {{role: sensitive}}\n" for name in ("age", "sex", "race", "income", "weight"))
    )
    run = ["anonymize", "--policy", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "census.csv")]
    assert cli.main([*run, "--output", str(tmp_path / "out")]) == 2
    assert "nobody else is like in age, sex, race, income" in capsys.readouterr().err
    assert not list((tmp_path / "out").rglob("*.avro"))
