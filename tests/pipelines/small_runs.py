"""Small runs written by hand: a policy, an input of a few records, releases with their boxes, rejected rows.

Two shapes. ``people``: windows of a day, individuals, two classes and a late row, ``protect: individual``.
``ring``: no time, no individuals, four records in a ring of slots of two, ``protect: row``.
"""

import copy
import datetime as dt
import hashlib
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from kanonflow.schemas.avro_schema import avro_to_arrow, release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_source import read_policy

DAY = dt.timedelta(days=1)
FIRST = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
REJECTED = {
    "type": "record",
    "name": "Rejected",
    "fields": [
        {"name": "reason", "type": "string"},
        {"name": "row", "type": {"type": "map", "values": ["null", "string"]}},
    ],
}
METRICS = {
    "type": "record",
    "name": "Metrics",
    "fields": [{"name": "release_id", "type": "string"}, {"name": "release_no", "type": "long"}],
}

PEOPLE_POLICY = """
version: 1
k: 2
window: 1d
max_delay: 1d
cohort: window
max_rejected: 1
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 120], outside: code, grid: 10}
  city: {role: quasi, type: categorical}
  amount: {role: sensitive, as: "decimal(9,2)"}
  ref: {role: insensitive}
  name: {role: identifier}
"""
PEOPLE = [
    "who,when,age,city,amount,ref,name",
    "a,2024-03-01 08:00:00,31,Bonn,1.50,r1,Ann",
    "a,2024-03-01 09:00:00,31,Bonn,2.50,r2,Ann",
    "b,2024-03-01 10:00:00,38,Kiel,1.50,r3,Bob",
    "b,2024-03-01 11:00:00,38,Kiel,3.50,r4,Bob",
    "c,2024-03-01 12:00:00,60,,4.00,r5,Cyd",
    "d,2024-03-01 13:00:00,130,Ulm,5.00,r6,Dan",
    "a,2024-03-02 08:00:00,31,Bonn,6.00,r7,Ann",
    "b,2024-03-01 23:00:00,38,Kiel,7.00,r8,Bob",
    "e,2024-03-02 08:00:00,20,Bonn,8.00,r9,Eve",
    "f,not a time,20,Bonn,9.00,r10,Fay",
]
RING_POLICY = """
version: 1
k: 2
fields:
  x: {role: quasi, type: numeric, grid: 1}
  tint: {role: quasi, type: categorical, domain: [red, blue]}
  note: {role: sensitive}
"""
RING = ["x,tint,note", "1.5,red,n1", "2.5,red,n2", "3.5,blue,n3", "4.5,blue,n4"]


