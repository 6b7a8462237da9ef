"""Member guesses: payload that resembles a quasi-identifier is found in every disguise, other payload is not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import bdtrc

import kanonflow.transforms.risks.member_guess as member_guess_of_runs
from kanonflow.transforms.risks.member_guess import (
    FALSE_ALARM,
    FieldValues,
    Slots,
    joint_guess,
    member_guess,
    success_rate,
)

K, N = 5, 600


def numbers(values: NDArray[np.float64]) -> FieldValues:
    """A field of numbers."""
    texts = np.array([None if np.isnan(value) else repr(float(value)) for value in values], dtype=object)
    return FieldValues(values.astype(np.float64), texts)


def category(values: NDArray[np.object_]) -> FieldValues:
    """A field of categories."""
    return FieldValues(None, np.asarray(values, dtype=object))


def slots(q: NDArray[np.float64], k: int = K) -> Slots:
    """Circular slots of k neighbours by a quasi-identifier, each record its own individual."""
    order = np.argsort(q, kind="stable")
    ring = (np.arange(q.size)[:, None] + np.arange(k)[None, :]) % q.size
    return Slots(order[ring].astype(np.int64), np.arange(q.size))


def naive_success(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """A guess at a time."""
    rates = np.zeros(scores.shape[:2])
    for slot, true in np.ndindex(rates.shape):
        line = list(scores[slot, true])
        winners = [place for place, score in enumerate(line) if score == max(line)]
        rates[slot, true] = 1.0 / len(winners) if true in winners else 0.0
    return rates


def naive_nearest(p: NDArray[np.float64], q: NDArray[np.float64], members: NDArray[np.int64]) -> float:
    """Share of right guesses of the member whose q is nearest to p, by hand."""
    right = []
    for slot in members:
        for true in slot:
            gaps = [abs(p[true] - q[member]) for member in slot]
            nearest = [member for member, gap in zip(slot, gaps, strict=True) if gap == min(gaps)]
            right.append(1.0 / len(nearest) if true in nearest else 0.0)
    return float(np.mean(right))


def test_success_counts_ties_as_a_draw() -> None:
    """Against one guess at a time, over scores with many ties."""
    scores = np.random.default_rng(1).integers(0, 3, (50, K, K)).astype(np.float64)
    true = np.tile(np.arange(K), 50)
    found = success_rate(scores.reshape(-1, K).T, true)
    np.testing.assert_array_equal(found, naive_success(scores).ravel())


def test_the_nearest_member_is_that_of_a_loop() -> None:
    """Noise of the size of a slot: the rate of the attack by nearness is that of the naive twin."""
    rng = np.random.default_rng(2)
    q = rng.normal(0, 1, N)
    p = q + rng.normal(0, 0.01, N)
    found = member_guess(numbers(p), {"q": numbers(q)}, slots(q))
    assert found.rate >= naive_nearest(p, q, slots(q).members) - 1e-12
    assert found.certain
    assert found.conclusive


COPIES = {
    "itself": lambda q: q,
    "another unit": lambda q: -3.6 * q + 32,
    "bent": lambda q: np.exp(q),
    "falling and bent": lambda q: -np.exp(q),
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copied_number_is_found(copy: str) -> None:
    """In whatever unit, bent or turned round: nearly every guess is right."""
    q = np.random.default_rng(3).normal(0, 1, N)
    found = member_guess(numbers(COPIES[copy](q)), {"q": numbers(q)}, slots(q))
    assert found.rate > 0.95
    assert found.certain


def test_noise_around_a_number_is_found() -> None:
    """Noise of a fifth of a slot's width: most guesses are right, and the field is above 1.5/k."""
    rng = np.random.default_rng(4)
    q = np.arange(N) / 10
    found = member_guess(numbers(q + rng.normal(0, 0.1, N)), {"q": numbers(q)}, slots(q))
    assert 1.5 / K < found.rate < 0.95
    assert found.certain


def test_a_sum_of_several_numbers_is_found() -> None:
    """No single quasi-identifier gives it away, all of them together do."""
    rng = np.random.default_rng(5)
    columns = {f"q{number}": rng.normal(0, 1, N) for number in range(4)}
    p = np.sum(list(columns.values()), axis=0)
    members = Slots(rng.permuted(np.tile(np.arange(N), (N, 1)), axis=1)[:, :K].astype(np.int64), np.arange(N))
    quasis = {name: numbers(values) for name, values in columns.items()}
    found = member_guess(numbers(p), quasis, members)
    assert found.rate > 0.95
    assert found.attack.startswith("linear all")


def test_a_copied_category_is_found_though_nobody_shares_it() -> None:
    """A code of one's own as payload: the other half of the people tells nothing about it, its text does."""
    names = np.array([f"n{number}" for number in range(N)], dtype=object)
    found = member_guess(category(names), {"name": category(names)}, slots(np.arange(N) * 1.0))
    assert found.rate == 1.0
    assert found.attack == "equal name"


