"""The ``kanonflow`` command.

Everything heavy is imported by the command that needs it: ``--help`` and a typing mistake answer at once, and
nothing that an import logs reaches the terminal.
"""

import argparse
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

DONE, AUDIT_FAILED, BAD_ARGUMENTS, RUN_FAILED = range(4)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 the audit failed, 2 bad arguments, policy or input,
    3 the run failed. Messages name fields and files, never a value."""
    # Beam logs at import and when it parses options; a handler of our own keeps it from adding one.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    # What a runner's threads raise when it ends is not for the terminal: it may hold values of records.
    threading.excepthook = _log_exception
    from kanonflow.pipelines.options import parse

    arguments, beam_flags = parse(argv)
    command = _COMMANDS[arguments.command]
    try:
        return command(arguments, beam_flags)
    except KeyboardInterrupt:
        print(f"kanonflow: interrupted{_AFTER_INTERRUPT.get(arguments.command, '')}", file=sys.stderr)
        return RUN_FAILED
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is None:
            raise
        print(f"kanonflow: {error}", file=sys.stderr)
        return code


_AFTER_INTERRUPT = {
    "anonymize": "; continue with --resume",
    "demo": "; start it again to continue",
    "stream": "; a job on a cluster goes on. Another one continues it from a checkpoint or savepoint, with --resume"
    " and --savepoint_path",
}


def _log_exception(raised: threading.ExceptHookArgs) -> None:
    name = raised.exc_type.__name__
    logging.getLogger(__name__).warning(
        "a thread of the runner ended with %s", name, exc_info=raised.exc_value
    )


def _demo(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.anonymize_files import anonymize_files
    from kanonflow.pipelines.demo_feed import FeedShape, write_feed
    from kanonflow.pipelines.options import run_options
    from kanonflow.schemas.policy_source import read_policy

    options = run_options(arguments, beam_flags)
    shape = FeedShape(rows=arguments.rows, days=arguments.days, seed=arguments.seed)
    feed = write_feed(shape, Path(options.output) / "feed", arguments.format)
    print(f"{feed}: {shape.rows:,} transactions, {shape.customers:,} customers, {shape.days} days")
    if arguments.only_feed:
        return DONE
    with resources.as_file(resources.files("kanonflow.policies") / "transactions.yaml") as path:
        policy = read_policy(str(path))
    # The feed follows from the arguments, so a demo that runs again is the same run.
    summary = anonymize_files(policy, [str(feed)], replace(options, resume=True))
    return _conclude(summary, options.output, quiet=options.quiet)


def _anonymize(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.anonymize_files import anonymize_files
    from kanonflow.pipelines.options import run_options
    from kanonflow.pipelines.policy_commands import unmeasured
    from kanonflow.pipelines.policy_location import read_policy_at
    from kanonflow.pipelines.second_release import second_release_options

    options = run_options(arguments, beam_flags)
    policy = read_policy_at(arguments.policy)
    if arguments.second_release:
        options = second_release_options(options)
    if not options.quiet:
        print(unmeasured(policy, arguments.policy), end="", file=sys.stderr)
    summary = anonymize_files(policy, arguments.input, options, delimiter=arguments.delimiter)
    if summary is None:
        return DONE
    return _conclude(summary, options.output, quiet=options.quiet)


def _stream(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.feed_address import feed_address, stream_places
    from kanonflow.pipelines.options import run_options
    from kanonflow.pipelines.policy_location import read_policy_at
    from kanonflow.pipelines.stream import stream_feed

    places = stream_places(arguments.output, arguments.restricted)
    options = replace(run_options(arguments, beam_flags), output=places.directory)
    policy = read_policy_at(arguments.policy)
    source = feed_address(arguments.source, arguments.schema, arguments.delimiter)
    summary = stream_feed(policy, source, options, topic=places.topic)
    if summary is None:
        return DONE
    if not options.quiet:
        print(summary.render())
    for problem in summary.problems():
        print(f"kanonflow: {problem}", file=sys.stderr)
    return RUN_FAILED if summary.problems() else DONE


def _conclude(summary: "RunSummary", output: str, *, quiet: bool) -> int:  # type: ignore[name-defined] # noqa: F821
    if not quiet:
        print(summary.render())
        print(f"releases: {output}/release")
    for problem in summary.problems():
        print(f"kanonflow: {problem}", file=sys.stderr)
    return RUN_FAILED if summary.problems() else DONE


def _verify(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.audit import audit
    from kanonflow.pipelines.kafka_address import is_kafka_address
    from kanonflow.pipelines.second_release import second_release_notes

    policy, delimiter = Path(arguments.policy), arguments.delimiter
    checks = {name: getattr(arguments, name) for name in ("waiting", "certificates", "known")}
    checks["recipe"] = _recipe(arguments)
    if any(map(is_kafka_address, (arguments.release, *arguments.input))):
        from kanonflow.pipelines.feed_address import stream_places
        from kanonflow.pipelines.verify_topics import verify

        places = stream_places(arguments.release, arguments.restricted, "--release")
        report = verify(
            policy, arguments.input, Path(places.directory), places.topic, delimiter=delimiter, **checks
        )
    else:
        report = audit(policy, arguments.input, Path(arguments.release), delimiter=delimiter, **checks)
    print(report.to_json() if arguments.json else report.render())
    for note in second_release_notes(arguments.restricted or arguments.release):
        print(f"note: {note}", file=sys.stderr if arguments.json else sys.stdout)
    return DONE if report.passed else AUDIT_FAILED


def _recipe(arguments: argparse.Namespace) -> "Recipe | None":  # type: ignore[name-defined] # noqa: F821
    """What checks certificates with the secret; None without one."""
    given = (arguments.secret_file, arguments.secret_env, arguments.secret_manager)
    if not any(each is not None for each in given):
        return None
    from kanonflow.pipelines.options import OptionsError

    if not arguments.certificates:
        raise OptionsError("--secret-...: only verify --certificates has a use for the secret")
    from kanonflow.pipelines.certificate_recipe import recipe_check
    from kanonflow.pipelines.run_directory import secret_of_run
    from kanonflow.pipelines.secret_sources import previous_sources, secret_source

    source = secret_source(*given)
    assert source is not None
    replaced = [each.resolve() for each in previous_sources(arguments.previous_secret)]
    return recipe_check(secret_of_run(arguments.restricted or arguments.release, source.resolve(), replaced))


def _policy(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.policy_commands import check_policy, draft_from_input

    if arguments.action == "draft":
        print(draft_from_input(arguments.input, arguments.delimiter), end="")
    else:
        check = check_policy(arguments.policy, arguments.input, arguments.delimiter)
        print(check.text)
        if check.refusal is not None:
            raise check.refusal
    return DONE


def _compare(arguments: argparse.Namespace, beam_flags: Sequence[str]) -> int:
    from kanonflow.pipelines.compare import Settings, compare, render, write_front
    from kanonflow.pipelines.policy_location import read_policy_at

    chosen = {name: getattr(arguments, name) for name in Settings.__dataclass_fields__}
    settings = Settings(**chosen)
    policy = read_policy_at(arguments.policy)
    outcomes = list(compare(policy, arguments.input, settings, delimiter=arguments.delimiter))
    print(render(outcomes, settings))
    if arguments.plot:
        write_front(outcomes, settings, Path(arguments.plot))
    return DONE


_COMMANDS: dict[str, Callable[[argparse.Namespace, Sequence[str]], int]] = {
    "demo": _demo,
    "anonymize": _anonymize,
    "stream": _stream,
    "verify": _verify,
    "policy": _policy,
    "compare": _compare,
}


if __name__ == "__main__":
    sys.exit(main())
