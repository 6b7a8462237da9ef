"""The job behind ``kanonflow stream``: a feed that goes on, released window by window."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from kanonflow.pipelines.chains.chain_record import ChainAsked
from kanonflow.pipelines.chains.shards_record import known_shards, stored_plan
from kanonflow.pipelines.feeds.polled_source import ReadPolled
from kanonflow.pipelines.fit.people_file import read_people
from kanonflow.pipelines.flink.failures import restore_refusal
from kanonflow.pipelines.flink.flags import flag_value, is_flink
from kanonflow.pipelines.flink.job_server import submitting_jvm, with_job_server
from kanonflow.pipelines.flink.job_watch import JobManagerGoneError, JobWatch
from kanonflow.pipelines.flink.jobs import cancel_jobs, cluster_address, is_alive, is_running, was_stopped
from kanonflow.pipelines.flink.stable_ids import keep_ids
from kanonflow.pipelines.flink.temporary_folder import private_temporary_folder
from kanonflow.pipelines.options.options import OptionsError, RunOptions
from kanonflow.pipelines.run_records.beginning import NotBegunError, StreamStart
from kanonflow.pipelines.run_records.payload_check import measured_file, measured_words
from kanonflow.pipelines.run_records.refused_state import GoneFeedError, LostInputError, RefusedState
from kanonflow.pipelines.run_records.rejected_rows import unsettled_rejected
from kanonflow.pipelines.run_records.run_directory import open_run_directory
from kanonflow.pipelines.runs.anonymize_files import (
    RunFailedError,
    all_metrics,
    as_workers_see,
    beam_log,
    connect,
    continued_cohorts,
    earlier_releases,
    given_secret,
    kanonymize,
    make_pipeline,
    plan_of_run,
    recorded_file,
    refuse_second_continuation,
    run_failure,
    shipped_secret,
    with_overrides,
)
from kanonflow.pipelines.runs.dataflow_jobs import check_runner, is_dataflow, only_submits
from kanonflow.pipelines.runs.end_on_rejected import EndOnRejected
from kanonflow.pipelines.runs.feed_address import (
    DirectoryFeed,
    FeedAddress,
    feed_topic,
    release_sink,
    sink_notes,
)
from kanonflow.pipelines.runs.feed_end import end_file, stop_file
from kanonflow.pipelines.runs.first_look import KeepMeasured
from kanonflow.pipelines.runs.input_people import as_told, continuing_feed
from kanonflow.pipelines.runs.known_people import known_people
from kanonflow.pipelines.runs.secret_sources import previous_sources
from kanonflow.pipelines.runs.secret_uses import refuse_shared_secret
from kanonflow.pipelines.runs.worker_pool import workers_in_this_process
from kanonflow.pipelines.terminal.progress import progress, watched_live
from kanonflow.pipelines.terminal.stream_notices import StreamNotices
from kanonflow.pipelines.terminal.summary import mean_of, told_of_cohorts
from kanonflow.pipelines.terminal.table import count, labelled
from kanonflow.pipelines.terminal.terminal import tell
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.release_format import ReleaseFormat
from kanonflow.schemas.text_form import with_delimiter
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.output_directories import metrics_directory
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.earlier_releases import OlderStateError, Remake
from kanonflow.transforms.lineage.published_slots import refusal_file
from kanonflow.transforms.risks.check_record import CheckRecord
from kanonflow.transforms.risks.idle_boxes import idle_boxes
from kanonflow.transforms.sinks.divided_people import divided_people
from kanonflow.transforms.sinks.sinks import WriteReleases
from kanonflow.transforms.solver_check import check_solver

POLL_SECONDS = 0.5
_ENDED = (PipelineState.DONE, PipelineState.CANCELLED, PipelineState.DRAINED)


@dataclass(frozen=True)
class StreamSummary:
    """What stands in the output of a stream: of this run and of those it resumed.

    Counted from files and not from counters, which a restart from a checkpoint begins anew.
    """

    releases: int
    rows_released: int
    rejected: Mapping[str, int]
    lasting: tuple[str, ...] = ()
    asked: str | None = None

    def problems(self) -> tuple[str, ...]:
        """Why the stream must not count as done; empty when it may."""
        said = {
            "release_conflict": "belong to releases that do not go on from what is published, or to partitions that"
            " were parked for one (restricted/parked), and were not published",
            "gate_refused": "were refused by the gate, which is a fault of this software; please report it",
        }
        return tuple(
            f"{self.rejected[reason]} rows {what}; they are in restricted/rejected ({reason})"
            for reason, what in said.items()
            if self.rejected.get(reason)
        )

    def to_json(self) -> str:
        """The table as a JSON object, with problems."""
        return json.dumps(asdict(self) | {"problems": list(self.problems())}, indent=1)

    def render(self) -> str:
        """The table as plain text, a line each."""
        lines = [("releases", self.releases), ("rows released", self.rows_released)]
        lines.append(("rows rejected", sum(self.rejected.values())))
        lines += [(f"  {reason}", rows) for reason, rows in sorted(self.rejected.items())]
        asked = [] if self.asked is None else [self.asked]
        return "\n".join([*labelled((label, count(value)) for label, value in lines), *self.lasting, *asked])


def stream_feed(
    policy: Policy,
    source: FeedAddress,
    options: RunOptions,
    *,
    topic: str | None = None,
    check: CheckRecord | None = None,
    terminal: TextIO | None = None,
) -> StreamSummary | None:
    """Run the stream until its feed ends or somebody stops the job. None: the job was only submitted.

    options.output: the directory of metrics and rejected rows, and of releases unless ``topic``, a Kafka address, takes
    them. check: of a sample of the feed; None: the first windows are measured.

    Raises:
        InputError, PolicyError: the feed's schema cannot be had, or the policy does not fit it.
        ContinueError, StrangePeopleError: the run to continue does not fit, or hardly anybody of the feed's first rows
            is known there.
        OptionsError, RunDirectoryError, SecretError: the arguments cannot be used.
        OlderStateError: the stream goes on from a state that is older than what it has published.
        GoneFeedError: its feed cannot be read on.
        LostInputError: more of its input does not fit than may, and it was told to end then.
        RunFailedError: anything else; the details are in OUT/restricted/beam.log.
    """
    terminal = terminal or sys.stderr
    if topic is not None and options.release_format is not ReleaseFormat.AVRO:
        raise OptionsError(
            f"--release-format {options.release_format}: --output is a topic, whose messages are one row each and take"
            " their format from its address (format=...); leave the flag out"
        )
    check_runner(options, [str(source)])
    refuse_second_continuation(options)
    policy = with_overrides(policy, options)
    check_solver(policy)
    for note in dict.fromkeys((*source.notes(), *sink_notes(topic))):
        tell(f"warning: {note}", terminal)
    if check is not None and not options.quiet:
        tell(check.words(), terminal)
    feed = source.open(policy)
    bound = bind(policy, feed.schema.columns, text=feed.schema.text, csv=feed.schema.csv, source=str(source))
    people = read_people(bound, options.policy, recorded_file)
    plan = plan_of_run(options, bound, people)
    source_of_secret, replaced = given_secret(options), previous_sources(options.previous_secrets)
    form = with_delimiter(policy.csv, source.delimiter if isinstance(source, DirectoryFeed) else None)
    folder = source.path if isinstance(source, DirectoryFeed) else None
    folders = [] if folder is None else [folder]
    refuse_shared_secret((source_of_secret, *replaced), (), folders)
    secret = None if source_of_secret is None else source_of_secret.resolve()
    name = job_name(policy.name, options)
    start = replace(stream_start(options, name, topic), chosen=source.chosen)
    if _goes_on(start.job):
        # The end of this feed would stop that job too.
        raise OptionsError(f"--job_name {name}: a job of that name runs there already; choose another name")
    metrics_folder, seen = metrics_directory(options.output), as_workers_see(options.output)
    readers = source.readers(_parallelism(options))
    if readers > 1 and not (options.quiet or start.from_state):
        tell(f"{source}: {readers} readers share its partitions", terminal)
    with ExitStack() as stack:
        flags = (*with_job_server(options.runner, options.beam_flags, terminal), f"--job_name={name}")
        if is_flink(options.runner):
            temporary = stack.enter_context(private_temporary_folder(flags))
            flags = (*flags, *submitting_jvm(flags), *temporary)
        pipeline = make_pipeline(replace(options, beam_flags=flags))
        keep_ids(pipeline, matching_records=options.matching_records)
        directory = stack.enter_context(
            open_run_directory(
                options.output,
                policy,
                [source.record()],
                secret,
                resume=options.resume,
                stream=start,
                previous=[each.resolve() for each in replaced],
                bound=bound,
                continues=options.continues,
                continuing=as_told(
                    continuing_feed(feed.reading(bound), bound, form, folder, source.going_on), options
                ),
                release_format=options.release_format,
                asked=ChainAsked(epoch=options.epoch, renews=options.renew),
                people=people,
                plan=plan,
            )
        )
        for note in (*directory.notes, *source.begins(directory.begins)):
            tell(note, terminal)
        shipped = shipped_secret(source_of_secret, directory, replaced)
        connect(
            pipeline,
            ReadPolled(
                feed.reading(bound),
                policy.out_of_orderness_ms,
                stop_file(seen),
                RefusedState(seen),
                source.going_on(directory.begins),
                readers,
            ),
            kanonymize(
                bound,
                shipped,
                watermark_waits=True,
                matching_records=options.matching_records,
                published=earlier_releases(
                    options, policy, Remake.REWIND if options.rewind else Remake.REFUSE
                ),
                epoch=directory.epoch,
                continued=continued_cohorts(directory, bound),
                chain=directory.chain,
                job_start=directory.job_start,
                known_people=known_people(seen, policy, shipped),
                on_unfit=EndOnRejected(seen, bound) if options.end_on_rejected else None,
                verdict=check,
                on_measured=KeepMeasured(seen, policy),
                plan=stored_plan(seen, plan),
                shards=known_shards(seen, plan),
            ),
            bound,
            options.output,
            options.runner,
            streaming=True,
            matching_records=options.matching_records,
            write_releases=release_sink(topic, bound, directory.run, options.output, directory.epoch)
            or WriteReleases(seen, bound, directory.epoch, options.release_format),
            epoch=directory.epoch,
        )
        stack.enter_context(beam_log(options.output))
        watch = _watch(name, start, options, terminal)
        quiet = options.quiet or not is_local(metrics_folder) or "cluster" in start.job
        stack.enter_context(progress(Path(metrics_folder), terminal, quiet=quiet))
        stack.enter_context(workers_in_this_process(pipeline.options))
        notices = StreamNotices(options.output, terminal, measured=partial(measured_words, options.output))
        if not _run_until_end(pipeline, options, start, watch, notices):
            tell(f"submitted as {name}", terminal)
            return None
        notices.look(last=True)
    return summarize_stream(options.output, policy)


def _parallelism(options: RunOptions) -> int:
    """How many instances of a step work side by side, as far as that is known before the job runs."""
    told = flag_value(options.beam_flags, "--parallelism") if is_flink(options.runner) else None
    return max(int(told), 1) if told is not None and told.lstrip("-").isdigit() else 1


def _watch(name: str, start: StreamStart, options: RunOptions, terminal: TextIO) -> JobWatch:
    """What tells of the job; where a live display can, it is silent unless there is a cluster to tell of."""
    folder = metrics_directory(options.output)
    return JobWatch(
        name,
        start.job.get("cluster"),
        Path(folder) if is_local(folder) else None,
        terminal,
        quiet=options.quiet or (watched_live(terminal) and "cluster" not in start.job),
        elsewhere=is_dataflow(options.runner),
    )


def stream_start(options: RunOptions, name: str, topic: str | None) -> StreamStart:
    """How the stream of these options begins."""
    flags = options.beam_flags
    cluster = cluster_address(flags) if is_flink(options.runner) else None
    how, from_state = "--update", "--update" in flags
    if not is_dataflow(options.runner):
        # Beam gives no savepoint to an embedded cluster, which would begin with the feed's first row.
        how = "--savepoint_path=... on the cluster that took it (--flink_master)"
        from_state = cluster is not None and bool(flag_value(flags, "--savepoint_path"))
    return StreamStart(
        sink="files" if topic is None else feed_topic(topic),
        job={"name": name, **({} if cluster is None else {"cluster": cluster})},
        from_state=from_state,
        how=how,
        goes_on=_goes_on,
        rewinds=options.rewind,
    )


def _goes_on(job: Mapping[str, str]) -> bool:
    """Whether a job still runs on its Flink cluster, as far as that one can be asked."""
    with contextlib.suppress(OSError, KeyError):
        return is_alive(job["cluster"], job["name"])
    return False


def job_name(policy: str, options: RunOptions) -> str:
    """The job's name in its cluster: the one given, else one that no other run has."""
    asked = flag_value(options.beam_flags, "--job_name")
    return asked or f"kanonflow-{re.sub('[^a-z0-9]+', '-', policy.lower()).strip('-')}-{secrets.token_hex(4)}"


