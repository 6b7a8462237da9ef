"""What a run carried over of a partition, as the epoch that a renewal begins goes on from it.

    renewed_state(state, renewal, epoch, bound, keeps=...) -> CarriedState

Rows, pool, clock and event ids stay as they are. Of cohorts that are others nothing is out that a reader may know, and
none of them were a group; of those that are kept both go on.
"""

from __future__ import annotations

from dataclasses import replace

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections.known_measured import counted_of
from kanonflow.transforms.protections.known_otherwise import known_of
from kanonflow.transforms.roster.continued import domains_of
from kanonflow.transforms.roster.items_out import ItemsOut
from kanonflow.transforms.roster.known_left import KnownLeft
from kanonflow.transforms.roster.renewal import Renewal
from kanonflow.transforms.roster.roster import empty_roster
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.windows.chain import CarriedState


def renewed_state(
    state: CarriedState, renewal: Renewal | None, epoch: int, bound: BoundPolicy, *, keeps: bool
) -> CarriedState:
    """The state under the roster of the new epoch. renewal: None: nobody has entered here. keeps: all cohorts stay."""
    warm, roster = state.warm, empty_roster(epoch)
    if renewal is not None:
        roster = roster.followed_by(renewal.segment)
        warm = replace(warm, domains=domains_of(roster, bound))
    own = warm.roster
    if own is not None:
        reader, counted = known_of(bound.policy), counted_of(bound.policy)
        fresh = RosterState(
            roster.head,
            own.pool,
            no_groups(),
            None if reader is None else ItemsOut(reader),
            left=None if counted is None else KnownLeft(counted),
        )
        own = replace(own, head=roster.head) if keeps else fresh
    return replace(state, epoch=epoch, warm=replace(warm, roster=own))
