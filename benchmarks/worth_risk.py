"""What does a release give away, by the attacks of ``kanonflow assess``, of people who are in it and controls?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.publishers import Published, Source
from kanonflow.pipelines.assess.attribute_attacks import AttributeAttacks, Sides
from kanonflow.pipelines.assess.boxes import boxes_and_people
from kanonflow.pipelines.assess.payload_values import payload_values
from kanonflow.pipelines.assess.rates import Excess, Rate

MOST_PEOPLE = 3_000
"""Of a side, who are attacked."""


class Risks(NamedTuple):
    """inferred: one payload field, of everybody; rare: of rows that have not the value that most have; member."""

    inferred: Excess
    rare: Excess
    member: Excess


def risks_of(source: Source, each: Published, inside: NDArray[np.int64], guessed: str, seed: int) -> Risks:
    """Of one release. inside: people of the feed who are in it; all others are controls. guessed: the payload."""
    feed, bound = source.feed, source.rows
    random = np.random.default_rng(seed)
    outside = np.setdiff1d(np.unique(feed.who), inside)
    sides = Sides(*(np.sort(random.permutation(side)[:MOST_PEOPLE]) for side in (inside, outside)))
    first = np.unique(feed.who, return_index=True)[1]
    people = feed.rows.select([column.name for column in bound.quasis]).take(pa.array(first))
    both = boxes_and_people(each.read, people, bound)
    attacks = AttributeAttacks(both, sides, each.k or 1, seed)
    (column,) = (column for column in bound.payload if column.name == guessed)
    field = payload_values(
        column, each.read.arrow().column(column.published_name), feed.rows.column(column.name)
    )
    ((_, *rates),) = attacks.inference([field], feed.who)
    rare = field.own != field.common
    ((_, *few),) = attacks.inference([field._replace(own=field.own[rare])], feed.who[rare])
    return Risks(Excess(*rates), Excess(*few), Excess(*attacks.membership(), advantage=True))


def together(risks: Sequence[Excess]) -> Excess:
    """Of several splits of the same people: the mean rates, worth the trials of one split."""

    def mean(rates: Sequence[Rate]) -> Rate:
        trials = float(np.mean([rate.trials for rate in rates]))
        return Rate(float(np.mean([rate.share for rate in rates])) * trials, trials)

    return Excess(
        mean([risk.rate for risk in risks]), mean([risk.control for risk in risks]), risks[0].advantage
    )
