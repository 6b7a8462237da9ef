"""How long windows of a feed should be: the shortest that bring most of what longer ones can. One rule, for
``kanonflow explain``, which advises it, and for ``kanonflow policy draft``, which begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.pipelines.dry_run.measures import saved, worthwhile
from kanonflow.pipelines.dry_run.side_by_side import side_by_side
from kanonflow.pipelines.explain.solved import MOST_PEOPLE, OF_COHORTS, lengths_within
from kanonflow.pipelines.explain.variants import changed
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.durations import format_duration, offset_of_weeks


class Advised(NamedTuple):
    """bound: the policy with the advised window, and max_delay of two. costs: loss by length of a window in ms, a
    rejected row counting as lost."""

    bound: BoundPolicy
    costs: Mapping[int, float]

    @property
    def words(self) -> str:
        """A line of a draft."""
        played = ", ".join(f"{format_duration(length)} {cost:.3f}" for length, cost in self.costs.items())
        return f"window: played over the feed, cohorts that last lose by window (rejected rows as lost): {played}"


def advised_window(rows: pa.Table, bound: BoundPolicy) -> Advised | None:
    """The window that a feed is played best in, of the policy's and longer ones; None: there is no choice.

    rows: canonical rows of the feed. bound: a policy with a window. Deterministic. Time: that of so many dry runs.
    """
    own = bound.policy.window_ms or 0
    longer = [each for each in lengths_within(rows, bound) if each > own]
    if not longer:
        return None
    tried = {own: bound} | {each: _with_window(bound, each) for each in longer}
    feed = feed_of(rows, bound).first_people(bound, MOST_PEOPLE)
    played = side_by_side(feed, list(tried.values()), lambda policy: OF_COHORTS, queries=0)
    costs = {length: each.measures.cost for length, each in zip(tried, played, strict=True)}
    # Until the advice would be to leave it.
    while good := worthwhile({each: saved(costs[own], costs[each]) for each in longer if each > own}):
        own = min(good)
    return Advised(tried[own], costs)


def _with_window(bound: BoundPolicy, length: int) -> BoundPolicy:
    lengths = {"window": length, "window_offset": offset_of_weeks(length), "max_delay": 2 * length}
    return changed(bound, {key: format_duration(each) for key, each in lengths.items()})
