"""Starting Beam's Python workers for a runner that asks for them, where nobody but this machine can ask.

    python -m kanonflow.pipelines.runs.worker_pool --service_port=50000 [--container_executable=/opt/apache/beam/boot]

Beam's own pool listens on every interface, and starts a worker for whoever asks: one that runs the code it is sent,
beside the secret. Here it listens on loopback: a TaskManager's pool stands on its machine, or in its pod. Other users
of the same machine can still ask it.

A worker needs Beam and this package, and to import both takes longer than anything else that it does before its first
row. So one process of the pool imports them once, and each worker is forked from it (``forked_worker.py``), unless an
executable is named that starts workers.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing
import multiprocessing.forkserver
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import Any, NamedTuple, Protocol

import grpc  # type: ignore[import-untyped]
from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES
from apache_beam.runners.worker import sdk_worker_main
from apache_beam.runners.worker.worker_pool_main import (
    BeamFnExternalWorkerPoolServicer,
    kill_process_gracefully,
)

from kanonflow.pipelines.options.beam_version import need_tested_beam
from kanonflow.pipelines.runs.beam_costs import light_state_sizes
from kanonflow.pipelines.runs.forked_worker import IMPORTED, run_worker

LOOPBACK = "127.0.0.1"
_REQUESTS = 16
"""Requests for workers that are answered at once."""


class _Process(Protocol):
    """A worker that is a process: one that was executed, or one that was forked."""

    pid: int

    def poll(self) -> int | None:
        """The exit code; None: it runs."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code, once there is one. Raises subprocess.TimeoutExpired."""


class _Forked:
    """A forked worker as ``subprocess`` would have it."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid
        self.terminate, self.kill = process.terminate, process.kill

    def poll(self) -> int | None:
        """As of ``_Process``."""
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout: float | None = None) -> int | None:
        """As of ``_Process``."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
        return self.poll()


class _Started(NamedTuple):
    """A worker that is a process. asker: the connection that asked for it."""

    asker: str
    worker_id: str
    process: _Process


class _WorkersOfEach(BeamFnExternalWorkerPoolServicer):
    """Beam's servicer, for several TaskManagers at once.

    Each counts its workers from one, so an id does not say whose worker is meant, and Beam's takes the last that was
    started under it: a TaskManager that ended its fifth worker ended another one's fifth, and a job whose worker ends
    before it has reported to Flink waits for it without end. Here a worker is known by the connection that asked for it
    too. A connection that is new, as after a long silence, ends a worker only if one alone was ever started under its
    id. One that is left so ends by itself, for its runner has hung up before it asks.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._forks = _forks() if self._use_process and not self._container_executable else None
        self._lock = threading.Lock()
        self._started: list[_Started] = []
        self._times: collections.Counter[str] = collections.Counter()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Start one, and note for whom."""
        with self._lock:
            answer = super().StartWorker(request, context) if self._forks is None else self._fork(request)
            process = self._worker_processes.pop(request.worker_id, None)
            if process is not None:
                self._started = [each for each in self._started if each.process.poll() is None]
                self._started.append(_Started(context.peer(), request.worker_id, process))
                self._times[request.worker_id] += 1
        return answer

    def _fork(self, request: Any) -> Any:
        """As Beam's, but from the process that has imported everything."""
        try:
            assert self._forks is not None
            # A daemon: what the pool has started ends with it.
            process = self._forks.Process(
                target=run_worker, args=(request.control_endpoint.url, request.worker_id), daemon=True
            )
            process.start()
        except Exception:  # whoever asks for workers must be told, whatever it was
            return beam_fn_api_pb2.StartWorkerResponse(error=traceback.format_exc())
        self._worker_processes[request.worker_id] = _Forked(process)
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        """End that of whoever asks."""
        with self._lock:
            alike = [each for each in self._started if each.worker_id == request.worker_id]
            meant = [each for each in alike if each.asker == context.peer()]
            if not meant and self._times[request.worker_id] == 1:
                meant = alike
            self._started = [each for each in self._started if each not in meant]
        for each in meant:
            kill_process_gracefully(each.process)
        return super().StopWorker(request, context)

    def processes(self) -> list[_Process]:
        """Those that were started and not ended."""
        with self._lock:
            return [each.process for each in self._started]


def _forks() -> Any:
    """What forks from one process that has imported all that workers need. It begins to now, and not when it is asked.

    A server of forks and not a fork of the pool: gRPC's threads run here.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    multiprocessing.forkserver.ensure_running()
    return context


class WorkerPool:
    """A pool of workers that listens on loopback from the beginning to ``stop``.

    port: 0 takes a free one. processes: each worker is a process of its own; else a thread of this one.
    container_executable: what starts a worker in Beam's images. state_cache_bytes, data_buffer_ms: of workers that are
    threads.
    Raises RuntimeError: the port is taken.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        processes: bool = True,
        container_executable: str | None = None,
        state_cache_bytes: int = 0,
        data_buffer_ms: int = -1,
    ) -> None:
        self._servicer = _WorkersOfEach(
            use_process=processes,
            container_executable=container_executable,
            state_cache_size=state_cache_bytes,
            data_buffer_time_limit_ms=data_buffer_ms,
        )
        # The port is this process's alone: no second one may share its requests.
        options = [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)]
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_REQUESTS), options=[*options, ("grpc.so_reuseport", 0)]
        )
        self.address = f"{LOOPBACK}:{self._server.add_insecure_port(f'{LOOPBACK}:{port}')}"
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(self._servicer, self._server)
        self._server.start()

    def wait(self) -> None:
        """Wait until the pool is stopped."""
        self._server.wait_for_termination()

    def stop(self) -> None:
        """Answer nobody any more, and end the workers that are processes."""
        self._server.stop(1).wait()
        for process in self._servicer.processes():
            kill_process_gracefully(process)


@contextlib.contextmanager
def workers_in_this_process(options: PipelineOptions) -> Iterator[None]:
    """Where options say that this process is the worker (LOOPBACK), be one on loopback alone; else nothing.

    The options then name its address, so that Beam starts none of its own, which listens on every interface. State that
    this process caches, also for a runner of its own, is weighed at little cost (``beam_costs``).
    """
    with light_state_sizes():
        portable = options.view_as(PortableOptions)
        master = options.view_as(FlinkRunnerOptions).flink_master
        by_default = portable.environment_type is None and str(options.get_all_options()["runner"]).endswith(
            "FlinkRunner"
        )
        if portable.environment_type != "LOOPBACK" and not (by_default and master in MAGIC_HOST_NAMES):
            yield
            return
        pool = WorkerPool(
            processes=False,
            state_cache_bytes=sdk_worker_main._get_state_cache_size_bytes(options=options),
            data_buffer_ms=sdk_worker_main._get_data_buffer_time_limit_ms(
                options.view_as(DebugOptions).experiments or []
            ),
        )
        portable.environment_type, portable.environment_config = "EXTERNAL", pool.address
        try:
            yield
        finally:
            pool.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a pool until it is told to end (SIGTERM, Ctrl-C)."""
    parser = argparse.ArgumentParser(
        prog="python -m kanonflow.pipelines.runs.worker_pool", description=__doc__
    )
    parser.add_argument("--service_port", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument("--container_executable", help="what starts a worker in Beam's images")
    options = parser.parse_args(arguments)
    need_tested_beam("this pool of workers")
    pool = WorkerPool(options.service_port, container_executable=options.container_executable)
    print(f"workers are started for those who ask at {pool.address}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        pool.wait()
    except KeyboardInterrupt:
        pass
    finally:
        pool.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
