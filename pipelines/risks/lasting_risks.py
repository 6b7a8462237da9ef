"""What ``policy check`` says of a feed under ``cohort: lasting``: who comes, what changes, what cohorts would leave.

    people       who comes in which window, once, in two partitions, with equal attributes      feed_people
    fields       quasi-identifiers that change within a person                                  feed_people
    cohorts      loss and candidates by the size of cohorts, played by the product               cohort_sizes
    readers      what known windows, purchases and people leave                                 candidates_left
    bundles      how often all rows of a person name it in its cohort                           bundle_guess
    time         payload that says when                                                         payload_in_time

Everything is a count, a share or a mean; no value of a record is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.dry_run import Cohorts
from kanonflow.pipelines.dry_run.feed import Feed, FeedRows, feed_of
from kanonflow.pipelines.risks.bundle_guess import (
    ALL_ROWS,
    BundleGuess,
    Bundles,
    FieldHints,
    field_hints,
    joint_hints,
)
from kanonflow.pipelines.risks.cohort_sizes import (
    MOST_PEOPLE,
    PLANTS,
    Left,
    SizeFigures,
    figures_of,
    play,
)
from kanonflow.pipelines.risks.feed_people import (
    Varying,
    WindowPartsPeople,
    WindowPeople,
    in_several,
    parts_people,
    varying_fields,
    window_people,
    with_equals,
)
from kanonflow.pipelines.risks.no_size_helps import NoSize, no_size_helps
from kanonflow.pipelines.risks.payload_in_time import PayloadInTime, payload_in_time
from kanonflow.pipelines.terminal.lasting_lines import small_intakes, usual_intake
from kanonflow.pipelines.terminal.table import aligned
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.payload_grids import COARSER
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.printable import printable
from kanonflow.schemas.readers import Reader, standard_readers
from kanonflow.transforms.release.candidates_left import CandidatesLeft, CohortRows, candidates_left
from kanonflow.transforms.risks.field_values import field_values
from kanonflow.transforms.risks.payload_risks import GUESS_LIMIT, TOGETHER
from kanonflow.transforms.risks.published_exactly import steady_fields

VARYING_LIMIT = 0.02
"""Share of rows whose value may differ from their person's first."""
NEWCOMERS_TIMES_K = 4
MOST_BUNDLE_ROWS = 100_000
MOST_ROWS_OF_ONE = 1_000
_SEED = 1
Numbers = NDArray[np.int64]


class LastingRiskError(PolicyError):
    """A feed that cohorts that last do not fit, or payload that names people over many rows."""

    def __str__(self) -> str:
        head = f"{self.source or 'policy'}: what these rows tell, or cannot have, under this policy"
        return "\n".join([head, *(f"  - {printable(mistake)}" for mistake in self.mistakes)])


class Bundled(NamedTuple):
    """The guesses from bundles of a field, or of all that nobody accepted. accepted: whether the risk is."""

    field: str
    guesses: tuple[BundleGuess, ...]
    accepted: bool


