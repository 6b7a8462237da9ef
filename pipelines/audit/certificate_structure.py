"""The equations of a certificate: regular, distinct individuals, disjoint perfect matchings, closed classes.

Each function returns what is wrong, in words; nothing for a structure that could be released.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kanonflow.pipelines.audit.certificate_file import ReadCertificate


def structure_faults(certificate: ReadCertificate, who: np.ndarray, k: int) -> Iterator[str]:
    """What is wrong with members, factors, and the matching. who: int64 (n,), whose record each is; k: the policy's.

    O(n k log k).
    """
    if certificate.k < k:
        yield f"its k is {certificate.k}, below the policy's {k}"
    if not np.array_equal(np.sort(certificate.matched), certificate.kept):
        yield "its matching is not perfect: a record is published twice, or not at all"
    if not np.array_equal(np.sort(certificate.row), np.arange(len(certificate.matched))):
        yield "its places are not the rows of a release"
    if certificate.structure == "graph":
        yield from _slot_faults(certificate, who)
        if not np.array_equal(certificate.factors[certificate.chosen], certificate.matched):
            yield "the published matching is not the chosen factor"
    else:
        yield from _class_faults(certificate, who, k)


def covered(certificate: ReadCertificate) -> tuple[np.ndarray, np.ndarray]:
    """Whom boxes must hold: pairs (place, record), int64 each; of places that share a box the first stands for all."""
    kept = certificate.kept
    if certificate.structure == "graph":
        return np.repeat(kept, certificate.members.shape[1]), certificate.members.ravel()
    return shared_places(certificate)[0], kept


def shared_places(certificate: ReadCertificate) -> tuple[np.ndarray, np.ndarray]:
    """Places that must have equal boxes: for every place the first one of its class, and all places."""
    places = np.arange(len(certificate.matched))
    if certificate.structure == "graph":
        return places, places
    labels = certificate.groups[certificate.kept]
    _, first_of, label = np.unique(labels, return_index=True, return_inverse=True)
    return first_of[label], places


def _slot_faults(certificate: ReadCertificate, who: np.ndarray) -> Iterator[str]:
    """Of slots over records: ``who`` int64, whose each of them is."""
    members, factors = certificate.members, certificate.factors
    slots, degree = members.shape
    if not np.array_equal(np.bincount(members.ravel(), minlength=slots), np.full(slots, degree)):
        yield f"a record is not a member of exactly {degree} slots"
    people = np.sort(who[members], axis=1)
    if np.any(people[:, 1:] == people[:, :-1]):
        yield "a slot has fewer than k individuals"
    if not np.array_equal(np.sort(factors, axis=1), np.tile(np.arange(slots), (degree, 1))):
        yield "a factor is no perfect matching"
    if not np.array_equal(np.sort(factors.T, axis=1), np.sort(members, axis=1)):
        yield "its factors are not disjoint matchings along the edges of its graph"


def _class_faults(certificate: ReadCertificate, who: np.ndarray, k: int) -> Iterator[str]:
    kept, groups = certificate.kept, certificate.groups
    if not np.array_equal(groups[certificate.matched], groups[kept]):
        yield "a row carries the payload of another class"
    pairs, rows = np.unique(np.column_stack([who[kept], groups[kept]]), axis=0, return_counts=True)
    if len(np.unique(pairs[:, 0])) != len(pairs):
        yield "an individual stands in two classes"
    _, shared = np.unique(np.column_stack([pairs[:, 1], rows]), axis=0, return_counts=True)
    if len(shared) and shared.min() < k:
        yield f"fewer than k = {k} individuals of a class share a number of rows"
