"""Statistics over hundreds of windows: what chance looks like, and that a naive publisher does not look like it.

Every test uses fixed seeds, so it always ends the same way; the false-alarm rate is how often a right publisher would
fail it if secrets and feeds were drawn anew. Windows, graphs and classes are those of ``release_window``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2, norm, rankdata

from benchmarks.attacks import scores
from benchmarks.attacks.attacked_feed import Source, attacked_windows, numbered_secret
from benchmarks.attacks.attacked_release import AttackedRelease
from benchmarks.attacks.naive_publishers import (
    fixed_factorization,
    identity_release,
    ordered_classes_release,
    stamped_release,
)
from benchmarks.data_sets import Feed, Window
from kanonflow.solvers.matching.matching import random_factor, random_factorization
from kanonflow.transforms.secret.seeds import publish_keystream
from tests.small_feeds import HOUR, START, bound_feed, canonical, feed_policy, row

pytestmark = pytest.mark.thorough

FALSE_ALARM = 1e-4
FEEDS, HOURS, ROWS, PEOPLE = 80, 5, 30, 18
BINS = 10
SOURCE = Source("small feed", "who", "reference")
SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"people": False},
    "people": {"people": True, "protect": "row"},
    "classes": {"people": True},
}


EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
SCORES: dict[str, scores.Score] = {
    "arrival": scores.first_to_come,
    "canonical order": scores.first_by_quasi,
    "distance to the medoid": scores.to_medoid,
    "waiting time": scores.longest_waiting,
}
EVERY_SCORE = pytest.mark.parametrize("score", SCORES)


def small_feed(shape: str, seed: int) -> Feed:
    """A few hours of a few people; a seventh of the rows come an hour late; payloads and places are drawn anew."""
    bound = bound_feed(feed_policy(**SHAPES[shape], max_delay="2h"))
    rng = np.random.default_rng(seed)
    names = rng.permutation(HOURS * ROWS)
    ages = rng.integers(18, 90, PEOPLE)
    windows = []
    for hour in range(HOURS):
        rows = []
        for number in range(ROWS):
            who = int(rng.integers(PEOPLE))
            late = hour > 0 and rng.random() < 1 / 7
            rows.append(
                row(
                    int(names[hour * ROWS + number]), who, hour - late + 0.99 * float(rng.random()),
                    amount=f"{rng.random():.6f}", age=str(ages[who]),
                )
            )  # fmt: skip
        end = START + (hour + 1) * HOUR
        windows.append(Window(end // HOUR - 1, end, canonical(rows, bound)))
    return Feed(bound, windows)


@functools.cache
def releases(shape: str) -> list[AttackedRelease]:
    """About 400 releases, each feed under a secret of its own."""
    chains = (
        attacked_windows(small_feed(shape, seed), SOURCE, numbered_secret(seed)) for seed in range(FEEDS)
    )
    found = [window.release for chain in chains for window in chain if window.release is not None]
    assert len(found) > 0.9 * FEEDS * HOURS
    return found


def members_by_slot(release: AttackedRelease) -> NDArray[np.int32]:
    """The graph of a release, int32 (n, k)."""
    members = np.empty(release.candidates.shape, dtype=np.int32)
    members[release.place] = release.candidates
    return members


def chi_square(counts: NDArray[np.int64]) -> float:
    """p-value of equal odds for every cell."""
    expected = counts.sum() / counts.size
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


def independent_rows(release: AttackedRelease, rng: np.random.Generator) -> list[int]:
    """A row of each component, at random; where all of its rows have one box, as in a class, the first in the file.

    Components and classes are matched independently of each other. Rows with one box nothing but their order could
    tell apart.
    """
    rows, places = np.nonzero(release.valid)
    ends = (release.candidates[rows, 0], release.candidates[rows, places])
    n = release.people.size
    joined = csr_array((np.ones(rows.size, dtype=np.int8), ends), shape=(n, n))
    label = connected_components(joined, directed=False)[1][release.candidates[:, 0]]
    box = one_box(release)
    boxes = np.bincount(np.unique(np.stack([label, box]), axis=1)[0], minlength=label.max() + 1)
    order = np.where(boxes[label] == 1, np.arange(label.size), rng.permutation(label.size))
    by_label = np.lexsort([order, label])
    return by_label[np.unique(label[by_label], return_index=True)[1]].tolist()


def ranks(
    found: Iterable[AttackedRelease], score: scores.Score, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Where the true record stands among its slot's members by a score, as a number in [0, 1), ties at random.

    Of a right publisher these are independent and uniform. Slots whose members all tie tell nothing and are left out.
    Returns them, and how many of them fall into each of ten equal bins.
    """
    rng = np.random.default_rng(seed)
    places = []
    for release in found:
        values = score(release)
        for j in independent_rows(release, rng):
            valid = release.valid[j]
            own = values[j][valid]
            true = own[release.candidates[j][valid] == release.truth[j]][0]
            below, equal = int((own < true).sum()), int((own == true).sum())
            if equal < own.size:
                places.append((below + rng.random() * equal) / own.size)
    uniform = np.array(places)
    return uniform, np.bincount((uniform * BINS).astype(np.int64), minlength=BINS)


