"""Readers as objects: one name each, and the same ones under every policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.readers import KnownPurchases, KnownWindows, Reader, RoundedField, standard_readers
from tests.pipelines.risks.toy_feeds import toy_bound, visits

ALWAYS = ("1 window with rows", "3 windows with rows", "3 windows in a row without rows")
KNOWN = ("1 other person's rows", "1 window with rows, 1 other person's rows")
AMOUNT = pa.decimal128(12, 2)


def names(payload: dict[str, pa.DataType], **head: Any) -> tuple[str, ...]:
    """The standard readers of a feed that publishes these fields."""
    table = visits([], **{name: pa.array([], kind) for name, kind in payload.items()})
    return tuple(reader.name for reader in standard_readers(toy_bound(table, payload=tuple(payload), **head)))


@pytest.mark.parametrize(
    ("payload", "one", "whole"),
    [
        ({}, None, None),
        ({"shop": pa.string(), "amount": AMOUNT}, "amount to 1", "shop and amount"),
        (
            {"net": pa.float64(), "items": pa.int64(), "tax": AMOUNT},
            "net to 1 and tax to 1",
            "net and items and tax",
        ),
        ({"items": pa.int64(), "shop": pa.string()}, "items to 1", "items and shop"),
        ({"shop": pa.string()}, "shop", None),
    ],
)
def test_a_purchase_is_known_by_its_numbers(
    payload: dict[str, pa.DataType], one: str | None, whole: str | None
) -> None:
    """Amounts to 1, of numbers without fractions these, of no numbers all there is; then everything, once."""
    told = [f"1 row by its window and {each}" for each in (one, whole) if each]
    told += [f"3 rows by their window and {one}"] if one else []
    assert names(payload) == (*ALWAYS, *told, *KNOWN)


def test_who_is_told_apart_by_partition_knows_nothing_more() -> None:
    """A field of partition_by is one of everybody in the cohort."""
    told = names({"town": pa.string(), "amount": AMOUNT}, partition_by=["town"])
    assert not any("town" in each for each in told)


def test_the_reader_of_the_promise_has_a_name() -> None:
    """He knows nothing of anybody's activity."""
    assert Reader().name == "nothing of anybody's activity"
    assert Reader(known_people=2).name == "2 other people's rows"


@pytest.mark.parametrize(
    "make",
    [
        lambda: KnownWindows(present=-1),
        lambda: KnownWindows(absent=-1),
        lambda: RoundedField("amount", 0.0),
        lambda: RoundedField("amount", float("nan")),
        lambda: KnownPurchases(0),
        lambda: Reader(known_people=-1),
    ],
)
def test_readers_that_are_none_are_refused(make: Callable[[], object]) -> None:
    """Numbers below 0, a step of 0, no purchase."""
    with pytest.raises(PolicyError):
        make()
