"""A stream says when a measured clause of ``against`` leaves fewer people with k than the policy wants, and when again
fewer: it goes on, for what is out stays out, and is looked after by whoever reads alarms.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from apache_beam.metrics import Metrics

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.windows.gauges import MILLIONTHS

_LOGGER = logging.getLogger(__name__)
STEP = MILLIONTHS // 100
"""Of the people: by how much fewer are left before it is said again."""


class WantedLeft:
    """What the steps of one worker tell of the epoch so far, by partition. A restart begins anew.

    Gauges: ``against_left_millionths``, share of the people released who are left with k; ``against_under_wanted``, 1
    while it is below what is wanted, else 0.
    """

    def __init__(self, policy: Policy) -> None:
        self._wanted = None if policy.against is None else policy.against.wanted
        self._counts: dict[bytes, tuple[int, int]] = {}
        self._said = MILLIONTHS + STEP

    def finished(self, key: bytes, record: Mapping[str, Any]) -> None:
        """Take in the metrics of a step of a partition. O(partitions)."""
        count = record.get("epoch_against")
        if not count or not count["people"]:
            return
        self._counts[key] = count["below_k"], count["people"]
        below, people = map(sum, zip(*self._counts.values(), strict=True))
        left = (people - below) * MILLIONTHS // people
        Metrics.gauge(NAMESPACE, "against_left_millionths").set(left)
        if self._wanted is None:
            return
        under = left < round(self._wanted * MILLIONTHS)
        Metrics.gauge(NAMESPACE, "against_under_wanted").set(int(under))
        if under and left <= self._said - STEP:
            self._said = left
            _LOGGER.warning(
                "against: wanted %.4g%% of the people released left with k or more by who knows any %s, over the epoch"
                " so far; %s%.1f%% of the %d of this worker are",
                100 * self._wanted,
                count["reader"],
                "at most " if count["at_least"] else "",
                left // (STEP // 10) / 10,
                people,
            )
