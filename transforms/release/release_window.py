"""One window of one partition, from rows to release: the pure function that every runner and test calls.

release_window(rows, bound, warm, secret, slot) -> WindowResult(release, warm, rejected, metrics)

    gather    waiting and new rows in canonical order, repeats out
    admit     late rows out; too few individuals: all wait; heavy individuals: some of their rows wait
    solve     the rows as numbers, and a structure over them, warm or cold; what it leaves out waits or is suppressed
    issue     boxes and payloads through the gate; cohorts for the next release
    account   what waits, what is rejected, the metrics, and the state for the next release

Each stage returns what it found (``stages``) and leaves what it was given as it is.

It is a deterministic function of its arguments unless a deadline strikes: the order of the rows does not matter, the
search has its own seed, the publishing its own keystream, both derived from the secret and the release's slot.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import NotDiverseError, UnservedError
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.columns.encode import Encoded, encode
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.lineage.release_lineage import unrepeatable
from kanonflow.transforms.release.candidates import admit, gather, without_rejected
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.release.due import Clock, Due, Recorded
from kanonflow.transforms.release.full_domain import solve_levels_of_rows, with_lattice
from kanonflow.transforms.release.issue import issue
from kanonflow.transforms.release.ledger import (
    NOT_DIVERSE,
    OVER_LIMIT,
    SUPPRESSED,
    Unreleased,
    deadlines,
    hold,
    own_ends,
    picked,
    reject,
)
from kanonflow.transforms.release.metrics import release_metrics, window_metrics
from kanonflow.transforms.release.recorded_solution import belongs_to, solution_from_bytes
from kanonflow.transforms.release.sensitive_values import sensitive_fields
from kanonflow.transforms.release.stages import Answer, Gathered, People, Publication, Solved
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.release.window_structures import earlier_structure, solver_shape
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.rows.elements import MatchingRecord, Release
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, people_key, search_seed


class WindowResult(NamedTuple):
    """release: None when nothing went out. rejected: records of rejected.avsc. metrics: a record of metrics.avsc.

    matching_record: of the release, where one was asked for.
    roster: with ``cohort: lasting``, who is known now; segment: what it grew by, as bytes, None: by nothing.
    """

    release: Release | None
    warm: WarmState
    rejected: list[dict[str, Any]]
    metrics: dict[str, Any]
    matching_record: MatchingRecord | None = None
    roster: Roster | None = None
    segment: bytes | None = None


def release_window(
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    *,
    threads: int = 1,
    clock: Clock = time.monotonic,
    resting: NDArray[np.bool_] | None = None,
    more: bool = False,
    matching_records: bool = False,
    compressed: bool = True,
    recorded: Recorded | None = None,
) -> WindowResult:
    """Release a window, or hold or reject what cannot be released.

    rows: canonical rows that arrived since the partition's last release (None: none did), of this window or late.
    slot: the release's place; its window_end is the end of the window that closed, None without windows.
    resting: of a window in parts, the waiting rows that are none of this part's: they wait on, as the first of those in
    the returned state. more: whether other parts follow, which take what this one leaves (see ``release_parts``).
    matching_records: make one of the release (matching_record.py); the release is the same with and without.
    compressed: whether the release's rows are compressed, which is for those that leave the process.
    recorded: where a deadline may have struck when this release was made before, what it was published from then.

    Precondition: the windows before this one have been released, and ``warm`` is what the last call returned.
    Postcondition: new + waiting rows = released + rejected + rows that wait in the returned state; what is released
    has passed the gate; equal arguments give equal bytes (with a deadline: if what was recorded is given).
    Raises ReleaseConflictError: what was recorded is not of these rows.
    Why: rows are lost or published twice nowhere but here. Time: the solver's, plus O(n k d + n log n).
    """
    due = Due(
        bound,
        secret,
        slot,
        more=more,
        matching_records=matching_records,
        compressed=compressed,
        threads=threads,
        clock=clock,
        recorded=recorded,
    )
    gathered = gather(due, warm, rows, resting)
    admitted = admit(due, gathered.rows)
    solved = _solve_rows(due, admitted.rows, warm)
    issued = issue(due, solved.answer, warm.cohorts)
    unreleased = gathered.unreleased + admitted.unreleased + solved.unreleased + issued.unreleased
    return _account(due, warm, gathered, unreleased, solved.answer, issued.publication)


def expire(
    bound: BoundPolicy, warm: WarmState, late: pa.Table | None, secret: Secret, slot: ReleaseSlot
) -> WindowResult:
    """Reject the waiting and late rows whose time is over at ``slot.window_end``; nothing is released.

    late: rows that arrived after their window was released and found no later one since. Those whose time is not
    over wait on.
    """
    due = Due(bound, secret, slot, kind="expiry")
    gathered = gather(due, warm, late)
    reasons = np.array([*warm.waiting_reason, *["late"] * gathered.new], dtype=object)[gathered.origin]
    unreleased = gathered.unreleased
    for reason in sorted(set(reasons)):
        unreleased += hold(due, gathered.rows.filter(pa.array(reasons == reason)), reason)
    return _account(due, warm, gathered, unreleased)


def earliest_deadline(state: WarmState, bound: BoundPolicy) -> int | None:
    """When the first waiting row must be released or rejected, in ms; None when none waits or there are no windows."""
    held = state.waiting if bound.policy.window_ms is not None else None
    return None if held is None else int(deadlines(held, bound).min())


def _solve_rows(due: Due, rows: pa.Table, warm: WarmState) -> Solved:
    """A structure over admitted rows, and the rows that it leaves out."""
    if rows.num_rows == 0:
        return Solved()
    try:
        answer = _answer(due, rows, warm)
    except NotDiverseError:
        # Like too few individuals: with other rows the same ones may do.
        return Solved(unreleased=hold(due, rows, NOT_DIVERSE))
    return Solved(answer, _left_out(due, answer))


def _left_out(due: Due, answer: Answer) -> Unreleased:
    """The rows that the structure does not release, each for its reason."""
    rows, kept = answer.rows, answer.kept
    if kept is None:
        return Unreleased()
    if answer.suppressed is not None:
        # What is neither kept nor suppressed is above what enough individuals share.
        suppressed = reject(due, picked(rows, answer.suppressed), SUPPRESSED)
        return suppressed + hold(due, picked(rows, ~kept & ~answer.suppressed), OVER_LIMIT)
    who = np.arange(rows.num_rows) if answer.people.of_row is None else answer.people.of_row
    over = np.isin(who, who[kept])
    unserved = NOT_DIVERSE if due.policy.ruled else "held_back"
    return hold(due, picked(rows, ~kept & over), OVER_LIMIT) + hold(
        due, picked(rows, ~kept & ~over), unserved
    )


def _answer(due: Due, rows: pa.Table, warm: WarmState) -> Answer:
    """Rows as numbers, and what the solver finds for them. Raises NotDiverseError."""
    began = due.clock()
    people = people_of(rows, due)
    encoded = encode(rows, due.bound, people.of_row, warm.domains)
    solution, suppressed = _solve(due, rows, people, encoded, warm)
    taken = due.milliseconds_since(began)
    return Answer(rows, people, encoded, solution, suppressed, taken, content_digest(rows))


def people_of(rows: pa.Table, due: Due) -> People:
    """Whom canonical rows belong to, by the policy's field. O(n), and a digest for each individual."""
    field = due.policy.individual
    if field is None:
        return People(None, np.empty(0, dtype=np.uint64))
    return People(*people_in(rows.column(field.name), people_key(due.secret)))


