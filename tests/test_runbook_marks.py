"""Each command that a page tells somebody to type is run by a test, or says that it is not.

A mark stands behind it, invisible to readers: ``<!-- tried: tests/x.py::test_y -->`` or ``<!-- not tried: why -->``.
Pages of the runbook have one behind every command. On others ``test_snippets`` types what has none, and is of ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kanonflow.pipelines.options.table import COMMANDS

ROOT = Path(__file__).parents[1]
RUNBOOK = ("docs/operations.md", "docs/kafka.md", "docs/dataflow.md", "docs/streams.md")
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES += [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = (
    "kanonflow ",
    "make ",
    "python ",
    "pip ",
    "flink ",
    "gcloud ",
    "docker ",
    "kubectl ",
    "curl ",
    "bash ",
    "head -c",
)
NOT_TRIED = {
    "there is no Docker and no Google Cloud where this is tested": 3,
    "there is no Google Cloud where this is tested": 1,
    "only its job graph, by dry run": 1,
    "needs Spark": 1,
    "needs BigQuery": 1,
    "needs AWS": 1,
    "needs scikit-learn, which is no part of the project": 1,
    "a test looks at the sockets of a cluster without it": 2,
    "from sources; make wheel-test installs a wheel": 1,
    "the tests install the extra": 4,
    "CI runs make test on a fresh clone; a test runs what make demo runs": 1,
    "CI runs make test; tests/test_site.py builds the pages": 1,
    "make itself; what it runs is run by tests/flink/test_runbook.py": 1,
    "the data sets are not here; tests/test_benchmarks.py runs small ones": 1,
    "it is the tests": 3,
}
"""All that pages tell somebody to type and no test types: why, and how often."""
MARK = re.compile(r"<!-- (tried|not tried): (.+?) -->", re.DOTALL)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a document, and the text behind it in which its mark must stand.

    A block of commands: up to the next blank line behind its own. One within a sentence, with arguments: up to the end
    of its paragraph or list item.
    """
    prose = text
    for block in re.finditer(r"^```sh\n(.*?)^```\n(.*?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
        yield block[1].strip(), block[2]
        prose = prose.replace(block[0], "")
    indented = prose
    for block in re.finditer(r"(?:(?<=\n\n)|\A)(?: {4}[^\n]*\n)+", indented):
        if block[0].strip().startswith(PROGRAMS):
            yield block[0].strip(), indented[block.end() :].lstrip("\n").partition("\n\n")[0]
            prose = prose.replace(block[0], "")
    for part in re.split(r"\n\n|\n(?=\d+\. |- |\| )", re.sub(r"```.*?```", "", prose, flags=re.DOTALL)):
        for found in re.finditer(r"`([^`]+)`", part):
            words = " ".join(found[1].split())
            # `kanonflow verify` or `make flink-up` names a command; with arguments it is one.
            named = words.removeprefix("kanonflow ") in COMMANDS or re.fullmatch(r"make \S+", words)
            if words.startswith(PROGRAMS) and " " in words and not named:
                yield words, part[found.end() :]


def spoken(document: str) -> list[str]:
    """Commands of ours in sentences of a page that have no mark."""
    if document in RUNBOOK:
        return []
    found = [
        command for command, behind in commands((ROOT / document).read_text()) if not MARK.search(behind)
    ]
    return [command for command in found if command.startswith("kanonflow ")]


@pytest.mark.parametrize("document", PAGES)
def test_every_command_is_tried_or_says_that_it_is_not(document: str) -> None:
    """Or it is one of ours, and typed by ``test_snippets``. The test that a mark names is there."""
    unmarked, missing = [], []
    for command, behind in commands((ROOT / document).read_text()):
        mark = MARK.search(behind)
        if mark is None:
            unmarked.append(command)
        elif mark[1] == "tried":
            missing += [name for name in mark[2].split() if not is_test(name.strip(","))]
    assert unmarked == spoken(document), unmarked
    assert not missing, missing


def test_what_no_test_types_is_listed_here() -> None:
    """With the reason that stands in the page: nothing new goes untried unseen."""
    reasons = Counter(
        " ".join(mark[2].split())
        for document in PAGES
        for mark in MARK.finditer((ROOT / document).read_text())
        if mark[1] == "not tried"
    )
    assert reasons == NOT_TRIED


@pytest.mark.parametrize("document", RUNBOOK)
def test_there_are_commands_to_walk(document: str) -> None:
    """A reader that finds nothing would pass everything."""
    assert list(commands((ROOT / document).read_text()))


def test_what_counts_as_a_command() -> None:
    """Blocks and sentences are found; a mark belongs to the command that it follows."""
    text = "Do:\n\n```sh\nmake flink-up\n```\n<!-- not tried: no -->\n\n"
    text += "1. Run `flink stop JOB`.\n2. And <!-- tried: x -->\n"
    found = list(commands(text))
    assert [command for command, _ in found] == ["make flink-up", "flink stop JOB"]
    assert [bool(MARK.search(behind)) for _, behind in found] == [True, False]


def is_test(name: str) -> bool:
    """Whether ``tests/x.py::test_y`` is there."""
    file, _, function = name.partition("::")
    path = ROOT / file
    return path.is_file() and f"def {function}(" in path.read_text()
