"""``OUT/renewal.json``: of an epoch that a renewal began, what a reader of all epochs so far is left with.

It is public: what it tells follows from who is in which cohort, and from nothing that anybody did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apache_beam.io.filesystems import FileSystems

from kanonflow.transforms.files.create_if_absent import read_whole

RENEWAL = "renewal.json"


def renewal_words(facts: Mapping[str, Any]) -> str:
    """What it tells, in words. Raises KeyError, TypeError, ValueError: it tells something else."""
    return (
        f"The epoch began with a renewal (cohorts: {facts['cohorts']!s:.10}). Who links rows over all epochs so far is"
        f" left with {int(facts['least'])} people at least, {float(facts['mean']):.1f} on average: with nobody but the"
        f" person for {float(facts['alone']):.1%} of the people, with fewer than min_peers = {int(facts['min_peers'])}"
        f" for {float(facts['fewer']):.1%}; {float(facts['kept']):.0%} of a person's others stay with him."
    )


def told_renewal(output: str) -> str | None:
    """The words of an output; None: its epoch began with no renewal, or nobody can tell."""
    path = FileSystems.join(output, RENEWAL)
    try:
        return renewal_words(json.loads(read_whole(path))) if FileSystems.exists(path) else None
    except (ValueError, KeyError, TypeError):
        return "The epoch began with a renewal, and what it left to readers of several epochs cannot be read."
