"""Cohorts that last: who is new may enter, cohorts are merged, groups go out under frozen boxes.

    admit    who is known by the roster; newcomers join the pool; an intake, or not     (``intake``)
    solve    rows out that would tell too much; cohorts merged until each group has k active people, and values that
             meet the rules for sensitive fields
    issue    frozen boxes, times of groups and payloads through the gate                 (as ever)
    leave    the roster with its new segment, who waits for the next intake, the groups

What is decided in a window follows from who entered when, and of each cohort how many people and which rows are here:
exchanging all rows of two people of a cohort decides nothing otherwise. ``tests/privacy/test_swap.py`` holds that.
Time: near linear in the rows and in the cohorts here, and the solver's for who enters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.promises.promise import Promise
from kanonflow.solvers.problem.errors import NotDiverseError
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.lineage.release_lineage import RosterMark
from kanonflow.transforms.protections.intake import Entered, enter, roster_state
from kanonflow.transforms.protections.known_measured import left_after, left_before
from kanonflow.transforms.protections.known_otherwise import going_out, items_before
from kanonflow.transforms.protections.lasting_metrics import (
    GroupedRows,
    roster_metrics,
    values_after,
    window_metrics,
)
from kanonflow.transforms.protections.sensitive_values import sensitive_fields
from kanonflow.transforms.protections.solver_refusals import refusals_of_search
from kanonflow.transforms.protections.window_parts import WindowParts
from kanonflow.transforms.publishing.frozen_groups import FrozenGroups
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import KNOWN_OTHERWISE, NOT_DIVERSE, hold, own_ends, picked, reject
from kanonflow.transforms.release.stages import Answer, Before, Left, People, Publication, Solved
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.cohort_files import entered_people, groups_file
from kanonflow.transforms.roster.items_out import ItemsOut
from kanonflow.transforms.roster.known_left import KnownLeft
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.window_groups import LastGroups, WindowGroups, window_groups
from kanonflow.transforms.rows.elements import Release
from kanonflow.transforms.rows.split import partition_codes
from kanonflow.transforms.secret.epoch_numbers import group_numbers, member_numbers
from kanonflow.transforms.secret.seeds import Keystream, array_digest, class_ids_key


@dataclass(frozen=True)
class Grouped(Solved):
    """made: the groups over the rows; None where there is no answer. items, left: what is out once they are, and whom
    that leaves to who is measured (``against``)."""

    made: GroupedRows | None = None
    items: ItemsOut | None = None
    left: KnownLeft | None = None


class Lasting:
    """Rows whose time is over are a reason for an intake: who is new may be released with them."""

    shape = "classes"
    merges = True
    lasts = True
    expiry = "release waiting"

    def answer(self, promise: Promise) -> str:
        """As of ``Protection``."""
        return f"classes of {promise.units}"

    def refusals(self, policy: Policy) -> list[str]:
        """As of ``Protection``."""
        return refusals_of_search(policy, self.shape)

    def parts(self, due: Due, rows: pa.Table | None, warm: WarmState) -> WindowParts | None:
        """None: merging is near linear."""
        return None

    def left_by(self, rows: pa.Table, bound: BoundPolicy) -> WarmState:
        """Nothing: domains grow with who enters."""
        return WarmState()

    def admit(self, due: Due, rows: pa.Table, before: Before) -> Entered:
        """Rows of people who are known, with those who enter now."""
        return enter(due, rows, before)

    def solve(self, due: Due, admitted: Entered, before: Before) -> Grouped:
        """The groups as closed classes over the rows, under frozen boxes; without rows that would tell too much.

        Where too few people are left of whom rows may go out, or what may go out does not meet the rules for sensitive
        values even as one group, nothing is decided, and all of them wait.
        """
        goes, items = going_out(due, admitted, before)
        gathered, admitted = admitted, admitted.only(goes)
        if (np.bincount(admitted.person) > 0).sum() < due.policy.k:
            return Grouped(unreleased=hold(due, gathered.rows, "too_few_peers"))
        dropped = reject(due, picked(gathered.rows, ~goes), KNOWN_OTHERWISE)
        try:
            groups = _merge(due, admitted, before)
        except NotDiverseError:
            return Grouped(unreleased=hold(due, gathered.rows, NOT_DIVERSE))
        taken = due.milliseconds_since(admitted.began)
        # From here on they are rows of people who are known: what was wrong with their values is nobody's business.
        rows = admitted.rows.drop_columns([FAULT_COLUMN])
        structure = Partition(groups.of_row.astype(np.int32))
        content = content_digest(rows)
        key = class_ids_key(due.secret, due.release_id, array_digest(structure.described()), content)
        frozen = FrozenGroups(
            groups.corners,
            groups.cohort_of_corner,
            groups.groups,
            np.searchsorted(groups.cohorts, admitted.cohort),
            own_ends(rows, due.bound),
            due.policy.cohorts.window_ms,
            # The words are read-only; as signed numbers they are any long.
            Keystream(key).words(int(groups.groups.max()) + 1).astype(np.int64),
            _members(due, admitted),
            *_followed(due, admitted, groups),
        )
        people = People(admitted.person, admitted.digests)
        answer = Answer(rows, people, groups.encoded, _solution(structure, groups), taken, content, frozen)
        left = left_after(due, admitted, before)
        return Grouped(answer, dropped, GroupedRows(rows, admitted.person, groups, frozen), items, left)

    def leave(
        self, due: Due, before: Before, admitted: Entered, solved: Grouped, publication: Publication | None
    ) -> Left:
        """Domains grow with who entered, and with nothing else; the roster only together with a release."""
        last, items = roster_state(before, due).last, items_before(due, before)
        stands = admitted.out
        if publication is None:
            stands = admitted.kept
            if items is not None and (tried := admitted.segment) is not None:
                # That nothing was left of it hangs on who was put together.
                stands = stands._replace(pool=stands.pool.having_tried(tried.people, tried.cohort))
        values, left = roster_state(before, due).values, left_before(due, before)
        if publication is not None:
            items, left = solved.items, solved.left
        if publication is not None and solved.made is not None:
            values = values_after(due, solved.made, values)
        if publication is not None and solved.made is not None and _begins_the_next(due):
            last = solved.made.groups.last
        state = RosterState(stands.roster.head, stands.pool, last, items, values, left)
        warm = replace(before.warm, domains=dict(stands.domains), roster=state)
        told = roster_metrics(due, stands.roster, state)
        if publication is None or solved.made is None:
            return Left(warm, None, told, stands.roster)
        told |= window_metrics(due, admitted, solved.made, publication)
        segment = admitted.segment
        release = _with_roster(due, publication.release, admitted, last)
        return Left(warm, release, told, stands.roster, None if segment is None else segment.to_bytes())


def _members(due: Due, admitted: Entered) -> pa.Array | None:
    """The number of each row's person, where the policy publishes it: made when all is decided, and of nothing else."""
    if due.policy.publish_member is None:
        return None
    _, (values,) = partition_codes(admitted.rows, due.policy.partition_by)
    epoch, name = admitted.out.roster.head.epoch, due.policy.name
    return member_numbers(due.secret, epoch, name, values, admitted.digests).take(pa.array(admitted.person))


