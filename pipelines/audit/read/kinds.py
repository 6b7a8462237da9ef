"""The audit's own table of kinds: what a published box of each kind of quasi-identifier is, and which values lie in it.

It shares no code with what makes boxes. A range is compared, a set listed; of a label the values below it are those
whose row in the hierarchy has it, or that begin with it, as the standard library reads addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from operator import itemgetter
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.read.values import (
    CodeBook,
    Unreadable,
    category,
    domain_ends,
    read_object,
)
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import Quasi, QuasiType

ROOT = "*"
_ENDS = itemgetter("min", "max", "nulls")


@dataclass(frozen=True)
class Box:
    """One box of one field. low, high: the closed range, None for none. codes: the set's values as codes of
    the field's book. nulls: it holds null. fault: what is wrong with it by itself."""

    low: Any = None
    high: Any = None
    codes: tuple[int, ...] = ()
    nulls: bool = False
    fault: str | None = None


class Kind:
    """What is asked of a kind. is_set: its boxes are sets of values, and not ranges of them. labels: they are told by
    the label of a node."""

    is_set = True
    labels = False

    def key(self, cell: Any) -> Any:
        """What equal boxes share: a released cell as something to look up."""
        return cell

    def read(self, key: Any, book: CodeBook, below: Mapping[str, Sequence[int]]) -> Box:
        """The box. below: of each label the codes of the values below it."""
        raise NotImplementedError

    def needed(self, box: Box, book: CodeBook) -> Sequence[int]:
        """Codes of a set's values that records in its box must have, or it would be smaller."""
        return box.codes

    def order(self, cells: list[Any]) -> Iterator[list[Any]]:
        """Columns that rows are to be sorted by, the most significant first."""
        yield cells

    def outside(self, value: Any, column: BoundColumn) -> bool:
        """Whether a readable value is none of the declared domain."""
        return column.categories is not None and category(value, column) not in column.categories

    def rows(self, book: CodeBook, since: int | None) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Of each value of a tree its code and the labels above it, itself first. since: how many values the book had
        when rows were asked for before; None: they never were."""
        yield from ()


class _Ranges(Kind):
    is_set = False

    def key(self, cell: Any) -> Any:
        return _ENDS(cell)

    def read(self, key: Any, book: CodeBook, below: Mapping[str, Sequence[int]]) -> Box:
        low, high, nulls = key
        column = book.column
        if low is None and high is None:
            return Box(nulls=bool(nulls), fault=None if nulls else "a box that holds nothing")
        low, high = read_object(low, column.arrow_type), read_object(high, column.arrow_type)
        if None in (low, high) or isinstance(low, Unreadable) or isinstance(high, Unreadable) or low > high:
            return Box(fault="a range without two ends in order")
        beyond = self.outside(low, column) or self.outside(high, column)
        return Box(
            low, high, nulls=bool(nulls), fault="a range beyond the declared domain" if beyond else None
        )

    def order(self, cells: list[Any]) -> Iterator[list[Any]]:
        yield from ([cell[part] for cell in cells] for part in ("min", "max", "nulls"))

    def outside(self, value: Any, column: BoundColumn) -> bool:
        if column.domain is None:
            return False
        low, high = domain_ends(column)
        return not low <= value <= high


class _Sets(Kind):
    def key(self, cell: Any) -> Any:
        return tuple(cell)

    def read(self, key: Any, book: CodeBook, below: Mapping[str, Sequence[int]]) -> Box:
        codes = book.codes_of_objects(key).tolist()
        known = tuple(sorted({code for code in codes if code >= 0}))
        fault = None
        if not codes:
            fault = "a box that holds nothing"
        elif len(set(codes)) < len(codes):
            fault = "a set that names a value twice"
        elif not _in_order(key):
            fault = "a set out of order"
        elif any(self.outside(book.values[code], book.column) for code in known):
            fault = "a set with values beyond the declared domain"
        return Box(codes=known, nulls=-1 in codes, fault=fault)

    def order(self, cells: list[Any]) -> Iterator[list[Any]]:
        yield [tuple((value is not None, value) for value in cell) for cell in cells]


class _Labels(Kind):
    """Nulls lie under the root, and under no label at all."""

    labels = True

    def read(self, key: Any, book: CodeBook, below: Mapping[str, Sequence[int]]) -> Box:
        if key is None:
            return Box(nulls=True)
        codes = below.get(key, ())
        fault = self.fault(key, _quasi(book)) if not codes else None
        return Box(codes=tuple(sorted(set(codes))), nulls=key == self.root(_quasi(book)), fault=fault)

    def rows(self, book: CodeBook, since: int | None) -> Iterator[tuple[int, tuple[str, ...]]]:
        hierarchy = _quasi(book).hierarchy
        assert hierarchy is not None
        if since is None:
            yield from zip(book.codes_of_texts(hierarchy.leaves).tolist(), hierarchy.rows, strict=True)

    def root(self, quasi: Quasi) -> str:
        """The label of everything."""
        assert quasi.hierarchy is not None
        return quasi.hierarchy.root

    def fault(self, label: str, quasi: Quasi) -> str | None:
        """What is wrong with a label that has no values below it."""
        return "a label that its hierarchy does not have"


class _Prefixes(_Labels):
    """The values that occur have rows."""

    def rows(self, book: CodeBook, since: int | None) -> Iterator[tuple[int, tuple[str, ...]]]:
        for code in range(since or 0, len(book.values)):
            if row := prefixes(book.values[code], _quasi(book)):
                yield code, row

    def root(self, quasi: Quasi) -> str:
        return ROOT

    def fault(self, label: str, quasi: Quasi) -> str | None:
        first = label.partition("/")[0]
        made = prefixes(first if quasi.of in _ADDRESSES else first.replace(ROOT, "0"), quasi)
        return None if label in made else "a label that is no prefix of the policy's lengths"

    def outside(self, value: Any, column: BoundColumn) -> bool:
        assert column.field.quasi is not None
        return not prefixes(value, column.field.quasi)


_ADDRESSES = {"ipv4": (AF_INET, 4, (8, 16, 24)), "ipv6": (AF_INET6, 6, (32, 48, 64))}


def prefixes(value: Any, quasi: Quasi) -> tuple[str, ...]:
    """A value and its prefixes, the longest first, and the root; none of what is no value."""
    if not isinstance(value, str):
        return ()
    if quasi.of in _ADDRESSES:
        return _networks(value, *_ADDRESSES[quasi.of], quasi.lengths)
    if ROOT in value or not value or quasi.size not in (None, len(value)):
        return ()
    cut = []
    # Of text of one size every length is one, unless the policy says which.
    for kept in quasi.lengths or range(1, quasi.size or 1):
        withheld = 1 if quasi.size is None else len(value) - kept
        cut.append(value[:kept] + ROOT * withheld if len(value) >= kept else value)
    return (value, *reversed(cut), ROOT)


def _networks(
    value: str, family: int, version: int, usual: Sequence[int], lengths: Sequence[int] | None
) -> tuple[str, ...]:
    try:
        address = ip_address(value)
    except ValueError:
        return ()
    if address.version != version or "%" in value:
        return ()
    networks = [ip_network((address.packed, kept), strict=False) for kept in reversed(lengths or usual)]
    told = [f"{inet_ntop(family, each.network_address.packed)}/{each.prefixlen}" for each in networks]
    return (inet_ntop(family, address.packed), *told, ROOT)


def _quasi(book: CodeBook) -> Quasi:
    assert book.column.field.quasi is not None
    return book.column.field.quasi


def _in_order(values: Sequence[Any]) -> bool:
    """Whether null stands first and the others by size; text by its bytes, which is the order of its characters."""
    rest = values[1:] if values and values[0] is None else values
    return None not in rest and list(rest) == sorted(rest)


KINDS: dict[QuasiType, Kind] = {
    QuasiType.NUMERIC: _Ranges(),
    QuasiType.DATE: _Ranges(),
    QuasiType.CATEGORICAL: _Sets(),
    QuasiType.HIERARCHY: _Labels(),
    QuasiType.PREFIX: _Prefixes(),
}


def kind_of(column: BoundColumn) -> Kind:
    """The kind of a quasi-identifier. Raises ValueError: it is none."""
    if column.field.quasi is None:
        raise ValueError(f"field {column.name} has no boxes")
    return KINDS[column.field.quasi.type]


def value_faults(book: CodeBook) -> np.ndarray:
    """Bool (values,): whether a row with this value must be rejected: unreadable, or not in the domain."""
    column = book.column
    kind = None if column.field.quasi is None else kind_of(column)
    wrong = [
        isinstance(value, Unreadable) or (kind is not None and kind.outside(value, column))
        for value in book.values
    ]
    return np.array(wrong, dtype=bool)
