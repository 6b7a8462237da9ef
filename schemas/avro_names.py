"""Names that every Avro reader accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache


@cache
def avro_name(name: str) -> str:
    """``name`` with ``_`` for everything but ASCII letters, digits and ``_``, not starting with a digit.

    The Avro specification allows no other names; some readers refuse them, others misread them.
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def renamed(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The names that are published as others, each with its published one."""
    return tuple((name, avro_name(name)) for name in names if avro_name(name) != name)
