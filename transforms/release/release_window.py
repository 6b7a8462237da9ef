"""One window of one partition, from rows to release: the pure function that every runner and test calls.

release_window(rows, bound, warm, secret, slot) -> WindowResult(release, warm, rejected, metrics)

    waiting rows + new rows -> canonical order -> repeats and expired rows out -> table
      -> too few individuals: all wait | heavy individuals: some rows wait -> solve (warm or cold)
      -> publish through the gate -> cohorts, domains and waiting rows for the next release

It is a deterministic function of its arguments unless a deadline strikes: the order of the rows does not matter, the
search has its own seed, the publishing its own keystream, both derived from the secret and the release's slot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import NotDiverseError, UnservedError
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.units.trimming import kept_rows, row_limit
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.lineage.release_lineage import Slot, unrepeatable
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.encode import RangeDomain, SetDomain, encode
from kanonflow.transforms.release.full_domain import solve_levels_of_rows, with_lattice
from kanonflow.transforms.release.gate import GateError
from kanonflow.transforms.release.ledger import (
    NOT_DIVERSE,
    OVER_LIMIT,
    Ledger,
    deadlines,
    own_ends,
)
from kanonflow.transforms.release.matching_record import CertificateHead, certify
from kanonflow.transforms.release.metrics import Attempt, window_metrics
from kanonflow.transforms.release.publish import Published, publish
from kanonflow.transforms.release.recorded_solution import belongs_to, solution_from_bytes, solution_to_bytes
from kanonflow.transforms.release.sensitive_values import sensitive_fields
from kanonflow.transforms.release.warm_state import Cohorts, Events, WarmState
from kanonflow.transforms.release.window_structures import (
    described,
    earlier_structure,
    kept_records,
    next_cohorts,
    solver_shape,
)
from kanonflow.transforms.rows.elements import Certificate, Release, to_ipc
from kanonflow.transforms.secret.seeds import (
    ReleaseSlot,
    Secret,
    array_digest,
    publish_keystream,
    release_id,
    search_seed,
)

Clock = Callable[[], float]
Recorded = Callable[[ReleaseSlot], bytes | None]
"""What the committed release of a place was published from; None: it is not committed."""


_DIGEST_DIGITS = 32


class WindowResult(NamedTuple):
    """release: None when nothing went out. rejected: records of rejected.avsc. metrics: a record of metrics.avsc.

    certificate: of the release, where one was asked for.
    """

    release: Release | None
    warm: WarmState
    rejected: list[dict[str, Any]]
    metrics: dict[str, Any]
    certificate: Certificate | None = None


def _people(
    rows: pa.Table, bound: BoundPolicy, secret: Secret
) -> tuple[NDArray[np.int64] | None, NDArray[np.uint64]]:
    """Whom each row belongs to, int64 (n,), and the keyed digest of each individual."""
    field = bound.policy.individual
    if field is None:
        return None, np.empty(0, dtype=np.uint64)
    encoded = whole(rows.column(field.name)).dictionary_encode()
    names = render_text(encoded.dictionary).to_pylist()
    digests = person_digests(names, secret.lasting.derive("partition", "people"))
    return np.asarray(encoded.indices).astype(np.int64), digests


def _rows_of_each(rows: pa.Table, bound: BoundPolicy) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Whom each row belongs to, as ``_people`` has it, and how many rows each individual has."""
    field = bound.policy.individual
    if field is None:
        return None, np.ones(rows.num_rows, dtype=np.int64)
    codes = np.asarray(whole(rows.column(field.name)).dictionary_encode().indices).astype(np.int64)
    return codes, np.bincount(codes)


def _gather(
    warm: WarmState, rows: pa.Table | None, ledger: Ledger, secret: Secret, slot: ReleaseSlot
) -> tuple[pa.Table, NDArray[np.int64], Events]:
    """Waiting and new rows in canonical order, repeats rejected; where each row stood (waiting rows first), events.

    Why first of all: which of several repeats stays, and the order of rejected rows, must not follow from arrival,
    or a retry that sees the rows in another order would be another release.
    """
    bound = ledger.bound
    parts = [part for part in (warm.waiting, rows) if part is not None]
    together = pa.concat_tables(parts) if parts else bound.canonical_schema.empty_table()
    together = together.combine_chunks()
    origin = canonical_order(together, bound, secret)
    ordered = together.take(pa.array(origin))
    field = bound.policy.event_id
    if field is None:
        return ordered, origin, warm.events
    new = origin >= warm.waiting_rows
    names = render_text(whole(ordered.column(field.name))).to_pylist()
    digests = person_digests(names, secret.lasting.derive("partition", "events"))
    fresh = np.zeros(digests.size, dtype=np.bool_)
    places = np.flatnonzero(new)
    fresh[places[np.unique(digests[places], return_index=True)[1]]] = True
    fresh &= ~np.isin(digests, np.concatenate([known for _, known in warm.events] or [digests[:0]]))
    keep = fresh | ~new
    ledger.reject(ordered.filter(pa.array(~keep)), "duplicate_event", field.name)
    end = slot.window_end if slot.window_end is not None else 0
    recent = tuple((at, known) for at, known in warm.events if at > end - bound.policy.state_ttl_ms)
    if fresh.any():
        recent = (*recent, (end, np.sort(digests[fresh])))
    return ordered.filter(pa.array(keep)), origin[keep], recent


