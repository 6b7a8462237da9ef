"""What other policies would lose on this feed, played over stretches of it, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.pipelines.dry_run.measures import Measures
from kanonflow.pipelines.dry_run.side_by_side import side_by_side
from kanonflow.pipelines.dry_run.stretch import Budget
from kanonflow.pipelines.explain.people_in_windows import LENGTHS_MS
from kanonflow.pipelines.explain.variants import Group, Refused, Variant, variants
from kanonflow.pipelines.risks.no_size_helps import no_size_helps
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.value_units import to_units

OF_COHORTS = Budget(18_000, 48, whole=(45_000, 60))
OF_OTHERS = Budget(6_000, 60)
"""Merging cohorts that last takes a fifth of the time of other searches."""
MOST_PEOPLE = 10_000
_LEAST_LENGTHS = 2
_QUERIES = 25


class Tried(NamedTuple):
    """A variant, and what it came to."""

    variant: Variant
    measures: Measures

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        figures: dict[str, Any] = {
            "group": str(self.variant.group),
            "name": self.variant.name,
            "change": dict(self.variant.change),
        }
        if self.variant.promise:
            figures["promise"] = self.variant.promise
        return figures | self.measures.to_json()


@dataclass(frozen=True)
class Solved:
    """tried: every variant; the policy itself, with change {}, among them, of each group. refused: variants that are no
    policies. played: what of the feed, in words, by length of a window. rows, left_out: rows of the feed that was
    looked at, and those after the time at which ``MOST_PEOPLE`` had come. helpless: whom no size of cohorts helps, in
    words; (): nobody lasts in cohorts."""

    own: Measures
    tried: tuple[Tried, ...]
    refused: tuple[Refused, ...]
    played: tuple[str, ...]
    rows: int
    left_out: int
    helpless: tuple[str, ...] = ()

    def of(self, group: Group) -> tuple[Tried, ...]:
        """The variants of a group, in their order."""
        return tuple(each for each in self.tried if each.variant.group is group)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "rows": self.rows,
            "left_out": self.left_out,
            "played": list(self.played),
            "tried": [each.to_json() for each in self.tried],
            "helpless": list(self.helpless),
            "refused": [asdict(each) | {"group": str(each.group)} for each in self.refused],
        }


def solve_variants(
    rows: pa.Table,
    bound: BoundPolicy,
    follows: Sequence[str],
    *,
    needed: Sequence[str] = (),
    expected: pa.Table | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Solved:
    """Try every variant of a policy on stretches of the feed. Deterministic.

    rows: canonical rows of the whole feed. follows, needed: of ``variants``. expected: as of ``Feed``. workers:
    threads; None: one a core. tell: where it is said how long it takes, before it begins.
    """
    feed = feed_of(rows, bound, expected).first_people(bound, MOST_PEOPLE)
    lengths = [] if bound.policy.window_ms is None else lengths_within(feed.rows, bound)
    asked, refused = variants(bound, lengths, follows, needed)
    # Equal changes are equal policies: the policy itself stands in several groups.
    different = {repr(sorted(each.change.items())): each.bound for each in asked}
    if tell is not None:
        tell(f"tries {len(different)} policies over {feed.rows.num_rows:,} rows or stretches of them")

    def begins(left: int, seconds: float) -> None:
        if tell is not None:
            tell(f"one is tried; the other {left} take about {max(1, round(seconds)):,} s")

    # Its own comes first: the others are like it.
    different = {repr([]): different[repr([])], **different}
    played = side_by_side(
        feed, list(different.values()), budget_of, queries=_QUERIES, workers=workers, begins=begins
    )
    by_change = dict(zip(different, played, strict=True))
    tried = tuple(Tried(each, by_change[repr(sorted(each.change.items()))].measures) for each in asked)
    stretches = sorted({each.length or 0: each.told for each in reversed(played)}.items())
    against = any(each.group is Group.AGAINST for each in asked)
    return Solved(
        by_change[repr([])].measures,
        tried,
        refused,
        tuple(told for _, told in stretches),
        feed.rows.num_rows,
        rows.num_rows - feed.rows.num_rows,
        tuple(each.words for each in no_size_helps(feed, bound)) if against else (),
    )


def budget_of(policy: Policy) -> Budget:
    """What may be played of a feed under a policy."""
    return OF_COHORTS if policy.promise.epochs else OF_OTHERS


def lengths_within(rows: pa.Table, bound: BoundPolicy) -> list[int]:
    """The lengths of windows that fit into the feed twice, in ms."""
    assert bound.policy.time is not None
    times = to_units(rows.column(bound.policy.time.name))[0]
    span = int(times.max() - times.min()) if times.size else 0
    return [length for length in LENGTHS_MS if _LEAST_LENGTHS * length <= span]
