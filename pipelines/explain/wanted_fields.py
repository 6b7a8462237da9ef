"""What to leave out, and what to weigh, for those who count by some fields, measured by what their counts are off.

    the policy      as it is
    a field less    each other quasi-identifier in turn, then beside the best of them each other one
    weighed         the fields that are counted by weigh ``WEIGHT`` times as much, with all fields, and without those of
                    the best try

Every try releases the same stretch of the feed ``SECRETS`` times, each time by another secret, so with other people
together. Its releases are asked, as ``estimate`` asks them, for counts by bands of each field, and of two or three of
them together (``analysis/band_counts.py``). True is what the rows of the stretch say, rejected ones among them. What is
told of an error is the median over the secrets, and the least and the most of them: how much depends on who is
together, and no more. A try is *better* if its errors are smaller by every secret, in the mean of all that is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.band_counts import (
    MOST_FIELDS,
    BandErrors,
    Bands,
    band_errors,
    bands_of,
    counts_by,
)
from kanonflow.pipelines.analysis.query_error import own_column
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.dry_run.dry_run import dry_run
from kanonflow.pipelines.dry_run.feed import Feed, feed_of
from kanonflow.pipelines.dry_run.field_width import FieldWidth
from kanonflow.pipelines.dry_run.measures import LEAST_GAIN, saved, worthwhile
from kanonflow.pipelines.dry_run.stretch import Stretch, stretch_of
from kanonflow.pipelines.explain.solved import MOST_PEOPLE, budget_of
from kanonflow.pipelines.explain.variants import changed, left_out
from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy_fields import Role
from kanonflow.transforms.secret.seeds import Secret

SECRETS = 4
WEIGHT = 4.0


class CountedBy(NamedTuple):
    """What is asked: counts by bands of fields. bands: how many are judged. width: of one field in ranges, its bands'
    as they are told; None: categories, or several fields."""

    fields: tuple[str, ...]
    bands: int
    width: FieldWidth | None

    @property
    def name(self) -> str:
        """For a table's head."""
        return " x ".join(self.fields)


class ExpectedError(NamedTuple):
    """Of a count by bands, as a share of it. median: over bands, of the secrets the middle; least, most: of them.
    ninth: what of ten bands nine are not above."""

    median: float
    least: float
    most: float
    ninth: float


@dataclass(frozen=True)
class Try:
    """change: the keys of the policy file that make it; of a field ``weight`` is added to its keys, and ``role:
    identifier`` stands in the place of them. errors: of each question. loss, rows, rejected: means over the secrets;
    rows: that were released, rejected: the share of all that leave. by_secret: the mean error of all questions."""

    change: Mapping[str, Any]
    loss: float | None
    rows: float
    rejected: float
    errors: tuple[ExpectedError, ...]
    by_secret: tuple[float, ...]

    @property
    def name(self) -> str:
        """In tables."""
        ways = [f"without {' and '.join(self.without)}"] if self.without else []
        ways += [f"{' and '.join(self.weighed)} {WEIGHT:g} times the weight"] if self.weighed else []
        return ", ".join(ways) or "the policy"

    @property
    def error(self) -> float:
        """The mean of all."""
        return float(np.mean(self.by_secret))

    def better_than(self, other: Try) -> bool:
        """Whether it is by every secret, and by more than two samples of one policy differ."""
        each = all(own < its for own, its in zip(self.by_secret, other.by_secret, strict=True))
        return each and saved(other.error, self.error) >= LEAST_GAIN

    @property
    def without(self) -> tuple[str, ...]:
        """Fields that are left out."""
        return tuple(name for name, keys in self.change.get("fields", {}).items() if "role" in keys)

    @property
    def weighed(self) -> tuple[str, ...]:
        """Fields that weigh otherwise."""
        return tuple(name for name, keys in self.change.get("fields", {}).items() if "weight" in keys)

    @property
    def lines(self) -> tuple[str, ...]:
        """Of the policy file, under ``fields``."""
        return tuple(
            f"{name}: {{role: identifier}}" if "role" in keys else f"{name}: weight: {keys['weight']:g}"
            for name, keys in self.change.get("fields", {}).items()
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        figures = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return figures | {
            "name": self.name,
            "change": dict(self.change),
            "errors": [each._asdict() for each in self.errors],
            "by_secret": list(self.by_secret),
            "error": self.error,
            "policy_lines": list(self.lines),
        }


@dataclass(frozen=True)
class Wanted:
    """fields: that are counted by. asked: each of them, and two or three together. tries: the policy first, then the
    others, those with smaller errors first. rows: of the stretch."""

    fields: tuple[str, ...]
    asked: tuple[CountedBy, ...]
    tries: tuple[Try, ...]
    rows: int

    @property
    def own(self) -> Try:
        """The policy."""
        return self.tries[0]

    @property
    def best(self) -> Try | None:
        """Of the tries that are better than the policy and save most of what any does, the one that leaves out the
        fewest fields, for what a field is worth cannot be measured; then by error. None: none is better."""
        better = [each for each in self.tries[1:] if each.better_than(self.own)]
        gains = {place: saved(self.own.error, each.error) for place, each in enumerate(better)}
        good = [better[place] for place in worthwhile(gains)]
        return min(good, key=lambda each: (len(each.without), each.error), default=None)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "fields": list(self.fields),
            "rows": self.rows,
            "secrets": SECRETS,
            "asked": [
                {
                    "fields": list(each.fields),
                    "bands": each.bands,
                    "width": None if each.width is None else each.width.median,
                    "unit": None if each.width is None else each.width.unit,
                }
                for each in self.asked
            ],
            "tried": [each.to_json() for each in self.tries],
            "best": None if self.best is None else self.best.name,
        }