@dataclass(frozen=True)
class LastingRisks:
    """All figures of a feed. rows, left_out: read, and not. members: whose cohorts were founded.

    intakes: people of each intake under the policy. never: members who would not be in by the feed's end. no_size: whom
    cohorts of no size help.
    """

    policy: Policy
    rows: int
    left_out: int
    people: int
    partitions: int
    windows: WindowPeople
    equals: int
    several: dict[str, int]
    varying: tuple[Varying, ...]
    members: int
    intakes: tuple[int, ...]
    never: int
    sizes: tuple[SizeFigures, ...]
    readers: tuple[tuple[Reader, CandidatesLeft], ...]
    bundles: tuple[Bundled, ...]
    in_time: tuple[PayloadInTime, ...]
    parts: WindowPartsPeople | None = None
    no_size: tuple[NoSize, ...] = ()

    def render(self) -> str:
        """The figures as text."""
        lines = [*self._of_people(), *self._of_fields(), *self._of_cohorts()]
        lines += [*self._of_readers(), *self._of_bundles(), *self._of_time()]
        return "\n".join(map(printable, lines))

    def refusal(self, source: str) -> LastingRiskError | None:
        """The error for all that is refused, at once; None if there is nothing."""
        mistakes = [
            *self._refused_newcomers(),
            *self._refused_fields(),
            *self._refused_partitions(),
            *self._refused_bundles(),
            *self._refused_in_time(),
        ]
        return LastingRiskError(mistakes, source) if mistakes else None

    def accepted(self, field: str) -> bool:
        """Whether the policy accepts the risk of a field."""
        return self.policy.field(field).accept_risk is not None

    @property
    def loss(self) -> float | None:
        """GCP of the cohorts under the policy's own size, as merged in windows; None: nobody would enter."""
        own = [each for each in self.sizes if each.size == self.policy.cohorts.cohort_size]
        return None if not own else own[0].loss if own[0].merged is None else own[0].merged

    def _of_people(self) -> Iterator[str]:
        windows, k = self.windows, self.policy.k
        where = "" if self.partitions < 2 else f" of {self.partitions:,} partitions"
        left = f"; {self.left_out:,} more rows were left out" if self.left_out else ""
        yield f"cohort: lasting over {self.rows:,} rows of {self.people:,} people{left}"
        later = (
            ""
            if windows.later_newcomers is None
            else f", after the first window {windows.later_newcomers:,.0f}"
        )
        yield (
            f"- people a window{where} (medians): {windows.newcomers:,.0f} newcomers{later};"
            f" {windows.returning:,.0f} returning"
        )
        yield f"- people with rows in one window only: {windows.once:,}{_share(windows.once, self.people)}"
        yield f"- windows with fewer than {k} people, of those with rows: {windows.small:,} of {windows.windows:,}"
        if self.parts is not None:
            yield (
                f"- parts of windows (split_by: {', '.join(self.policy.split_by)}) with fewer than {k} people:"
                f" {self.parts.small:,} of {self.parts.parts:,}, with {_percent(self.parts.share)} of the rows, which"
                " wait; each part merges cohorts by itself, and loses more than the whole window"
            )
        yield (
            f"- people who share all quasi-identifiers with another: {self.equals:,}{_share(self.equals, self.people)};"
            " if they are accounts of one human, their cohort hides fewer than it counts"
        )
        for field, people in self.several.items():
            told = " (accepted)" if people and self.accepted(field) else ""
            yield f"- people with more than one {field} (partition_by): {people:,}{told}"

    def _of_fields(self) -> Iterator[str]:
        changed = [each for each in self.varying if each.rows]
        steady = [each.field for each in self.varying if not each.rows]
        if steady:
            yield f"- never other than their person's first value: {', '.join(steady)}"
        for each in changed:
            yield (
                f"- {each.field}: {each.people:,} people with more than one value, {_percent(each.share)} of the rows"
                " differ from their person's first; boxes are attributes as of entry and will not follow"
            )

    def _of_cohorts(self) -> Iterator[str]:
        if not self.sizes:
            yield f"- nobody would enter: no partition ever has {self.policy.cohort_size} people waiting"
            return
        of = "" if self.members >= self.people else f" (founded for {self.members:,})"
        yield (
            f"- intakes{of}: {len(self.intakes):,}, of {np.median(self.intakes):,.0f} people (median); half of the"
            f" people enter with {usual_intake(self.intakes):,} or more; not in at the end of these rows:"
            f" {self.never:,}{_share(self.never, self.members)}"
        )
        yield from (f"- {line}" for line in small_intakes(self.intakes, self.policy))
        yield (
            f"- candidates by cohort_size (mean, and share of people left with fewer than k = {self.policy.k}) when the"
            f" reader knows one match; when {PLANTS} accounts were planted with the person's attributes; when the"
            " reader knows who has left, at 20% a year; loss: GCP of the cohorts, and merged as in windows"
        )
        head = ("cohort_size", "loss", "in windows", "one match", f"{PLANTS} planted", "1 year", "3 years")
        table = [head, *(_size_line(each) for each in self.sizes)]
        yield from aligned(table)
        yield from (f"- {each.words}" for each in self.no_size)

    def _of_readers(self) -> Iterator[str]:
        if not self.readers:
            return
        if (member := self.policy.publish_member) is not None:
            yield (
                f"- publish_member: every reader links all rows of a person by {member.name}, so the figures of readers"
                " and of bundles below are those of every reader, and not only of who recognizes rows"
            )
        yield (
            "- not promised, and measured: members of a person's cohort who fit what a reader knows of its activity,"
            " each as likely as any other; one left: all rows of the person are found"
        )
        table: list[tuple[str, ...]] = [
            ("the reader knows", "left", f"fewer than {self.policy.k}", "one left", "people")
        ]
        for reader, found in self.readers:
            shares = (_percent(found.below(self.policy.k)), _percent(found.alone))
            table.append((reader.name, f"{found.mean:.1f}", *shares, f"{found.people:,}"))
        yield from aligned(table, left=(0,))

    def _of_bundles(self) -> Iterator[str]:
        if not self.bundles:
            return
        limit = GUESS_LIMIT / self.policy.k
        people = max(guess.people for each in self.bundles for guess in each.guesses)
        yield (
            f"- bundles: how often the rows of a person name it among its cohort, over {people:,} people; limit"
            f" {limit:.3f}"
        )
        head = (
            "field",
            *(_of_rows(guess.rows) for guess in self.bundles[0].guesses),
            "verdict",
            "by all rows",
        )
        table = [head]
        for each in self.bundles:
            rates = [f"{guess.rate:.3f}" if guess.people else "-" for guess in each.guesses]
            table.append((each.field, *rates, self._verdict(each), each.guesses[-1].attack))
        yield from aligned(table, left=(0, len(head) - 2, len(head) - 1))

    def _verdict(self, each: Bundled) -> str:
        if self._high(each):
            return "accepted" if each.accepted else "REFUSED"
        limit = GUESS_LIMIT / self.policy.k
        unsure = any(guess.people and guess.rate > limit for guess in each.guesses)
        return "too few people to tell" if unsure or each.guesses[-1].noise > 0.5 / self.policy.k else "ok"

    def _high(self, each: Bundled) -> BundleGuess | None:
        """The bundles that give away most, if that is too much."""
        limit = GUESS_LIMIT / self.policy.k
        high = [guess for guess in each.guesses if guess.people and guess.rate > limit and guess.certain]
        return max(high, key=lambda guess: guess.rate, default=None)

    def _of_time(self) -> Iterator[str]:
        for each in self.in_time:
            if each.high:
                told = "accepted" if self.accepted(each.field) else "REFUSED"
                yield f"- {each.field}: {each.how} {each.value:.3f}, limit {each.limit:.3f}: {told}"

    def _refused_newcomers(self) -> Iterator[str]:
        policy, later = self.policy, self.windows.later_newcomers
        least = NEWCOMERS_TIMES_K * policy.k
        if policy.waiting_ms or later is None or later >= least:
            return
        yield (
            f"max_delay: no row waits as long as a window, and a window has {later:,.0f} newcomers (median after the"
            f" first), fewer than {NEWCOMERS_TIMES_K} k = {least}: they would enter in small cohorts of whoever came,"
            " or be rejected. Give a max_delay of some windows, a larger window, or say cohort: window"
        )

    def _refused_fields(self) -> Iterator[str]:
        for each in self.varying:
            if each.share > VARYING_LIMIT:
                yield (
                    f"fields.{each.field}: {each.people:,} people have more than one value, and {_percent(each.share)}"
                    f" of the rows another than their person's first, limit {VARYING_LIMIT:.0%}: it is no attribute of"
                    " a person, and boxes are attributes as of entry. Make it payload (role: sensitive or"
                    " insensitive), or say cohort: window"
                )

    def _refused_partitions(self) -> Iterator[str]:
        for field, people in self.several.items():
            if people and not self.accepted(field):
                yield (
                    f"fields.{field}: {people:,} people have rows in more than one partition: they would be in two"
                    " cohorts, and who links their rows finds them in both. Say split_by in the place of partition_by"
                    " (releases of each value, of one set of cohorts), partition by what a person keeps, or say"
                    " accept_risk: <reason>"
                )

    def _refused_bundles(self) -> Iterator[str]:
        limit = GUESS_LIMIT / self.policy.k
        refused = [(each, high) for each in self.bundles if not each.accepted and (high := self._high(each))]
        single = [each for each in refused if each[0].field != TOGETHER]
        for each, high in single:
            yield (
                f"fields.{each.field}: {_of_rows(high.rows)} of a person name it {high.rate:.3f} of the time, limit"
                f" {limit:.3f} ({high.attack}; {high.chance:.2f} is due): what is weak in one row is strong in many."
                f" Leave it out (role: identifier), {COARSER}, or say accept_risk: <reason>"
            )
        if single or not refused:
            return
        high = refused[0][1]
        open_fields = [each for each in self.bundles if not each.accepted and each.field != TOGETHER]
        most = sorted(open_fields, key=lambda each: -each.guesses[-1].rate)[:3]
        named = ", ".join(f"{each.field} ({each.guesses[-1].rate:.3f})" for each in most)
        yield (
            f"fields: {_of_rows(high.rows)} of a person, all payload fields together, name it {high.rate:.3f} of the"
            f" time, limit {limit:.3f}; most by themselves: {named}. Of these: leave it out (role: identifier),"
            f" {COARSER}, or say accept_risk: <reason>"
        )

    def _refused_in_time(self) -> Iterator[str]:
        for each in self.in_time:
            if each.high and not self.accepted(each.field):
                yield (
                    f"fields.{each.field}: {each.how} {each.value:.3f}, limit {each.limit:.3f}: it says since when a"
                    " person is there, or when within a release a row was, and few of a cohort fit that. Leave it out"
                    f" (role: identifier), {COARSER}, or say accept_risk: <reason>"
                )


