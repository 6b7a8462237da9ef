"""A Python worker that is forked from a process which has imported Beam and this package already.

Importing them takes four to five seconds of processor time, connecting and loading kernels less than one. A stream
starts workers anew whenever a machine is lost, so that is most of what it waits for then.

What is imported here starts no thread of its own that a fork would miss and no connection; ``tests`` hold that.
"""

from __future__ import annotations

IMPORTED = (
    "apache_beam.runners.worker.sdk_worker",
    "kanonflow.pipelines.runs.forked_worker",
    # All that steps of a job are unpickled from.
    "kanonflow.pipelines.runs.stream",
    "kanonflow.pipelines.kafka.sink",
    "kanonflow.pipelines.kafka.source",
)


def run_worker(control: str, worker_id: str) -> None:
    """Be the worker of a runner until it hangs up.     control: where it listens, host:port."""
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    # As Beam's pool starts its processes: without a cache of state, and nothing is held back.
    SdkHarness(control, worker_id=worker_id, state_cache_size=0, data_buffer_time_limit_ms=0).run()
