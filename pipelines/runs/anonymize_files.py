"""The job behind ``kanonflow anonymize``: files in, releases, metrics and rejected rows out."""

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import apache_beam as beam
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.window import GlobalWindows

from kanonflow.pipelines.chains.chain_record import ChainAsked
from kanonflow.pipelines.chains.continued_run import refuse_second_successor
from kanonflow.pipelines.chains.shards_record import (
    asked_plan,
    known_shards,
    refuse_other_people,
    stored_plan,
)
from kanonflow.pipelines.feeds.bounded_source import ReadBatches
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.latest_window import latest_window_end
from kanonflow.pipelines.feeds.polled_source import PolledRows
from kanonflow.pipelines.feeds.read_files import ReadOnce
from kanonflow.pipelines.feeds.spread_sample import spread_sample
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.fit.people_file import read_people
from kanonflow.pipelines.options.options import DEFAULT_RUNNER, OptionsError, RunOptions, beam_options
from kanonflow.pipelines.run_records.payload_check import keep_measured
from kanonflow.pipelines.run_records.run_directory import RunDirectory
from kanonflow.pipelines.runs.beam_costs import user_metrics_alone
from kanonflow.pipelines.runs.dataflow_jobs import check_runner, is_dataflow, only_submits
from kanonflow.pipelines.runs.feed_end import Silence, TellEnd, end_file
from kanonflow.pipelines.runs.files_of_streams import refuse_read_files
from kanonflow.pipelines.runs.first_look import measure_payload, refuse_misfits
from kanonflow.pipelines.runs.input_content import input_contents, refuse_changed, refuse_twice
from kanonflow.pipelines.runs.input_people import as_told, continuing_files
from kanonflow.pipelines.runs.kernel_cache import compile_first
from kanonflow.pipelines.runs.known_people import known_people
from kanonflow.pipelines.runs.rows_digest import with_rows
from kanonflow.pipelines.runs.second_release import open_release_directory
from kanonflow.pipelines.runs.secret_sources import (
    ManagedSecret,
    PinnedSecret,
    SecretFile,
    SecretVariable,
    pinned_secret,
    previous_sources,
    secret_source,
)
from kanonflow.pipelines.runs.secret_uses import refuse_shared_secret
from kanonflow.pipelines.runs.worker_pool import workers_in_this_process
from kanonflow.pipelines.terminal.chain_lines import run_end_notes
from kanonflow.pipelines.terminal.error_trace import out_of_space
from kanonflow.pipelines.terminal.progress import progress, read_metrics
from kanonflow.pipelines.terminal.summary import RunSummary, summarize
from kanonflow.pipelines.terminal.terminal import tell
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import (
    PRIVATE_FILE,
    create_if_absent,
    read_whole,
)
from kanonflow.transforms.files.output_directories import metrics_directory, restricted_directory
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases, OlderStateError, Remake
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.lineage.release_lineage import ReleaseConflictError
from kanonflow.transforms.risks.check_record import CheckRecord
from kanonflow.transforms.risks.payload_risks import PayloadRisks
from kanonflow.transforms.roster.continued_cohorts import ContinuedCohorts
from kanonflow.transforms.roster.first_partitions import DividedPeopleError
from kanonflow.transforms.rows.unfit import LastRows
from kanonflow.transforms.secret.seeds import SecretSource
from kanonflow.transforms.shards.known_shards import NOBODY, KnownShards, PlanSource
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.sinks.divided_people import divided_people
from kanonflow.transforms.sinks.durable_boundary import (
    Marked,
    TakeApart,
    durable_boundary,
    is_checkpointed,
)
from kanonflow.transforms.sinks.gather_rejected import GatherRejected
from kanonflow.transforms.sinks.matching_record_sink import WriteMatchingRecords
from kanonflow.transforms.sinks.sinks import (
    NAMESPACE,
    WriteCarried,
    WriteMetrics,
    WriteRejected,
    WriteReleases,
)
from kanonflow.transforms.sinks.write_divided_people import WriteDividedPeople
from kanonflow.transforms.windows.chain import Chain
from kanonflow.transforms.windows.expected_people import PeopleFile
from kanonflow.transforms.windows.state_bytes import StateTooLargeError

