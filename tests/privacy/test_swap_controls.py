"""Each rule that the swap condition rests on, switched off: the swap test must notice.

A test that finds no difference proves little unless it finds one where there is one. So each control puts in the place
of one small function the one that somebody might well have written, and some feed of a few must then tell the exchange
of two trails of a cohort.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Field
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.kinds.domains import Domains
from kanonflow.transforms.protections import intake, lasting
from kanonflow.transforms.protections.intake import Entered, roster_state
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.gate_frozen import check_segment
from kanonflow.transforms.release import candidates
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.roster.corners import COHORT, corners
from kanonflow.transforms.roster.founding import Founded, found
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import Roster, RosterHead, Segment
from kanonflow.transforms.roster.window_groups import LastGroups, WindowGroups, no_groups, window_groups
from tests.privacy.test_swap import OF_CELLS, exchanged_shows_the_same, pair_of_a_generation
from tests.swapped_feeds import TrailFeed, disturbed, facts, generated_feed, run

pytestmark = pytest.mark.thorough

FEEDS = range(5000, 5030)
SMALL: dict[str, Any] = {"max_delay": "1h", "cohort_size": 5, "intake": 8, "k": 4}


def noticed(feeds: Iterator[TrailFeed]) -> bool:
    """Whether the exchange shows in one of these feeds."""
    return any(
        not exchanged_shows_the_same(feed, pair_of_a_generation, seed) for seed, feed in enumerate(feeds)
    )


def disturbed_feed(seed: int) -> TrailFeed:
    """A feed whose rows say other things of people once they are known."""
    return disturbed(run(generated_feed(seed, **SMALL)), seed, unreadable=False)


class OtherBoxes:
    """A roster that has only boxes, in the place of the frozen ones."""

    def __init__(self, table: pa.Table, owner: NDArray[np.int64]) -> None:
        self.table, self.owner = table, owner

    def boxes(self, cohorts: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
        return self.table, self.owner


def merged_under_rows(due: Due, entered: Entered, before: Before) -> WindowGroups:
    """A box is the hull of the rows that are here."""
    here = np.unique(entered.cohort, return_inverse=True)[1]
    table = corners(entered.rows.select([column.name for column in due.bound.quasis]), here, due.bound)
    other: Any = OtherBoxes(table, np.asarray(table.column(COHORT)))
    last = roster_state(before, due).last
    return window_groups(other, entered.cohort, entered.person, due.bound, entered.out.domains, last, 1)


def weighted_by_person(
    roster: Roster,
    cohort: NDArray[np.int64],
    person: NDArray[np.int64],
    bound: BoundPolicy,
    domains: Domains,
    last: LastGroups,
    seed: int,
    *_: object,
) -> WindowGroups:
    """The rows of some people count more than those of others."""
    heavy = np.repeat(np.arange(person.size), 1 + 30 * (person % 2))
    groups = window_groups(roster, cohort[heavy], person[heavy], bound, domains, last, seed)
    return replace(groups, of_row=groups.groups[np.searchsorted(groups.cohorts, cohort)])


def cohorts_by_their_rows(
    roster: Roster,
    cohort: NDArray[np.int64],
    person: NDArray[np.int64],
    bound: BoundPolicy,
    domains: Domains,
    last: LastGroups,
    seed: int,
    *_: object,
) -> WindowGroups:
    """Cohorts are taken in the order of their first rows."""
    cohorts, first, place = np.unique(cohort, return_index=True, return_inverse=True)
    taken = np.argsort(first)
    rank = np.argsort(taken)
    table, owner = roster.boxes(cohorts)
    order = np.argsort(rank[owner], kind="stable")
    other: Any = OtherBoxes(table.take(pa.array(order)), rank[owner][order])
    groups = window_groups(other, rank[place], person, bound, domains, no_groups(), seed)
    return replace(
        groups, cohorts=cohorts, groups=groups.groups[rank], cohort_of_corner=taken[groups.cohort_of_corner]
    )


def domains_of_every_row(enter: Callable[..., Entered]) -> Callable[..., Entered]:
    """Running domains take in what every row says."""

    def entered(due: Due, gathered: pa.Table, before: Before) -> Entered:
        found = enter(due, gathered, before)
        domains = encode(gathered, due.bound, None, found.out.domains).domains
        return replace(
            found, out=found.out._replace(domains=domains), kept=found.kept._replace(domains=domains)
        )

    return entered


def founded_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows a newcomer has is heard when cohorts are founded."""
    rows: Counter[int] = Counter()
    seen = Pool.having_seen

    def counting(self: Pool, digests: NDArray[np.uint64], *told: Any, **choices: Any) -> Pool:
        rows.update(digests.tolist())
        return seen(self, digests, *told, **choices)

    def by_rows(
        pool: Pool, head: RosterHead, bound: BoundPolicy, domains: Domains, *, seed: int, threads: int
    ) -> Founded:
        weights = np.array([rows[person] for person in pool.people.tolist()])
        rows.clear()
        return found(pool, head, bound, domains, seed=zlib.crc32(weights.tobytes()), threads=threads)

    monkeypatch.setattr(Pool, "having_seen", counting)
    monkeypatch.setattr(intake, "found", by_rows)


