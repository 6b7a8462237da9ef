"""The search on a partition: descend, then kick, in chunks between which the clock, the trace and shares are kept."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.partition_search.group_loss import refresh_all, total_loss
from kanonflow.solvers.partition_search.groups import Groups
from kanonflow.solvers.partition_search.kicks import kick
from kanonflow.solvers.partition_search.moves import descend
from kanonflow.solvers.partition_search.released_shares import released_shares
from kanonflow.solvers.partition_search.ruin import build_ruin
from kanonflow.solvers.partition_search.rules import ValueRules
from kanonflow.solvers.search.rounds import Effort
from kanonflow.solvers.search.workspace import build_workspace, push_all
from kanonflow.solvers.units.individuals import Individuals

# Rounds between two entries of the trace.
ROUNDS = 8
MOST_AT_ONCE = 200_000
# Moves of one kick that can be undone; a descent that has made more stops there.
LOG = 512


class Found(NamedTuple):
    """groups: the state at the end, of any loss. trace: (evaluations, loss) after each round; () if nobody asks."""

    groups: Any
    evaluations: int
    struck: bool
    trace: list[tuple[int, float]]


def search_partition(
    people: Individuals,
    groups: Any,
    tour: NDArray[np.int64],
    nearest: NDArray[np.int32],
    effort: Effort,
    rules: ValueRules | None = None,
    *,
    whole: bool = True,
    traced: bool = True,
) -> Found:
    """Lower the loss of a state, in place, by so many evaluations, and one kick more at most.

    tour: int64 (u,), near units follow each other. nearest: int32 (u, m), of each, -1 for none. whole: these are all
    that is released, so that the shares of the values of ``rules`` follow what the search keeps. traced: False where
    nobody reads the trace. Rounds are for it, for the clock, for who is told and for shares; else there is one.

    Postcondition: the loss is not higher. A function of the arguments but for a deadline. One evaluation is a group
    that is priced.
    """
    log = max(LOG, 4 * int(groups.k[0]))
    work = build_workspace(tour.size, max(tour.size, groups.size.size), effort.seed, log=log)
    ruin = build_ruin(people) if rules is None and isinstance(groups, Groups) else None
    # Who waits first: a budget that ends early has placed them.
    push_all(work, tour[np.argsort(groups.label[tour] >= 0, kind="stable")])
    trace: list[tuple[int, float]] = []
    position, struck, draining = 0, False, True
    chunk = max(1, min(effort.evaluations // ROUNDS, MOST_AT_ONCE))
    if not traced and rules is None and effort.deadline is None and effort.progress is None:
        chunk = effort.evaluations
    while work.evaluations[0] < effort.evaluations:
        if effort.deadline is not None and effort.clock() >= effort.deadline:
            struck = True
            break
        until = min(int(work.evaluations[0]) + chunk, effort.evaluations)
        if whole and rules is not None and released_shares(people, groups, rules):
            refresh_all(people, groups, rules)
        if draining:
            work.logged[0] = 0
            descend(people, groups, nearest, work, until, rules)
            draining = work.bounds[0] != work.bounds[1]
        else:
            position = kick(people, groups, nearest, work, tour, position, until, ruin, rules)
        if traced or effort.progress is not None:
            trace.append((int(work.evaluations[0]), total_loss(people, groups)))
        if effort.progress is not None:
            effort.progress(*trace[-1])
    return Found(groups, int(work.evaluations[0]), struck, trace)
