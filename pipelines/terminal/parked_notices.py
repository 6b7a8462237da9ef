"""Partitions that publish nothing any more, told on the terminal while the stream runs, each once."""

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
class ParkedNotices:
    """output: where the stream writes. clock: seconds that never go back.

    Told whatever the command was asked to leave unsaid: nobody waits for the end of a stream to hear of it.
    """

    output: str
    terminal: TextIO
    clock: Callable[[], float] = time.monotonic
    _told: set[str] = field(default_factory=set)
    _looked_at: float = float("-inf")

    def look(self) -> None:
        """Look, if it is time, and tell what is new."""
        if self.clock() - self._looked_at < LOOK_SECONDS:
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
        if new:
            self.terminal.flush()