def wanted_fields(
    table: pa.Table,
    bound: BoundPolicy,
    names: Sequence[str],
    *,
    expected: pa.Table | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Wanted:
    """Try what would make counts by some fields better, on the stretch that ``solve_variants`` plays. Deterministic.

    table: canonical rows of the whole feed. names: quasi-identifiers, that no try leaves out. expected: as of ``Feed``.
    workers: dry runs at a time; None: one a core. tell: where it is said how much is tried, before it begins.
    Raises InputError: there is nobody to count. Time: that of some 2 f dry runs of f other quasi-identifiers, by each
    secret.
    """
    feed = feed_of(table, bound, expected).first_people(bound, MOST_PEOPLE)
    stretch = stretch_of(feed, bound.policy, budget_of(bound.policy))
    rows = feed.rows.filter(pa.array(stretch.counted)).combine_chunks()
    playing = _Playing(feed, bound, stretch, _questions(rows, bound, names), rows)
    others = [
        field.name for field in bound.policy.fields if field.role is Role.QUASI and field.name not in names
    ]
    weighed = {name: {"weight": WEIGHT * _weight(bound, name)} for name in names}
    if tell is not None:
        most = 2 * len(others) + 2
        tell(f"for {', '.join(names)}: tries up to {most} policies by {SECRETS} secrets each")
    with ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1) as pool:

        def played(changes: Sequence[Mapping[str, Any]]) -> list[Try]:
            possible = list(playing.possible(changes))
            jobs = [(made, secret) for _, made in possible for secret in range(SECRETS)]
            results = list(pool.map(lambda job: playing.once(*job), jobs))
            return [
                playing.summed(change, results[place * SECRETS : (place + 1) * SECRETS])
                for place, (change, _) in enumerate(possible)
            ]

        (own,) = played([{}])
        tries = played([left_out([name]) for name in others])
        best = min(tries, key=lambda each: each.error, default=own)
        if best is not own:
            first = list(best.change["fields"])
            tries += played([left_out([*first, name]) for name in others if name not in first])
            best = min(tries, key=lambda each: each.error)
        without = best.change.get("fields", {}) if best.better_than(own) else {}
        tries += played([{"fields": keys} for keys in [weighed, *([without | weighed] if without else [])]])
    tries.sort(key=lambda each: each.error)
    return Wanted(tuple(names), tuple(each.asked for each in playing.questions), (own, *tries), rows.num_rows)