@dataclass
class Run:
    """A run to be altered and written. ``releases``: file stem -> rows; ``schema`` of all releases;
    ``rejected``: reasons and rows; ``numbers``: release numbers for the metrics; ``ordered``: sort the rows of each
    release by what they publish, as a release must."""

    policy: str
    lines: list[str]
    schema: dict[str, Any]
    releases: dict[str, list[dict[str, Any]]]
    rejected: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    ordered: bool = True

    def copy(self) -> "Run":
        """A copy that shares nothing."""
        return copy.deepcopy(self)

    def in_order(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of a release as they are published."""
        return sorted(rows, key=_order) if self.ordered else rows

    def write(self, folder: Path) -> tuple[Path, list[str], Path]:
        """Write everything below ``folder``; returns policy file, input patterns and release directory."""
        out = folder / "out"
        (out / "release").mkdir(parents=True)
        for place in ("restricted", "restricted/rejected", "restricted/metrics"):
            (out / place).mkdir(mode=0o700)
        (folder / "policy.yaml").write_text(self.policy)
        (folder / "input.csv").write_text("\n".join(self.lines) + "\n")
        schema = self.whole_schema(folder / "policy.yaml")
        for stem, rows in self.releases.items():
            _write(out / "release" / f"{stem}.avro", schema, self.in_order(rows))
        rejected = [{"reason": reason, "row": row} for reason, row in self.rejected]
        _write(out / "restricted/rejected/all.avro", REJECTED, rejected)
        for stem, number in self.numbers.items():
            metrics = [{"release_id": stem, "release_no": number}]
            _write(out / f"restricted/metrics/{stem}.avro", METRICS, metrics)
        return folder / "policy.yaml", [str(folder / "*.csv")], out

    def whole_schema(self, policy: Path) -> dict[str, Any]:
        """The run's schema with documentation and properties as a pipeline writes them, where names and types are as
        the policy says."""
        columns = pa.schema([(name, pa.string()) for name in self.lines[0].split(",")])
        told = release_avro_schema(bind(read_policy(str(policy)), columns, text=True, source="input.csv"))
        right = {field["name"]: field for field in told["fields"]}
        fields = [
            right[own["name"]] if own["name"] in right and _same(own, right[own["name"]]) else own
            for own in self.schema["fields"]
        ]
        return {**told, "fields": fields}


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    kinds = [avro_to_arrow({"type": "record", "name": "One", "fields": [each]}) for each in (one, other)]
    return kinds[0] == kinds[1]


def _order(row: dict[str, Any]) -> list[Any]:
    """Cells in the order of the columns; ranges by their ends, null least."""
    cells = [list(cell.values()) if isinstance(cell, dict) else cell for cell in row.values()]
    return [
        [(value is not None, value) for value in (cell if isinstance(cell, list) else [cell])]
        for cell in cells
    ]


def _write(path: Path, schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
    marker = hashlib.blake2b(path.stem.encode(), digest_size=16, person=b"kanonflow sync").digest()
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, records, codec="deflate", sync_marker=marker)
    if "restricted" in path.parts:
        path.chmod(0o600)


def _range(name: str, kind: str) -> dict[str, Any]:
    ends = [{"name": end, "type": ["null", kind]} for end in ("min", "max")]
    return {"type": "record", "name": name, "fields": [*ends, {"name": "nulls", "type": "boolean"}]}


def _schema(windows: bool, *fields: tuple[str, Any]) -> dict[str, Any]:
    border: Any = TIMESTAMP if windows else ["null", TIMESTAMP]
    heads = [("release_id", "string"), ("window_start", border), ("window_end", border)]
    told = [{"name": name, "type": kind} for name, kind in (*heads, *fields)]
    return {"type": "record", "name": "Release", "fields": told}


def people() -> Run:
    """Day one: the class of a and b with two rows each, that of c and d with one each (a null city; d's age
    is above the domain). Day two: a's row, e's row and b's late row of day one; k = 2, so e and b's age
    range is shared by a. f's row has no time and was rejected."""

    def row(stem: str, first: int, last: int, ages: tuple[int, int], cities: list, *payload: Any) -> dict:
        box = {"min": ages[0], "max": ages[1], "nulls": False}
        head = {"release_id": stem, "window_start": FIRST + first * DAY, "window_end": FIRST + last * DAY}
        return head | {"age": box, "city": cities, "amount": payload[0], "ref": payload[1]}

    young, old, mixed = ((30, 40), ["Bonn", "Kiel"]), ((60, 120), [None, "Ulm"]), ((20, 40), ["Bonn", "Kiel"])
    return Run(
        policy=PEOPLE_POLICY,
        lines=list(PEOPLE),
        schema=_schema(
            True,
            ("age", _range("age_range", "int")),
            ("city", {"type": "array", "items": ["null", "string"]}),
            (
                "amount",
                ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            ),
            ("ref", ["null", "string"]),
        ),
        releases={
            "day1": [
                *(row("day1", 0, 1, *young, *cells) for cells in _cells(("1.50", "r3"), ("2.50", "r2"))),
                *(row("day1", 0, 1, *young, *cells) for cells in _cells(("1.50", "r1"), ("3.50", "r4"))),
                *(row("day1", 0, 1, *old, *cells) for cells in _cells(("5.00", "r6"), ("4.00", "r5"))),
            ],
            "day2": [
                row("day2", 0, 2, *mixed, *cells)
                for cells in _cells(("6.00", "r7"), ("7.00", "r8"), ("8.00", "r9"))
            ],
        },
        rejected=[
            (
                "bad_value",
                {
                    "who": "f",
                    "when": "not a time",
                    "age": "20",
                    "city": "Bonn",
                    "amount": "9.00",
                    "ref": "r10",
                },
            )
        ],
        numbers={"day1": 0, "day2": 1},
    )


def _cells(*cells: tuple[str, str]) -> list[tuple[Any, str]]:
    return [(Decimal(amount), ref) for amount, ref in cells]


def ring() -> Run:
    """Slot j has the records j and j + 1 modulo 4; the payload of each stands on the other one's slot."""
    slots = [
        (1.0, 3.0, ["red"]),
        (2.0, 4.0, ["blue", "red"]),
        (3.0, 5.0, ["blue"]),
        (1.0, 5.0, ["blue", "red"]),
    ]
    rows = [
        {
            "release_id": "whole",
            "window_start": None,
            "window_end": None,
            "x": {"min": low, "max": high, "nulls": False},
            "tint": tints,
            "note": f"n{(slot + 1) % 4 + 1}",
        }
        for slot, (low, high, tints) in enumerate(slots)
    ]
    return Run(
        policy=RING_POLICY,
        lines=list(RING),
        schema=_schema(
            False,
            ("x", _range("x_range", "double")),
            ("tint", {"type": "array", "items": ["null", "string"]}),
            ("note", ["null", "string"]),
        ),
        releases={"whole": rows},
    )
