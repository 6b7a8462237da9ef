"""Identity and order: does the true record stand out among its slot's members?

The attacker knows all quasi-identifiers, who the members of every slot and class are, when and in which order the
records came, and the file. It guesses the member in the middle, the one whose place in the input fits the row's place
in the file, the one that waited longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.attacks import scores
from benchmarks.attacks.attacked_feed import (
    CLASSES,
    DEMO,
    PEOPLE,
    ROWS,
    attacked_policy,
    attacked_windows,
    demo,
    numbered_secret,
)
from benchmarks.attacks.attacked_release import AttackedRelease
from benchmarks.attacks.chance import Tally
from benchmarks.attacks.effort import Effort
from benchmarks.attacks.naive_publishers import (
    identity_release,
    ordered_classes_release,
    sorted_classes_release,
    stamped_release,
)
from benchmarks.line_charts import line_chart
from benchmarks.result_files import Findings

TITLE = "Identity and order: how often the guess names the true individual"
COLUMNS = (
    "attack", "mode", "releases", "guesses", "ours", "chance", "99.9% low", "99.9% high", "within", "1/k", "naive",
    "naive publisher",
)  # fmt: skip
K = 5
NAIVE_FEEDS = 2
"""An assignment of each window takes longer than its search."""


class Attack(NamedTuple):
    """score: of the guess. naive: the publisher it is compared with, and its name. mixed: only rows whose members are
    of several windows."""

    name: str
    score: scores.Score
    naive: Callable[[AttackedRelease], AttackedRelease]
    told: str
    mixed: bool = False


ATTACKS = (
    Attack("nearest to the medoid", scores.to_medoid, identity_release, "identity matching"),
    Attack("nearest to the box's middle", scores.to_farthest, identity_release, "identity matching"),
    Attack("n-th row, n-th record", scores.file_place, identity_release, "identity matching, order kept"),
    Attack("order within a box, arrival", scores.arrival_in_box, ordered_classes_release, "classes, order kept"),
    Attack("order within a box, content", scores.quasi_in_box, sorted_classes_release, "classes, sorted"),
    Attack("longest waiting", scores.longest_waiting, stamped_release, "rows stamped with their window", True),
)  # fmt: skip


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """Every attack against every mode; one table."""
    table = findings.table(
        TITLE,
        COLUMNS,
        "chance: the mean over guesses of the share of a slot's members (of a class's rows) that are the guessed"
        " individual's; at most 1/k. The interval is binomial for as many independent guesses as these are worth, rows"
        " of a release being matched together. longest waiting: only rows whose members are of several windows.",
    )
    for mode in (ROWS, PEOPLE, CLASSES):
        # Where each row is its own individual, few people come twice.
        shape = replace(effort.feed, rows_per_customer_day=0.3) if mode == ROWS else effort.feed
        policy = attacked_policy(DEMO, mode, k=K)
        rng = np.random.default_rng(11)
        ours = [Tally() for _ in ATTACKS]
        naive = [Tally() for _ in ATTACKS]
        for number in range(effort.feeds):
            # Another secret alone would not do: in a class the order of payloads and that of records are the feed's.
            feed = demo(replace(shape, seed=shape.seed + number), policy)
            for window in attacked_windows(feed, DEMO, numbered_secret(number)):
                if window.release is None:
                    continue
                for attack, own, other in zip(ATTACKS, ours, naive, strict=True):
                    attacked = window.release
                    if attack.mixed:
                        attacked = attacked.rows(scores.mixed_windows(attacked))
                    add_guesses(own, attacked, attack.score, rng)
                    if number < NAIVE_FEEDS:
                        add_guesses(other, attack.naive(attacked), attack.score, rng)
        for attack, own, other in zip(ATTACKS, ours, naive, strict=True):
            low, high = own.interval() or (None, None)
            table.rows.append((
                attack.name, mode, len(own.trials), own.guesses, own.rate, own.chance, low, high, own.verdict(K), 1 / K,
                other.rate, attack.told,
            ))  # fmt: skip
    rates = [row for row in table.rows if row[1] == ROWS and row[4] is not None and row[10] is not None]
    lines = {
        "ours": [(float(place), row[4]) for place, row in enumerate(rates, start=1)],
        "naive": [(float(place), row[10]) for place, row in enumerate(rates, start=1)],
        "99.9% low": [(float(place), row[6]) for place, row in enumerate(rates, start=1)],
        "99.9% high": [(float(place), row[7]) for place, row in enumerate(rates, start=1)],
    }
    told = "attack, by its number in the table"
    return {
        "identity_and_order": line_chart(f"Identity and order, rows, k = {K}", told, "right guesses", lines)
    }


def add_guesses(
    tally: Tally, release: AttackedRelease, score: scores.Score, rng: np.random.Generator
) -> None:
    """One guess for each row of a release."""
    if release.truth.size:
        guess = scores.guesses(release, score, rng)
        tally.add(release.right(guess), release.chance(guess))
