"""What ``import kanonflow`` gives: the public names, each loaded when it is asked for."""

import importlib
import importlib.metadata
import pydoc
import subprocess
import sys

import pytest

import kanonflow
import kanonflow.transforms


def test_every_public_name_is_there() -> None:
    """The same objects as where they live; ``dir`` lists them; another name is none."""
    assert sorted(kanonflow.__all__) == sorted(kanonflow._PLACE_OF)
    for name, place in kanonflow._PLACE_OF.items():
        assert getattr(kanonflow, name) is getattr(importlib.import_module(place), name)
    for name in set(kanonflow.transforms.__all__):
        assert getattr(kanonflow, name) is getattr(kanonflow.transforms, name)
    assert dir(kanonflow) == sorted([*kanonflow.__all__, "__version__"])
    with pytest.raises(AttributeError, match="has no attribute 'anonymise'"):
        _ = kanonflow.anonymise


def test_the_version_is_that_of_the_installation() -> None:
    """As pip has it."""
    assert kanonflow.__version__ == importlib.metadata.version("kanonflow")


def test_help_tells_of_them() -> None:
    """``help(kanonflow)``: what each is for, with its definitions."""
    told = pydoc.plain(pydoc.render_doc(kanonflow))
    for line in (
        "Continuous k-anonymization",
        "result = anonymize_table(",
        "read_release(",
        "class ReleasedTable",
        "class AnonymizeRows",
        "class KanonflowOptions",
    ):
        assert line in told


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import kanonflow", ("apache_beam", "numba", "numpy", "pyarrow", "fastavro", "cryptography")),
        ("from kanonflow import read_release", ("apache_beam", "numba", "polars", "pandas", "cryptography")),
    ],
)
def test_nothing_is_loaded_that_is_not_asked_for(statement: str, heavy: tuple[str, ...]) -> None:
    """``import kanonflow`` is quick, and a release is read without Beam."""
    program = f"import sys; {statement}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(heavy) & set(ran.stdout.split())
