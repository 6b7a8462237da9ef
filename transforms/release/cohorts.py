"""Cohorts across releases: who was grouped with whom, read back as a warm start and as a statistic."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.policy import COHORT_WINDOWS
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.warm_state import Cohorts

IntegerT = TypeVar("IntegerT", bound=np.integer[Any])
History = tuple[tuple[int, NDArray[np.uint64], NDArray[np.int64]], ...]
"""Of windows, oldest first: (end, people sorted, their class labels) of who was released; as in ``Cohorts``."""


def person_digests(names: Sequence[str], key: bytes) -> NDArray[np.uint64]:
    """Keyed 64-bit digests of individuals, uint64 (p,); only for matching with the state, never for counting people."""
    # To set the key in costs as much as to hash a name.
    keyed = hashlib.blake2b(digest_size=8, key=key).copy
    digests = []
    for name in names:
        state = keyed()
        state.update(name.encode())
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def people_in(column: pa.ChunkedArray, key: bytes) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Whom rows belong to: int64 (n,), the place of each row's person among the digests, and these, uint64 (p,).

    column: the field of individuals. O(n), and a digest for each individual.
    """
    encoded = whole(column).dictionary_encode()
    digests = person_digests(render_text(encoded.dictionary).to_pylist(), key)
    return np.asarray(encoded.indices).astype(np.int64), digests


