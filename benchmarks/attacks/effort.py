"""How much is attacked: everything, or enough to see that the bench works."""

from __future__ import annotations

from typing import NamedTuple

from kanonflow.pipelines.commands.demo_feed import FeedShape


class Effort(NamedTuple):
    """feed: the first of the made-up feeds of single windows. feeds: how many, each released under its own secret.

    returning: the made-up feed that people come back in. days: of sparkov. windows: over which they are followed.
    publications: for each number of known matches. simulations: publications that an attacker makes for himself.
    seeds: that are tried. ks: of known matches.
    """

    feed: FeedShape
    feeds: int
    returning: FeedShape
    days: int
    windows: int
    publications: int
    simulations: int
    seeds: int
    ks: tuple[int, ...]


FULL = Effort(
    feed=FeedShape(rows=1500, days=10, seed=3, late=0.05),
    feeds=30,
    returning=FeedShape(rows=6000, days=6, seed=5, leaving=0.1, late=0.0),
    days=7,
    windows=5,
    publications=1500,
    simulations=4000,
    seeds=1 << 16,
    ks=(3, 5, 10),
)
QUICK = Effort(
    feed=FeedShape(rows=300, days=3, seed=3, late=0.05),
    feeds=2,
    returning=FeedShape(rows=400, days=3, seed=5, leaving=0.1, late=0.0),
    days=3,
    windows=3,
    publications=10,
    simulations=100,
    seeds=1 << 7,
    ks=(3,),
)
