"""policy check of cohort: lasting over a feed with planted traps: each is named, and nothing else."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.dry_run.feed import FeedRows
from kanonflow.pipelines.risks.lasting_risks import LastingRisks, lasting_risks
from tests.pipelines.risks.toy_feeds import BEGIN, kept_rows, toy_bound

pytestmark = pytest.mark.thorough

PEOPLE, HOURS, K = 240, 12, 4
FIELDS = {"age": {"role": "quasi", "type": "numeric", "domain": [0, 1000]}}
MOOD = {"mood": {"role": "quasi", "type": "categorical"}}


def feed(later: int = 0) -> pa.Table:
    """People who come in most hours with ages that last. later: so many of them come in hours 6 to 11 only.

    mood: of another value in a tenth of the rows. town: three people have two. place: near the age, blurred.
    tenure: hours since an own beginning. booked: when it was. amount, shop: nothing.
    """
    rng = np.random.default_rng(7)
    rows = [
        (person, hour)
        for person in range(PEOPLE)
        for hour in range(HOURS)
        if rng.random() < 0.8 and (person >= later or hour >= 6)
    ]
    who, hour = np.array(rows).T
    order = np.argsort(hour, kind="stable")
    who, hour = who[order], hour[order]
    # Twins: people 0 and 1, 2 and 3, up to 18 and 19.
    age = np.round(rng.uniform(0, 1000, PEOPLE)).astype(np.int64)
    age[1:20:2] = age[0:20:2]
    town = np.array(["north", "south"])[(who >= PEOPLE // 2).astype(int)]
    town[(who < 3) & (hour == HOURS - 1)] = "south"
    begin = rng.integers(0, 5_000, PEOPLE)
    return pa.table(
        {
            "who": [f"p{person:03}" for person in who],
            "when": pa.array(
                [BEGIN + dt.timedelta(hours=int(each)) for each in hour], pa.timestamp("ms", "UTC")
            ),
            "age": age[who],
            "mood": np.array(["well", "ill"])[(rng.random(who.size) < 0.1).astype(int)],
            "town": town,
            "place": age[who] + rng.normal(0, 18, who.size),
            "tenure": hour + begin[who],
            "booked": pa.array(
                [BEGIN + dt.timedelta(hours=int(each), minutes=3) for each in hour], pa.timestamp("ms", "UTC")
            ),
            "amount": np.round(rng.lognormal(3, 1, who.size), 2),
            "shop": [f"shop {shop}" for shop in rng.integers(0, 30, who.size)],
        }
    )  # fmt: skip


def measured(*payload: str, later: int = 0, **head: Any) -> LastingRisks:
    """The risks of the feed with these fields published."""
    table = feed(later)
    fields = {**FIELDS, **head.pop("fields", {})}
    bound = toy_bound(table, k=K, payload=payload, fields=fields, **head)
    return lasting_risks(FeedRows(kept_rows(table, bound)), bound)


def mistakes(risks: LastingRisks) -> list[str]:
    """What is refused, up to the first colon."""
    refusal = risks.refusal("p.yaml")
    return [] if refusal is None else [mistake.split(":", 1)[0] for mistake in refusal.mistakes]


WAITING = {"max_delay": "2h"}


def test_every_trap_is_named_and_nothing_else() -> None:
    """No delay and no newcomers, a mood, towns, a place, a tenure, the time itself; not ages, amounts and shops."""
    risks = measured(
        "town", "place", "tenure", "booked", "amount", "shop", fields=MOOD, partition_by=["town"]
    )
    assert set(mistakes(risks)) == {
        "max_delay",
        "fields.mood",
        "fields.town",
        "fields.place",
        "fields.tenure",
        "fields.booked",
    }
    told = str(risks.refusal("p.yaml"))
    for words in (
        "limit 2%",
        "Make it payload (role: sensitive or insensitive), or say cohort: window",
        "3 people have rows in more than one partition",
        "fewer than 4 k = 16",
        "limit 0.375",
        "rises or falls with time within each person",
        "is a date within the row's own window",
        "accept_risk: <reason>",
    ):
        assert words in told


def test_a_feed_without_traps_is_not_refused() -> None:
    """And its figures are told."""
    risks = measured("amount", "shop", **WAITING)
    assert mistakes(risks) == []
    text = risks.render()
    for words in (
        f"{PEOPLE} people",
        "never other than their person's first value: age",
        "people who share all quasi-identifiers with another: ",
        "cohort_size",
        "the reader knows",
        "1 window with rows",
        "3 windows with rows",
        "1 row by its window and amount to 1",
        "1 row by its window and amount and shop",
        "1 other person's rows",
        "all together",
    ):
        assert words in text
    assert "REFUSED" not in text


def test_accepted_risks_are_told_and_not_refused() -> None:
    """On a partition field, on fields that hint, on fields that tell the time."""
    accepted = {name: {"accept_risk": "agreed"} for name in ("town", "place", "tenure", "booked")}
    risks = measured(
        "town",
        "place",
        "tenure",
        "booked",
        fields={name: {"role": "insensitive", **change} for name, change in accepted.items()},
        partition_by=["town"],
        **WAITING,
    )
    assert mistakes(risks) == []
    text = risks.render()
    assert "people with more than one town (partition_by): 3 (accepted)" in text
    assert text.count("accepted") >= 4


def test_newcomers_are_judged_only_where_no_row_waits() -> None:
    """240 people at once and then 60 in hour 6: median 0 after the first, refused without a delay of a window."""
    assert mistakes(measured("amount", later=60)) == ["max_delay"]
    assert mistakes(measured("amount", later=60, max_delay="30m")) == ["max_delay"]
    assert mistakes(measured("amount", later=60, max_delay="1h")) == []


def test_a_value_that_changes_in_two_of_a_hundred_rows_is_the_limit() -> None:
    """At the limit it is told, above it is refused."""
    risks = measured("amount", fields=MOOD, **WAITING)
    mood = next(each for each in risks.varying if each.field == "mood")
    age = next(each for each in risks.varying if each.field == "age")
    for rows, refused in ((2, False), (3, True)):
        changed = dataclasses.replace(risks, varying=(age, mood._replace(rows=rows, valued=100)))
        assert ("fields.mood" in mistakes(changed)) is refused
        assert "mood: " in changed.render()


def test_sizes_are_k_one_more_twice_and_the_own() -> None:
    """And larger cohorts lose more and leave more."""
    risks = measured("amount", cohort_size=6, **WAITING)
    assert [each.size for each in risks.sizes] == [4, 5, 6, 8]
    first, last = risks.sizes[0], risks.sizes[-1]
    assert first.loss < last.loss
    assert first.match is not None
    assert last.match is not None
    assert first.match.mean < last.match.mean
    assert last.match.below == 0.0


def test_fewer_people_than_a_cohort_have_nothing_to_simulate() -> None:
    """Told, and no error."""
    table = feed().slice(0, 2)
    bound = toy_bound(table, k=K, payload=["amount"], fields=FIELDS, **WAITING)
    rows = kept_rows(table, bound)
    for some in (rows, rows.slice(0, 0)):
        assert "nobody would enter" in lasting_risks(FeedRows(some), bound).render()


def test_a_field_is_blamed_where_only_all_together_name_the_person() -> None:
    """The highest by themselves stand in the message."""
    risks = measured("place", "amount", **WAITING)
    together = next(each for each in risks.bundles if each.field == "all together")
    quiet = [
        each._replace(guesses=tuple(guess._replace(rate=0.3) for guess in each.guesses))
        for each in risks.bundles
        if each.field != "all together"
    ]
    told = str(dataclasses.replace(risks, bundles=(*quiet, together)).refusal("p.yaml"))
    assert "all payload fields together" in told
    assert "place (0.300)" in told


def check(folder: Path, more: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of policy check over the feed."""
    pyarrow.csv.write_csv(feed(), folder / "in.csv")
    (folder / "p.yaml").write_text(
        f"version: 1\nk: {K}\nwindow: 1h\ncohort: lasting\nmax_delay: 2h\nothers: drop\nfields:\n"
        "  who: {role: individual}\n  when: {role: time}\n"
        "  age: {role: quasi, type: numeric, as: int, domain: [0, 1000]}\n" + more
    )
    code = cli.main(["policy", "check", str(folder / "p.yaml"), "--input", str(folder / "in.csv")])
    return code, *capsys.readouterr()


