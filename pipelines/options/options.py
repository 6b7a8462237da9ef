"""The command line: what each command takes, and what is refused before anything runs."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NoReturn

from kanonflow.pipelines.flink.flags import (
    flag_value,
    is_flink,
    split_flink_flags,
    with_stream_defaults,
)
from kanonflow.pipelines.options.beam_version import need_tested_beam
from kanonflow.pipelines.options.cohort_flags import (
    add_carry,
    add_continue,
    add_forget,
    chain_options,
    refuse_carry_for_streams,
    refuse_without_continue,
)
from kanonflow.pipelines.options.compare_flags import add_compare
from kanonflow.pipelines.options.export_flags import add_export
from kanonflow.pipelines.options.json_flag import add_json
from kanonflow.pipelines.options.rejected_flags import add_rejected
from kanonflow.pipelines.options.report_flags import add_report
from kanonflow.pipelines.options.secret_flags import add_second_release, add_secret_flags, refuse_for_streams
from kanonflow.pipelines.options.stop_flags import add_stop
from kanonflow.pipelines.options.verify_flags import add_checks, add_outputs
from kanonflow.schemas.release_format import RELEASE_FORMATS, ReleaseFormat
from kanonflow.schemas.text_form import NAMED_DELIMITERS, is_sign
from kanonflow.schemas.text_inputs import INPUT_FORMATS

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

DEFAULT_RUNNER = "FnApiRunner"
STREAM_RUNNER = "FlinkRunner"
EXIT_CODES = (
    "exit codes: 0 done, 1 the audit failed, 2 bad arguments, policy or input, 3 the run failed or lost its input, 130"
    " a stream was left to its cluster by Ctrl-C, 141 nobody reads what is printed"
)

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
    search_seed: int | None
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
    notes: tuple[str, ...] = ()


RENAMED = {"--certificates": "--matching-records"}
"""Flags that had another name before 0.1.0: still read, with a note."""


def parse(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """The command with its arguments (``notes``: on flags that had another name), and the flags that are Beam's.

    Ends the process with exit code 2 and a message for wrong usage, as argparse does.
    """
    parser = _parser()
    words = sys.argv[1:] if argv is None else argv
    arguments, rest = parser.parse_known_args([RENAMED.get(word, word) for word in words])
    arguments.notes = [f"{word} is called {RENAMED[word]} now" for word in words if word in RENAMED]
    if rest and arguments.command not in ("anonymize", "demo", "stream"):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments, tuple(rest)


def run_options(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> RunOptions:
    """The checked options of a command that runs a pipeline. Raises OptionsError."""
    from apache_beam.options.pipeline_options import DirectOptions, StandardOptions

    if arguments.command == "stream":
        refuse_for_streams(beam_flags)
        refuse_carry_for_streams(beam_flags)
        beam_flags = stream_flags(arguments.runner, beam_flags)
        if arguments.detach and "--environment_type=LOOPBACK" in beam_flags:
            raise OptionsError("--detach needs a cluster (--flink_master): this process is the job's worker")
        if arguments.rewind and not arguments.resume:
            raise OptionsError(
                "--rewind goes with --resume: it is for a stream that goes on from an older state"
            )
    beam = beam_options(beam_flags, arguments.runner, arguments.command)
    direct = beam.view_as(DirectOptions)
    if arguments.command != "stream" and beam.view_as(StandardOptions).streaming:
        raise OptionsError(
            "--streaming: files that are there are a bounded input; for a feed see kanonflow stream"
        )
    if told := refuse_without_continue(arguments):
        raise OptionsError(told)
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
    return RunOptions(
        output=arguments.output.rstrip("/") or "/",
        runner=runner,
        notes=notes,
        beam_flags=tuple(beam_flags),
        resume=arguments.resume,
        quiet=arguments.quiet,
        secret_file=arguments.secret_file,
        secret_env=arguments.secret_env,
        evaluations=arguments.evaluations,
        deadline_ms=arguments.deadline_ms,
        threads=arguments.threads,
        search_seed=getattr(arguments, "search_seed", None),
        secret_manager=arguments.secret_manager,
        detach=getattr(arguments, "detach", False),
        matching_records=arguments.matching_records,
        previous_secrets=tuple(arguments.previous_secret),
        rewind=getattr(arguments, "rewind", False),
        continues=continues.rstrip("/") or "/"
        if (continues := getattr(arguments, "continues", None))
        else None,
        individual_type=getattr(arguments, "individual_type", None),
        people_changed=getattr(arguments, "people_changed", False),
        end_on_rejected=getattr(arguments, "end_on_rejected", False),
        release_format=ReleaseFormat(arguments.release_format),
        **chain_options(arguments),
    )


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
        if (given := flag_value(flags, "--checkpointing_interval")) is not None and not _is_positive(given):
            raise OptionsError(
                f"--checkpointing_interval={given}: a release is published with the checkpoint that holds it, so a"
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
        ours = _flags_of(command)
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


def _flags_of(command: str) -> list[str]:
    """All flags of a command of ours."""
    (commands,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return [flag for flag in commands.choices[command]._option_string_actions if flag.startswith("--")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kanonflow", description="Continuous k-anonymization of record feeds.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('kanonflow')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_anonymize(commands)
    _add_stream(commands)
    add_stop(commands, EXIT_CODES)
    add_forget(commands, EXIT_CODES)
    add_rejected(commands, EXIT_CODES)
    _add_verify(commands)
    add_export(commands, EXIT_CODES)
    add_report(commands, _add_delimiter, _add_input_format, EXIT_CODES)
    _add_policy(commands)
    add_compare(commands, _add_policy_and_input, EXIT_CODES)
    _add_explain(commands)
    return parser


def _run_parser() -> argparse.ArgumentParser:
    """Flags that every command with a pipeline has."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--runner", default=DEFAULT_RUNNER, help="Beam runner (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="continue the run that began in --output")
    add_secret_flags(parser)
    parser.add_argument("--evaluations", type=_positive(float), help="search budget: evaluations a row")
    parser.add_argument(
        "--deadline-ms",
        type=_positive(int),
        help="stop searching a window after so long; what each release is published from is kept, for a resumed run"
        " cannot find it again",
    )
    parser.add_argument(
        "--threads", type=_positive(int), default=None, help="solver threads (default: cores)"
    )
    parser.add_argument(
        "--matching-records",
        action="store_true",
        help="also write a matching record of each release to restricted/matching_records, for verify; it names the"
        " record behind every row",
    )
    parser.add_argument(
        "--release-format",
        choices=RELEASE_FORMATS,
        default=str(ReleaseFormat.AVRO),
        help="of the files of releases, one for a whole run; everything else stays Avro (default: %(default)s)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress display and no table")
    add_json(parser)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        parents=[_run_parser()],
        allow_abbrev=False,
        help="generate a transaction feed and anonymize it",
        description="Generates a feed of card and bank transactions and anonymizes it."
        " Flags that are not listed go to Beam.",
        epilog=EXIT_CODES,
    )
    demo.add_argument("--rows", type=_positive(int), default=20_000, help="rows (default: %(default)s)")
    demo.add_argument("--days", type=_positive(int), default=14, help="days (default: %(default)s)")
    demo.add_argument("--seed", type=_natural, default=1, help="seed of the feed (default: %(default)s)")
    demo.add_argument(
        "--format", choices=INPUT_FORMATS, default="csv", help="of the feed (default: %(default)s)"
    )
    demo.add_argument("--output", default="demo-out", metavar="DIR", help="default: %(default)s")
    demo.add_argument("--only-feed", action="store_true", help="write the feed and stop")


