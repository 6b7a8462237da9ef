"""Hierarchies that a policy describes instead of listing: ranges, masked text, dates over a domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_builders import (
    date_hierarchy,
    formatted_dates,
    ranges_between,
    ranges_by_doubling,
    ranges_of_widths,
    star_hierarchy,
)
from kanonflow.schemas.written_values import read_date, read_number

MOST_LEAVES = 200_000
BUILDERS = ("widths", "doubling", "quantiles", "stars", "calendar", "formats")
_OF_RANGES = {"widths": ("origin", "step"), "doubling": ("origin", "step"), "quantiles": ("step",)}
"""What goes with those of numbers, beside the domain."""


class BuiltKey(NamedTuple):
    """A key of a mapping that builds a hierarchy: what it takes, what it is without it, and what it is for."""

    name: str
    value: str
    without: str
    doc: str


KEYS = (
    BuiltKey("widths", "list of numbers", "", "Ranges of these widths, the narrowest first."),
    BuiltKey("doubling", "number", "", "Ranges of this width, then twice that, and so on."),
    BuiltKey(
        "quantiles",
        "list of numbers",
        "",
        "Ranges between these, which ascend; then two of them together, then four.",
    ),
    BuiltKey("stars", "true", "", "Text masked from its end, a character a level."),
    BuiltKey(
        "calendar", "list of day, month, quarter, year, decade", "", "Days, then these parts of the calendar."
    ),
    BuiltKey(
        "formats",
        "list of formats of %Y %y %m %b %B",
        "",
        "Days, then as these spell them, from short to long, as in ['%m/%Y', '%Y'].",
    ),
    BuiltKey(
        "domain",
        "[low, high], [first, last] or a list of texts",
        "has to be there",
        "The values it is built over: whole numbers (or by step), days, or for stars all texts.",
    ),
    BuiltKey("origin", "number", "0", "Of widths and doubling, what the ranges are counted from."),
    BuiltKey(
        "step",
        "number, above 0",
        "1",
        "Of ranges, by what the values of the domain differ, such as 0.01; the field's type is then decimal(p,2).",
    ),
)
"""One of BUILDERS, and what goes with it; docs/policy.md has a table of these."""

_FORMS = (
    "{widths: [5, 10], domain: [0, 120]}, {doubling: 5, domain: [0, 120]}, {stars: true, domain: [NL80, NL81]} or "
    "{calendar: [month, year], domain: [1920-01-01, 2010-12-31]}"
)


def build_hierarchy(given: Mapping[str, Any]) -> Hierarchy:
    """The hierarchy of a mapping with one of BUILDERS, a ``domain`` and what goes with it.

    Ranges are over the whole numbers of a domain [low, high], or its multiples of ``step``, dates over its days, stars
    over the texts it lists. Raises HierarchyError with all mistakes.
    """
    named = [key for key in BUILDERS if key in given]
    allowed = {*named, "domain", *(_OF_RANGES.get(named[0], ()) if len(named) == 1 else ())}
    mistakes = [f"{key}: unknown key" for key in given if key not in allowed]
    if len(named) != 1:
        mistakes.append(f"needs one of {', '.join(BUILDERS)}, as in {_FORMS}")
    if "domain" not in given:
        mistakes.append(
            "domain: missing; the values that the hierarchy is built over"
            + (
                "; texts that nobody lists have stars with type: prefix and size"
                if named == ["stars"]
                else ""
            )
        )
    if mistakes:
        raise HierarchyError(mistakes)
    if named[0] in _OF_RANGES:
        return _ranges(given, named[0])
    build: dict[str, Callable[[], Hierarchy]] = {
        "stars": lambda: star_hierarchy(_texts(given)),
        "calendar": lambda: date_hierarchy(_days(given), _words(given, "calendar", "[month, year]")),
        "formats": lambda: formatted_dates(_days(given), _words(given, "formats", "['%m/%Y', '%Y']")),
    }
    return build[named[0]]()


def _ranges(mapping: Mapping[str, Any], builder: str) -> Hierarchy:
    values, digits = _steps(mapping)
    if builder == "quantiles":
        return ranges_between(values, _numbers(mapping["quantiles"], "quantiles"), digits)
    origin = _number(mapping.get("origin", 0), "origin")
    if builder == "widths":
        return ranges_of_widths(values, _numbers(mapping["widths"], "widths"), origin, digits)
    return ranges_by_doubling(values, _number(mapping["doubling"], "doubling"), origin, digits)


def _number(value: object, key: str) -> Decimal:
    number = read_number(value)
    if number is None:
        raise HierarchyError([f"{key}: must be a number"])
    return number


def _numbers(value: object, key: str) -> list[Decimal]:
    if not isinstance(value, list | tuple) or not value:
        raise HierarchyError([f"{key}: must be a list of numbers"])
    return [_number(each, key) for each in value]


def _words(mapping: Mapping[str, Any], key: str, form: str) -> list[str]:
    value = mapping[key]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise HierarchyError([f"{key}: must be a list such as {form}"])
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


def _steps(mapping: Mapping[str, Any]) -> tuple[list[Decimal], int]:
    """The values of a domain of numbers, and how many digits they have behind the point."""
    if "step" not in mapping:
        form = "[low, high], two whole numbers; of decimals say step: 0.01"
        low, high = (_number(end, "domain") for end in _ends(mapping, form))
        if low != low.to_integral_value() or high != high.to_integral_value():
            raise HierarchyError([f"domain: must be {form}"])
        step = Decimal(1)
    else:
        step = _number(mapping["step"], "step")
        low, high = (_number(end, "domain") for end in _ends(mapping, "[low, high], two numbers"))
        if not step > 0:
            raise HierarchyError(["step: must be above 0"])
        if any((Fraction(end) / Fraction(step)).denominator > 1 for end in (low, high)):
            raise HierarchyError(["domain: both ends must be multiples of step"])
    leaves = _counted(int((Fraction(high) - Fraction(low)) / Fraction(step)) + 1)
    return [low + step * number for number in range(leaves)], _digits(step)


def _digits(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


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
