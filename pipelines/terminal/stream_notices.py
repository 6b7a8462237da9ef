"""What must not go unread of a stream that runs, on the terminal: parked partitions, and what first windows told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from kanonflow.pipelines.terminal.terminal import tell
from kanonflow.transforms.lineage.published_slots import parked_directory, parked_partitions

LOOK_SECONDS = 4.0
"""How often the output is looked at: on object storage each look is a request."""


@dataclass
class StreamNotices:
    """output: where the stream writes. clock: seconds that never go back. measured: what first windows told.

    Told whatever the command was asked to leave unsaid: nobody waits for the end of a stream to hear of it.
    """

    output: str
    terminal: TextIO
    clock: Callable[[], float] = time.monotonic
    measured: Callable[[], str] = str
    _told: set[str] = field(default_factory=set)
    _measured: str = ""
    _looked_at: float = float("-inf")

    def look(self, *, last: bool = False) -> None:
        """Look, if it is time or the last one, and tell what is new."""
        if self.clock() - self._looked_at < LOOK_SECONDS and not last:
            return
        self._looked_at = self.clock()
        new = sorted(parked_partitions(self.output) - self._told)
        self._told.update(new)
        for partition in new:
            tell(
                f"warning: the partition {partition} is parked: a release of it did not go on from what is published,"
                " and nothing more of it is. Its rows go to restricted/rejected (release_conflict); other partitions go"
                f" on. {parked_directory(self.output)}/{partition} names the two releases; docs/operations.md says what"
                " to do (Parked partitions)",
                self.terminal,
            )
        words = self.measured()
        if words and words != self._measured:
            self._measured = words
            tell(words, self.terminal)
        self.terminal.flush()
