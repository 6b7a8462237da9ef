"""Replay: a window is published twice. Does the second file narrow the first one down?

The attacker finds a row in both files by its payload, and takes the records that are members of both of its slots. The
naive publisher draws the matching anew when a worker repeats its work; the product's retry must give the same bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.attacks.attacked_feed import (
    CLASSES,
    DEMO,
    ROWS,
    attacked_policy,
    attacked_windows,
    demo,
    numbered_secret,
)
from benchmarks.attacks.attacked_release import AttackedRelease
from benchmarks.attacks.effort import Effort
from benchmarks.one_window import release_window
from benchmarks.result_files import Findings
from kanonflow.solvers.matching.matching import random_factor
from kanonflow.transforms.secret.seeds import publish_keystream

COLUMNS = (
    "mode", "k", "windows", "publisher", "same bytes", "candidates left", "of", "only one left %", "best guess", "1/k",
)  # fmt: skip


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """One table: a retry of the product, and two matchings of the same graphs."""
    table = findings.table(
        "Replay: the same window published twice",
        COLUMNS,
        "candidates left: individuals that are members of both slots of a payload, mean over rows. best guess: mean of"
        " 1 / candidates left.",
    )
    for mode, k in [*((ROWS, k) for k in effort.ks), (CLASSES, 5)]:
        shape = replace(effort.feed, rows_per_customer_day=0.3) if mode == ROWS else effort.feed
        feed = demo(shape, attacked_policy(DEMO, mode, k=k))
        same, before, left = True, [], []
        secret = numbered_secret(0)
        for window in attacked_windows(feed, DEMO, secret):
            if window.release is None:
                continue
            again = release_window(window.rows, feed.bound, window.before, secret, window.slot, threads=1)
            same = same and again.release == window.result.release
            before.append(people_left(window.release))
            if mode == ROWS:
                members = _members(window.release.candidates, window.release.place)
                left.append(common_members(members, window.slot.release_no))
        kept = np.concatenate(before)
        table.rows.append(_row(mode, k, len(before), "ours", same, kept, kept))
        # In a class the second permutation says nothing that the first does not: its members are the candidates.
        after = np.concatenate(left) if mode == ROWS else kept
        table.rows.append(_row(mode, k, len(before), "a new matching each time", False, after, kept))
    return {}


def people_left(release: AttackedRelease) -> np.ndarray:
    """Distinct individuals among the candidates of each row, int64 (m,)."""
    people = np.sort(np.where(release.valid, release.people[release.candidates], -1), axis=1)
    new = np.diff(people, axis=1, prepend=-2) != 0
    return (new & (people >= 0)).sum(axis=1)


def _members(candidates: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Members by slot, int32 (n, k), from members by row."""
    members = np.empty(candidates.shape, dtype=np.int32)
    members[place] = candidates
    return members


def common_members(members: np.ndarray, number: int) -> np.ndarray:
    """How many records are members of both slots that a record's payload stands on in two publications, int64 (n,)."""
    slots = []
    for turn in range(2):
        factor = random_factor(
            members, publish_keystream(numbered_secret(turn), f"replay {number}", b"", b"")
        )
        slot = np.empty(factor.size, dtype=np.int64)
        slot[factor] = np.arange(factor.size)
        slots.append(members[slot])
    return (slots[0][:, :, None] == slots[1][:, None, :]).sum(axis=(1, 2))


def _row(
    mode: str, k: int, windows: int, publisher: str, same: bool, left: np.ndarray, before: np.ndarray
) -> tuple:
    return (
        mode, k, windows, publisher, same, float(left.mean()), float(before.mean()), 100 * float((left == 1).mean()),
        float((1 / left).mean()), 1 / k,
    )  # fmt: skip
