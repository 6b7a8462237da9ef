"""The floor of each class of a release, from releases and input alone: no secret says whose anything is.

    rows      a class has k rows or more
    people    k people of the input have a row in its windows with one of its payloads
    box       k people of the input had, by then, values that lie in its box
    ids       its number tells nothing                                              class_numbers.py

All of that is necessary, whoever stands in the class, and none of it is enough: who does takes the secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.lasting.class_numbers import judge_numbers, judge_order
from kanonflow.pipelines.audit.lasting.entries import InputRows
from kanonflow.pipelines.audit.lasting.frozen_hulls import note_groups
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.lasting.points_in_boxes import Boxes, Points, pairs_in_boxes
from kanonflow.pipelines.audit.read.boxes import (
    BoxBook,
    EncodedBoxes,
    encode_boxes,
    encode_records,
    outside_boxes,
)
from kanonflow.pipelines.audit.read.equal_rows import extreme, group_rows, runs
from kanonflow.pipelines.audit.read.findings import Findings


@dataclass(frozen=True)
class InputPeople:
    """rows: all of the input. individual: int32 (n,), codes. explains: whether frozen values are of this input."""

    rows: InputRows
    individual: np.ndarray
    explains: bool


def judge_floor(ground: LastingGround, people: InputPeople, payloads: Payloads, findings: Findings) -> None:
    """Note classes below the floor, and numbers that are not opaque. ground: of nobody in particular.

    O(rows k + people in boxes) but for sorting.
    """
    groups, k = ground.groups, ground.policy.k
    rows = np.bincount(groups.of_row, minlength=len(groups.release))
    note_groups(ground, np.flatnonzero(rows < k), f"have fewer than k = {k} rows", findings)
    few = _people_of_payloads(ground, people.individual, payloads) < k
    note_groups(
        ground,
        np.flatnonzero(few),
        f"have payloads that fewer than k = {k} people of the input bring in their windows",
        findings,
    )
    if people.explains:
        held = _people_in_boxes(ground, people)
        note_groups(
            ground,
            np.flatnonzero(held < k),
            f"have a box that fewer than k = {k} people of the input lie in",
            findings,
        )
    judge_numbers(ground, findings)
    judge_order(ground, _public_scores(ground, rows), findings)


def _public_scores(ground: LastingGround, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What anybody could put groups in order by, float64 (g,) each."""
    groups, encoded = ground.groups, encode_boxes(ground.books)
    scores = {"their number of rows": rows.astype(float), "their window": groups.start.astype(float)}
    for field, book in enumerate(ground.books):
        box = groups.boxes[:, field]
        first = encoded.low[field][box]
        if book.is_set:
            least = np.array([min(own.codes, default=-1) for own in book.boxes], np.int64)
            first = least[box]
        scores[f"their boxes in field {book.book.column.name}"] = first.astype(float)
    return scores


def _people_of_payloads(ground: LastingGround, individual: np.ndarray, payloads: Payloads) -> np.ndarray:
    """Distinct people with a row in each group's windows that has one of its payloads, exact up to k. Of one window and
    payload k people are enough, so no more are looked at."""
    groups, policy = ground.groups, ground.policy
    _size, k = policy.cohorts.window_ms, policy.k
    group, number, _ = payloads.units(groups)
    unit, covered = ground.windows.covered(group)
    own = ground.end[payloads.record]
    brought, _, _ = group_rows(np.column_stack([payloads.number, own, individual[payloads.record]]))
    ends, rank = np.unique(np.concatenate([covered, own]), return_inverse=True)
    stride = len(ends)
    # In the order of payload, window, person.
    keys = payloads.number[brought] * stride + rank[len(unit) :][brought]
    asked = number[unit] * stride + rank[: len(unit)]
    start = np.searchsorted(keys, asked, side="left")
    length = np.minimum(np.searchsorted(keys, asked, side="right") - start, k)
    which, place = runs(start, start + length)
    who = individual[payloads.record][brought][place]
    pairs, _, _ = group_rows(np.column_stack([group[unit][which], who]))
    return np.bincount(group[unit][which][pairs], minlength=len(groups.release))


def _people_in_boxes(ground: LastingGround, people: InputPeople) -> np.ndarray:
    """Distinct people of the input in each group's box by one of their rows; where these are too few, also by several,
    a field each, as values are frozen field by field."""
    groups, rows, made = ground.groups, people.rows, ground.release_ends
    there = np.flatnonzero(rows.readable)
    keys = np.column_stack([rows.partition[there], people.individual[there], rows.values[there]])
    first, of_row, _ = group_rows(keys)
    since = extreme(np.minimum, of_row, rows.end[there], len(first))
    points = Points(rows.values[there][first], ground.family(rows.partition[there][first]), since)
    who = people.individual[there][first].astype(np.int64)
    boxes = Boxes(groups.boxes, ground.family(ground.partition)[groups.release], made[groups.release])
    count = np.zeros(len(groups.release), np.int64)
    total = int(who.max(initial=0)) + 2
    for box, point in pairs_in_boxes(points, boxes, ground.books):
        count += np.bincount(np.unique(box * total + who[point]) // total, minlength=len(count))
    encoded = encode_boxes(ground.books)
    codes = encode_records(points.codes, ground.books)
    for group in np.flatnonzero(count < ground.policy.k).tolist():
        near = (points.partition == boxes.partition[group]) & (since <= boxes.until[group])
        count[group] = _by_fields(encoded, groups.boxes[group], codes[near], who[near], ground.books)
    return count


def _by_fields(
    encoded: EncodedBoxes, box: np.ndarray, codes: np.ndarray, who: np.ndarray, books: Sequence[BoxBook]
) -> int:
    """How many people have in each field a value that lies in the box."""
    left = np.unique(who)
    for field, book in enumerate(books):
        here = slice(field, field + 1)
        own = EncodedBoxes(
            encoded.low[here], encoded.high[here], encoded.nulls[here], encoded.set_of[here], encoded.sets
        )
        numbers = np.full((len(codes), 1), box[field])
        inside = ~outside_boxes(own, numbers, codes[:, field : field + 1], [book])
        left = np.intersect1d(left, who[inside])
    return len(left)
