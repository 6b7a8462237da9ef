"""Predictable seed: the attacker runs the publisher himself, with every seed that there is.

Stated knowledge: the algorithm, the graph, and 8 true matches of 150 (rows that the attacker planted). A seed under
which the 8 come out right is taken for the publisher's, and tells all others. The naive publisher seeds numpy's
generator with a number below 65,536 (a process id, a counter). Against the product the attacker tries as many secrets,
and is given even the digests of graph and content, which he could not know.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.attacks.attacked_feed import (
    DEMO,
    ROWS,
    attacked_policy,
    attacked_windows,
    demo,
    numbered_secret,
)
from benchmarks.attacks.chance import Tally
from benchmarks.attacks.effort import Effort
from benchmarks.attacks.naive_publishers import SeededWords
from benchmarks.result_files import Findings
from kanonflow.solvers.matching.matching import random_factor
from kanonflow.transforms.secret.seeds import Secret, array_digest, publish_keystream

K = 5
KNOWN = 8
CONTENT = b"a digest of rows"
COLUMNS = (
    "publisher", "k", "seeds tried", "known matches", "windows", "windows with a seed that fits", "guesses",
    "right", "chance", "99.9% low", "99.9% high", "within",
)  # fmt: skip


def seeded_factor(members: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """The naive publisher: a random matching, from a generator with a small seed."""
    return random_factor(members, SeededWords(seed))


def secret_factor(members: NDArray[np.int32], secret: Secret) -> NDArray[np.int32]:
    """The product's matching under a secret."""
    return random_factor(members, publish_keystream(secret, "release", array_digest(members), CONTENT))


def small_secret(number: int) -> Secret:
    """The ``number``-th secret that an attacker tries."""
    return Secret(number.to_bytes(32, "big"))


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """One table; a window each, for the naive publisher and for the product."""
    table = findings.table(
        "Predictable seed: every seed tried",
        COLUMNS,
        "right: of the rows that were not known; where no seed fits, the attacker guesses a member.",
    )
    feed = demo(replace(effort.feed, rows_per_customer_day=0.3), attacked_policy(DEMO, ROWS, k=K))
    windows = [each for each in attacked_windows(feed, DEMO, numbered_secret(0)) if each.release is not None]
    rng = np.random.default_rng(5)
    for publisher in ("numpy seed below the limit", "ours"):
        tally, fits = Tally(), 0
        for number, window in enumerate(windows[:2]):
            assert window.release is not None
            members = np.empty(window.release.candidates.shape, dtype=np.int32)
            members[window.release.place] = window.release.candidates
            if publisher == "ours":
                truth = secret_factor(members, numbered_secret(number))
                tried = (secret_factor(members, small_secret(seed)) for seed in range(effort.seeds))
            else:
                truth = seeded_factor(members, int(rng.integers(effort.seeds)))
                tried = (seeded_factor(members, seed) for seed in range(effort.seeds))
            known = rng.choice(truth.size, KNOWN, replace=False)
            found = next((each for each in tried if np.array_equal(each[known], truth[known])), None)
            fits += found is not None
            guess = members[np.arange(truth.size), rng.integers(0, K, truth.size)] if found is None else found
            hidden = ~np.isin(np.arange(truth.size), known)
            tally.add((guess == truth)[hidden], np.full(int(hidden.sum()), 1 / K))
        low, high = tally.interval() or (None, None)
        table.rows.append((
            publisher, K, effort.seeds, KNOWN, len(tally.trials), fits, tally.guesses, tally.rate, tally.chance, low,
            high, tally.verdict(K),
        ))  # fmt: skip
    return {}
