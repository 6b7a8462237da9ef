"""Does the number of a person (``publish_member``) join that person's rows, and nobody else's?

    by itself         drawn, as far as that shows: none counts, and no bit is the same in all of them
    with the cohorts  k numbers in each box; a number is in one group of a release, and all its boxes hold one cohort;
                      of no cohort are there more numbers than people
    with the secret   each is the one that the secret gives the person of a row with that payload

Without the secret two people of a cohort may have exchanged their numbers: that is what the numbers hide. With it the
number is a part of what a row is known by, so groups are followed by it (``lasting.py``).

A number is the first 8 bytes of BLAKE2b over the epoch (8 bytes), the person's digest (8 bytes, little-endian) and JSON
of the policy's name and the partition's values, keyed by HKDF-SHA256(first secret, ("kanonflow", "member")). The key is
given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.audit.lasting.frozen_hulls import note_groups
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.read.equal_rows import group_rows, runs
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import release_ids
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.text_values import render_text

_SMALL = 1 << 20
_FEWEST_BITS = 40


class NumberKeys(NamedTuple):
    """The keys of the numbers that releases give people, and groups (``publish_group``)."""

    member: bytes
    group: bytes


class NumbersKey(NamedTuple):
    """What gives the numbers. labels: of partitions, each as JSON of the policy's name and its values; label: int (n,),
    that of each record."""

    keys: NumberKeys
    labels: Sequence[str]
    label: np.ndarray


def partition_labels(
    policy: str, codes: np.ndarray, books: Sequence[CodeBook], partition: np.ndarray
) -> list[str]:
    """The label of each partition. codes: int32 (n, f), of its fields, whose books these are; partition: int (n,)."""
    texts = [[*render_text(book.canonical()).to_pylist(), None] for book in books]
    _, first = np.unique(partition, return_index=True)
    return [
        json.dumps([policy, *(own[code] for own, code in zip(texts, row, strict=True))])
        for row in codes[first].tolist()
    ]


def numbers_of_people(of: NumbersKey, digests: np.ndarray, epoch: str) -> np.ndarray:
    """The numbers that the key gives people, uint64 (n,). digests: uint64 (n,). O(people) but for sorting."""
    stride = len(of.labels)
    people, place = np.unique(digests, return_inverse=True)
    pairs, of_row = np.unique(place * stride + of.label, return_inverse=True)
    own, labels = bytes.fromhex(epoch), [label.encode() for label in of.labels]
    numbers = [
        hashlib.blake2b(
            own + int(people[pair // stride]).to_bytes(8, "little") + labels[pair % stride],
            digest_size=8,
            key=of.keys.member,
        ).digest()
        for pair in pairs.tolist()
    ]
    return np.array([int.from_bytes(each, "big") for each in numbers], np.uint64)[of_row]


def judge_numbers_drawn(numbers: np.ndarray, findings: Findings, what: str = "member numbers") -> None:
    """What shows of numbers alone. numbers: uint64 (m,). what: they are, in words."""
    own = np.unique(numbers)
    if counted := int((own < _SMALL).sum()):
        findings.add(f"{counted} {what} count or name something: they are too small")
    fixed = int(np.bitwise_and.reduce(own) | ~np.bitwise_or.reduce(own)) if len(own) else 0
    if len(own) >= _FEWEST_BITS and fixed:
        findings.add(f"{fixed.bit_count()} bits of {what} are the same in all of them")


def judge_members(
    ground: LastingGround, numbers: np.ndarray, held: tuple[np.ndarray, np.ndarray], findings: Findings
) -> None:
    """What takes the cohorts and no secret. numbers: uint64 (m,). held: pairs of a group and a cohort in its box.
    O(pairs of a number and a group times cohorts in the box) but for sorting."""
    groups, heads = ground.groups, ground.heads
    _, number = np.unique(numbers, return_inverse=True)
    pairs, _, _ = group_rows(np.column_stack([number, groups.of_row]))
    number, group = number[pairs].astype(np.int64), groups.of_row[pairs].astype(np.int64)
    people = np.bincount(group, minlength=len(groups.release))
    few = np.flatnonzero(people < ground.policy.k)
    note_groups(ground, few, f"have rows of fewer than k = {ground.policy.k} member numbers", findings)
    _, place, count = group_rows(np.column_stack([number, groups.release[group]]))
    if (twice := count[place] > 1).any():
        findings.add(
            f"{len(np.unique(number[twice]))} member numbers stand in several groups of one release, and nobody does",
            *release_ids(heads, groups.release[group[twice]]),
        )
    order = np.argsort(held[0], kind="stable")
    inside, cohort = held[0][order], held[1][order]
    pair, at = runs(np.searchsorted(inside, group), np.searchsorted(inside, group, "right"))
    own = np.column_stack([number[pair], cohort[at]])
    first, _, count = group_rows(own)
    # A number's cohort lies in the box of each of its groups.
    whole = count == np.bincount(number)[own[first, 0]]
    could = np.bincount(own[first[whole], 0], minlength=int(number.max(initial=-1)) + 1)
    if (nobodys := could[number] == 0).any():
        findings.add(
            f"{len(np.unique(number[nobodys]))} member numbers stand in boxes that hold no one cohort: they are of"
            " several people",
            *release_ids(heads, groups.release[group[nobodys]]),
        )
    alone = own[first[whole]]
    alone = alone[could[alone[:, 0]] == 1]
    many = np.bincount(alone[:, 1], minlength=len(ground.rosters.members)) > ground.rosters.members
    if many.any():
        findings.add(f"{int(many.sum())} cohorts have more member numbers than people: somebody has several")


def judge_by_secret(
    ground: LastingGround, payloads: Payloads, own: np.ndarray, numbers: np.ndarray, findings: Findings
) -> None:
    """own: uint64 (s,), the number that the key gives the person of each record; numbers: uint64 (m,), of each row."""
    records, rows = len(payloads.record), len(payloads.of_row)
    payload = np.concatenate([payloads.number, payloads.of_row])
    _, number = np.unique(np.concatenate([own, numbers]), return_inverse=True)
    _, place, _ = group_rows(np.column_stack([payload, number.astype(np.int64)]))
    there = np.bincount(place[:records], minlength=int(place.max(initial=-1)) + 1)
    out = place[records:]
    over = np.bincount(out, minlength=len(there)) > there
    if wrong := int(np.maximum(np.bincount(out, minlength=len(there)) - there, 0).sum()):
        releases = ground.groups.release[ground.groups.of_row[np.flatnonzero(over[out])]] if rows else []
        findings.add(
            f"{wrong} rows have a member number that the secret gives nobody with such a row",
            *release_ids(ground.heads, np.array(releases, np.int64)),
        )
