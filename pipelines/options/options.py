"""The command line: what each command takes, and what is refused before anything runs."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NoReturn

from kanonflow.pipelines.flink.flags import (
    flag_value,
    is_flink,
    split_flink_flags,
    with_stream_defaults,
)
from kanonflow.pipelines.options.beam_version import need_tested_beam
from kanonflow.pipelines.options.table import (
    COMMANDS,
    DEFAULT_RUNNER,
    RENAMED,
    asked,
    command_parser,
    options_of,
    refusals,
    without_flags_of_places,
)
from kanonflow.schemas.release_format import ReleaseFormat

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_SWITCHES = frozenset({"directrunner", "direct", "switchingdirectrunner", "switchingdirect"})
_PRISM = ("prismrunner", "prism")
_BUNDLE_BASED = frozenset({"bundlebaseddirectrunner", "bundlebaseddirect"})


class OptionsError(Exception):
    """Arguments that cannot be used; the message names the flag."""

    exit_code = 2


@dataclass(frozen=True)
class RunOptions:
    """How a pipeline runs, for ``anonymize``, ``demo`` and ``stream``.

    runner: a Beam runner by name.     beam_flags: flags for Beam, checked.     detach: submit a stream and leave it.
    evaluations: search budget, a row; deadline_ms: wall-clock limit, a window; threads, search_seed: of the
    solver; None: what the policy says.     matching_records: write one for each release.
    previous_secrets: references, as --previous-secret has them.
    second_release_of: the --output whose rows are released again, below which ``output`` is.
    rewind: a stream may go on from a state that is older than what it has published.
    notes: what to tell of the arguments before the run.
    end_on_rejected: a stream ends when more of its last rows do not fit than the policy lets pass.
    continues: the --output (of a stream into a topic: the --restricted) of a run whose cohorts this one begins with.
    individual_type: what kind of value the individual was there. people_changed: other people are meant.
    release_format: of the files in ``release/``.
    carry: what waits at the end of the input is left for the run that continues this one. until: where that end is, in
    ms; None: where the rows end. epoch: the number of the epoch that begins; None: one is drawn.
    renew: an epoch begins where the run continues another.
    plan: of shards; None: that of the run that goes on, or none.
    """

    output: str
    runner: str
    beam_flags: tuple[str, ...]
    resume: bool
    quiet: bool
    secret_file: str | None
    secret_env: str | None
    evaluations: float | None
    deadline_ms: int | None
    threads: int | None
    search_seed: int | None = None
    secret_manager: str | None = None
    detach: bool = False
    matching_records: bool = False
    previous_secrets: tuple[str, ...] = ()
    second_release_of: str | None = None
    rewind: bool = False
    continues: str | None = None
    individual_type: str | None = None
    people_changed: bool = False
    end_on_rejected: bool = False
    release_format: ReleaseFormat = ReleaseFormat.AVRO
    carry: bool = False
    until: int | None = None
    epoch: int | None = None
    renew: bool = False
    plan: str | None = None
    policy: str = ""
    notes: tuple[str, ...] = ()


def parse(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """The command with its arguments (``notes``: on flags that had another name), and the flags that are Beam's.

    Ends the process with exit code 2 and a message for wrong usage, as argparse does. Raises OptionsError: what the
    table refuses.
    """
    parser = command_parser()
    words = sys.argv[1:] if argv is None else argv
    words = without_flags_of_places(words)
    arguments, rest = parser.parse_known_args([RENAMED.get(word, word) for word in words])
    arguments.notes = [f"{word} is called {RENAMED[word]} now" for word in words if word in RENAMED]
    if rest and not COMMANDS[asked(arguments)].beam:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    for refusal in refusals(arguments, rest):
        raise OptionsError(refusal)
    return arguments, tuple(rest)


def run_options(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> RunOptions:
    """The checked options of a command that runs a pipeline. Raises OptionsError."""
    from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

    if arguments.command == "stream":
        beam_flags = stream_flags(arguments.runner, beam_flags)
        if arguments.detach and "--environment_type=LOOPBACK" in beam_flags:
            raise OptionsError("--detach needs a cluster (--flink_master): this process is the job's worker")
    beam = beam_options(beam_flags, arguments.runner, arguments.command)
    direct = beam.view_as(DirectOptions)
    if arguments.command != "stream" and beam.view_as(StandardOptions).streaming:
        raise OptionsError(
            "--streaming: files that are there are a bounded input; for a feed see kanonflow stream"
        )
    runner, notes = _runner(arguments.runner)
    if runner != DEFAULT_RUNNER:
        need_tested_beam(f"--runner {runner}")
    if direct.direct_num_workers != 1:
        raise OptionsError(
            "--direct_num_workers must be 1: with more, stateful steps read old state and release windows"
            " twice. Cores are used by --threads."
        )
    if direct.direct_running_mode != "in_memory":
        raise OptionsError(
            f"--direct_running_mode={direct.direct_running_mode} is refused: with several workers stateful"
            " steps read old state and release windows twice. Cores are used by --threads."
        )
    if direct.direct_runner_bundle_repeat:
        raise OptionsError("--direct_runner_bundle_repeat is refused: a bundle that repeats releases twice")
    asks = {
        each.name: getattr(arguments, each.name)
        for each in fields(RunOptions)
        if hasattr(arguments, each.name)
    }
    asks |= {name: asks[name].rstrip("/") or "/" for name in ("output", "continues") if asks.get(name)}
    asks |= {"previous_secrets": tuple(arguments.previous_secrets), "runner": runner, "notes": notes}
    asks |= {"release_format": ReleaseFormat(arguments.release_format), "beam_flags": tuple(beam_flags)}
    return RunOptions(**asks)


def _runner(name: str) -> tuple[str, tuple[str, ...]]:
    """The runner that a name stands for, and what to say of it. Raises OptionsError: one that cannot be used."""
    own = name.lower().rsplit(".", 1)[-1]
    if own in _BUNDLE_BASED:
        raise OptionsError(
            f"--runner {name} is refused: it counts nothing, so a run that released everything would look as if it had"
            f" released nothing; leave it out, or say --runner {DEFAULT_RUNNER}"
        )
    if own in _PRISM:
        raise OptionsError(
            f"--runner {name} is refused: it has open faults with timers, by which windows are released; leave it out,"
            f" or say --runner {DEFAULT_RUNNER}"
        )
    if own not in _SWITCHES:
        return name, ()
    return DEFAULT_RUNNER, (
        f"--runner {name} runs as {DEFAULT_RUNNER}: it would choose between three runners by what the pipeline holds,"
        " one of which is downloaded",
    )


def stream_flags(runner: str, flags: Sequence[str]) -> tuple[str, ...]:
    """Beam's flags of a stream, completed for the runner.

    Raises OptionsError: a runner that cannot run a feed without end, or Flink without checkpoints.
    """
    if is_flink(runner):
        if (interval := flag_value(flags, "--checkpointing_interval")) is not None and not _is_positive(
            interval
        ):
            raise OptionsError(
                f"--checkpointing_interval={interval}: a release is published with the checkpoint that holds it, so a"
                " stream needs them; give milliseconds"
            )
        return with_stream_defaults(flags)
    name = runner.rsplit(".", 1)[-1].lower()
    if name in ("dataflowrunner", "dataflow"):
        return (*flags, *(["--streaming"] if "--streaming" not in flags else []))
    raise OptionsError(
        f"--runner {runner} cannot run a feed without end, or takes no checkpoints; say FlinkRunner or DataflowRunner"
    )


def _is_positive(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


def beam_options(
    flags: Sequence[str], runner: str = DEFAULT_RUNNER, command: str = "anonymize"
) -> PipelineOptions:
    """Beam's options from its flags. Raises OptionsError for a flag that Beam does not know either.

    runner: with Flink's, the flags of its job server are known as well.     command: whose flags a wrong one is
    compared with; one of Beam's hundreds is hardly what was meant.

    Beam itself only logs a warning, so a typing mistake would change what runs without a word.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = _TerseParser(prog="kanonflow", allow_abbrev=False, add_help=False, conflict_handler="resolve")
    # Beam's own groups of options add arguments of a kind that only its parser has.
    for group in PipelineOptions.__subclasses__():
        group._add_argparse_args(_BeamFlags(parser))
    _, rest = split_flink_flags(flags) if is_flink(runner) else ([], list(flags))
    _, unknown = parser.parse_known_args(rest)
    if unknown:
        # A value after an unknown flag is its own entry; the flag is what matters.
        wrong = [flag for flag in unknown if flag.startswith("-")] or unknown
        ours = [option.name for option in options_of(command)]
        raise OptionsError("; ".join(_unknown(flag, ours) for flag in wrong))
    return PipelineOptions(list(flags))


class _TerseParser(argparse.ArgumentParser):
    """Says what is wrong with a value; argparse's own would print the usage of all of Beam's flags first."""

    def error(self, message: str) -> NoReturn:
        raise OptionsError(message)


class _BeamFlags:
    """An argument parser with the one method that Beam's has and argparse's lacks."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_value_provider_argument(self, *names: str, **how: Any) -> None:
        self._parser.add_argument(*names, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _unknown(flag: str, ours: Sequence[str]) -> str:
    name = flag.split("=", 1)[0]
    if not name.startswith("-"):
        return f"unexpected argument {name}"
    close = difflib.get_close_matches(name, [*ours, *RENAMED], 1)
    return f"unknown flag {name}" + "".join(f"; did you mean {RENAMED.get(each, each)}?" for each in close)