def summarize_stream(output: str, policy: Policy | None = None) -> StreamSummary:
    """The summary of what stands below ``output``. policy: that of the stream, where it is at hand."""
    metrics = list(all_metrics(metrics_directory(output)))
    released = [record for record in metrics if record["released"]]
    rejected = Counter(record["reason"] for record in unsettled_rejected(output))
    return StreamSummary(
        releases=len(released),
        rows_released=sum(record["rows_released"] for record in metrics),
        rejected=rejected,
        lasting=told_of_cohorts(metrics, policy, divided_people(output)),
        asked=None if policy is None else idle_boxes(mean_of(released, "gcp"), policy),
    )


def _run_until_end(
    pipeline: beam.Pipeline, options: RunOptions, start: StreamStart, watch: JobWatch, notices: StreamNotices
) -> bool:
    """Run until the job ends or says that its feed did; False when nobody is to wait for that.

    A stop from outside (a savepoint) is an end like any other.
    Raises NotBegunError: the job is not there. JobManagerGoneError: its cluster is not. LeftRunning: Ctrl-C.
    """
    ended, refused, name = end_file(options.output), RefusedState(options.output), start.job["name"]
    # What an earlier job said about itself is not about this one.
    storage.delete([ended, refusal_file(options.output), measured_file(options.output)])
    try:
        result = pipeline.run()
        _heed_interrupts()
        if only_submits(pipeline.options):
            return False
        while not PipelineState.is_terminal(result.state):
            if options.detach and _has_begun(result, options, name):
                return False
            if refused.stands():
                _cancel(result, options, name)
                break
            if storage.exists(ended):
                _cancel(result, options, name)
                return True
            watch.look()
            notices.look()
            time.sleep(POLL_SECONDS)
        refused.raise_it()
        if result.state not in _ENDED and not _stopped_from_outside(options, name):
            result.wait_until_finish()  # raises, and says why
    except KeyboardInterrupt:
        raise watch.left() from None
    except (GoneFeedError, JobManagerGoneError, LostInputError, OlderStateError):
        raise
    except Exception as error:  # runners raise whatever they like
        if watch.job is not None:
            watch.refuse_if_gone()
        reason = run_failure(error, options.output)
        refusal = restore_refusal(f"{error}\n{watch.failure_text()}")
        if flag_value(options.beam_flags, "--savepoint_path") and refusal is not None:
            reason = RunFailedError(f"Flink does not begin from the savepoint: {refusal}")
        if start.sink == "files" and not _goes_on(start.job):
            raise NotBegunError(reason) from None
        raise reason from None
    return True


def _heed_interrupts() -> None:
    """Make Ctrl-C a KeyboardInterrupt again: Beam's job server takes the signal to stop itself, and says nothing."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _has_begun(result: Any, options: RunOptions, name: str) -> bool:
    """Whether the job runs without this process: Beam's job server says so before its cluster has the job."""
    address = cluster_address(options.beam_flags)
    if not is_flink(options.runner) or address is None:
        return bool(result.state == PipelineState.RUNNING)
    with contextlib.suppress(OSError):
        return is_running(address, name)
    return False


def _stopped_from_outside(options: RunOptions, name: str) -> bool:
    """Whether somebody stopped the job in its cluster, which the job server takes for a failure."""
    address = cluster_address(options.beam_flags)
    if not is_flink(options.runner) or address is None:
        return False
    try:
        return was_stopped(address, name)
    except OSError:
        return False


def _cancel(result: Any, options: RunOptions, name: str) -> None:
    """Stop a job whose feed has ended. Beam's job server lets go of a Flink job without stopping it."""
    result.cancel()
    address = cluster_address(options.beam_flags)
    if is_flink(options.runner) and address is not None:
        cancel_jobs(address, name)
