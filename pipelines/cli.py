"""The ``kanonflow`` command.

Everything heavy is imported by the command that needs it: ``--help`` and a typing mistake answer at once, and
nothing that an import logs reaches the terminal.
"""

import argparse
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from kanonflow.pipelines.terminal.terminal import ClosedPipeError, drop_output, flush_output, tell
from kanonflow.schemas.printable import printable

DONE, AUDIT_FAILED, BAD_ARGUMENTS, RUN_FAILED = range(4)
INTERRUPTED = 130
"""As a shell tells of a process that SIGINT ended."""
CLOSED_PIPE = 141
"""As a shell tells of a process that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 the audit failed, 2 bad arguments, policy or input,
    3 the run failed or lost its input, 130 Ctrl-C (a stream is left to its cluster), 141 nobody reads what is
    printed. Messages name fields and files, never a value.

    1 is ``verify``'s verdict and nothing else: what nobody expected, a failed import or a lack of memory too, is 3.
    Wrong usage ends the process with 2 (SystemExit), as argparse does.
    """
    try:
        try:
            return _run(argv)
        finally:
            flush_output()
    except ClosedPipeError:
        drop_output()
        return CLOSED_PIPE


def _run(argv: Sequence[str] | None) -> int:
    arguments = None
    try:
        # Beam logs at import and when it parses options; a handler of our own keeps it from adding one.
        if not logging.getLogger().handlers:
            logging.getLogger().addHandler(logging.NullHandler())
        # What a runner's threads raise when it ends is not for the terminal: it may hold values of records.
        threading.excepthook = _log_exception
        from kanonflow.pipelines.options.options import parse

        arguments, beam_flags = parse(argv)
        _tell_notes(arguments.notes)
        return _COMMANDS[arguments.command](arguments, beam_flags)
    except ClosedPipeError:
        raise
    except KeyboardInterrupt as stop:
        if code := getattr(stop, "exit_code", None):
            tell(f"kanonflow: {stop}", sys.stderr)
            return int(code)
        after = _AFTER_INTERRUPT.get(getattr(arguments, "command", ""), "")
        tell(f"kanonflow: interrupted{after}", sys.stderr)
        return INTERRUPTED
    except SystemExit as end:
        if end.code in (None, DONE, BAD_ARGUMENTS):
            raise
        return _unexpected(end, arguments)
    except BaseException as error:
        code = _code_of(error)
        if code is None:
            return _unexpected(error, arguments)
        tell(f"kanonflow: {error}", sys.stderr)
        return code


def _code_of(error: BaseException) -> int | None:
    """The exit code of an error of ours, whose message is for the terminal; None of any other.

    Libraries have ``exit_code`` on errors of theirs too (click: 1), and values in their messages.
    """
    code = getattr(error, "exit_code", None)
    ours = type(error).__module__.partition(".")[0] == "kanonflow"
    return code if ours and code in (BAD_ARGUMENTS, RUN_FAILED) else None


def _unexpected(error: BaseException, arguments: argparse.Namespace | None) -> int:
    """Tell of an error that nobody expected: its type, and where its traceback is. Its message may hold values."""
    command = getattr(arguments, "command", None)
    told = f"kanonflow: {f'{command} failed' if command else 'failed'}, unexpectedly ({type(error).__name__})"
    try:
        from kanonflow.pipelines.terminal.error_trace import out_of_space, restricted_of, write_trace

        if command and out_of_space(error):
            whole = "; what was released is whole. Make room; --resume goes on" if command in _WRITERS else ""
            tell(f"kanonflow: {command} failed: no space is left where it writes{whole}", sys.stderr)
            return RUN_FAILED
        place = write_trace(
            error, restricted_of(arguments), time.time_ns() // 1_000_000, create=command in _WRITERS
        )
    except Exception:  # a second error must not hide the first
        place = None
    where = "its traceback could not be written" if place is None else f"its traceback is in {place}"
    tell(f"{told}; {where}", sys.stderr)
    return RUN_FAILED


_WRITERS = ("anonymize", "demo", "stream")
"""Commands that may create ``restricted/``."""

_AFTER_INTERRUPT = {
    "anonymize": "; --resume goes on",
    "demo": "; started again it goes on",
    "stream": "; a job on a cluster goes on. Another one continues it from a checkpoint or savepoint, with --resume"
    " and --savepoint_path",
}


def _log_exception(raised: threading.ExceptHookArgs) -> None:
    name = raised.exc_type.__name__
    logging.getLogger(__name__).warning(
        "a thread of the runner ended with %s", name, exc_info=raised.exc_value
    )


