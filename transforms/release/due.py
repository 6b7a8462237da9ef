"""What is due at a place of a partition: a release or an expiry, with what all of its stages share and none changes.

The step of the partition makes it, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.slot_kinds import CLOSING, REGULAR
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, release_id, search_seed

Clock = Callable[[], float]
Recorded = Callable[[ReleaseSlot], bytes | None]
"""What the committed release of a place was published from; None: it is not committed."""


@dataclass(frozen=True)
class Due:
    """A release, or an expiry, that is to be made.

    bound: its policy, bound to the input.
    secret: the version that the window began under.
    slot: its place; ``window_end`` is the end of the window that closed, None without windows.
    more: whether other parts of the window follow, which take what this one leaves.
    matching_records: whether the release gets one (matching_record.py).
    threads: of the search.
    clock: seconds since some moment; a deadline and the times in the metrics are all that looks at it.
    compressed: whether the release's rows are compressed where they are many: for those that leave the process.
    recorded: where a deadline may have struck when this was made before, what it was published from then.
    earliest: whether people are frozen with the values of their first window, by which a plan of shards placed them.
    """

    bound: BoundPolicy
    secret: Secret
    slot: ReleaseSlot
    more: bool = False
    matching_records: bool = False
    compressed: bool = True
    threads: int = 1
    clock: Clock = time.monotonic
    recorded: Recorded | None = None
    earliest: bool = False

    @property
    def policy(self) -> Policy:
        """The policy alone."""
        return self.bound.policy

    @property
    def kind(self) -> str:
        """``window``, ``closing`` or ``expiry``, as in metrics.avsc."""
        return "window" if self.slot.kind == REGULAR else self.slot.kind

    @property
    def closing(self) -> bool:
        """Whether it is a release beside the regular one, of rows that are older than all of its run."""
        return self.slot.kind == CLOSING

    @property
    def by_the_clock(self) -> bool:
        """Whether what it is published from depends on how fast the machine was."""
        return self.policy.solver.deadline_ms is not None

    @cached_property
    def search_seed(self) -> int:
        """Of the search: the policy's, or the secret's for this place."""
        given = self.policy.solver.seed
        return search_seed(self.secret, self.slot) if given is None else given

    def milliseconds_since(self, began: float) -> float:
        """Wall-clock time since ``began``, which the clock said."""
        return (self.clock() - began) * 1000.0

    @cached_property
    def release_id(self) -> str:
        """The name of the release at this place."""
        return release_id(self.secret, self.policy.name, self.slot)