def lasting_risks(read: FeedRows, bound: BoundPolicy, expected: pa.Table | None = None) -> LastingRisks:
    """Measure a feed under a policy of ``cohort: lasting``. Deterministic. expected: as of ``Feed``.

    Time: near linear in the rows, and some foundings of at most ``cohort_sizes.MOST_PEOPLE`` people.
    """
    policy = bound.policy
    k, own_size = policy.k, policy.cohorts.cohort_size
    feed = feed_of(read.rows, bound, expected)
    sizes = sorted({k, k + 1, 2 * k, own_size})
    # Side by side: sizes have nothing to do with each other, and most of it is compiled code that lets others run.
    with ThreadPoolExecutor() as pool:
        played = dict(zip(sizes, pool.map(lambda size: play(feed, bound, size), sizes), strict=True))
        own = played[own_size].cohorts
        bundles = pool.submit(_bundles, feed, own, bound)
        figures = list(pool.map(lambda each: figures_of(each, feed), played.values()))
    members = feed.first_people(bound, MOST_PEOPLE).home.size
    return LastingRisks(
        policy,
        read.rows.num_rows,
        read.left_out,
        feed.people,
        feed.partitions,
        window_people(feed, k),
        with_equals(feed, bound),
        in_several(feed, bound),
        varying_fields(feed, bound),
        members,
        own.intakes,
        members - int((own.cohort >= 0).sum()),
        tuple(each for each in figures if each is not None),
        _readers(feed, own, bound),
        bundles.result(),
        payload_in_time(feed, bound),
        parts_people(feed, bound) if policy.split_by else None,
        no_size_helps(feed, bound),
    )


