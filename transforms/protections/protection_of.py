"""Which protection a policy has: the one place that asks."""

from __future__ import annotations

from typing import Any

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.protections.lasting import Lasting
from kanonflow.transforms.protections.levels import Levels
from kanonflow.transforms.protections.protection import Protection
from kanonflow.transforms.protections.row import Row
from kanonflow.transforms.protections.window import Window


def protection_of(policy: Policy) -> Protection[Any, Any]:
    """The protection of a policy."""
    if policy.lasting:
        return Lasting()
    if policy.by_levels:
        return Levels()
    return Window() if policy.closed else Row()
