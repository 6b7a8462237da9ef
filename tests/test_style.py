"""What keeps a source file findable: names that say what is inside, and rules that hold everywhere."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "pipelines",
    "transforms",
    "solvers",
    "schemas",
    "policies",
    "tests",
    "benchmarks",
    "deploy",
)
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "core", "misc", "base", "stuff", "tools"}


def sources() -> list[Path]:
    """Every Python file of the project."""
    return [*sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")), ROOT / "setup.py"]


def test_file_names_say_what_is_inside() -> None:
    """No drawer for odds and ends."""
    empty = [str(path.relative_to(ROOT)) for path in sources() if path.stem in SAYS_NOTHING]
    assert not empty, "\n".join(empty)


def test_no_file_is_exempt_from_a_rule() -> None:
    """A rule of ruff or mypy holds everywhere or nowhere."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    lint = tools["ruff"]["lint"]
    assert not {"per-file-ignores", "extend-per-file-ignores"} & set(lint)
    assert not any(override.get("ignore_errors") for override in tools["mypy"]["overrides"])
    whole = [str(path.relative_to(ROOT)) for path in sources() if "ruff: " + "noqa" in path.read_text()]
    assert not whole, "\n".join(whole)
