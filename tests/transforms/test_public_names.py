"""What users import is there, and is the thing itself."""

from __future__ import annotations

import importlib

import pytest

import kanonflow.solvers
import kanonflow.transforms


@pytest.mark.parametrize("package", [kanonflow.solvers, kanonflow.transforms])
def test_public_names_are_importable(package: object) -> None:
    """Every name a package lists is an object of the module that defines it, even where a module has that name."""
    for name in package.__all__:  # type: ignore[attr-defined]
        found = getattr(package, name)
        assert callable(found)
        assert getattr(importlib.import_module(found.__module__), name) is found


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Nothing else is made up."""
    with pytest.raises(AttributeError):
        kanonflow.transforms.nothing  # noqa: B018
