"""What the terminal tells of a stream while it runs: a line on every change, and one now and then.

Asked is Flink's REST interface (state, failures, watermark, rows, last checkpoint); what was released is read from the
metrics files. Of a failure only class names and our own messages are shown (failures.py).
"""

from __future__ import annotations

import contextlib
import time
import urllib.error
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TextIO

from kanonflow.pipelines.flink.failures import cause_of
from kanonflow.pipelines.flink.jobs import ask
from kanonflow.pipelines.terminal.progress import MetricsFollower
from kanonflow.pipelines.terminal.terminal import tell

LOOK_SECONDS = 4.0
"""How often the cluster is asked."""

QUIET_SECONDS = 60.0
"""A line comes at least this often."""

GONE_SECONDS = 20.0
"""A JobManager that has not answered for so long is gone."""

_ANSWER_SECONDS = 5.0


class JobManagerGoneError(Exception):
    """The cluster does not answer any more; the message says how to go on."""

    exit_code = 3


class LeftRunning(KeyboardInterrupt):
    """Somebody interrupted the command; the job goes on. The text says where, and how to stop it."""

    exit_code = 130


@dataclass(frozen=True)
class JobLook:
    """A job at one moment. failures: (time in ms, why), oldest first. watermark_ms: None before the first.
    rows_read: since the job began or was restarted last. checkpoint: the last complete one."""

    state: str
    failures: tuple[tuple[int, str], ...] = ()
    watermark_ms: int | None = None
    rows_read: int | None = None
    checkpoint: str | None = None


