"""How a chain of runs renews its cohorts (``renew``): a new epoch of the people whom the one before knows.

    kept       the same cohorts, with the values that a file of people has now
    blocks     cohorts of whole blocks: of each group of people who were together all along, at least ``min_peers``
    searched   cohorts by search, which begins with those of before

What two epochs tell together: who links both is left with those who share both cohorts of a person. With ``kept`` that
is all of the cohort, with ``blocks`` a block, with ``searched`` maybe nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MIN_PEERS = 2
"""People, himself among them, whom a renewal leaves everybody unless the policy accepts that it leaves fewer."""


class RenewedCohorts(StrEnum):
    """What becomes of the cohorts."""

    KEPT = "kept"
    BLOCKS = "blocks"
    SEARCHED = "searched"


@dataclass(frozen=True)
class Renew:
    """cohorts: what becomes of them. min_peers: people whom a reader who links both epochs is left with, at least; with
    ``blocks`` the size of a block. accept_risk: why fewer are accepted; None: they are not."""

    cohorts: RenewedCohorts = RenewedCohorts.KEPT
    min_peers: int = MIN_PEERS
    accept_risk: str | None = None
