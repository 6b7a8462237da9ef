"""Homogeneity: what does a release tell about a sensitive value, though not which row is whose?

The attacker knows the members of every slot and class. Of an individual's row it looks at the values on all rows that
it may be: if they are all equal, the value is certain (k-anonymity does not promise otherwise; l-diversity does).
Guessed is the most frequent value; the base rate is what guessing the window's most frequent value reaches. Feeds: the
demo feed's ``merchant_category``, sparkov's ``category``, Adult's ``salary-class`` (75% of one value). Publishers:
classes of k consecutive records (naive), the product without and with rules for the sensitive field, where this version
has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from benchmarks.attacks.attacked_feed import (
    CARDS,
    CLASSES,
    DEMO,
    ROWS,
    NotAvailableError,
    Source,
    attacked_policy,
    attacked_windows,
    cards,
    demo,
    numbered_secret,
)
from benchmarks.attacks.attacked_release import AttackedRelease
from benchmarks.attacks.effort import Effort
from benchmarks.attacks.naive_publishers import sorted_classes_release
from benchmarks.data_sets import ADULT, Feed, MissingDataError, Window, data_path
from benchmarks.result_files import Findings
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.rows.classify import classify

K = 5
ADULT_ROWS = 3000
CENSUS = Source("adult", "", "number")
RULES: dict[str, dict[str, Any]] = {
    "no rule": {},
    "distinct l = 2": {"diversity": {"kind": "distinct", "l": 2}},
    "frequency l = 2": {"diversity": {"kind": "frequency", "l": 2}},
    "frequency l = 3": {"diversity": {"kind": "frequency", "l": 3}},
}
COLUMNS = (
    "feed", "field", "publisher", "rule", "rows", "certain %", "posterior, mean", "posterior, 99%",
    "guess right", "base rate", "1/l", "released %",
)  # fmt: skip


class Case(NamedTuple):
    """field: the sensitive one. mode: of the policy."""

    feed: str
    source: Source
    field: str
    mode: str


CASES = (
    Case("demo feed", DEMO, "merchant_category", CLASSES),
    Case("demo feed", DEMO, "merchant_category", ROWS),
    Case("sparkov days", CARDS, "category", CLASSES),
    Case("adult", CENSUS, "salary-class", ROWS),
)


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """One table: feed x publisher x rule."""
    table = findings.table(
        "Homogeneity: what the rows that may be somebody's say about a sensitive value",
        COLUMNS,
        "certain: rows of which all candidates show one value. posterior: share of the most frequent value among the"
        " candidates. A guess above the base rate needs no fault of the matching: records that are alike in their"
        " quasi-identifiers are alike in the value (see what docs/guarantees.md says of correlated payload).",
    )
    for case in CASES:
        for rule, keys in RULES.items():
            try:
                policy = _policy(case, keys)
                feed = _feed(case, policy, effort)
            except NotAvailableError as refused:
                findings.skipped.append(f"homogeneity, {case.feed}, {rule}, {refused}")
                continue
            except MissingDataError as missing:
                findings.skipped.append(f"homogeneity, {missing}")
                break
            windows = list(attacked_windows(feed, case.source, numbered_secret(0), distances=False))
            releases = [window.release for window in windows if window.release is not None]
            came = sum(window.rows.num_rows for window in windows)
            l_value = keys["diversity"]["l"] if keys else None
            if not keys:
                naive = [_naive(release, case.field) for release in releases]
                table.rows.append(
                    (*_head(case), "classes of k, in order", rule, *_told(naive, came), None, None)
                )
            found = [_posteriors(release, case.field) for release in releases]
            out = sum(release.truth.size for release in releases)
            table.rows.append((
                *_head(case), case.mode, rule, *_told(found, came), None if l_value is None else 1 / l_value,
                100 * out / came,
            ))  # fmt: skip
    return {}


def _head(case: Case) -> tuple[str, str]:
    return case.feed, case.field


def _policy(case: Case, keys: dict[str, Any]) -> Policy:
    return attacked_policy(case.source, case.mode, {case.field: keys} if keys else None, k=K)


def _feed(case: Case, policy: Policy, effort: Effort) -> Feed:
    if case.source is CARDS:
        return cards(min(effort.days, 4), policy)
    if case.source is DEMO:
        return demo(replace(effort.feed, late=0.0), policy)
    options = pa.csv.ConvertOptions(strings_can_be_null=False)
    parse = pa.csv.ParseOptions(delimiter=";")
    path = data_path(ADULT)
    table = pa.csv.read_csv(path, parse_options=parse, convert_options=options).slice(0, ADULT_ROWS)
    table = pa.table({name: table[name].cast(pa.string()) for name in table.column_names})
    table = table.append_column("number", pa.array([str(number) for number in range(table.num_rows)]))
    bound = bind(policy, table.schema, text=True, source="adult")
    return Feed(bound, [Window(0, None, classify(table.select(list(bound.input_columns)), bound).rows)])


class Posterior(NamedTuple):
    """Of each released row's record: float64 (m,) the share of the most frequent value among the rows that it may be,
    bool (m,) whether that value is the true one, and the number of each value in the release."""

    share: NDArray[np.float64]
    right: NDArray[np.bool_]
    counts: NDArray[np.int64]


def _posteriors(release: AttackedRelease, field: str) -> Posterior:
    """Of every released record."""
    assert release.quasi is not None
    encoded = release.quasi[field].combine_chunks().dictionary_encode(null_encoding="encode")
    value = np.asarray(encoded.indices).astype(np.int64)
    return posteriors(release, value, len(encoded.dictionary))


def posteriors(release: AttackedRelease, value: NDArray[np.int64], values: int) -> Posterior:
    """value: int64 (n,), the code of each record's value, below ``values``."""
    seen = np.zeros((release.people.size, values), dtype=np.int64)
    rows, places = np.nonzero(release.valid)
    # Row j shows the value of its true record, which everybody reads, to each of its candidates.
    np.add.at(seen, (release.candidates[rows, places], value[release.truth[rows]]), 1)
    own = seen[release.truth]
    best = own.argmax(axis=1)
    share = own.max(axis=1) / own.sum(axis=1)
    counts = np.bincount(value[release.truth], minlength=values)
    return Posterior(share, best == value[release.truth], counts)


def _naive(release: AttackedRelease, field: str) -> Posterior:
    assert release.quasi is not None
    first = np.sort(np.unique(release.people, return_index=True)[1])
    few = release.quasi.take(pa.array(first))
    return _posteriors(replace(sorted_classes_release(release), quasi=few), field)


def _told(found: list[Posterior], came: int) -> Iterator[Any]:
    """Columns from rows to base rate."""
    if not found:
        return iter((0, None, None, None, None, None))
    share = np.concatenate([each.share for each in found])
    right = np.concatenate([each.right for each in found])
    common = sum(int(each.counts.max()) for each in found) / share.size
    return iter((
        share.size, 100 * float((share == 1).mean()), float(share.mean()), float(np.percentile(share, 99)),
        float(right.mean()), common,
    ))  # fmt: skip
