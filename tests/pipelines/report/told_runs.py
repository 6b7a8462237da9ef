"""Directories of runs that never ran: metrics, releases and records made up, for what is told of them."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet

from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.release_format import SCHEMA_KEY

SCHEMAS = Path(__file__).parents[3] / "schemas"
FIRST = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
MODES: dict[str, dict[str, Any]] = {
    "lasting": {"protect": "individual", "cohort": "lasting"},
    "window": {"protect": "individual", "cohort": "window"},
    "row": {"protect": "row", "cohort": None},
}
PUBLIC = (
    *(
        "release_id",
        "policy",
        "window_start",
        "window_end",
        "k",
        "protect",
        "cohort",
        "epoch",
        "against",
        "publish_member",
        "publish_group",
        "values",
    ),
    *("rows_released", "rows_waiting", "rows_rejected", "waiting_reasons"),
    *("individuals", "classes", "gcp", "ncp"),
)
"""Written down here once more: what may be public."""


def exact_schema() -> dict[str, Any]:
    """That of metrics."""
    return json.loads((SCHEMAS / "metrics.avsc").read_text())


def public_schema() -> dict[str, Any]:
    """That of public ones, null allowed for what may be hidden."""
    schema = exact_schema()
    schema["fields"] = [field for field in schema["fields"] if field["name"] in PUBLIC]
    for field in schema["fields"]:
        if field["name"] in ("individuals", "classes"):
            field["type"] = ["null", "long"]
    return schema


def record(mode: str, number: int, draw: random.Random, **changes: Any) -> dict[str, Any]:
    """The metrics of the release of one day, drawn at random, with several reasons for waiting and rejecting."""
    defaults = {field["name"]: field["default"] for field in exact_schema()["fields"] if "default" in field}
    rows, people, k = draw.randrange(1000, 4000), draw.randrange(300, 900), 5
    waiting = {"too_few_peers": draw.randrange(50), "awaits_intake": draw.randrange(50)}
    told = {
        **defaults,
        **MODES[mode],
        "release_id": f"{number:032x}",
        "policy": "invented",
        "partition": "ab" * 16,
        "window_start": FIRST + number * DAY,
        "window_end": FIRST + (number + 1) * DAY,
        "release_no": 0,
        "released": True,
        "kind": "window",
        "k": k,
        "solver": "adaptive",
        "rows_new": rows,
        "rows_waited": 0,
        "rows_released": rows,
        "rows_waiting": sum(waiting.values()),
        "waiting_reasons": waiting,
        "rows_rejected": {"individual_over_limit": draw.randrange(9), "late": draw.randrange(9)},
        "individuals": people,
        "classes": people // k,
        "c_avg": rows / (people // k * k),
        "gcp": draw.random() / 10,
        "ncp": {"age": draw.random(), "city": draw.random()},
        "lower_bound": draw.random() / 100,
        "solve_ms": draw.random() * 1000,
        "publish_ms": draw.random() * 10,
        "candidates_min": k,
        "candidates_of_rows": {"5": rows - 300, "6": 200, "11": 100},
        "candidates_of_people": {"5": people - 30, "7": 30},
        "versions": {"kanonflow": "0.1.0", "numpy": "2.0", "secret": "1"},
    }
    if mode == "lasting":
        told |= {
            "epoch": "00000000000000ab",
            "epoch_candidates": {"minimum": 5, "mean": 5.5},
            "purchase_candidates": {
                "reader": "1 row by its window and amount to 1",
                "minimum": 1,
                "mean": 1 + draw.random(),
                "below_k": draw.random(),
                "alone": draw.random(),
            },
            "epoch_against": {
                "reader": "3 windows with rows",
                "below_k": number,
                "people": 400,
                "at_least": False,
            },
            "changed_before_entry": draw.randrange(4),
            "activity_candidates": {"minimum": 1, "mean": 4 + draw.random(), "below_k": draw.random()},
        }
    if mode == "window":
        told |= {"guaranteed_candidates": draw.randrange(1, 5)}
    if mode == "row":
        told |= {
            "classes": None,
            "c_avg": None,
            "linked_candidates": {"minimum": 1, "percentile_1": 1.0, "mean": 3.0, "share_one": 0.2},
        }
    return told | changes


def shown(exact: dict[str, Any]) -> dict[str, Any]:
    """What is public of it, as the pipeline would have it but for its thresholds."""
    told = {name: exact[name] for name in PUBLIC}
    told["gcp"] = None if exact["gcp"] is None else round(exact["gcp"], 3)
    told["ncp"] = {name: round(value, 3) for name, value in exact["ncp"].items()}
    for name in ("rows_rejected", "waiting_reasons"):
        told[name] = {reason: rows - rows % 10 for reason, rows in exact[name].items() if rows >= 10}
    told["rows_waiting"] = sum(told["waiting_reasons"].values())
    if exact["protect"] == "row":
        told["individuals"] = None
    return told


def write_run(
    folder: Path, records: list[dict[str, Any]], *, public: bool = True, releases: bool = True
) -> Path:
    """The directory of a run with these metrics; of releases each has two rows."""
    out = folder / "out"
    for name in ("release", "restricted/metrics", "restricted/rejected", *(["metrics"] if public else [])):
        (out / name).mkdir(parents=True, exist_ok=True)
    for exact in records:
        name = f"{exact['release_id']}.avro"
        write_avro(out / "restricted/metrics" / name, exact_schema(), [exact])
        if exact["released"] and public:
            write_avro(out / "metrics" / name, public_schema(), [shown(exact)])
        if exact["released"] and releases:
            write_avro(out / "release" / name, release_schema(), released_rows(exact))
    (out / "restricted").chmod(0o700)
    run = {
        "kanonflow": "0.1.0",
        "policy_name": "invented",
        "versions": {"numpy": "2.0"},
        "accepted_risks": {},
    }
    (out / "restricted/run.json").write_text(json.dumps(run))
    return out


def release_schema() -> dict[str, Any]:
    """An age as a range, a city as a set, a birthday as a range of days, an amount as it is."""
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    day = {"type": "int", "logicalType": "date"}

    def ends(name: str, kind: Any) -> dict[str, Any]:
        both = [{"name": end, "type": ["null", kind]} for end in ("min", "max")]
        return {"type": "record", "name": name, "fields": [*both, {"name": "nulls", "type": "boolean"}]}

    quasi = {"role": "quasi"}
    fields = [
        {"name": "release_id", "type": "string"},
        {"name": "window_start", "type": ["null", stamp]},
        {"name": "window_end", "type": ["null", stamp]},
        {
            "name": "age",
            "type": ends("age_range", "int"),
            "kanonflow": quasi | {"type": "numeric", "domain": ["0", "120"]},
        },
        {"name": "born", "type": ends("born_range", day), "kanonflow": quasi | {"type": "date"}},
        {
            "name": "city",
            "type": {"type": "array", "items": ["null", "string"]},
            "kanonflow": quasi | {"type": "categorical"},
        },
        {"name": "amount", "type": ["null", "double"], "kanonflow": {"role": "sensitive"}},
    ]
    told = {"k": 5, "protect": "individual", "policy": "invented"}
    return {
        "type": "record",
        "name": "Release",
        "namespace": "kanonflow",
        "fields": fields,
        "kanonflow": told,
    }


def released_rows(exact: dict[str, Any], rows: int = 2) -> list[dict[str, Any]]:
    """Rows whose widths are 0, 1, 2, ... years, so many days, and so many cities and one."""
    head = {name: exact[name] for name in ("release_id", "window_start", "window_end")}
    return [
        head
        | {
            "age": {"min": 30, "max": 30 + row, "nulls": False},
            "born": {"min": dt.date(1980, 1, 1), "max": dt.date(1980, 1, 1) + row * DAY, "nulls": False},
            "city": [f"city {number}" for number in range(row + 1)],
            "amount": float(row),
        }
        for row in range(rows)
    ]


def write_avro(path: Path, schema: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Readable by its owner only, as what is restricted must be."""
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)
    path.chmod(0o600)


def write_parquet(path: Path, schema: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """A release in the other format."""
    arrow = avro_to_arrow(schema).with_metadata({SCHEMA_KEY: json.dumps(schema)})
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, arrow), path, row_group_size=40)


def ninety(mode: str, windows: int = 90, seed: int = 1) -> list[dict[str, Any]]:
    """The metrics of so many days; the third released nothing."""
    draw = random.Random(seed)
    found = [record(mode, number, draw) for number in range(windows)]
    if windows > 2:
        nothing = {"released": False, "rows_released": 0, "individuals": 0, "gcp": None, "lower_bound": None}
        nothing |= {
            "classes": None,
            "c_avg": None,
            "ncp": {},
            "candidates_of_rows": {},
            "candidates_of_people": {},
        }
        nothing |= {
            "candidates_min": None,
            "epoch_candidates": None,
            "activity_candidates": None,
            "purchase_candidates": None,
        }
        found[2] |= nothing
    return found
