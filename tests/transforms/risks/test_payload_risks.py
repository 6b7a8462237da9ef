"""policy check over files: which payload is refused, which is not, and what accept_risk changes."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.risks import member_guess
from kanonflow.transforms.risks.payload_risks import PayloadRisks, payload_risks
from kanonflow.transforms.risks.sample_slots import sample_slots
from kanonflow.transforms.rows.classify import classify

ROWS, PEOPLE, HOURS = 3_000, 300, 5
PAYLOAD = {
    "shop": "a hundred shops",
    "amount": "a lognormal amount",
    "flag": "yes or no, as a number",
    "shop_lat": "a place near home",
    "town": "the name of the home's square",
    "account": "one a person",
    "reference": "a uuid",
    "number": "grows with time",
    "counter": "grows with each row of a person",
    "paid_at": "the time itself",
}
NIGHTS = (42, 481, 510, 918, 1014, 1195)
RISKY = {
    "shop_lat": {"guessed right"},
    "town": {"guessed right"},
    "account": {"guessed right", "one person's"},
    "reference": {"distinct values"},
    "number": {"distinct values", "order"},
    "counter": {"order"},
    "paid_at": {"distinct values", "order"},
}


def feed(seed: int = 1, rows: int = ROWS) -> pa.Table:
    """People with a home and a trade, who pay in shops for five hours."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, PEOPLE, rows)
    home = rng.uniform(0, 10, (PEOPLE, 2))
    begin = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    seconds = np.sort(rng.choice(HOURS * 3600, rows, replace=False))
    when = [begin + dt.timedelta(seconds=int(second)) for second in seconds]
    counter = np.zeros(rows, dtype=np.int64)
    for person in range(PEOPLE):
        own = np.flatnonzero(who == person)
        counter[own] = np.arange(own.size)
    square = np.floor(home).astype(np.int64)
    return pa.table(
        {
            "who": [f"p{person}" for person in who],
            "when": pa.array(when, pa.timestamp("ms", "UTC")),
            "lat": home[who, 0],
            "long": home[who, 1],
            "job": [f"job {person % 7}" for person in who],
            "shop": [f"shop {value}" for value in rng.integers(0, 100, rows)],
            "amount": np.round(rng.lognormal(3, 1, rows), 2),
            "flag": rng.integers(0, 2, rows),
            "shop_lat": home[who, 0] + rng.normal(0, 0.05, rows),
            "town": [f"town {square[person, 0]} {square[person, 1]}" for person in who],
            "account": [f"a{person * 31 % 997}" for person in who],
            "reference": [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(rows)],
            "number": np.arange(rows) * 3 + 5,
            "counter": counter,
            "paid_at": pa.array(when, pa.timestamp("ms", "UTC")),
        }
    )


def bound_feed(table: pa.Table, payload: tuple[str, ...], **changes: Any) -> BoundPolicy:
    """The policy over the feed that publishes these fields."""
    fields: dict[str, Any] = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "lat": {"role": "quasi", "type": "numeric"},
        "long": {"role": "quasi", "type": "numeric"},
        "job": {"role": "quasi", "type": "categorical"},
    }
    for name in payload:
        fields[name] = {"role": "insensitive"}
    for name, change in changes.pop("fields", {}).items():
        fields[name] = {**fields[name], **change}
    head = {"version": 1, "k": 5, "window": "1h", "others": "drop", **changes}
    if "individual" in {each.get("role") for each in fields.values()} and head.get("protect") != "row":
        head.setdefault("cohort", "window")
    return bind(parse_policy({**head, "fields": fields}, "t", "t"), table.schema, text=False, source="t")


def measured(*payload: str, **changes: Any) -> PayloadRisks:
    """The risks of these fields of the feed."""
    table = feed()
    bound = bound_feed(table, payload, **changes)
    return payload_risks(table.select(list(bound.input_columns)).cast(bound.canonical_schema), bound)


def high(risks: PayloadRisks) -> dict[str, set[str]]:
    """Measures above their limit, by field."""
    found: dict[str, set[str]] = {}
    for risk in risks.risks:
        if risk.high:
            found.setdefault(risk.field, set()).add(risk.measure)
    return found


