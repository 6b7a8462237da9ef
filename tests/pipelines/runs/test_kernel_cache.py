"""A run compiles what no cache holds before it begins, says so, and finds nothing to do the next time."""

from __future__ import annotations

import io
import re
from importlib import resources
from pathlib import Path

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.runs import kernel_cache
from kanonflow.pipelines.runs.kernel_cache import compile_first, kernels_of_run, progress_lines
from kanonflow.schemas.policy_source import read_policy
from tests.small_feeds import bound_feed, feed_policy


class Terminal(io.StringIO):
    """A terminal, or what is none."""

    def __init__(self, lively: bool) -> None:
        super().__init__()
        self._lively = lively

    def isatty(self) -> bool:
        return self._lively


@pytest.mark.parametrize(
    ("changes", "here", "names"),
    [
        ({}, True, ("classes ncp",)),
        ({"solver": {"loss": "sil"}}, True, ("classes sil", "classes ncp")),
        ({"solver": {"loss": "sil"}}, False, ("classes ncp",)),
        ({"people": False}, True, ("row_graph ncp",)),
        ({"cohort": "lasting"}, True, ("classes ncp", "merging")),
    ],
    ids=str,
)
def test_a_run_needs_what_its_policy_and_its_first_look_call(
    changes: dict[str, object], here: bool, names: tuple[str, ...]
) -> None:
    """The payload is measured on classes or graphs of the usual loss; elsewhere the windows are solved elsewhere."""
    assert kernels_of_run(bound_feed(feed_policy(**changes)), here=here) == names


def test_the_demo_compiles_what_the_readme_types_next(tmp_path: Path) -> None:
    """Its own policy needs all that the README's does: whoever goes on by hand does not wait again."""
    text = (Path(__file__).parents[3] / "README.md").read_text()
    (tmp_path / "policy.yaml").write_text(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    with resources.as_file(resources.files("kanonflow.policies") / "transactions.yaml") as path:
        of_demo, of_readme = (
            set(kernels_of_run(bound_feed(read_policy(each)), here=True))
            for each in (path, tmp_path / "policy.yaml")
        )
    assert of_readme
    assert of_readme <= of_demo
    assert (
        "compile_notice" in (Path(__file__).parents[3] / "Makefile").read_text().partition("\ndemo:")[2][:600]
    )


@pytest.mark.parametrize("quiet", [False, True])
def test_what_is_missing_is_compiled_and_told(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sets of the run, with a line before and one after."""
    asked = []

    def compiled(names: tuple[str, ...], told: object) -> int:
        asked.append((names, told is None))
        return 7

    monkeypatch.setattr(kernel_cache, "missing_units", lambda names: [3])
    monkeypatch.setattr(kernel_cache, "compile_ahead", compiled)
    terminal = Terminal(lively=False)
    compile_first(bound_feed(feed_policy()), terminal, quiet=quiet)
    assert asked == [(("classes ncp",), quiet)]
    assert (terminal.getvalue().count("\n"), "compiled in" in terminal.getvalue()) == (
        (0, False) if quiet else (2, True)
    )


def test_with_everything_there_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on every run but the first, and on every run of a wheel that carries the kernels."""
    monkeypatch.setattr(kernel_cache, "missing_units", lambda names: [])
    monkeypatch.setattr(kernel_cache, "compile_ahead", lambda *given: pytest.fail("nothing is missing"))
    terminal = Terminal(lively=True)
    compile_first(bound_feed(feed_policy()), terminal)
    assert terminal.getvalue() == ""


def test_progress_is_one_line_at_a_terminal_and_a_few_elsewhere() -> None:
    """It says how many kernels are ready, and what share of the work that is."""
    lively, plain = Terminal(lively=True), Terminal(lively=False)
    tell, note = progress_lines(lively), progress_lines(plain)
    for ready in range(1, 41):
        tell(ready, 40, ready / 40)
        note(ready, 40, ready / 40)
    assert lively.getvalue().count("\n") == 1
    assert lively.getvalue().endswith("compiled 40 of 40 kernels, 100% of the work\n")
    assert plain.getvalue().splitlines()[0] == "compiled 10 of 40 kernels, 25% of the work"
    assert 3 <= plain.getvalue().count("\n") <= 5


@pytest.mark.thorough
@pytest.mark.parametrize("action", ["draft", "check"])
def test_what_measures_a_feed_says_that_it_compiles_first(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both found cohorts of the feed on trial, often as the first command ever; a draft is what stdout has alone."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--only-feed", "--rows", "2000", "--days", "5", "--output", "made"]) == 0
    assert cli.main(["policy", "draft", "--input", "made/feed/transactions.csv"]) == 0
    drafted = capsys.readouterr().out.partition("# A draft")
    Path("draft.yaml").write_text(drafted[1] + drafted[2])
    asked = []
    monkeypatch.setattr(kernel_cache, "missing_units", lambda names: [3])
    monkeypatch.setattr(kernel_cache, "compile_ahead", lambda names, told: asked.append(names) or 1)
    cli.main(
        ["policy", action, *(["draft.yaml"] * (action == "check")), "--input", "made/feed/transactions.csv"]
    )
    said = capsys.readouterr()
    assert asked == [("classes ncp", "merging")]
    assert kernel_cache.COMPILES in said.err
    assert kernel_cache.COMPILES not in said.out
