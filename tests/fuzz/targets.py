"""What is read from outside, each by the product's own reader, from bytes that anybody may have written.

A target takes bytes and reads them. It may raise the errors that the product names for what is wrong; anything else is
a fault, and so are a hang and memory that grows. Seeds are bytes that are right, or nearly so, for a fuzzer to begin
with. A new input is one line of TARGETS.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.message_values import JsonValues, MessageRows
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.kafka.avro_values import AvroValues, RegistryValues
from kanonflow.pipelines.kafka.client import read_properties
from kanonflow.pipelines.kafka.schema_registry import RegistryUnavailableError, SchemaRegistry
from kanonflow.schemas.avro_schema import arrow_to_avro
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import SchemaError
from kanonflow.schemas.hierarchy_file import read_hierarchy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.release.warm_state import warm_state_from_bytes
from kanonflow.transforms.roster.cohort_files import (
    groups_file,
    groups_of_file,
    people_of_file,
    segment_of_files,
)
from kanonflow.transforms.roster.first_partitions import first_partitions_from_bytes
from kanonflow.transforms.roster.roster import segment_from_bytes
from kanonflow.transforms.roster.roster_state import pool_from_bytes, pool_to_bytes
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.windows.bags import batch_header, batch_rows, read_header
from kanonflow.transforms.windows.chain import CarriedState, carried_from_bytes
from kanonflow.transforms.windows.partition_clock import PartitionClock
from kanonflow.transforms.windows.warm_cells import Entry, WarmCells
from tests.lasting_feeds import lasting_policy, results_of
from tests.small_feeds import bound_feed, feed_policy, hourly

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """read: what is done with bytes. seeds: bytes to begin with. named: errors that may come out."""

    read: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    named: tuple[type[Exception], ...] = (SchemaError,)

    def __call__(self, data: bytes) -> None:
        """Read the bytes. Whatever is raised is a fault."""
        with contextlib.suppress(*self.named):
            self.read(data)


@cache
def _folder() -> Path:
    """In memory where there is such a place."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="kanonflow-fuzz-", dir=memory if memory.is_dir() else None))


def _written(data: bytes, name: str) -> str:
    path = _folder() / name
    path.write_bytes(data)
    path.chmod(0o600)
    return str(path)


_FIELDS: Mapping[str, Any] = {
    "who": {"role": "individual"},
    "when": {"role": "time", "timezone": "Europe/Prague", "fold": "first"},
    "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 120], "outside": "code"},
    "born": {"role": "quasi", "type": "date"},
    "zip": {"role": "quasi", "type": "prefix", "lengths": [1, 3]},
    "job": {"role": "quasi", "type": "categorical"},
    "paid": {"role": "sensitive", "as": "decimal(12,2)"},
    "note": {"role": "insensitive"},
}
_CSV: tuple[Mapping[str, Any], ...] = (
    {},
    {"encoding": "cp1250", "delimiter": ";", "decimal": ",", "thousands": "."},
    {"encoding": "utf-16", "delimiter": "tab"},
    {"quote": "", "nulls": ["NA", "-"]},
)
_HEAD: Mapping[str, Any] = {"version": 1, "k": 2, "window": "1d", "cohort": "lasting", "others": "drop"}


@cache
def _policy(form: int = 0) -> Any:
    mapping = {**_HEAD, "fields": _FIELDS, "csv": _CSV[form]}
    return parse_policy(mapping, "", "fuzzed")


def _read_rows(data: bytes, name: str, kind: str, form: int = 0) -> None:
    """A file as a run reads it: schema, the policy bound to it, rows, and what is no row or no value."""
    path = _written(data, name)
    policy = _policy(form)
    files = find_inputs([path], kind)
    with contextlib.suppress(SchemaError):
        # Whatever columns it has, they can be read.
        for batch in read_batches(files[0], input_schema(files, policy.csv).columns.names, policy.csv):
            from_ipc(batch.ipc).validate(full=True)
    its = bind_input(policy, [path], input_format=kind)
    for batch in read_batches(its.files[0], its.bound.input_columns, its.csv, its.bound.attributes):
        classify(from_ipc(batch.ipc), its.bound)


def read_csv(data: bytes) -> None:
    """The first byte says how the policy has it that the file is written."""
    _read_rows(data[1:], "fuzzed.csv", "csv", data[0] % len(_CSV) if data else 0)


