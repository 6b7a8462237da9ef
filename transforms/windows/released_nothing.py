"""A worker whose windows release nothing says so in its log, once: nobody looks at what a quiet pipeline rejects."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kanonflow.transforms.release.rejected import MESSAGES

_LOGGER = logging.getLogger(__name__)


class ReleasedNothing:
    """What became of the rows of windows that one copy of the step has closed. A restart begins anew."""

    def __init__(self) -> None:
        self._rejected: Counter[str] = Counter()
        self._over = False

    def closed(self, rows_released: int, rejected: Iterable[Mapping[str, Any]]) -> None:
        """Take in a window. O(rejected)."""
        self._rejected.update(record["reason"] for record in rejected)
        self._over |= rows_released > 0

    def say(self) -> None:
        """At the end of a bundle: that none of the rows went out, with the reasons. Then it is silent."""
        if self._over or not self._rejected:
            return
        self._over = True
        reasons = self._rejected.most_common()
        why = MESSAGES.get(reasons[0][0])
        _LOGGER.error(
            "none of the %d rows of the windows that were closed was released: %s%s",
            self._rejected.total(),
            ", ".join(f"{reason} {count}" for reason, count in reasons),
            f" ({why})" if why else "",
        )