@pytest.mark.parametrize("kind", ["category of a category", "number of a category", "category of a number"])
def test_what_goes_together_is_found(kind: str) -> None:
    """A trade and its shop, a trade and its wage, a place and its name: learnt from half of the people."""
    rng = np.random.default_rng(6)
    trade = rng.integers(0, 20, N)
    trades = category(np.array([f"trade {value}" for value in trade], dtype=object))
    shops = category(np.array([f"shop {value * 7 % 20}" for value in trade], dtype=object))
    payload, quasi = {
        "category of a category": (shops, trades),
        "number of a category": (numbers((trade * 7 % 20) * 100 + rng.normal(0, 10, N)), trades),
        "category of a number": (shops, numbers(trade + rng.normal(0, 0.1, N))),
    }[kind]
    members = Slots(np.stack([rng.permutation(N) for _ in range(K)], axis=1).astype(np.int64), np.arange(N))
    members = Slots(members.members[[len(set(row)) == K for row in members.members.tolist()]], members.who)
    found = member_guess(payload, {"q": quasi}, members)
    assert found.rate > 0.5
    assert found.certain


def test_two_fields_together_tell_more_than_each() -> None:
    """Latitude and longitude with noise: the sum of their scores beats both."""
    rng = np.random.default_rng(7)
    home = {name: rng.uniform(0, 10, N) for name in ("lat", "long")}
    members = Slots(rng.permuted(np.tile(np.arange(N), (N, 1)), axis=1)[:, :K].astype(np.int64), np.arange(N))
    quasis = {name: numbers(values) for name, values in home.items()}
    payloads = {f"shop {name}": numbers(values + rng.normal(0, 2, N)) for name, values in home.items()}
    alone = {name: member_guess(payload, quasis, members) for name, payload in payloads.items()}
    together = joint_guess(payloads, {name: guess.attack for name, guess in alone.items()}, quasis, members)
    assert together.rate > max(guess.rate for guess in alone.values()) + 0.05


def independent(seed: int, n: int) -> bool:
    """Whether payload that tells nothing, of every kind, raises an alarm."""
    rng = np.random.default_rng(seed)
    q = rng.normal(0, 1, n)
    quasis = {"q": numbers(q), "job": category(rng.choice(["a", "b", "c", None], n))}
    fields = (
        numbers(rng.lognormal(0, 1, n)),
        category(rng.choice([f"v{value}" for value in range(30)], n)),
    )
    return any(member_guess(field, quasis, slots(q), seed).certain for field in fields)


def test_independent_payload_raises_no_alarm() -> None:
    """40 feeds of two fields that tell nothing; each field may be called certain with a chance of FALSE_ALARM.

    By the binomial, 2 or more alarms among 80 fields happen with a chance of 0.003%. Seeds are fixed.
    """
    assert FALSE_ALARM == 1e-4
    assert sum(independent(seed, 200) for seed in range(40)) < 2


def test_few_people_are_not_enough_to_tell() -> None:
    """With 40 individuals a rate of 1.5/k may be chance, and is said to be."""
    q = np.random.default_rng(8).normal(0, 1, 40)
    found = member_guess(numbers(np.ones(40)), {"q": numbers(q)}, slots(q))
    assert not found.conclusive
    assert not found.certain
    assert found.rate == pytest.approx(1 / K)


def test_rows_of_one_person_count_as_one() -> None:
    """Ten rows each: the noise is that of the people, not of the rows."""
    rng = np.random.default_rng(9)
    q = rng.normal(0, 1, N)
    by_row = slots(q)
    by_person = Slots(by_row.members, np.arange(N) // 10)
    payload = numbers(rng.normal(0, 1, N))
    rows, people = (member_guess(payload, {"q": numbers(q)}, each) for each in (by_row, by_person))
    assert people.individuals == pytest.approx(N / 10)
    assert people.noise > 2 * rows.noise


def test_nulls_are_values_of_their_own() -> None:
    """A payload that is null where the quasi-identifier is gives that away; where it has no number it is a draw."""
    rng = np.random.default_rng(10)
    q = rng.normal(0, 1, N)
    nulls = rng.random(N) < 0.5
    p = np.where(nulls, np.nan, 1.0)
    members = Slots(rng.permuted(np.tile(np.arange(N), (N, 1)), axis=1)[:, :K].astype(np.int64), np.arange(N))
    found = member_guess(numbers(p), {"q": numbers(np.where(nulls, np.nan, q))}, members)
    assert 0.3 < found.rate < 0.5
    assert found.attack.startswith("table")


@pytest.mark.parametrize("tries", [1, 2, 7, 50, 999, 20_000])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_the_limit_of_chance_is_that_of_scipy(tries: int, k: int) -> None:
    """A binomial tail by logarithms, down to the chances that a run asks for."""
    for chance in (0.03, 1e-4, 1.7e-6):
        exact = np.append(bdtrc(np.arange(tries, dtype=np.float64), tries, 1 / k), 0.0)
        assert member_guess_of_runs._exceeded_by(chance, tries, 1 / k) == np.argmax(exact <= chance)


def test_a_run_imports_no_special_functions() -> None:
    """They take .03 s, and what they bring along is loaded by numba's first kernel."""
    program = "import sys, kanonflow.pipelines.runs.anonymize_files; sys.exit('scipy.special' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
