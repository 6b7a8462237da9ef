"""Installs the folders of this repository as ONE package, ``kanonflow``.

The rooms at the root have generic names (``solvers``, ``schemas``...), which must not land in a user's
site-packages; ``package_dir`` maps each of them to ``kanonflow.<room>``, and ``pipelines/face`` to ``kanonflow``
itself.
"""

import os
import runpy
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
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

# Releases from 2.67 to 2.75 leak memory with each bundle that fails (apache/beam#39406), and older ones do not go with
# pyarrow 20. make beam-range-test tries both ends; locks/ pin one for all tests.
BEAM = ">=2.76,<3"

RUNTIME = [
    f"apache-beam{BEAM}",
    "numpy>=2.0,<2.5",
    "numba>=0.68.1,<0.69",
    "pyarrow>=20,<26",
    "fastavro>=1.13,<2",
    "scipy>=1.14,<2",
    "highspy>=1.14,<2",
    "PyYAML>=6,<7",
    # Check digits of bank accounts, cards and documents, by which a draft tells them (decision 089).
    "python-stdnum>=2.0,<3",
    "cryptography>=42,<51",
    # Time zones, where an image has no database of its own.
    "tzdata>=2025.1",
]
CLI = ["rich>=13"]
# Before 2.12 the registry's client had no OAuth, and the first ones followed redirects.
KAFKA = ["confluent-kafka[schemaregistry]>=2.12,<3"]
GCP = [f"apache-beam[gcp]{BEAM}"]
# Before 1.35 the client had no If-None-Match.
AWS = [f"apache-beam[aws]{BEAM}", "boto3>=1.36,<2"]
# Workbooks as input.
XLSX = ["openpyxl>=3.1,<4"]
# Tables of Iceberg, with the catalog that is a file (decision 127); and events of OpenLineage.
ICEBERG = ["pyiceberg[sql-sqlite]>=0.12,<0.13"]
OPENLINEAGE = ["openlineage-python>=1.54,<2"]
YAML = [f"apache-beam[yaml]{BEAM}"]
# The pages of docs/ as a site (decision 065).
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.29,<2"]
# Pages of HTML.
REPORT = ["jinja2>=3.1,<4"]
# docs/notebooks, which a test runs.
NOTEBOOK = ["nbclient>=0.10,<1", "nbformat>=5.10,<6", "ipykernel>=6.29,<8"]
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
    "moto[server]>=5",
    "setuptools>=70.1",
    # Drives a browser that is there already (chromium of the distribution); its own are not downloaded.
    "playwright>=1.49,<2",
]

# Names of solvers.rivals, by which a policy or a task finds them: the product imports none (solvers/registered.py).
RIVALS = (
    *("certify", "paper-local-search", "paper-iterated-local-search"),
    *("factor-search", "constructive", "ring", "greedy", "sort-greedy", "sort-greedy-blocks", "hungarian"),
    *(
        "split-and-carry",
        "insertion",
        "k-member",
        "mondrian",
        "relaxed-mondrian",
        "oka",
        "ika",
        "ncp-clustering",
    ),
    *("black-hole", "kab", "ola", "kgen", "exhaustive", "incognito", "samarati", "datafly", "random-search"),
)

KEYWORDS = [
    "k-anonymity",
    "anonymization",
    "privacy",
    "de-identification",
    "apache-beam",
    "streaming",
    "l-diversity",
    "t-closeness",
    "microaggregation",
]
CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Intended Audience :: Developers",
    "Intended Audience :: Information Technology",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Topic :: Scientific/Engineering :: Information Analysis",
    "Topic :: Security",
    "Topic :: System :: Distributed Computing",
    "Typing :: Typed",
]


def _readme() -> str:
    """What an index shows of the package. A copy of the sources may come without it."""
    readme = HERE / "README.md"
    return readme.read_text(encoding="utf-8") if readme.is_file() else ""


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


LOCK, BILL = HERE / "locks" / "run.lock", HERE / "deploy" / "wheel" / "bill_of_materials.py"


class _Repeatable(bdist_wheel):
    """A wheel of the same bytes from the same sources, SOURCE_DATE_EPOCH and setuptools, with its bill of materials."""

    def write_wheelfile(self, wheelfile_base: str, **settings: Any) -> None:
        super().write_wheelfile(wheelfile_base, **settings)
        # A copy of the sources may come without either.
        if LOCK.is_file() and BILL.is_file():
            folder = Path(wheelfile_base, "sboms")
            folder.mkdir(exist_ok=True)
            (folder / "kanonflow.cdx.json").write_bytes(_bill())
        # An archive keeps modes, which follow from the umask of whoever took the sources out.
        for path in Path(self.bdist_dir).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)


def _bill() -> bytes:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    made: bytes = runpy.run_path(str(BILL))["bill_of_materials"](
        LOCK.read_text(encoding="utf-8"),
        VERSION,
        RUNTIME + CLI + KAFKA + REPORT,
        int(epoch) if epoch else None,
        {name: version(name) for name in ("numba", "llvmlite")} if COMPILED else {},
    )
    return made


VERSION = "0.1.0"

setup(
    name="kanonflow",
    version=VERSION,
    description="Continuous k-anonymization of record feeds as an Apache Beam component",
    long_description=_readme(),
    long_description_content_type="text/markdown",
    keywords=KEYWORDS,
    classifiers=CLASSIFIERS,
    python_requires=">=3.11,<3.13",
    packages=list(PACKAGES),
    package_dir=PACKAGES,
    package_data={
        "kanonflow": ["py.typed"],
        "kanonflow.pipelines.flink": ["*.xml", "*.java"],
        "kanonflow.pipelines.pages": ["*.j2", "*.css"],
        "kanonflow.schemas": ["*.avsc"],
        "kanonflow.solvers.kernels": ["*.json"],
        "kanonflow.policies": ["*.yaml"],
    },
    install_requires=_pinned(RUNTIME) if COMPILED else RUNTIME,
    cmdclass={"bdist_wheel": _Repeatable, **({"build_py": _WithKernels} if COMPILED else {})},
    **({"distclass": _ForOneMachine} if COMPILED else {}),
    extras_require={
        "aws": AWS,
        "cli": CLI,
        "gcp": GCP,
        "iceberg": ICEBERG,
        "kafka": KAFKA,
        "openlineage": OPENLINEAGE,
        "yaml": YAML,
        "docs": DOCS,
        "report": REPORT,
        "xlsx": XLSX,
        "test": CLI
        + KAFKA
        + GCP
        + AWS
        + YAML
        + DOCS
        + REPORT
        + XLSX
        + ICEBERG
        + OPENLINEAGE
        + NOTEBOOK
        + TEST,
    },
    entry_points={
        "console_scripts": ["kanonflow = kanonflow.pipelines.cli:main"],
        "kanonflow.solvers": [f"{name} = kanonflow.solvers.rivals.by_name:rival" for name in RIVALS],
    },
)
