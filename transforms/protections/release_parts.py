"""One window of one partition, however large: released in one part, or in several one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.protections.part_cohorts import after_all_parts, before_next_part
from kanonflow.transforms.protections.protection import A, Protection, S
from kanonflow.transforms.protections.release_window import release_window
from kanonflow.transforms.protections.split_window import release_split
from kanonflow.transforms.protections.window_parts import WindowParts
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import OVER_LIMIT
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.release.warm_state import Cohorts

_NEXT_WINDOW = -1


def release_parts(
    protection: Protection[A, S], due: Due, before: Before, rows: pa.Table | None
) -> Iterator[WindowResult]:
    """Release a window as ``release_window`` does, in parts where its protection cuts it.

    due: of the first part; the others have the numbers that follow. Waiting rows count, and are cut, like new ones.
    Yields the result of each part as soon as it is there; the state in the last one is what the window leaves.

    What a part leaves behind, the next one tries with its own rows, if it is all that an individual has in the window.
    An individual of whom other rows were released waits for the next window: its rows in two releases of one window
    would say together who has more rows than most.

    Postcondition: that of ``release_window`` for each result, where the rows waiting include those of parts to come;
    the sums over all results are those of the window. Holds the rows, their quasi-identifiers as numbers, and one
    part's rows a second time.
    """
    if due.policy.split_by:
        yield from release_split(protection, due, before, rows)
        return
    warm = before.warm
    cut = protection.parts(due, rows, warm)
    if cut is None or len(cut.groups) == 1:
        yield release_window(protection, due, before, rows)
        return
    turns = _turns(cut, warm.waiting_rows)
    # One domain for the whole window: those of its parts alone are narrow just where it was cut.
    state = replace(warm, domains=cut.domains)
    released: list[Cohorts] = []
    for number, group in enumerate(cut.groups):
        last = number == len(cut.groups) - 1
        own = group[group >= warm.waiting_rows] - warm.waiting_rows
        resting = turns != number
        slot = due.slot._replace(release_no=due.slot.release_no + number)
        result = release_window(
            protection,
            replace(due, slot=slot, more=not last),
            before._replace(warm=state),
            None if rows is None else rows.take(pa.array(own)),
            resting,
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
        turns = np.concatenate([turns[resting], np.where(held == OVER_LIMIT, _NEXT_WINDOW, number + 1)])


def _turns(cut: WindowParts, waiting: int) -> NDArray[np.int64]:
    """The part of each waiting row, int64 (waiting,); those that no part may take wait for the next window."""
    turns = np.full(waiting, _NEXT_WINDOW, dtype=np.int64)
    for number, group in enumerate(cut.groups):
        turns[group[group < waiting]] = number
    return turns
