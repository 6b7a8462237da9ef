"""What the audit reads a published box as, kind by kind; and which prefixes it takes for those of a value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.kinds import Box, prefixes
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_fields import PrefixOf, Quasi, QuasiType
from kanonflow.schemas.policy_file import parse_policy


def boxes_of(field: dict[str, Any], kind: pa.DataType, values: list[Any], cells: list[Any]) -> list[Box]:
    """The boxes of released cells of a field whose input has these values."""
    policy = parse_policy({"version": 1, "k": 2, "fields": {"x": {"role": "quasi", **field}}}, "test", "test")
    book = CodeBook(bind(policy, pa.schema({"x": kind}), text=False, source="test").column("x"))
    book.codes_of_objects(values)
    boxes = BoxBook(book)
    return [boxes.boxes[number] for number in boxes.numbers(cells)]


def test_a_range_has_two_ends_or_none() -> None:
    """In order, within the domain; without ends it holds null, or nothing."""
    field = {"type": "numeric", "domain": [0, 9]}
    told = [
        (0, 9, False, None), (3, 3, True, None), (None, None, True, None),
        (None, None, False, "a box that holds nothing"),
        (None, 3, False, "a range without two ends in order"),
        (3, None, True, "a range without two ends in order"),
        (4, 3, False, "a range without two ends in order"),
        (-1, 3, False, "a range beyond the declared domain"),
        (3, 10, False, "a range beyond the declared domain"),
    ]  # fmt: skip
    cells = [{"min": low, "max": high, "nulls": nulls} for low, high, nulls, _ in told]
    found = boxes_of(field, pa.int32(), [1], cells)
    assert [box.fault for box in found] == [fault for *_, fault in told]
    assert (found[0].low, found[0].high, found[1].nulls, found[2].nulls) == (0, 9, True, True)


def test_a_set_lists_its_values_in_order() -> None:
    """Null first; the first value of the input is one like others."""
    found = boxes_of(
        {"type": "categorical", "domain": ["a", "b"]},
        pa.string(),
        ["a", "b"],
        [["a"], [None, "a", "b"], [], ["a", "a"], ["b", "a"], ["a", None], ["a", "c"]],
    )
    assert [box.fault for box in found] == [
        None, None, "a box that holds nothing", "a set that names a value twice", "a set out of order",
        "a set out of order", "a set with values beyond the declared domain",
    ]  # fmt: skip
    assert [(box.codes, box.nulls) for box in found[:3]] == [((0,), False), ((0, 1), True), ((), False)]


ADDRESS = Quasi(QuasiType.PREFIX, of=PrefixOf.IPV4)


@pytest.mark.parametrize(
    ("quasi", "value", "expected"),
    [
        (ADDRESS, "10.1.2.3", ("10.1.2.3", "10.1.2.0/24", "10.1.0.0/16", "10.0.0.0/8", "*")),
        (ADDRESS, "2001:db8::1", ()),
        (ADDRESS, "ten", ()),
        (
            Quasi(QuasiType.PREFIX, of=PrefixOf.IPV6),
            "2001:db8:1:2::1",
            ("2001:db8:1:2::1", "2001:db8:1:2::/64", "2001:db8:1::/48", "2001:db8::/32", "*"),
        ),
        (Quasi(QuasiType.PREFIX, lengths=(1, 3), size=5), "12345", ("12345", "123**", "1****", "*")),
        (Quasi(QuasiType.PREFIX, lengths=(1, 3), size=5), "1234", ()),
        (Quasi(QuasiType.PREFIX, lengths=(1, 3)), "12345", ("12345", "123*", "1*", "*")),
        (Quasi(QuasiType.PREFIX, lengths=(1, 3)), "1*", ()),
        (Quasi(QuasiType.PREFIX, lengths=(1, 3)), None, ()),
    ],
)
def test_prefixes_of_a_value(quasi: Quasi, value: Any, expected: tuple[str, ...]) -> None:
    """The longest first, and the root; of what is no value none."""
    assert prefixes(value, quasi) == expected


def test_labels_are_prefixes_of_the_policy() -> None:
    """With values below them, or without; others are named."""
    field = {"type": "prefix", "of": "ipv4"}
    cells = ["10.1.2.0/24", "10.9.0.0/16", "10.9.0.0/17", "10.1.2.3", "*", None, "south"]
    found = boxes_of(field, pa.string(), ["10.1.2.3", "10.1.3.4"], cells)
    wrong = "a label that is no prefix of the policy's lengths"
    assert [box.fault for box in found] == [None, None, wrong, None, None, None, wrong]
    assert [box.codes for box in found] == [(0,), (), (), (0,), (0, 1), (), ()]
    assert [box.nulls for box in found] == [False, False, False, False, True, True, False]
