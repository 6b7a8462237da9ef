"""Which rows a release can be made of: each event once, in canonical order, in time, of enough individuals.

gather(due, warm, rows) -> Gathered -> admit(due, rows) -> Admitted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Protection
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.units.trimming import kept_rows, row_limit
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.canonical_order import blind_order, canonical_order
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import (
    OVER_LIMIT,
    Unreleased,
    deadlines,
    hold,
    own_ends,
    picked,
    reject,
    wait,
)
from kanonflow.transforms.release.stages import Admitted, Gathered
from kanonflow.transforms.release.warm_state import Events, WarmState


def gather(
    due: Due, warm: WarmState, rows: pa.Table | None, resting: NDArray[np.bool_] | None = None
) -> Gathered:
    """Waiting and new rows in canonical order, of each event one.

    rows: canonical rows that came (None: none did). resting: of the waiting rows, those that are none of this part's;
    they wait on, before all others and in their order.

    Why first of all: which of several repeats stays, and the order of rejected rows, must not follow from arrival,
    or a retry that sees the rows in another order would be another release. O(n d + n log n).
    """
    new, waited = 0 if rows is None else rows.num_rows, warm.waiting_rows
    warm, rested = _rested(warm, resting)
    tables = [table for table in (warm.waiting, rows) if table is not None]
    together = pa.concat_tables(tables) if tables else due.bound.canonical_schema.empty_table()
    together = together.combine_chunks()
    origin = canonical_order(together, due.bound, due.secret)
    ordered = together.take(pa.array(origin))
    field = due.policy.event_id
    if field is None:
        return Gathered(ordered, origin, warm.events, new, waited, rested)
    keep, events = _each_once(due, ordered, origin >= warm.waiting_rows, warm.events)
    kept, repeated = _parted(ordered, keep)
    repeats = reject(due, repeated, "duplicate_event", field.name)
    return Gathered(kept, origin[keep], events, new, waited, rested + repeats)


def _parted(rows: pa.Table, stays: NDArray[np.bool_]) -> tuple[pa.Table, pa.Table]:
    """The rows that stay, and the others."""
    return picked(rows, stays), picked(rows, ~stays)


def _rested(warm: WarmState, resting: NDArray[np.bool_] | None) -> tuple[WarmState, Unreleased]:
    """The state without the waiting rows that rest, and these."""
    if warm.waiting is None or resting is None or not resting.any():
        return warm, Unreleased()
    reasons = np.array(warm.waiting_reason, dtype=object)
    waiting, rests = _parted(warm.waiting, ~resting)
    left = replace(warm, waiting=waiting, waiting_reason=tuple(reasons[~resting]))
    return left, wait(rests, tuple(reasons[resting]))


def _each_once(
    due: Due, ordered: pa.Table, new: NDArray[np.bool_], seen: Events
) -> tuple[NDArray[np.bool_], Events]:
    """Which rows stay, bool (n,), and the event ids seen lately after them.

    new: bool (n,), rows that came; the others waited and are seen already. seen: before these rows came.
    """
    digests = _event_digests(due, ordered)
    fresh = np.zeros(digests.size, dtype=np.bool_)
    places = np.flatnonzero(new)
    if due.policy.lasting:
        places = _blindly(due, ordered, places, digests)
    fresh[places[np.unique(digests[places], return_index=True)[1]]] = True
    fresh &= ~np.isin(digests, np.concatenate([known for _, known in seen] or [digests[:0]]))
    end = due.slot.window_end if due.slot.window_end is not None else 0
    recent = tuple((at, known) for at, known in seen if at > end - due.policy.state_ttl_ms)
    if fresh.any():
        recent = (*recent, (end, np.sort(digests[fresh])))
    return fresh | ~new, recent


def _event_digests(due: Due, rows: pa.Table) -> NDArray[np.uint64]:
    """A digest of the event id of each row, uint64 (n,); with cohorts that last, of it and the row's individual.

    Why: where two people have one event id, one of the two rows would have to go, and which of them would hang on whose
    it is. An event id is a person's.
    """
    policy = due.policy
    assert policy.event_id is not None
    names = render_text(whole(rows.column(policy.event_id.name))).to_pylist()
    owners = None
    if policy.individual is not None:
        owners = render_text(whole(rows.column(policy.individual.name))).to_pylist()
    return _digests_of_events(due, names, owners)


def _digests_of_events(due: Due, names: Sequence[str], owners: Sequence[str] | None) -> NDArray[np.uint64]:
    """names, owners: event id and individual of each row, as canonical text."""
    if due.policy.lasting and owners is not None:
        names = [f"{len(owner)} {owner} {name}" for owner, name in zip(owners, names, strict=True)]
    return person_digests(names, due.secret.lasting.derive("partition", "events"))


def without_rejected(due: Due, events: Events, rejected: Sequence[Mapping[str, Any]]) -> Events:
    """The event ids seen lately, without those of rows that are rejected now: they may come again, mended.

    rejected: records of rejected.avsc. A repeat is of an event that stays, whatever became of it. O(rejected + events).
    """
    field, person = due.policy.event_id, due.policy.individual
    gone = [record["row"] for record in rejected if record["reason"] != "duplicate_event"]
    if field is None or not gone:
        return events
    owners = None if person is None else [row[person.name] for row in gone]
    digests = _digests_of_events(due, [row[field.name] for row in gone], owners)
    # Windows that none of them is of stay the same arrays: their bytes are not written again.
    left = ((end, seen if (keep := ~np.isin(seen, digests)).all() else seen[keep]) for end, seen in events)
    return tuple((end, seen) for end, seen in left if seen.size)


def _blindly(
    due: Due, rows: pa.Table, places: NDArray[np.int64], digests: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The same places, those of repeats in an order that neither values of people nor people have a say in.

    Why: canonical order begins with the quasi-identifiers, and of somebody who is known nothing reads these.
    """
    _, event, counts = np.unique(digests[places], return_inverse=True, return_counts=True)
    several = counts[event] > 1
    repeated = places[several]
    if repeated.size == 0:
        return places
    order = blind_order(rows.take(pa.array(repeated)), due.bound, due.secret)
    return np.concatenate([places[~several], repeated[order]])


