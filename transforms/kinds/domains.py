"""Domains: what a field's loss is measured against. They only grow, or are declared."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.loss_scales import Scale
from kanonflow.schemas.text_values import render_text


@dataclass(frozen=True)
class RangeDomain:
    """low, high: in the units of the column. declared: by the policy. Crossed ends: no value was seen yet."""

    low: int | float
    high: int | float
    declared: bool

    def extent(self, scale: Scale) -> float:
        """U - L by a scale, at most the largest double; 0 where no value was seen."""
        return extent_of(self.low, self.high, scale)

    @property
    def described(self) -> str:
        """For the metrics."""
        if self.low > self.high:
            return "no value yet"
        return f"[{self.low}, {self.high}] {'declared' if self.declared else 'running'}"

    @property
    def ends(self) -> list[int | float]:
        """For the state of a partition."""
        return [self.low, self.high]

    @property
    def seen(self) -> list[int | float]:
        """The ends of what was seen; none where nothing was."""
        return self.ends if self.low <= self.high else []

    @property
    def digests(self) -> None:
        """For the state of a partition."""
        return


@dataclass(frozen=True)
class SetDomain:
    """values: sorted uint64 digests of what was seen (a null is one). declared: how many the policy names, or None; 0:
    nobody can list them, and nothing of them is kept."""

    values: NDArray[np.uint64]
    declared: int | None

    @property
    def count(self) -> int:
        """|A|, a null included where it occurred."""
        return max(self.declared or 0, self.values.size)

    def extent(self, scale: Scale) -> float:
        """|A|, by whatever scale."""
        return float(self.count)

    @property
    def seen(self) -> list[int | float]:
        """It has no ends."""
        return []

    @property
    def described(self) -> str:
        """For the metrics."""
        if self.declared == 0:
            return "open"
        return f"{self.count} values {'running' if self.declared is None else 'declared'}"

    @property
    def ends(self) -> None:
        """For the state of a partition."""
        return

    @property
    def digests(self) -> NDArray[np.uint64]:
        """For the state of a partition."""
        return self.values


OPEN = SetDomain(np.empty(0, np.uint64), 0)
Domain = RangeDomain | SetDomain
Domains = Mapping[str, Domain]


def extent_of(low: int | float, high: int | float, scale: Scale) -> float:
    """What lies between two values by a scale, from 0 to the largest double."""
    return min(max(float(scale.places(high) - scale.places(low)), 0.0), sys.float_info.max)


def value_digests(values: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit digest of each value's canonical text; of a null a digest that no text has. uint64 (n,)."""
    texts = render_text(values).to_pylist()
    digests = [
        hashlib.blake2b(b"\x00" if text is None else b"\x01" + text.encode(), digest_size=8).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


NULL = value_digests(pa.array([None], pa.string()))