@dataclass
class JobWatch:
    """Looks at a job now and then, and tells.

    address: host:port of the JobManager; None: there is none to ask (an embedded cluster, Dataflow).
    folder: of the metrics files; None: they are not on this machine.
    elsewhere: the job runs on a service of its own that is not asked (Dataflow).
    clock: seconds, that never go back.    now: seconds since 1970.
    """

    name: str
    address: str | None
    folder: Path | None
    terminal: TextIO
    quiet: bool = False
    elsewhere: bool = False
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    job: str | None = None
    seen: JobLook = JobLook("SUBMITTED")
    _told: str = ""
    _told_at: float = 0.0
    _looked_at: float = float("-inf")
    _heard_at: float | None = None
    _failed_at: int = 0
    _releases: int = 0
    _rows: int = 0
    _last: str = ""
    _follower: MetricsFollower | None = None
    _rows_metric: tuple[str, str] | None = None
    _solve: str | None = None
    _before: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.folder is not None:
            self._follower = MetricsFollower(self.folder)
            self._follower.poll()  # of a resumed stream, only what is new counts
        self._told_at = self.clock()
        with contextlib.suppress(OSError, KeyError, TypeError):
            if self.address is not None:  # a job of this name that ended is not this one
                jobs = ask("GET", f"http://{self.address}/jobs/overview", _ANSWER_SECONDS)["jobs"]
                self._before = frozenset(job["jid"] for job in jobs)

    def look(self) -> None:
        """Ask and tell, if it is time. Raises JobManagerGoneError."""
        if self.clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self.clock()
        if self.address is not None:
            self._ask(self.address)
        self._follow()
        if self.address is not None or self._follower is not None:
            self._tell()

    def refuse_if_gone(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait for an answer for as long as one may take. Raises JobManagerGoneError: none came."""
        while self.address is not None:
            try:
                ask("GET", f"http://{self.address}/jobs/overview", _ANSWER_SECONDS)
                return
            except OSError:
                if self._silent() >= GONE_SECONDS:
                    self._gone()
                sleep(LOOK_SECONDS)

    def left(self) -> LeftRunning:
        """What to raise when the command is interrupted."""
        if self.elsewhere:
            return LeftRunning(
                f"interrupted; the job {self.name} goes on in its service; drain or cancel it there"
            )
        if self.address is None:
            return LeftRunning("interrupted; the cluster was part of this command and ended with it")
        with contextlib.suppress(OSError, KeyError, TypeError):
            self._find(self.address)
        if self.job is None:
            return LeftRunning(
                f"interrupted; the job {self.name} may be on its way to http://{self.address}, look there"
            )
        where = f"http://{self.address}/#/job/{self.job}"
        return LeftRunning(
            f"interrupted; the job {self.name} goes on at {where}; stop it with"
            f" kanonflow stop and its --output, which ends the feed, or with flink stop --savepointPath DIR {self.job}"
            " and go on with --resume --savepoint_path=..."
        )

    def failure_text(self) -> str:
        """What Flink says of the failures of this job, to be searched and not to be shown; empty without an answer."""
        with contextlib.suppress(OSError, KeyError, TypeError):
            if self.address is not None:
                self._find(self.address)
                exceptions = ask(
                    "GET",
                    f"http://{self.address}/jobs/{self.job}/exceptions?maxExceptions=5",
                    _ANSWER_SECONDS,
                )
                return str(exceptions)
        return ""

    def _ask(self, address: str) -> None:
        try:
            self._find(address)
            if self.job is not None:
                self.seen = self._look_at_job(address, self.job)
        except (urllib.error.HTTPError, KeyError, TypeError, ValueError):
            pass  # an answer, if none that tells anything: the job or the cluster is changing its state
        except OSError:
            if self._silent() >= GONE_SECONDS:
                self._gone()
            return
        self._heard_at = self.clock()

    def _silent(self) -> float:
        """Seconds without an answer."""
        if self._heard_at is None:
            self._heard_at = self.clock()
        return self.clock() - self._heard_at

    def _gone(self) -> NoReturn:
        checkpoint = self.seen.checkpoint or "the last one that the cluster retained (chk-N)"
        raise JobManagerGoneError(
            f"the JobManager at {self.address} has not answered for {self._silent():.0f} s, and unless another one"
            f" takes over, the job {self.name} is lost with it. Start the cluster again, look whether the job is there,"
            f" else go on with --resume --savepoint_path={checkpoint}"
        )

    def _find(self, address: str) -> None:
        if self.job is None:
            jobs = ask("GET", f"http://{address}/jobs/overview", _ANSWER_SECONDS)["jobs"]
            new = [job for job in jobs if job["name"] == self.name and job["jid"] not in self._before]
            if new:
                self.job = max(new, key=lambda job: job["start-time"])["jid"]

    def _look_at_job(self, address: str, job: str) -> JobLook:
        """What the JobManager says; where it does not answer one question, what it said of that before."""
        base = f"http://{address}/jobs/{urllib.parse.quote(job)}"
        answer = ask("GET", base, _ANSWER_SECONDS)
        # At once, and before what takes longer: it is what is needed when the JobManager does not come back.
        self.seen = replace(self.seen, state=answer["state"])
        checkpoints = ask("GET", f"{base}/checkpoints", _ANSWER_SECONDS)
        last = (checkpoints.get("latest") or {}).get("completed") or {}
        self.seen = replace(self.seen, checkpoint=last.get("external_path") or self.seen.checkpoint)
        if self.quiet:  # the rest costs a JobManager more than it is worth to nobody
            return self.seen
        history = ask("GET", f"{base}/exceptions?maxExceptions=20", _ANSWER_SECONDS).get(
            "exceptionHistory", {}
        )
        failures = sorted((entry["timestamp"], cause_of(entry)) for entry in history.get("entries", ()))
        self.seen = replace(self.seen, failures=tuple(failures))
        return replace(
            self.seen,
            watermark_ms=self._watermark(base, answer["vertices"]),
            rows_read=self._rows_read(base, answer["vertices"]),
        )

    def _watermark(self, base: str, vertices: list[Mapping[str, Any]]) -> int | None:
        if self._solve is None:
            self._solve = next((vertex["id"] for vertex in vertices if "Solve" in vertex["name"]), None)
        if self._solve is None:
            return None
        values = ask("GET", f"{base}/vertices/{self._solve}/watermarks", _ANSWER_SECONDS)
        least = min((int(value["value"]) for value in values), default=-(1 << 63))
        return None if least <= -(1 << 53) or least >= (1 << 53) else least

    def _rows_read(self, base: str, vertices: list[Mapping[str, Any]]) -> int | None:
        if self._rows_metric is None:
            for vertex in vertices:
                names = ask("GET", f"{base}/vertices/{vertex['id']}/subtasks/metrics", _ANSWER_SECONDS)
                for name in names:
                    if name["id"].endswith(".kanonflow_rows_read"):
                        self._rows_metric = vertex["id"], name["id"]
        if self._rows_metric is None:
            return None
        place, metric = self._rows_metric
        query = urllib.parse.urlencode({"get": metric})
        (value,) = ask("GET", f"{base}/vertices/{place}/subtasks/metrics?{query}", _ANSWER_SECONDS) or [{}]
        return int(float(value["sum"])) if "sum" in value else None

    def _follow(self) -> None:
        if self._follower is None:
            return
        for record in self._follower.poll():
            if record["released"]:
                self._releases += record["released"]
                self._rows += record["rows_released"]
                self._last = f", the last of the window to {_instant(record['window_end'])}"

    def _tell(self) -> None:
        for when, why in self.seen.failures:
            if when > self._failed_at:
                self._print(f"the job failed at {_instant(when)}: {why}")
                self._failed_at = when
        changing = f"{self.seen.state} {self._releases}"
        if changing == self._told and self.clock() - self._told_at < QUIET_SECONDS:
            return
        self._told, self._told_at = changing, self.clock()
        parts = [self.seen.state.lower() if self.address is not None else "running"]
        if self.seen.rows_read is not None:
            parts.append(f"{self.seen.rows_read:,} rows read since it started")
        if self.seen.watermark_ms is not None:
            parts.append(f"watermark {_instant(self.seen.watermark_ms)}")
        if self._follower is not None:
            parts.append(f"{self._releases:,} releases with {self._rows:,} rows{self._last}")
        self._print(", ".join(parts))

    def _print(self, line: str) -> None:
        if not self.quiet:
            clock = datetime.fromtimestamp(self.now(), UTC).strftime("%H:%M:%S")
            tell(f"{clock} {line}", self.terminal)
            self.terminal.flush()


def _instant(told: Any) -> str:
    """An instant in ms since 1970, or as Avro gives it, to the second; a window without an end has none."""
    if told is None:
        return "the end"
    if isinstance(told, int):
        try:
            told = datetime.fromtimestamp(told / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return f"{told} ms"
    return str(told.strftime("%Y-%m-%d %H:%M:%S UTC"))
