"""Trees of prefixes over a domain that nobody lists: addresses by their first bits, codes by their first characters.

A prefix of length l stands for all values that begin with it. Labels of 192.0.2.77 at lengths 24 and 8: 192.0.2.0/24,
192.0.0.0/8; of 94110 at 3 and 1, of five characters, 941** and 9****; of codes of any size, 941* and 9*. The root is *.
A value that is shorter than a length is its own label there.

The loss of a prefix (NCP) is the share of a value that it withholds, ``1 - l / size``: 0 for a value, 1 for the root.
size: 32 or 128 bits; of text ``size``, or one character more than the longest prefix where sizes differ. The share of
all values below the prefix would be 2^(size - l) / 2^size: next to nothing for any prefix that says something.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from kanonflow.schemas.hierarchy import ROOT, Hierarchy

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class PrefixOf(StrEnum):
    """What prefixes are counted in: characters of text, or bits of addresses."""

    TEXT = "text"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


@dataclass(frozen=True)
class Characters:
    """Codes of ``size`` characters; None: of any. base: as many values a character, where values are counted."""

    size: int | None

    unit: ClassVar[str] = "characters"
    base: ClassVar[int] = 10

    @property
    def usual(self) -> tuple[int, ...]:
        """A character a level, as stars mask a text from its end (S1, table 5); of any size nobody can say how many."""
        return () if self.size is None else tuple(range(1, self.size))

    @property
    def expected(self) -> str:
        """In words."""
        return f"a text {'' if self.size is None else f'of {self.size} characters '}without {ROOT}"

    def key(self, text: str) -> str | None:
        """What two spellings of a value share, and values are sorted by: itself. None: what holds the sign of labels,
        and could not be told from one."""
        return None if not text or ROOT in text or self.size not in (None, len(text)) else text

    def value(self, key: str) -> str:
        """A value as its label: itself."""
        return key

    def cut(self, key: str, length: int) -> str:
        """The label of a prefix: a sign for each character that is withheld, or one for any number of them."""
        if len(key) < length:
            return key
        return key[:length] + ROOT * (1 if self.size is None else self.size - length)

    def kept(self, label: str) -> tuple[str, int] | None:
        """What a label keeps, and how much that is; None: it is no label. The root keeps nothing."""
        text = label.rstrip(ROOT)
        if ROOT in text or not label:
            return None
        # A value ends where others go on: 941 is one value of 941*.
        text += "" if text != label or self.size is not None else "\0"
        return text, len(text)

    def shortened(self, label: str, length: int) -> str:
        """The shorter prefix of a label."""
        return self.cut(label.replace(ROOT, "0"), length)


@dataclass(frozen=True)
class Bits:
    """Addresses of the internet, in network order."""

    unit: ClassVar[str] = "bits"
    base: ClassVar[int] = 2

    family: socket.AddressFamily
    size: int
    usual: tuple[int, ...]
    expected: str

    def key(self, text: str) -> bytes | None:
        """Its bytes."""
        try:
            return socket.inet_pton(self.family, text)
        except (OSError, ValueError):
            return None

    def value(self, key: bytes) -> str:
        """As addresses are written: of the sixth version in lower case, zeros left out."""
        return socket.inet_ntop(self.family, key)

    def cut(self, key: bytes, length: int) -> str:
        """A network."""
        kept = int.from_bytes(key, "big") >> (self.size - length) << (self.size - length)
        return f"{self.value(kept.to_bytes(self.size // 8, 'big'))}/{length}"

    def kept(self, label: str) -> tuple[str, int] | None:
        """Its first bits as text, and how many."""
        address, _, length = (
            ("0.0.0.0" if self.size == 32 else "::", "/", "0") if label == ROOT else label.partition("/")
        )
        key = self.key(address)
        if key is None or not (length or "0").isdecimal() or int(length or 0) > self.size:
            return None
        kept = int(length) if length else self.size
        return f"{int.from_bytes(key, 'big'):0{self.size}b}"[:kept], kept

    def shortened(self, label: str, length: int) -> str:
        """The shorter prefix of a label. Raises ValueError: it is none."""
        key = self.key(label.partition("/")[0])
        if key is None:
            raise ValueError("no label")
        return self.cut(key, length)


Prefixes = Characters | Bits
"""How values of one sort are cut."""
_BITS = {
    PrefixOf.IPV4: Bits(socket.AF_INET, 32, (8, 16, 24), "an IPv4 address such as 192.0.2.1"),
    PrefixOf.IPV6: Bits(socket.AF_INET6, 128, (32, 48, 64), "an IPv6 address such as 2001:db8::1"),
}


def prefixes_of(of: PrefixOf, size: int | None) -> Prefixes:
    """How values are cut. size: characters of every value, of text only; None: they differ."""
    return _BITS.get(of) or Characters(size)


@dataclass(frozen=True)
class PrefixTree:
    """The tree of prefixes of some lengths, ascending and each once. Makes labels as its module says."""

    of: PrefixOf
    lengths: tuple[int, ...]
    size: int | None = None

    leaves = None

    @cached_property
    def prefixes(self) -> Prefixes:
        """How its values are cut."""
        return prefixes_of(self.of, self.size)

    @property
    def height(self) -> int:
        """A step a length, and one to the root."""
        return len(self.lengths) + 1

    @property
    def lack(self) -> str:
        """No value of its sort."""
        return f"that is not {self.prefixes.expected}; correct it, or declare another type, of or size"

    @property
    def whole(self) -> int:
        """The characters or bits of a value, as losses count them."""
        return self.prefixes.size or self.lengths[-1] + 1

    @cached_property
    def withheld(self) -> tuple[float, ...]:
        """NCP of a label at each level: see above."""
        return (0.0, *(1.0 - length / self.whole for length in reversed(self.lengths)), 1.0)

    def path(self, text: str) -> tuple[str, ...] | None:
        """The value, its prefixes from the longest to the shortest, and the root."""
        key: Any = self.prefixes.key(text)
        return None if key is None else self._path(key)

    def level(self, label: str) -> int:
        """By how much of it is kept; a value that is shorter than a prefix is its own label."""
        cut = self.prefixes.kept(label)
        if cut is None:
            raise KeyError(label)
        path = self.path(label)
        return 0 if path is not None else 1 + sum(length > cut[1] for length in self.lengths)

    def _path(self, key: Any) -> tuple[str, ...]:
        cut = self.prefixes.cut
        return (self.prefixes.value(key), *(cut(key, length) for length in reversed(self.lengths)), ROOT)

    def over(self, texts: pa.StringArray) -> PrefixRows:
        """The rows above the values that occur, in the order of the values."""
        return self.over_values(texts.unique().drop_null().to_pylist())

    def over_values(self, texts: list[str]) -> PrefixRows:
        """The same of some texts."""
        keys = {key for text in texts if (key := self.prefixes.key(text)) is not None}
        # One row at least, of no value: there is a root also where nobody has a value.
        rows = tuple(self._path(key) for key in sorted(keys)) or ((ROOT,) * (self.height + 1),)
        return PrefixRows(rows, self)


@dataclass(frozen=True, repr=False)
class PrefixRows(Hierarchy):
    """The part of a tree of prefixes above some values. What is asked of other values follows from the rule."""

    tree: PrefixTree

    def __post_init__(self) -> None:
        """Rows that the rule has made are right."""

    @cached_property
    def ncp(self) -> NDArray[np.float64]:
        """float64 (height + 1, leaves): the share of a value that the label above each leaf withholds."""
        import numpy as np

        names = np.array(self.rows, dtype=object).T
        return np.where(names == names[0], 0.0, np.array(self.tree.withheld)[:, None])

    def leaf_codes(self, texts: pa.StringArray) -> NDArray[np.int32]:
        """By what two spellings share; -1 also for a value that is not among the rows."""
        import numpy as np

        coded = texts.dictionary_encode()
        places = {leaf: place for place, leaf in enumerate(self.leaves)}
        found = [self._place(text, places) for text in coded.dictionary.to_pylist()]
        indices = np.asarray(coded.indices.fill_null(len(found)))
        return np.array([*found, -1], np.int32)[indices]

    def _place(self, text: str, places: dict[str, int]) -> int:
        key: Any = self.tree.prefixes.key(text)
        return -1 if key is None else places.get(self.tree.prefixes.value(key), -1)

    def below(
        self, texts: pa.StringArray, level: NDArray[np.int64], leaf: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """By the value's own path: it need not be among the rows."""
        import numpy as np

        coded = texts.dictionary_encode()
        nowhere = (None,) * (self.height + 1)
        paths = [self.tree.path(text) or nowhere for text in coded.dictionary.to_pylist()]
        own = np.array([*paths, nowhere], dtype=object)
        place = np.asarray(coded.indices.fill_null(len(paths)))
        return np.asarray(own[place, level] == np.array(self.rows, dtype=object)[leaf, level], dtype=bool)