def test_each_kind_of_risky_payload_is_found_and_nothing_else() -> None:
    """Near places, towns, accounts, references, counters, times are too high; shops, amounts and flags are not."""
    risks = measured(*PAYLOAD)
    found = high(risks)
    found.pop("all together")
    assert found == RISKY
    refusal = str(risks.refusal("p.yaml"))
    for name, measures in RISKY.items():
        for measure in measures:
            assert f"fields.{name}: {measure}" in refusal


def test_harmless_payload_is_not_refused() -> None:
    """Shops, amounts and flags alone, and all three together."""
    risks = measured("shop", "amount", "flag")
    assert risks.refusal("p.yaml") is None
    assert "all together" in risks.render()


def test_payload_on_a_grid_is_measured_as_it_is_published() -> None:
    """A price that no other row has names its row, also beside an hour, and to 1; to 50,000 it does not. The hour tells
    the order of a feed of five hours, and is refused like any payload that does; the weekday is not."""
    table = feed()
    prices = np.random.default_rng(3).choice(10**7, ROWS, replace=False)
    table = table.set_column(table.schema.get_field_index("amount"), "amount", pa.array(prices))

    def refused(**fields: Any) -> dict[str, set[str]]:
        bound = bound_feed(table, ("amount", "paid_at"), fields=fields)
        found = high(payload_risks(classify(table, bound).rows, bound))
        found.pop("all together", None)
        return found

    assert refused() == {"amount": {"distinct values"}, "paid_at": {"distinct values", "order"}}
    alone, order = {"amount": {"distinct values"}}, {"paid_at": {"order"}}
    assert refused(paid_at={"as": "hour"}) == alone | order
    assert refused(amount={"round": 1, "top": 10**7}, paid_at={"as": "hour"}) == alone | order
    assert refused(amount={"round": 50_000}, paid_at={"as": "hour"}) == order
    assert refused(amount={"round": 50_000}, paid_at={"as": "weekday"}) == {}


def test_without_individuals_rows_are_their_own() -> None:
    """No individual: nothing is anybody's own value, but rows of the same home with the same account give it away."""
    changes = {"fields": {"who": {"role": "identifier"}}}
    found = high(measured("shop_lat", "account", "number", **changes))
    assert found["account"] == {"guessed right"}
    assert found["number"] == {"distinct values", "order"}


def test_an_accepted_risk_is_told_and_not_refused() -> None:
    """The table says so; what else is too high is refused still."""
    changes = {"fields": {"reference": {"accept_risk": "Partners reconcile by it, in the same building."}}}
    risks = measured("reference", "number", **changes)
    verdicts = {(risk.field, risk.measure): risk.verdict for risk in risks.risks}
    assert verdicts["reference", "distinct values"] == "accepted"
    assert verdicts["number", "order"] == "REFUSED"
    assert "reference" not in str(risks.refusal("p.yaml"))


def test_partition_fields_are_measured_too() -> None:
    """They are published as they are; within a partition they tell nothing of its members."""
    table = feed()
    table = table.append_column("region", pa.array([f"r{int(lat) // 5}" for lat in table["lat"].to_pylist()]))
    bound = bound_feed(table, ("shop", "region"), partition_by=["region"])
    rows = table.select(list(bound.input_columns)).cast(bound.canonical_schema)
    risks = payload_risks(rows, bound)
    guess = next(risk for risk in risks.risks if (risk.field, risk.measure) == ("region", "guessed right"))
    assert guess.value == pytest.approx(0.2, abs=0.03)
    assert "region" not in high(risks)


def test_slots_are_k_individuals_of_one_window() -> None:
    """Of each individual one row a window; the members of a slot are distinct and of one window.

    A row is in k slots. Few rows wait, as in a release.
    """
    table = feed()
    bound = bound_feed(table, ("amount",))
    rows = table.select(list(bound.input_columns)).cast(bound.canonical_schema)
    sample, members, _ = sample_slots(rows, bound, most=400)
    who = np.array(sample.column("who").to_pylist())
    hour = np.array([when.hour for when in sample.column("when").to_pylist()])
    assert members.shape[1] == 5
    assert members.shape[0] > 0.98 * sample.num_rows
    assert (np.bincount(members.ravel())[np.unique(members)] == 5).all()
    assert all(len(set(who[slot])) == 5 and len(set(hour[slot])) == 1 for slot in members)


