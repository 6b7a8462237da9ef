"""The bags of a partition: batches of rows, in Beam's state, by window number.

A bag is a cell of state that a batch is added to without reading it. There are 16, and a window's bag is its number mod
16. One bag for all windows would be read and written back in full at every firing, and one a window cannot be declared
(decision 006).
"""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import BagStateSpec

from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.windows.chain import Batch

BAGS = 16
BAG_SPECS = tuple(BagStateSpec(f"bag_{index:02}", BytesCoder()) for index in range(BAGS))
_HEADER = struct.Struct("<q?")


def batch_header(number: int, late: bool) -> bytes:
    """What stands before a batch's Arrow IPC bytes in a bag: the bag's window number, and whether the rows are late."""
    return _HEADER.pack(number, late)


def read_header(data: bytes) -> tuple[int, bool]:
    """The window number and the late mark of a batch in a bag."""
    number, late = _HEADER.unpack_from(data)
    return int(number), bool(late)


def batch_rows(data: bytes) -> pa.Table:
    """The rows of a batch in a bag."""
    return from_ipc(data[_HEADER.size :])


class Bags:
    """The bags of one partition.     cells: one for each of ``BAG_SPECS``, as the runner gives them."""

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
        """All batches, by window, and as they came; they stay. Reads every bag, in full."""
        found = [(*read_header(data), data) for cell in self._cells for data in cell.read()]
        for number, late, data in sorted(found, key=lambda each: each[:2]):
            yield Batch(number, late, data[_HEADER.size :])


def with_bags(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Declare the bags as arguments of a stateful DoFn's method, which is given ``bags: Bags`` for all of them.

    method: a generator; ``bags`` is its one keyword-only argument.

    Beam reads from a method's signature which cells of state it needs: a default ``StateParam`` for each. It then gives
    ``process`` its arguments by position, and the callback of a timer by name. ``on_timer`` stands above ``with_bags``,
    for Beam compares the callback with what the class has under its name.
    """
    signature = inspect.signature(method)
    own = [each for each in signature.parameters.values() if each.name != "bags"]
    declared = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=beam.DoFn.StateParam(spec),
            annotation="Any",
        )
        for spec in BAG_SPECS
    ]

    # A generator itself: Beam checks the outputs of methods that return.
    @functools.wraps(method)
    def with_each_bag(*given: Any, **named: Any) -> Iterator[Any]:
        cells = given[len(own) :] or [named.pop(spec.name) for spec in BAG_SPECS]
        yield from method(*given[: len(own)], **named, bags=Bags(cells))

    with_each_bag.__signature__ = signature.replace(parameters=[*own, *declared])  # type: ignore[attr-defined]
    return with_each_bag
