"""Who of a window may be released with cohorts that last: whom the roster knows, and whether those who wait enter now.

Of a row of somebody who is known nothing is read but whose it is, its time and its payload.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.schemas.kinds.form import present
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.kinds.domains import Domains
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.gate_frozen import check_segment
from kanonflow.transforms.release.candidates import parted, still_in_time
from kanonflow.transforms.release.cohorts import people_in, positions
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import (
    AWAITS_INTAKE,
    INTAKE_TOO_LARGE,
    Unreleased,
    hold,
    own_ends,
    picked,
    reject,
)
from kanonflow.transforms.release.rejected import fault_records
from kanonflow.transforms.release.stages import Admitted, Before
from kanonflow.transforms.roster.founding import MOST, found
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import Roster, Segment
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.rows.split import part_codes
from kanonflow.transforms.secret.seeds import people_key


class Standing(NamedTuple):
    """Who is known and who waits. domains: of the values of those who are known."""

    roster: Roster
    pool: Pool
    domains: Domains


@dataclass(frozen=True)
class Entered(Admitted):
    """rows: of people who are known. unreleased: of people who are not, and rows whose time is over.

    place: int64 (n,), of each row among those gathered. part: int64 (n,), of the window it is in (``split_by``).
    person: int64 (n,), whose each row is, positions in ``digests``. cohort: int64 (n,), of each row's person.
    out, kept: how people stand when a release goes out, and when none does: they are the same where nobody enters.
    segment: who enters with the release; None: nobody. taken: the same, as they stood in the pool of ``kept``.
    began: when this was begun, by the clock of what is due: to found cohorts is to solve.
    """

    place: NDArray[np.int64]
    part: NDArray[np.int64]
    person: NDArray[np.int64]
    digests: NDArray[np.uint64]
    cohort: NDArray[np.int64]
    out: Standing
    kept: Standing
    segment: Segment | None
    taken: Pool
    began: float

    def only(self, goes: NDArray[np.bool_]) -> Entered:
        """With some of the rows. goes: bool (n,)."""
        if goes.all():
            return self
        own = {name: getattr(self, name)[goes] for name in ("place", "part", "person", "cohort")}
        return replace(self, rows=picked(self.rows, goes), **own)


def enter(due: Due, gathered: pa.Table, before: Before) -> Entered:
    """Who is known, who has been seen, and whether the pool enters now. gathered: canonical rows in canonical order.

    An intake hangs on count and deadline only, and comes only with a release: one that nobody can see would leave a
    segment that no release vouches for. So who would enter waits on where nothing goes out. Whom a file of people names
    enters with the first that does, and all newcomers with them. It is decided over the whole window, also where this
    is split; then some part must have people enough.
    """
    bound, cohorts, began = due.bound, due.policy.cohorts, due.clock()
    timely = still_in_time(due, gathered)
    rows, late = parted(gathered, timely)
    unreleased = reject(due, late, "late")
    part = part_codes(rows, due.policy)
    person, digests = people_in(rows.column(cohorts.individual.name), people_key(due.secret))
    roster, domains = before.roster, dict(before.warm.domains)
    cohort = roster.cohorts_of(digests)
    readable = ~present(whole(rows.column(FAULT_COLUMN)))
    seen = (cohort[person] < 0) & readable
    pool = _waiting(before, due)
    ends = own_ends(rows, bound)
    if seen.any():
        said = picked(rows.select([column.name for column in bound.quasis]), seen)
        pool = pool.having_seen(digests[person[seen]], ends[seen], said, bound, earliest=due.earliest)
    waits = (cohort < 0) & (positions(pool.people, digests) >= 0)
    due_now = None
    if due.slot.window_end is not None:
        due_now = ends + due.policy.waiting_ms <= due.slot.window_end
    must = set() if due_now is None else set(digests[person[due_now & waits[person]]].tolist())
    intake = cohorts.intake_of(roster.head.people)
    # A window that is not split has everybody once.
    everybody = np.stack([np.zeros_like(digests, dtype=np.int64), np.arange(digests.size)])
    there = np.unique(np.stack([part, person]), axis=1) if due.policy.split_by else everybody
    here = _Here(there[0], there[1], digests, cohort >= 0)
    enters = _entering(pool, here, must, intake, due)
    taken = pool.of(enters)
    kept = out = Standing(roster, pool, domains)
    segment, reason = None, INTAKE_TOO_LARGE if (~pool.from_start).sum() > MOST else AWAITS_INTAKE
    if enters.any():
        founded = found(taken, roster.head, bound, domains, seed=due.search_seed, threads=due.threads)
        try:
            check_segment(founded.segment, taken, roster, bound)
        except GateError:
            # Nobody enters without the gate's word, and the others go on.
            reason = "gate_refused"
        else:
            segment = founded.segment
            out = Standing(roster.followed_by(segment), pool.of(~enters), founded.domains)
            cohort = out.roster.cohorts_of(digests)
    known = cohort[person] >= 0
    waiting = ~known & waits[person]
    unreadable = ~known & ~waits[person]
    unreleased += Unreleased(rejected=tuple(fault_records(picked(rows, unreadable), bound)))
    unreleased += hold(due, picked(rows, waiting), reason)
    return Entered(
        picked(rows, known),
        unreleased,
        np.flatnonzero(timely)[known],
        part[known],
        person[known],
        digests,
        cohort[person][known],
        out,
        kept,
        segment,
        taken,
        began,
    )


class _Here(NamedTuple):
    """Who has rows in which part of a window. part, person: int64 (m,), each pair once. digests: uint64 (u,), people's.
    entered: bool (u,), who is in a cohort."""

    part: NDArray[np.int64]
    person: NDArray[np.int64]
    digests: NDArray[np.uint64]
    entered: NDArray[np.bool_]

    def most_with(self, newcomers: NDArray[np.uint64]) -> int:
        """How many people of cohorts the part with most of them has, these newcomers, sorted, among them."""
        inside = self.entered | (positions(newcomers, self.digests) >= 0)
        return int(np.bincount(self.part[inside[self.person]]).max(initial=0))


def _waiting(before: Before, due: Due) -> Pool:
    """Who waits. Of a kind who is known from the start, and too few for a cohort of it, are known by their rows."""
    pool = roster_state(before, due).pool
    few = pool.from_start & ~pool.known_by_file(due.policy.cohorts.cohort_size)
    return pool.of(~few) if few.any() else pool


def _entering(pool: Pool, here: _Here, must: set[int], intake: int, due: Due) -> NDArray[np.bool_]:
    """Who of a pool enters, bool (p,): of those who were seen all or nobody, by count or because a row of one must
    leave; of those who are known from the start all, with the first release.

    must: of whom a row must leave now. intake: how many are enough.
    """
    cohorts, k = due.policy.cohorts, due.policy.k
    first, rest = pool.from_start, ~pool.from_start
    fresh = rest & (pool.tried < 0)
    if fresh.sum() < cohorts.cohort_size:
        rest = rest & ~fresh  # of those who were put together before there are enough
    size = int(rest.sum())
    forced = bool(must) and bool(np.isin(pool.people[rest], np.array(sorted(must), dtype=np.uint64)).any())
    enough = max(cohorts.cohort_size, k) <= size <= MOST and (size >= intake or forced)
    if not (enough and here.most_with(pool.people) >= k):
        rest = np.zeros_like(first)
    # An intake comes only with a release.
    enters = first | rest
    alone = enters.any() and here.most_with(pool.people[enters]) < k
    return np.zeros_like(first) if alone else enters


def roster_state(before: Before, due: Due) -> RosterState:
    """Who waits, and the groups of the last release; of a partition that begins nobody, and none."""
    return before.warm.roster or RosterState(before.roster.head, empty_pool(due.bound))
