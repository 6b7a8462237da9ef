"""Small runs with matching records: windows of six records in a ring of slots of three.

The matching is drawn honestly, or is always the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro
import numpy as np
import pyarrow as pa

from kanonflow.schemas.avro_schema import matching_record_schema, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_source import read_policy
from kanonflow.solvers.structures import graph as graphs
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.publishing import publish
from kanonflow.transforms.release import matching_record as matching_records
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import Release, to_ipc
from kanonflow.transforms.secret.seeds import (
    ReleaseSlot,
    Secret,
    array_digest,
    partition_key,
    publish_keystream,
    release_id,
)
from kanonflow.transforms.sinks.sinks import release_file
from tests.regular_graphs import ring

SECRET = Secret(bytes(range(32)))
HOUR = 3_600_000
ROWS, K = 6, 3
POLICY = """
version: 1
name: ring
k: 3
window: 1h
protect: row
fields:
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, grid: exact}
  town: {role: quasi, type: categorical}
  weight: {role: sensitive, as: double}
  note: {role: sensitive}
"""


def identity(members: np.ndarray, words: Any) -> np.ndarray:
    """The matching of a ring that puts every record on its own slot."""
    return members[:, 0].copy()


def shifts(members: np.ndarray, words: Any) -> np.ndarray:
    """The factorization of a ring that the identity is the first of."""
    return np.ascontiguousarray(members.T)


def recorded_run(folder: Path, windows: int, *, fixed: bool = False, seed: int = 1) -> dict[str, Any]:
    """A run of ``windows`` windows below ``folder``; the arguments of ``audit``. fixed: publish the identity."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    lines = _lines(windows, np.random.default_rng(seed))
    (folder / "input.csv").write_text("\n".join([",".join(lines[0]), *map(",".join, lines[1:])]) + "\n")
    table = pa.table(list(map(list, zip(*lines[1:], strict=True))), names=lines[0])
    bound = bind(read_policy(str(policy)), table.schema, text=True, source="rows")
    out = folder / "out"
    (out / "release").mkdir(parents=True)
    for place in ("restricted", "restricted/matching_records"):
        (out / place).mkdir(mode=0o700)
    rows = classify(table, bound).rows
    for window in range(windows):
        name, release, matching_record = _publish(rows.slice(window * ROWS, ROWS), bound, window, fixed=fixed)
        (out / "release" / f"{name}.avro").write_bytes(release)
        path = out / "restricted/matching_records" / f"{name}.avro"
        path.touch(mode=0o600)
        path.write_bytes(matching_record)
    return {"policy_path": policy, "input_patterns": [str(folder / "input.csv")], "release_dir": out}


def record_files(run: dict[str, Any]) -> list[Path]:
    """The files of a run's matching records."""
    return sorted((run["release_dir"] / "restricted/matching_records").glob("*.avro"))


def alter(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite a matching record with ``change`` applied to its record."""
    with path.open("rb") as stream:
        record: Any = next(iter(fastavro.reader(stream)))
    change(record)
    out = BytesIO()
    fastavro.writer(out, matching_record_schema(), [record])
    path.write_bytes(out.getvalue())


def _lines(windows: int, random: np.random.Generator) -> list[tuple[str, ...]]:
    lines = [("when", "age", "town", "weight", "note")]
    for window in range(windows):
        for number, age in enumerate(random.choice(80, ROWS, replace=False)):
            town = random.choice(["Bonn", "Kiel", ""])
            stamp = f"2024-03-{1 + window // 24:02d} {window % 24:02d}:{number:02d}:00"
            weight = ("-0.0", "0.0")[number] if number < 2 else repr(float(random.normal()))
            lines.append((stamp, str(age), town, weight, f"n{window}-{number}"))
    return lines


def _publish(rows: pa.Table, bound: BoundPolicy, window: int, *, fixed: bool) -> tuple[str, bytes, bytes]:
    """Release id, release file and matching record of one window, made by the pipeline's own functions."""
    rows = rows.take(pa.array(canonical_order(rows, bound, SECRET)))
    start = 1_709_251_200_000 + window * HOUR
    slot = ReleaseSlot(partition_key(SECRET, ()), start + HOUR, window)
    name = release_id(SECRET, bound.policy.name, slot)
    graph = GeneralizationGraph(ring(ROWS, K))
    keystream = publish_keystream(SECRET, name, array_digest(graph.members), content_digest(rows))
    head = matching_records.RecordHead(name, slot, (start, start + HOUR))
    with ExitStack() as stack:
        if fixed:
            stack.enter_context(mock.patch.object(graphs, "random_factor", identity))
            stack.enter_context(mock.patch.object(matching_records, "random_factorization", shifts))
            stack.enter_context(mock.patch.object(matching_records, "uniform_below", return_value=0))
        published = publish.publish(rows, graph, bound, keystream, name, head.window)
        matching_record = matching_records.make_matching_record(rows, graph, published, bound, SECRET, head)
    release = Release(name, *head.window, to_ipc(published.rows.combine_chunks()))
    return name, release_file(release, release_avro_schema(bound)), matching_record.avro