def test_policy_check_names_field_figure_and_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the figures on stdout, what to do on stderr, and no value of a record."""
    code, out, err = check(tmp_path, "  mood: {role: quasi, type: categorical}\n", capsys)
    assert code == 2
    assert "cohort: lasting over " in out
    assert "mood: " in out
    assert "fields.mood: " in err
    assert "say cohort: window" in err
    assert not any(value in out + err for value in ("p017", "well", "ill,"))


def test_policy_check_tells_both_kinds_of_risks_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a value tells by itself, and what it tells over windows."""
    code, _, err = check(tmp_path, "  tenure: {role: insensitive, as: long}\n", capsys)
    assert code == 2
    assert "fields.tenure: order 1.000" in err
    assert "fields.tenure: rises or falls with time within each person" in err


def test_what_one_row_does_not_give_away_a_bundle_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guess from a single row passes its limit, that from all rows of a person does not."""
    code, out, err = check(tmp_path, "  place: {role: insensitive, as: double}\n", capsys)
    assert code == 2
    assert "guessed right" not in err
    assert "fields.place: all rows of a person name it" in err
    assert "guessed right" in out


def test_policy_check_says_the_promise_of_lasting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And its reader; exit code 0."""
    code, out, _ = check(tmp_path, "  amount: {role: sensitive, as: double}\n", capsys)
    assert code == 0
    assert "linked over all releases of an epoch" in out
    assert "when or how often somebody was active" in out
    assert "Newcomers wait until there are" in out


def test_the_usual_intake_is_counted_by_people() -> None:
    """Of intakes of 50, 30, 10 and 10 people half of the people enter with 50; of 40, 30, 20 and 10 with 30 or more."""
    risks = measured("amount", **WAITING)
    for intakes, usual in (((10, 50, 30, 10), 50), ((40, 20, 30, 10), 30)):
        told = dataclasses.replace(risks, intakes=intakes).render()
        assert f"half of the people enter with {usual} or more" in told
