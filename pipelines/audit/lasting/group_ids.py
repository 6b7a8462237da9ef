"""Does the id of a group (``publish_group``) say which set of cohorts it is of, and nothing else?

    by itself         drawn, as far as that shows; once in a release; under one box and one number of people in all of
                      them; this number a multiple of k
    with the cohorts  not more people than the cohorts in the box have; of groups that are followed: one set, one id,
                      and the people of the set
    with the secret   of these, the id that it gives the set

An id is the first 8 bytes of BLAKE2b over the epoch (8 bytes), of each cohort the least digest of its people (8 bytes,
little-endian), in their order, and the label of the partition as of members' numbers, keyed by
HKDF-SHA256(first secret, ("kanonflow", "group")). The key is given.
"""

from __future__ import annotations

import hashlib

import numpy as np

from kanonflow.pipelines.audit.lasting.frozen_hulls import note_groups
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.lasting.member_numbers import NumbersKey, judge_numbers_drawn
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings


def judge_ids(ground: LastingGround, held: tuple[np.ndarray, np.ndarray], findings: Findings) -> None:
    """What takes no secret. held: pairs of a group and a cohort in its box. O(g d + pairs) but for sorting."""
    groups, k = ground.groups, ground.policy.k
    if groups.ids is None:
        return
    judge_numbers_drawn(groups.ids, findings, "ids of groups")
    _, number = np.unique(groups.ids, return_inverse=True)
    _, place, count = group_rows(np.column_stack([number, groups.release]).astype(np.int64))
    note_groups(ground, np.flatnonzero(count[place] > 1), "have the id of another of their release", findings)
    shared = [groups.boxes.astype(np.int64)]
    if groups.people is not None:
        shared.append(groups.people[:, None])
        odd = (groups.people % k != 0) | (groups.people < k)
        note_groups(ground, np.flatnonzero(odd), f"have people that are no multiple of k = {k}", findings)
        inside = np.bincount(held[0], weights=ground.rosters.members[held[1]], minlength=len(number))
        few = np.flatnonzero(groups.people > inside)
        note_groups(ground, few, "have more people than the cohorts in their box", findings)
    _, kind, _ = group_rows(np.column_stack(shared))
    _, differs = _not_one_to_one(number, kind)
    note_groups(ground, differs, "have the id of another box, or of other people", findings)


def judge_ids_of_sets(
    ground: LastingGround,
    sets: tuple[np.ndarray, np.ndarray],
    key: NumbersKey | None,
    epoch: str | None,
    findings: Findings,
) -> int | None:
    """Of groups that are followed. sets: pairs of such a group and a cohort of its own, sorted by group. key: None: the
    secret was not given. How many ids were worked out; None: none was. O(pairs log pairs)."""
    groups, rosters = ground.groups, ground.rosters
    if groups.ids is None or not len(sets[0]):
        return None
    least = np.full(len(rosters.members), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(least, rosters.cohort, rosters.person)
    group, cohort = (each[np.lexsort((least[sets[1]], sets[0]))] for each in sets)
    own, begins = np.unique(group, return_index=True)
    named = [each.tobytes() for each in np.split(least[cohort].astype("<u8"), begins[1:])]
    _, of_set = np.unique(named, return_inverse=True)
    _, number = np.unique(groups.ids[own], return_inverse=True)
    for faults, message in zip(
        _not_one_to_one(of_set, number),
        ("have another id than the same cohorts elsewhere", "have the id of other cohorts"),
        strict=True,
    ):
        note_groups(ground, own[faults], message, findings)
    if groups.people is not None:
        people = np.add.reduceat(rosters.members[cohort], begins) // ground.policy.k * ground.policy.k
        wrong = own[people != groups.people[own]]
        note_groups(ground, wrong, "have another number of people than their cohorts", findings)
    if key is None or epoch is None:
        return None
    label = np.zeros(len(rosters.person), np.int64)
    entered = ground.person >= 0
    label[ground.person[entered]] = key.label[entered]
    person = np.zeros(len(rosters.members), np.int64)
    person[rosters.cohort] = np.arange(len(rosters.cohort))
    labels = [each.encode() for each in key.labels]
    computed = [
        hashlib.blake2b(bytes.fromhex(epoch) + each + labels[at], digest_size=8, key=key.keys.group).digest()
        for each, at in zip(named, label[person[cohort[begins]]].tolist(), strict=True)
    ]
    by_key = np.array([int.from_bytes(each, "big") for each in computed], np.uint64)
    wrong = own[by_key != groups.ids[own]]
    note_groups(ground, wrong, "have an id that the secret does not give their cohorts", findings)
    return len(np.unique(number))


def _not_one_to_one(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places whose ``one`` stands with several of ``other``, and those of which the reverse is so."""
    pairs = np.unique(np.column_stack([one, other]).astype(np.int64), axis=0)
    several = (np.bincount(pairs[:, side]) > 1 for side in (0, 1))
    first, second = (np.flatnonzero(many[own]) for many, own in zip(several, (one, other), strict=True))
    return first, second