def _readers(feed: Feed, cohorts: Cohorts, bound: BoundPolicy) -> tuple[tuple[Reader, CandidatesLeft], ...]:
    """The standard readers, and whom they are left with; without those who could know it of nobody."""
    rows = CohortRows(cohorts.cohort, feed.member, feed.window, feed.rows)
    found = ((reader, candidates_left(reader, rows, _SEED)) for reader in standard_readers(bound))
    return tuple((reader, left) for reader, left in found if left is not None)


def _bundles(feed: Feed, cohorts: Cohorts, bound: BoundPolicy) -> tuple[Bundled, ...]:
    """The guesses of each payload field, and of those together whose risk nobody has accepted."""
    columns = [column for column in bound.payload if column.name not in bound.policy.partition_by]
    rows, bundles = _bundled_rows(feed, cohorts)
    if not columns or bundles is None:
        return ()
    frozen = feed.rows.take(pa.array(_entry_rows(feed, cohorts, rows)[bundles.who]))
    quasis = {column.name: field_values(frozen, column) for column in bound.quasis}
    published = feed.rows.take(pa.array(rows))
    steady = steady_fields(published, bound, bundles.who)
    found, open_fields = [], dict[str, FieldHints]()
    for column in columns:
        values = field_values(published, column, steady=column.name in steady)
        hints = field_hints(values, quasis, bundles, _SEED, len(columns))
        accepted = column.field.accept_risk is not None
        found.append(Bundled(column.name, hints.guesses, accepted))
        if not accepted:
            open_fields[column.name] = hints
    if len(open_fields) > 1:
        found.append(Bundled(TOGETHER, joint_hints(open_fields, bundles, _SEED), False))
    return tuple(found)


