"""What the protections have in common that put rows together anew in each window: a search over the window's rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.promises.lasting import ONE_CLASS
from kanonflow.schemas.promises.promise import Promise
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import NotDiverseError, UnservedError
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.columns.encode import Encoded, encode
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.lineage.release_lineage import unrepeatable
from kanonflow.transforms.protections.rows_as_lattice import with_lattice
from kanonflow.transforms.protections.sensitive_values import sensitive_fields
from kanonflow.transforms.protections.solver_refusals import refusals_of_search
from kanonflow.transforms.protections.window_parts import WindowParts, window_parts
from kanonflow.transforms.release.candidates import in_time
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import (
    NOT_DIVERSE,
    OVER_LIMIT,
    Unreleased,
    hold,
    own_ends,
    picked,
)
from kanonflow.transforms.release.recorded_solution import belongs_to, solution_from_bytes
from kanonflow.transforms.release.stages import Admitted, Answer, Before, Left, People, Publication, Solved
from kanonflow.transforms.release.warm_state import Cohorts, WarmState
from kanonflow.transforms.secret.seeds import people_key


class Afresh:
    """A protection of each window alone.

    earlier: what the last windows leave for the solver of this one, whose people have such digests.
    spread: whether rows of one individual are kept apart, so that parts must hold enough others.
    """

    shape: str
    earlier: Callable[[Cohorts, NDArray[np.uint64]], WarmClasses | WarmGraph | None]
    merges = False
    lasts = False
    expiry = "expire"
    spread = False

    def answer(self, promise: Promise) -> str:
        """As of ``Protection``."""
        return f"classes of {promise.units}"

    def refusals(self, policy: Policy) -> list[str]:
        """As of ``Protection``."""
        return refusals_of_search(policy, self.shape)

    def parts(self, due: Due, rows: pa.Table | None, warm: WarmState) -> WindowParts | None:
        """Parts of at most ``max_window_rows``."""
        tables = [table for table in (warm.waiting, rows) if table is not None]
        limit = due.policy.max_window_rows
        if sum(table.num_rows for table in tables) <= limit:
            return None
        together = pa.concat_tables(tables)
        return window_parts(together, due.bound, limit, due.secret, warm.domains, distinct=self.spread)

    def left_by(self, rows: pa.Table, bound: BoundPolicy) -> WarmState:
        """Running domains, of all that was seen."""
        return WarmState(domains=encode(rows, bound, None, {}).domains)

    def admit(self, due: Due, rows: pa.Table, before: Before) -> Admitted:
        """Out go rows whose time is over, and all rows where fewer than k individuals are left. O(n log n)."""
        rows, unreleased = in_time(due, rows)
        individuals, counts = _rows_of_each(rows, due.bound)
        if counts.size < due.policy.k:
            return Admitted(rows.slice(0, 0), unreleased + hold(due, rows, "too_few_peers"))
        rows, over = self.within_limits(due, rows, individuals, counts)
        return Admitted(rows, unreleased + over)

    def within_limits(
        self, due: Due, rows: pa.Table, individuals: NDArray[np.int64] | None, counts: NDArray[np.int64]
    ) -> tuple[pa.Table, Unreleased]:
        """The rows that the structure can hold, and the others. individuals: whose each row is; None: its own.

        counts: rows of each individual.
        """
        return rows, Unreleased()

    def solve(self, due: Due, admitted: Admitted, before: Before) -> Solved:
        """The rows as numbers, and what the solver finds for them."""
        rows = admitted.rows
        if rows.num_rows == 0:
            return Solved()
        began = due.clock()
        people = people_of(rows, due)
        encoded = encode(rows, due.bound, people.of_row, before.warm.domains)
        try:
            solution, suppressed = self.solution(due, rows, people, encoded, before.warm)
        except NotDiverseError:
            # Like too few individuals: with other rows the same ones may do.
            return Solved(unreleased=hold(due, rows, NOT_DIVERSE))
        taken = due.milliseconds_since(began)
        answer = Answer(rows, people, encoded, solution, taken, content_digest(rows))
        kept = answer.kept
        left_out = Unreleased() if kept is None else self.left_out(due, answer, kept, suppressed)
        return Solved(answer, left_out)

    def solution(
        self, due: Due, rows: pa.Table, people: People, encoded: Encoded, warm: WarmState
    ) -> tuple[Solution, NDArray[np.bool_] | None]:
        """The structure over canonical rows, and the rows that it gives up for good, bool (n,); None: it gives up none.

        Where a clock has a part in the search, a release that is made again takes the recorded structure.
        Raises NotDiverseError.
        """
        policy, choice = due.policy, due.policy.solver
        if due.recorded is not None and due.by_the_clock and (data := due.recorded(due.slot)) is not None:
            recorded = solution_from_bytes(data, belongs_to(due.secret, due.release_id, policy, rows))
            if recorded is None:
                raise unrepeatable(due.release_id)
            return recorded, None
        comes_back = people.of_row is not None and not _one_class(due)
        task = Task(
            with_lattice(encoded.table, rows, due.bound),
            policy.k,
            shape=self.shape,
            start=choice.start,
            loss=choice.loss,
            budget=Budget(choice.evaluations_per_row, choice.deadline_ms),
            seed=due.search_seed,
            threads=due.threads,
            warm=self.earlier(warm.cohorts, people.digests) if comes_back else None,
            priority=own_ends(rows, due.bound),
            sensitive=sensitive_fields(rows, due.bound),
            clock=due.clock,
            parameters=dict(choice.parameters),
        )
        return _solved_as_asked_or_else(task, choice.method), None

    def left_out(
        self, due: Due, answer: Answer, kept: NDArray[np.bool_], suppressed: NDArray[np.bool_] | None
    ) -> Unreleased:
        """The rows that the structure does not release, each for its reason. kept: bool (n,), those that it does."""
        rows = answer.rows
        who = np.arange(rows.num_rows) if answer.people.of_row is None else answer.people.of_row
        over = np.isin(who, who[kept])
        unserved = NOT_DIVERSE if due.policy.ruled else "held_back"
        return hold(due, picked(rows, ~kept & over), OVER_LIMIT) + hold(
            due, picked(rows, ~kept & ~over), unserved
        )

    def leave(
        self,
        due: Due,
        before: Before,
        admitted: Admitted,
        solved: Solved,
        publication: Publication | None,
    ) -> Left:
        """What an answer taught of domains and of levels stays, though nothing of it was published."""
        state = before.warm
        if (answer := solved.answer) is not None:
            state = replace(state, domains=answer.encoded.domains, known=answer.solution.known)
        if publication is None:
            return Left(state, None)
        of_row, cohorts = publication.answer.people.of_row, Cohorts()
        if of_row is not None and not _one_class(due):
            cohorts = self.cohorts(due, publication.answer, of_row, state.cohorts)
        return Left(replace(state, cohorts=cohorts), publication.release)

    def cohorts(self, due: Due, answer: Answer, of_row: NDArray[np.int64], before: Cohorts) -> Cohorts:
        """Who was together, for the next release. of_row: whose each row is."""
        raise NotImplementedError


def people_of(rows: pa.Table, due: Due) -> People:
    """Whom canonical rows belong to, by the policy's field. O(n), and a digest for each individual."""
    field = due.policy.individual
    if field is None:
        return People(None, np.empty(0, dtype=np.uint64))
    return People(*people_in(rows.column(field.name), people_key(due.secret)))


def _one_class(due: Due) -> bool:
    """Of everybody: that is nothing to come back to, and its pairs would fill the memory."""
    return due.policy.solver.method == ONE_CLASS


def _solved_as_asked_or_else(task: Task, method: str) -> Solution:
    """By the policy's method and start; by the default ones where the window has outgrown those.

    A part takes in what earlier ones left, so that it may be larger than ``max_window_rows``: that must neither end the
    feed nor lose rows. ``start`` in the window's metrics says what it was released from.
    """
    try:
        return solve(task, method)
    except UnservedError:
        return solve(replace(task, start="auto", parameters={}))


def _rows_of_each(rows: pa.Table, bound: BoundPolicy) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Whom each row belongs to, int64 (n,), None: itself; and how many rows each individual has."""
    field = bound.policy.individual
    if field is None:
        return None, np.ones(rows.num_rows, dtype=np.int64)
    codes = np.asarray(whole(rows.column(field.name)).dictionary_encode().indices).astype(np.int64)
    return codes, np.bincount(codes)
