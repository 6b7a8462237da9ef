"""One window of cohorts that last, split by what its rows say (``split_by``): one roster, a release for each part.

release_split(protection, due, before, rows) -> WindowResult, WindowResult, ...

    gather, admit    once, over the whole window: who is known, who enters, what is too late
    parts            by the values of the split fields, in their order; those with fewer than k people wait
    solve ... leave  of each part, as of a window of its own, one after the other

Who enters does so with the first part that goes out: one release vouches for a segment, and later ones know it.
What is decided follows from how many people of each cohort are here in each part: exchanging all rows of two people of
a cohort decides nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.protections.intake import Entered
from kanonflow.transforms.protections.protection import Protection
from kanonflow.transforms.release.account import WindowResult, account
from kanonflow.transforms.release.candidates import gather
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.issue import issue
from kanonflow.transforms.release.ledger import Unreleased, hold, wait
from kanonflow.transforms.release.stages import Before


def release_split(
    protection: Protection[Any, Any], due: Due, before: Before, rows: pa.Table | None
) -> Iterator[WindowResult]:
    """Release a window as ``release_window`` does, each part by itself.

    due: of the first part; the others have the numbers that follow. Without a part of k people there is one result, and
    no release. rows: canonical rows that came; None: none did.

    Postcondition: that of ``release_window`` for each result, where the rows waiting include those of parts to come
    that had waited before; the sums over all results are those of the window. The first has all that no part takes.
    """
    gathered = gather(due, before.warm, rows)
    entered: Entered = protection.admit(due, gathered.rows, before)
    parts, few = _parts(entered, due.policy.k)
    origin = gathered.origin[entered.place]
    # A closing release takes none of those that wait: all that it has gathered came.
    waited = origin < (0 if due.closing else before.warm.waiting_rows)
    came = [int((~waited[own]).sum()) for own in parts] or [0]
    came[0] = gathered.new - sum(came[1:])
    reasons = np.array(before.warm.waiting_reason, dtype=object)
    unreleased = gathered.unreleased + entered.unreleased
    unreleased += hold(due, entered.rows.take(pa.array(few)), "too_few_peers")
    state, events = before.warm, gathered.events
    for number, own in enumerate(parts or [few[:0]]):
        its = replace(due, slot=due.slot._replace(release_no=due.slot.release_no + number))
        stands = before._replace(warm=state)
        part = _only(entered, own, its)
        solved = protection.solve(its, part, stands)
        issued = issue(its, solved.answer)
        left = protection.leave(its, stands, part, solved, issued.publication)
        unreleased += solved.unreleased + issued.unreleased
        later = np.concatenate([own[waited[own]] for own in (few[:0], *parts[number + 1 :])])
        resting = wait(entered.rows.take(pa.array(later)), tuple(reasons[origin[later]]))
        books = replace(gathered, new=came[number], waited=state.waiting_rows, events=events)
        result = account(its, stands, books, unreleased + resting, left, issued.publication)
        yield result
        state, events = result.warm, result.warm.events
        # What is rejected is gone; what waits does so in the books of the next part, too.
        unreleased = replace(unreleased, rejected=())
        if issued.publication is not None:
            entered = _having_entered(entered)


def _parts(entered: Entered, k: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Positions of the rows of each part with k people or more, in the parts' order; and of all others. O(n log n)."""
    order = np.argsort(entered.part, kind="stable")
    own = np.split(order, np.flatnonzero(np.diff(entered.part[order])) + 1) if order.size else []
    large = [np.unique(entered.person[rows]).size >= k for rows in own]
    few = [rows for rows, enough in zip(own, large, strict=True) if not enough]
    return (
        [rows for rows, enough in zip(own, large, strict=True) if enough],
        np.sort(np.concatenate([order[:0], *few])),
    )


def _only(entered: Entered, own: NDArray[np.int64], due: Due) -> Entered:
    """What is handed on of one part. own: positions of its rows, ascending."""
    return replace(
        entered,
        rows=entered.rows.take(pa.array(own)),
        unreleased=Unreleased(),
        place=entered.place[own],
        part=entered.part[own],
        person=entered.person[own],
        cohort=entered.cohort[own],
        began=due.clock(),
    )


def _having_entered(entered: Entered) -> Entered:
    """The same once a release has vouched for who entered."""
    nobody = np.zeros(entered.taken.people.size, dtype=np.bool_)
    return replace(entered, kept=entered.out, segment=None, taken=entered.taken.of(nobody))
