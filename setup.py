"""Installs the folders of this repository as ONE package, ``kanonflow``.

The rooms at the root have generic names (``solvers``, ``schemas``...), which must not land in a user's
site-packages; ``package_dir`` maps each of them to ``kanonflow.<room>``, and ``pipelines/face`` to ``kanonflow``
itself.
"""

import os
import shutil
from importlib.metadata import version
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOMS = ("pipelines", "transforms", "solvers", "schemas", "policies")
HERE = Path(__file__).parent
FACE = "pipelines/face"


def _packages() -> dict[str, str]:
    """Package name -> folder, relative to this file: the face, every room and the packages inside it."""
    packages = {"kanonflow": FACE}
    for room in ROOMS:
        for init in sorted((HERE / room).rglob("__init__.py")):
            folder = init.parent.relative_to(HERE)
            if folder.as_posix() != FACE:
                packages["kanonflow." + ".".join(folder.parts)] = folder.as_posix()
    return packages


PACKAGES = _packages()

RUNTIME = [
    "apache-beam==2.77.0",
    "numpy>=2.0,<2.5",
    "numba>=0.68.1,<0.69",
    "pyarrow>=20,<26",
    "fastavro>=1.13,<2",
    "scipy>=1.14,<2",
    "highspy>=1.14,<2",
    "PyYAML>=6,<7",
    "cryptography>=42,<51",
    # Time zones, where an image has no database of its own.
    "tzdata>=2025.1",
]
CLI = ["rich>=13"]
# Before 2.12 the registry's client had no OAuth, and the first ones followed redirects.
KAFKA = ["confluent-kafka[schemaregistry]>=2.12,<3"]
# Pages of HTML with drawings in them, which are made here and not by whoever opens them.
REPORT = ["jinja2>=3.1,<4", "vl-convert-python>=1.9,<2"]
GCP = ["apache-beam[gcp]==2.77.0"]
TEST = [
    "pytest>=8",
    "pytest-timeout>=2",
    "pytest-xdist>=3",
    "hypothesis>=6",
    "ruff>=0.8",
    "mypy>=1.13",
    "types-PyYAML",
    "duckdb>=1.1",
    "polars>=1.10",
    "pandas>=2.2,<3",
    "jsonschema>=4.20",
    "setuptools>=70.1",
    # Drives a browser that is there already (chromium of the distribution); its own are not downloaded.
    "playwright>=1.49,<2",
]

# The folder of kernels as machine code that ``make wheel`` compiles (decision 058), for a wheel that carries them.
COMPILED = os.environ.get("KANONFLOW_COMPILED")


class _WithKernels(build_py):
    """The sources, and the machine code of their kernels where the installed package looks for it."""

    def run(self) -> None:
        super().run()
        target = Path(self.build_lib, "kanonflow", "solvers", "compiled")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(str(COMPILED), target)


class _ForOneMachine(Distribution):
    """A wheel that names Python's version and the platform."""

    def has_ext_modules(self) -> bool:
        return True


def _pinned(requirements: list[str]) -> list[str]:
    """Exactly the numba whose code is carried; another one would compile it again."""
    return [f"numba=={version('numba')}" if each.startswith("numba") else each for each in requirements]


setup(
    name="kanonflow",
    version="0.1.0",
    description="Continuous k-anonymization of record feeds as an Apache Beam component",
    python_requires=">=3.11,<3.13",
    packages=list(PACKAGES),
    package_dir=PACKAGES,
    package_data={
        "kanonflow.pipelines.flink": ["*.xml", "*.java"],
        "kanonflow.pipelines.pages": ["*.j2", "*.css"],
        "kanonflow.schemas": ["*.avsc"],
        "kanonflow.solvers.kernels": ["*.json"],
        "kanonflow.policies": ["*.yaml"],
    },
    install_requires=_pinned(RUNTIME) if COMPILED else RUNTIME,
    **({"cmdclass": {"build_py": _WithKernels}, "distclass": _ForOneMachine} if COMPILED else {}),
    extras_require={
        "cli": CLI,
        "gcp": GCP,
        "kafka": KAFKA,
        "yaml": ["apache-beam[yaml]==2.77.0"],
        "report": REPORT,
        "test": CLI + KAFKA + GCP + REPORT + TEST,
    },
    entry_points={"console_scripts": ["kanonflow = kanonflow.pipelines.cli:main"]},
)
