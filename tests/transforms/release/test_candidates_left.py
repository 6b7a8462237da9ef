"""Readers: whom what they know leaves, against counting bundle by bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.readers import ONE_WINDOW, KnownPurchases, KnownWindows, Reader, RoundedField
from kanonflow.transforms.release.candidates_left import CohortRows, candidates_left

AMOUNT = RoundedField("amount", 1.0)
SHOP = RoundedField("shop")


def world(seed: int, rows: int = 3) -> CohortRows:
    """Nine people in cohorts of four and three, two in none, with ``rows`` rows each at most; few values, so that
    many are alike."""
    rng = np.random.default_rng(seed)
    cohort = np.array([0, 1, 0, -1, 1, 0, 1, 0, -1])
    person = np.repeat(np.arange(cohort.size), rng.integers(1, rows + 1, cohort.size))
    person = rng.permutation(person)
    n = person.size
    amounts = [None if each == 6 else float(each) / 2 for each in rng.integers(-2, 7, n)]
    table = pa.table(
        {
            "amount": pa.array(amounts, pa.float64()),
            "shop": [f"shop {each}" for each in rng.integers(0, 2, n)],
        }
    )
    return CohortRows(cohort, person, rng.integers(10, 14, n), table)


def rounded(value: Any, known: RoundedField) -> Any:
    if known.step is None or value is None:
        return value
    sign = -1 if value < 0 else 1
    return sign * int(abs(value) / known.step + 0.5)


def bundle(bundles: CohortRows, who: int, purchases: KnownPurchases | None) -> list[tuple[Any, ...]]:
    """The rows of a person as such a reader knows rows, the window first."""
    fields = () if purchases is None else purchases.fields
    return [
        (
            int(bundles.window[n]),
            *(rounded(bundles.rows.column(each.name)[n].as_py(), each) for each in fields),
        )
        for n in np.flatnonzero(bundles.person == who)
    ]


def draws(windows: list[int], own: list[tuple[Any, ...]], reader: Reader) -> Iterator[tuple[Any, ...]]:
    """Everything that such a reader could know of a person."""
    known, purchases = reader.known_windows, reader.known_purchases
    gaps: list[tuple[int, ...]] = [()]
    if known.absent:
        gaps = [
            tuple(range(begin, begin + known.absent))
            for before, after in pairwise(windows)
            for begin in range(before + 1, after - known.absent + 1)
        ]
    for present in combinations(windows, known.present):
        for bought in combinations(own, 0 if purchases is None else purchases.count):
            for gap in gaps:
                yield present, bought, gap


def naive_left(bundles: CohortRows, reader: Reader, who: int) -> list[int]:
    """Candidates left under each of these draws, counted bundle by bundle."""
    peers = np.flatnonzero(bundles.cohort == bundles.cohort[who]).tolist()
    rows = {peer: bundle(bundles, peer, reader.known_purchases) for peer in peers}
    windows = {peer: sorted({row[0] for row in rows[peer]}) for peer in peers}
    return [
        max(
            1,
            sum(
                set(present) <= set(windows[peer])
                and not Counter(bought) - Counter(rows[peer])
                and not set(gap) & set(windows[peer])
                for peer in peers
            )
            - reader.known_people,
        )
        for present, bought, gap in draws(windows[who], rows[who], reader)
    ]  # fmt: skip


READERS = [
    Reader(),
    Reader(known_people=1),
    Reader(known_people=9),
    ONE_WINDOW,
    Reader(KnownWindows(present=1), known_people=1),
    Reader(KnownWindows(present=2)),
    Reader(KnownWindows(absent=1)),
    Reader(KnownWindows(present=1, absent=1)),
    Reader(known_purchases=KnownPurchases()),
    Reader(known_purchases=KnownPurchases(1, (AMOUNT,))),
    Reader(known_purchases=KnownPurchases(1, (AMOUNT, SHOP)), known_people=1),
    Reader(known_purchases=KnownPurchases(2, (SHOP,))),
    Reader(known_purchases=KnownPurchases(3, (AMOUNT,))),
    Reader(KnownWindows(present=1), KnownPurchases(2, (SHOP,))),
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_what_is_left_is_what_counting_bundle_by_bundle_leaves(reader: Reader) -> None:
    """Every case of a reader of one fact; of another everybody whom he could know of, each with something he could."""
    tried = 0
    for seed in range(40):
        bundles = world(seed)
        found = candidates_left(reader, bundles, seed)
        expected = {who: naive_left(bundles, reader, who) for who in range(9) if bundles.cohort[who] >= 0}
        expected = {who: left for who, left in expected.items() if left}
        if found is None:
            assert not expected
            continue
        told: dict[int, list[int]] = {who: [] for who in expected}
        for who, left in zip(found.person.tolist(), found.left.tolist(), strict=True):
            told[who].append(left)
        facts = reader.known_windows.present + (reader.known_purchases or KnownPurchases()).count
        if len(found.left) > found.people or (facts == 1 and not reader.known_windows.absent):
            assert {who: sorted(left) for who, left in told.items()} == {
                who: sorted(left) for who, left in expected.items()
            }
        for who, left in expected.items():
            assert set(told[who]) <= set(left)
            if len(set(left)) == 1:
                assert set(told[who]) == set(left)
        people = [np.mean(left) for left in told.values()]
        assert found.mean == pytest.approx(np.mean(people))
        assert found.below(3) == pytest.approx(
            np.mean([np.mean(np.array(left) < 3) for left in told.values()])
        )
        assert found.cases_alone == pytest.approx(np.mean(found.left == 1))
        tried += found.people
    assert tried > 10


def test_what_is_known_is_drawn_from_all_there_is() -> None:
    """Over many seeds every draw of two rows, and every gap, comes about."""
    bundles = world(3, rows=6)
    for reader in (READERS[11], READERS[6]):
        for who in range(9):
            left = naive_left(bundles, reader, who) if bundles.cohort[who] >= 0 else []
            if not left:
                continue
            seen = set()
            for seed in range(60):
                found = candidates_left(reader, bundles, seed)
                assert found is not None
                seen |= set(found.left[found.person == who].tolist())
            assert seen == set(left)


def test_nobody_in_a_cohort_leaves_nothing_to_tell() -> None:
    """Nor a gap that nobody has."""
    bundles = world(0)
    nobody = CohortRows(np.full(9, -1), bundles.person, bundles.window, bundles.rows)
    assert candidates_left(ONE_WINDOW, nobody) is None
    assert candidates_left(Reader(KnownWindows(absent=50)), bundles) is None


def test_text_is_not_rounded() -> None:
    """It is refused by name."""
    reader = Reader(known_purchases=KnownPurchases(1, (RoundedField("shop", 1.0),)))
    with pytest.raises(PolicyError, match="shop is no number"):
        candidates_left(reader, world(0))


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0), pa.decimal128(38, 2)], ids=str)
def test_numbers_that_no_double_holds_are_known_to_the_nearest(kind: pa.DataType) -> None:
    """Ids of 64 bits that somebody publishes, say: a release of them has metrics, too."""
    most = 2**63 - 1
    table = pa.table(
        {"amount": pa.array([most, most, 5, -most, None], pa.int64()).cast(pa.decimal128(38, 2))}
    )
    rows = pa.table({"amount": table.column(0).cast(kind)})
    bundles = CohortRows(np.zeros(5, np.int64), np.arange(5), np.full(5, 1), rows)
    left = candidates_left(Reader(known_purchases=KnownPurchases(1, (AMOUNT,))), bundles)
    assert left is not None
    assert left.left.tolist() == [2, 2, 1, 1, 1]