def _rows() -> pa.Table:
    return pa.table(
        {
            "who": ["a", "b", None, "ü"],
            "when": pa.array([0, 86_400_000, -1, 2**40], pa.timestamp("ms", "UTC")),
            "age": pa.array([1, 200, None, 40], pa.int64()),
            "born": pa.array([0, -9000, None, 12_000], pa.date32()),
            "zip": ["94110", "9", "", None],
            "job": pa.array(["cook", "cook", "clerk", None]).dictionary_encode(),
            "paid": pa.array([1, 2, None, 4], pa.decimal128(12, 2)),
            "note": ["x", "", None, "y" * 20],
        }
    )


def _csv_seeds() -> list[bytes]:
    text = "who,when,age,born,zip,job,paid,note\n"
    text += 'a,2024-03-31T02:30:00,1,1970-01-01,94110,cook,1.00,x\n"b ""q""",2024-03-01,200,,9,"cook\n",2,""\n,,,,,,,\n'
    other = text.replace(",", ";").replace(".", ",")
    return [
        b"\0" + text.encode(),
        b"\0\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        b"\0" + gzip.compress(text.encode(), mtime=0),
        b"\1" + other.encode("cp1250"),
        b"\2" + text.replace(",", "\t").encode("utf-16"),
        b"\3" + text.replace('"', "").encode() + b"a,b\n" + b"NA,-,\0,\x1a,\xff,1,2,3\n",
        b'\0who,when\na,"open\nb,2024-01-01\n',
        # A mark that is not in front of all, and one behind another, before a quote over lines.
        b"\0\n\xef\xbb\xbfwho\n1\n",
        b'\0 \t";";\r"\n1\n',
        b'\0\xef\xbb\xbf\xef\xbb\xbf"who\n",when\n1,2\n',
        # Of an encoding that needs a mark in front, without one.
        b"\2" + text.encode("utf-16-le"),
    ]


def read_avro(data: bytes) -> None:
    """A file with a schema of its own."""
    _read_rows(data, "fuzzed.avro", "avro")


def _avro_table() -> pa.Table:
    rows = _rows()
    return rows.set_column(5, "job", rows.column("job").combine_chunks().dictionary_decode())


def _avro_seeds() -> list[bytes]:
    rows, seeds = _avro_table(), []
    for codec in ("null", "deflate"):
        stream = io.BytesIO()
        schema = arrow_to_avro(rows.schema, "Row")
        fastavro.writer(stream, schema, rows.to_pylist(), codec=codec, sync_marker=bytes(16))
        seeds.append(stream.getvalue())
    stream = io.BytesIO()
    odd = {"type": "record", "name": "R", "fields": [{"name": "who", "type": ["null", "string", "long"]}]}
    fastavro.writer(stream, odd, [{"who": 1}, {"who": "a"}], sync_marker=bytes(16))
    twice = seeds[0].replace(b'"name": "note"', b'"name": "who" ')
    half = seeds[0].replace(b'"name": "note", ', b'"name":"\\ud800",')
    assert half != seeds[0]
    return [*seeds, stream.getvalue(), twice, half]


def read_parquet(data: bytes) -> None:
    """A file with a schema of its own."""
    _read_rows(data, "fuzzed.parquet", "parquet")


def _parquet_seeds() -> list[bytes]:
    seeds = []
    for settings in ({}, {"compression": "none", "use_dictionary": False}, {"row_group_size": 2}):
        stream = io.BytesIO()
        pq.write_table(_rows(), stream, **settings)
        seeds.append(stream.getvalue())
    # Text that is none: of the values and, by chance of its name, of a column.
    seeds += [seeds[1].replace(b"cook", b"c\xffok"), seeds[1].replace(b"note", b"n\xffte")]
    stream = io.BytesIO()
    pq.write_table(_rows().set_column(1, "when", pa.array([0] * 4, pa.timestamp("ms", "U/C"))), stream)
    return [*seeds, stream.getvalue()]


def read_workbooks(data: bytes) -> None:
    """A workbook: as it is or, where it begins with a name of one of its parts, the parts, which are packed here.

    Why: within a packed file hardly a changed byte leaves its sum right.
    """
    if any(data.startswith(part.encode()) for part in _PARTS):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as book:
            for each in data.split(_BETWEEN):
                name, _, text = each.partition(b"\n")
                with contextlib.suppress(UserWarning):
                    book.writestr(name.decode("latin-1").strip("\0") or "none", text)
        data = packed.getvalue()
    _read_rows(data, "fuzzed.xlsx", "xlsx")


_PARTS = (
    "[Content_Types].xml",
    "xl/_rels/workbook.xml.rels",
    "xl/workbook.xml",
    "xl/sharedStrings.xml",
    "xl/styles.xml",
    "xl/worksheets/sheet1.xml",
)


