"""One window of one partition, however large: released in one part, or in several one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.part_cohorts import after_all_parts, before_next_part
from kanonflow.transforms.release_window import Clock, WindowResult, release_window
from kanonflow.transforms.seeds import ReleaseSlot, Secret
from kanonflow.transforms.warm_state import Cohorts, WarmState
from kanonflow.transforms.window_ledger import NEXT_WINDOW
from kanonflow.transforms.window_parts import WindowParts, window_parts

_NEXT_WINDOW = -1


def release_parts(
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    *,
    threads: int = 1,
    clock: Clock = time.monotonic,
    resting: NDArray[np.bool_] | None = None,
    certificates: bool = False,
) -> Iterator[WindowResult]:
    """Release a window as ``release_window`` does, in parts if it has more than ``max_window_rows`` rows.

    slot: of the first part; the others have the numbers that follow. Waiting rows count, and are cut, like new
    ones. resting: the waiting rows that none of the parts may take, bool (waiting,); None: all may be taken.
    Yields the result of each part as soon as it is there; the state in the last one is what the window leaves.

    What a part leaves behind, the next one tries with its own rows, if it is all that an individual has in the window.
    An individual of whom other rows were released waits for the next window: its rows in two releases of one window
    would say together who has more rows than most.

    Postcondition: that of ``release_window`` for each result, where the rows waiting include those of parts to come;
    the sums over all results are those of the window. Holds the rows, their quasi-identifiers as numbers, and one
    part's rows a second time.
    """
    new = 0 if rows is None else rows.num_rows
    cut = None
    taken = np.arange(warm.waiting_rows) if resting is None else np.flatnonzero(~resting)
    if taken.size + new > bound.policy.max_window_rows:
        waiting = None if warm.waiting is None else warm.waiting.take(pa.array(taken))
        tables = [table for table in (waiting, rows) if table is not None]
        cut = window_parts(
            pa.concat_tables(tables), bound, bound.policy.max_window_rows, secret, warm.domains
        )
        places = np.concatenate([taken, warm.waiting_rows + np.arange(new)])
        cut = cut._replace(groups=[places[group] for group in cut.groups])
    if cut is None or len(cut.groups) == 1:
        yield release_window(
            rows,
            bound,
            warm,
            secret,
            slot,
            threads=threads,
            clock=clock,
            resting=resting,
            certificates=certificates,
        )
    else:
        turns = _turns(cut, warm.waiting_rows)
        yield from _release_each(cut, turns, rows, bound, warm, secret, slot, threads, clock, certificates)


def _release_each(
    cut: WindowParts,
    turns: NDArray[np.int64],
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    threads: int,
    clock: Clock,
    certificates: bool,
) -> Iterator[WindowResult]:
    # One domain for the whole window: those of its parts alone are narrow just where it was cut.
    state = replace(warm, domains=cut.domains)
    released: list[Cohorts] = []
    for number, group in enumerate(cut.groups):
        last = number == len(cut.groups) - 1
        own = group[group >= warm.waiting_rows] - warm.waiting_rows
        resting = turns != number
        result = release_window(
            None if rows is None else rows.take(pa.array(own)),
            bound,
            state,
            secret,
            slot._replace(release_no=slot.release_no + number),
            threads=threads,
            clock=clock,
            resting=resting,
            more=not last,
            certificates=certificates,
        )
        if result.release is not None:
            released.append(result.warm.cohorts)
        cohorts = (
            after_all_parts(warm.cohorts, released)
            if last
            else before_next_part(warm.cohorts, result.warm.cohorts)
        )
        state = replace(result.warm, cohorts=cohorts)
        yield result._replace(warm=state)
        held = np.array(state.waiting_reason[int(resting.sum()) :], dtype=object)
        turns = np.concatenate(
            [turns[resting], np.where(np.isin(held, NEXT_WINDOW), _NEXT_WINDOW, number + 1)]
        )


def _turns(cut: WindowParts, waiting: int) -> NDArray[np.int64]:
    """The part of each waiting row, int64 (waiting,); those that no part may take wait for the next window."""
    turns = np.full(waiting, _NEXT_WINDOW, dtype=np.int64)
    for number, group in enumerate(cut.groups):
        turns[group[group < waiting]] = number
    return turns