def _bundled_rows(feed: Feed, cohorts: Cohorts) -> tuple[Numbers, Bundles | None]:
    """Rows of the people of some cohorts, drawn at random, and whose they are.

    Of a person at most ``MOST_ROWS_OF_ONE``, at random; cohorts until there are ``MOST_BUNDLE_ROWS`` rows.
    """
    rng = np.random.default_rng(_SEED)
    inside = np.flatnonzero(cohorts.cohort[feed.member] >= 0)
    if inside.size == 0:
        return inside, None
    member = feed.member[inside]
    order = np.lexsort((rng.random(inside.size), member))
    held = np.bincount(member)
    turn = np.arange(order.size) - (np.cumsum(held) - held)[member[order]]
    rows = inside[order[turn < MOST_ROWS_OF_ONE]]
    cohort = cohorts.cohort[feed.member[rows]]
    weight = np.bincount(cohort, minlength=cohorts.sizes.size)
    drawn = rng.permutation(cohorts.sizes.size)
    kept = drawn[np.cumsum(weight[drawn]) - weight[drawn] < MOST_BUNDLE_ROWS]
    rows = np.sort(rows[np.isin(cohort, kept)])
    people, who = np.unique(feed.member[rows], return_inverse=True)
    _, labels = np.unique(cohorts.cohort[people], return_inverse=True)
    return rows, Bundles(who.astype(np.int64), labels.astype(np.int64))


def _entry_rows(feed: Feed, cohorts: Cohorts, rows: Numbers) -> Numbers:
    """Of each person of ``rows``, in order, the row that its attributes as of entry are read from here: one of the
    latest window up to its entry."""
    member = feed.member[rows]
    people = np.unique(member)
    every = np.flatnonzero(np.isin(feed.member, people))
    early = every[feed.window[every] <= cohorts.entered[feed.member[every]]]
    order = early[np.lexsort((feed.window[early], feed.member[early]))]
    last = np.append(np.diff(feed.member[order]) > 0, True)
    return order[last]


def _share(part: int, whole: int) -> str:
    return f" ({_percent(part / whole)})" if whole else ""


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _of_rows(rows: int) -> str:
    if rows == ALL_ROWS:
        return "all rows"
    return "1 row" if rows == 1 else f"{rows} rows"


def _left(left: Left | None) -> str:
    return "-" if left is None else f"{left.mean:.1f} {left.below:>4.0%}"


def _size_line(each: SizeFigures) -> tuple[str, ...]:
    merged = "-" if each.merged is None else f"{each.merged:.4f}"
    left = (each.match, each.plants, each.one_year, each.three_years)
    return (str(each.size), f"{each.loss:.4f}", merged, *map(_left, left))
