"""The pool of Python workers: who can ask it for one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import apache_beam as beam
import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

from kanonflow.pipelines.runs.worker_pool import WorkerPool, workers_in_this_process
from tests.listening import listeners

pytestmark = pytest.mark.thorough


def test_beams_own_pool_listens_on_every_interface() -> None:
    """The attack that the pool here is the answer to, and proof that ``listeners`` sees it."""
    address, server = BeamFnExternalWorkerPoolServicer.start(use_process=True)
    found = [each for each in listeners([os.getpid()]) if each.port == int(address.rpartition(":")[2])]
    server.stop(0).wait()
    assert found
    assert all(each.beyond_loopback for each in found)


def test_a_pool_listens_on_loopback_only_and_alone() -> None:
    """No second process gets requests of the same port."""
    pool = WorkerPool(processes=False)
    try:
        port = int(pool.address.rpartition(":")[2])
        found = [each for each in listeners([os.getpid()]) if each.port == port]
        assert [each.beyond_loopback for each in found] == [False]
        with pytest.raises(RuntimeError):
            WorkerPool(port)
    finally:
        pool.stop()


def test_a_pool_starts_workers_and_ends_them(tmp_path: Path) -> None:
    """As a process: what was started for a request goes with the pool."""
    worker = tmp_path / "worker"
    worker.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid\nexec sleep 60\n"
    )
    worker.chmod(0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "kanonflow.pipelines.runs.worker_pool", f"--service_port={port}"]
    command.append(f"--container_executable={worker}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pool:
        assert pool.stdout is not None
        assert f"127.0.0.1:{port}" in pool.stdout.readline()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
            answer = stub.StartWorker(beam_fn_api_pb2.StartWorkerRequest(worker_id="1"), timeout=30)
        assert not answer.error
        while not (tmp_path / "pid").exists():
            assert pool.poll() is None
        pool.send_signal(signal.SIGTERM)
        assert pool.wait(30) == 0
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_who_stops_a_worker_stops_its_own(tmp_path: Path) -> None:
    """Two TaskManagers count their workers alike: the one that stops its fifth must not end the other one's, which a
    job would wait for without end. Who asks over another connection than before ends none that may not be its own."""
    worker = tmp_path / "worker"
    worker.write_text(
        f"#!/bin/sh\nname=${{5#--control_endpoint=}}\necho $$ > {tmp_path}/new-$name\n"
        f"mv {tmp_path}/new-$name {tmp_path}/$name\nexec sleep 60\n"
    )
    worker.chmod(0o700)
    pool = WorkerPool(container_executable=str(worker))
    try:
        with ExitStack() as stack:
            connections = [
                stack.enter_context(
                    grpc.insecure_channel(pool.address, [("grpc.use_local_subchannel_pool", 1)])
                )
                for _ in range(3)
            ]
            stubs = [beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(each) for each in connections]
            for stub, name in zip(stubs, ("first", "second"), strict=False):
                request = beam_fn_api_pb2.StartWorkerRequest(worker_id="5-1")
                request.control_endpoint.url = name
                assert not stub.StartWorker(request, timeout=30).error
            first, second = (pid_in(tmp_path / name) for name in ("first", "second"))
            stop = beam_fn_api_pb2.StopWorkerRequest(worker_id="5-1")
            assert not stubs[2].StopWorker(stop, timeout=30).error
            assert (lives(first), lives(second)) == (True, True)
            assert not stubs[0].StopWorker(stop, timeout=30).error
            assert (lives(first), lives(second)) == (False, True)
            assert not stubs[1].StopWorker(stop, timeout=30).error
            assert not lives(second)
    finally:
        pool.stop()


def test_a_worker_that_nobody_else_can_mean_is_stopped_over_any_connection(tmp_path: Path) -> None:
    """A runner that has been idle for long asks over a new one."""
    worker = tmp_path / "worker"
    worker.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nexec sleep 60\n"
    )
    worker.chmod(0o700)
    pool = WorkerPool(container_executable=str(worker))
    own = [("grpc.use_local_subchannel_pool", 1)]
    try:
        with (
            grpc.insecure_channel(pool.address, own) as one,
            grpc.insecure_channel(pool.address, own) as other,
        ):
            start = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
            assert (
                not beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(one)
                .StartWorker(start, timeout=30)
                .error
            )
            pid = pid_in(tmp_path / "pid")
            stop = beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1")
            assert (
                not beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(other)
                .StopWorker(stop, timeout=30)
                .error
            )
            assert not lives(pid)
    finally:
        pool.stop()


def test_a_worker_is_forked_from_what_has_imported_everything_and_stopped() -> None:
    """It calls back to whoever asked for it; it never was a program of its own; a second one comes from there too."""
    with ExitStack() as stack:
        runner = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        runner.settimeout(120)
        pool = WorkerPool()
        stack.callback(pool.stop)
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(
            stack.enter_context(grpc.insecure_channel(pool.address))
        )
        for name in ("1-1", "2-1"):
            request = beam_fn_api_pb2.StartWorkerRequest(worker_id=name)
            request.control_endpoint.url = f"127.0.0.1:{runner.getsockname()[1]}"
            assert not stub.StartWorker(request, timeout=120).error
            stack.enter_context(runner.accept()[0])
        pids = [each.process.pid for each in pool._servicer._started]  # type: ignore[attr-defined]
        parents = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in pids}
        (server,) = parents
        assert "multiprocessing.forkserver" in Path(f"/proc/{server}/cmdline").read_text()
        assert int(server) != os.getpid()
        stop = beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1")
        assert not stub.StopWorker(stop, timeout=60).error
        assert [lives(pid) for pid in pids] == [False, True]
    assert not any(lives(pid) for pid in pids)


def test_what_workers_are_forked_from_has_no_thread_of_python() -> None:
    """One would be missing in each of them."""
    look = "import importlib, sys, threading; from kanonflow.pipelines.runs.forked_worker import IMPORTED\n"
    look += "for name in IMPORTED: importlib.import_module(name)\n"
    look += "sys.exit(threading.active_count() != 1)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


def pid_in(path: Path) -> int:
    """What a worker wrote down when it began."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "the worker did not begin"
        time.sleep(0.02)
    return int(path.read_text())


def lives(pid: int) -> bool:
    """Whether a process is there and not only to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_is_the_worker_itself_listens_on_loopback() -> None:
    """LOOPBACK, said or by default, becomes an address of our own; what runs elsewhere is left alone."""
    for flags in (
        ["--runner=FlinkRunner", "--flink_master=[local]"],
        ["--runner=PortableRunner", "--environment_type=LOOPBACK"],
    ):
        options = PipelineOptions(flags)
        with workers_in_this_process(options):
            portable = options.view_as(PortableOptions)
            assert portable.environment_type == "EXTERNAL"
            port = int(str(portable.environment_config).removeprefix("127.0.0.1:"))
            (found,) = (each for each in listeners([os.getpid()]) if each.port == port)
            assert not found.beyond_loopback
    for flags in (["--runner=FlinkRunner", "--flink_master=there:8081"], ["--runner=FnApiRunner"]):
        options = PipelineOptions(flags)
        with workers_in_this_process(options):
            assert options.view_as(PortableOptions).environment_type is None


def test_options_of_a_pipeline_are_those_that_are_changed() -> None:
    """What ``beam.Pipeline`` is given and what it runs with is one object's content."""
    with workers_in_this_process(options := PipelineOptions(["--environment_type=LOOPBACK"])):
        pipeline = beam.Pipeline(runner="FnApiRunner", options=options)
        assert pipeline.options.view_as(PortableOptions).environment_type == "EXTERNAL"
