"""Reading the files of a run's releases, and what each of them must satisfy by itself."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from kanonflow.pipelines.audit.boxes import BoxBook
from kanonflow.pipelines.audit.header import header_faults, used_up
from kanonflow.pipelines.audit.order import check_order
from kanonflow.pipelines.audit.read_input import avro_records
from kanonflow.pipelines.audit.released_groups import ReleasedGroups, all_groups, groups_of_file
from kanonflow.pipelines.audit.report import Findings
from kanonflow.pipelines.audit.values import CodeBook, read_object
from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.avro_schema import PROPERTY, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_fields import Role

_NEVER = (Role.INDIVIDUAL, Role.IDENTIFIER, Role.EVENT_ID, Role.TIME)


@dataclass(frozen=True)
class ReleaseHead:
    """One release. ``start``, ``end``: its windows in milliseconds since 1970 UTC, None without windows; with cohorts
    that last, those of all of its groups until the metrics say when it was made. ``partition``: codes of the partition
    fields. ``epoch``: 16 hexadecimal digits, None where it names none."""

    release_id: str
    start: int | None
    end: int | None
    partition: tuple[int, ...]
    epoch: str | None = None


@dataclass(frozen=True)
class ReleasedRows:
    """All rows of all releases. ``heads``: the releases; ``release`` int32 (m,): index into them; ``boxes``
    int32 (m, d): number of the box of each quasi-identifier; ``payload`` int32 (m, p): codes of the payload
    fields, in the bound policy's payload order. ``unread``: files that could not be read as releases. ``groups``: with
    cohorts that last."""

    heads: tuple[ReleaseHead, ...]
    release: np.ndarray
    boxes: np.ndarray
    payload: np.ndarray
    unread: int
    groups: ReleasedGroups | None = None


def read_releases(
    folder: Path,
    bound: BoundPolicy,
    box_books: Sequence[BoxBook],
    payload_books: Sequence[CodeBook],
    findings: Findings,
) -> ReleasedRows:
    """Read ``folder``/*.avro, and note what is wrong with a file by itself.

    Checked: nothing but releases lies there; the schema is the one the policy and the input give, above all
    without an individual, identifier, event id or exact time; header and blocks hold nothing else; every row
    names its file's release and window (with cohorts that last, its group's);
    the window is one of the policy's; rows agree in the partition, and stand in the order of what they publish;
    boxes are well formed and within the declared domains. Raises InputError when there is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; --release takes the directory that a run wrote to")
    strangers = [path for path in folder.iterdir() if not _is_release(path)]
    if strangers:
        findings.add(f"release/ holds {len(strangers)} entries that are not releases (folders, hidden files)")
    payload_names = [column.published_name for column in bound.payload]
    schema = release_avro_schema(bound)
    epochs: set[str | None] = set()
    heads: list[ReleaseHead] = []
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    groups: list[ReleasedGroups] = []
    unread = 0
    for path in sorted(folder.iterdir()):
        if not _is_release(path):
            continue
        if not _check_schema(path, bound, findings):
            unread += 1
            continue
        try:
            rows, whole = used_up(path)
        except OSError:
            raise
        except Exception:  # whatever the decoder trips over, the file is damaged
            findings.add("a damaged Avro file", path.stem)
            unread += 1
            continue
        epoch = _epoch_of(path) if bound.policy.lasting else None
        epochs.add(epoch)
        for fault in header_faults(path, _of_epoch(schema, epoch)):
            findings.add(fault, path.stem)
        if not whole:
            findings.add("bytes behind a block's rows", path.stem)
        if not rows:
            findings.add("a release without rows", path.stem)
            continue
        boxes = _boxes(path, rows, bound, box_books, findings)
        payload = _columns(
            [
                book.codes_of_objects([row[name] for row in rows], len(rows))
                for book, name in zip(payload_books, payload_names, strict=True)
            ],
            len(rows),
        )
        check_order(path.stem, rows, bound, findings)
        head = _head(path, rows, payload, bound, findings)
        if bound.policy.lasting:
            groups.append(groups_of_file(path.stem, rows, boxes, bound.policy, findings))
            head = replace(
                head, start=int(groups[-1].start.min()), end=int(groups[-1].end.max()), epoch=epoch
            )
        heads.append(head)
        parts.append((boxes, payload))
    if bound.policy.lasting and None in epochs:
        findings.add("a release that names no epoch")
    if len(epochs - {None}) > 1:
        findings.add("releases of several epochs: nothing is promised over all of them")
    return ReleasedRows(
        heads=tuple(heads),
        release=np.repeat(np.arange(len(parts), dtype=np.int32), [len(boxes) for boxes, _ in parts]),
        boxes=np.concatenate([boxes for boxes, _ in parts] or [np.zeros((0, len(box_books)), np.int32)]),
        payload=np.concatenate(
            [cells for _, cells in parts] or [np.zeros((0, len(payload_books)), np.int32)]
        ),
        unread=unread,
        groups=all_groups(groups, len(box_books), findings) if bound.policy.lasting else None,
    )


def check_slots(heads: Sequence[ReleaseHead], metrics_folder: Path, findings: Findings) -> None:
    """No release slot may be used twice.

    A slot is (partition, window end, number of the part). The number is only in the restricted metrics: two
    releases of a partition with the same window end pass if those give them different numbers. Without metrics no
    window may have two releases.
    """
    numbers = {}
    for path in metrics_folder.glob("*.avro"):
        for record in avro_records(path):
            if record.get("released", True):
                numbers[record.get("release_id")] = record.get("release_no")
    ends: dict[tuple[Any, ...], list[str]] = {}
    for head in heads:
        ends.setdefault((head.partition, head.end), []).append(head.release_id)
    for same in ends.values():
        known = {numbers.get(release_id) for release_id in same}
        if len(same) > 1 and (None in known or len(known) < len(same)):
            findings.add("one window of a partition was released more than once", same[1])


def _is_release(path: Path) -> bool:
    return path.is_file() and path.suffix == ".avro" and not path.name.startswith(".")


def _check_schema(path: Path, bound: BoundPolicy, findings: Findings) -> bool:
    """Whether the file has every field that the policy says, in the type it says."""
    with path.open("rb") as stream:
        try:
            written = fastavro.reader(stream).writer_schema
        except OSError:
            raise
        except Exception:  # whatever the decoder trips over, the header is not one
            findings.add("not an Avro file", path.stem)
            return False
    expected = dict(_fields(release_avro_schema(bound)))
    found = dict(_fields(written))
    for field in bound.policy.fields:
        hidden = field.role in _NEVER and field.quasi is None
        if hidden and avro_name(field.name) in found:
            findings.add(f"field {field.name} has role {field.role} and is published", path.stem)
    extra = [name for name in found if name not in expected]
    if extra:
        findings.add(f"fields that the policy does not publish: {', '.join(sorted(extra))}", path.stem)
    missing = [name for name in expected if name not in found]
    if missing:
        findings.add(f"fields that the policy publishes are missing: {', '.join(missing)}", path.stem)
    other = [name for name in expected if name in found and found[name] != expected[name]]
    if other:
        findings.add(
            f"fields of another type than the policy and the input say: {', '.join(other)}", path.stem
        )
    return not missing and not other


def _epoch_of(path: Path) -> str | None:
    """The epoch that a release names among its properties; None: it names none, or something else in its place."""
    with path.open("rb") as stream:
        schema = fastavro.reader(stream).writer_schema
    told = schema.get(PROPERTY) if isinstance(schema, Mapping) else None
    epoch = told.get("epoch") if isinstance(told, Mapping) else None
    return epoch if isinstance(epoch, str) and re.fullmatch("[0-9a-f]{16}", epoch) else None


def _of_epoch(schema: Mapping[str, Any], epoch: str | None) -> Mapping[str, Any]:
    """The schema that the policy gives, with the epoch that a release names."""
    return schema if epoch is None else {**schema, PROPERTY: {**schema[PROPERTY], "epoch": epoch}}


def _fields(schema: Any) -> Iterator[tuple[str, Any]]:
    for field in schema.get("fields", ()) if isinstance(schema, Mapping) else ():
        yield field["name"], _shape(field["type"])


def _shape(kind: Any) -> Any:
    """An Avro type without names of types, documentation and properties of our own."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, Sequence):
        return tuple(_shape(branch) for branch in kind)
    if kind["type"] == "record":
        return "record", tuple(_fields(kind))
    if kind["type"] == "array":
        return "array", _shape(kind["items"])
    logical = tuple(kind.get(key) for key in ("logicalType", "precision", "scale"))
    return (kind["type"], *logical) if any(part is not None for part in logical) else _shape(kind["type"])


def _boxes(
    path: Path,
    rows: list[dict[str, Any]],
    bound: BoundPolicy,
    books: Sequence[BoxBook],
    findings: Findings,
) -> np.ndarray:
    columns = []
    for book, column in zip(books, bound.quasis, strict=True):
        name = column.published_name
        numbers = book.numbers([row[name] for row in rows])
        for fault in book.faults(numbers):
            findings.add(f"field {column.name}: {fault}", path.stem)
        columns.append(numbers)
    return _columns(columns, len(rows))


def _columns(columns: list[np.ndarray], count: int) -> np.ndarray:
    return np.column_stack(columns) if columns else np.zeros((count, 0), np.int32)


def _head(
    path: Path, rows: list[dict[str, Any]], payload: np.ndarray, bound: BoundPolicy, findings: Findings
) -> ReleaseHead:
    told = {(row["release_id"], row["window_start"], row["window_end"]) for row in rows}
    if {release_id for release_id, _, _ in told} != {path.stem}:
        findings.add("the file's name is not the id of the release in its rows", path.stem)
    lasting = bound.policy.lasting
    if not lasting and len({(start, end) for _, start, end in told}) > 1:
        findings.add("rows of one release name different windows", path.stem)
    partitions = len(bound.policy.partition_by)
    if len(np.unique(payload[:, :partitions], axis=0)) > 1:
        findings.add("one release holds rows of several partitions", path.stem)
    start, end = (read_object(rows[0][name], MILLISECONDS) for name in ("window_start", "window_end"))
    if not lasting and not _is_window(start, end, bound):
        findings.add("the release's window is none of the policy's", path.stem)
    return ReleaseHead(path.stem, start, end, tuple(payload[0, :partitions].tolist()))


def _is_window(start: int | None, end: int | None, bound: BoundPolicy) -> bool:
    """Whether start and end are borders of the policy's windows, no further apart than max_delay allows."""
    policy = bound.policy
    if policy.window_ms is None:
        return start is None and end is None
    if start is None or end is None:
        return False
    aligned = all((border - policy.window_offset_ms) % policy.window_ms == 0 for border in (start, end))
    return aligned and policy.window_ms <= end - start <= policy.window_ms + policy.max_delay_ms
