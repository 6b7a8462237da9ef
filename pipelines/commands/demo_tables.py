"""What the demo feed is made of: places, occupations, merchants, and the rhythm of days and weeks.

All numbers are rough guesses that look plausible; none is a statistic of anything.
"""

from typing import NamedTuple


class Place(NamedTuple):
    """Where customers live: the middle of a town, degrees, and its relative size."""

    postcode_area: str
    latitude: float
    longitude: float
    weight: float


class Occupation(NamedTuple):
    """What customers do: yearly income in the middle, and how frequent it is."""

    name: str
    income: float
    weight: float


class Category(NamedTuple):
    """What is paid for. channels: weights of the CHANNELS."""

    name: str
    typical_amount: float
    weight: float
    channels: tuple[float, float, float, float]


PLACES = (
    Place("10", 52.52, 13.40, 36),
    Place("20", 53.55, 9.99, 18),
    Place("80", 48.14, 11.58, 15),
    Place("50", 50.94, 6.96, 11),
    Place("60", 50.11, 8.68, 8),
    Place("70", 48.78, 9.18, 6.3),
    Place("40", 51.23, 6.78, 6.2),
    Place("44", 51.51, 7.47, 5.9),
    Place("45", 51.46, 7.01, 5.8),
    Place("04", 51.34, 12.37, 6),
    Place("28", 53.08, 8.80, 5.7),
    Place("01", 51.05, 13.74, 5.6),
    Place("30", 52.37, 9.73, 5.4),
    Place("90", 49.45, 11.08, 5.2),
    Place("24", 54.32, 10.14, 2.5),
    Place("18", 54.09, 12.14, 2.1),
    Place("99", 50.98, 11.03, 2.1),
    Place("66", 49.24, 6.99, 1.8),
    Place("79", 47.99, 7.85, 2.3),
    Place("94", 48.57, 13.46, 0.6),
)

OCCUPATIONS = (
    Occupation("retired", 22_000, 20),
    Occupation("student", 11_000, 9),
    Occupation("office clerk", 38_000, 9),
    Occupation("sales assistant", 27_000, 8),
    Occupation("nurse", 41_000, 6),
    Occupation("teacher", 54_000, 5),
    Occupation("software developer", 66_000, 4),
    Occupation("engineer", 68_000, 4),
    Occupation("driver", 31_000, 4),
    Occupation("mechanic", 37_000, 4),
    Occupation("cook", 27_000, 3),
    Occupation("electrician", 38_000, 3),
    Occupation("warehouse worker", 29_000, 3),
    Occupation("unemployed", 12_000, 3),
    Occupation("self-employed", 45_000, 3),
    Occupation("accountant", 48_000, 2),
    Occupation("police officer", 47_000, 2),
    Occupation("social worker", 39_000, 2),
    Occupation("hairdresser", 22_000, 2),
    Occupation("doctor", 98_000, 1.5),
    Occupation("lawyer", 88_000, 1),
    Occupation("journalist", 44_000, 0.8),
    Occupation("gardener", 33_000, 0.7),
    Occupation("musician", 25_000, 0.3),
)

CHANNELS = ("card", "online", "transfer", "cash")

CATEGORIES = (
    Category("groceries", 28, 30, (80, 5, 0, 15)),
    Category("restaurant", 24, 14, (75, 5, 0, 20)),
    Category("fuel", 55, 8, (92, 0, 0, 8)),
    Category("clothing", 60, 6, (55, 42, 0, 3)),
    Category("electronics", 140, 3, (45, 53, 2, 0)),
    Category("pharmacy", 17, 5, (85, 5, 0, 10)),
    Category("public transport", 9, 9, (60, 35, 0, 5)),
    Category("travel", 260, 2, (35, 60, 5, 0)),
    Category("entertainment", 22, 6, (50, 45, 0, 5)),
    Category("subscription", 12, 5, (10, 85, 5, 0)),
    Category("household", 48, 5, (70, 25, 0, 5)),
    Category("rent", 780, 2, (0, 0, 100, 0)),
    Category("utilities", 95, 2, (0, 10, 90, 0)),
    Category("insurance", 70, 2, (0, 15, 85, 0)),
    Category("cash withdrawal", 100, 1, (0, 0, 0, 100)),
)

CURRENCIES = (("EUR", 96.0), ("CHF", 1.5), ("GBP", 1.0), ("USD", 1.0), ("PLN", 0.5))

HOURS = (0.3, 0.2, 0.1, 0.1, 0.2, 0.5, 1.5, 3.5, 5, 5.5, 6, 7, 8, 7, 6, 6, 7.5, 9, 9.5, 7.5, 5, 3, 1.5, 0.8)
"""Relative activity in each hour of the day."""

WEEKDAYS = (0.9, 0.9, 0.95, 1.0, 1.25, 1.35, 0.65)
"""Relative activity from Monday to Sunday."""
