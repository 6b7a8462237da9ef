"""Exit codes. What nobody expected is 3, one line and a traceback for its owner: never the code of a verdict."""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.kafka.schema_registry import RegistryUnavailableError
from kanonflow.pipelines.options import options
from kanonflow.pipelines.runs.anonymize_files import beam_log
from kanonflow.pipelines.terminal import error_trace
from kanonflow.schemas.errors import InputError
from tests.pipelines.small_runs import people

pytestmark = pytest.mark.thorough

VALUE = "4111 1111 of Ann"

COMMANDS: dict[str, tuple[str, str]] = {
    "anonymize": (
        "anonymize --policy {policy} --input {input} --output {out}",
        "kanonflow.pipelines.runs.anonymize_files.anonymize_files",
    ),
    "demo": ("demo --rows 10 --days 1 --output {out}", "kanonflow.pipelines.commands.demo_feed.write_feed"),
    "stream": (
        "stream --policy {policy} --source {folder} --output {out} --unmeasured",
        "kanonflow.pipelines.runs.stream.stream_feed",
    ),
    "verify": (
        "verify --policy {policy} --input {input} --release {release}",
        "kanonflow.pipelines.audit.audit.audit",
    ),
    "policy check": (
        "policy check {policy} --input {input}",
        "kanonflow.pipelines.commands.policy.check_policy",
    ),
    "policy draft": ("policy draft --input {input}", "kanonflow.pipelines.commands.draft.draft_from_input"),
    "compare": ("compare --policy {policy} --input {input}", "kanonflow.pipelines.commands.compare.compare"),
}
"""A call of each command, and what of it breaks."""


class WithVerdictError(Exception):
    """As click's: an exit code of its own, and no promise about its message."""

    exit_code = 1