def _parts(packed: bytes) -> bytes:
    """What is read of a workbook, part by part, the sheet first."""
    with zipfile.ZipFile(io.BytesIO(packed)) as book:
        there = [part for part in reversed(_PARTS) if part in book.namelist()]
        return _BETWEEN.join(part.encode() + b"\n" + book.read(part) for part in there)


def _workbook_seeds() -> list[bytes]:
    rows: list[list[Any]] = [
        list(_FIELDS),
        ["a", datetime(2024, 1, 1), 1, date(1970, 1, 1), "94110", "cook", 1.5, True],
    ]
    rows += [["b", "2024-03-01", -0.0, 1e300, 9, "", None, "\u00fc"], [], [None] * 8 + ["behind"]]
    rows += [["c", time(1, 2), timedelta(hours=30), "=1+1", "#N/A", "_x0000_"]]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    parts = _parts(stream.getvalue())
    head = b'<row r="1"><c t="inlineStr"><is><t>who</t></is></c><c t="str"><v>when</v></c></row>'
    sheet = (
        b'xl/worksheets/sheet1.xml\n<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        b"<sheetData>%s</sheetData></worksheet>"
    )
    rest = b"".join(_BETWEEN + part for part in parts.split(_BETWEEN)[1:])
    odd = b'<row r="%d"><c r="ZZZ%d" t="b"><v>1</v></c><c r="A2" t="d"><v>2024-01-01T00:00</v></c></row>'
    # None that numbers itself beyond all sheets, which the reader's own test has: a million blank rows, instrumented,
    # are seconds, and what the fuzzer made of it would be no other.
    return [stream.getvalue(), parts, sheet % (head + odd % (2, 2)) + rest]


def read_json_lines(data: bytes) -> None:
    """A file of objects, one a line."""
    _read_rows(data, "fuzzed.jsonl", "json")


def read_policies(data: bytes) -> None:
    """YAML, or after a zero byte a schema of Avro with a policy in it; then bound to a feed."""
    place = _written(data[1:], "policy.avsc") if data[:1] == b"\0" else _written(data, "policy.yaml")
    policy = read_policy(place)
    bind(policy, _rows().schema, text=False, source="fuzzed")


def _policy_seeds() -> list[bytes]:
    texts = [path.read_bytes() for path in sorted((ROOT / "policies").glob("*.yaml"))]
    texts += [yaml.safe_dump({**_HEAD, "fields": dict(_FIELDS), "csv": dict(form)}).encode() for form in _CSV]
    head = {"k": 2, "window": "1d", "others": "drop"}
    fields = [{"name": name, "type": "string", "kanonflow": how} for name, how in _FIELDS.items()]
    schema = {"type": "record", "name": "R", "kanonflow": head, "fields": fields}
    head_of_fields = b"fields:\n  born: {role: quasi, type: date, domain: [1900-01-01, %s]}\n"
    odd = (b"2024-02-30", b"0x_", b"!!int x", b"!!bool x", b"!!set a", rb'"\UFFFFFFFF"', rb'"\ud800"')
    texts += [head_of_fields % value for value in odd]
    return [*texts, b"? [a]\n: 1\n", b"\0" + json.dumps(schema).encode()]


def read_hierarchies(data: bytes) -> None:
    """A file of rows."""
    hierarchy = read_hierarchy(Path(_written(data, "hierarchy.csv")))
    assert hierarchy.ncp.shape == hierarchy.codes.shape


def _hierarchy_seeds() -> list[bytes]:
    return [
        b"cook;trade;*\nclerk;office;*\n",
        b'\xef\xbb\xbf"a;b";x;*\r\n2024-01-01;2024;*\r\n',
        "1;1-2;*\n2;1-2;*\n\n3;3;*\nü;3;*".encode(),
    ]


def read_states(data: bytes) -> None:
    """Each state that a savepoint, or a run's hand-over, may hold; the first byte says which."""
    kind, body = (data[0] % len(_STATES), data[1:]) if data else (0, b"")
    _STATES[kind](body)


def _warm(data: bytes) -> None:
    state = warm_state_from_bytes(data)
    if state.waiting is not None:
        assert state.waiting.num_rows == state.waiting_rows
    state.to_bytes()


class _Cell:
    """A cell of state, as a runner gives it."""

    def __init__(self, data: bytes | None) -> None:
        self._data = data

    def read(self) -> Any:
        return self._data


class _Bag(_Cell):
    def read(self) -> Any:
        return [] if self._data is None else [self._data]


