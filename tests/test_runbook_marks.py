"""Each command of the runbook is run by a test, or says that it is not.

A mark stands behind it, invisible to readers: ``<!-- tried: tests/x.py::test_y -->`` or ``<!-- not tried: why -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WALKED = ("docs/operations.md", "docs/kafka.md", "docs/dataflow.md", "docs/streams.md")
PROGRAMS = (
    "kanonflow",
    "flink",
    "curl",
    "make flink",
    "python -m",
    "gcloud",
    "docker",
    "pip",
    "head -c",
    "kubectl",
)
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
            if words.startswith(PROGRAMS) and len(words.split()) > 1 + words.startswith(
                ("kanonflow", "make")
            ):
                yield words, part[found.end() :]


@pytest.mark.parametrize("document", WALKED)
def test_every_command_is_tried_or_says_that_it_is_not(document: str) -> None:
    """And the test that a mark names is there."""
    unmarked, missing = [], []
    for command, behind in commands((ROOT / document).read_text()):
        mark = MARK.search(behind)
        if mark is None:
            unmarked.append(command)
        elif mark[1] == "tried":
            missing += [name for name in mark[2].split() if not is_test(name.strip(","))]
    assert not unmarked, unmarked
    assert not missing, missing


@pytest.mark.parametrize("document", WALKED)
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