def _solve(
    rows: pa.Table,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    threads: int,
    clock: Clock,
    recorded: Recorded | None = None,
) -> tuple[Solution, Any, Any, Any, NDArray[np.bool_] | None]:
    """The structure over canonical rows; with the encoding and the people it was found for, and the rows that a
    lattice solver suppresses (None: another solver).

    Where a clock has a part in the search, a release that is made again takes the recorded structure.
    """
    policy = bound.policy
    individuals, digests = _people(rows, bound, secret)
    encoded = encode(rows, bound, individuals, warm.domains)
    if recorded is not None and by_the_clock(policy) and (data := recorded(slot)) is not None:
        name = release_id(secret, policy.name, slot)
        recorded_solution = solution_from_bytes(data, belongs_to(secret, name, policy, rows))
        if recorded_solution is None:
            raise unrepeatable(name)
        return recorded_solution, encoded, individuals, digests, None
    choice = policy.solver
    seed = search_seed(secret, slot) if choice.seed is None else choice.seed
    if policy.by_levels:
        solution, suppressed = solve_levels_of_rows(rows, bound, seed, warm.known, individuals)
        return solution, encoded, individuals, digests, suppressed
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
        threads=threads,
        warm=earlier,
        priority=own_ends(rows, bound),
        sensitive=sensitive_fields(rows, bound),
        clock=clock,
    )
    return _solved_as_asked_or_else(task, choice.method), encoded, individuals, digests, None


def by_the_clock(policy: Policy) -> bool:
    """Whether what a window is published from depends on how fast the machine was."""
    return policy.solver.deadline_ms is not None and not policy.by_levels


def _solved_as_asked_or_else(task: Task, method: str) -> Solution:
    """By the policy's method and start; by the default ones where the window has outgrown those.

    A part takes in what earlier ones left, so that it may be larger than ``max_window_rows``: that must neither end the
    feed nor lose rows. ``start`` in the window's metrics says what it was released from.
    """
    try:
        return solve(task, method)
    except UnservedError:
        return solve(replace(task, start="auto"))


def _next_cohorts(
    solution: Solution, individuals: Any, digests: Any, warm: WarmState, bound: BoundPolicy, end: int
) -> Cohorts:
    if individuals is None or bound.policy.solver.method == "pass-through":
        # One class of everybody is nothing to come back to, and its pairs would fill the memory.
        return Cohorts()
    return next_cohorts(solution.structure, individuals, digests, warm.cohorts, bound.policy, end)


def _publish(
    rows: pa.Table, solution: Solution, bound: BoundPolicy, secret: Secret, name: str, window: tuple
) -> Published:
    structure = solution.structure
    content = content_digest(rows)
    keystream = publish_keystream(secret, name, array_digest(described(structure)), content)
    return publish(rows, structure, bound, keystream, name, window)


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
    certificates: bool = False,
    recorded: Recorded | None = None,
) -> WindowResult:
    """Release a window, or hold or reject what cannot be released.

    rows: canonical rows that arrived since the partition's last release (None: none did), of this window or late.
    slot: the release's place; its window_end is the end of the window that closed, None without windows.
    resting: of a window in parts, the waiting rows that are none of this part's: they wait on, as the first of those in
    the returned state. more: whether other parts follow, which take what this one leaves (see ``release_parts``).
    certificates: make a certificate of the release (matching_record.py); the release is the same with and without.
    recorded: where a deadline may have struck when this release was made before, what it was published from then.

    Precondition: the windows before this one have been released, and ``warm`` is what the last call returned.
    Postcondition: new + waiting rows = released + rejected + rows that wait in the returned state; what is released
    has passed the gate; equal arguments give equal bytes (with a deadline: if what was recorded is given).
    Raises ReleaseConflictError: what was recorded is not of these rows.
    Why: rows are lost or published twice nowhere but here. Time: the solver's, plus O(n k d + n log n).
    """
    policy = bound.policy
    new = 0 if rows is None else rows.num_rows
    ledger = Ledger(bound, [], [], [], slot.window_end, more)
    attempt = Attempt(bound, slot, release_id(secret, policy.name, slot), new, warm.waiting_rows)
    attempt.certify, attempt.recorded = certificates, recorded
    attempt.known = warm.known
    warm = ledger.rest(warm, resting)
    candidates, _, events = _gather(warm, rows, ledger, secret, slot)
    if slot.window_end is not None:
        gone = deadlines(candidates, bound) < slot.window_end
        ledger.reject(candidates.filter(pa.array(gone)), "late")
        candidates = candidates.filter(pa.array(~gone))
    release, cohorts, domains = _release(
        candidates, ledger, bound, warm, secret, slot, threads, clock, attempt
    )
    return _result(release, ledger, attempt, warm, cohorts, domains, events, secret)


