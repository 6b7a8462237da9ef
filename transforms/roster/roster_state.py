"""What a partition keeps of its roster beside the segments: which one it has, who waits, the last groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.files.state_parts import Content, UnreadParts, pack, unpack
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.roster.items_out import ItemsOut, read_items
from kanonflow.transforms.roster.known_left import KnownLeft, read_left
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import RosterHead
from kanonflow.transforms.roster.values_out import ValuesOut, read_values
from kanonflow.transforms.roster.window_groups import LastGroups, no_groups
from kanonflow.transforms.rows.elements import sound_rows, to_ipc


@dataclass(frozen=True)
class RosterState:
    """head: of the roster; its segments stand elsewhere. pool: who waits for an intake. last: groups of the last
    release. items: what is out that a reader may know (``against``); None: that is not counted. values: what is out of
    sensitive fields with rules. left: whom a reader who is measured leaves; None: nothing is out that is counted."""

    head: RosterHead
    pool: Pool
    last: LastGroups = field(default_factory=no_groups)
    items: ItemsOut | None = None
    values: ValuesOut = field(default_factory=ValuesOut)
    left: KnownLeft | None = None

    def numbered(
        self, head: RosterHead, pool: Pool, last: LastGroups, number: NDArray[np.int64]
    ) -> RosterState:
        """That of some cohorts, under other numbers. number: int64 (c,), of each cohort; -1: it is left out."""
        return RosterState(
            head,
            pool,
            last,
            None if self.items is None else self.items.numbered(number),
            self.values.numbered(number),
            None if self.left is None else self.left.numbered(number),
        )


POOL_MAGIC = b"KFWP"
POOL_VERSION = 1
_POOL = "pool"


def roster_content(state: RosterState | None) -> Content:
    """All of it. Nothing of a partition without a roster."""
    if state is None:
        return Content({"roster": None}, {})
    pool, rest = _pool_content(state.pool), rest_of_roster(state)
    return Content({"roster": {**rest.meta["roster"], **pool.meta}}, {**pool.parts, **rest.parts})


def rest_of_roster(state: RosterState | None) -> Content:
    """All but the pool."""
    if state is None:
        return Content({"roster": None}, {})
    parts = {
        "last_cohorts": state.last.cohorts.astype("<i8").tobytes(),
        "last_groups": state.last.groups.astype("<i8").tobytes(),
    }
    meta = {"head": list(state.head)}
    if state.items is not None:
        items = state.items.content()
        meta, parts = meta | items.meta, parts | items.parts
    if state.values.of:
        values = state.values.content()
        meta, parts = meta | values.meta, parts | values.parts
    if state.left is not None:
        left = state.left.content()
        meta, parts = meta | left.meta, parts | left.parts
    return Content({"roster": meta}, parts)


def read_roster_state(parts: UnreadParts, pool: Pool | None = None) -> RosterState | None:
    """The inverse. pool: where it stands elsewhere. Raises ValueError, KeyError or TypeError: the parts are none."""
    meta = parts.meta["roster"]
    if meta is None:
        return None
    pool = _read_pool(parts, meta) if pool is None else pool
    last = LastGroups(parts.array("last_cohorts", "<i8"), parts.array("last_groups", "<i8"))
    if last.cohorts.size != last.groups.size or np.any(np.diff(last.cohorts) <= 0):
        raise ValueError("the last groups are none")
    # States of before counted no items, nor do those of a policy that asks for none.
    items = read_items(parts, meta["items"]) if "items" in meta else None
    values = read_values(parts, meta["values"]) if "values" in meta else ValuesOut()
    left = read_left(parts, meta["left"]) if "left" in meta else None
    return RosterState(RosterHead(*meta["head"]), pool, last, items, values, left)


def pool_to_bytes(pool: Pool) -> bytes:
    """The versioned bytes of a pool alone. Inverse of ``pool_from_bytes``."""
    return pack(POOL_MAGIC, POOL_VERSION, _pool_content(pool))


def pool_from_bytes(data: bytes) -> Pool:
    """The pool. Raises StateError for another version's or damaged bytes."""
    parts = unpack(data, POOL_MAGIC, POOL_VERSION, _POOL)
    try:
        pool = _read_pool(parts, parts.meta)
        parts.end()
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        raise damaged(_POOL, "its parts do not fit its index") from None
    return pool


def _pool_content(pool: Pool) -> Content:
    parts = {
        "pool_people": pool.people.astype("<u8").tobytes(),
        "pool_ends": pool.ends.astype("<i8").tobytes(),
        "pool_changed": pool.changed.astype("<u1").tobytes(),
        "pool_values": to_ipc(pool.values.combine_chunks()),
    }
    meta = {"fields": pool.ends.shape[1], "changed": True}
    if not (pool.tried >= 0).any():
        return Content(meta, parts)
    return Content(meta | {"tried": True}, parts | {"pool_tried": pool.tried.astype("<i8").tobytes()})


def _read_pool(parts: UnreadParts, meta: Mapping[str, Any]) -> Pool:
    people = parts.array("pool_people", "<u8")
    ends = parts.array("pool_ends", "<i8").reshape(people.size, meta["fields"])
    # States of before did not say it: of their people nobody is known to have changed.
    changed = (
        parts.array("pool_changed", "<u1") if meta.get("changed") else np.zeros(people.size, dtype="<u1")
    )
    values = sound_rows(parts.take("pool_values"))
    nobody = np.full(people.size, -1, dtype="<i8")
    tried = parts.array("pool_tried", "<i8") if meta.get("tried") else nobody
    if values.num_rows != people.size or changed.size != people.size or tried.size != people.size:
        raise ValueError("the pool has not a value of everybody in it")
    return Pool(people, values, ends, changed != 0, tried)
