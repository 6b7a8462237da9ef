"""What pages need beyond the rest of the package: the extra ``report``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_OF_EXTRA = {"jinja2": "jinja2", "vl_convert": "vl-convert-python"}
"""Module -> package."""

HOW = "pip install 'kanonflow[report]'"


class MissingExtraError(Exception):
    """A package of the extra ``report`` is not installed; the message says how to get it."""

    exit_code = 2


def missing() -> tuple[str, ...]:
    """The packages of the extra that are not installed. Nothing is imported."""
    return tuple(package for module, package in _OF_EXTRA.items() if find_spec(module) is None)


def needs(module: str) -> ModuleType:
    """A module of the extra, imported now. Raises MissingExtraError."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MissingExtraError(f"pages of HTML need {_OF_EXTRA[module]}: {HOW}") from None
