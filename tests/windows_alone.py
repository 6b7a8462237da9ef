"""One window of a partition by the pure functions, with what the step of a partition puts together for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections import release_parts as parts
from kanonflow.transforms.protections import release_window as window
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret


def release_window(
    rows: pa.Table | None, bound: BoundPolicy, warm: WarmState, secret: Secret, slot: ReleaseSlot, **of: Any
) -> WindowResult:
    """A window in one part. of: further members of what is due."""
    due = Due(bound, secret, slot, **of)
    return window.release_window(protection_of(bound.policy), due, Before(warm), rows)


def release_lasting_window(
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    roster: Roster,
    secret: Secret,
    slot: ReleaseSlot,
    **of: Any,
) -> WindowResult:
    """The same of a partition with a roster."""
    due = Due(bound, secret, slot, **of)
    return window.release_window(protection_of(bound.policy), due, Before(warm, roster), rows)


def release_parts(
    rows: pa.Table | None, bound: BoundPolicy, warm: WarmState, secret: Secret, slot: ReleaseSlot, **of: Any
) -> Iterator[WindowResult]:
    """A window in the parts that its policy asks for."""
    due = Due(bound, secret, slot, **of)
    return parts.release_parts(protection_of(bound.policy), due, Before(warm), rows)


def expire(
    bound: BoundPolicy, warm: WarmState, late: pa.Table | None, secret: Secret, slot: ReleaseSlot
) -> WindowResult:
    """The time of rows is over."""
    return window.expire(Due(bound, secret, slot._replace(kind="expiry")), warm, late)
