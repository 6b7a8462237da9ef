"""(S) with partitions cut into shards: trails of two of a cohort exchanged decide nothing, neither which shard somebody
goes to nor what is released there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from kanonflow.schemas.bound_policy import bind
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.secret.seeds import people_key
from kanonflow.transforms.shards.make_plan import make_plan
from kanonflow.transforms.shards.route import RouteInMemory
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.windows.expected_people import ExpectedCohorts
from tests.privacy.test_swap import OF_CELLS, pair_of_a_generation
from tests.privacy.test_swap_people import expected_rows, named_of, with_idle
from tests.small_feeds import SECRET
from tests.swapped_feeds import EPOCH, Course, TrailFeed, disturbed, facts, generated_feed, run

pytestmark = pytest.mark.thorough

FEEDS = 60


def planned(feed: TrailFeed, named: Iterable[int], shards: int) -> ShardPlan:
    """A plan from the people who are named."""
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    rows = expected_rows(feed, named)
    person, digests = people_in(rows.column("who"), people_key(SECRET))
    return make_plan(rows, digests[person], bound, shards).plan


def played(feed: TrailFeed, named: list[int], plan: ShardPlan) -> Course:
    """A course that began with them, in their shards."""
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    expected = ExpectedCohorts(expected_rows(feed, named), bound, SECRET, EPOCH, plan)
    shards, memory = Shards(plan, bound, SECRET), FirstPartitions()
    for key, people in expected.people:
        # Fewer are known by their rows, and go by these.
        partition = shards.partition_of.get(key)
        if partition is not None and people.size >= feed.policy.cohorts.cohort_size:
            memory = memory.having(key, in_partition(partition, people))
    route = RouteInMemory(shards, people_key(SECRET), memory)
    return run(feed, expected, route)


@pytest.mark.parametrize("first", range(0, FEEDS, 10))
def test_exchanging_trails_shows_nothing_over_shards(first: int) -> None:
    """People of a file and newcomers; rows after entry may say anything, in two shards or three."""
    cut = strangers = several = 0
    for seed in range(first, first + 10):
        feed = with_idle(generated_feed(seed), seed)
        named = named_of(feed, seed)
        plan = planned(feed, named, 2 + seed % 2)
        course = played(feed, named, plan)
        keys = {entry.partition for entry in course.entered.values()}
        cut += len(keys) > 1
        strangers += any(person not in named for person in course.entered)
        for turn in range(3):
            changes = pair_of_a_generation(course, np.random.default_rng([seed, turn]))
            other = disturbed(course, seed, unreadable=False).exchanged(changes)
            assert facts(played(other, named, plan), OF_CELLS) == facts(course, OF_CELLS), f"feed {seed}"
            several += 1
    assert cut
    assert strangers
    assert several == 30
