"""Durations as people write them (``90s``, ``10m``, ``1d``, ``PT10M``, ``P1D``) and as the code uses them
(milliseconds)."""

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
MONDAY_MS = 4 * UNITS["d"]
"""The first Monday after the beginning of 1970, a Thursday."""
_SHORT = r"([0-9]{1,15})(ms|[smhdw])"
_ISO = (
    r"P(?:([0-9]{1,15})W)?(?:([0-9]{1,15})D)?"
    r"(?:T(?:([0-9]{1,15})H)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15})(?:\.([0-9]{1,3}))?S)?)?"
)
_SOMETHING = r"(?=P.*[0-9])(?!.*T$)"
PATTERN = rf"^(?:{_SHORT}|{_SOMETHING}{_ISO})$"
"""Both ways of writing, as a regular expression of JSON Schema and of Python. Months and years of ISO 8601 have no
length, and are not taken."""
_DURATION = re.compile(_SHORT)
_ISO_DURATION = re.compile(_SOMETHING + _ISO)


def parse_duration(text: object) -> int | None:
    """Milliseconds of ``<whole number><ms|s|m|h|d|w>``, of an ISO 8601 duration of weeks, days, hours, minutes and
    seconds, or of a plain 0; None for anything else."""
    if isinstance(text, int) and not isinstance(text, bool):
        return 0 if text == 0 else None
    if not isinstance(text, str):
        return None
    if match := _DURATION.fullmatch(text):
        return int(match[1]) * UNITS[match[2]]
    if (match := _ISO_DURATION.fullmatch(text)) is None:
        return None
    *whole, fraction = match.groups()
    parts = sum(int(part) * UNITS[unit] for part, unit in zip(whole, "wdhms", strict=True) if part)
    return parts + (int(fraction.ljust(3, "0")) if fraction else 0)


def format_duration(milliseconds: int) -> str:
    """The shortest text that ``parse_duration`` reads back as the same number of milliseconds."""
    fitting = (unit for unit, size in UNITS.items() if milliseconds >= size and milliseconds % size == 0)
    unit = next(fitting, "ms")
    return f"{milliseconds // UNITS[unit]}{unit}"


def offset_of_weeks(window_ms: int) -> int:
    """The offset with which windows of whole weeks begin on Mondays, in ms; 0 of other windows."""
    return 0 if window_ms % UNITS["w"] else MONDAY_MS
