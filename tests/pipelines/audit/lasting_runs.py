"""Runs with cohorts that last, made by the step of a partition and laid out as a run's directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.lasting.member_numbers import NumberKeys
from kanonflow.pipelines.audit.read.person_digests import digests_of_codes
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.commands.matching_record_recipe import recipe_check
from kanonflow.schemas.avro_schema import metrics_schema, rejected_schema, release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_source import read_policy
from kanonflow.schemas.release_format import ReleaseFormat
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import RejectedRows
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import Secret, group_key, member_key, partition_key, people_key
from kanonflow.transforms.sinks.sinks import records_file, release_file
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep
from tests.pipelines.audit.good_runs import PLACES, read, write

POLICY = """
version: 1
name: lasting
k: 3
window: 1d
max_delay: 2d
cohort: lasting
cohort_size: 4
intake: 12
others: drop
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 100], outside: code, grid: 5}
  height: {role: quasi, type: numeric, as: double}
  born: {role: quasi, type: date, grid: year}
  town: {role: quasi, type: categorical}
  place: {role: quasi, type: hierarchy, hierarchy: places.csv}
  amount: {role: sensitive, as: double}
  note: {role: sensitive}
  ref: {role: insensitive}
"""
# Cohorts as greedy merging has them: what is grouped how is no matter here.
BY_SHOP = (
    POLICY.replace("window: 1d", "window: 1d\npartition_by: [shop]").replace("row: 20", "row: 0.001")
    + "  shop: {role: insensitive}\n"
)
HEADER = "who,when,age,height,born,town,place,amount,note,ref,shop"
SECRET = Secret(bytes(range(1, 33)))
EPOCH = 0x1234ABCD5678
DAYS = 6


@dataclass(frozen=True)
class LastingRun:
    """A finished run. out: its directory."""

    policy: Path
    source: Path
    out: Path

    @property
    def releases(self) -> list[Path]:
        """The release files, by the first window in them."""
        return sorted((self.out / "release").glob("[!.]*"), key=lambda path: read(path)[1][0]["window_end"])

    def segments(self, part: str) -> list[Path]:
        """The files of all segments, ``people`` or ``boxes``, by partition and number."""
        return sorted((self.out / "restricted/cohorts").glob(f"*/*.{part}.avro"))

    def judged(self, *, secret: bool = True, recorded: bool = False, waiting: bool = False) -> AuditReport:
        """The audit's report."""
        return audit(
            self.policy,
            [str(self.source)],
            self.out,
            waiting=waiting,
            matching_records=recorded,
            recipe=recipe_check(SECRET) if secret and recorded else None,
            people_key=people_key(SECRET) if secret else None,
            number_keys=NumberKeys(member_key(SECRET), group_key(SECRET)) if secret else None,
        )


def lines(days: int = DAYS, people: int = 48, *, moves: bool = True) -> list[str]:
    """Rows of people who come on some days; some first come late, and some move or forget a value once known."""
    random = np.random.default_rng(5)
    leaves = [line.split(";")[0] for line in PLACES.splitlines()]
    told = []
    for day in range(1, days + 1):
        for person in range(people):
            if day < person // 16 or random.random() < 0.25:
                continue
            own = np.random.default_rng(person)
            traits = [
                str(own.integers(8, 104)),
                "" if person % 12 in (5, 8) else f"{own.normal(170, 12):.3f}",
                f"{own.integers(1950, 2010)}-{own.integers(1, 13):02d}-{own.integers(1, 28):02d}",
                "" if person % 9 == 4 else str(own.choice(["A", "B", "C", "D", "E"])),
                leaves[int(own.integers(8))],
            ]
            if moves and day > 3 and person % 7 == 0:
                traits[3:] = ["F", leaves[day % 8]]
            if moves and day > 4 and person % 11 == 0:
                traits[1] = "tall"
            for turn in range(1 + person % 2):
                when = f"2024-03-{day:02d} {random.integers(24):02d}:{turn:02d}:00"
                payload = [f"{random.normal(50, 9):.2f}", f"n{random.integers(4)}", f"r{len(told)}"]
                told.append(",".join([f"p{person}", when, *traits, *payload, f"s{person % 2}"]))
    return told