def _followed(
    due: Due, admitted: Entered, groups: WindowGroups
) -> tuple[pa.Array | None, NDArray[np.int64] | None]:
    """The id of each group, and how many people it has to the next lower multiple of k, where the policy publishes
    them. Of all people of its cohorts: of those with rows here it would say where everybody was."""
    if due.policy.publish_group is None:
        return None, None
    _, (values,) = partition_codes(admitted.rows, due.policy.partition_by)
    roster, k = admitted.out.roster, due.policy.k
    least, epoch = roster.least(groups.cohorts), roster.head.epoch
    ids = group_numbers(due.secret, epoch, due.policy.name, values, least, groups.groups)
    people = np.zeros(len(ids), dtype=np.int64)
    np.add.at(people, groups.groups, roster.members[groups.cohorts])
    return ids, people // k * k


def _begins_the_next(due: Due) -> bool:
    """Whether the next search begins with the groups of a release.

    What a closing release put together are rows of long ago, and each part of a window (``split_by``) has cohorts of
    its own: the merging is solved as well without what was last.
    """
    return not (due.closing or due.policy.split_by)


def _merge(due: Due, entered: Entered, before: Before) -> WindowGroups:
    last = roster_state(before, due).last
    roster, _, domains = entered.out
    return window_groups(
        roster,
        entered.cohort,
        entered.person,
        due.bound,
        domains,
        last,
        due.search_seed,
        sensitive_fields(entered.rows, due.bound),
    )


def _solution(structure: Partition, groups: WindowGroups) -> Solution:
    """What the merging found, as a solver tells it."""
    merged = groups.merged
    return Solution(
        structure,
        loss=merged.loss,
        start_loss=merged.greedy_loss
        if merged.warm_loss is None
        else min(merged.greedy_loss, merged.warm_loss),
        lower_bound=merged.lower_bound,
        start=merged.start,
        evaluations=merged.evaluations,
        warm_loss=merged.warm_loss,
        cold_loss=None if merged.warm_loss is None else merged.greedy_loss,
        warm_kept=merged.warm_kept,
    )


def _with_roster(due: Due, release: Release, entered: Entered, last: LastGroups) -> Release:
    """The release with the roster that it was made with, who entered, and its groups."""
    head, segment = entered.out.roster.head, entered.segment
    mark = RosterMark(
        head.epoch, head.segments, head.chain, segment is not None, entered.kept.roster.head.chain
    )
    people = None
    if segment is not None:
        people = entered_people(segment, entered.taken, due.bound, due.release_id, due.slot)
    slot = None if release.slot is None else release.slot._replace(roster=mark)
    return release._replace(
        slot=slot, entered=people, groups=groups_file(last) if _begins_the_next(due) else None
    )
