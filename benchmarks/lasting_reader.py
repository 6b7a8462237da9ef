"""A reader of the releases of cohorts that last, who links all rows of everybody.

It imports nothing of the product: what it knows are released rows, and of the feed whose row each is and what everybody
was like at entry. So that a fault of the product is not repeated in the judgement of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Truth:
    """values: of each person its quasi-identifiers at entry, by the names that releases have. owner: of each row, by
    the tag that it carries, its person."""

    values: Sequence[Mapping[str, Any]]
    owner: Mapping[str, int]


@dataclass(frozen=True)
class Bundle:
    """All released rows of a person: the boxes that they carry, each once, and the number of the first release."""

    boxes: tuple[Mapping[str, Any], ...]
    first: int


def bundles(releases: Sequence[Sequence[Mapping[str, Any]]], truth: Truth, tag: str) -> dict[int, Bundle]:
    """The bundle of each person who has one. releases: the rows of each, in the order of time."""
    names = list(truth.values[0]) if truth.values else []
    boxes: dict[int, dict[str, Mapping[str, Any]]] = {}
    first: dict[int, int] = {}
    for number, rows in enumerate(releases):
        for row in rows:
            person = truth.owner[row[tag]]
            first.setdefault(person, number)
            box = {name: row[name] for name in names}
            boxes.setdefault(person, {}).setdefault(repr(box), box)
    return {person: Bundle(tuple(boxes[person].values()), first[person]) for person in boxes}


def holds(box: Any, value: Any) -> bool:
    """Whether a published box may stand for a value: a range with its nulls, or a set of values."""
    if isinstance(box, Mapping):
        if value is None:
            return bool(box["nulls"])
        return box["min"] is not None and box["min"] <= value <= box["max"]
    return value in box


def first_releases(found: Mapping[int, Bundle], people: int) -> NDArray[np.int64]:
    """The first release with a row of each of so many people, int64 (p,); -1: there is none."""
    return np.array([found[person].first if person in found else -1 for person in range(people)])


def epoch_candidates(
    found: Mapping[int, Bundle], truth: Truth, since: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """Who each bundle can be, by all of its boxes and by a release that the reader knows of everybody.

    since: int64 (p,), that release; of a bundle it is its person's. Sorted numbers of people, the true one among them.
    """
    cells: dict[str, dict[str, NDArray[np.bool_]]] = {}

    def of_box(name: str, box: Any) -> NDArray[np.bool_]:
        known = cells.setdefault(name, {})
        key = repr(box)
        if key not in known:
            known[key] = np.array([holds(box, each[name]) for each in truth.values])
        return known[key]

    left = {}
    for person, bundle in found.items():
        may = since == since[person]
        for box in bundle.boxes:
            for name, cell in box.items():
                may = may & of_box(name, cell)
        left[person] = np.flatnonzero(may)
    return left
