"""Metrics against the releases that they speak of, and who may read what lies in the run's directory.

Of the exact metrics what can be counted from outside is counted: rows, window, k, promise, classes, and whether the
ledger of each release adds up. Losses and times are not. Public metrics are there if the policy says so, one for each
exact record, and hold nothing of it that the packaged schema withholds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.files.header import header_faults
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_input import avro_records, metrics_records
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.pipelines.audit.read.values import read_object
from kanonflow.schemas.avro_schema import metrics_schema
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import MetricsAccess, Policy
from kanonflow.schemas.promises.promises import promise_of
from kanonflow.schemas.settled_releases import Settled, settled_releases, version_name

_DIGITS = 3
_PUBLIC_DOC = "What may be known of a release beside its rows."
_WITHHELD = "release_conflict"
_LEDGER = ("rows_new", "rows_waited", "rows_released", "rows_waiting", "rows_rejected")


def check_metrics(
    folder: Path,
    policy: Policy,
    heads: Sequence[ReleaseHead],
    rows: np.ndarray,
    boxes: np.ndarray,
    may_count: Callable[[int | None, int], bool],
    findings: Findings,
    *,
    waiting: bool,
) -> bool:
    """Hold the metrics in ``folder``/restricted/metrics against the releases; whether there are any.

    rows, boxes: int64 (releases,), rows of each release and distinct boxes among them (with cohorts that last, groups,
    of which each is a class). may_count: whether they may tell so many classes of so many boxes.
    waiting: the run goes on, and of its last releases the file or the metrics may still be on their way.
    """
    told: dict[str, Mapping[str, Any]] = {}
    for each in metrics_records(folder / "restricted/metrics"):
        # Of an id under which one release was published and another withheld, the published one's record.
        if each.get("released", True) or each["release_id"] not in told:
            told[each["release_id"]] = each
        if not each.get("released", True) and _does_not_add_up(each):
            findings.add("the metrics of a window without a release tell a ledger that does not add up")
    if not told:
        return False
    for number, head in enumerate(heads):
        record = told.get(head.release_id)
        if record is None:
            if not waiting:
                findings.add("a release without metrics", head.release_id)
            continue
        for fault in _record_faults(record, policy, head, int(rows[number])):
            findings.add(f"its metrics tell {fault}", head.release_id)
        if "classes" in record and not may_count(record["classes"], int(boxes[number])):
            findings.add("its metrics tell another number of classes than there are boxes", head.release_id)
    names = {head.release_id for head in heads}
    strangers = [name for name, each in told.items() if each.get("released") and name not in names]
    if strangers and not waiting:
        findings.add(f"{len(strangers)} metrics of releases that are not there", *strangers)
    return True


def _record_faults(record: Mapping[str, Any], policy: Policy, head: ReleaseHead, rows: int) -> Iterator[str]:
    """What a metrics record says that the release or the policy does not; fields that it lacks are not judged."""
    expected = {
        "policy": policy.name,
        "k": policy.k,
        "protect": str(policy.protect),
        "cohort": None if policy.cohort is None else str(policy.cohort),
        "rows_released": rows,
        "released": True,
    }
    if not policy.owner:
        expected["individuals"] = rows
    for name, right in expected.items():
        if name in record and record[name] != right:
            yield f"another {name}"
    ends = {"window_start": head.start, "window_end": head.end}
    for name, end in ends.items():
        there = read_object(record.get(name), MILLISECONDS)
        if name in record and there != end:
            yield f"another {name}"
    if _does_not_add_up(record):
        yield "a ledger that does not add up"


def _does_not_add_up(record: Mapping[str, Any]) -> bool:
    if not all(name in record for name in _LEDGER):
        return False
    left = record["rows_released"] + record["rows_waiting"] + sum(record["rows_rejected"].values())
    return bool(record["rows_new"] + record["rows_waited"] != left)


def told_settled(restricted: Path) -> Settled:
    """The releases that the metrics tell of as published, or as withheld and since settled, and the wrong lines."""
    parked = frozenset(path.name for path in (restricted / "parked").glob("*"))
    return settled_releases(
        metrics_records(restricted / "metrics"), parked, ended=(restricted / "ended").exists()
    )


def told_withheld(metrics: Path, settled: Settled) -> int | None:
    """Rows that the metrics tell of as withheld, without those of releases that are settled; None: no metrics.

    Records of builds that did not tell are not asked.
    """
    told: dict[str, int] = {}
    records = list(metrics_records(metrics))
    if not any("digest" in record for record in records):
        return None
    for record in records:
        name = version_name(record["release_id"], str(record.get("digest")))
        if record.get("digest") and not record.get("released", True) and name not in settled.releases:
            told[name] = record["rows_rejected"].get(_WITHHELD, 0)
    return sum(told.values())


def check_public_metrics(folder: Path, policy: Policy, findings: Findings, *, waiting: bool) -> None:
    """``folder``/metrics exists if the policy says so, with one file for each released window, and withholds the rest.

    What may be shown is what metrics.avsc says in each field's property ``public``.
    """
    public = folder / "metrics"
    if policy.metrics is not MetricsAccess.PUBLIC:
        if public.exists():
            findings.add("metrics/ lies beside the releases, and the policy does not make metrics public")
        return
    exact = {path.stem: path for path in (folder / "restricted/metrics").glob("*.avro")}
    if not public.is_dir():
        if exact:
            findings.add("metrics/ is missing, and the policy makes metrics public")
        return
    entries = list(public.iterdir())
    shown = {path.stem for path in entries if path.suffix == ".avro" and not path.name.startswith(".")}
    if len(entries) > len(shown):
        findings.add(f"metrics/ holds {len(entries) - len(shown)} entries that are no metrics")
    packaged = metrics_schema()
    schema = public_schema(packaged)
    for name in sorted(shown):
        for fault in header_faults(public / f"{name}.avro", schema):
            findings.add(f"public metrics: {fault}", name)
    for name, path in exact.items():
        (record,) = list(avro_records(path)) or ({},)
        if name in shown:
            for fault in _shown_faults(public / f"{name}.avro", record, packaged):
                findings.add(f"public metrics: {fault}", name)
        elif record.get("released", True) and not waiting:
            findings.add("a release without public metrics", name)
    if exact and shown - set(exact):
        findings.add("public metrics of what has no exact ones", *sorted(shown - set(exact)))


def public_schema(packaged: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of public metrics, by the property ``public`` of the packaged one's fields."""
    fields = []
    for field in packaged["fields"]:
        how = field.get("public", "withheld")
        if how == "withheld":
            continue
        kept = {name: value for name, value in field.items() if name not in ("public_from", "of")}
        if how == "count":
            kept |= {"type": ["null", "long"], "default": None}
        fields.append(kept)
    return {**packaged, "doc": _PUBLIC_DOC, "fields": fields}


