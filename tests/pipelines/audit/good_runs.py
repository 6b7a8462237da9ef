"""Two good runs of the whole command to plant faults in, and the files of a run taken apart and put together again."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.pipelines.cli import main
from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.release_format import SCHEMA_KEY
from kanonflow.transforms.columns.parquet_encoding import OPTIONS, ROWS_PER_GROUP
from tests.pipelines.small_runs import _order

POLICY = """
version: 1
name: planted
k: 3
window: 1d
max_delay: 2d
protect: {protect}
metrics: public
solver: {{evaluations_per_row: 20, threads: 1}}
fields:
  who: {{role: {who}}}
  when: {{role: time}}
  age: {{role: quasi, type: numeric, as: int, domain: [0, 100], outside: code, grid: 5}}
  height: {{role: quasi, type: numeric, as: double}}
  born: {{role: quasi, type: date, grid: year}}
  town: {{role: quasi, type: categorical}}
  place: {{role: quasi, type: hierarchy, hierarchy: places.csv}}
  amount: {{role: sensitive, as: double}}
  note: {{role: sensitive}}
  ref: {{role: insensitive, accept_risk: numbers of a test}}
  card: {{role: identifier}}
"""
PLACES = (
    "Breda;Brabant;south;*\nTilburg;Brabant;south;*\nGoes;Zeeland;south;*\nVeere;Zeeland;south;*\n"
    "Assen;Drenthe;north;*\nEmmen;Drenthe;north;*\nDelfzijl;Groningen;north;*\nHaren;Groningen;north;*\n"
)
SHAPES = {"classes": ("individual", "individual"), "rows": ("row", "identifier")}
CARD = "4111111111111111"
DAYS = 3
PEOPLE = 36


def afresh(protect: str) -> str:
    """The value of ``protect``, and for individuals the line that puts them together afresh in each window."""
    return "individual\ncohort: window" if protect == "individual" else protect


@dataclass(frozen=True)
class GoodRun:
    """A finished run. out: its directory; policy: its file; source: its input."""

    shape: str
    policy: Path
    source: Path
    out: Path

    def copied(self, folder: Path) -> GoodRun:
        """The same run below ``folder``, with the modes of its files, to be spoiled."""
        shutil.copytree(self.policy.parent, folder, dirs_exist_ok=True)
        return GoodRun(self.shape, folder / "policy.yaml", folder / "rows.csv", folder / "out")

    @property
    def secret(self) -> Path:
        """The file with the run's secret: the same in every run, so that the same rows go the same ways."""
        return self.policy.with_name("secret")

    @property
    def releases(self) -> list[Path]:
        """The release files, by the end of their windows."""
        return sorted((self.out / "release").glob("[!.]*"), key=lambda path: window_end(path))

    def twin(self, place: str, number: int = 0) -> Path:
        """The file of release ``number`` in another folder of the run."""
        return self.out / place / f"{self.releases[number].stem}.avro"


def make_run(folder: Path, shape: str, release_format: str = "avro") -> GoodRun:
    """Run the command over three days of 36 people, with matching records and public metrics."""
    protect, who = SHAPES[shape]
    (folder / "policy.yaml").write_text(POLICY.format(protect=afresh(protect), who=who))
    (folder / "places.csv").write_text(PLACES)
    (folder / "rows.csv").write_text("\n".join(_lines(np.random.default_rng(11))) + "\n")
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(np.random.default_rng(3).bytes(32))
    flags = ["--policy", str(folder / "policy.yaml"), "--input", str(folder / "rows.csv"), "--quiet"]
    flags += ["--secret-file", str(secret), "--matching-records", "--release-format", release_format]
    assert main(["anonymize", *flags, "--output", str(folder / "out")]) == 0
    return GoodRun(shape, folder / "policy.yaml", folder / "rows.csv", folder / "out")


def _lines(random: np.random.Generator) -> list[str]:
    """Everybody has one or two rows a day; a row without a time and one of an unreadable height are rejected."""
    leaves = [line.split(";")[0] for line in PLACES.splitlines()]
    lines = ["who,when,age,height,born,town,place,amount,note,ref,card"]
    for day in range(1, DAYS + 1):
        for person in range(PEOPLE):
            own = np.random.default_rng(person)
            traits = [
                str(own.integers(8, 104)),
                "" if person % 12 in (5, 8) else f"{own.normal(170, 12):.3f}",
                f"{own.integers(1950, 2010)}-{own.integers(1, 13):02d}-{own.integers(1, 28):02d}",
                "" if person % 9 == 4 else str(own.choice(["A", "B", "C", "D", "E"])),
                leaves[int(own.integers(8))],
            ]
            for turn in range(1 + person % 2):
                when = f"2024-03-{day:02d} {random.integers(24):02d}:{turn:02d}:00"
                payload = [f"{random.normal(50, 9):.2f}", f"n{random.integers(4)}", f"r{len(lines)}"]
                lines.append(",".join([f"p{person}", when, *traits, *payload, f"{CARD}{person:03d}"]))
    lines.append(f"p1,no time,40,170.0,1980-01-01,A,Breda,1.0,n0,r9000,{CARD}001")
    lines.append(f"p2,2024-03-02 10:00:00,40,tall,1980-01-01,A,Breda,1.0,n0,r9001,{CARD}002")
    return lines


