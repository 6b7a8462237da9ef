"""The bags of a partition: batches of rows, in Beam's state, by window number.

A bag is a cell of state that a batch is added to without reading it. There are 16, and a window's bag is its number mod
16. One bag for all windows would be read and written back in full at every firing, and one a window cannot be declared
(decision 006).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import BagStateSpec, StateSpec

from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.rows.elements import sound_rows, to_ipc
from kanonflow.transforms.windows.chain import Batch

BAGS = 16
_HEADER = struct.Struct("<q?")
_WHAT = "bag of rows"


def batch_header(number: int, late: bool) -> bytes:
    """What stands before a batch's Arrow IPC bytes in a bag: the bag's window number, and whether the rows are late."""
    return _HEADER.pack(number, late)


def read_header(data: bytes) -> tuple[int, bool]:
    """The window number and the late mark of a batch in a bag. Raises StateError: it is none."""
    try:
        number, late = _HEADER.unpack_from(data)
    except struct.error:
        raise damaged(_WHAT, "a batch is cut off") from None
    return int(number), bool(late)


def batch_rows(data: bytes) -> pa.Table:
    """The rows of a batch in a bag. Raises StateError: it is none."""
    try:
        return sound_rows(data[_HEADER.size :])
    except (pa.ArrowException, OSError):
        raise damaged(_WHAT, "a batch cannot be read") from None


class Bags:
    """The bags of one partition.     cells: one for each of ``SPECS``, as the runner gives them."""

    SPECS: ClassVar[tuple[StateSpec, ...]] = tuple(
        BagStateSpec(f"bag_{index:02}", BytesCoder()) for index in range(BAGS)
    )

    def __init__(self, cells: Sequence[Any]) -> None:
        self._cells = cells

    def add(self, number: int, late: bool, ipc: bytes) -> None:
        """Lay a batch down under a window number; no bag is read.     ipc: its rows as one Arrow IPC stream."""
        self._cells[number % BAGS].add(batch_header(number, late) + ipc)

    def take(self, numbers: tuple[int, ...], *, late_only: bool) -> pa.Table | None:
        """Remove the rows under these window numbers, or only late ones of them; None: there are none.

        Batches of other windows that share a bag with these go back. Reads the bags of these windows, in full.
        """
        taken = []
        for index in sorted({number % BAGS for number in numbers}):
            batches = list(self._cells[index].read())
            self._cells[index].clear()
            for batch in batches:
                number, late = read_header(batch)
                if number in numbers and (late or not late_only):
                    taken.append(batch)
                else:
                    self._cells[index].add(batch)
        return pa.concat_tables(map(batch_rows, taken)).combine_chunks() if taken else None

    def batches(self) -> Iterator[Batch]:
        """All batches, by window, as they came; they stay. Reads every bag, in full. Raises StateError: one is none.

        None is compressed: what is carried over is a function of the rows, not of how many came before them.
        """
        found = [(*read_header(data), data) for cell in self._cells for data in cell.read()]
        for number, late, data in sorted(found, key=lambda each: each[:2]):
            yield Batch(number, late, to_ipc(batch_rows(data)))
