"""The two streams that chaos is brought upon, their endless feeds, and the accounts at their end.

A directory into files (two partitions), and a topic into a topic. Each hour of either feed follows from the seed and
the hour alone, so the same rows can be given to a batch run afterwards. Both end in order, the directory with its own
mark and the topic with ``kanonflow stop``, so that no row still waits and none is gathered for a file to come.
"""

from __future__ import annotations

import collections
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

from deploy.flink.session import SessionCluster
from deploy.kafka.broker import Broker
from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.commands.verify_topics import verify
from kanonflow.pipelines.kafka.release_messages import rows_digest
from kanonflow.pipelines.run_records.run_directory import epoch_of_run
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.rows.element_rows import text_schema
from tests.flink.forked_commands import run_command
from tests.flink.stream_runs import PATIENCE_SECONDS, StreamRun, policy_text, records
from tests.flink.topic_runs import TopicRun, json_value, wait_for_end
from tests.kafka.topics import Topics
from tests.small_feeds import HOUR, START, Row, hourly, row

ROWS_AN_HOUR = 60
PEOPLE = 40
GARBAGE = (b"", None, b"\x00poison", b'{"who": ')


@dataclass
class Ledger:
    """What became of a stream's rows. valid: rows and poisoned rows that were fed, messages that are no rows apart."""

    name: str
    fed: int = 0
    released: int = 0
    rejected: collections.Counter[str] = field(default_factory=collections.Counter)
    twice: int = 0
    lost: int = 0
    from_nowhere: int = 0
    slots_twice: int = 0
    releases: int = 0
    equal_to_batch: int = 0
    audit_passed: bool = False

    def problems(self) -> list[str]:
        """What must not be."""
        wrong = {
            "rows that are there twice": self.twice,
            "rows that are lost": self.lost,
            "rows from nowhere": self.from_nowhere,
            "slots that are there twice": self.slots_twice,
            "releases that differ from the batch run's": self.releases - self.equal_to_batch,
            "rows in conflicts": self.rejected["release_conflict"] + self.rejected["gate_refused"],
            "rows late, though the feed is in order": self.rejected["late"],
            "audits failed": int(not self.audit_passed),
            "releases missing": int(self.releases == 0),
        }
        return [f"{self.name}: {count} {what}" for what, count in wrong.items() if count]

    def render(self) -> str:
        """One line."""
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(self.rejected.items()))
        return (
            f"{self.name}: {self.fed} rows fed, {self.released} released, {self.rejected.total()} rejected"
            f" ({reasons}), {self.twice} twice, {self.lost} lost; {self.equal_to_batch} of {self.releases} releases"
            f" equal to the batch run; audit {'passed' if self.audit_passed else 'FAILED'}"
        )


