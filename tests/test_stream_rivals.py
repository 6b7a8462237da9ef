"""CASTLE and FADS: equal to slow twins, and what each of them promises holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.rivals.castle import CastleParameters, castle
from benchmarks.rivals.fads import FadsParameters, fads
from benchmarks.rivals.stream_rows import OWN, REUSED, SUPPRESSED, StreamRelease
from kanonflow.solvers.problem.table import Table
from tests import naive_streams
from tests.mixed_tables import mixed_table
from tests.naive import box_loss

pytestmark = pytest.mark.thorough


def stream(seed: int, n: int, people: int | None) -> Table:
    """Rows whose losses are exact in floating point, so that ties are ties in any order of adding."""
    table = mixed_table(seed, n, cardinality=(3, 65), nulls=0.05)
    rng = np.random.default_rng(seed)
    who = np.arange(n) if people is None else rng.integers(people, size=n)
    return replace(table, weights=np.ones(4), individuals=who)


def published(release: StreamRelease) -> list[naive_streams.Published]:
    """Each row as the twins tell it."""
    own = [
        frozenset(np.flatnonzero((release.box == box) & (release.how == OWN)).tolist())
        for box in range(release.boxes.loss.size)
    ]
    return [
        (own[box] if box >= 0 else frozenset(), int(at), int(how))
        for box, at, how in zip(release.box, release.at, release.how, strict=True)
    ]


STREAMS = given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 90),
    people=st.sampled_from([None, 4, 15]),
    k=st.integers(2, 4),
    delta=st.integers(1, 40),
    more=st.integers(1, 12),
)


@settings(derandomize=True, max_examples=60)
@STREAMS
def test_castle_is_what_its_paper_tells(
    seed: int, n: int, people: int | None, k: int, delta: int, more: int
) -> None:
    """Every row with the same others, at the same time."""
    table = stream(seed, n, people)
    release = castle(table, CastleParameters(k, delta, beta=more, mu=5))
    assert published(release) == naive_streams.Castle(table, k, delta, more, 5).run()
    check(table, release, k, delta)


@settings(derandomize=True, max_examples=60)
@STREAMS
def test_fads_is_what_its_paper_tells(
    seed: int, n: int, people: int | None, k: int, delta: int, more: int
) -> None:
    """Every row with the same others, at the same time."""
    table = stream(seed, n, people)
    release = fads(table, FadsParameters(k, delta, reuse=more))
    assert published(release) == naive_streams.fads(table, k, delta, more)
    check(table, release, k, delta)


def check(table: Table, release: StreamRelease, k: int, delta: int) -> None:
    """Every row is out once, in time, in a box of k people that holds it and loses what its definition says."""
    assert (release.delays >= 0).all()
    assert (release.delays <= delta).all()
    assert ((release.box < 0) == (release.how == SUPPRESSED)).all()
    assert table.individuals is not None
    for row, (members, _, how) in enumerate(published(release)):
        if how == SUPPRESSED:
            assert release.losses[row] == 1.0
            continue
        assert np.unique(table.individuals[sorted(members)]).size >= k
        assert np.isclose(release.losses[row], box_loss(table, sorted(members)))
        assert (row in members) == (how == OWN)
        assert how == OWN or naive_streams.holds(table, members, row)


def test_a_box_is_reused_and_a_lonely_row_suppressed() -> None:
    """Both happen in the tests above, too, but here it is known where."""
    value = np.array([0.0, 0.5, 0.25, 0.25, 1.0])
    table = Table(value[:, None], np.empty((5, 0), np.int32), np.empty(0, np.int64), np.ones(1))
    release = fads(table, FadsParameters(2, 1, reuse=3))
    assert release.how.tolist() == [OWN, OWN, OWN, OWN, SUPPRESSED]
    late = fads(
        replace(table, numeric=np.array([0.0, 0.5, 0.25, 1.0, 1.0])[:, None]), FadsParameters(2, 1, reuse=3)
    )
    assert late.how.tolist() == [OWN, OWN, REUSED, OWN, OWN]
    assert late.delays.tolist() == [1, 0, 1, 1, 0]
