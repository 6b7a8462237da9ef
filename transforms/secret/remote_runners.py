"""Where a job graph goes, and so whether a secret may stand in it."""

from __future__ import annotations

import io
import pickle
from typing import Any
from urllib.parse import urlsplit

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PortableOptions

from kanonflow.transforms.secret.seeds import Secret, SecretError, SecretSource

_IN_THIS_PROCESS = frozenset(
    {"FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner", "PrismRunner"}
)
_EMBEDDED = (None, "", "[auto]", "[local]")
_HERE = ("localhost", "127.0.0.1", "::1")


def is_remote(pipeline: beam.Pipeline) -> bool:
    """Whether the job graph of a pipeline leaves this machine, or is kept by a cluster.

    Local are Beam's runners in this process, a Flink cluster inside the command, and a job server on loopback whose
    workers are this process (LOOPBACK). Everything else is remote, runners that are not known here included: a cluster
    shows the graphs of its jobs, and keeps them with its checkpoints.
    """
    runner = pipeline.runner
    runner = getattr(runner, "_underlying_runner", runner)  # InteractiveRunner's
    name = type(runner).__name__
    portable = pipeline.options.view_as(PortableOptions)
    if name in _IN_THIS_PROCESS:
        return not (portable.job_endpoint is None or _on_loopback(portable.job_endpoint))
    if portable.job_endpoint == "embed":
        return False
    loops_back = portable.environment_type == "LOOPBACK"
    if name == "FlinkRunner":
        master = pipeline.options.view_as(FlinkRunnerOptions).flink_master
        if master not in _EMBEDDED:
            return True
        loops_back = loops_back or portable.environment_type is None  # what Beam then takes
        return not (loops_back and (portable.job_endpoint is None or _on_loopback(portable.job_endpoint)))
    if name == "PortableRunner":
        return not (loops_back and _on_loopback(portable.job_endpoint))
    return True


def refuse_secret_in_graph(pipeline: beam.Pipeline, source: SecretSource) -> None:
    """Raise SecretError if a remote runner's job graph would hold the secret itself, and not where workers find it."""
    if is_remote(pipeline) and _holds_secret(source):
        raise SecretError(
            f"{type(pipeline.runner).__name__}: the job graph would hold the secret itself, and the cluster keeps and"
            " shows graphs. Give KAnonymize a reference that each worker resolves: SecretFile, SecretVariable or"
            " ManagedSecret of kanonflow.pipelines.runs.secret_sources"
        )


def _on_loopback(endpoint: str | None) -> bool:
    return endpoint is not None and urlsplit(f"//{endpoint}").hostname in _HERE


def _holds_secret(source: SecretSource) -> bool:
    """Whether a Secret is anywhere in what would be pickled."""
    found = False

    class Finder(pickle.Pickler):
        def persistent_id(self, part: Any) -> None:
            nonlocal found
            found = found or isinstance(part, Secret)

    if isinstance(source, Secret):
        return True
    try:
        Finder(io.BytesIO()).dump(source)
    except Exception:  # what cannot be pickled here, Beam pickles its own way: its fields are looked at
        return found or any(isinstance(part, Secret) for part in vars(source).values())
    return found
