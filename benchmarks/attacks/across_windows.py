"""Intersection over windows: who is left when somebody's rows are linked from window to window?

Stated knowledge: the payload links all rows of an individual over all windows, the attacker knows the quasi-identifiers
of everybody, who was there when, and the members of every class and slot. In each window the true individual is among
the members of the class of its rows (in row mode: of all of its rows' slots); the candidates after w windows are those
who were so in each of them. Followed are the individuals that were released in all of the windows, sparkov's days (only
with KANONFLOW_DATA) and a made-up feed's. Modes: row mode with a fresh matching in each window; closed classes that are
put together afresh in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.attacks.attacked_feed import (
    CARDS,
    CLASSES,
    DEMO,
    PEOPLE,
    AttackedWindow,
    Source,
    attacked_policy,
    attacked_windows,
    cards,
    demo,
    numbered_secret,
    person_names,
)
from benchmarks.attacks.effort import Effort
from benchmarks.data_sets import Feed, MissingDataError
from benchmarks.line_charts import line_chart
from benchmarks.result_files import Findings

K = 5
MODES = (
    ("row mode, new matchings", PEOPLE),
    ("classes, cohort window", CLASSES),
)
COLUMNS = (
    "feed", "mode", "followed", "windows", "candidates, mean", "1%", "fewest", "below k %", "one left %",
    "guess right", "1/k", "released %",
)  # fmt: skip
Candidates = dict[str, set[str]]


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """One table and a chart a feed: candidates left, window by window."""
    table = findings.table(
        "Intersection over windows",
        COLUMNS,
        "guess right: mean of 1 / candidates left, over those released in all of the windows. released %: of all"
        " rows of the feed.",
    )
    charts = {}
    for name, source in (("demo feed", DEMO), ("sparkov days", CARDS)):
        lines: dict[str, list[tuple[float, float]]] = {}
        for told, mode in MODES:
            try:
                feed = _feed(source, mode, effort)
            except MissingDataError as missing:
                findings.skipped.append(f"intersection over windows, {missing}")
                break
            found, came, out = [], 0, 0
            for window in attacked_windows(feed, source, numbered_secret(0), distances=False):
                found.append(by_person(window, source))
                came += window.rows.num_rows
                out += window.result.metrics["rows_released"]
            left = followed(found[-effort.windows :])
            table.rows += [
                (name, told, counts.size, number, *spread(counts), 1 / K, 100 * out / came)
                for number, counts in enumerate(left, start=1)
                if number in (1, 2, len(left))
            ]
            lines[told] = [(number, float(counts.mean())) for number, counts in enumerate(left, start=1)]
        if lines:
            charts[f"windows_{source.policy}"] = line_chart(
                f"Candidates left of a linked individual, {name}, k = {K}", "windows linked", "candidates, mean", lines
            )  # fmt: skip
    return charts


def _feed(source: Source, mode: str, effort: Effort) -> Feed:
    policy = attacked_policy(source, mode, k=K)
    return cards(effort.days, policy) if source is CARDS else demo(replace(effort.returning), policy)


def by_person(window: AttackedWindow, source: Source) -> Candidates:
    """Who may be behind the rows of each released individual, in one window."""
    release = window.release
    if release is None or release.quasi is None:
        return {}
    names = person_names(release.quasi, source)
    owner = release.people[release.truth]
    member = np.zeros((owner.size, len(names)), dtype=np.bool_)
    rows, places = np.nonzero(release.valid)
    member[rows, release.people[release.candidates[rows, places]]] = True
    return {
        names[person]: {names[other] for other in np.flatnonzero(member[owner == person].all(axis=0))}
        for person in np.unique(owner)
    }


def followed(windows: Iterable[Candidates]) -> list[NDArray[np.int64]]:
    """Candidates left after each window, of the individuals that were released in all of them: int64 (people,)."""
    windows = list(windows)
    always = sorted(set.intersection(*(set(window) for window in windows))) if windows else []
    left = {person: windows[0][person] for person in always}
    counts = []
    for window in windows:
        left = {person: left[person] & window[person] for person in always}
        counts.append(np.array([len(left[person]) for person in always], dtype=np.int64))
    return counts


def spread(counts: NDArray[np.int64]) -> tuple[float | None, ...]:
    """Mean, 1st percentile, fewest, share below k and of one, mean of 1 / count."""
    if counts.size == 0:
        return (None,) * 6
    return (
        float(counts.mean()), float(np.percentile(counts, 1)), float(counts.min()), 100 * float((counts < K).mean()),
        100 * float((counts == 1).mean()), float((1 / counts).mean()),
    )  # fmt: skip