def positions(known: NDArray[IntegerT], wanted: NDArray[IntegerT]) -> NDArray[np.int64]:
    """Where each wanted digest or code stands in the sorted known ones, int64; -1 where it does not."""
    if known.size == 0:
        return np.full(wanted.size, -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return np.where(known[at] == wanted, at, -1)


def warm_graph(cohorts: Cohorts, people: NDArray[np.uint64]) -> WarmGraph | None:
    """The old slots over the individuals of a table; None when nobody is here again.

    people: uint64 (u,), digest of individual 0 .. u-1.
    """
    if cohorts.members.size == 0:
        return None
    order = np.argsort(people, kind="stable")
    found = positions(people[order], cohorts.people)
    if not (found >= 0).any():
        return None
    now = np.where(found >= 0, order[found], -1)
    return WarmGraph(now[cohorts.members])


def warm_classes(cohorts: Cohorts, people: NDArray[np.uint64]) -> WarmClasses | None:
    """The old class of each individual of a table, -1 for newcomers; None when nobody is here again."""
    at = positions(cohorts.people, people)
    if cohorts.labels.size == 0 or not (at >= 0).any():
        return None
    return WarmClasses(np.where(at >= 0, cohorts.labels[at], -1))


def graph_cohorts(
    graph: GeneralizationGraph, individuals: NDArray[np.int64], people: NDArray[np.uint64], window_end: int
) -> Cohorts:
    """The cohorts that a graph leaves. individuals: int64 (n,) of its records, positions in ``people``."""
    order = np.argsort(people, kind="stable")
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return Cohorts(
        people=people[order],
        members=rank[individuals[graph.members]],
        seen=np.full(people.size, window_end, dtype=np.int64),
    )


def class_cohorts(
    before: Cohorts,
    partition: Partition,
    individuals: NDArray[np.int64],
    people: NDArray[np.uint64],
    window_end: int,
    forget_before: int,
) -> Cohorts:
    """The cohorts that a partition leaves; who is absent or waits keeps the old class until ``forget_before``.

    A class that continues an old one (most of its returning members come from there, and no class has more of them)
    keeps its label, unless one that was released for the same window has it; the others get new ones.
    """
    kept = partition.labels >= 0
    pairs = np.unique(np.stack([individuals[kept], partition.labels[kept]], axis=1), axis=0)
    who, label = people[pairs[:, 0]], pairs[:, 1].astype(np.int64)
    at = positions(before.people, who)
    old = np.where(at >= 0, before.labels[at] if before.labels.size else -1, -1)
    # A class that other parts of this window were cut from has its label already.
    taken = set(before.labels[before.seen == window_end].tolist()) if before.labels.size else set()
    names, following = _continued(label, old, before.next_label, taken)
    stable = names[label]
    stays = (
        (before.seen >= forget_before) & ~np.isin(before.people, who)
        if before.labels.size
        else np.zeros(0, bool)
    )
    merged = np.concatenate([before.people[stays], who]) if stays.size else who
    labels = np.concatenate([before.labels[stays], stable]) if stays.size else stable
    seen = (
        np.concatenate([before.seen[stays], np.full(who.size, window_end)])
        if stays.size
        else np.full(who.size, window_end, dtype=np.int64)
    )
    order = np.argsort(merged, kind="stable")
    own = np.argsort(who, kind="stable")
    remembered = tuple(entry for entry in before.history if entry[0] >= forget_before)
    return Cohorts(
        people=merged[order],
        labels=labels[order],
        seen=seen[order].astype(np.int64),
        next_label=following,
        history=(*remembered, (window_end, who[own], stable[own]))[-COHORT_WINDOWS:],
    )


def _continued(
    label: NDArray[np.int64], old: NDArray[np.int64], next_label: int, taken: set[int]
) -> tuple[NDArray[np.int64], int]:
    """The lasting label of each class, int64 (classes,), and the next unused one. taken: labels that are not free."""
    classes = int(label.max(initial=-1)) + 1
    names = np.full(classes, -1, dtype=np.int64)
    returning = old >= 0
    pairs, counts = np.unique(
        np.stack([label[returning], old[returning]], axis=1), axis=0, return_counts=True
    )
    for index in np.lexsort([pairs[:, 0], pairs[:, 1], -counts]) if counts.size else ():
        new, name = int(pairs[index, 0]), int(pairs[index, 1])
        if names[new] < 0 and name not in taken:
            names[new] = name
            taken.add(name)
    for number in range(classes):
        if names[number] < 0:
            names[number] = next_label
            next_label += 1
    return names, next_label


def _pair_codes(
    people: NDArray[np.uint64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Each pair once, sorted. Sorting takes a quarter of what np.unique takes for so many codes."""
    codes = np.sort(first * people.size + second)
    return codes[np.append(True, codes[1:] != codes[:-1])[: codes.size]]


def _pairs_of_members(members: NDArray[np.int64], people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Codes of all pairs of distinct, known people that share a row of ``members`` (-1: unknown), the first below the
    second."""
    one, other = np.triu_indices(members.shape[1], 1)
    first = np.minimum(members[:, one], members[:, other])
    second = np.maximum(members[:, one], members[:, other])
    good = (first >= 0) & (first != second)
    return _pair_codes(people, first[good], second[good])


def _pairs_of_labels(labels: NDArray[np.int64], people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Codes of all ordered pairs of distinct people with one label (-1: none)."""
    order = np.argsort(labels, kind="stable")
    order = order[labels[order] >= 0]
    if order.size == 0:
        return np.empty(0, dtype=np.int64)
    ordered = labels[order]
    begins = np.searchsorted(ordered, ordered, side="left")
    sizes = np.searchsorted(ordered, ordered, side="right") - begins
    first = np.repeat(order, sizes)
    second = order[
        np.repeat(begins - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
    ]
    good = first != second
    return _pair_codes(people, first[good], second[good])


def peer_retention(before: Cohorts, after: Cohorts) -> float | None:
    """Share of the pairs that were peers, and whose two individuals are here again, that are peers again.

    None when no such pair returned. Only a statistic of the search: a cold start reaches 0.6-0.8 by itself, because
    people keep their quasi-identifiers.
    """
    if after.members.size and before.members.size:
        people = after.people
        old = _pairs_of_members(positions(people, before.people)[before.members], people)
        new = _pairs_of_members(positions(people, after.people)[after.members], people)
    elif after.labels.size and before.history:
        _, old_people, old_labels = before.history[-1]
        # Not everybody who was seen: other parts of the same window may have gone before.
        _, people, now_labels = after.history[-1]
        at = positions(old_people, people)
        old = _pairs_of_labels(np.where(at >= 0, old_labels[at], -1), people)
        new = _pairs_of_labels(now_labels, people)
    else:
        return None
    return float((positions(new, old) >= 0).mean()) if old.size else None


def guaranteed_candidates(after: Cohorts) -> tuple[int, float] | None:
    """How many individuals share the class of each individual released last, in every window of the history.

    For u: the individuals v that stood in u's class in each of the last windows in which u was released. Returns the
    smallest and the mean number (u counts itself); None without classes.
    """
    if not after.history:
        return None
    candidates = candidates_of_last(after.history)
    return int(candidates.min()), float(candidates.mean())


def candidates_of_last(history: History) -> NDArray[np.int64]:
    """For each individual released last, int64: who shares its class in each window in which it was released.

    Itself included. Who was not released in such a window is no candidate. O(sum of squared class sizes x windows).
    """
    _, people, labels = history[-1]
    pairs = _pairs_of_labels(labels, people)
    first, second = pairs // max(people.size, 1), pairs % max(people.size, 1)
    together = np.ones(first.size, dtype=np.bool_)
    for _, old_people, old_labels in history[:-1]:
        at = positions(old_people, people)
        old = np.where(at >= 0, old_labels[at] if old_labels.size else -1, -1)
        together &= (old[first] < 0) | (old[first] == old[second])
    return 1 + np.bincount(first[together], minlength=people.size)
