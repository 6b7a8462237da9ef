"""A generalization hierarchy: what stands for a value at each level, from the value itself up to one root.

Source: S1, 2.3 and 4.1 (table 5); the layout of rows is that of the hierarchy files of ARX.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kanonflow.schemas.errors import HierarchyError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

ROOT = "*"


_FEW = 500
"""Up to so many values are looked up one by one."""


@dataclass(frozen=True, repr=False)
class Hierarchy:
    """rows: one a leaf, leaf first and root last, all of the same length; a label is a node's name at its level.

    Equal labels of one level are one node. Raises HierarchyError with all mistakes: rows of different lengths, empty
    labels, leaves that occur twice, nodes with two parents, labels that mean different leaves at different levels,
    more than one root.
    """

    rows: tuple[tuple[str, ...], ...]

    lack: ClassVar[str] = "without a leaf; add a row for each to the hierarchy"

    def __post_init__(self) -> None:
        mistakes = find_hierarchy_mistakes(self.rows)
        if mistakes:
            raise HierarchyError(mistakes)

    def __repr__(self) -> str:
        return f"Hierarchy({len(self.rows)} leaves, height {self.height})"

    @property
    def height(self) -> int:
        """Steps from a leaf to the root."""
        return len(self.rows[0]) - 1

    @property
    def root(self) -> str:
        """The label that stands for everything, a missing value included."""
        return self.rows[0][-1]

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The values at level 0, in the order of the rows."""
        return tuple(row[0] for row in self.rows)

    @cached_property
    def of_days(self) -> bool:
        """Whether every leaf is a day, written as YYYY-MM-DD: what values of dates and instants have as their leaf."""
        return all(map(_is_day, self.leaves))

    @cached_property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of each level in the order of the rows; ``labels[l][c]`` is the node with code c."""
        return tuple(
            tuple(dict.fromkeys(row[level] for row in self.rows)) for level in range(self.height + 1)
        )

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """int32 (height + 1, leaves): the code of the node above each leaf at each level, dense a level."""
        import numpy as np

        places = [{label: code for code, label in enumerate(labels)} for labels in self.labels]
        return np.array(
            [[place[row[level]] for row in self.rows] for level, place in enumerate(places)], dtype=np.int32
        )

    @cached_property
    def extents(self) -> dict[str, int]:
        """Label -> leaves below it. A label that occurs at several levels has the same leaves at all of them."""
        import numpy as np

        return {
            label: int(count)
            for labels, codes in zip(self.labels, self.codes, strict=True)
            for label, count in zip(labels, np.bincount(codes), strict=True)
        }

    @cached_property
    def ncp(self) -> NDArray[np.float64]:
        """float64 (height + 1, leaves): leaves below the node above each leaf / all leaves; 0 for one (S4, eq. 2)."""
        import numpy as np

        below = np.stack([np.bincount(codes)[codes] for codes in self.codes])
        return np.where(below > 1, below / len(self.rows), 0.0)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """int64 (leaves,): where each leaf stands in depth-first order, so that every node is a run of places."""
        import numpy as np

        places = np.empty(len(self.rows), dtype=np.int64)
        places[np.lexsort(self.codes)] = np.arange(places.size)
        return places

    @cached_property
    def heights(self) -> NDArray[np.float64]:
        """float64 (leaves - 1,): NCP of the lowest node above the leaf at each place and the next one (S4, eq. 2).

        The lowest node above any leaves is the one above the first and the last of them, and its NCP is the greatest
        height in between.
        """
        import numpy as np

        at = np.argsort(self.places)
        met = self.codes[:, at[:-1]] == self.codes[:, at[1:]]
        return self.ncp[np.argmax(met, axis=0), at[:-1]]

    def leaf_codes(self, texts: pa.StringArray) -> NDArray[np.int32]:
        """The place of each value among the leaves, int32 (n,); -1 for a null and for a value without a leaf. O(n)."""
        import numpy as np
        import pyarrow.compute as pc

        if len(texts) <= _FEW:
            # Arrow would look at all leaves each time.
            place = self._place_of
            return np.array([place.get(text, -1) for text in texts.to_pylist()], dtype=np.int32)
        places = pc.index_in(texts, value_set=self._leaf_texts)
        return np.asarray(places.fill_null(-1) if places.null_count else places).astype(np.int32)

    @cached_property
    def _leaf_texts(self) -> pa.Array:
        import pyarrow as pa

        return pa.array(self.leaves, pa.string())

    @cached_property
    def _place_of(self) -> dict[str | None, int]:
        return {leaf: place for place, leaf in enumerate(self.leaves)}

    @cached_property
    def _row_of(self) -> dict[str, tuple[str, ...]]:
        return {row[0]: row for row in self.rows}

    @cached_property
    def _level_of(self) -> dict[str, int]:
        levels = reversed(list(enumerate(self.labels)))
        return {label: level for level, labels in levels for label in labels}

    def level(self, label: str) -> int:
        """The lowest level at which a label stands. Raises KeyError: it is none."""
        return self._level_of[label]

    def path(self, text: str) -> tuple[str, ...] | None:
        """The row of a value; None: it has none."""
        return self._row_of.get(text)

    def over(self, texts: pa.StringArray) -> Hierarchy:
        """Itself: all values are listed."""
        return self

    def below(
        self, texts: pa.StringArray, level: NDArray[np.int64], leaf: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each value stands below the node above a leaf at a level, bool (n,); a null does nowhere. O(n)."""
        own = self.leaf_codes(texts)
        return (own >= 0) & (self.codes[level, own] == self.codes[level, leaf])


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def find_hierarchy_mistakes(rows: Sequence[Sequence[str]], lines: Sequence[int] | None = None) -> list[str]:
    """All that is wrong with the rows of a hierarchy. lines: their line numbers in a file, None: 1, 2, 3, ..."""
    if not rows:
        return ["there is no row; write one for each value: the value first, then its generalizations"]
    lines = list(range(1, len(rows) + 1)) if lines is None else lines
    mistakes = []
    width = max(len(row) for row in rows)
    if width == 1:
        mistakes.append(
            "has one level only; write the value first and the root last (in a file with ; between them)"
        )
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            mistakes.append(
                f"line {line}: has {len(row)} of {width} levels; write every level of every value"
            )
        mistakes += [f"line {line}, level {level}: is empty" for level, label in enumerate(row) if not label]
    whole = [(row, line) for row, line in zip(rows, lines, strict=True) if len(row) == width]
    mistakes += _repeated_leaves(whole)
    for level in range(1, width - 1):
        mistakes += _split_nodes(whole, level)
    mistakes += _ambiguous_labels(whole, width)
    roots = list(dict.fromkeys(row[-1] for row, _ in whole))
    if len(roots) > 1:
        mistakes.append(
            f"level {width - 1}: the last level has {len(roots)} labels ({_named(roots)}); end every row in one "
            f"root such as {ROOT}"
        )
    return mistakes


