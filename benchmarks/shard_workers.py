"""One partition on a Flink cluster: what share of its workers' work falls on the busiest of them, by shards?

Jobs: ``kanonflow stream`` as in benchmarks/stream.py, over the demo generator's feed as one partition (policy
``transactions``, k = 5, windows of a day, ``cohort: lasting``): TaskManagers of two slots each, a Python worker for
each of them, parallelism twice their number. All customers are known from the start (``people:``), and ``kanonflow
plan`` cuts them into the shards of a run; with one there is no plan. A cluster of its own for each run.

The feed is files, or a topic of 8 partitions on a broker here, which all rows stand in before the job begins, one after
the other over the partitions: ``kafka4`` is read by 4 readers side by side, ``kafka1`` by one (``readers=``).

CPU: seconds of all threads of the Python workers, from /proc, from the moment that the first row was read; what they
take to start is not in it. Of files one of the workers also reads the whole feed, and what it reads is checked and
split there; Avro takes several times what Parquet does. Expected: the share of the people that the busiest worker has
by the keys of their shards (transforms/shards/key_groups.py), if a TaskManager has the parallel instances that Flink
says. Ratios: the CPU of the busiest worker against that of all of them; of w workers it is 1 / w where nothing is
uneven. Accounts are exact when each row of the feed is released or rejected once.

Target: at most 55% at 2 TaskManagers and 30% at 4.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import yaml

from benchmarks.data_sets import DAY_MS
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stream_feed import OWN, PARTITION, StreamFeed, write_stream_feed, write_stream_policy
from benchmarks.stream_run import (
    Killer,
    Outcome,
    Saver,
    StreamFailedError,
    follow,
    kind_of,
    outcome,
    stream_command,
)
from deploy.flink.job_server_jar import MissingToolError
from deploy.flink.session import SessionCluster
from deploy.kafka.broker import Broker, BrokerError
from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from kanonflow.pipelines.commands.plan import plan_shards
from kanonflow.schemas.avro_schema import transaction_schema
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import load_policy
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.shards.key_groups import key_group, worker_of

SLOTS = 2
WORKER = "python-worker"
KAFKA = "kafka"
FILE_MS = DAY_MS // 4
CASES = ("2x1xavro", "2x16xavro", "4x16xavro", "2x16xparquet", "4x16xparquet")


TOPIC, PARTITIONS = "rows", 8


class Case(NamedTuple):
    """A run: on so many TaskManagers, of so many shards, over files of that form or a topic of so many readers."""

    task_managers: int
    shards: int
    form: str

    @property
    def parallelism(self) -> int:
        """Of the job: all slots."""
        return self.task_managers * SLOTS


class Finished(NamedTuple):
    """What came of a run. managers: of each parallel instance of the solving step the TaskManager, by a number."""

    run: Outcome
    managers: Sequence[int]
    keys: Sequence[bytes]
    people: Sequence[int]


def write_policy(folder: Path) -> Path:
    """The example policy in one partition, with people who are known from the start."""
    path = write_stream_policy(OWN, folder / "policy.yaml")
    plain = yaml.safe_load(path.read_text())
    del plain["partition_by"]
    plain["fields"][PARTITION] = {"role": "identifier"}
    plain["people"] = "people.parquet"
    path.write_text(yaml.safe_dump(plain, sort_keys=False))
    return path


def write_people(table: pa.Table, policy: Policy, path: Path) -> None:
    """All customers of a feed whose home is somewhere, once each, as their first row has them."""
    located = table.filter(pc.greater(table.column("home_latitude"), 0))
    person = policy.cohorts.individual.name
    people = located.column(person).combine_chunks()
    first = pc.index_in(people.unique(), people)
    columns = [person, *(field.name for field in policy.quasis)]
    pyarrow.parquet.write_table(located.select(columns).take(first), path)


def as_parquet(feed: StreamFeed, table: pa.Table) -> StreamFeed:
    """The same files as Parquet, in their place; table: all of their rows."""
    files = []
    for file, before in zip(feed.files, [0, *(file.rows for file in feed.files)], strict=False):
        path = (feed.folder / file.name).with_suffix(".parquet")
        pyarrow.parquet.write_table(table.slice(before, file.rows - before), path)
        (feed.folder / file.name).unlink()
        files.append(file._replace(name=path.name))
    return replace(feed, files=tuple(files))


def topic_of(table: pa.Table, folder: Path, broker: Broker, readers: str) -> str:
    """A topic of a table's rows, which must be empty: its address as a source that ends."""
    import confluent_kafka.admin

    (folder / "row.avsc").write_text(json.dumps(transaction_schema()))
    schema = fastavro.parse_schema(transaction_schema())
    servers = {"bootstrap.servers": broker.bootstrap, "log_level": 2}
    made = confluent_kafka.admin.NewTopic(TOPIC, PARTITIONS, replication_factor=1)
    admin = confluent_kafka.admin.AdminClient(servers)
    admin.create_topics([made])[TOPIC].result()
    producer = confluent_kafka.Producer(servers | {"linger.ms": 50, "enable.idempotence": True})
    for number, row in enumerate(row for batch in table.to_batches(10_000) for row in batch.to_pylist()):
        value = io.BytesIO()
        fastavro.schemaless_writer(value, schema, row)
        producer.produce(TOPIC, value.getvalue(), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    options = f"format=avro&schema={folder / 'row.avsc'}&until=end&readers={readers}"
    return f"kafka://{broker.bootstrap}/{TOPIC}?{options}"


def run_case(case: Case, shape: FeedShape, folder: Path, patience: float) -> Finished:
    """One run on a cluster of its own. Raises StreamFailedError, MissingToolError, TimeoutError, BrokerError."""
    folder.mkdir()
    feed = write_stream_feed(shape, folder / "feed", FILE_MS)
    if case.form == "parquet":
        feed = as_parquet(feed, demo_feed(shape))
    (feed.folder / "_END").touch()
    path = write_policy(folder)
    policy = load_policy(path)
    write_people(demo_feed(shape), policy, folder / "people.parquet")
    example, plan = feed.folder / feed.files[0].name, folder / "plan.json"
    if case.shards > 1:
        print(plan_shards(str(path), [str(example)], str(plan), case.shards).render(), file=sys.stderr)
    with contextlib.ExitStack() as stack:
        source: Path | str = feed.folder
        shown: Path | None = example
        if case.form.startswith(KAFKA):
            shown = None
            broker = stack.enter_context(Broker(folder / "broker"))
            source = topic_of(demo_feed(shape), folder, broker, case.form.removeprefix(KAFKA))
        cluster = stack.enter_context(
            SessionCluster(folder / "cluster", task_managers=case.task_managers, slots=SLOTS)
        )
        killer, saver = Killer(cluster, feed, 0, case.task_managers), Saver(cluster, feed, 0)
        with stream_command(
            cluster, folder, path, source, shown, parallelism=case.parallelism, checkpointing_ms=10_000,
            every=1.0, resume=["--plan", str(plan)] if case.shards > 1 else [],
        ) as (process, watch):  # fmt: skip
            ended = follow(process, watch, folder, None, killer, saver, patience)
        assert ended is not None
        managers = instances(cluster.get, watch.job_id())
    output = folder / "out"
    run = outcome("", feed, output, watch, None, killer, saver, ended, policy.out_of_orderness_ms)
    keys: list[bytes] = []
    people: list[int] = []
    if case.shards > 1:
        (cut,) = json.loads((output / "restricted/plan.json").read_text())["partitions"]
        keys, people = [bytes.fromhex(key) for key in cut["keys"]], cut["people"]
    return Finished(run, managers, keys, people)


def instances(get: Callable[[str], Any], job: str | None) -> list[int]:
    """Of each parallel instance of the solving step the number of the TaskManager that ran it."""
    (vertex,) = (each["id"] for each in get(f"/jobs/{job}")["vertices"] if "Solve" in each["name"])
    names = [each["taskmanager-id"] for each in get(f"/jobs/{job}/vertices/{vertex}")["subtasks"]]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def expected_share(finished: Finished) -> float:
    """The share of people that the busiest worker has, as the key groups say."""
    held: Counter[int] = Counter()
    for key, each in zip(finished.keys, finished.people, strict=True):
        held[finished.managers[worker_of(key_group(key), len(finished.managers))]] += each
    return max(held.values()) / held.total() if held else 1.0


def measured(
    cases: Sequence[Case], shape: FeedShape, work: Path, patience: float, findings: Findings
) -> Iterator[tuple[Any, ...]]:
    """A row of the table for each case that came to its end."""
    for case in cases:
        print(f"{case.task_managers} TaskManagers, {case.shards} shards, {case.form}", file=sys.stderr)
        folder = work / "run"
        try:
            finished = run_case(case, shape, folder, patience)
        except (StreamFailedError, MissingToolError, TimeoutError, BrokerError) as failed:
            findings.skipped.append(f"{case}: FAILED, {failed}")
            continue
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        run = finished.run
        cpu = [cpu for name, cpu in run.cpu_by_process().items() if kind_of(name) == WORKER]
        yield (
            case.task_managers, case.shards, case.form, sum(cpu), max(cpu), max(cpu) / sum(cpu),
            expected_share(finished), run.feed.rows / run.seconds, run.accounts.released, run.accounts.exact,
        )  # fmt: skip


def asked(words: str) -> Case:
    """The case of "2x16xavro"."""
    task_managers, shards, form = words.split("x", 2)
    return Case(int(task_managers), int(shards), form)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="One partition on a Flink cluster: its busiest worker, by shards."
    )
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--cases", nargs="+", default=CASES, help="TaskManagers x shards x form of the files, or kafkaREADERS"
    )
    parser.add_argument("--name", default="shard_workers", help="of the results")
    parser.add_argument("--patience", type=float, default=1_800.0, help="seconds until a run has failed")
    parser.add_argument("--work", type=Path, help="folder for feed and output (default: temporary)")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings(arguments.name, __doc__ or "", module="shard_workers")
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        findings.skipped.append(f"skipped, no {' and no '.join(missing)} on the path")
        return publish(findings, arguments, begun)
    warm_up()  # fills the cache that the workers load their kernels from
    shape = FeedShape(rows=arguments.rows, days=arguments.days, seed=arguments.seed)
    table = findings.table(
        "CPU of the Python workers",
        ["TaskManagers", "shards", "feed", "CPU, s", "of the busiest, s", "its share", "share expected", "rows/s",
         "rows released", "accounts exact"],
        f"{shape.rows:,} rows of {shape.customers:,} people in {shape.days} days.",
    )  # fmt: skip
    cases = [asked(each) for each in arguments.cases]
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        table.rows.extend(measured(cases, shape, Path(work), arguments.patience, findings))
    publish(findings, arguments, begun)
    return 1 if findings.skipped else 0


if __name__ == "__main__":
    raise SystemExit(main())