class _Question(NamedTuple):
    """asked: it. bands: of each of its fields. true: rows in each combination."""

    asked: CountedBy
    bands: tuple[Bands, ...]
    true: np.ndarray


class _Once(NamedTuple):
    loss: float | None
    rows: int
    rejected: float
    errors: tuple[BandErrors, ...]


@dataclass(frozen=True)
class _Playing:
    """rows: that count, of which is asked."""

    feed: Feed
    bound: BoundPolicy
    stretch: Stretch
    questions: tuple[_Question, ...]
    rows: pa.Table

    def possible(
        self, changes: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[Mapping[str, Any], BoundPolicy]]:
        """Changes that make policies."""
        for change in changes:
            try:
                yield change, changed(self.bound, change)
            except PolicyError:
                # The policy itself is played as it is, whatever else it cannot be.
                if not change:
                    raise

    def once(self, bound: BoundPolicy, number: int) -> _Once:
        """A policy by one secret."""
        secret = Secret(b"kanonflow explain --for, secret %d" % number)
        run = dry_run(self.feed, bound, self.stretch, secret=secret)
        released = ReleasedTable.of(run.released, bound)
        published = {column.name: column.published_name for column in bound.columns}
        errors = []
        for each in self.questions:
            columns = [released.column(published[name]) for name in each.asked.fields]
            counted = counts_by(columns, each.bands) if len(released) else np.zeros(each.true.size)
            own = band_errors(counted, each.true, self.rows.num_rows)
            assert own is not None
            errors.append(own)
        return _Once(run.mean("gcp"), len(released), run.rejected, tuple(errors))

    def summed(self, change: Mapping[str, Any], runs: Sequence[_Once]) -> Try:
        """A policy by all of them."""
        medians = np.array([[each.median for each in run.errors] for run in runs])
        ninths = np.array([[each.ninth for each in run.errors] for run in runs])
        losses = [run.loss for run in runs if run.loss is not None]
        return Try(
            change=change,
            loss=float(np.mean(losses)) if losses else None,
            rows=float(np.mean([run.rows for run in runs])),
            rejected=float(np.mean([run.rejected for run in runs])),
            errors=tuple(
                ExpectedError(
                    float(np.median(own)), float(own.min()), float(own.max()), float(np.median(wide))
                )
                for own, wide in zip(medians.T, ninths.T, strict=True)
            ),
            by_secret=tuple(medians.mean(axis=1).tolist()),
        )


def _questions(rows: pa.Table, bound: BoundPolicy, names: Sequence[str]) -> tuple[_Question, ...]:
    """Each field, and two or three together; without those of which there is nobody to count."""
    form = ReleasedTable.of(release_arrow_schema(bound).empty_table(), bound).form
    quasis = {column.name: column for column in bound.quasis}
    published = {column.published_name: column.name for column in bound.columns}
    own = {name: own_column(rows, form.field(quasis[name].published_name), published) for name in names}
    together: list[tuple[str, ...]] = [(name,) for name in names]
    if 1 < len(names) <= MOST_FIELDS:
        together.append(tuple(names))
    questions = []
    for fields in together:
        bands = tuple(bands_of(name, own[name], len(fields)) for name in fields)
        true = counts_by([own[name] for name in fields], bands)
        errors = band_errors(true, true, rows.num_rows)
        if errors is not None:
            width = _width(bands[0], quasis[fields[0]]) if len(fields) == 1 else None
            questions.append(_Question(CountedBy(fields, errors.bands, width), bands, true))
    if not questions:
        raise InputError("--for: there is nobody to count")
    return tuple(questions)


def _width(bands: Bands, column: BoundColumn) -> FieldWidth | None:
    quasi = column.field.quasi
    if bands.width is None or quasi is None:
        return None
    wide = float(column.values.widths(np.array([bands.width]))[0])
    return FieldWidth(column.name, KINDS[quasi.type].width_unit(quasi, column.values), wide, 0.0)


def _weight(bound: BoundPolicy, name: str) -> float:
    return next(column.weight for column in bound.quasis if column.name == name)
