"""A release as arrays: for each of its rows the records that it may stand for, and apart from it the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table

NOBODY = -1


@dataclass(frozen=True, eq=False)
class AttackedRelease:
    """n records, m released rows in the order of the file.

    What an attacker is given:
    k; candidates: int64 (m, width), the members of each row's slot or class, then -1. people: int64 (n,), whom a record
    belongs to. arrival: int64 (n,), its place in the feed. own_window: int64 (n,). distances: float64 (n, n), between
    quasi-identifiers (Gower; empty if nobody asked). file: the rows as published, None from a naive publisher.
    quasi: the records.
    What it is not given:
    truth: int64 (m,), the record whose payload a row carries. place: int64 (m,), the slot (or the record) behind a row.
    """

    k: int
    candidates: NDArray[np.int64]
    people: NDArray[np.int64]
    arrival: NDArray[np.int64]
    own_window: NDArray[np.int64]
    distances: NDArray[np.float64]
    truth: NDArray[np.int64]
    place: NDArray[np.int64]
    file: pa.Table | None = None
    quasi: pa.Table | None = None

    @classmethod
    def of(
        cls,
        rows: pa.Table,
        structure: Any,
        published: Any,
        table: Table,
        k: int,
        *,
        people: NDArray[np.int64],
        arrival: NDArray[np.int64],
        own_window: NDArray[np.int64],
        name: str,
        distances: bool,
    ) -> AttackedRelease:
        """From what ``publish`` was given and returned. name: of the field that tells rows apart. distances: whether
        to compute them."""
        record = {value: index for index, value in enumerate(rows[name].to_pylist())}
        truth = np.array([record[value] for value in published.rows[name].to_pylist()], dtype=np.int64)
        if hasattr(structure, "members"):
            place = np.empty(rows.num_rows, dtype=np.int64)
            place[published.factor] = np.arange(rows.num_rows)
            place = place[truth]
            candidates = structure.members[place].astype(np.int64)
        else:
            place = truth
            candidates = class_members(structure.labels, structure.labels[truth])
        apart = gower(table) if distances else np.empty((0, 0))
        return cls(k, candidates, people, arrival, own_window, apart, truth, place, published.rows, rows)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which entries of ``candidates`` are records."""
        return self.candidates >= 0

    def chance(self, guess: NDArray[np.int64]) -> NDArray[np.float64]:
        """How likely the individual of a guessed record is the true one, float64 (m,), if a release tells no more than
        the candidates: the share of the candidates that are rows of that individual; 1/k on a graph."""
        same = (self.people[self.candidates] == self.people[guess][:, None]) & self.valid
        return same.sum(axis=1) / self.valid.sum(axis=1)

    def right(self, guess: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which guesses name the true individual, bool (m,)."""
        return self.people[guess] == self.people[self.truth]

    def rows(self, keep: NDArray[np.bool_]) -> AttackedRelease:
        """The release with some of its rows only."""
        return replace(self, candidates=self.candidates[keep], truth=self.truth[keep], place=self.place[keep])


def class_members(labels: NDArray[np.integer], wanted: NDArray[np.integer]) -> NDArray[np.int64]:
    """The records of each of the wanted classes, int64 (wanted, width), padded with -1."""
    order = np.argsort(labels, kind="stable")
    order = order[labels[order] >= 0]
    _, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    padded = np.full((sizes.size, int(sizes.max(initial=0))), NOBODY, dtype=np.int64)
    for label, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        padded[label, :size] = order[start : start + size]
    return padded[wanted]


def gower(table: Table) -> NDArray[np.float64]:
    """Distances of records, float64 (n, n): weighted ranges apart, and 1 for each category that differs. O(n^2 d)."""
    n, dn = table.numeric.shape
    total = np.zeros((n, n))
    for column, weight in zip(table.numeric.T, table.weights[:dn], strict=True):
        apart = np.abs(column[:, None] - column[None, :])
        null = np.isnan(column)
        total += weight * np.where(null[:, None] ^ null[None, :], 1.0, np.nan_to_num(apart))
    for column, weight in zip(table.categorical.T, table.weights[dn:], strict=True):
        total += weight * (column[:, None] != column[None, :])
    return total