def _cells(data: bytes) -> None:
    warm, _, rest = data.partition(_BETWEEN)
    pool, _, entry = rest.partition(_BETWEEN)
    WarmCells([_Cell(warm), _Cell(pool), _Bag(entry), _Bag(None), _Bag(None), _Bag(None)]).read()


_BETWEEN = b"|//|"
_STATES: tuple[Callable[[bytes], Any], ...] = (
    _warm,
    lambda data: pool_to_bytes(pool_from_bytes(data)),
    PartitionClock.from_bytes,
    carried_from_bytes,
    lambda data: segment_from_bytes(data).to_bytes(),
    first_partitions_from_bytes,
    _cells,
    lambda data: (read_header(data), batch_rows(data)),
)


@cache
def _results() -> tuple[Any, ...]:
    feed = hourly(4, 12, 14, seed=3)
    policy = lasting_policy(max_delay="2h", intake=6, events=True)
    return tuple(results_of(feed, policy))


def _state_seeds() -> list[bytes]:
    seeds = []
    for result in _results():
        warm = result.warm
        seeds.append(b"\0" + warm.to_bytes())
        if warm.roster is not None:
            pool = pool_to_bytes(warm.roster.pool)
            seeds.append(b"\1" + pool)
            entry = Entry(0, 0, 7, np.arange(3, dtype=np.uint64)).to_bytes()
            rest = warm.rest_to_bytes({"next": 1, "live": [[0, 1]]})
            seeds.append(b"\6" + _BETWEEN.join((rest, pool, entry)))
        if result.segment is not None:
            seeds.append(b"\4" + result.segment)
        carried = CarriedState(bytes(16), 7, 1, (3_600_000, 0, 7_200_000), PartitionClock(), warm, ())
        seeds.append(b"\3" + carried.to_bytes())
    clock = PartitionClock()
    policy = feed_policy()
    for number in (3, 5, 4):
        clock = clock.arrive(number, policy, 1).clock
    seeds.append(b"\2" + clock.to_bytes())
    # Values of other kinds, and what no parser goes down into.
    values = json.loads(clock.to_bytes())
    for name in values.keys() - {"version"}:
        seeds += [b"\2" + json.dumps({**values, name: other}).encode() for other in (7.5, "x", [[7], {}])]
    seeds += [bytes([kind]) + b"[" * 99_999 for kind in (2, 3)]
    seeds.append(b"\7" + batch_header(3, True) + to_ipc(_rows()))
    return list(dict.fromkeys(seeds))


def read_rosters(data: bytes) -> None:
    """Files of a segment: people, boxes, groups."""
    people, _, rest = data.partition(_BETWEEN)
    boxes, _, groups = rest.partition(_BETWEEN)
    bound = bound_feed(lasting_policy())
    for read in (
        lambda: people_of_file(people),
        lambda: segment_of_files(people, boxes, bound),
        lambda: groups_of_file(groups),
    ):
        with contextlib.suppress(StateError):
            read()


def _roster_seeds() -> list[bytes]:
    seeds = []
    for result in _results():
        if result.release is not None and result.release.entered is not None:
            entered = result.release.entered
            assert result.warm.roster is not None
            groups = groups_file(result.warm.roster.last)
            seeds.append(_BETWEEN.join((entered.people, entered.boxes, groups)))
            # People whose header is another's.
            seeds.append(
                _BETWEEN.join((entered.people.replace(b"kanonflow", b"kanonflaw"), entered.boxes, groups))
            )
    return seeds


def _decoded(rows: MessageRows) -> None:
    rows.rows.validate(full=True)
    bound = _message_policy()
    classify(rows.rows, bound)


@cache
def _message_policy() -> Any:
    schema = pa.schema([(name, pa.string()) for name in _FIELDS])
    return bind(_policy(), schema, text=True, source="fuzzed")


def read_messages(data: bytes) -> None:
    """JSON objects of a topic, one a line."""
    values = data.split(b"\n")
    _decoded(JsonValues(list(_FIELDS), ["age"]).decode(values))
    _decoded(JsonValues(list(_FIELDS)).decode(values))


def _message_seeds() -> list[bytes]:
    rows = [{"who": "a", "when": "2024-01-01", "age": 1.0, "paid": 1e2, "note": None, "x": [1, {"y": 2}]}]
    rows += [{"who": "\0", "age": True, "born": "1970-01-01", "zip": "ü"}]
    odd = b'{"who": NaN, "age": 1e400, "zip": -0.0, "job": 12345678901234567890123, "note": "\\ud800"}'
    return [
        "\n".join(map(json.dumps, rows)).encode(),
        odd,
        b'{"who": "a", "\\ud800": 1}\n',
        b"[]\nnull\n1\n\xff\n{}",
    ]