FAULTS: list[Callable[[], BaseException]] = [
    lambda: ValueError(VALUE),
    lambda: MemoryError(VALUE),
    lambda: RecursionError(VALUE),
    lambda: ImportError(VALUE),
    lambda: WithVerdictError(VALUE),
    lambda: SystemExit(1),
    lambda: SystemExit(VALUE),
    lambda: GeneratorExit(VALUE),
]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A small run with its input, a place for output, and a folder for temporary files."""
    policy, (pattern,), release = people().write(tmp_path / "run")
    os.chmod(release / "restricted", 0o700)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(error_trace.tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = tmp_path / "run"
    return {
        "policy": policy,
        "input": Path(pattern),
        "release": release,
        "out": tmp_path / "out",
        "folder": folder,
    }


def call(command: str, places: dict[str, Path]) -> list[str]:
    """The arguments of a command."""
    return COMMANDS[command][0].format(**places).split()


def plant(monkeypatch: pytest.MonkeyPatch, command: str, fault: Callable[[], BaseException]) -> None:
    """Make a command break."""

    def broken(*arguments: Any, **named: Any) -> Any:
        raise fault()

    monkeypatch.setattr(COMMANDS[command][1], broken)


def trace_named_in(message: str) -> Path:
    """The file that a message tells of."""
    found = re.search(r"its traceback is in (\S+)$", message)
    assert found, message
    return Path(found.group(1))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault()).__name__)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_planted_fault_is_a_failed_run_and_no_verdict(
    command: str,
    fault: Callable[[], BaseException],
    places: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 3; one line with the error's type and no value; the traceback beside it, for its owner only."""
    plant(monkeypatch, command, fault)
    assert cli.main(call(command, places)) == 3
    out, err = capsys.readouterr()
    assert VALUE not in out + err
    assert "Traceback" not in out + err
    line = err.splitlines()[-1]
    assert f"unexpectedly ({type(fault()).__name__})" in line
    trace = trace_named_in(line)
    assert str(fault()) in trace.read_text()
    assert "in broken" in trace.read_text()
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600
    assert stat.S_IMODE(trace.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("command", "place"),
    [("anonymize", "out"), ("demo", "out"), ("stream", "out"), ("verify", "release")],
)
def test_the_traceback_is_in_the_runs_restricted_folder(
    command: str,
    place: str,
    places: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Made for a run that had not begun, which begins there afterwards like any other."""
    plant(monkeypatch, command, FAULTS[0])
    assert cli.main(call(command, places)) == 3
    assert trace_named_in(capsys.readouterr().err.splitlines()[-1]).parent == places[place] / "restricted"
    if command == "anonymize":
        monkeypatch.undo()
        assert cli.main([*call(command, places), "--quiet"]) == 0


def test_verify_creates_nothing_in_what_it_audits(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release without restricted/, as its readers have it, stays as it is."""
    places["release"] = places["folder"] / "copy"
    places["release"].mkdir()
    plant(monkeypatch, "verify", FAULTS[0])
    assert cli.main(call("verify", places)) == 3
    assert trace_named_in(capsys.readouterr().err.splitlines()[-1]).is_file()
    assert not list(places["release"].iterdir())


@pytest.mark.parametrize("spoil", ["open", "link"])
def test_a_traceback_goes_to_no_folder_that_others_read(
    spoil: str, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """restricted/ that is open to others, or a link to somewhere, is passed over."""
    (places["folder"] / "elsewhere").mkdir(mode=0o700)
    places["out"].mkdir()
    restricted = places["out"] / "restricted"
    if spoil == "open":
        restricted.mkdir()
        restricted.chmod(0o755)
    else:
        restricted.symlink_to(places["folder"] / "elsewhere")
    plant(monkeypatch, "anonymize", FAULTS[0])
    assert cli.main(call("anonymize", places)) == 3
    trace = trace_named_in(capsys.readouterr().err.splitlines()[-1])
    assert trace.parent.parent.name == "temporary"
    assert not list(restricted.iterdir())


def test_a_traceback_that_cannot_be_written_hides_nothing(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk, or memory that has run out for good: the line and the code are the same."""

    def full(*arguments: Any) -> Any:
        raise OSError(VALUE)

    plant(monkeypatch, "anonymize", FAULTS[0])
    monkeypatch.setattr(error_trace, "_write", full)
    assert cli.main(call("anonymize", places)) == 3
    assert "(ValueError); its traceback could not be written" in capsys.readouterr().err
    monkeypatch.setattr(error_trace, "write_trace", full)
    assert cli.main(call("anonymize", places)) == 3
    assert VALUE not in capsys.readouterr().err


def test_a_fault_before_the_arguments_are_known_is_one_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], places: dict[str, Path]
) -> None:
    """While they are read, and while what reads them is imported."""

    def broken(argv: Any) -> Any:
        raise KeyError(VALUE)

    monkeypatch.setattr(options, "parse", broken)
    assert cli.main(["demo"]) == 3
    assert VALUE not in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "kanonflow.pipelines.options.options", None)
    assert cli.main(["demo"]) == 3
    assert "kanonflow: failed, unexpectedly (ModuleNotFoundError)" in capsys.readouterr().err


def test_errors_of_ours_keep_their_message_and_code(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They name field and file for the terminal; an interrupt says how to go on."""
    plant(monkeypatch, "anonymize", lambda: InputError("in.csv: the file is empty"))
    assert cli.main(call("anonymize", places)) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "kanonflow: in.csv: the file is empty"
    plant(monkeypatch, "stream", lambda: RegistryUnavailableError("the schema registry does not answer"))
    assert cli.main(call("stream", places)) == 3
    assert capsys.readouterr().err.splitlines()[-1] == "kanonflow: the schema registry does not answer"
    plant(monkeypatch, "anonymize", KeyboardInterrupt)
    assert cli.main(call("anonymize", places)) == 130
    assert "interrupted; --resume goes on" in capsys.readouterr().err


def test_a_full_disk_is_one_sentence(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device without space, by its number or by the text that a runner kept of it; no traceback, no value."""
    for error in (
        OSError(errno.ENOSPC, VALUE),
        RuntimeError(f"[Errno {errno.ENOSPC}] {VALUE} [while running X]"),
    ):

        def full(error: Exception = error) -> None:
            raise ValueError(VALUE) from error

        plant(monkeypatch, "anonymize", full)
        assert cli.main(call("anonymize", places)) == 3
        (told,) = capsys.readouterr().err.splitlines()
        assert told == (
            "kanonflow: anonymize failed: no space is left where it writes; what was released is whole. Make room;"
            " --resume goes on"
        )


def test_a_log_that_cannot_be_written_is_told_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python would print the record, its traceback and its values to the terminal."""
    (tmp_path / "restricted").mkdir()
    with beam_log(str(tmp_path)):
        handler = logging.getLogger().handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.stream.close()
        try:
            raise ValueError(VALUE)
        except ValueError as error:
            logging.getLogger("x").error("the run failed", exc_info=error)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def _script() -> list[str]:
    return [str(Path(sysconfig.get_path("scripts")) / "kanonflow")]


@pytest.mark.parametrize(
    "how", [_script(), [sys.executable, "-m", "kanonflow.pipelines.cli"]], ids=["script", "module"]
)
def test_the_process_ends_with_three(how: list[str], places: dict[str, Path], tmp_path: Path) -> None:
    """Both ways to call it; the fault is a module that breaks on import."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "yaml.py").write_text(f"raise RuntimeError({VALUE!r})\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "broken"), "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [*how, *call("anonymize", places)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert re.fullmatch(
        r"kanonflow: anonymize failed, unexpectedly \(RuntimeError\); its traceback is in \S+\n", done.stderr
    )
    assert VALUE in trace_named_in(done.stderr.strip()).read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("verify --policy {policy} --input {input} --release {release}", 0),
        ("verify --policy {policy} --input {short} --release {release}", 1),
        ("verify --policy {policy} --input {input} --release {release} --waiting", 0),
        ("verify --policy {policy} --input {input} --release {release} --matching-records", 1),
        ("verify --policy {policy} --input {input} --release {folder}/none", 2),
        ("verify --policy {policy} --input {folder}/none*.csv --release {release}", 2),
        ("verify --policy {folder}/none.yaml --input {input} --release {release}", 2),
        ("verify --policy {input} --input {input} --release {release}", 2),
        ("verify --policy {policy} --input {input} --release {release} --secret-env NONE", 2),
        ("policy check {policy}", 0),
        ("policy check {input}", 2),
        ("policy check {folder}/none.yaml", 2),
        ("policy check {policy} --input {folder}/none*.csv", 2),
        ("policy draft --input {input}", 0),
        ("policy draft --input {folder}/none.csv", 2),
        ("compare --policy {folder}/none.yaml --input {input}", 2),
        ("anonymize --policy {policy} --input {folder}/none*.csv --output {out}", 2),
        ("stream --policy {policy} --source {folder}/none --output {out}", 2),
        ("demo --rows 10 --days 1 --output {out} --only-feed", 0),
        ("--help", 0),
        ("verify --help", 0),
        ("", 2),
        ("verify", 2),
        ("publish", 2),
        ("policy check {policy} --no-such-flag", 2),
    ],
)
def test_every_way_to_end_is_known(
    arguments: str, code: int, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """What each command answers to good and bad arguments; none of it is unexpected."""
    lines = places["input"].parent.joinpath("input.csv").read_text().splitlines()
    places["short"] = places["folder"] / "short" / "input.csv"
    places["short"].parent.mkdir()
    places["short"].write_text("\n".join(lines[:-3]) + "\n")
    try:
        found: Any = cli.main(arguments.format(**places).split())
    except SystemExit as end:
        found = end.code or 0
    err = capsys.readouterr().err
    assert "unexpectedly" not in err, err
    assert found == code, err


def test_only_a_verdict_ends_with_one() -> None:
    """In the source: the code 1 is returned by verify and assess, each once, and no error of ours claims it."""
    root = Path(cli.__file__).parent
    source = Path(cli.__file__).read_text()
    assert source.count("AUDIT_FAILED") == 3
    assert (
        "enough = report.in_full if arguments.strict else report.passed\n    return DONE if enough else AUDIT_FAILED"
        in source
    )
    assert "return AUDIT_FAILED if assessment.above or unsure else DONE" in source
    for folder in ("pipelines", "transforms", "solvers", "schemas"):
        for path in sorted((root.parent / folder).rglob("*.py")):
            assert not re.search(
                r"exit_code(: int)? = (?!2\b|3\b|130\b)|sys\.exit\(1|os\._exit|SystemExit\(", path.read_text()
            ), path
