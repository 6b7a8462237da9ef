"""Reading single keys of a policy mapping: each reader returns a usable value and notes what is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, TypeVar

from kanonflow.schemas.durations import parse_duration
from kanonflow.schemas.policy_fields import Domain, QuasiType

Choice = TypeVar("Choice", bound=StrEnum)


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


def read_choice(
    given: Mapping[str, Any], key: str, kind: type[Choice], mistakes: list[str], where: str = ""
) -> Choice | None:
    """The enum member named under ``key``; None when the key is absent or wrong."""
    value = given.get(key)
    if value is None:
        return None
    choices = [str(choice) for choice in kind]
    if isinstance(value, str) and value in choices:
        return kind(value)
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    mistakes.append(f"{where}{key}: must be one of {', '.join(choices)}{hint}")
    return None


def read_duration(given: Mapping[str, Any], key: str, mistakes: list[str], where: str = "") -> int | None:
    """Milliseconds under ``key``; None when the key is absent or wrong."""
    value = given.get(key)
    if value is None:
        return None
    duration = parse_duration(value)
    if duration is None:
        mistakes.append(f"{where}{key}: must be a whole number and a unit, such as 30s, 10m, 1h, 1d or 1w")
    return duration


def read_whole(
    given: Mapping[str, Any], key: str, least: int, mistakes: list[str], where: str = ""
) -> int | None:
    """The whole number under ``key``; None when the key is absent or wrong."""
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        mistakes.append(f"{where}{key}: must be a whole number of at least {least}")
        return None
    return value


def read_share(given: Mapping[str, Any], key: str, mistakes: list[str], where: str = "") -> float | None:
    """The number from 0 to 1 under ``key``; None when the key is absent or wrong."""
    value = given.get(key)
    if value is None:
        return None
    number = read_number(value)
    if number is None or not 0 <= number <= 1:
        mistakes.append(f"{where}{key}: must be a number from 0 to 1")
        return None
    return float(number)


def read_text(given: Mapping[str, Any], key: str, mistakes: list[str], where: str = "") -> str | None:
    """The text under ``key``; None when the key is absent or wrong."""
    value = given.get(key)
    if value is None or isinstance(value, str):
        return value
    mistakes.append(f"{where}{key}: must be text (put it in quotes)")
    return None


def read_number(value: object) -> Decimal | None:
    """A number as the decimal that was written; None for anything else (yes/no included)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


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


def read_domain(value: object, kind: QuasiType | None, mistakes: list[str], where: str) -> Domain | None:
    """The domain of a quasi-identifier of type ``kind``; None when it is absent or wrong."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        mistakes.append(f"{where}domain: must be a list")
        return None
    if kind is QuasiType.NUMERIC:
        numbers = tuple(number for number in map(read_number, value) if number is not None)
        if len(numbers) == len(value) == 2:
            return numbers[0], numbers[1]
        mistakes.append(f"{where}domain: must be [low, high], two numbers")
    elif kind is QuasiType.DATE:
        dates = tuple(found for found in map(read_date, value) if found is not None)
        if len(dates) == len(value) == 2:
            return dates  # type: ignore[return-value]
        mistakes.append(f"{where}domain: must be [first, last], two ISO dates such as 1930-01-01")
    elif kind in (QuasiType.CATEGORICAL, QuasiType.HIERARCHY):
        texts = tuple(item for item in value if isinstance(item, str))
        if len(texts) == len(value):
            return texts
        mistakes.append(f"{where}domain: must list texts (put numbers, dates and yes/no in quotes)")
    return None


def read_grid(value: object) -> str | Decimal:
    """A grid: a number where it is one, else the word as it was written (the policy's rules judge it)."""
    return number if (number := read_number(value)) is not None else str(value)
