"""What would cohorts of so many people lose over this feed, and whom would they leave to a reader who knows more?

The product itself is played, once a size, and once more among planted accounts:

    play(feed, bound, size) -> PlayedSize       cohorts as a run would found them, and a stretch of its releases
    figures_of(played, feed) -> SizeFigures     loss, and candidates under a known match, planted accounts, churn
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import bdtr

from kanonflow.pipelines.dry_run.dry_run import Cohorts, DryRun, cohorts_of, dry_run
from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.pipelines.dry_run.stretch import Budget, entries_of, stretch_of
from kanonflow.schemas.bound_policy import BoundPolicy

Numbers = NDArray[np.int64]
MOST_PEOPLE = 10_000
PLANTS = 4
STAY = 0.8
"""Share of people who are still there a year later, where the reader knows who has left."""
_RELEASED = Budget(10_000, 14)
_ONE_OF, _MOST_VICTIMS, _LEAST_VICTIMS, _MOST_PLANTINGS = 25, 200, 20, 5
_SEED = 1


class Left(NamedTuple):
    """Candidates that a reader is left with. mean: of them. below: share of the people left with fewer than k."""

    mean: float
    below: float


class PlayedSize(NamedTuple):
    """size: people a cohort at least. run: of the first ``MOST_PEOPLE`` people. cohorts: of all members of the feed."""

    size: int
    run: DryRun
    cohorts: Cohorts


class SizeFigures(NamedTuple):
    """Of cohorts of ``size``: loss of the frozen boxes, loss as released, and who is left to a reader."""

    size: int
    loss: float
    merged: float | None
    match: Left | None
    plants: Left | None
    one_year: Left | None
    three_years: Left | None


def play(feed: Feed, bound: BoundPolicy, size: int) -> PlayedSize:
    """Play the policy with cohorts of ``size`` people or more. Deterministic. Time: that of ``dry_run``.

    The search's seed is the policy's, or one of a fixed secret.
    """
    bound = _of_size(bound, size)
    early = feed.first_people(bound, MOST_PEOPLE)
    run = dry_run(early, bound, stretch_of(early, bound.policy, _RELEASED, everybody=True))
    return PlayedSize(size, run, cohorts_of(run, feed))


def figures_of(played: PlayedSize, feed: Feed) -> SizeFigures | None:
    """What cohorts of the size come to; None: nobody has entered. Time: up to five times that of ``play``."""
    cohorts, bound = played.cohorts, played.run.bound
    if cohorts.loss is None:
        return None
    return SizeFigures(
        played.size,
        cohorts.loss,
        played.run.mean("gcp"),
        after_match(cohorts.sizes, bound.policy.k),
        after_plants(played, feed),
        after_churn(cohorts.sizes, bound.policy.k, 1.0),
        after_churn(cohorts.sizes, bound.policy.k, 3.0),
    )


def _of_size(bound: BoundPolicy, size: int) -> BoundPolicy:
    intake = max(bound.policy.cohorts.intake, size)
    return dataclasses.replace(
        bound, policy=dataclasses.replace(bound.policy, cohort_size=size, intake=intake)
    )


def after_match(sizes: Numbers, k: int) -> Left:
    """Left when the reader knows one match in everybody's cohort. sizes: int64 (c,), people of each, c >= 1."""
    return _left(sizes, sizes - 1, k)


def after_churn(sizes: Numbers, k: int, years: float) -> Left:
    """Left when the reader knows who has gone: a member is there after a year with probability ``STAY``.

    Whoever is looked for is there: 1 + Binomial(size - 1, STAY^years).
    """
    stay, others = STAY**years, sizes - 1
    # Of no more than k - 2 others fewer than k - 1 stay for certain; bdtr knows no such case.
    below = np.where(others > k - 2, bdtr(float(k - 2), np.maximum(others, k - 1), stay), 1.0)
    return Left(_left(sizes, 1.0 + others * stay, k).mean, float(np.average(below, weights=sizes)))


def _left(sizes: Numbers, candidates: Numbers | NDArray[np.float64], k: int) -> Left:
    mean = float(np.average(candidates.astype(np.float64), weights=sizes))
    return Left(mean, float(np.average(candidates < k, weights=sizes)))


def after_plants(played: PlayedSize, feed: Feed) -> Left | None:
    """Left when ``PLANTS`` accounts with a person's own rows come together with that person: the others that are in its
    cohort, and itself; None: nobody has entered.

    Tried with a 25th of the people at a time.
    """
    feed, rng = feed.first_people(played.run.bound, MOST_PEOPLE), np.random.default_rng(_SEED)
    bound = _with_new_names(played.run.bound)
    inside = np.flatnonzero(cohorts_of(played.run, feed).cohort >= 0)
    victims = min(max(inside.size // _ONE_OF, 1), _MOST_VICTIMS)
    left: list[Numbers] = []
    for _ in range(min(_MOST_PLANTINGS, -(-_LEAST_VICTIMS // victims)) if inside.size else 0):
        chosen = rng.choice(inside, victims, replace=False)
        planted = with_plants(feed, bound, chosen)
        cohorts = cohorts_of(dry_run(planted, bound, entries_of(planted, bound.policy)), planted)
        real = (cohorts.cohort >= 0) & (planted.person < feed.people)
        members = np.bincount(cohorts.cohort[real], minlength=cohorts.sizes.size)
        is_chosen = np.isin(_places(planted), _places(feed)[chosen])
        left.append(members[cohorts.cohort[is_chosen & real]])
    counts = np.concatenate([np.empty(0, dtype=np.int64), *left])
    if not counts.size:
        return None
    return Left(float(counts.mean()), float((counts < bound.policy.k).mean()))


def _with_new_names(bound: BoundPolicy) -> BoundPolicy:
    """The policy over a feed whose people have names of our own, which are texts."""
    individual = bound.policy.cohorts.individual.name
    return dataclasses.replace(
        bound,
        columns=tuple(
            dataclasses.replace(column, arrow_type=pa.string()) if column.name == individual else column
            for column in bound.columns
        ),
    )


def _places(feed: Feed) -> Numbers:
    """A number for each member, the same in every feed of these partitions, int64 (m,)."""
    return feed.person * feed.partitions + feed.home


def with_plants(feed: Feed, bound: BoundPolicy, members: Numbers) -> Feed:
    """The feed with ``PLANTS`` more people for each of some members, who have all of its rows. Their numbers are those
    from ``feed.people`` on; everybody's name is a new one."""
    individual = bound.policy.cohorts.individual
    copied = np.tile(np.flatnonzero(np.isin(feed.member, members)), PLANTS)
    rows = np.append(np.arange(feed.who.size), copied)
    place = np.searchsorted(np.sort(members), feed.member[copied])
    turn = np.repeat(np.arange(PLANTS), copied.size // PLANTS)
    who = np.append(feed.who, feed.people + turn * members.size + place)
    table = feed.rows.take(pa.array(rows))
    at = table.schema.get_field_index(individual.name)
    table = table.set_column(at, individual.name, pa.array(who).cast(pa.string()))
    return Feed(table.combine_chunks(), who, feed.partition[rows], feed.window[rows])