def _shown_faults(path: Path, exact: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """What a public record says that the exact one, rounded as the schema says, does not."""
    try:
        records = list(avro_records(path))
    except InputError:
        yield "a damaged Avro file"
        return
    if len(records) != 1:
        yield "not one record"
    for field in schema["fields"] if len(records) == 1 else ():
        name = field["name"]
        source = field.get("public_from", name)
        if name not in records[0] or source not in exact:
            continue
        told, right = records[0][name], exact[source]
        if field.get("public") == "as_is" and told != right:
            yield f"another {name} than the exact ones"
        if field.get("public") == "count" and told != (right if _may_be_counted(exact) else None):
            yield f"another {name} than the exact ones"
        if field.get("public") == "rounded" and told != _rounded(right):
            yield f"another {name} than the exact ones, rounded to {_DIGITS} digits"


def _may_be_counted(exact: Mapping[str, Any]) -> bool:
    """Whether no row of a release may be one that somebody has beyond what others have."""
    of_people = promise_of(exact["protect"], exact.get("cohort")).of_people
    return bool(of_people and exact["individuals"] >= exact["k"])


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: round(each, _DIGITS) for name, each in value.items()}
    return None if value is None else round(value, _DIGITS)


def check_modes(folder: Path, findings: Findings) -> None:
    """What lies in ``folder``/restricted is for its owner only. What a closed folder holds is, whatever its own mode.

    Folders above are no matter: a run's directory is copied and moved, and they do not go with it.
    """
    root = folder / "restricted"
    if not root.exists():
        return
    open_places = list(_open_below(root))
    if open_places:
        secret = " (the secret among them)" if root / "secret" in open_places else ""
        findings.add(f"restricted/ is open to others than its owner in {len(open_places)} places{secret}")


def _open_below(folder: Path) -> Iterator[Path]:
    """The folder and what lies in it, as far as others than the owner can do anything there."""
    if not stat.S_IMODE(os.stat(folder).st_mode) & 0o077:
        return
    yield folder
    for entry in os.scandir(folder):
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _open_below(path)
        elif path.exists() and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            yield path
