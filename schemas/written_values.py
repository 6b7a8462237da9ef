"""Values as people write them in a policy: numbers, dates, domains, and keys that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

MOST_EXPONENT = 400
"""Of a number in a policy, as a power of ten: beyond a double's. Written out, 1e999999999 would fill the memory."""


def unknown_keys(given: Iterable[object], known: Iterable[str], where: str) -> list[str]:
    """One mistake for each key that is not known, with the known key it resembles."""
    known = list(known)
    mistakes = []
    for key in given:
        if key in known:
            continue
        near = difflib.get_close_matches(str(key), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        mistakes.append(f"{where}{key}: unknown key; {hint}")
    return mistakes


def read_number(value: object) -> Decimal | None:
    """A number as the decimal that was written; None for anything else (yes/no included)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= MOST_EXPONENT else None


def read_date(value: object) -> date | datetime | None:
    """An ISO date, or an ISO date-time (in UTC when it names no zone); None for anything else."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value if isinstance(value, date) else None


def read_grid(value: object) -> str | Decimal:
    """A grid: a number where it is one, else the word as it was written (the policy's rules judge it)."""
    return number if (number := read_number(value)) is not None else str(value)