def _add_anonymize(commands: Any) -> None:
    anonymize = commands.add_parser(
        "anonymize",
        parents=[_run_parser()],
        allow_abbrev=False,
        help="release an anonymized feed",
        description="Reads a feed, releases it k-anonymously as Avro or Parquet. Flags that are not listed go to Beam.",
        epilog=EXIT_CODES,
    )
    _add_policy_and_input(anonymize)
    anonymize.add_argument(
        "--output", required=True, metavar="DIR", help="a directory of its own for each run"
    )
    add_second_release(anonymize)
    add_continue(anonymize)
    add_carry(anonymize)
    anonymize.add_argument(
        "--seed",
        dest="search_seed",
        type=_natural,
        help="seed of the search, instead of one derived from the secret; never of what is published",
    )


def _add_stream(commands: Any) -> None:
    stream = commands.add_parser(
        "stream",
        parents=[_run_parser()],
        allow_abbrev=False,
        help="release an anonymized feed while it goes on",
        description="Reads a feed that goes on and releases each window when it has ended. Runs on Flink, in this"
        " process or on a cluster, and on Dataflow. Flags that are not listed go to Beam.",
        epilog=EXIT_CODES,
    )
    stream.set_defaults(runner=STREAM_RUNNER)
    stream.add_argument("--policy", required=True, metavar="FILE", help="policy (YAML)")
    stream.add_argument(
        "--source",
        required=True,
        metavar="DIR|kafka://...",
        help="a directory that files arrive in (an empty file _END ends the feed), or"
        " kafka://host:port/topic?format=avro|registry|json&... (docs/kafka.md)",
    )
    stream.add_argument(
        "--output", required=True, metavar="DIR|kafka://...", help="where releases go, one run each"
    )
    stream.add_argument(
        "--restricted",
        metavar="DIR",
        help="directory for metrics and rejected rows; needed when --output is a topic",
    )
    stream.add_argument(
        "--schema",
        metavar="FILE",
        help="a file with the columns of the feed, for a directory that is empty still",
    )
    _add_delimiter(stream)
    add_continue(stream)
    stream.add_argument(
        "--detach", action="store_true", help="submit the job to its cluster, and do not wait for its end"
    )
    stream.add_argument(
        "--unmeasured",
        action="store_true",
        help="run although no check of the payload is in DIR/restricted/check.json (policy check --input SAMPLE --for"
        " DIR)",
    )
    stream.add_argument(
        "--end-on-rejected",
        action="store_true",
        help="end with exit code 3 when of the last 10,000 rows that a worker read more than the policy's max_rejected"
        " do not fit, instead of raising an alert only",
    )
    stream.add_argument(
        "--rewind",
        action="store_true",
        help="with --resume: go on from a state that is older than what is published. Each release that is made again"
        " is compared with what is there, and a partition is parked at the first difference",
    )


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify", allow_abbrev=False, help="audit a release against its input", epilog=EXIT_CODES
    )
    _add_policy_and_input(verify)
    add_outputs(verify)
    verify.add_argument(
        "--restricted", metavar="DIR", help="the --restricted of a run whose releases are in a topic"
    )
    add_checks(verify)


