"""What a partition keeps of its roster beside the segments: which one it has, who waits, the last groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kanonflow.transforms.files.state_parts import Content, UnreadParts
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import RosterHead
from kanonflow.transforms.roster.window_groups import LastGroups, no_groups
from kanonflow.transforms.rows.elements import from_ipc, to_ipc


@dataclass(frozen=True)
class RosterState:
    """head: of the roster; its segments stand elsewhere. pool: who waits for an intake. last: groups of the last
    release."""

    head: RosterHead
    pool: Pool
    last: LastGroups = field(default_factory=no_groups)


def roster_content(state: RosterState | None) -> Content:
    """Nothing of a partition without a roster."""
    if state is None:
        return Content({"roster": None}, {})
    meta: dict[str, Any] = {"head": list(state.head), "fields": state.pool.ends.shape[1], "changed": True}
    parts = {
        "pool_people": state.pool.people.astype("<u8").tobytes(),
        "pool_ends": state.pool.ends.astype("<i8").tobytes(),
        "pool_changed": state.pool.changed.astype("<u1").tobytes(),
        "pool_values": to_ipc(state.pool.values.combine_chunks()),
        "last_cohorts": state.last.cohorts.astype("<i8").tobytes(),
        "last_groups": state.last.groups.astype("<i8").tobytes(),
    }
    return Content({"roster": meta}, parts)


def read_roster_state(parts: UnreadParts) -> RosterState | None:
    """The inverse. Raises ValueError, KeyError or TypeError: the parts are no such state."""
    meta = parts.meta["roster"]
    if meta is None:
        return None
    people = parts.array("pool_people", "<u8")
    ends = parts.array("pool_ends", "<i8").reshape(people.size, meta["fields"])
    # States of before did not say it: of their people nobody is known to have changed.
    changed = (
        parts.array("pool_changed", "<u1") if meta.get("changed") else np.zeros(people.size, dtype="<u1")
    )
    values = from_ipc(parts.take("pool_values"))
    if values.num_rows != people.size or changed.size != people.size:
        raise ValueError("the pool has not a value of everybody in it")
    last = LastGroups(parts.array("last_cohorts", "<i8"), parts.array("last_groups", "<i8"))
    if last.cohorts.size != last.groups.size or np.any(np.diff(last.cohorts) <= 0):
        raise ValueError("the last groups are none")
    return RosterState(RosterHead(*meta["head"]), Pool(people, values, ends, changed != 0), last)
