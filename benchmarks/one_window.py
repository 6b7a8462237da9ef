"""One window of a partition by the pure function, with what the step of a partition puts together for it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections import release_window as window
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret


def release_window(
    rows: pa.Table | None, bound: BoundPolicy, warm: WarmState, secret: Secret, slot: ReleaseSlot, **of: Any
) -> WindowResult:
    """The window. of: further members of what is due."""
    return window.release_window(
        protection_of(bound.policy), Due(bound, secret, slot, **of), Before(warm), rows
    )