def order_statistic(
    found: Iterable[AttackedRelease], group: Callable[[AttackedRelease], NDArray[np.int64]]
) -> float:
    """Rank correlations of place in the file and place in the feed within groups of rows, as one standard normal.

    Of m rows in random order sqrt(m - 1) times Spearman's coefficient has mean 0 and variance 1.
    """
    told = []
    for release in found:
        groups = group(release)
        arrival = release.arrival[release.truth]
        # Who waited came before all others, and is not like all others.
        fresh = release.own_window[release.truth] == release.own_window.max()
        for label in np.unique(groups[fresh]):
            came = arrival[fresh & (groups == label)]
            if came.size > 2:
                coefficient = np.corrcoef(rankdata(came), np.arange(came.size))[0, 1]
                told.append(coefficient * np.sqrt(came.size - 1))
    return float(np.sum(told) / np.sqrt(len(told)))


def whole_file(release: AttackedRelease) -> NDArray[np.int64]:
    """All rows in one group."""
    return np.zeros(release.truth.size, dtype=np.int64)


def one_box(release: AttackedRelease) -> NDArray[np.int64]:
    """Rows with the same members in a group."""
    return np.unique(np.sort(release.candidates, axis=1), axis=0, return_inverse=True)[1].ravel()


@functools.cache
def published_indices(shape: str) -> NDArray[np.int64]:
    """Which factor of its own factorization was published: for 100 solved graphs, 40 keys each."""
    found = []
    for number, release in enumerate(releases(shape)[:: len(releases(shape)) // 100]):
        members = members_by_slot(release)
        for key in range(40):
            words = [publish_keystream(numbered_secret(number), str(key), b"", b"") for _ in range(2)]
            factors = random_factorization(members, words[0])
            (index,) = np.flatnonzero((factors == random_factor(members, words[1])).all(axis=1))
            found.append(int(index))
    return np.array(found)


@pytest.mark.parametrize("shape", ["rows", "people"])
def test_the_published_factor_is_any_of_the_k(shape: str) -> None:
    """Its index among the k factors is uniform, over 4,000 publications of solved graphs (chi-square)."""
    counts = np.bincount(published_indices(shape), minlength=3)
    assert counts.sum() >= 4_000
    assert chi_square(counts) > FALSE_ALARM


@pytest.mark.parametrize("shape", ["rows", "people"])
def test_the_published_factor_is_not_tied_to_its_slot(shape: str) -> None:
    """Which of the factors of a *fixed* factorization a slot's published edge lies in is uniform, too: a row of each
    component of each release (chi-square); a publisher that always takes the same factor fails."""
    rng = np.random.default_rng(5)
    ours, naive = [], []
    for release in releases(shape):
        factors = fixed_factorization(members_by_slot(release))
        for j in independent_rows(release, rng):
            slot = release.place[j]
            ours.append(int(np.flatnonzero(factors[:, slot] == release.truth[j])[0]))
            naive.append(0)
    assert len(ours) > 600
    assert chi_square(np.bincount(ours, minlength=3)) > FALSE_ALARM
    assert chi_square(np.bincount(naive, minlength=3)) < FALSE_ALARM


@EVERY_SHAPE
@EVERY_SCORE
def test_the_rank_of_the_true_record_is_uniform(shape: str, score: str) -> None:
    """Among its slot's members by any fixed score; false alarm 1e-4 each (chi-square, 9 degrees of freedom)."""
    uniform, counts = ranks(releases(shape), SCORES[score], seed=3)
    assert uniform.size > (150 if score == "waiting time" else 600)
    assert chi_square(counts) > FALSE_ALARM


@pytest.mark.parametrize(
    ("score", "publisher"),
    [
        ("distance to the medoid", identity_release),
        ("arrival", ordered_classes_release),
        ("waiting time", stamped_release),
    ],
)
def test_naive_publishers_fail_the_rank_statistics(
    score: str, publisher: Callable[[AttackedRelease], AttackedRelease]
) -> None:
    """The identity on the matchings' construction is seen by the medoid, an order that was kept by arrival, a stamp on
    each row by the waiting time: half as many releases are more than enough."""
    found = [each for each in releases("people")[::2] if np.unique(each.people).size >= each.k]
    if publisher is stamped_release:
        # Who reads the stamp takes the members of that window for the likeliest.
        def told(release: AttackedRelease) -> NDArray[np.float64]:
            stamp = release.own_window[release.truth][:, None]
            return (release.own_window[release.candidates] != stamp).astype(np.float64)

        _, counts = ranks(found, told, seed=4)
    else:
        _, counts = ranks(map(publisher, found), SCORES[score], seed=4)
    assert chi_square(counts) < FALSE_ALARM


@EVERY_SHAPE
def test_the_order_of_the_file_is_not_that_of_the_feed(shape: str) -> None:
    """Places in the file and in the feed are uncorrelated, over whole files and among rows with one box; false alarm
    1e-4 each. Rows come in random order, so that quasi-identifiers, by which files are sorted, do not tell it."""
    limit = norm.isf(FALSE_ALARM / 2)
    assert abs(order_statistic(releases(shape), whole_file)) < limit
    if shape == "classes":
        assert abs(order_statistic(releases(shape), one_box)) < limit


def test_an_order_that_is_kept_fails() -> None:
    """The same rows in the order in which they came, and in it within their boxes."""
    limit = norm.isf(FALSE_ALARM / 2)
    assert order_statistic(map(identity_release, releases("people")[::4]), whole_file) > limit
    assert order_statistic(map(ordered_classes_release, releases("people")[::4]), one_box) > limit


def test_p_values_are_uniform_for_a_fair_die() -> None:
    """The tests' own arithmetic: of 2,000 fair experiments about 1% are below 1%, about half below one half."""
    rng = np.random.default_rng(9)
    p = np.array([chi_square(rng.multinomial(400, np.full(BINS, 1 / BINS))) for _ in range(2_000)])
    assert 0.002 < (p < 0.01).mean() < 0.02
    assert 0.45 < (p < 0.5).mean() < 0.55


def test_the_small_feeds_have_rows_that_waited() -> None:
    """Otherwise the waiting time would be tested on nothing: some rows are late or over the limit in each shape."""
    for shape in SHAPES:
        mixed = [scores.mixed_windows(release).mean() for release in releases(shape)]
        assert np.mean(mixed) > 0.1
