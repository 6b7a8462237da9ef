"""What a run of chaos saw: its strikes, and the accounts of its streams."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from tests.flink.chaos_streams import Ledger


@dataclass
class Strike:
    """One of them. recovery_seconds: from the beginning of its mending until all that was fed is visible.

    restarts: of the jobs.
    """

    kind: str
    recovery_seconds: float
    restarts: int


@dataclass
class Report:
    """What a run of chaos saw."""

    seed: int
    freeze_seconds: float
    left_out: tuple[str, ...]
    strikes: list[Strike] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    minutes: float = 0.0
    failure: str = ""

    def problems(self) -> list[str]:
        """What must not be; empty when all held."""
        found = [problem for ledger in self.ledgers for problem in ledger.problems()]
        return [*found, *([self.failure] if self.failure else [])]

    def record(self) -> dict[str, Any]:
        """Everything, for JSON."""
        parts = {name: [vars(each) for each in getattr(self, name)] for name in ("strikes", "ledgers")}
        return {**vars(self), **parts, "problems": self.problems()}

    def render(self) -> str:
        """A table of the kinds, and a line for each stream."""
        lines = [
            f"seed {self.seed}, {self.minutes:.1f} minutes, processes frozen for {self.freeze_seconds:g} s",
            f"{'kind':<20} {'strikes':>7} {'recovery s, median':>18} {'most':>6} {'restarts':>8}",
        ]
        for kind in dict.fromkeys(strike.kind for strike in self.strikes):
            mine = [strike for strike in self.strikes if strike.kind == kind]
            seconds = [strike.recovery_seconds for strike in mine]
            restarts = sum(strike.restarts for strike in mine)
            lines.append(
                f"{kind:<20} {len(mine):>7} {statistics.median(seconds):>18.1f} {max(seconds):>6.1f} {restarts:>8}"
            )
        lines += [f"left out, for nothing can be mounted here: {kind}" for kind in self.left_out]
        lines += [ledger.render() for ledger in self.ledgers]
        return "\n".join([*lines, *(f"PROBLEM {problem}" for problem in self.problems())])
