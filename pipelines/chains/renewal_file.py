"""``OUT/renewal.json``: of an epoch that a renewal began, what a reader of all epochs so far is left with.

It is public: what it tells follows from who is in which cohort, and from nothing that anybody did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kanonflow.schemas.renew import RenewedCohorts
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole

RENEWAL = "renewal.json"


def left_words(facts: Mapping[str, Any]) -> str:
    """Whom readers of all epochs are left with. Raises KeyError, TypeError, ValueError: the facts are others."""
    return (
        f"Who links rows over all epochs so far is left with {int(facts['least'])} people at least,"
        f" {float(facts['mean']):.1f} on average: with nobody but the person for {float(facts['alone']):.1%} of the"
        f" people, with fewer than min_peers = {int(facts['min_peers'])} for {float(facts['fewer']):.1%};"
        f" {float(facts['kept']):.0%} of a person's others stay with him."
    )


def renewal_words(facts: Mapping[str, Any]) -> str:
    """The same, of an epoch that goes on. Raises as ``left_words``."""
    cohorts = RenewedCohorts(facts["cohorts"])
    return f"The epoch began with a renewal (cohorts: {cohorts}). {left_words(facts)}"


def told_renewal(output: str) -> str | None:
    """The words of an output; None: its epoch began with no renewal, or nobody can tell."""
    path = storage.join(output, RENEWAL)
    try:
        return renewal_words(json.loads(read_whole(path))) if storage.exists(path) else None
    except (ValueError, KeyError, TypeError):
        return "The epoch began with a renewal, and what it left to readers of several epochs cannot be read."
