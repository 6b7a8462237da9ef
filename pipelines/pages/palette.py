"""The colours of pages, in light and in dark. Text has a contrast of 4.5 to what it stands on, drawn marks one of 3.

A drawing has the light colours; the stylesheet turns each into a variable by its value, which a dark screen sets anew.
So no two colours of a drawing may be the same in light.
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """One colour, as #rrggbb."""

    light: str
    dark: str


PALETTE = {
    "paper": Colour("#ffffff", "#11151a"),
    "panel": Colour("#f4f6f8", "#1b2128"),
    "ink": Colour("#1c2127", "#e8edf2"),
    "muted": Colour("#555e68", "#a3adb8"),
    "line": Colour("#d5dae0", "#353d47"),
    "link": Colour("#0a55c4", "#85b7ff"),
    "good": Colour("#12602b", "#86e0a3"),
    "bad": Colour("#a3161f", "#ffa39e"),
    "open": Colour("#6b4b00", "#f0cb7a"),
    "blue": Colour("#1f6fc9", "#6fb1ff"),
    "orange": Colour("#b95a04", "#ffad62"),
    "green": Colour("#1c7d3c", "#62d184"),
    "purple": Colour("#7d4fd6", "#c19cff"),
    "red": Colour("#c22f36", "#ff8d88"),
    "teal": Colour("#0d7a82", "#52cfd6"),
    "brown": Colour("#8c5d2f", "#d9aa7b"),
    "grey": Colour("#6f7882", "#aab3bd"),
}
"""By name."""

SERIES = ("blue", "orange", "green", "purple", "red", "teal", "brown", "grey")
"""Of a drawing's series, in order; the last one is for all that are left."""
