"""Trees of prefixes: labels by hand and against the standard library, and what a policy may say of them."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.hierarchy_builders import star_hierarchy
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.prefix_tree import PrefixOf, PrefixTree
from kanonflow.schemas.tree import missing

ZIPS = PrefixTree(PrefixOf.TEXT, (1, 3), 5)
CODES = PrefixTree(PrefixOf.TEXT, (1, 3))
V4 = PrefixTree(PrefixOf.IPV4, (8, 16, 24))
V6 = PrefixTree(PrefixOf.IPV6, (32, 48))


@pytest.mark.parametrize(
    ("tree", "text", "path"),
    [
        (ZIPS, "94110", ("94110", "941**", "9****", "*")),
        (ZIPS, "9411", None),
        (ZIPS, "9411*", None),
        (CODES, "5411", ("5411", "541*", "5*", "*")),
        (CODES, "541", ("541", "541*", "5*", "*")),
        (CODES, "54", ("54", "54", "5*", "*")),
        (CODES, "", None),
        (V4, "192.0.2.77", ("192.0.2.77", "192.0.2.0/24", "192.0.0.0/16", "192.0.0.0/8", "*")),
        (V4, "192.0.2.077", None),
        (V4, "::1", None),
        (V6, "2001:DB8:0:1::7", ("2001:db8:0:1::7", "2001:db8::/48", "2001:db8::/32", "*")),
        (V6, "fe80::1%eth0", None),
        (V6, "192.0.2.1", None),
    ],
)
def test_labels_by_hand(tree: PrefixTree, text: str, path: tuple[str, ...] | None) -> None:
    """A value, its prefixes from the longest on, and the root; None where it is no value of its sort."""
    assert tree.path(text) == path


@given(st.integers(0, 2**128 - 1))
def test_networks_are_those_of_the_standard_library(number: int) -> None:
    """Each label holds the address, and is the network of its length."""
    address = ipaddress.IPv6Address(number)
    path = V6.path(address.exploded)
    assert path is not None
    assert ipaddress.ip_address(path[0]) == address
    told = [ipaddress.ip_network(label) for label in path[1:-1]]
    assert told == [ipaddress.IPv6Network((number, length), strict=False) for length in (48, 32)]


_TEXTS = st.lists(st.one_of(st.none(), st.text("ab1", min_size=1, max_size=5)), max_size=8)


@given(_TEXTS)
def test_the_loss_of_a_node_is_what_it_withholds(texts: list[str | None]) -> None:
    """1 - l / size of the lowest label above two values, whichever they are: the greatest height between them."""
    rows = CODES.over(pa.array(texts, pa.string()))
    values = [text for text in dict.fromkeys(texts) if text is not None]
    leaf = rows.leaf_codes(pa.array(values, pa.string()))
    for one, place in zip(values, leaf, strict=True):
        for other, second in zip(values, leaf, strict=True):
            low, high = sorted((rows.places[place], rows.places[second]))
            common = [length for length in (1, 3) if one[:length] == other[:length] and len(other) >= length]
            shared = max([length for length in common if len(one) >= length], default=0)
            expected = 0.0 if one == other else 1 - shared / 4 if shared else 1.0
            assert max(rows.heights[low:high], default=0.0) == pytest.approx(expected)


def test_values_that_were_not_there_are_below_too() -> None:
    """What is asked of a value follows from its own path: the rows above some values know all others."""
    rows = V4.over(pa.array(["10.1.2.3", "10.1.9.9", None], pa.string()))
    assert rows.leaf_codes(pa.array(["10.1.9.9", "10.1.0.1", None])).tolist() == [1, -1, -1]
    asked = pa.array(["10.1.77.1", "10.2.0.0", None, "nowhere"])
    assert rows.below(asked, np.full(4, 2), np.zeros(4, np.int64)).tolist() == [True, False, False, False]


def test_two_spellings_are_one_leaf() -> None:
    """An address is what it says, and not how."""
    rows = V6.over(pa.array(["2001:db8::1", "2001:0DB8:0::0001"], pa.string()))
    assert rows.leaves == ("2001:db8::1",)


def test_nobody_has_a_value() -> None:
    """There is a root still."""
    rows = V4.over(pa.array([None, "x"], pa.string()))
    assert rows.height == 4
    assert rows.leaf_codes(pa.array(["*", None])).tolist() == [-1, -1]


def test_what_is_no_value_is_counted_and_not_shown() -> None:
    """In counts, with what was expected."""
    told = missing(V4, pa.array(["10.0.0.1", None, "10.0.0.999", "10.0.0.999"]))
    assert told is not None
    assert told.startswith("1 different value in 2 rows of the data that is not an IPv4 address")
    assert "999" not in told


@pytest.mark.parametrize(
    ("declared", "mistake"),
    [
        ({}, "fields.x.lengths: missing; say how many characters of a value its labels keep, as in [1, 3]"),
        ({"lengths": [3, 1]}, "fields.x.lengths: must ascend, each once, as in [1, 3]"),
        ({"lengths": [0, 3]}, "fields.x.lengths: must be a list of whole numbers of at least 1"),
        ({"lengths": "three"}, "fields.x.lengths: must be a list of whole numbers of at least 1"),
        (
            {"lengths": [1, 5], "size": 5},
            "fields.x.lengths: must be below 5, the characters of a whole value",
        ),
        ({"of": "ipv4", "lengths": [8, 32]}, "fields.x.lengths: must be below 32, the bits of a whole value"),
        ({"of": "ipv4", "size": 4}, "fields.x.size: an address has 32 bits, always; leave it out"),
        ({"of": "ip"}, "fields.x.of: must be one of text, ipv4, ipv6"),
        (
            {"lengths": [1], "domain": ["a"]},
            "fields.x.domain: a prefix needs no list of values; leave it out",
        ),
        ({"lengths": [1], "grid": "5"}, "fields.x.grid: a prefix has no grid"),
        ({"lengths": [1], "hierarchy": [["a", "*"]]}, "fields.x.hierarchy: a prefix needs no rows"),
        ({"lengths": [1], "as": "int"}, "fields.x.as: type: prefix needs string"),
        ({"lengths": [1], "outside": "code"}, "fields.x.outside: code"),
        ({"type": "categorical", "lengths": [1]}, "fields.x.lengths: belongs to type: prefix"),
        (
            {"type": "hierarchy", "hierarchy": [["a", "*"]], "of": "ipv4"},
            "fields.x.of: belongs to type: prefix",
        ),
    ],
)
def test_mistakes_are_told_by_field_with_their_mend(declared: dict[str, Any], mistake: str) -> None:
    """Every one, before anything is read."""
    fields = {"x": {"role": "quasi", "type": "prefix", **declared}}
    with pytest.raises(PolicyError) as caught:
        parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    assert mistake in str(caught.value)


def test_levels_of_labels_are_those_of_paths() -> None:
    """Of each label of a path the lowest level at which it stands; what is no label has none."""
    for tree, values in (
        (ZIPS, ["94110"]),
        (CODES, ["94110", "9", "94"]),
        (V4, ["192.0.2.77"]),
        (V6, ["2001:db8::1"]),
    ):
        for value in values:
            path = tree.path(value)
            assert path is not None
            assert [tree.level(label) for label in path] == [path.index(label) for label in path]
    with pytest.raises(KeyError):
        ZIPS.level("9*1**")


def test_text_of_one_size_has_stars_without_a_list() -> None:
    """Every length below its size is one, by itself; the labels are those that listed stars have."""
    fields = {"zip": {"role": "quasi", "type": "prefix", "size": 5}}
    quasi = parse_policy({"version": 1, "k": 2, "fields": fields}, "", "test").field("zip").quasi
    assert quasi is not None
    tree = KINDS[quasi.type].tree(quasi)
    assert tree is not None
    values = ["NL805", "NL806", "NL9XX", "DE123"]
    listed = star_hierarchy(values)
    assert [tree.path(value) for value in values] == [listed.path(value) for value in values]
    assert tree.path("NL80") is None
    del fields["zip"]["size"]
    with pytest.raises(PolicyError, match=r"lengths: missing; .* or with size how many every value has"):
        parse_policy({"version": 1, "k": 2, "fields": fields}, "", "test")