def make_run(
    folder: Path,
    rows: Iterable[str] | None = None,
    *,
    policy: str = POLICY,
    late: Callable[[str], bool] = lambda line: False,
    stop_after: int | None = None,
    release_format: ReleaseFormat = ReleaseFormat.AVRO,
) -> LastingRun:
    """Run every partition's step over the rows, day after day, and write what a run writes.

    late: rows that come a day after their own window was released. stop_after: days, of a run that goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text(policy)
    (folder / "places.csv").write_text(PLACES)
    told = lines() if rows is None else list(rows)
    (folder / "rows.csv").write_text("\n".join([HEADER, *told]) + "\n")
    names = HEADER.split(",")
    bound = bind(
        read_policy(str(folder / "policy.yaml")),
        pa.schema([(name, pa.string()) for name in names]),
        text=True,
        source="rows.csv",
    )
    out = _directories(folder / "out")
    step = PartitionStep(bound, SECRET, 1, matching_records=True, epoch=EPOCH)
    partitions: dict[bytes, PartitionInMemory] = {}
    delivered: dict[int, list[str]] = {}
    for line in told:
        day = int(line.split(",")[1][8:10])
        delivered.setdefault(day + 1 if late(line) else day, []).append(line)
    made: list[WindowResult] = []
    refused: list[dict[str, Any]] = []
    for day in sorted(delivered):
        cells = [line.split(",") for line in delivered[day]]
        table = pa.table({name: [row[at] for row in cells] for at, name in enumerate(names)})
        classified = classify(table.select(list(bound.input_columns)), bound)
        refused += classified.rejected
        for values, number, batch in split(classified.rows, bound):
            key = partition_key(SECRET, values)
            partition = partitions.setdefault(key, PartitionInMemory(step, key))
            back: RejectedRows | None = partition.arrive(number, pa.Table.from_batches([batch]))
            refused += [] if back is None else list(back.records)
        now = (19_782 + day) * 86_400_000  # the end of that day of March 2024
        for partition in partitions.values():
            while partition.fires_at is not None and partition.fires_at <= now:
                made += partition.fire()
        if stop_after == day:
            break
    for partition in partitions.values() if stop_after is None else ():
        made += partition.finish()
    for result in made:
        refused += result.rejected
        _write_result(out, result, release_avro_schema(bound, EPOCH), release_format)
    _put(out / "restricted/rejected/all.avro", records_file(refused, rejected_schema(), "all"))
    if stop_after is None and not any(map(late, told)):
        _put(out / "restricted/run.json", b'{"rejected_files": 1}')
    return LastingRun(folder / "policy.yaml", folder / "rows.csv", out)


def _directories(out: Path) -> Path:
    (out / "release").mkdir(parents=True)
    for place in ("restricted", "restricted/rejected", "restricted/metrics", "restricted/matching_records"):
        (out / place).mkdir(mode=0o700)
    (out / "restricted/cohorts").mkdir(mode=0o700)
    return out


def _write_result(
    out: Path, result: WindowResult, schema: dict[str, Any], release_format: ReleaseFormat
) -> None:
    name = result.metrics["release_id"]
    _put(out / f"restricted/metrics/{name}.avro", records_file([result.metrics], metrics_schema(), name))
    release = result.release
    if release is None:
        return
    (out / f"release/{name}{release_format.suffix}").write_bytes(
        release_file(release, schema, release_format)
    )
    assert result.matching_record is not None
    _put(out / f"restricted/matching_records/{name}.avro", result.matching_record.avro)
    if release.entered is not None:
        assert release.slot is not None
        assert release.slot.roster is not None
        folder = out / "restricted/cohorts" / release.slot.partition.hex()
        folder.mkdir(mode=0o700, exist_ok=True)
        number = release.slot.roster.segments - 1
        _put(folder / f"{number:06}.people.avro", release.entered.people)
        _put(folder / f"{number:06}.boxes.avro", release.entered.boxes)


def _put(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)


def change_file(path: Path, change: Callable[[dict[str, Any], list[dict[str, Any]]], Any]) -> None:
    """Rewrite a file with ``change`` applied to its schema and records."""
    schema, records = read(path)
    change(schema, records)
    write(path, schema, records)


def owner_of(run: LastingRun) -> dict[str, str]:
    """Whose each row is, by its reference."""
    cells = [line.split(",") for line in run.source.read_text().splitlines()[1:]]
    return {row[9]: row[0] for row in cells}


def cohort_of(run: LastingRun) -> dict[str, int]:
    """The cohort of each person of the input, by the files and the secret."""
    columns = pa.schema([(name, pa.string()) for name in HEADER.split(",")])
    bound = bind(read_policy(str(run.policy)), columns, text=True, source="rows.csv")
    book = CodeBook(bound.column("who"))
    names = sorted(set(owner_of(run).values()))
    book.codes_of_texts(names)
    digests = digests_of_codes(book, people_key(SECRET)).view(np.int64).tolist()
    cohort = {row["person"]: row["cohort"] for path in run.segments("people") for row in read(path)[1]}
    return {name: cohort[digest] for name, digest in zip(names, digests, strict=True) if digest in cohort}