class Stream:
    """A stream that is fed hour by hour. run: its jobs. poison: rows that no release may hold."""

    def __init__(
        self,
        name: str,
        run: StreamRun,
        seed: int,
        towns: Sequence[str],
        start: Sequence[str],
        parallelism: int = 1,
    ) -> None:
        self.name = name
        self.run = run
        self.rows: list[Row] = []
        self.poison: list[Row] = []
        self.garbage = 0
        self.hours = 0
        self._seed = seed
        self._towns = tuple(towns)
        self._start = tuple(start)
        self._parallelism = parallelism
        self._seen: dict[str, int] = {}
        self._checkpoint: str | None = None
        self._plan: tuple[str, ...] = ()

    def begin(self, *flags: str) -> None:
        """Submit the job and wait until it runs."""
        self.run.start(*self._start, *flags, checkpointing_ms=1_000, parallelism=self._parallelism)

    def feed(self) -> None:
        """The next hour arrives."""
        made = hourly(1, ROWS_AN_HOUR, PEOPLE, seed=self._seed * 100_003 + self.hours, towns=self._towns)
        # Everybody at home: who is in two partitions is in two cohorts.
        rows = [self._moved(each | {"town": self._town(each)}) for each in made]
        self.hours += 1
        self.rows += rows
        self.send(rows)

    def _town(self, made: Row) -> str:
        return self._towns[int(str(made["who"])[1:]) % len(self._towns)]

    def spoil(self) -> None:
        """Rows that are wrong arrive: no time, no amount, nobody. The person of them is at home in its town."""
        now = self.hours - 0.5
        wrong: list[dict[str, str | None]] = [{"when": "yesterday"}, {"amount": "much"}, {"who": ""}]
        rows = [row(900_000 + len(self.poison) + number, 0, now) | bad for number, bad in enumerate(wrong)]
        self.poison += rows
        self.send(rows)

    def send(self, rows: Sequence[Row]) -> None:
        """Rows arrive."""
        raise NotImplementedError

    def reached(self) -> int:
        """The last whole hour of the feed whose window is visible outside."""
        for path in (self.run.output / "restricted" / "metrics").glob("*.avro"):
            if path.name not in self._seen:
                with path.open("rb") as stream:
                    (record,) = fastavro.reader(stream)
                self._seen[path.name] = int(_milliseconds(record["window_end"]))
        return (max(self._seen.values(), default=START) - START) // HOUR

    def checkpoint(self) -> str:
        """The newest retained checkpoint, found in the folder: the JobManager may be gone."""
        mine = self.run.cluster.checkpoints / self.run.job_id()
        complete = sorted(mine.glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
        # A job that was lost before its first checkpoint left none: what it went on from is still the newest.
        self._checkpoint = complete[-1].parent.as_uri() if complete else self._checkpoint
        assert self._checkpoint is not None, "the job was lost before its first checkpoint"
        return self._checkpoint

    def resume(self) -> None:
        """Another job goes on from the last checkpoint."""
        flag = f"--savepoint_path={self.checkpoint()}"
        self.run.kill()
        self.begin("--resume", flag)

    def finish(self) -> None:
        """The feed ends; wait until everything that must be out is out."""
        raise NotImplementedError

    def account(self, folder: Path) -> Ledger:
        """The accounts, against a batch run of the same rows that is made in ``folder``."""
        raise NotImplementedError

    def _moved(self, made: Row) -> Row:
        number = len(self.rows) + int(str(made["reference"])[1:])
        day, hour = divmod(self.hours, 24)
        when = str(made["when"])
        moved = f"2024-03-{1 + day:02d}T{hour:02d}{when[13:]}" if day < 31 else None
        assert moved is not None, "the feed is longer than a month"
        return made | {"when": moved, "reference": f"r{number}", "event": f"e{number}"}

    def _ledger(self) -> Ledger:
        fed = {str(each["reference"]) for each in (*self.rows, *self.poison)}
        rejected = self.run.rejected()
        released = self.run.released()
        out = collections.Counter([*released, *(reference for reference, _ in rejected if reference)])
        nameless = sum(not reference for reference, _ in rejected)
        told = records(self.run.output / "restricted" / "metrics")
        slots = [(record["partition"], record["window_end"], record["release_no"]) for record in told]
        return Ledger(
            self.name,
            fed=len(fed) + self.garbage,
            released=sum(reference in fed for reference in released),
            rejected=collections.Counter(reason for _, reason in rejected),
            twice=sum(count - 1 for count in out.values()) + max(0, nameless - self.garbage),
            lost=len(fed - set(out)) + max(0, self.garbage - nameless),
            from_nowhere=len(set(out) - fed),
            slots_twice=len(slots) - len(set(slots)),
        )

    def _batch(self, folder: Path) -> Path:
        """Release the same rows as files at once; the output."""
        rows = [*self.rows, *self.poison]
        folder.mkdir(parents=True)
        write_rows(folder / "feed.csv", rows)
        command = [
            "anonymize",
            "--quiet",
            "--policy",
            str(self.run.policy),
            "--input",
            str(folder / "feed.csv"),
        ]
        command += ["--output", str(folder / "out"), "--secret-file", str(self.run.secret), *self._plan]
        run_command(command, folder / "batch.log")
        return folder / "out"


class DirectoryStream(Stream):
    """Files arrive, files come out; two partitions, solved by two workers. Where cohorts last, half of the people are
    known from the start, and a plan cuts each partition into two shards; the others wait for theirs in the route."""

    def __init__(self, cluster: SessionCluster, folder: Path, seed: int, cohort: str) -> None:
        lasts = cohort == "lasting"
        head: dict[str, Any] = {"partition_by": ["town"], "cohort": cohort}
        run = StreamRun(
            cluster, folder, policy_text=policy_text(**head | ({"people": "people.csv"} if lasts else {}))
        )
        super().__init__("directory", run, seed, ("Bonn", "Kiel"), (), parallelism=2)
        if lasts:
            self._plan = self._start = ("--plan", str(self._planned()))

    def _planned(self) -> Path:
        """People and plan, as files."""
        folder = self.run.folder
        known = [row(0, who, 0) for who in range(0, PEOPLE, 2)] + [
            row(0, who, 0) for who in range(1, PEOPLE, 4)
        ]
        write_rows(folder / "people.csv", [each | {"town": self._town(each)} for each in known])
        write_rows(folder / "sample.csv", known[:1])
        given = ["plan", "--policy", str(self.run.policy), "--input", str(folder / "sample.csv")]
        given += ["--shards", "2", "--accept-small", "--output", str(folder / "plan.json")]
        run_command(given, folder / "plan.log")
        return folder / "plan.json"

    def send(self, rows: Sequence[Row]) -> None:
        self.run.put(rows)

    def finish(self) -> None:
        self.run.end()

    def account(self, folder: Path) -> Ledger:
        ledger = self._ledger()
        batch = self._batch(folder)
        there, mine = (_rows_of(output / "release") for output in (batch, self.run.output))
        ledger.releases = len(mine.keys() | there.keys())
        ledger.equal_to_batch = sum(mine.get(name) == there[name] for name in there)
        ledger.audit_passed = audit(self.run.policy, [str(self.run.feed / "*.csv")], self.run.output).passed
        return ledger


class TopicStream(Stream):
    """Messages arrive in two partitions, messages come out. Rows that arrive while the broker is away wait for it."""

    def __init__(
        self, cluster: SessionCluster, folder: Path, seed: int, cohort: str, broker: Broker, topics: Topics
    ) -> None:
        self._broker = broker
        # A partition of a frozen reader must not count as silent: the other one's rows would make its own late.
        run = TopicRun(
            cluster,
            folder,
            topics,
            policy=policy_text(cohort=cohort),
            reading="format=json&idle=1h",
            writing="format=json",
            value=json_value,
            partitions=2,
        )
        start = ("--output", run.target, "--restricted", str(run.output))
        super().__init__("topic", run, seed + 1, ("Bonn",), start)
        self._topics = run
        self._backlog: list[Row] = []

    def send(self, rows: Sequence[Row]) -> None:
        self._backlog += rows
        if self._broker.pid is not None:
            self._topics.send(self._backlog[::2], 0)
            self._topics.send(self._backlog[1::2], 1)
            self._backlog = []

    def spoil(self) -> None:
        super().spoil()
        self._topics.topics.write(self._topics.rows_topic, GARBAGE, self.hours % 2)
        self.garbage += len(GARBAGE)

    def finish(self) -> None:
        run_command(["stop", str(self.run.output), "--quiet"], self.run.folder / "stop.log", PATIENCE_SECONDS)
        wait_for_end(self.run)

    def account(self, folder: Path) -> Ledger:
        ledger = self._ledger()
        batch = self._batch(folder)
        there = {path.stem for path in (batch / "release").glob("*.avro")}
        markers = self.run.releases()
        ledger.releases = len(markers.keys() | there)
        ledger.equal_to_batch = sum(
            markers.get(name) == self._digest(batch / "release" / f"{name}.avro") for name in there
        )
        source, target = self.run.source, self._topics.target
        ledger.audit_passed = verify(self.run.policy, [source], self.run.output, target).passed
        return ledger

    def _digest(self, file: Path) -> bytes:
        """What the marker of a release with these rows says."""
        policy = read_policy(self.run.policy)
        bound = bind(policy, text_schema(policy), text=True, source="test")
        schema = release_avro_schema(bound, epoch_of_run(str(self.run.output)) or 0)
        parsed = fastavro.parse_schema(schema)
        plain = []
        with file.open("rb") as stream:
            for record in fastavro.reader(stream):
                out = io.BytesIO()
                fastavro.schemaless_writer(out, parsed, record)
                plain.append(out.getvalue())
        return rows_digest(plain, schema).encode()


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """As CSV."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _rows_of(folder: Path) -> dict[str, list[Any]]:
    """The rows of each release, by its name: with cohorts that last the header tells an epoch, which is a run's."""
    found = {}
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as stream:
            found[path.name] = list(fastavro.reader(stream))
    return found


def _milliseconds(when: Any) -> int:
    return int(when.timestamp() * 1000) if hasattr(when, "timestamp") else int(when)
