"""One window under ``cohort: lasting``: who is new may enter, cohorts are merged, groups go out under frozen boxes.

release_lasting_window(rows, bound, warm, roster, secret, slot) -> WindowResult

    gather    waiting and new rows in canonical order, repeats out                        (as ever)
    enter     who is known by the roster; newcomers join the pool; an intake, or not
    merge     cohorts with rows here, merged until each group has k active people
    issue     frozen boxes, times of groups and payloads through the gate                 (as ever)
    account   what waits, what is rejected, the metrics, the state, the new segment

Of a row of somebody who is known nothing is read but whose it is, its time and its payload. What is decided in a window
follows from who entered when, and of each cohort how many people and rows are here: exchanging all rows of two people
of a cohort decides nothing otherwise. ``tests/privacy/test_swap.py`` holds that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.slot_kinds import CLOSING
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.kinds.domains import RangeDomain, SetDomain
from kanonflow.transforms.lineage.release_lineage import RosterMark
from kanonflow.transforms.release.candidates import gather, in_time, without_rejected
from kanonflow.transforms.release.due import Clock, Due
from kanonflow.transforms.release.frozen_groups import FrozenGroups
from kanonflow.transforms.release.gate import GateError
from kanonflow.transforms.release.gate_frozen import check_segment
from kanonflow.transforms.release.issue import issue
from kanonflow.transforms.release.lasting_metrics import lasting_metrics
from kanonflow.transforms.release.ledger import (
    AWAITS_INTAKE,
    INTAKE_TOO_LARGE,
    Unreleased,
    deadlines,
    hold,
    own_ends,
    picked,
)
from kanonflow.transforms.release.metrics import release_metrics, window_metrics
from kanonflow.transforms.release.rejected import fault_records
from kanonflow.transforms.release.release_window import WindowResult, people_of
from kanonflow.transforms.release.stages import Answer, Gathered, People, Publication
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.cohort_files import entered_people, groups_file
from kanonflow.transforms.roster.founding import MOST, Founded, found
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import Roster, Segment
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.window_groups import LastGroups, WindowGroups, no_groups, window_groups
from kanonflow.transforms.rows.elements import Release
from kanonflow.transforms.secret.seeds import (
    Keystream,
    ReleaseSlot,
    Secret,
    array_digest,
    class_ids_key,
    search_seed,
)


@dataclass(frozen=True)
class Entered:
    """Who may be released.

    rows: canonical rows of people who are known, in canonical order. people: whom they belong to.
    cohort: int64 (n,), of each row's person.
    roster, pool, domains: with whoever entered now.
    founded: of an intake; None: there was none. newcomers: the pool before it.
    unreleased: rows of people who are not known, and rows whose time is over.
    """

    rows: pa.Table
    people: People
    cohort: NDArray[np.int64]
    roster: Roster
    pool: Pool
    domains: dict[str, RangeDomain | SetDomain]
    founded: Founded | None
    newcomers: Pool | None
    unreleased: Unreleased


def release_lasting_window(
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    roster: Roster,
    secret: Secret,
    slot: ReleaseSlot,
    *,
    threads: int = 1,
    clock: Clock = time.monotonic,
    matching_records: bool = False,
    compressed: bool = True,
) -> WindowResult:
    """Release a window of a partition with cohorts that last, or hold or reject what cannot be released.

    rows, warm, slot, compressed: as of ``release_window``. roster: the one that ``warm`` names, or an empty one.

    Postcondition: that of ``release_window``. The result's ``segment`` is what the roster grew by; None: by nothing.
    It grows only together with a release, and not where the gate refused it.
    Time: near linear in the rows and in the cohorts here, and the solver's for who enters.
    """
    due = Due(
        bound,
        secret,
        slot,
        matching_records=matching_records,
        compressed=compressed,
        threads=threads,
        clock=clock,
        kind="closing" if slot.kind == CLOSING else "window",
    )
    # Who waits goes with the regular releases: nothing is over for those rows.
    resting = np.ones(warm.waiting_rows, dtype=np.bool_) if due.closing else None
    gathered = gather(due, warm, rows, resting)
    began = clock()
    entered = _enter(due, gathered.rows, warm, roster)
    assert entered.people.of_row is not None
    if np.unique(entered.people.of_row).size < bound.policy.k:
        unreleased = gathered.unreleased + entered.unreleased + hold(due, entered.rows, "too_few_peers")
        return _account(due, warm, gathered, entered, unreleased, None, None, None)
    groups = _merge(due, entered, warm)
    answer = _answer(due, entered, groups, due.milliseconds_since(began))
    issued = issue(due, answer, warm.cohorts)
    publication = issued.publication
    if publication is None:
        # Nothing of this window was: who would have entered waits on, and the roster is what is published.
        entered = replace(
            entered,
            roster=roster,
            pool=entered.newcomers or entered.pool,
            domains=dict(warm.domains),
            founded=None,
        )
    unreleased = gathered.unreleased + entered.unreleased + issued.unreleased
    return _account(due, warm, gathered, entered, unreleased, answer, publication, groups)


def _enter(due: Due, gathered: pa.Table, warm: WarmState, roster: Roster) -> Entered:
    """Who is known, who has been seen, and whether the pool enters now."""
    bound, policy = due.bound, due.policy
    # All rows of a closing release are too late for every other one.
    rows, unreleased = (gathered, Unreleased()) if due.closing else in_time(due, gathered)
    people = people_of(rows, due)
    of_row = people.of_row
    assert of_row is not None
    assert policy.cohort_size is not None
    assert policy.intake is not None
    before = warm.roster.pool if warm.roster is not None else empty_pool(bound)
    cohort = roster.cohorts_of(people.digests)
    unknown = cohort[of_row] < 0
    readable = np.asarray(whole(rows.column(FAULT_COLUMN)).is_null())
    seen = unknown & readable
    pool = before
    if seen.any():
        pool = before.having_seen(
            people.digests[of_row[seen]], own_ends(rows, bound)[seen], picked(rows, seen), bound
        )
    waits = (cohort < 0) & np.isin(people.digests, pool.people)
    end = due.slot.window_end
    must = False
    if end is not None and waits.any():
        must = bool((deadlines(rows, bound)[waits[of_row]] <= end).any())
    size = pool.people.size
    founded, newcomers, domains, reason = None, None, dict(warm.domains), AWAITS_INTAKE
    # By count and deadline only, and only with a release: an intake that nobody can see would leave a segment that no
    # release vouches for.
    enough = size >= max(policy.cohort_size, policy.k) and int(((cohort >= 0) | waits).sum()) >= policy.k
    if size > MOST:
        reason = INTAKE_TOO_LARGE
    elif enough and (size >= policy.intake or must):
        founded = found(pool, roster.head, bound, domains, seed=_seed(due), threads=due.threads)
        try:
            check_segment(founded.segment, pool, roster, bound)
        except GateError:
            # Nobody enters without the gate's word, and the others go on.
            founded, reason = None, "gate_refused"
        else:
            newcomers, pool, domains = pool, empty_pool(bound), founded.domains
            roster = roster.followed_by(founded.segment)
            cohort = roster.cohorts_of(people.digests)
    known = cohort[of_row] >= 0
    waiting = ~known & waits[of_row]
    unreadable = ~known & ~waits[of_row]
    unreleased += Unreleased(rejected=tuple(fault_records(picked(rows, unreadable), bound)))
    unreleased += hold(due, picked(rows, waiting), reason)
    kept = picked(rows, known)
    return Entered(
        kept,
        People(of_row[known], people.digests),
        cohort[of_row][known],
        roster,
        pool,
        domains,
        founded,
        newcomers,
        unreleased,
    )


def _seed(due: Due) -> int:
    given = due.policy.solver.seed
    return search_seed(due.secret, due.slot) if given is None else given


def _merge(due: Due, entered: Entered, warm: WarmState) -> WindowGroups:
    last = warm.roster.last if warm.roster is not None else no_groups()
    of_row = entered.people.of_row
    assert of_row is not None
    return window_groups(entered.roster, entered.cohort, of_row, due.bound, entered.domains, last, _seed(due))


def _answer(due: Due, entered: Entered, groups: WindowGroups, solve_ms: float) -> Answer:
    """The groups as closed classes over the rows, under frozen boxes."""
    merged, of_row = groups.merged, entered.people.of_row
    assert of_row is not None
    assert due.policy.window_ms is not None
    # From here on they are rows of people who are known: what was wrong with their values is nobody's business.
    rows = entered.rows.drop_columns([FAULT_COLUMN])
    structure = Partition(groups.of_row.astype(np.int32))
    content = content_digest(rows)
    key = class_ids_key(due.secret, due.release_id, array_digest(structure.described()), content)
    frozen = FrozenGroups(
        groups.corners,
        groups.cohort_of_corner,
        groups.groups,
        np.searchsorted(groups.cohorts, entered.cohort),
        own_ends(rows, due.bound),
        due.policy.window_ms,
        # The words are read-only; as signed numbers they are any long.
        Keystream(key).words(int(groups.groups.max()) + 1).astype(np.int64),
    )
    solution = Solution(
        structure,
        loss=merged.loss,
        start_loss=merged.greedy_loss
        if merged.warm_loss is None
        else min(merged.greedy_loss, merged.warm_loss),
        lower_bound=0.0,
        start=merged.start,
        evaluations=merged.evaluations,
        warm_loss=merged.warm_loss,
        cold_loss=None if merged.warm_loss is None else merged.greedy_loss,
        warm_kept=merged.warm_kept,
    )
    return Answer(rows, entered.people, groups.encoded, solution, None, solve_ms, content, frozen)


def _account(
    due: Due,
    before: WarmState,
    gathered: Gathered,
    entered: Entered,
    unreleased: Unreleased,
    answer: Answer | None,
    publication: Publication | None,
    groups: WindowGroups | None,
) -> WindowResult:
    """What a window leaves. Domains grow with who entered, and with nothing else."""
    rejected = list(unreleased.rejected)
    last = before.roster.last if before.roster is not None else no_groups()
    # What a closing release put together are rows of long ago: the next search begins with what was before it.
    if publication is not None and groups is not None and not due.closing:
        last = groups.last
    kept = RosterState(entered.roster.head, entered.pool, last)
    state = replace(
        before,
        waiting=unreleased.waiting_rows,
        waiting_reason=unreleased.reasons,
        events=without_rejected(due, gathered.events, rejected),
        domains=entered.domains,
        roster=kept,
    )
    metrics = window_metrics(due, gathered, state, rejected)
    metrics |= lasting_metrics(due, entered.roster, kept)
    if answer is None or publication is None:
        return WindowResult(None, state, rejected, metrics, roster=entered.roster)
    metrics |= release_metrics(due.bound, answer, publication, before.cohorts)
    metrics |= lasting_metrics(
        due, entered.roster, kept, answer, publication, groups, entered.founded, entered.newcomers
    )
    segment = None if entered.founded is None else entered.founded.segment
    release = _with_roster(due, publication.release, entered, segment, last)
    return WindowResult(
        release,
        state,
        rejected,
        metrics,
        publication.matching_record,
        entered.roster,
        None if segment is None else segment.to_bytes(),
    )


def _with_roster(
    due: Due, release: Release, entered: Entered, segment: Segment | None, last: LastGroups
) -> Release:
    """The release with the roster that it was made with, who entered, and its groups."""
    head = entered.roster.head
    before = head.chain if segment is None else segment.head.chain
    mark = RosterMark(head.epoch, head.segments, head.chain, segment is not None, before)
    people = None
    if segment is not None and entered.newcomers is not None:
        people = entered_people(segment, entered.newcomers, due.bound, due.release_id, due.slot)
    slot = None if release.slot is None else release.slot._replace(roster=mark)
    return release._replace(slot=slot, entered=people, groups=None if due.closing else groups_file(last))