def _add_policy(commands: Any) -> None:
    policy = commands.add_parser("policy", help="draft or check a policy; its JSON Schema")
    actions = policy.add_subparsers(dest="action", required=True, metavar="ACTION")
    draft = actions.add_parser(
        "draft",
        allow_abbrev=False,
        help="print a policy with every field of a file, and what the data say of each",
    )
    draft.add_argument("--input", required=True, metavar="FILE", action="append")
    _add_delimiter(draft)
    _add_input_format(draft)
    check = actions.add_parser("check", allow_abbrev=False, help="report all mistakes of a policy at once")
    check.add_argument("policy", metavar="POLICY")
    check.add_argument("--input", metavar="GLOB", action="append", help="also check that it fits these files")
    check.add_argument(
        "--fit-only",
        action="store_true",
        help="say whether the files fit, and measure nothing of what their payload and people tell",
    )
    check.add_argument(
        "--for",
        dest="stream_output",
        metavar="DIR",
        help="keep what was measured in DIR/restricted/check.json, for the stream whose --output (or --restricted) that"
        " is",
    )
    _add_delimiter(check)
    _add_input_format(check)
    add_json(check)
    actions.add_parser(
        "schema",
        allow_abbrev=False,
        help="print the JSON Schema of policies, with which editors complete and check them",
    )


def _add_explain(commands: Any) -> None:
    explain = commands.add_parser(
        "explain",
        allow_abbrev=False,
        help="say what a feed is like under a policy, what others would lose on it, and what to change",
        description="Counts people a window, people who are alone, fields that follow from others and payload that"
        " tells too much; plays stretches of the feed under another k, window, max_delay, protection,"
        " and without each field; and says in at most five sentences what to do. Nothing is released.",
        epilog=EXIT_CODES,
    )
    _add_policy_and_input(explain)
    explain.add_argument("--quick", action="store_true", help="count only, and solve nothing")
    explain.add_argument(
        "--html",
        metavar="FILE",
        help="write a page with drawings and all figures, too (pip install 'kanonflow[report]')",
    )
    add_json(explain)


def _add_policy_and_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", required=True, metavar="FILE", help="policy (YAML)")
    parser.add_argument(
        "--input",
        required=True,
        metavar="GLOB",
        action="append",
        help="Avro, Parquet, CSV or CSV.gz files; may be given several times",
    )
    _add_delimiter(parser)
    _add_input_format(parser)


def _add_input_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-format", choices=INPUT_FORMATS, help="what the files hold (default: what their names say)"
    )


def _add_delimiter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--delimiter",
        type=_delimiter,
        help="of CSV files (default: the policy's, else that of , ; tab | found in the header)",
    )


def _delimiter(text: str) -> str:
    delimiter = NAMED_DELIMITERS.get(text, text)
    if not is_sign(delimiter):
        raise argparse.ArgumentTypeError("expected one sign, such as , ; | or tab")
    return delimiter


def _positive(kind: type) -> Any:
    def number(text: str) -> Any:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError("must be a number above 0")
        return value

    number.__name__ = kind.__name__
    return number


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value