_Lined = list[tuple[Sequence[str], int]]


def _repeated_leaves(rows: _Lined) -> Iterable[str]:
    at: dict[str, list[int]] = defaultdict(list)
    for row, line in rows:
        at[row[0]].append(line)
    for leaf, lines in at.items():
        if leaf and len(lines) > 1:
            yield f"lines {', '.join(map(str, lines))}: the value {leaf!r} occurs {len(lines)} times; keep one"


def _split_nodes(rows: _Lined, level: int) -> Iterable[str]:
    """Nodes with two parents; those of level 0 are repeated leaves."""
    above: dict[str, dict[str, int]] = defaultdict(dict)
    for row, line in rows:
        above[row[level]].setdefault(row[level + 1], line)
    for label, parents in above.items():
        if label and len(parents) > 1:
            where = ", ".join(f"{parent!r} (line {line})" for parent, line in parents.items())
            yield f"level {level}: {label!r} stands under {len(parents)} labels of level {level + 1}: {where}"


def _ambiguous_labels(rows: _Lined, width: int) -> Iterable[str]:
    """Labels that stand for other leaves at another level: a reader could not tell which is meant."""
    below: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row, _ in rows:
        for level in range(width):
            below[row[level]][level].add(row[0])
    for label, levels in below.items():
        kinds = {frozenset(leaves) for leaves in levels.values()}
        if label and len(kinds) > 1:
            where = " and ".join(str(level) for level in sorted(levels))
            yield f"levels {where}: {label!r} stands for different values; give one of them another name"


def _named(labels: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(label) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown}, ..."