def only_the_like(segment: Segment, pool: Pool, roster: Roster, bound: BoundPolicy) -> None:
    """Newcomers wait until they are like each other."""
    values = whole(pool.values.column(bound.quasis[0].name)).dictionary_encode(null_encoding="encode")
    if len(values.dictionary) % 2:
        raise GateError("they are not alike")
    check_segment(segment, pool, roster, bound)


def test_without_a_rule_off_nothing_shows() -> None:
    """The feeds of the controls, as the product runs them."""
    assert not noticed(generated_feed(seed, **SMALL) for seed in FEEDS[:4])


def test_boxes_of_those_who_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 3 off: who holds a side of a box and is away makes it smaller."""
    monkeypatch.setattr(lasting, "_merge", merged_under_rows)
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def test_values_of_the_latest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 0 off: boxes follow what rows of known people say now."""
    feeds = [disturbed_feed(seed) for seed in FEEDS[:10]]
    monkeypatch.setattr(lasting, "_merge", merged_under_rows)
    assert noticed(iter(feeds))


def test_weights_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 4 off: what is merged hangs on who in a cohort has the rows."""
    monkeypatch.setattr(lasting, "window_groups", weighted_by_person)
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def test_the_order_of_cohorts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 4 off: ties go to the cohort whose first row comes first."""
    monkeypatch.setattr(lasting, "window_groups", cohorts_by_their_rows)
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def test_a_search_seeded_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 4 off: chance comes from the rows."""
    monkeypatch.setattr(lasting, "_merge", seeded_by_content(lasting._merge))
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def seeded_by_content(merge: Callable[..., WindowGroups]) -> Callable[..., WindowGroups]:
    """The search's seed is a digest of the rows."""

    def merged(due: Due, entered: Entered, before: Before) -> WindowGroups:
        vars(due)["search_seed"] = zlib.crc32(content_digest(entered.rows))
        return merge(due, entered, before)

    return merged


def test_founding_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 2 off: the founding partition hangs on row counts."""
    founded_by_rows(monkeypatch)
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def test_an_intake_of_the_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 1 off: when newcomers enter hangs on their quasi-identifiers."""
    monkeypatch.setattr(intake, "check_segment", only_the_like)
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def test_domains_of_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 0 off: running domains grow by rows that say something new, before and after entry."""
    monkeypatch.setattr(lasting, "enter", domains_of_every_row(lasting.enter))
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)


def test_rows_without_a_readable_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 0 off: a cell that is no value rejects the row before anybody knows whose it is."""
    courses = [(seed, run(generated_feed(seed, **SMALL))) for seed in FEEDS[:5]]
    feeds = [(seed, course, disturbed(course, seed, unreadable=True)) for seed, course in courses]
    monkeypatch.setattr(BoundPolicy, "attributes", frozenset())
    assert any(facts(run(feed), OF_CELLS) != facts(course, OF_CELLS) for _, course, feed in feeds)


def test_repeats_by_canonical_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 0 off: of two rows with one event id, the one whose quasi-identifiers sort first stays."""
    monkeypatch.setattr(candidates, "_blindly", lambda due, rows, places, digests: places)
    assert noticed(generated_feed(seed, repeats=0.5, **SMALL) for seed in FEEDS)


def test_event_ids_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 0 off: of two people's rows with one event id, the one whose quasi-identifiers sort first stays."""

    def alone(due: Due, rows: pa.Table, field: Field) -> NDArray[np.uint64]:
        names = render_text(whole(rows.column(field.name))).to_pylist()
        return person_digests(names, due.secret.lasting.derive("partition", "events"))

    monkeypatch.setattr(candidates, "_event_digests", alone)
    monkeypatch.setattr(candidates, "_blindly", lambda due, rows, places, digests: places)
    assert noticed(generated_feed(seed, **SMALL) for seed in FEEDS)
