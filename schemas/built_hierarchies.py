"""Hierarchies that a policy describes instead of listing: ranges, masked text, parts of the calendar over a domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_builders import (
    date_hierarchy,
    ranges_by_doubling,
    ranges_of_widths,
    star_hierarchy,
)
from kanonflow.schemas.written_values import read_date, read_number

MOST_LEAVES = 200_000
BUILDERS = ("widths", "doubling", "stars", "calendar")


class BuiltKey(NamedTuple):
    """A key of a mapping that builds a hierarchy: what it takes, what it is without it, and what it is for."""

    name: str
    value: str
    without: str
    doc: str


KEYS = (
    BuiltKey("widths", "list of numbers", "", "Ranges of these widths, the narrowest first."),
    BuiltKey("doubling", "number", "", "Ranges of this width, then twice that, and so on."),
    BuiltKey("stars", "true", "", "Text masked from its end, a character a level."),
    BuiltKey(
        "calendar", "list of day, month, quarter, year, decade", "", "Days, then these parts of the calendar."
    ),
    BuiltKey(
        "domain",
        "[low, high], [first, last] or a list of texts",
        "has to be there",
        "The values it is built over: whole numbers, days, or for stars all texts.",
    ),
    BuiltKey("origin", "number", "0", "Of widths and doubling, what the ranges are counted from."),
)
"""One of BUILDERS, and what goes with it; docs/policy.md has a table of these."""

_FORMS = (
    "{widths: [5, 10], domain: [0, 120]}, {doubling: 5, domain: [0, 120]}, {stars: true, domain: [NL80, NL81]} or "
    "{calendar: [month, year], domain: [1920-01-01, 2010-12-31]}"
)


def build_hierarchy(given: Mapping[str, Any]) -> Hierarchy:
    """The hierarchy of a mapping with one of BUILDERS, a ``domain`` and for ranges an ``origin`` (default 0).

    Ranges are over the whole numbers of a domain [low, high], dates over its days, stars over the texts it lists.
    Raises HierarchyError with all mistakes.
    """
    named = [key for key in BUILDERS if key in given]
    allowed = {*named, "domain", *(("origin",) if named in (["widths"], ["doubling"]) else ())}
    mistakes = [f"{key}: unknown key" for key in given if key not in allowed]
    if len(named) != 1:
        mistakes.append(f"needs one of {', '.join(BUILDERS)}, as in {_FORMS}")
    if "domain" not in given:
        mistakes.append("domain: missing; the values that the hierarchy is built over")
    if mistakes:
        raise HierarchyError(mistakes)
    build: dict[str, Callable[[], Hierarchy]] = {
        "widths": lambda: ranges_of_widths(
            _whole_numbers(given),
            _numbers(given["widths"], "widths"),
            _number(given.get("origin", 0), "origin"),
        ),
        "doubling": lambda: ranges_by_doubling(
            _whole_numbers(given),
            _number(given["doubling"], "doubling"),
            _number(given.get("origin", 0), "origin"),
        ),
        "stars": lambda: star_hierarchy(_texts(given)),
        "calendar": lambda: date_hierarchy(_days(given), _words(given["calendar"])),
    }
    return build[named[0]]()


def _number(value: object, key: str) -> Decimal:
    number = read_number(value)
    if number is None:
        raise HierarchyError([f"{key}: must be a number"])
    return number


def _numbers(value: object, key: str) -> list[Decimal]:
    if not isinstance(value, list | tuple) or not value:
        raise HierarchyError([f"{key}: must be a list of numbers"])
    return [_number(each, key) for each in value]


def _words(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise HierarchyError(["calendar: must be a list such as [month, year]"])
    return list(value)


def _ends(given: Mapping[str, Any], told: str) -> tuple[Any, Any]:
    domain = given["domain"]
    if not isinstance(domain, list | tuple) or len(domain) != 2:
        raise HierarchyError([f"domain: must be {told}"])
    return domain[0], domain[1]


def _counted(leaves: int) -> int:
    if not 1 <= leaves <= MOST_LEAVES:
        raise HierarchyError([f"domain: must hold 1 to {MOST_LEAVES:,} values, the least first"])
    return leaves


def _whole_numbers(given: Mapping[str, Any]) -> range:
    low, high = (_number(end, "domain") for end in _ends(given, "[low, high], two whole numbers"))
    if low != low.to_integral_value() or high != high.to_integral_value():
        raise HierarchyError(["domain: must be [low, high], two whole numbers"])
    _counted(int(high) - int(low) + 1)
    return range(int(low), int(high) + 1)


def _days(given: Mapping[str, Any]) -> list[date]:
    form = "[first, last], two ISO dates"
    ends = [read_date(end) for end in _ends(given, form)]
    # A datetime is a date to Python, and would count hours as days.
    if any(type(end) is not date for end in ends):
        raise HierarchyError([f"domain: must be {form}"])
    first, last = ends
    assert first is not None
    assert last is not None
    return [first + timedelta(days) for days in range(_counted((last - first).days + 1))]


def _texts(given: Mapping[str, Any]) -> list[str]:
    domain = given["domain"]
    if given["stars"] is not True:
        raise HierarchyError(["stars: must be true"])
    if not isinstance(domain, list | tuple) or not all(isinstance(text, str) and text for text in domain):
        raise HierarchyError(["domain: must list the values as texts (put numbers in quotes)"])
    _counted(len(domain))
    return list(domain)
