"""A release is assessed: its people and controls are attacked, by each reader, and what that gives is put together.

    input, controls    canonical rows, whose each is                                    dry_run.feed
    twin               a release of some of the people, of which the truth is known     twin
    attributes         singling out, linking, inferring, membership, downcoding         attribute_attacks, predicates
    activity           what known windows, purchases and people give                    reader_attacks
    exactly            rows that are alone in what is published as it is                risks.published_exactly

With controls the release itself is attacked by attributes. Without, half of the people are released again, and the
other half are the controls; the release is attacked beside that twin, and the worse of the two is told. Readers of
activity are tried on the twin alone, for only there it is known whose rows are whose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.assess.attribute_attacks import AttributeAttacks, Sides
from kanonflow.pipelines.assess.boxes import AT_ONCE, Mask, Numbers, boxes_and_people
from kanonflow.pipelines.assess.findings import (
    ATTRIBUTES,
    ELSE,
    INFERENCE,
    LINKABILITY,
    SINGLING_OUT,
    Assessment,
    Line,
)
from kanonflow.pipelines.assess.payload_values import payload_values
from kanonflow.pipelines.assess.population import SOURCE, population_uniques
from kanonflow.pipelines.assess.predicates import box_rates
from kanonflow.pipelines.assess.rates import LEAST, Rate
from kanonflow.pipelines.assess.reader_attacks import Bundles, reader_attack
from kanonflow.pipelines.assess.twin import Twin, twin_of
from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.policy_choices import AssessLimits
from kanonflow.schemas.readers import Reader, standard_readers
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.risks.published_exactly import alone_as_published, steady_fields

MOST_PEOPLE = 3_000
"""Of a side, drawn by chance, who are attacked by their attributes."""
MOST_CELLS = 2_000_000_000
"""Boxes times people that are looked at for boxes of one person; of more, boxes are drawn by chance."""
MOST_COUNTED = 20_000
"""People whom predicates over a box are counted on."""
Rates = tuple[Rate, Rate]


class Split(NamedTuple):
    """inside: people who are released, numbers of the feed; outside: controls. given: whether these were given."""

    inside: Numbers
    outside: Numbers
    given: bool


def split_people(feed: Feed, of_controls: Mask, seed: int) -> Split:
    """The controls that were given, or half of the people by chance. of_controls: bool (n,), rows of given ones."""
    people = np.unique(feed.who[~of_controls])
    if of_controls.any():
        return Split(people, np.unique(feed.who[of_controls]), True)
    drawn = np.random.default_rng(seed).permutation(people)
    half = people.size // 2
    return Split(np.sort(drawn[: people.size - half]), np.sort(drawn[people.size - half :]), False)


@dataclass(frozen=True)
class Assessed:
    """feed: rows of input and controls. released: the release. bound: the policy. seed: of all that is drawn."""

    feed: Feed
    released: ReleasedTable
    bound: BoundPolicy
    split: Split
    seed: int
    population: int | None = None


def assess(asked: Assessed) -> Assessment:
    """All attacks. Deterministic. Time: that of a run over the rows, and of attacks, linear in boxes times people."""
    feed, split, policy = asked.feed, asked.split, asked.bound.policy
    limits = policy.assess or AssessLimits()
    enough = min(split.inside.size, split.outside.size) >= LEAST
    lines = list(_of_people(asked, limits)) if enough else list(_too_few(asked, limits))
    lines += [_of_one(asked), *_exactly(asked, limits)]
    if asked.population is not None:
        lines += _population(asked, asked.population)
    order = {name: place for place, name in enumerate((SINGLING_OUT, LINKABILITY, INFERENCE, ELSE))}
    lines.sort(key=lambda line: order[line.question])
    people = np.unique(feed.who).size
    return Assessment(
        policy.name,
        policy.k,
        limits,
        tuple(lines),
        split.inside.size,
        split.outside.size,
        not split.given,
        asked.seed,
        tuple(_notes(asked, people, enough=enough)),
    )


def _notes(asked: Assessed, people: int, *, enough: bool) -> Iterator[str]:
    split = asked.split
    if split.given:
        yield (
            f"Controls: {split.outside.size:,} people of the file that was given; {split.inside.size:,} people of the"
            " input."
        )
    elif enough:
        yield (
            f"No controls were given: half of the {people:,} people were released again under the policy (nothing of it"
            " is written), and the other half are the controls. The release itself was attacked, too, and the worse of"
            " the two is told. Fewer people have larger boxes; controls of the same kind who are in no release say"
            " more (--controls)."
        )
    if not enough:
        yield (
            f"{split.inside.size:,} people and {split.outside.size:,} controls: an interval takes {LEAST} of either, so"
            " no attack was tried and nothing is said of what it would give."
        )


_ATTACKS = (
    (SINGLING_OUT, "one person by one value"),
    (SINGLING_OUT, "one person by several values"),
    (LINKABILITY, "one row by either half"),
    (INFERENCE, "payload"),
)


def _too_few(asked: Assessed, limits: AssessLimits) -> Iterator[Line]:
    why = f"fewer than {LEAST} people on a side: no figure"
    allowed = (None, limits.singling_out, limits.linkability, limits.inference)
    for (question, attack), limit in zip(_ATTACKS, allowed, strict=True):
        yield Line(question, ATTRIBUTES, attack, limit=limit, why=why)


def _of_people(asked: Assessed, limits: AssessLimits) -> Iterator[Line]:
    feed, split, bound = asked.feed, asked.split, asked.bound
    people = _attributes(feed, bound)
    inside = np.zeros(feed.people, dtype=np.bool_)
    inside[split.inside] = True
    twin = twin_of(feed, inside[feed.who], bound)
    released = np.unique(feed.who[twin.row])
    if released.size < LEAST:
        yield from _too_few(asked, limits)
        return
    rng = np.random.default_rng(asked.seed)
    sides = Sides(_some(released, rng), _some(split.outside, rng))
    yield from _by_attributes(asked, people, twin, sides, limits)
    everybody = _some(np.unique(feed.who) if not split.given else split.inside, rng, MOST_COUNTED)
    for each in box_rates(boxes_and_people(asked.released, people, bound), everybody, rng):
        yield Line(SINGLING_OUT, "the release alone", each.name, each.alone)
        if each.either is not None:
            yield Line(SINGLING_OUT, "the release alone", f"{each.name}, or another", each.either)
    yield from _by_activity(asked, people, twin, Sides(released, split.outside))


def _some(people: Numbers, rng: np.random.Generator, most: int = MOST_PEOPLE) -> Numbers:
    return people if people.size <= most else np.sort(rng.choice(people, most, replace=False))


def _attributes(feed: Feed, bound: BoundPolicy) -> pa.Table:
    """The attributes of each person, as of its first window."""
    order = np.lexsort((feed.window, feed.who))
    first = order[np.flatnonzero(np.diff(feed.who[order], prepend=-1))]
    row = np.zeros(feed.people, dtype=np.int64)
    row[feed.who[first]] = first
    return feed.rows.select([column.name for column in bound.quasis]).take(pa.array(row))


def _payload(bound: BoundPolicy) -> list[BoundColumn]:
    return [column for column in bound.payload if column.name not in bound.policy.partition_by]


class _Reached(NamedTuple):
    """What attacks by attributes reached on one release: of each, people and controls."""

    single: tuple[Rates, Rates]
    linked: Rates | None
    inferred: dict[str, Rates]
    member: Rates
    downcoded: Rates | None


def _reached(released: ReleasedTable, asked: Assessed, people: pa.Table, sides: Sides) -> _Reached:
    feed, bound = asked.feed, asked.bound
    both = boxes_and_people(released, people, bound)
    attacks = AttributeAttacks(both, sides, bound.policy.k, asked.seed)
    table = released.arrow()
    fields = [
        payload_values(column, table.column(column.published_name), feed.rows.column(column.name))
        for column in _payload(bound)
    ]
    inferred = {name: (rate, control) for name, rate, control in attacks.inference(fields, feed.who)}
    single = attacks.singling_out(several=False), attacks.singling_out(several=True)
    return _Reached(single, attacks.linkability(), inferred, attacks.membership(), attacks.downcoding())


def _by_attributes(
    asked: Assessed, people: pa.Table, twin: Twin, sides: Sides, limits: AssessLimits
) -> Iterator[Line]:
    itself = _reached(asked.released, asked, people, sides)
    main = itself if asked.split.given else _reached(twin.released, asked, people, sides)

    def line(
        question: str, attack: str, rates: Rates | None, release: Rates | None, limit: float | None, why: str
    ) -> Line:
        if rates is None or release is None:
            return Line(question, ATTRIBUTES, attack, why=why)
        beside = None if asked.split.given else release[0]
        return Line(question, ATTRIBUTES, attack, *rates, beside, limit)

    (one, attack), (_, other), (_, link), _ = _ATTACKS
    # Few predicates over one field can be made of most releases: then there is nothing to judge.
    few = min(main.single[0][0].trials, itself.single[0][0].trials) < LEAST
    yield line(one, attack, main.single[0], itself.single[0], None if few else limits.singling_out, "")
    yield line(one, other, main.single[1], itself.single[1], limits.singling_out, "")
    yield line(
        LINKABILITY, link, main.linked, itself.linked, limits.linkability, "one attribute has no two halves"
    )
    if not main.inferred:
        yield Line(
            INFERENCE,
            ATTRIBUTES,
            "payload",
            why="nothing is published beside the attributes",
        )
    for name, rates in main.inferred.items():
        yield line(INFERENCE, name, rates, itself.inferred[name], limits.inference, "")
    member = line(ELSE, "who is in it (membership)", main.member, itself.member, None, "")
    half = "the half of a range (downcoding)"
    coded = line(ELSE, half, main.downcoded, itself.downcoded, None, "no field is published in ranges")
    yield from (replace(each, advantage=True) for each in (member, coded))


def _by_activity(asked: Assessed, people: pa.Table, twin: Twin, sides: Sides) -> Iterator[Line]:
    feed, bound = asked.feed, asked.bound
    both = boxes_and_people(twin.released, people, bound)
    rows = np.zeros(feed.rows.num_rows, dtype=np.bool_)
    rows[twin.row] = True
    bundles = Bundles(feed.who, feed.window, feed.rows, rows, feed.who[twin.row], twin.cohort)
    table = twin.released.arrow()
    fields = [
        payload_values(column, table.column(column.published_name), feed.rows.column(column.name))
        for column in _payload(bound)
    ]
    for reader in (Reader(), *standard_readers(bound)):
        who = "which rows are one person's" if reader == Reader() else reader.name
        reached = reader_attack(reader, bundles, both, sides, fields, asked.seed)
        if reached is None:
            continue
        yield Line(SINGLING_OUT, who, "one person whose rows fit", *reached.claimed)
        yield Line(LINKABILITY, who, "several rows of that person", *reached.linked)
        best = max(reached.inferred, key=lambda each: each[1].share - each[2].share, default=None)
        if best is not None:
            yield Line(INFERENCE, who, f"{best[0]} of other rows", best[1], best[2])


def _of_one(asked: Assessed) -> Line:
    """Released boxes that hold the rows of one person at most: no grouping of k people made them."""
    feed, bound = asked.feed, asked.bound
    mine = np.flatnonzero(np.isin(feed.who, asked.split.outside, invert=True) | (not asked.split.given))
    codes = [codes_of(feed.rows.column(column.name).combine_chunks()) for column in bound.quasis]
    kinds, first = np.unique(np.stack([feed.who, *codes], axis=1)[mine], axis=0, return_index=True)
    order = np.argsort(kinds[:, 0], kind="stable")
    begins = np.flatnonzero(np.diff(kinds[order, 0], prepend=-1))
    values = feed.rows.select([column.name for column in bound.quasis]).take(pa.array(mine[first[order]]))
    both = boxes_and_people(asked.released, values, bound)
    every = np.arange(values.num_rows)
    boxes = np.random.default_rng(asked.seed).permutation(both.boxes)[: max(MOST_CELLS // every.size, 1)]
    few = 0
    for start in range(0, boxes.size, max(AT_ONCE // every.size, 1)):
        inside = both.holds(every, boxes[start : start + max(AT_ONCE // every.size, 1)])
        few += int((np.logical_or.reduceat(inside, begins, axis=1).sum(axis=1) < 2).sum())
    rate = Rate(float(few), float(boxes.size))
    return Line(SINGLING_OUT, "the release alone", "boxes of one person", rate, limit=0.0, counted=True)


def _exactly(asked: Assessed, limits: AssessLimits) -> Iterator[Line]:
    feed, bound = asked.feed, asked.bound
    rows = np.ones(feed.who.size, dtype=np.bool_)
    if asked.split.given:
        rows = np.isin(feed.who, asked.split.inside)
    own, who = (
        feed.rows.filter(pa.array(rows)).combine_chunks(),
        np.unique(feed.who[rows], return_inverse=True)[1],
    )
    steady = steady_fields(own, bound, who)
    alone = alone_as_published(own, bound, who, steady, people=bool(bound.policy.owner))
    attack = "rows that are alone"
    if alone is None:
        yield Line(
            SINGLING_OUT, "what is published exactly", attack, why="nothing of that kind is published exactly"
        )
        return
    attack += f" in {', '.join(alone.fields)}"
    rate, why = (
        Rate(alone.share * alone.rows, float(alone.rows)),
        "" if alone.judged else "too few rows to tell",
    )
    yield Line(
        SINGLING_OUT, "what is published exactly", attack, rate, limit=limits.exact_uniqueness, why=why
    )


def _population(asked: Assessed, population: int) -> Iterator[Line]:
    feed, bound = asked.feed, asked.bound
    codes = [codes_of(column.combine_chunks()) for column in _attributes(feed, bound).columns]
    mine = np.unique(feed.who) if not asked.split.given else asked.split.inside
    _, sizes = np.unique(np.stack(codes, axis=1)[mine], axis=0, return_counts=True)
    share = population_uniques(sizes.astype(np.int64), population)
    yield Line(
        ELSE,
        f"a register of {population:,} people",
        f"unique there in all attributes: {share:.3f} ({SOURCE})",
    )
