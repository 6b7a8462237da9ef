"""What a message says was expected is what the reader takes."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundColumn, bind
from kanonflow.schemas.expected_forms import expected_form, expected_instead
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.text_values import cast_text


def column(kind: str | None, *, typed: pa.DataType | None = None, **field: object) -> BoundColumn:
    """A column of text read as ``kind``, or of a typed input."""
    described = {"role": "sensitive"} | ({} if kind is None else {"as": kind}) | field
    fields = {"x": described, "q": {"role": "quasi", "type": "categorical"}}
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    schema = pa.schema([("x", typed or pa.string()), ("q", pa.string())])
    return bind(policy, schema, text=typed is None, source="in").column("x")


@pytest.mark.parametrize(
    "kind", ["int", "long", "float", "double", "decimal(9,2)", "decimal(4,0)", "decimal(3,3)", "decimal(1,0)"]
)
def test_the_example_is_read(kind: str) -> None:
    """Of every kind of number."""
    bound = column(kind)
    example = re.search(r"such as (\S+)$", expected_form(bound))
    assert example, expected_form(bound)
    values, bad = cast_text(pa.array([example[1]]), bound.text_type)
    assert values[0].is_valid
    assert not bad.any()


@pytest.mark.parametrize(
    ("kind", "words", "cell"),
    [
        ("date", "YYYY-MM-DD", "2024-05-30"),
        ("timestamp", "YYYY-MM-DD HH:MM:SS", "2024-05-30 10:11:12"),
        ("boolean", "true, false, 1 or 0", "true"),
    ],
)
def test_dates_and_times_are_read_as_told(kind: str, words: str, cell: str) -> None:
    """The forms that are named."""
    bound = column(kind)
    assert words in expected_form(bound)
    assert not cast_text(pa.array([cell]), bound.text_type)[1].any()


def test_a_typed_column_is_told_by_its_values() -> None:
    """There is no way of writing to speak of."""
    assert expected_form(column(None, typed=pa.float64())) == "a finite number"
    assert "in the years 1 to 9999" in expected_form(column(None, typed=pa.date32()))
    assert expected_form(column(None, typed=pa.bool_())) == "a value of type bool"


def test_each_reason_has_its_own_words() -> None:
    """A missing individual, a category of no hierarchy, a text that is none."""
    who = column("long", role="individual")
    assert "in every row, for role: individual needs it" in expected_instead(who, "missing_value")
    city = column(None, role="quasi", type="hierarchy", hierarchy=[["Bonn", "*"], ["Kiel", "*"]])
    assert expected_instead(city, "outside_domain") == "a value of its hierarchy"
    assert "UTF-8" in expected_instead(city, "unparseable")
