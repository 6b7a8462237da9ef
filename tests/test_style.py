"""What keeps a source file readable in one sitting: short files, short functions, names that say what is inside."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("pipelines", "transforms", "solvers", "schemas", "policies", "tests", "benchmarks", "deploy")
MOST_LINES_OF_FILE = 500
MOST_LINES_OF_FUNCTION = 80
MOST_LINES_OF_KERNEL = 100
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "core", "misc", "base", "stuff", "tools"}


class Function(NamedTuple):
    """name: qualified by its file. lines: of code, without the docstring. kernel: compiled by numba."""

    name: str
    lines: int
    kernel: bool


def sources() -> list[Path]:
    """Every Python file of the project."""
    return [*sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")), ROOT / "setup.py"]


def functions(text: str, file: str) -> Iterator[Function]:
    """The functions and methods of a source text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            kernel = any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
            yield Function(f"{file}:{node.lineno} {node.name}", lines, kernel)


def test_docstrings_do_not_count_and_kernels_are_known() -> None:
    """A function's length is that of its code; a numba decorator in any spelling makes it a kernel."""
    text = '@numba.njit(cache=True)\ndef f():\n    """Two\n    lines."""\n    return 1\n\n\ndef g():\n    return 2\n'
    assert list(functions(text, "x")) == [Function("x:2 f", 2, True), Function("x:8 g", 2, False)]


def test_no_file_is_long() -> None:
    """Files have at most 500 lines."""
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources()}
    assert len(lengths) > 100
    long = [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > MOST_LINES_OF_FILE]
    assert not long, "\n".join(long)


def test_no_function_is_long() -> None:
    """Functions have at most 80 lines of code, numba kernels at most 100."""
    found = [each for path in sources() for each in functions(path.read_text(), str(path.relative_to(ROOT)))]
    most = {True: MOST_LINES_OF_KERNEL, False: MOST_LINES_OF_FUNCTION}
    long = [f"{each.name}: {each.lines} lines" for each in found if each.lines > most[each.kernel]]
    assert not long, "\n".join(long)


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