def _solve(
    due: Due, rows: pa.Table, people: People, encoded: Encoded, warm: WarmState
) -> tuple[Solution, NDArray[np.bool_] | None]:
    """The structure over canonical rows, and the rows that a lattice solver suppresses (None: another solver).

    Where a clock has a part in the search, a release that is made again takes the recorded structure.
    """
    bound, policy, (individuals, digests) = due.bound, due.policy, people
    if due.recorded is not None and due.by_the_clock and (data := due.recorded(due.slot)) is not None:
        recorded_solution = solution_from_bytes(data, belongs_to(due.secret, due.release_id, policy, rows))
        if recorded_solution is None:
            raise unrepeatable(due.release_id)
        return recorded_solution, None
    choice = policy.solver
    seed = search_seed(due.secret, due.slot) if choice.seed is None else choice.seed
    if policy.by_levels:
        return solve_levels_of_rows(rows, bound, seed, warm.known, individuals)
    earlier: Any = None
    if individuals is not None and choice.method != "pass-through":
        earlier = earlier_structure(policy, warm.cohorts, digests)
    task = Task(
        with_lattice(encoded.table, rows, bound),
        policy.k,
        shape=solver_shape(policy),
        start=choice.start,
        loss=choice.loss,
        budget=Budget(choice.evaluations_per_row, choice.deadline_ms),
        seed=seed,
        threads=due.threads,
        warm=earlier,
        priority=own_ends(rows, bound),
        sensitive=sensitive_fields(rows, bound),
        clock=due.clock,
    )
    return _solved_as_asked_or_else(task, choice.method), None


def _solved_as_asked_or_else(task: Task, method: str) -> Solution:
    """By the policy's method and start; by the default ones where the window has outgrown those.

    A part takes in what earlier ones left, so that it may be larger than ``max_window_rows``: that must neither end the
    feed nor lose rows. ``start`` in the window's metrics says what it was released from.
    """
    try:
        return solve(task, method)
    except UnservedError:
        return solve(replace(task, start="auto"))


def _account(
    due: Due,
    before: WarmState,
    gathered: Gathered,
    unreleased: Unreleased,
    answer: Answer | None = None,
    publication: Publication | None = None,
) -> WindowResult:
    """What a window leaves. unreleased: all of its rows that did not go out.

    What an answer taught of domains and of levels stays, though nothing of it was published.
    """
    rejected = list(unreleased.rejected)
    state = replace(
        before,
        waiting=unreleased.waiting_rows,
        waiting_reason=unreleased.reasons,
        events=without_rejected(due, gathered.events, rejected),
    )
    if answer is not None:
        state = replace(state, domains=answer.encoded.domains, known=answer.solution.known)
    if publication is not None:
        state = replace(state, cohorts=publication.cohorts)
    metrics = window_metrics(due, gathered, state, rejected)
    if answer is None or publication is None:
        return WindowResult(None, state, rejected, metrics)
    metrics |= release_metrics(due.bound, answer, publication, before.cohorts)
    return WindowResult(publication.release, state, rejected, metrics, publication.matching_record)