def admit(due: Due, rows: pa.Table) -> Admitted:
    """The rows that one release may be made of. rows: canonical rows in canonical order.

    Out go rows whose time is over; all rows where fewer than k individuals are left; and in a graph over rows of
    individuals, the rows that one of them has beyond what k - 1 others can share (``row_limit``). O(n log n).
    """
    rows, unreleased = in_time(due, rows)
    individuals, counts = _rows_of_each(rows, due.bound)
    if counts.size < due.policy.k:
        return Admitted(rows.slice(0, 0), unreleased + hold(due, rows, "too_few_peers"))
    if individuals is not None and due.policy.protect is Protection.ROW:
        limit = row_limit(counts, due.policy.k)
        kept = kept_rows(individuals, np.full(counts.size, limit), own_ends(rows, due.bound))
        rows, over = _parted(rows, kept)
        unreleased += hold(due, over, OVER_LIMIT)
    return Admitted(rows, unreleased)


def in_time(due: Due, rows: pa.Table) -> tuple[pa.Table, Unreleased]:
    """The rows whose time is not over yet, and the others, rejected."""
    if due.slot.window_end is None:
        return rows, Unreleased()
    rows, late = _parted(rows, deadlines(rows, due.bound) >= due.slot.window_end)
    return rows, reject(due, late, "late")


def _rows_of_each(rows: pa.Table, bound: BoundPolicy) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Whom each row belongs to, int64 (n,), None: itself; and how many rows each individual has."""
    field = bound.policy.individual
    if field is None:
        return None, np.ones(rows.num_rows, dtype=np.int64)
    codes = np.asarray(whole(rows.column(field.name)).dictionary_encode().indices).astype(np.int64)
    return codes, np.bincount(codes)