@cache
def _schema() -> dict[str, Any]:
    return arrow_to_avro(_avro_table().schema, "Row")


def read_avro_messages(data: bytes) -> None:
    """Records of a topic, the first byte of each its length."""
    values, at = [], 0
    while at < len(data):
        values.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    for attributes in ((), ("note", "zip")):
        AvroValues(_schema(), list(_FIELDS), attributes).decode(values).rows.validate(full=True)


def _avro_message_seeds() -> list[bytes]:
    seeds = []
    for record in _avro_table().to_pylist():
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(_schema()), record)
        seeds.append(bytes([len(stream.getvalue())]) + stream.getvalue())
    return [*seeds, b"".join(seeds)]


class _Registry(BaseHTTPRequestHandler):
    """Answers whatever it was given: status in the first two bytes, then the body."""

    answer = b""

    def do_GET(self) -> None:
        """Every question."""
        status, body = int.from_bytes(self.answer[:2], "big"), self.answer[2:]
        self.send_response(status if 200 <= status < 600 else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """As well."""
        self.do_GET()

    def log_message(self, format: str, *values: Any) -> None:
        """Say nothing."""


@cache
def _registry() -> str:
    server = HTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def read_registries(data: bytes) -> None:
    """What a registry answers to each question, and messages of such a schema."""
    _Registry.answer = data
    registry = SchemaRegistry(_registry(), tries=1, timeout_s=5.0)
    for ask in (
        lambda: registry.latest("rows-value"),
        lambda: registry.register("rows-value", _schema()),
        lambda: RegistryValues(_schema(), list(_FIELDS), registry).decode(
            [b"\0\0\0\0\1" + bytes(9), b"\0\0\0\0\1\2a", b""]
        ),
    ):
        with contextlib.suppress(SchemaError, RegistryUnavailableError):
            ask()


def _registry_seeds() -> list[bytes]:
    text = json.dumps(_schema())
    named = {"type": "record", "name": "N", "fields": [{"name": "who", "type": "Row"}]}
    answers: list[tuple[int, Any]] = [
        (200, {"schema": text, "subject": "rows-value", "version": 1, "id": 1, "schemaType": "AVRO"}),
        (200, {"schema": text, "id": 1}),
        (
            200,
            {
                "schema": json.dumps(named),
                "id": 1,
                "references": [{"name": "a", "subject": "b", "version": 1}],
            },
        ),
        (404, {"error_code": 40401, "message": "none"}),
        (409, {"error_code": 409, "message": "no"}),
        (500, "no"),
        (200, {"schema": '"string"', "id": "x", "schemaType": "JSON"}),
    ]
    return [status.to_bytes(2, "big") + json.dumps(body).encode() for status, body in answers]


def read_settings(data: bytes) -> None:
    """The file of passwords and properties of a topic's client."""
    read_properties(_written(data, "client.properties"))


def _setting_seeds() -> list[bytes]:
    return [
        b"# a\nsasl.username = u\nschema.registry.basic.auth.user.info=u:p\n",
        b"group.id=x\nerror_cb=y\n=\n",
    ]


TARGETS: Mapping[str, Target] = {
    "csv": Target(read_csv, _csv_seeds),
    "avro": Target(read_avro, _avro_seeds),
    "parquet": Target(read_parquet, _parquet_seeds),
    "xlsx": Target(read_workbooks, _workbook_seeds),
    "json-lines": Target(read_json_lines, _message_seeds),
    "policy": Target(read_policies, _policy_seeds),
    "hierarchy": Target(read_hierarchies, _hierarchy_seeds),
    "state": Target(read_states, _state_seeds, (StateError,)),
    "roster": Target(read_rosters, _roster_seeds, (StateError,)),
    "json-messages": Target(read_messages, _message_seeds),
    "avro-messages": Target(read_avro_messages, _avro_message_seeds),
    "registry": Target(read_registries, _registry_seeds, ()),
    "properties": Target(read_settings, _setting_seeds),
}


def corpus(name: str) -> Iterator[tuple[str, bytes]]:
    """What is kept of a target: seeds, and what once was a fault or led to other code."""
    for place, data in enumerate(TARGETS[name].seeds()):
        yield f"seed {place}", data
    for path in sorted((ROOT / "tests" / "fuzz" / "corpus" / name).glob("*")):
        yield path.name, path.read_bytes()