def test_too_few_rows_are_said_to_be() -> None:
    """Twelve rows judge nothing, and refuse nothing that is not certain."""
    table = feed(rows=12)
    bound = bound_feed(table, ("reference", "amount"))
    risks = payload_risks(table.select(list(bound.input_columns)).cast(bound.canonical_schema), bound)
    assert risks.refusal("p.yaml") is None
    assert "too few rows to tell" in risks.render()


def test_no_rows_at_all() -> None:
    """An input whose rows are all rejected has nothing to measure."""
    table = feed().slice(0, 0)
    bound = bound_feed(table, ("reference", "number"))
    assert payload_risks(table.select(list(bound.input_columns)), bound).refusal("p.yaml") is None


def check(folder: Path, entry: str) -> int:
    """The exit code of policy check over the feed as CSV, with this declaration of ``number``."""
    table = feed().select(["who", "when", "lat", "number"])
    pa.csv.write_csv(table, folder / "in.csv")
    text = (
        "version: 1\nk: 5\nwindow: 1h\ncohort: window\nfields:\n  who: {role: individual}\n  when: {role: time}\n"
        "  lat: {role: quasi, type: numeric}\n  number: " + entry + "\n"
    )
    (folder / "p.yaml").write_text(text)
    return cli.main(["policy", "check", str(folder / "p.yaml"), "--input", str(folder / "in.csv")])


def test_policy_check_refuses_and_names_field_figure_and_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with the table on stdout and what to do on stderr; no value of a record in either."""
    assert check(tmp_path, "{role: insensitive, as: long}") == 2
    out, err = capsys.readouterr()
    assert "number" in out
    assert "REFUSED" in out
    ways = ("role: identifier", "publish it coarser (round and top of numbers", "accept_risk: <reason>")
    for words in ("fields.number: order 1.000, limit 0.950", *ways):
        assert words in err
    assert "p17" not in out + err
    assert check(tmp_path, "{role: insensitive, as: long, round: 10000}") == 0


def test_policy_check_takes_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and the reason is repeated."""
    assert check(tmp_path, '{role: insensitive, as: long, accept_risk: "seen by auditors only"}') == 0
    out = capsys.readouterr().out
    assert "Accepted risk of number: seen by auditors only" in out
    assert "accepted" in out


@pytest.mark.parametrize("reason", ['""', "7", "", '"  "', "{}"])
def test_a_reason_must_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str) -> None:
    """An empty one, a number, nothing: refused as a mistake of the policy."""
    assert check(tmp_path, "{role: insensitive, accept_risk: " + reason + "}") == 2
    assert "fields.number.accept_risk: must be the reason" in capsys.readouterr().err


def quiet_night(seed: int) -> PayloadRisks:
    """Some 20 of 40 people pay amounts by chance: a feed that is published every night, and tells nothing."""
    rng = np.random.default_rng(seed)
    here = np.repeat(np.arange(40), rng.integers(0, 2, 40) * rng.integers(1, 4, 40))
    people = np.random.default_rng(1)
    minutes = np.sort(rng.integers(0, 1440, here.size)) * 60_000
    table = pa.table(
        {
            "who": [f"p{each}" for each in here],
            "when": pa.array(minutes, pa.timestamp("ms", "UTC")),
            "lat": people.uniform(0, 10, 40)[here],
            "long": people.uniform(0, 10, 40)[here],
            "job": [f"job {each % 4}" for each in here],
            "amount": np.round(rng.random(here.size) * 99, 2),
        }
    )
    bound = bound_feed(table, ("amount",), k=3, window="1d")
    return payload_risks(table.select(list(bound.input_columns)).cast(bound.canonical_schema), bound)


@pytest.mark.parametrize("night", NIGHTS)
def test_chance_refuses_no_night_of_a_small_feed(night: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nights that one false alarm in a hundred would have refused, of 1,200 that were looked at."""
    assert quiet_night(night).refusal("p") is None
    monkeypatch.setattr(member_guess, "FALSE_ALARM", 0.01)
    assert "fields.amount: guessed right" in str(quiet_night(night).refusal("p"))