def _result(
    release: Release | None,
    ledger: Ledger,
    attempt: Attempt,
    before: WarmState,
    cohorts: Cohorts,
    domains: dict[str, RangeDomain | SetDomain],
    events: Events,
    secret: Secret,
) -> WindowResult:
    waiting = pa.concat_tables(ledger.waiting).combine_chunks() if ledger.waiting else None
    state = WarmState(waiting, tuple(ledger.waiting_reasons), cohorts, domains, events, attempt.known)
    metrics = window_metrics(attempt, state, before, ledger.rejected, secret.version)
    return WindowResult(release, state, ledger.rejected, metrics, attempt.certificate)


def _release(
    rows: pa.Table,
    ledger: Ledger,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    threads: int,
    clock: Clock,
    attempt: Attempt,
) -> tuple[Release | None, Cohorts, Any]:
    """Trim, solve and publish rows in canonical order; those that stay behind go to the ledger."""
    policy = bound.policy
    individuals, counts = _rows_of_each(rows, bound)
    if counts.size < policy.k:
        ledger.hold(rows, "too_few_peers")
        return None, warm.cohorts, warm.domains
    if individuals is not None and policy.protect is Protection.ROW:
        limit = row_limit(counts, policy.k)
        kept = kept_rows(individuals, np.full(counts.size, limit), own_ends(rows, bound))
        ledger.hold(rows.filter(pa.array(~kept)), OVER_LIMIT)
        rows = rows.filter(pa.array(kept))
    began = clock()
    try:
        solution, encoded, individuals, digests, suppressed = _solve(
            rows, bound, warm, secret, slot, threads, clock, attempt.recorded
        )
    except NotDiverseError:
        # Like too few individuals: with other rows the same ones may do.
        ledger.hold(rows, NOT_DIVERSE)
        return None, warm.cohorts, warm.domains
    solved = clock()
    attempt.known = solution.known
    kept_now = kept_records(solution.structure)
    if kept_now is not None:
        if suppressed is not None:
            ledger.suppress(rows, kept_now, suppressed)
        else:
            ledger.hold_back(rows, kept_now, individuals)
        if not kept_now.any():
            return None, warm.cohorts, encoded.domains
    released = rows if kept_now is None else rows.filter(pa.array(kept_now))
    start = int(own_ends(released, bound).min()) - (policy.window_ms or 0) if policy.window_ms else None
    window = (start, slot.window_end)
    try:
        published = _publish(rows, solution, bound, secret, attempt.release_id, window)
        if attempt.certify:
            head = CertificateHead(attempt.release_id, slot, window)
            attempt.certificate = certify(rows, solution.structure, published, bound, secret, head)
    except GateError:
        # Never out without the gate's word, and never an exception that would stop the feed for ever.
        ledger.reject(released, "gate_refused")
        return None, warm.cohorts, encoded.domains
    cohorts = _next_cohorts(solution, individuals, digests, warm, bound, slot.window_end or 0)
    milliseconds = ((solved - began) * 1000.0, (clock() - solved) * 1000.0)
    attempt.record(solution, encoded, published, individuals, start, *milliseconds)
    table, name = published.rows.combine_chunks(), attempt.release_id
    attempt.facts["digest"] = digest = content_digest(table).hex()[:_DIGEST_DIGITS]
    taken = Slot(slot.partition, slot.window_end, slot.release_no, name, digest, secret.version)
    record = None
    if by_the_clock(policy):
        record = solution_to_bytes(solution, belongs_to(secret, name, policy, rows))
    release = Release(name, start, slot.window_end, to_ipc(table, compressed=True), taken, record)
    return release, cohorts, encoded.domains


def expire(
    bound: BoundPolicy, warm: WarmState, late: pa.Table | None, secret: Secret, slot: ReleaseSlot
) -> WindowResult:
    """Reject the waiting and late rows whose time is over at ``slot.window_end``; nothing is released.

    late: rows that arrived after their window was released and found no later one since. Those whose time is not
    over wait on.
    """
    ledger = Ledger(bound, [], [], [], slot.window_end)
    name = release_id(secret, bound.policy.name, slot)
    new = 0 if late is None else late.num_rows
    attempt = Attempt(bound, slot, name, new, warm.waiting_rows, kind="expiry")
    attempt.known = warm.known
    rows, origin, events = _gather(warm, late, ledger, secret, slot)
    reasons = np.array([*warm.waiting_reason, *["late"] * new], dtype=object)[origin]
    for reason in sorted(set(reasons)):
        ledger.hold(rows.filter(pa.array(reasons == reason)), reason)
    return _result(None, ledger, attempt, warm, warm.cohorts, warm.domains, events, secret)


def earliest_deadline(state: WarmState, bound: BoundPolicy) -> int | None:
    """When the first waiting row must be released or rejected, in ms; None when none waits or there are no windows."""
    held = state.waiting if bound.policy.window_ms is not None else None
    return None if held is None else int(deadlines(held, bound).min())
