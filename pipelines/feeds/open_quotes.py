"""Finds a quoted value that goes over a line end and has text behind its closing quote: nothing closes the quote that
opens it, and what closes it is the next row's. Two people's rows would be one (schemas/text_inputs.py)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LINE_ENDS = b"\n\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class OpenQuotes:
    """Follows the quotes of a file, block by block. delimiter, quote: one byte each.

    O(bytes) in numpy where every quote stands at the end of a cell; those of other blocks are looked at one by one.
    """

    def __init__(self, delimiter: bytes, quote: bytes) -> None:
        self._quote = quote[0]
        self._ends = np.zeros(256, dtype=np.bool_)
        self._ends[list(delimiter + _LINE_ENDS)] = True
        self._before = _LINE_ENDS[0]  # the last byte
        self._begun = False
        self.inside = False  # whether a value is open
        self._closed = False  # whether the last byte ended one
        self._spans = False  # whether the open value has gone over a line end

    def torn(self, data: bytes, following: bytes) -> int | None:
        """Where in the block stands the quote that closes such a value; None: nowhere. following: what comes behind."""
        if not self._begun and data.startswith(_BYTE_ORDER_MARK):  # no part of the first cell
            data = data.replace(_BYTE_ORDER_MARK, b"\n" * len(_BYTE_ORDER_MARK), 1)
        self._begun = True
        raw = np.frombuffer(data, np.uint8)
        at = np.flatnonzero(raw == self._quote)
        found = None
        if not at.size:
            self._spans = self._spans or (self.inside and _has_line_end(data))
            self._closed = self._closed and not data
        elif not self._are_regular(data, raw, at, following):
            found = self._one_by_one(data, raw, at, following)
        self._before = data[-1] if data else self._before
        return found

    def _neighbours(
        self, raw: NDArray[np.uint8], at: NDArray[np.int64], following: bytes
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The bytes before and behind each quote."""
        before, behind = raw[at - 1], raw[np.minimum(at + 1, raw.size - 1)]
        if at[0] == 0:
            before[0] = self._before
        if at[-1] == raw.size - 1:
            behind[-1] = following[0] if following else _LINE_ENDS[0]
        return before, behind

    def _are_regular(
        self, data: bytes, raw: NDArray[np.uint8], at: NDArray[np.int64], following: bytes
    ) -> bool:
        """Whether quotes open and close by turns, each at the end of a cell or beside another; follows them if so."""
        before, behind = self._neighbours(raw, at, following)
        opens = (np.arange(at.size) % 2 == 1) == self.inside
        own = before == self._quote
        own[0] &= self._closed or at[0] > 0  # that before the block may be a character like others
        if not np.where(opens, self._ends[before] | own, self._ends[behind] | (behind == self._quote)).all():
            return False
        self.inside = bool(opens[-1])
        self._closed = not opens[-1] and at[-1] == raw.size - 1
        begun = at[opens & ~own]
        # Also of a value that the last byte ended: a quote at the beginning of the next block opens it again.
        last = int(at[-1]) + 1 if not self.inside else len(data)
        if begun.size:
            self._spans = _has_line_end(data[int(begun[-1]) : last])
        else:
            self._spans = self._spans or _has_line_end(data[:last])
        return True

    def _one_by_one(
        self, data: bytes, raw: NDArray[np.uint8], at: NDArray[np.int64], following: bytes
    ) -> int | None:
        """The same where some stand within cells, which are characters like others."""
        before, behind = self._neighbours(raw, at, following)
        opened, shut = 0, -1 if self._closed else -2
        for place, last, then in zip(at.tolist(), before.tolist(), behind.tolist(), strict=True):
            if self.inside:
                self.inside, shut = False, place
                self._spans = self._spans or _has_line_end(data[opened:place])
                if self._spans and then != self._quote and not self._ends[then]:
                    return int(place)
                opened = place
            elif shut == place - 1:
                self.inside = True
            elif self._ends[last]:
                self.inside, self._spans, opened = True, False, place
        self._closed = shut == raw.size - 1
        self._spans = self._spans or (self.inside and _has_line_end(data[opened:]))
        return None


def line_ends(data: bytes, following: bytes = b"") -> int:
    """How many lines end in the bytes: with LF, CR, or CRLF, which may end in what follows, and then counts there."""
    feeds = int(np.count_nonzero(np.frombuffer(data, np.uint8) == _LINE_ENDS[0]))
    if b"\r" not in data:
        return feeds
    parted = data.endswith(b"\r") and following.startswith(b"\n")
    return feeds + data.count(b"\r") - data.count(b"\r\n") - parted


def _has_line_end(data: bytes) -> bool:
    return b"\n" in data or b"\r" in data
