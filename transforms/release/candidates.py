"""Which rows a release can be made of: each event once, in canonical order, in time.

gather(due, warm, rows) -> Gathered    in_time(due, rows)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.policy import Field
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.canonical_order import blind_order, canonical_order
from kanonflow.transforms.release.cohorts import person_digests, positions
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import (
    KNOWN_OTHERWISE,
    Unreleased,
    deadlines,
    picked,
    reject,
    wait,
)
from kanonflow.transforms.release.stages import Gathered
from kanonflow.transforms.release.warm_state import Events, WarmState

_FOR_GOOD = ("duplicate_event", KNOWN_OTHERWISE)


def gather(
    due: Due, warm: WarmState, rows: pa.Table | None, resting: NDArray[np.bool_] | None = None
) -> Gathered:
    """Waiting and new rows in canonical order, of each event one.

    rows: canonical rows that came (None: none did). resting: of the waiting rows, those that are none of this part's;
    they wait on, before all others and in their order. Who waits goes with regular releases, never with a closing one.

    Why first of all: which of several repeats stays, and the order of rejected rows, must not follow from arrival,
    or a retry that sees the rows in another order would be another release. O(n d + n log n).
    """
    new, waited = 0 if rows is None else rows.num_rows, warm.waiting_rows
    resting = np.ones(waited, dtype=np.bool_) if due.closing else resting
    warm, rested = _rested(warm, resting)
    tables = [table for table in (warm.waiting, rows) if table is not None]
    together = pa.concat_tables(tables) if tables else due.bound.canonical_schema.empty_table()
    together = together.combine_chunks()
    origin = canonical_order(together, due.bound, due.secret)
    ordered = together.take(pa.array(origin))
    field = due.policy.event_id
    if field is None:
        return Gathered(ordered, origin, warm.events, new, waited, rested)
    keep, events = _each_once(due, ordered, field, origin >= warm.waiting_rows, warm.events)
    kept, repeated = parted(ordered, keep)
    repeats = reject(due, repeated, "duplicate_event", field.name)
    return Gathered(kept, origin[keep], events, new, waited, rested + repeats)


def parted(rows: pa.Table, stays: NDArray[np.bool_]) -> tuple[pa.Table, pa.Table]:
    """The rows that stay, and the others."""
    return (rows, rows.slice(0, 0)) if stays.all() else (picked(rows, stays), picked(rows, ~stays))


def _rested(warm: WarmState, resting: NDArray[np.bool_] | None) -> tuple[WarmState, Unreleased]:
    """The state without the waiting rows that rest, and these."""
    if warm.waiting is None or resting is None or not resting.any():
        return warm, Unreleased()
    reasons = np.array(warm.waiting_reason, dtype=object)
    waiting, rests = parted(warm.waiting, ~resting)
    left = replace(warm, waiting=waiting, waiting_reason=tuple(reasons[~resting]))
    return left, wait(rests, tuple(reasons[resting]))


def _each_once(
    due: Due, ordered: pa.Table, field: Field, new: NDArray[np.bool_], seen: Events
) -> tuple[NDArray[np.bool_], Events]:
    """Which rows stay, bool (n,), and the event ids seen lately after them.

    field: of event ids. new: bool (n,), rows that came; the others waited and are seen already. seen: before these
    rows came.
    """
    digests = _event_digests(due, ordered, field)
    fresh = np.zeros(digests.size, dtype=np.bool_)
    places = np.flatnonzero(new)
    events, first = np.unique(digests[places], return_index=True)
    if first.size < places.size and due.bound.attributes:
        places = _blindly(due, ordered, places, digests)
        events, first = np.unique(digests[places], return_index=True)
    # Not np.isin, which would sort all that were seen.
    at = positions(events, np.concatenate([known for _, known in seen] or [events[:0]]))
    unseen = np.ones(events.size, dtype=np.bool_)
    unseen[at[at >= 0]] = False
    fresh[places[first[unseen]]] = True
    end = due.slot.window_end if due.slot.window_end is not None else 0
    recent = tuple((at, known) for at, known in seen if at > end - due.policy.state_ttl_ms)
    if unseen.any():
        recent = (*recent, (end, events[unseen]))
    return fresh | ~new, recent


def _event_digests(due: Due, rows: pa.Table, field: Field) -> NDArray[np.uint64]:
    """A digest of the event id of each row, uint64 (n,); of cohorts that last, of it and the row's individual.

    Why: where two people have one event id, one of the two rows would have to go, and which of them would hang on whose
    it is. An event id is a person's.
    """
    names = [render_text(whole(rows.column(each.name))).to_pylist() for each in (field, *_owner(due))]
    return _digests_of_events(due, *names)


def _owner(due: Due) -> tuple[Field, ...]:
    """The field that an event id is known with, if there is one: where attributes are read at entry only."""
    return (due.policy.cohorts.individual,) if due.bound.attributes else ()


def _digests_of_events(
    due: Due, names: Sequence[str], owners: Sequence[str] | None = None
) -> NDArray[np.uint64]:
    """names, owners: event id and individual of each row, as canonical text."""
    if owners is not None:
        names = [f"{len(owner)} {owner} {name}" for owner, name in zip(owners, names, strict=True)]
    return person_digests(names, due.secret.lasting.derive("partition", "events"))


def without_rejected(due: Due, events: Events, rejected: Sequence[Mapping[str, Any]]) -> Events:
    """The event ids seen lately, without those of rows that are rejected now: they may come again, mended.

    rejected: records of rejected.avsc. A repeat is of an event that stays, whatever became of it; and what would have
    told too much never goes out. O(rejected + events).
    """
    field = due.policy.event_id
    gone = [record["row"] for record in rejected if record["reason"] not in _FOR_GOOD]
    if field is None or not gone:
        return events
    names = [[row[each.name] for row in gone] for each in (field, *_owner(due))]
    digests = _digests_of_events(due, *names)
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
    order = blind_order(rows.take(pa.array(repeated)), due.bound, due.secret)
    return np.concatenate([places[~several], repeated[order]])


def in_time(due: Due, rows: pa.Table) -> tuple[pa.Table, Unreleased]:
    """The rows whose time is not over yet, and the others, rejected. Those of a closing release are too late for every
    other one."""
    rows, late = parted(rows, still_in_time(due, rows))
    return rows, reject(due, late, "late")


def still_in_time(due: Due, rows: pa.Table) -> NDArray[np.bool_]:
    """Which rows these are, bool (n,)."""
    if due.slot.window_end is None or due.closing:
        return np.ones(rows.num_rows, dtype=np.bool_)
    return deadlines(rows, due.bound) >= due.slot.window_end
