"""Known matches: c rows of a release are known (planted). How often is another record's row guessed?

The attacker knows the graph and the publisher's code, publishes it thousands of times himself, and takes the slot that
goes with what he knows most often (``simulated_publisher.py``). The known records are those that share the most slots
with the target, which is the worst case, or random ones. Publishers: a fixed factorization of which one matching is
published; Kempe rounds on it without drawing its matchings anew; the product's. Graphs: a day of the demo feed as the
product solves it, and a ring (the fixed form of heterogeneous generalization) of 25 records.
"""

from __future__ import annotations

from collections.abc import Callable
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
from benchmarks.attacks.effort import Effort
from benchmarks.attacks.naive_publishers import SeededWords, fixed_factorization, mixed_only
from benchmarks.attacks.simulated_publisher import Simulation
from benchmarks.line_charts import line_chart
from benchmarks.result_files import Findings
from kanonflow.solvers.matching.matching import random_factorization
from kanonflow.transforms.secret.seeds import publish_keystream

KNOWN = (1, 2, 5, 10)
RING, RING_K = 25, 5
COLUMNS = (
    "graph", "k", "known", "c", "trials", "fixed factorization", "Kempe rounds only", "ours", "+- ours",
    "closed class of k: 1/(k-c)", "1/k",
)  # fmt: skip
Factors = Callable[[int], NDArray[np.int32]]


def publishers(members: NDArray[np.int32]) -> dict[str, Factors]:
    """By name: from a number to the factors of which one, uniformly, is published."""
    k = members.shape[1]
    fixed = fixed_factorization(members)
    if members.shape == (RING, RING_K):
        # What everybody would write down: factor f puts record j + f on slot j.
        fixed = members.T.copy()
    return {
        "fixed factorization": lambda number: fixed,
        "Kempe rounds only": lambda number: mixed_only(fixed, max(10, 2 * k), SeededWords(number)),
        "ours": lambda number: random_factorization(
            members, publish_keystream(numbered_secret(number), "release", b"", b"")
        ),
    }


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """One table, a row for each graph, k, choice and number of known matches; a chart a graph."""
    table = findings.table(
        "Known matches: how often another record's row is guessed",
        COLUMNS,
        "+-: half of the 99.9% interval about ours. In a closed class of exactly k records nothing but 1/(k-c) can be"
        " had, whatever the algorithm; classes of 2k hide longer.",
    )
    charts = {}
    for name, k, members in graphs(effort):
        rates = {}
        for publisher, factors in publishers(members).items():
            rates[publisher] = attacked(members, factors, effort)
        for near in (True, False):
            for c in KNOWN:
                ours = rates["ours"][near, c]
                error = 3.29 * np.sqrt(max(ours * (1 - ours), 1e-4) / effort.publications)
                table.rows.append((
                    name, k, "nearest" if near else "random", c, effort.publications,
                    *(rates[publisher][near, c] for publisher in rates), float(error),
                    1 / (k - c) if c < k else None, 1 / k,
                ))  # fmt: skip
        charts[f"known_matches_{name.split(',')[0]}_k{k}"] = chart(name, k, rates)
    return charts


def chart(name: str, k: int, rates: dict[str, dict[tuple[bool, int], float]]) -> str:
    """Right guesses by the number of known matches."""
    lines = {
        f"{publisher}, {'nearest' if near else 'random'}": [(float(c), rate[near, c]) for c in KNOWN]
        for publisher, rate in rates.items()
        for near in (True, False)
        if near or publisher == "ours"
    }
    lines["closed class of k"] = [(float(c), 1 / (k - c)) for c in KNOWN if c < k]
    lines["1/k"] = [(1.0, 1 / k), (10.0, 1 / k)]
    return line_chart(f"Known matches, {name}, k = {k}", "known matches c", "right guesses", lines)


def graphs(effort: Effort) -> list[tuple[str, int, NDArray[np.int32]]]:
    """(name, k, members): the solver's for each k, and the ring."""
    found = []
    for k in effort.ks:
        # A day in which few people come twice.
        shape = replace(effort.feed, days=2, rows=300, rows_per_customer_day=0.3)
        feed = demo(shape, attacked_policy(DEMO, ROWS, k=k))
        window = next(attacked_windows(feed, DEMO, numbered_secret(0)))
        assert window.release is not None
        members = np.empty(window.release.candidates.shape, dtype=np.int32)
        members[window.release.place] = window.release.candidates
        found.append((f"solved, {members.shape[0]} records", k, members))
    ring = ((np.arange(RING)[:, None] + np.arange(RING_K)) % RING).astype(np.int32)
    return [*found, (f"ring, {RING} records", RING_K, ring)]


def attacked(members: NDArray[np.int32], factors: Factors, effort: Effort) -> dict[tuple[bool, int], float]:
    """(nearest known?, c) -> how often the guess was right."""
    n, k = members.shape
    rng = np.random.default_rng(7)
    simulation = Simulation(
        members, np.concatenate([factors(1_000_000 + number) for number in range(effort.simulations // k)])
    )
    shared = np.zeros((n, n))
    for slot in members:
        shared[np.ix_(slot, slot)] += 1
    # Whoever shares no slot may still share one with somebody who does.
    closeness = shared + (shared @ shared) / (1 + (shared @ shared).max())
    right = {(near, c): 0 for near in (True, False) for c in KNOWN}
    for number in range(effort.publications):
        published = factors(number)[rng.integers(k)].astype(np.int64)
        slot_of = np.empty(n, dtype=np.int64)
        slot_of[published] = np.arange(n)
        target = int(rng.integers(n))
        others = np.delete(np.arange(n), target)
        by_chance = rng.permutation(others)
        nearest = by_chance[np.argsort(-closeness[target, by_chance], kind="stable")]
        for near, c in right:
            known = (nearest if near else by_chance)[:c]
            right[near, c] += simulation.guess(target, slot_of[known], known) == slot_of[target]
    return {case: hits / effort.publications for case, hits in right.items()}
