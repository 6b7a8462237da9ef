"""Asking a Flink cluster about its jobs: Beam's job server starts them there and does not stop them again."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from kanonflow.pipelines.flink.flags import flag_value

TIMEOUT_SECONDS = 10


def cluster_address(flags: Sequence[str]) -> str | None:
    """host:port of the cluster that a run's flags name; None for an embedded one."""
    master = flag_value(flags, "--flink_master")
    if master is None or master.startswith("["):
        return None
    return master.removeprefix("http://").rstrip("/")


def cancel_jobs(address: str, name: str) -> int:
    """Cancel the jobs of that name which still run; how many there were. Raises OSError: no answer."""
    jobs = ask("GET", f"http://{address}/jobs/overview")["jobs"]
    ids = [job["jid"] for job in jobs if job["name"] == name and job["state"] in _ALIVE]
    for job in ids:
        with contextlib.suppress(urllib.error.HTTPError):  # it ended meanwhile
            ask("PATCH", f"http://{address}/jobs/{urllib.parse.quote(job)}?mode=cancel")
    return len(ids)


def is_alive(address: str, name: str) -> bool:
    """Whether a job of that name runs or is about to. Raises OSError: no answer."""
    jobs = ask("GET", f"http://{address}/jobs/overview")["jobs"]
    return any(job["name"] == name and job["state"] in _ALIVE for job in jobs)


def is_running(address: str, name: str) -> bool:
    """Whether a job of that name runs. Raises OSError: no answer."""
    jobs = ask("GET", f"http://{address}/jobs/overview")["jobs"]
    return any(job["name"] == name and job["state"] == "RUNNING" for job in jobs)


def was_stopped(address: str, name: str) -> bool:
    """Whether the latest job of that name was cancelled or stopped with a savepoint. Raises OSError: no answer."""
    jobs = [job for job in ask("GET", f"http://{address}/jobs/overview")["jobs"] if job["name"] == name]
    return bool(jobs) and max(jobs, key=lambda job: job["start-time"])["state"] in ("CANCELED", "FINISHED")


def class_path(address: str) -> frozenset[str]:
    """Names of the files that the cluster's JobManager runs from; empty where it does not say."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        classpath = ask("GET", f"http://{address}/jobmanager/environment")["classpath"]
        return frozenset(str(each).rpartition("/")[2] for each in classpath)
    return frozenset()


_ALIVE = frozenset(
    {"CREATED", "INITIALIZING", "RUNNING", "RESTARTING", "FAILING", "RECONCILING", "SUSPENDED"}
)


def ask(method: str, url: str, timeout: float = TIMEOUT_SECONDS) -> Any:
    """The answer of a cluster, from JSON. timeout: seconds. Raises OSError: no answer, or a refusal."""
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        text = answer.read()
    return json.loads(text) if text else None