_TOLD = (InputError, ReleaseConflictError, OlderStateError, DividedPeopleError, StateTooLargeError)
"""Errors of a step whose message is for the user."""


class RunFailedError(Exception):
    """The pipeline did not end well; the message holds no value of a record."""

    exit_code = 3


def anonymize_files(
    policy: Policy,
    patterns: Sequence[str],
    options: RunOptions,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
    terminal: TextIO | None = None,
) -> RunSummary | None:
    """Run the pipeline over the files and wait for its end. None: the job graph was only written (a template).

    input_format: what the files hold; None: their names say it.
    terminal: where notes and the progress display go; None: stderr.

    Raises:
        InputError, PolicyError: the files are damaged, or the policy does not fit them.
        RunMisfitError: more of a sample of the rows does not fit than the policy lets pass.
        PayloadRiskError: payload tells more than the promise allows, and nobody has accepted that.
        OptionsError, RunDirectoryError, SecretError: the arguments cannot be used.
        ReleaseConflictError: a run that resumes comes to another release than the one that is published.
        DividedPeopleError: people have rows in more than one partition, and the policy does not accept that.
        ContinueError: the run to continue does not fit, or has read these files. StrangePeopleError: hardly anybody of
            the input is known there.
        InputChangedError: a file changed while it was read.
        RunFailedError: anything else; the details are in OUT/restricted/beam.log.
    """
    terminal = terminal or sys.stderr
    check_runner(options, patterns)
    refuse_second_continuation(options)
    from kanonflow.transforms.solver_check import check_solver

    policy = with_overrides(policy, options)
    check_solver(policy)
    files, _, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    pipeline = make_pipeline(options)
    source_of_secret = given_secret(options)
    replaced = previous_sources(options.previous_secrets)
    refuse_shared_secret((source_of_secret, *replaced), (file.path for file in files))
    # Before anything is there: neither can be taken back once a release is out.
    people = read_people(bound, options.policy, recorded_file)
    plan = plan_of_run(options, bound, people)
    # They all look at the same rows, before the run reads them.
    reading = ReadOnce()
    proposed = refuse_misfits(files, bound, csv, ", ".join(patterns), reading)
    compile_first(bound, terminal, here=not is_dataflow(options.runner), quiet=options.quiet)
    measured = measure_payload(files, bound, csv, reading)
    if not options.quiet and measured.line:
        tell(measured.line, terminal)
    contents = with_rows(input_contents(files), bound, csv, reading)
    del reading
    if policy.event_id is None:
        refuse_twice(
            contents,
            lambda file: any(each.rows.num_rows for each in spread_sample([file], bound.input_columns, csv)),
        )
    records = [content.record() for content in contents]
    secret = None if source_of_secret is None else source_of_secret.resolve()
    previous = [each.resolve() for each in replaced]
    refuse_read_files(options.continues, [each.file.path for each in contents])
    continuing = as_told(continuing_files(files, bound, csv), options)
    asked = ChainAsked(
        options.carry,
        options.until,
        partial(latest_window_end, files, bound, csv),
        options.epoch,
        options.renew,
    )
    with open_release_directory(
        options, policy, records, secret, previous, bound, continuing, asked, people, plan
    ) as directory:
        for note in directory.notes:
            tell(note, terminal)
        if measured.figures is not None and measured.figures["rows"] and is_local(options.output):
            keep_measured(options.output, policy, measured.figures, time.time_ns() // 1_000_000)
        source = ReadBatches(files, bound.input_columns, csv, bound.attributes)
        shipped = shipped_secret(source_of_secret, directory, replaced)
        published = earlier_releases(options, policy, Remake.STOP) if options.resume else None
        anonymize = kanonymize(
            bound,
            shipped,
            matching_records=options.matching_records,
            published=published,
            epoch=directory.epoch,
            continued=continued_cohorts(directory, bound),
            chain=directory.chain,
            known_people=known_people(as_workers_see(options.output), policy, shipped),
            verdict=measured.check,
            plan=stored_plan(as_workers_see(options.output), plan),
            shards=known_shards(as_workers_see(options.output), plan),
        )
        connect(
            pipeline,
            source,
            anonymize,
            bound,
            options.output,
            options.runner,
            matching_records=options.matching_records,
            write_releases=WriteReleases(
                as_workers_see(options.output), bound, directory.epoch, options.release_format
            ),
            epoch=directory.epoch,
            unwatched=only_submits(pipeline.options),
        )
        metrics_folder = metrics_directory(options.output)
        if only_submits(pipeline.options):
            pipeline.run()
            return None
        begin = time.perf_counter()
        with (
            beam_log(options.output),
            workers_in_this_process(pipeline.options),
            user_metrics_alone(),
            progress(Path(metrics_folder), terminal, quiet=options.quiet or not is_local(metrics_folder)),
        ):
            counters = run_to_end(pipeline, options.output)
        refuse_changed(contents)
        create_if_absent(end_file(options.output), b"", private=True)
        seconds = time.perf_counter() - begin
        divided = divided_people(options.output)
        summary = summarize(
            counters, all_metrics(metrics_folder), seconds, policy, bound.columns, proposed, divided
        )
        for note in run_end_notes(
            directory.chain if policy.promise.epochs else None,
            all_metrics(metrics_folder),
            summary,
            options.output,
        ):
            tell(note, terminal)
        if directory.people is not None:
            tell(directory.people.line(), terminal)
        return summary


def with_overrides(policy: Policy, options: RunOptions) -> Policy:
    """The policy with what the command line says about the solver."""
    overrides = {
        "evaluations_per_row": options.evaluations,
        "deadline_ms": options.deadline_ms,
        "threads": options.threads,
        "seed": options.search_seed,
    }
    changes: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    return replace(policy, solver=replace(policy.solver, **changes)) if changes else policy


def given_secret(options: RunOptions) -> SecretFile | SecretVariable | ManagedSecret | None:
    """Where the command line says the secret is; None when it names none. Raises SecretError."""
    return secret_source(options.secret_file, options.secret_env, options.secret_manager)


def shipped_secret(
    source: SecretSource | None, directory: RunDirectory, replaced: Sequence[SecretSource] = ()
) -> PinnedSecret:
    """What the job graph holds in the place of the secret: where a worker finds it, and how it knows that one.

    replaced: where the secrets are that the run used before.
    """
    own = os.path.abspath(os.path.join(restricted_directory(directory.output), "secret"))
    return pinned_secret(directory.secret, (*replaced, source or SecretFile(own)))


def make_pipeline(options: RunOptions) -> beam.Pipeline:
    """An empty pipeline on the runner of the options. Raises OptionsError: no such runner."""
    beam_flags = beam_options(options.beam_flags, options.runner)
    beam_flags.view_as(StandardOptions).runner = options.runner
    try:
        return beam.Pipeline(runner=options.runner, options=beam_flags)
    except (ValueError, ImportError, AttributeError) as error:
        raise OptionsError(f"--runner {options.runner}: {error} (default: {DEFAULT_RUNNER})") from None


def kanonymize(
    bound: BoundPolicy,
    secret: SecretSource,
    *,
    watermark_waits: bool = False,
    matching_records: bool = False,
    published: EarlierReleases | None = None,
    epoch: int = 0,
    continued: ContinuedCohorts | None = None,
    chain: Chain | None = None,
    job_start: int | None = None,
    known_people: beam.PTransform | None = None,
    on_unfit: Callable[[LastRows], None] | None = None,
    verdict: CheckRecord | None = None,
    on_measured: Callable[[PayloadRisks], None] | None = None,
    plan: PlanSource | None = None,
    shards: KnownShards = NOBODY,
) -> beam.PTransform:
    """The transform that the job is about. bound: its solver was checked."""
    from kanonflow.transforms.anonymize import KAnonymize

    return KAnonymize(
        bound,
        secret,
        watermark_waits=watermark_waits,
        matching_records=matching_records,
        published=published,
        epoch=epoch,
        continued=continued,
        chain=chain,
        job_start=job_start,
        known_people=known_people,
        on_unfit=on_unfit,
        verdict=verdict,
        on_measured=on_measured,
        plan=plan,
        shards=shards,
    )


def plan_of_run(options: RunOptions, bound: BoundPolicy, people: PeopleFile | None) -> ShardPlan | None:
    """The plan of shards that a run goes by; None: no partition is cut.

    Raises PlanError: it cannot be read, is of another policy, or was made from others than begin with it.
    """
    asked = asked_plan(options.plan, options.output, options.continues, resume=options.resume)
    if asked is None:
        return None
    plan, source = asked
    plan.refuse_other_policy(bound, source)
    if options.continues is None and not options.resume:
        plan.refuse_first()
        refuse_other_people(plan, source, bound, people)
    return plan


def continued_cohorts(directory: RunDirectory, bound: BoundPolicy) -> ContinuedCohorts | None:
    """Where the stateful step finds whom the run knows from the start; None: it knows nobody."""
    if not directory.continued and not directory.expects:
        return None
    seen = as_workers_see(directory.output)
    return ContinuedCohorts(seen, bound, directory.epoch, expects=directory.expects)


def recorded_file(file: InputFile) -> dict[str, Any]:
    """What a run keeps of a file beside its input. Raises InputError: it cannot be read."""
    return input_contents([file])[0].record()


def refuse_second_continuation(options: RunOptions) -> None:
    """Raise ContinueError if another run continues what this one would, before anything of the feed is read."""
    if options.continues is not None and not options.resume:
        refuse_second_successor(options.continues, options.output)


def earlier_releases(options: RunOptions, policy: Policy, remake: Remake) -> EarlierReleases:
    """What the stateful step looks up of releases that the output holds already."""
    return EarlierReleases(PublishedSlots(as_workers_see(options.output), policy), remake)


def as_workers_see(output: str) -> str:
    """A worker on a cluster has a working directory of its own."""
    return os.path.abspath(output) if is_local(output) else output


def connect(
    pipeline: beam.Pipeline,
    source: beam.PTransform,
    anonymize: beam.PTransform,
    bound: BoundPolicy,
    output: str,
    runner: str = DEFAULT_RUNNER,
    *,
    streaming: bool = False,
    matching_records: bool = False,
    write_releases: beam.PTransform | None = None,
    epoch: int = 0,
    unwatched: bool = False,
) -> None:
    """Wire the job: ``source`` (PBegin -> RawBatch, or PolledRows), ``anonymize`` (RawBatch -> Anonymized), the rest.

    matching_records: whether the releases bring theirs along. epoch: with ``cohort: lasting``, the run's.
    write_releases: PCollection[Release] -> Written; None: files below ``output``, where metrics, rejected rows and
    matching records go in any case. unwatched: nobody waits for the job, so it tells its end itself.
    """
    output = as_workers_see(output)
    read = pipeline | "Read" >> source
    rows, ends = read if isinstance(read, PolledRows) else (read, None)
    anonymized = rows | "KAnonymize" >> anonymize
    # By the solving step itself: Flink knows the steps of a savepoint by how many stages there are.
    carried = anonymized.carried | "KAnonymize/Carry" >> WriteCarried(output)
    boundary = partial(durable_boundary, runner, streaming=streaming)
    # Of windows that made a release, the sink says what became of it. All that is named as a part of KAnonymize here,
    # Flink fuses with the solving step or with the one that gathers, and names a task whose steps stand in several
    # parts of a pipeline by these parts only. Alerts and terminal look for "Solve" there.
    unreleased = anonymized.metrics | "KAnonymize/Unreleased" >> beam.Filter(_made_none)
    gathered = anonymized.rejected | "KAnonymize/GatherRejected" >> GatherRejected(streaming=streaming)
    if is_checkpointed(runner, streaming=streaming):
        together = tuple(
            kind | f"KAnonymize/Marked {number}" >> Marked(number)
            for number, kind in enumerate((anonymized.released, unreleased, gathered))
        )
        stable = together | "KAnonymize/Together" >> beam.Flatten() | "Stable" >> boundary()
        releases, metrics, rejected = stable | "Apart" >> TakeApart(len(together))
    else:  # on Dataflow names of steps are a contract; elsewhere there is nothing between them and the sinks
        releases = anonymized.released | "StableReleases" >> boundary()  # Release
        metrics = unreleased | "StableMetrics" >> boundary()  # dict
        rejected = gathered | "StableRejected" >> boundary()  # RejectedRows
    written = releases | "WriteReleases" >> (write_releases or WriteReleases(output, bound, epoch))
    all_metrics = (metrics, written.metrics) | "AllMetrics" >> beam.Flatten()
    done = [carried, all_metrics | "WriteMetrics" >> WriteMetrics(output, bound.policy)]
    if (divided := anonymized.divided) is not None and (streaming or bound.policy.accepts_divided):
        done.append(divided | "KAnonymize/Divided" >> WriteDividedPeople(output))
    # The feed has not ended before what was gathered is on its way.
    made = [anonymized.released, unreleased, gathered]
    if matching_records:
        done.append(written.matching_records | "WriteMatchingRecords" >> WriteMatchingRecords(output))
    conflicts = written.conflicts | "Global conflicts" >> beam.WindowInto(GlobalWindows())
    done.append(
        (rejected, conflicts)
        | "AllRejected" >> beam.Flatten()  # RejectedRows
        | "WriteRejected" >> WriteRejected(output)
    )
    if is_dataflow(runner) and (ends is not None or unwatched):
        # It keeps a watermark behind every sink, so nothing has to stand between them and the end.
        silence = tuple(done) | "KAnonymize/Silence" >> Silence(ends)
        _ = silence | "End" >> TellEnd(output, partial(durable_boundary, DEFAULT_RUNNER))
    elif ends is not None and not is_dataflow(runner):
        _ = tuple(made) | "KAnonymize/Silence" >> Silence(ends) | "End" >> TellEnd(output, boundary)


def _made_none(metrics: Mapping[str, Any]) -> bool:
    return not metrics["released"]


def told_error_in(error: BaseException) -> Exception | None:
    """The error of ours, with words for the user, that made a pipeline fail; None when it was something else.

    Runners wrap what a step raised into an error of their own, whose text holds the traceback of the worker.
    """
    for kind in _TOLD:
        if isinstance(error, kind):
            return kind(str(error).split(" [while running '")[0])
        match = re.search(rf"{kind.__name__}: (.*?)(?: \[while running '|\n|$)", str(error))
        if match:
            return kind(match.group(1))
    return None


def run_to_end(pipeline: beam.Pipeline, output: str) -> dict[str, int]:
    """Run to the end; the pipeline's counters by name."""
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except Exception as error:  # runners raise whatever they like
        raise run_failure(error, output) from None
    state = getattr(result, "state", None)
    if state not in (None, PipelineState.DONE):
        raise RunFailedError(f"the runner ended the run as {state}")
    counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {counter.key.metric.name: counter.result for counter in counters}


def run_failure(error: Exception, output: str) -> Exception:
    """What to raise in the place of what a runner raised, whose text goes to the log and not to the terminal."""
    if (cause := told_error_in(error)) is not None:
        return cause
    if out_of_space(error):
        return error
    logging.getLogger(__name__).error("the run failed", exc_info=error)
    place = f"; see {restricted_directory(output)}/beam.log" if is_local(output) else ""
    return RunFailedError(f"the run failed ({type(error).__name__}){place}")


def all_metrics(folder: str) -> Iterator[Mapping[str, Any]]:
    """The metrics of every release in a folder."""
    for path in storage.paths_below(folder, "*.avro"):
        yield from read_metrics(read_whole(path))


def _says_something(record: logging.LogRecord) -> bool:
    """Beam warns of every flag that another of its parsers knows; unknown ones were refused before."""
    text = str(record.msg)
    return not text.startswith(("Unparseable argument", "Discarding unparseable args"))


class _Log(logging.StreamHandler):  # type: ignore[type-arg]
    """A file that says nowhere else what it cannot write: Python would print record and traceback to the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Nothing: the run tells what failed."""


@contextlib.contextmanager
def beam_log(output: str) -> Iterator[None]:
    """Send what Beam logs to OUT/restricted/beam.log: a worker's traceback may hold values of records."""
    root = logging.getLogger()
    before = root.handlers[:]
    if is_local(output):
        path = os.path.join(restricted_directory(output), "beam.log")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
        handler: logging.Handler = _Log(os.fdopen(descriptor, "a", encoding="utf-8"))
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    else:
        handler = logging.NullHandler()
    handler.addFilter(_says_something)
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        root.handlers[:] = before
        if isinstance(handler, _Log):
            # What is left of it may find no space.
            with contextlib.suppress(OSError):
                handler.stream.close()
