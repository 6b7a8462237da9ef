"""The job behind ``kanonflow stream``: a feed that goes on, released window by window."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.runners.runner import PipelineState

from kanonflow.pipelines.anonymize_files import (
    all_metrics,
    beam_log,
    connect,
    given_secret,
    kanonymize,
    make_pipeline,
    run_failure,
    shipped_secret,
    with_overrides,
)
from kanonflow.pipelines.dataflow_jobs import check_for_dataflow, is_dataflow, only_submits
from kanonflow.pipelines.feed_address import FeedAddress, feed_topic, release_sink
from kanonflow.pipelines.feed_end import end_file
from kanonflow.pipelines.flink_flags import flag_value, is_flink
from kanonflow.pipelines.flink_jobs import cancel_jobs, cluster_address, is_alive, is_running, was_stopped
from kanonflow.pipelines.options import OptionsError, RunOptions, beam_options
from kanonflow.pipelines.polled_source import ReadPolled
from kanonflow.pipelines.progress import progress, read_metrics
from kanonflow.pipelines.run_directory import NotBegunError, StreamStart, open_run_directory
from kanonflow.pipelines.secret_sources import previous_sources
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.create_if_absent import is_local, read_whole
from kanonflow.transforms.seeds import SecretSource
from kanonflow.transforms.sinks import metrics_directory, rejected_directory
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

    def problems(self) -> tuple[str, ...]:
        """Why the stream must not count as done; empty when it may."""
        said = {
            "release_conflict": "belong to releases that exist already with other rows, and were not published",
            "gate_refused": "were refused by the gate, which is a fault of this software; please report it",
        }
        return tuple(
            f"{self.rejected[reason]} rows {what}; they are in restricted/rejected ({reason})"
            for reason, what in said.items()
            if self.rejected.get(reason)
        )

    def render(self) -> str:
        """The table as plain text, a line each."""
        lines = [("releases", self.releases), ("rows released", self.rows_released)]
        lines.append(("rows rejected", sum(self.rejected.values())))
        lines += [(f"  {reason}", count) for reason, count in sorted(self.rejected.items())]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {count:,}" for name, count in lines)


def stream_feed(
    policy: Policy,
    source: FeedAddress,
    options: RunOptions,
    *,
    topic: str | None = None,
    terminal: TextIO | None = None,
) -> StreamSummary | None:
    """Run the stream until its feed ends or somebody stops the job. None: the job was only submitted.

    options.output: the directory of metrics and rejected rows, and of releases unless ``topic``, a Kafka address, takes
    them.

    Raises:
        InputError, PolicyError: the feed's schema cannot be had, or the policy does not fit it.
        OptionsError, RunDirectoryError, SecretError: the arguments cannot be used.
        RunFailedError: anything else; the details are in OUT/restricted/beam.log.
    """
    terminal = terminal or sys.stderr
    policy = with_overrides(policy, options)
    check_solver(policy)
    feed = source.open(policy)
    bound = bind(policy, feed.schema.columns, text=feed.schema.text, source=str(source))
    source_of_secret, replaced = _secrets(options, str(source))
    secret = None if source_of_secret is None else source_of_secret.resolve()
    name = job_name(policy.name, options)
    start = stream_start(options, name, topic)
    if _goes_on(start.job):
        # The end of this feed would stop that job too.
        raise OptionsError(f"--job_name {name}: a job of that name runs there already; choose another name")
    pipeline = make_pipeline(replace(options, beam_flags=(*options.beam_flags, f"--job_name={name}")))
    metrics_folder = metrics_directory(options.output)
    with ExitStack() as stack:
        directory = stack.enter_context(
            open_run_directory(
                options.output,
                policy,
                [source.record()],
                secret,
                resume=options.resume,
                stream=start,
                previous=[each.resolve() for each in replaced],
            )
        )
        for note in directory.notes:
            print(note, file=terminal)
        connect(
            pipeline,
            ReadPolled(feed.reading(bound), policy.out_of_orderness_ms),
            kanonymize(
                policy,
                shipped_secret(source_of_secret, directory, replaced),
                feed.schema,
                watermark_waits=True,
                certificates=options.certificates,
            ),
            bound,
            options.output,
            options.runner,
            streaming=True,
            write_releases=release_sink(topic, bound, directory.run),
        )
        stack.enter_context(beam_log(options.output))
        quiet = options.quiet or not is_local(metrics_folder)
        stack.enter_context(progress(Path(metrics_folder), terminal, quiet=quiet))
        if not _run_until_end(pipeline, options, start):
            print(f"submitted as {name}", file=terminal)
            return None
    return summarize_stream(options.output)


def _secrets(options: RunOptions, source: str) -> tuple[SecretSource | None, tuple[SecretSource, ...]]:
    """Where the secret is, and those that it replaced. Raises OptionsError: the runner's workers cannot get them."""
    now, replaced = given_secret(options), previous_sources(options.previous_secrets)
    if is_dataflow(options.runner):
        check_for_dataflow(beam_options(options.beam_flags), options.output, [source], now, replaced)
    return now, replaced


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
    )


def _goes_on(job: Mapping[str, str]) -> bool:
    """Whether a job still runs on its Flink cluster, as far as that one can be asked."""
    with contextlib.suppress(OSError, KeyError):
        return is_alive(job["cluster"], job["name"])
    return False


def job_name(policy: str, options: RunOptions) -> str:
    """The job's name in its cluster: the one given, else one that no other run has."""
    given = flag_value(options.beam_flags, "--job_name")
    return given or f"kanonflow-{re.sub('[^a-z0-9]+', '-', policy.lower()).strip('-')}-{secrets.token_hex(4)}"


def summarize_stream(output: str) -> StreamSummary:
    """The summary of what stands below ``output``."""
    metrics = list(all_metrics(metrics_directory(output)))
    rejected: dict[str, int] = {}
    for record in _rejected(output):
        rejected[record["reason"]] = rejected.get(record["reason"], 0) + 1
    return StreamSummary(
        releases=sum(record["released"] for record in metrics),
        rows_released=sum(record["rows_released"] for record in metrics),
        rejected=rejected,
    )


def _run_until_end(pipeline: beam.Pipeline, options: RunOptions, start: StreamStart) -> bool:
    """Run until the job ends or says that its feed did; False when nobody is to wait for that.

    A stop from outside (a savepoint) is an end like any other. Raises NotBegunError: the job is not there.
    """
    ended, name = end_file(options.output), start.job["name"]
    if is_local(ended):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ended)
    try:
        result = pipeline.run()
        if only_submits(pipeline.options):
            return False
        while not PipelineState.is_terminal(result.state):
            if options.detach and _has_begun(result, options, name):
                return False
            if FileSystems.exists(ended):
                _cancel(result, options, name)
                return True
            time.sleep(POLL_SECONDS)
        if result.state not in _ENDED and not _stopped_from_outside(options, name):
            result.wait_until_finish()  # raises, and says why
    except Exception as error:  # runners raise whatever they like
        reason = run_failure(error, options.output)
        if start.sink == "files" and not _goes_on(start.job):
            raise NotBegunError(reason) from None
        raise reason from None
    return True


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


def _rejected(output: str) -> Iterator[Mapping[str, Any]]:
    for match in FileSystems.match([FileSystems.join(rejected_directory(output), "*.avro")])[0].metadata_list:
        yield from read_metrics(read_whole(match.path))