def window_end(path: Path) -> int:
    """The end of a release's window, in milliseconds since 1970."""
    return int(read(path)[1][0]["window_end"].timestamp() * 1000)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The schema in a file's header, as it was written, and the records."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(BytesIO(path.read_bytes()))
        return json.loads(file.metadata.metadata[SCHEMA_KEY.encode()]), file.read().to_pylist()
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        return json.loads(reader.metadata["avro.schema"]), list(reader)  # type: ignore[arg-type]


def marker(name: str) -> bytes:
    """The sync marker of a file that the pipeline writes."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"kanonflow sync").digest()


def write(
    path: Path,
    schema: Mapping[str, Any],
    rows: list[dict[str, Any]],
    *,
    sync: bytes | None = None,
    codec: str = "deflate",
    header: Mapping[str, str] | None = None,
    level: int | None = None,
    block: int = 4096,
) -> None:
    """Write records as the pipeline does, but for what is asked for."""
    if path.suffix == ".parquet":
        told = {"compression": {"deflate": "gzip", "null": "none"}[codec], "compression_level": level or 6}
        if codec == "null":
            del told["compression_level"]
        rows_per_group = ROWS_PER_GROUP if block == 4096 else block
        write_parquet(path, schema, rows, header=header, rows_per_group=rows_per_group, **told)
        return
    sync = marker(path.stem) if sync is None else sync
    out = BytesIO()
    fastavro.writer(out, schema, [], codec=codec, sync_marker=sync, metadata=dict(header or {}))
    for first in range(0, len(rows), block):
        out.write(one_block(schema, rows[first : first + block], sync, codec, level=level))
    path.write_bytes(out.getvalue())


def write_parquet(
    path: Path,
    schema: Mapping[str, Any],
    rows: list[dict[str, Any]] | pa.Table,
    *,
    header: Mapping[str, str] | None = None,
    rows_per_group: int = ROWS_PER_GROUP,
    **options: Any,
) -> None:
    """Write records, or a table, as the pipeline writes Parquet, but for what is asked for."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, arrow_types(schema))
    out, asked = BytesIO(), {**OPTIONS, **options}
    if "compression" in options and "compression_level" not in options:
        del asked["compression_level"]
    with pq.ParquetWriter(out, table.schema, **asked) as writer:
        writer.write_table(table, rows_per_group)
        writer.add_key_value_metadata({SCHEMA_KEY: json.dumps(schema), **(header or {})})
    path.write_bytes(out.getvalue())


def arrow_types(schema: Mapping[str, Any]) -> pa.Schema:
    """The Arrow types of a release under its Avro schema: as ``avro_to_arrow``, and a range's flag is never null."""
    fields = []
    for field in avro_to_arrow(schema):
        if pa.types.is_struct(field.type):
            flag = pa.field("nulls", pa.bool_(), nullable=False)
            field = field.with_type(pa.struct([field.type.field("min"), field.type.field("max"), flag]))
        fields.append(field)
    return pa.schema(fields)


def one_block(
    schema: Mapping[str, Any],
    rows: list[dict[str, Any]],
    sync: bytes,
    codec: str = "deflate",
    *,
    level: int | None = None,
    inside: bytes = b"",
    behind: bytes = b"",
) -> bytes:
    """A block of a file; ``inside``: bytes after its rows, ``behind``: after its compressed stream."""
    parsed, body = fastavro.parse_schema(dict(schema)), BytesIO()
    for row in rows:
        fastavro.schemaless_writer(body, parsed, row)
    data = body.getvalue() + inside
    if codec == "deflate":
        squeeze = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, -zlib.MAX_WBITS)
        data = squeeze.compress(data) + squeeze.flush()
    data += behind
    return _long(len(rows)) + _long(len(data)) + data + sync


def _long(value: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, value)
    return out.getvalue()


def change_rows(path: Path, change: Callable[[list[dict[str, Any]]], Any], *, ordered: bool = True) -> None:
    """Rewrite a release with ``change`` applied to its rows, in the order that a release must have."""
    schema, rows = read(path)
    change(rows)
    write(path, schema, sorted(rows, key=_order) if ordered else rows)


def change_schema(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite a file under another schema."""
    schema, rows = read(path)
    change(schema)
    write(path, schema, rows)


def change_record(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite a file of one record: metrics, a matching record."""
    schema, (record,) = read(path)
    change(record)
    write(path, schema, [record])
