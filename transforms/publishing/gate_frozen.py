"""The gate of cohorts that last: what goes out is compared with frozen boxes, never with the rows' own values.

check_segment(segment, pool, bound)                            at an intake
check_frozen_release(released, rows, frozen, factor, bound)    at every release
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.sort_keys import whole, whole_numbers
from kanonflow.transforms.publishing.boxes import box_columns, hull_boxes
from kanonflow.transforms.publishing.frozen_groups import FrozenGroups
from kanonflow.transforms.publishing.gate import (
    GateError,
    check_columns,
    check_once,
    check_payload,
    row_individuals,
)
from kanonflow.transforms.publishing.gate_diversity import diversity_faults
from kanonflow.transforms.publishing.gate_kinds import EVERY, inside
from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import Roster, Segment


def check_segment(segment: Segment, pool: Pool, roster: Roster, bound: BoundPolicy) -> None:
    """Raise GateError unless these people may enter.

    roster: before them.

    Postcondition, of a call that returns: all of the pool enter and nobody else, none of them was known; each new
    cohort has ``cohort_size`` people or more, all of one kind (``Pool.kind``): all seen, or all known from the start by
    the file of one run; the corners of its box hold every frozen value of every member.
    Why: each is a premise of the promise over all releases of an epoch. O(p d).
    """
    if not np.array_equal(segment.people, pool.people) or (roster.cohorts_of(segment.people) >= 0).any():
        raise GateError("who enters are not the people of the pool, or some of them are known")
    if _are_mixed(segment.cohort, pool.kind):
        raise GateError(
            "a new cohort has people of two kinds: who were seen, and whom the file of one run or another named first"
        )
    check_cohorts(
        segment, pool.values, np.ones(pool.people.size, np.bool_), bound, bound.policy.cohorts.cohort_size
    )


def check_cohorts(
    segment: Segment, values: pa.Table, alive: NDArray[np.bool_], bound: BoundPolicy, least: int
) -> None:
    """Raise GateError unless each cohort of a segment has ``least`` people or more, and a box that holds them.

    values: p rows, the frozen values of its people. alive: bool (p,), of whom they are known. O(p d).
    """
    labels = segment.cohort - segment.head.cohorts
    members = np.bincount(labels[labels >= 0], minlength=1)
    if (labels < 0).any() or members.min() < least:
        raise GateError(f"a new cohort has {int(members.min())} people, below {least}")
    owner = np.asarray(segment.corners.column(COHORT)) - segment.head.cohorts
    sizes = np.bincount(owner, minlength=members.size)
    if sizes.size != members.size or sizes.min() < 1 or np.any(np.diff(owner) < 0):
        raise GateError("some new cohorts have no box")
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    hulls = box_columns(hull_boxes(segment.corners, bound, Groups(np.arange(owner.size), starts, None)))
    for column in bound.quasis:
        boxes = whole(hulls[column.published_name])
        held = inside(column, boxes, whole(values.column(column.name)), labels, EVERY)
        if not held[alive].all():
            raise GateError(
                f"field {column.name}: {int((~held).sum())} frozen values lie outside of their box"
            )


def _are_mixed(labels: NDArray[np.int64], kind: NDArray[np.int64]) -> bool:
    """Whether people of one label are of two kinds."""
    order = np.lexsort((kind, labels))
    same = np.diff(labels[order]) == 0
    return bool((same & (np.diff(kind[order]) != 0)).any())


def check_frozen_release(
    released: pa.Table,
    rows: pa.Table,
    frozen: FrozenGroups,
    factor: NDArray[np.int32],
    bound: BoundPolicy,
) -> None:
    """Raise GateError unless these rows may go out.

    released: row j stands for record j; columns of the release schema. rows: the n canonical rows.
    factor: int32 (n,), the record whose payload is on each released row.

    Postcondition, of a call that returns:
    - as many rows go out as came in, in the release schema and nothing but it;
    - nobody's rows stand in two groups, and each group has rows of k different individuals or more;
    - all rows of a group have one box, one time and one number; two groups never have the same number;
    - the box holds every corner of the frozen box of every cohort of the group; the time holds every row's own window;
    - the payloads of a group are those of its own rows, each once;
    - with ``publish_group`` no two groups have one id, and how many people they have is a multiple of k;
    - with ``publish_member`` a person has one number on all rows, and no two people have the same.
    - the rows of every group show what the policy asks of sensitive values in a release, counted from what is released.
    O(n d + corners d).
    """
    n, k = rows.num_rows, bound.policy.k
    if released.num_rows != n or factor.shape != (n,) or frozen.cohort_of_row.shape != (n,):
        raise GateError(f"{released.num_rows} rows would be released where {n} were to be")
    check_columns(released, bound)
    group, individuals = frozen.of_row, row_individuals(rows, bound)
    _check_people(individuals, group, k)
    check_once(factor)
    if (group[factor] != group).any():
        raise GateError(f"{int((group[factor] != group).sum())} rows carry the payload of another group")
    check_payload(released, rows, factor, bound)
    _check_members(released, individuals[factor], bound)
    for name, key in diversity_faults(released, group, bound):
        raise GateError(f"field {name}: some groups do not have the {key} that the policy asks for")
    groups, first = np.unique(group, return_index=True)
    if not np.array_equal(groups, np.arange(frozen.class_ids.size)):
        raise GateError("some groups have no rows")
    ids = () if (published := bound.policy.publish_group) is None else tuple(published.columns)
    quasis = (column.published_name for column in bound.quasis)
    own = ["class_id", *ids, "window_start", "window_end", *quasis]
    shared = released.select(own)
    each = shared.take(pa.array(first))
    for name, again in zip(own, each.take(pa.array(group)).columns, strict=True):
        if not again.equals(shared.column(name)):
            raise GateError(f"field {name}: the rows of a group differ")
    for name in ("class_id", *ids[:1]):
        if len(set(each.column(name).to_pylist())) != each.num_rows:
            raise GateError(f"field {name}: two groups have the same number")
    for name in ids[1:]:
        people = np.asarray(each.column(name))
        here = np.bincount(group[np.unique(individuals, return_index=True)[1]])
        if (people % k != 0).any() or (people < here // k * k).any():
            raise GateError(
                f"field {name}: some are no multiple of k={k}, or fewer than the people with rows"
            )
    starts, ends = (whole_numbers(whole(each.column(name)))[group] for name in ("window_start", "window_end"))
    if (frozen.own_ends > ends).any() or (frozen.own_ends - frozen.window_ms < starts).any():
        raise GateError("fields window_start, window_end: rows lie outside of their group's time")
    place = frozen.group_of_cohort[frozen.cohort_of_corner]
    for column in bound.quasis:
        boxes, values = whole(each.column(column.published_name)), whole(frozen.corners.column(column.name))
        held = inside(column, boxes, values, place, EVERY)
        if not held.all():
            faults = np.unique(place[~held]).size
            raise GateError(f"field {column.name}: {faults} boxes do not hold all of their cohorts")


def _check_members(released: pa.Table, individuals: NDArray[np.int64], bound: BoundPolicy) -> None:
    """individuals: int64 (n,), whose payload is on each released row."""
    member = bound.policy.publish_member
    if member is None:
        return
    numbers = np.asarray(released.column(member.name).combine_chunks().dictionary_encode().indices)
    people, codes = np.unique(individuals).size, np.unique(numbers).size
    if not people == codes == np.unique(np.stack([individuals, numbers]), axis=1).shape[1]:
        raise GateError(
            f"field {member.name}: it has {codes} numbers for {people} people, or one has another's"
        )


def _check_people(individuals: NDArray[np.int64], group: NDArray[np.int64], k: int) -> None:
    # Codes of a dictionary, each of which occurs: they are places among themselves.
    own = group[np.unique(individuals, return_index=True)[1]]
    if (own[individuals] != group).any():
        raise GateError("an individual stands in two groups")
    people = np.bincount(own)
    if people.size == 0 or people.min() < k:
        raise GateError(f"a group has rows of fewer than k={k} individuals")
