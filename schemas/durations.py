"""Durations as people write them (``90s``, ``10m``, ``1d``) and as the code uses them (milliseconds)."""

from __future__ import annotations

import re

UNITS = {
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile(r"(\d{1,15})(ms|[smhdw])")


def parse_duration(text: object) -> int | None:
    """Milliseconds of ``<whole number><ms|s|m|h|d|w>``, or of a plain 0; None for anything else."""
    if isinstance(text, int) and not isinstance(text, bool):
        return 0 if text == 0 else None
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    return int(match[1]) * UNITS[match[2]] if match else None


def format_duration(milliseconds: int) -> str:
    """The shortest text that ``parse_duration`` reads back as the same number of milliseconds."""
    fitting = (unit for unit, size in UNITS.items() if milliseconds >= size and milliseconds % size == 0)
    unit = next(fitting, "ms")
    return f"{milliseconds // UNITS[unit]}{unit}"
