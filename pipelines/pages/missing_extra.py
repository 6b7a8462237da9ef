"""What pages need beyond the rest of the package: the extra ``report``."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class MissingExtraError(Exception):
    """A package of the extra ``report`` is not installed; the message says how to get it."""

    exit_code = 2


def templates() -> ModuleType:
    """Jinja, imported now. Raises MissingExtraError: it is not installed."""
    try:
        return import_module("jinja2")
    except ModuleNotFoundError as error:
        if error.name != "jinja2":
            raise
        raise MissingExtraError("pages of HTML need jinja2: pip install 'kanonflow[report]'") from None
