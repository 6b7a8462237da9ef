"""The runners that transforms are tested on: bounded, stepped stream, portable job service."""

import contextlib
import tempfile
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability import local_job_service


@contextlib.contextmanager
def loopback_pipeline() -> Iterator[beam.Pipeline]:
    """A pipeline on Beam's own job service, which runs this process's code through gRPC (LOOPBACK)."""
    with tempfile.TemporaryDirectory() as staging:
        service = local_job_service.LocalJobServicer(staging)
        port = service.start_grpc_server(0)
        flags = [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{port}",
            "--environment_type=LOOPBACK",
        ]
        try:
            with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
                yield pipeline
        finally:
            service.stop()


@contextlib.contextmanager
def bounded_pipeline() -> Iterator[beam.Pipeline]:
    """A pipeline on the runner of local runs."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        yield pipeline


@contextlib.contextmanager
def streaming_pipeline() -> Iterator[beam.Pipeline]:
    """A pipeline on the runner that understands TestStream."""
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        yield pipeline