def _demo(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
    from kanonflow.pipelines.options.options import run_options
    from kanonflow.pipelines.runs.anonymize_files import anonymize_files
    from kanonflow.pipelines.runs.dataflow_jobs import check_runner
    from kanonflow.schemas.policy_source import read_policy

    options = run_options(arguments, beam_flags)
    _tell_notes(options.notes)
    if not arguments.only_feed:
        check_runner(options, [str(Path(options.output) / "feed")])
    shape = FeedShape(rows=arguments.rows, days=arguments.days, seed=arguments.seed)
    feed = write_feed(shape, Path(options.output) / "feed", arguments.format)
    told = f"{feed}: {shape.rows:,} transactions, {shape.customers:,} customers, {shape.days} days"
    tell(told, sys.stderr if arguments.json else sys.stdout)
    if arguments.only_feed:
        return DONE
    with resources.as_file(resources.files("kanonflow.policies") / "transactions.yaml") as path:
        policy = read_policy(str(path))
    # The feed follows from the arguments, so a demo that runs again is the same run.
    summary = anonymize_files(policy, [str(feed)], replace(options, resume=True))
    return _conclude(summary, policy, options.output, arguments)


def _anonymize(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.policy import renamed_note
    from kanonflow.pipelines.commands.policy_location import read_policy_at
    from kanonflow.pipelines.options.options import run_options
    from kanonflow.pipelines.runs.anonymize_files import anonymize_files
    from kanonflow.pipelines.runs.dataflow_jobs import check_runner
    from kanonflow.pipelines.runs.second_release import second_release_options

    options = run_options(arguments, beam_flags)
    check_runner(options, arguments.input)
    _refuse_policy_as_secret(arguments)
    _tell_notes(options.notes)
    policy = read_policy_at(arguments.policy)
    if arguments.second_release:
        options = second_release_options(options)
    _warn(policy)
    if not options.quiet:
        for note in renamed_note(policy):
            tell(printable(note), sys.stderr)
    summary = anonymize_files(policy, arguments.input, options, **_files_as_told(arguments))
    if summary is None:
        return DONE
    return _conclude(summary, policy, options.output, arguments)


def _stream(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.policy_location import read_policy_at
    from kanonflow.pipelines.options.options import run_options
    from kanonflow.pipelines.run_records.payload_check import refuse_unchecked
    from kanonflow.pipelines.runs.dataflow_jobs import check_runner
    from kanonflow.pipelines.runs.feed_address import feed_address, stream_places
    from kanonflow.pipelines.runs.stream import stream_feed

    places = stream_places(arguments.output, arguments.restricted)
    options = replace(run_options(arguments, beam_flags), output=places.directory)
    check_runner(options, [arguments.source])
    _refuse_policy_as_secret(arguments)
    policy = read_policy_at(arguments.policy)
    _warn(policy)
    check = None if arguments.unmeasured else refuse_unchecked(places.directory, policy)
    source = feed_address(arguments.source, arguments.schema, arguments.delimiter)
    summary = stream_feed(policy, source, options, topic=places.topic, check=check)
    return DONE if summary is None else _conclude_stream(summary, arguments)


def _stop(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.runs.stop_stream import stop_stream

    summary = stop_stream(arguments.output.rstrip("/") or "/", timeout_s=arguments.timeout)
    if summary is None:
        tell("asked; the job ends when its feed has")
        return DONE
    return _conclude_stream(summary, arguments)


def _forget(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.forget import forget
    from kanonflow.pipelines.runs.secret_sources import previous_sources, secret_source

    source = secret_source(arguments.secret_file, arguments.secret_env, arguments.secret_manager)
    given = None if source is None else source.resolve()
    previous = [each.resolve() for each in previous_sources(arguments.previous_secrets)]
    output = arguments.output.rstrip("/") or "/"
    forgotten = forget(output, arguments.individual_file, given, previous)
    tell(forgotten.to_json() if arguments.json else forgotten.render())
    return DONE


def _files_as_told(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of the files of the input."""
    return {"delimiter": arguments.delimiter, "input_format": arguments.input_format}


def _rejected(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.rejected import (
        rejected_rows,
        render,
        summarize_rejected,
        to_json,
        write_rejected,
    )

    output = arguments.output.rstrip("/") or "/"
    groups = summarize_rejected(rejected_rows(output))
    tell(to_json(groups) if arguments.json else render(groups))
    if arguments.to is not None:
        from kanonflow.pipelines.commands.policy_location import read_policy_at
        from kanonflow.schemas.text_form import with_delimiter

        policy = None if arguments.policy is None else read_policy_at(arguments.policy)
        form = with_delimiter(None if policy is None else policy.csv, None)
        written = write_rejected(rejected_rows(output), arguments.to, arguments.input, form)
        tell(written, sys.stderr if arguments.json else sys.stdout)
    return DONE


def _export(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.analysis.export_to import export_to

    directories = [directory.rstrip("/") or "/" for directory in arguments.directories]
    exported = export_to(arguments.to, directories, arguments)
    tell(exported.to_json() if arguments.json else exported.render())
    for note in exported.notes():
        tell(f"kanonflow: {note}", sys.stderr)
    return DONE


def _impute(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.analysis.impute_release import impute_releases

    imputed = impute_releases(
        [directory.rstrip("/") or "/" for directory in arguments.directories],
        arguments.to,
        arguments.m,
        seed=arguments.seed,
        outcome=arguments.outcome,
        output=arguments.output,
        hierarchies=dict(arguments.hierarchies),
        neutralize=arguments.neutralize_formulas,
    )
    tell(imputed.to_json() if arguments.json else imputed.render())
    for note in imputed.notes():
        tell(f"kanonflow: {note}", sys.stderr)
    return DONE


def _conclude_stream(summary: "StreamSummary", arguments: argparse.Namespace) -> int:  # type: ignore[name-defined] # noqa: F821
    if arguments.json:
        tell(summary.to_json())
    elif not arguments.quiet:
        tell(summary.render())
    for problem in summary.problems():
        tell(f"kanonflow: {problem}", sys.stderr)
    return RUN_FAILED if summary.problems() else DONE


def _refuse_policy_as_secret(arguments: argparse.Namespace) -> None:
    from kanonflow.pipelines.runs.secret_sources import previous_sources, secret_source
    from kanonflow.pipelines.runs.secret_uses import refuse_shared_secret

    given = secret_source(arguments.secret_file, arguments.secret_env, arguments.secret_manager)
    refuse_shared_secret((given, *previous_sources(arguments.previous_secrets)), [arguments.policy])


def _tell_notes(notes: Sequence[str]) -> None:
    for note in notes:
        tell(f"kanonflow: note: {note}", sys.stderr)


def _warn(policy: "Policy") -> None:  # type: ignore[name-defined] # noqa: F821
    """Say what must not go unread, also with --quiet."""
    for warning in policy.promise.warnings(policy):
        tell(f"kanonflow: warning: {warning}", sys.stderr)


def _conclude(
    summary: "RunSummary",  # type: ignore[name-defined] # noqa: F821
    policy: "Policy",  # type: ignore[name-defined] # noqa: F821
    output: str,
    arguments: argparse.Namespace,
) -> int:
    """Tell how a run ended, then make its pages, whatever becomes of the telling; the exit code, which is the run's."""
    try:
        if arguments.json:
            tell(summary.to_json(output))
        elif not arguments.quiet:
            tell(summary.render())
            tell(f"releases: {output}/release")
        for note in summary.notes():
            tell(f"kanonflow: {note}", sys.stderr)
        for problem in summary.problems():
            tell(f"kanonflow: {problem}", sys.stderr)
        flush_output()
    finally:
        reported = _reported(summary, policy, output)
    if reported and not arguments.quiet:
        tell(reported, sys.stderr if arguments.json else sys.stdout)
    return RUN_FAILED if summary.problems() else DONE


def _reported(summary: "RunSummary", policy: "Policy", output: str) -> str:  # type: ignore[name-defined] # noqa: F821
    """Make the pages of a run that is over; a line that says what came of it. An interrupt ends no more than that."""
    try:
        from kanonflow.pipelines.report.after_run import report_run

        table = json.loads(summary.to_json(output))
        return report_run(output, policy, table, time.time_ns() // 1_000_000)
    except KeyboardInterrupt:
        return f"no report was written: interrupted; kanonflow report {output} writes it"


def _verify(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.terminal.compile_notice import told_compiling

    with told_compiling(sys.stderr):
        return _audited(arguments)


def _audited(arguments: argparse.Namespace) -> int:
    from kanonflow.pipelines.audit.audit import audit
    from kanonflow.pipelines.commands.verify_chain import NO_VERDICT, newest_output, outputs_of, verify_chain
    from kanonflow.pipelines.kafka.address import is_kafka_address
    from kanonflow.pipelines.report.after_audit import AuditedRun
    from kanonflow.pipelines.run_records.released_again import second_release_notes

    policy, told = Path(arguments.policy), _files_as_told(arguments)
    outputs = outputs_of([*arguments.directories, *arguments.release], arguments.input, arguments.restricted)
    arguments.release = newest_output(outputs)
    audited = None
    checks = {
        name: getattr(arguments, name) for name in ("waiting", "matching_records", "known", "allow_empty")
    }
    checks |= _secret_checks(arguments)
    if len(outputs) > 1:
        report = verify_chain(policy, arguments.input, outputs, **told, **checks)
    elif any(map(is_kafka_address, (arguments.release, *arguments.input))):
        from kanonflow.pipelines.commands.verify_topics import verify
        from kanonflow.pipelines.runs.feed_address import stream_places

        places = stream_places(arguments.release, arguments.restricted, "--release")
        report = verify(policy, arguments.input, Path(places.directory), places.topic, **told, **checks)
    else:
        audited = AuditedRun(arguments.release)
        report = audit(policy, arguments.input, Path(arguments.release), **told, **checks)
    try:
        tell(report.to_json() if arguments.json else report.render())
        for note in dict.fromkeys(
            note for each in outputs for note in second_release_notes(arguments.restricted or each)
        ):
            tell(f"note: {note}", sys.stderr if arguments.json else sys.stdout)
        flush_output()
    finally:  # nobody may read it any more: the verdict is kept all the same
        if audited is not None:
            tell(audited.conclude(report, policy, checks, time.time_ns() // 1_000_000), sys.stderr)
    if len(outputs) > 1:
        tell(NO_VERDICT, sys.stderr)
    enough = report.in_full if arguments.strict else report.passed
    return DONE if enough else AUDIT_FAILED


def _secret_checks(arguments: argparse.Namespace) -> dict[str, Any]:
    """What an audit checks with the secret: matching records, and of cohorts that last who is who.

    A run that drew its secret itself keeps it among its files; cohorts that last are judged with that.
    """
    from kanonflow.schemas.policy_source import read_policy

    given = (arguments.secret_file, arguments.secret_env, arguments.secret_manager)
    there = any(each is not None for each in given)
    epochs = read_policy(str(arguments.policy)).promise.epochs
    if there and not (arguments.matching_records or epochs):
        from kanonflow.pipelines.options.options import OptionsError

        raise OptionsError(
            "--secret-...: only verify --matching-records has a use for the secret, or cohort: lasting"
        )
    output = arguments.restricted or arguments.release
    own = Path(output, "restricted", "secret")
    if not there and not (epochs and own.is_file()):
        return {}
    from kanonflow.pipelines.audit.lasting.member_numbers import NumberKeys
    from kanonflow.pipelines.run_records.secret_lineage import secret_of_run
    from kanonflow.pipelines.runs.secret_sources import previous_sources, secret_source
    from kanonflow.transforms.secret.seeds import group_key, member_key, people_key

    source = secret_source(*given) if there else secret_source(str(own))
    assert source is not None
    replaced = [each.resolve() for each in previous_sources(arguments.previous_secrets)]
    secret = secret_of_run(output, source.resolve(), replaced)
    keys = {
        "people_key": people_key(secret),
        "number_keys": NumberKeys(member_key(secret), group_key(secret)),
    }
    checks: dict[str, Any] = keys if epochs else {}
    if there and arguments.matching_records:
        from kanonflow.pipelines.commands.matching_record_recipe import recipe_check

        checks["recipe"] = recipe_check(secret, str(output))
    return checks


def _assess(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.assess.assess_release import assess_release, publish, write_assessment
    from kanonflow.pipelines.assess.page import render
    from kanonflow.pipelines.commands.policy_location import read_policy_at

    outputs = [directory.rstrip("/") or "/" for directory in arguments.directories]
    assessment = assess_release(
        outputs,
        read_policy_at(arguments.policy),
        arguments.input,
        arguments.controls,
        population=arguments.population,
        seed=arguments.seed,
        tell=lambda line: tell(line, sys.stderr),
        terminal=sys.stderr,
        **_files_as_told(arguments),
    )
    tell(json.dumps(assessment.to_dict(), indent=1) if arguments.json else render(assessment))
    tell(f"kanonflow: {write_assessment(assessment, outputs[-1])}", sys.stderr)
    if arguments.publish_assessment:
        tell(f"kanonflow: {publish(assessment, outputs[-1])}", sys.stderr)
    unsure = arguments.strict and (assessment.open or assessment.odd)
    return AUDIT_FAILED if assessment.above or unsure else DONE


def _policy(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    if arguments.action == "schema":
        from kanonflow.schemas.policy_documents import policy_schema

        tell(json.dumps(policy_schema(), indent=2))
        return DONE
    if arguments.action == "draft":
        from kanonflow.pipelines.commands.draft import draft_from_input

        told = {**_files_as_told(arguments), "individual": arguments.individual, "terminal": sys.stderr}
        tell(draft_from_input(arguments.input, **told), end="")
    else:
        from kanonflow.pipelines.commands.policy import check_policy

        told = {**_files_as_told(arguments), "fit_only": arguments.fit_only, "terminal": sys.stderr}
        check = check_policy(arguments.policy, arguments.input, **told)
        _check(check, arguments.stream_output, as_json=arguments.json)
    return DONE


def _check(check: "PolicyCheck", stream_output: str | None, *, as_json: bool) -> None:  # type: ignore[name-defined] # noqa: F821
    """Print what was found, and keep it for the stream that will write to ``stream_output``. Raises the refusal."""
    tell(check.to_json() if as_json else check.text)
    if check.refusal is not None:
        raise check.refusal
    if stream_output is None:
        return
    from kanonflow.pipelines.options.options import OptionsError
    from kanonflow.pipelines.run_records.payload_check import write_check

    if check.figures is None:
        raise OptionsError("--for keeps what was measured, and --fit-only measures nothing")
    output = stream_output.rstrip("/") or "/"
    kept = write_check(output, check.policy, check.figures, time.time_ns() // 1_000_000)
    tell(f"kept in {kept}", sys.stderr if as_json else sys.stdout)


def _report(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.report.report import ReportInput, write_report

    policy = None
    if arguments.policy is not None:
        from kanonflow.schemas.policy_source import read_policy

        policy = read_policy(arguments.policy)
    rows = ReportInput(arguments.input, **_files_as_told(arguments)) if arguments.input else None
    for path in write_report(arguments.directory.rstrip("/") or "/", policy, rows):
        tell(path)
    return DONE


def _explain(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.explain import explain_input, write_page

    if arguments.html is not None:
        from kanonflow.pipelines.pages.missing_extra import templates

        templates()
    found = explain_input(
        arguments.policy,
        arguments.input,
        **_files_as_told(arguments),
        quick=arguments.quick,
        wanted=arguments.wanted,
    )
    tell(json.dumps(found.to_json(), indent=1) if arguments.json else found.render())
    if arguments.html is not None:
        write_page(found, arguments.policy, Path(arguments.html))
    return DONE


def _compare(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.compare import Settings, compare, is_page, render, to_json, write_front
    from kanonflow.pipelines.commands.policy_location import read_policy_at

    chosen = {name: getattr(arguments, name) for name in Settings.__dataclass_fields__}
    settings = Settings(**chosen)
    policy = read_policy_at(arguments.policy)
    if arguments.plot and is_page(Path(arguments.plot)):
        from kanonflow.pipelines.pages.missing_extra import templates

        templates()
    found = compare(
        policy, arguments.input, settings, policy_file=arguments.policy, **_files_as_told(arguments)
    )
    tell(to_json(found) if arguments.json else render(found, settings, policy))
    if arguments.plot:
        write_front(found, settings, policy, Path(arguments.plot))
    return DONE


def _plan(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.commands.plan import plan_shards
    from kanonflow.pipelines.commands.split_plan import split_shards
    from kanonflow.pipelines.options.options import OptionsError

    files = arguments.policy, arguments.input, arguments.output
    flags = _files_as_told(arguments) | {"accept_small": arguments.accept_small, "threads": arguments.threads}
    if arguments.continues is not None:
        if arguments.people is not None:
            raise OptionsError("--people: with --continue a plan is made from the people of that run")
        made = split_shards(
            *files, arguments.continues, arguments.split or (), arguments.shards or 2, **flags
        )
    elif arguments.shards is None:
        raise OptionsError("--shards: how many of each partition is needed")
    else:
        made = plan_shards(*files, arguments.shards, **flags, people_file=arguments.people)
    tell(made.to_json() if arguments.json else made.render())
    return DONE


_COMMANDS: dict[str, Callable[[argparse.Namespace, Sequence[str]], int]] = {
    "demo": _demo,
    "anonymize": _anonymize,
    "stream": _stream,
    "stop": _stop,
    "forget": _forget,
    "rejected": _rejected,
    "verify": _verify,
    "export": _export,
    "impute": _impute,
    "report": _report,
    "policy": _policy,
    "assess": _assess,
    "explain": _explain,
    "compare": _compare,
    "plan": _plan,
}


if __name__ == "__main__":
    sys.exit(main())
