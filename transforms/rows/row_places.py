"""The place that a row has in its source: the same whenever it is read again, however a reader cuts its batches."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.rows.elements import RawBatch


class RowPlaces(NamedTuple):
    """origin: what the rows are counted in.     numbers: int64 (n,), the number of each row there."""

    origin: str
    numbers: NDArray[np.int64]

    def of(self, row: int) -> str:
        """The place of one row."""
        return f"{self.origin}/{self.numbers[row]}"

    def of_rows(self, rows: NDArray[np.bool_]) -> RowPlaces:
        """The places of the rows of a mask, bool (n,)."""
        return self._replace(numbers=self.numbers[rows])

    def to_bytes(self) -> bytes:
        """Inverse of ``places_from_bytes``."""
        return self.origin.encode("utf-8", "surrogateescape") + b"\0" + self.numbers.astype("<i8").tobytes()


def places_from_bytes(data: bytes) -> RowPlaces | None:
    """Places as ``to_bytes`` writes them; None for b"": not known."""
    if not data:
        return None
    origin, _, numbers = data.partition(b"\0")
    return RowPlaces(origin.decode("utf-8", "surrogateescape"), np.frombuffer(numbers, "<i8"))


def places_of(batch: RawBatch, rows: int) -> RowPlaces | None:
    """The places of a batch's rows; None: they come from memory, and have none.

    A batch of a file is cut at the same rows whenever the file is read: its name, its bytes and the number in it are a
    place. Why the bytes: another file can come under a name that was used before, and a name that is no text can look
    like another one's.
    """
    if batch.numbers:
        return RowPlaces(batch.origin, np.frombuffer(batch.numbers, "<i8"))
    if not batch.name:
        return None
    content = hashlib.blake2b(batch.ipc, digest_size=16).hexdigest()
    return RowPlaces(f"{batch.name}/{content}", np.arange(rows, dtype=np.int64))
