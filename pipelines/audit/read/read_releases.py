"""Reading the files of a run's releases, and what each of them must satisfy by itself."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.files.avro_cells import Cells
from kanonflow.pipelines.audit.files.release_files import (
    ReleaseFile,
    is_release,
    release_reader,
)
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.order import check_order
from kanonflow.pipelines.audit.read.read_input import told_metrics
from kanonflow.pipelines.audit.read.released_groups import ReleasedGroups, all_groups, groups_of_file
from kanonflow.pipelines.audit.read.values import CodeBook, read_object
from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.lasting_policy import there
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Role

_NEVER = (Role.INDIVIDUAL, Role.IDENTIFIER, Role.EVENT_ID, Role.TIME)


@dataclass(frozen=True)
class ReleaseHead:
    """One release. ``start``, ``end``: its windows in milliseconds since 1970 UTC, None without windows; with cohorts
    that last, those of all of its groups until the metrics say when it was made. ``partition``: codes of the partition
    fields; ``part``: of those that windows are split by. ``epoch``: 16 hexadecimal digits, None where it names none.
    ``place``: of its run in a chain of runs; ``closing``: whether it took the rows that were older than the clock that
    run began with; the metrics tell both."""

    release_id: str
    start: int | None
    end: int | None
    partition: tuple[int, ...]
    epoch: str | None = None
    place: int = 0
    closing: bool = False
    part: tuple[int, ...] = ()

    @property
    def turn(self) -> tuple[int, int, bool]:
        """In which order a partition's releases were made: of one window's end the closing one first."""
        return self.place, self.end or 0, not self.closing


def release_ends(heads: Sequence[ReleaseHead]) -> np.ndarray:
    """When each release of cohorts that last was made, int64 (releases,), ms. Raises LookupError: one tells none."""
    return np.array([there(head.end) for head in heads], np.int64)


def seen_until(heads: Sequence[ReleaseHead]) -> np.ndarray:
    """Up to which window's end a release may have known of rows, int64 (releases,), ms: its own. Of a later run of a
    chain there is no such end: a file of a run before it may have held rows of any window. Raises LookupError."""
    later = np.array([head.place > 0 for head in heads], bool)
    return np.where(later, np.iinfo(np.int64).max, release_ends(heads))


def release_ids(heads: Sequence[ReleaseHead], numbers: np.ndarray) -> list[str]:
    """The ids of releases, each once, by their numbers, int (m,)."""
    return [heads[number].release_id for number in np.unique(numbers)]


@dataclass(frozen=True)
class ReleasedRows:
    """All rows of all releases. ``heads``: the releases; ``release`` int32 (m,): index into them; ``boxes``
    int32 (m, d): number of the box of each quasi-identifier; ``payload`` int32 (m, p): codes of the payload
    fields, in the bound policy's payload order. ``elsewhere``: other versions of pyarrow that wrote some of them.
    ``unread``: files that could not be read as releases. ``groups``: with
    cohorts that last."""

    heads: tuple[ReleaseHead, ...]
    release: np.ndarray
    boxes: np.ndarray
    payload: np.ndarray
    unread: int
    groups: ReleasedGroups | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def of_groups(self) -> ReleasedGroups:
        """``groups``. Raises LookupError: rows name none."""
        return there(self.groups)


def read_releases(
    folder: Path,
    bound: BoundPolicy,
    box_books: Sequence[BoxBook],
    payload_books: Sequence[CodeBook],
    findings: Findings,
) -> ReleasedRows:
    """Read the Avro or Parquet files in ``folder``, and note what is wrong with a file by itself.

    Checked: nothing but releases lies there, of one format; the schema is the one the policy and the input give, above
    all without an individual, identifier, event id or exact time; a file holds nothing else beside its rows; every row
    names its file's release and window (with cohorts that last, its group's);
    the window is one of the policy's; rows agree in the partition, and stand in the order of what they publish;
    boxes are well formed and within the declared domains. Raises InputError when there is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; --release takes the directory that a run wrote to")
    strangers = [path for path in folder.iterdir() if not is_release(path)]
    if strangers:
        findings.add(f"release/ holds {len(strangers)} entries that are not releases (folders, hidden files)")
    payload_names = [column.published_name for column in bound.payload]
    formats: set[str] = set()
    epochs: set[str | None] = set()
    elsewhere: set[str] = set()
    heads: list[ReleaseHead] = []
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    naming: OneWindow | OwnGroups = (OwnGroups if bound.policy.promise.group_columns else OneWindow)(
        bound.policy
    )
    unread = 0
    for path in sorted(folder.iterdir()):
        if not is_release(path):
            continue
        formats.add(path.suffix)
        file = release_reader(path)
        if not _check_schema(file, path.stem, bound, findings):
            unread += 1
            continue
        try:
            columns, whole = file.columns()
            epoch = naming.epoch(file, findings)
            faults = list(file.faults(bound, epoch))
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            if isinstance(error, OSError) and error.errno:
                raise
            findings.add(f"a damaged {file.kind} file", path.stem)
            unread += 1
            continue
        epochs.add(epoch)
        elsewhere.update(filter(None, [file.elsewhere()]))
        for fault in faults:
            findings.add(fault, path.stem)
        if not whole:
            findings.add("bytes behind a block's rows", path.stem)
        if not columns or not (count := len(columns["release_id"].place)):
            findings.add("a release without rows", path.stem)
            continue
        boxes = _boxes(path, columns, bound, box_books, findings)
        cells = zip(payload_books, map(columns.__getitem__, payload_names), strict=True)
        payload = _columns([book.codes_of_objects(each.values)[each.place] for book, each in cells], count)
        check_order(path.stem, columns, bound, findings)
        head = _head(path, columns, payload, bound, findings)
        heads.append(naming.named(replace(head, epoch=epoch), columns, boxes, findings))
        parts.append((boxes, payload))
    if len(formats) > 1:
        findings.add("releases of several formats, where a run has one")
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
        groups=naming.groups(len(box_books), findings),
        elsewhere=tuple(sorted(elsewhere)),
    )


def check_slots(
    heads: Sequence[ReleaseHead], metrics_folder: Path, findings: Findings, shards: Collection[str] = ()
) -> None:
    """No release slot may be used twice. shards: the keys of all of them.

    A slot is (partition, its shard if it has some, place of the run in its chain, closing or not, window end, number of
    the part). The number is only in the restricted metrics:
    two releases that agree in the rest pass if those give them different numbers.
    Without metrics no window may have two releases, but for those of a window that is split (``split_by``): these are
    of one value each, and of none there are two.
    """
    metrics = told_metrics(metrics_folder)
    numbers = {name: told.get("release_no") for name, told in metrics.items()}
    ends: dict[tuple[Any, ...], list[str]] = {}
    parts: dict[tuple[Any, ...], str] = {}
    for head in heads:
        key = metrics.get(head.release_id, {}).get("partition")
        shard = key if key in shards else None
        place = (head.partition, shard, *head.turn)
        if head.part and parts.setdefault((*place, head.part), head.release_id) != head.release_id:
            findings.add("one part of a window was released more than once", head.release_id)
        # Without a number a part is told by its values.
        unnumbered = head.part if numbers.get(head.release_id) is None else ()
        ends.setdefault((*place, unnumbered), []).append(head.release_id)
    for same in ends.values():
        known = {numbers.get(release_id) for release_id in same}
        if len(same) > 1 and (None in known or len(known) < len(same)):
            findings.add("one window of a partition was released more than once", same[1])


def _check_schema(file: ReleaseFile, name: str, bound: BoundPolicy, findings: Findings) -> bool:
    """Whether the file has every field that the policy says, in the type it says."""
    try:
        fields = file.fields()
    except OSError as error:
        if error.errno:
            raise
        findings.add(
            f"not {file.article} {file.kind} file", name
        )  # Arrow says OSError of what it cannot decode
        return False
    except Exception:  # whatever the decoder trips over, the header is not one
        findings.add(f"not {file.article} {file.kind} file", name)
        return False
    expected, found = dict(file.expected(bound)), dict(fields)
    for field in bound.policy.fields:
        hidden = field.role in _NEVER and field.quasi is None
        if hidden and avro_name(field.name) in found:
            findings.add(f"field {field.name} has role {field.role} and is published", name)
    extra = [each for each in found if each not in expected]
    if extra:
        findings.add(f"fields that the policy does not publish: {', '.join(sorted(extra))}", name)
    missing = [each for each in expected if each not in found]
    if missing:
        findings.add(f"fields that the policy publishes are missing: {', '.join(missing)}", name)
    other = [each for each in expected if each in found and found[each] != expected[each]]
    if other:
        findings.add(f"fields of another type than the policy and the input say: {', '.join(other)}", name)
    if twice := len(fields) - len(found):
        findings.add(f"{twice} fields that stand there twice", name)
    return not missing and not other and not twice


def _boxes(
    path: Path,
    columns: Mapping[str, Cells],
    bound: BoundPolicy,
    books: Sequence[BoxBook],
    findings: Findings,
) -> np.ndarray:
    boxes = []
    for book, column in zip(books, bound.quasis, strict=True):
        values, place = columns[column.published_name]
        numbers = book.numbers(values)
        for fault in book.faults(numbers):
            findings.add(f"field {column.name}: {fault}", path.stem)
        boxes.append(numbers[place])
    return _columns(boxes, len(columns["release_id"].place))


def _columns(columns: list[np.ndarray], count: int) -> np.ndarray:
    return np.column_stack(columns) if columns else np.zeros((count, 0), np.int32)


def _head(
    path: Path, columns: Mapping[str, Cells], payload: np.ndarray, bound: BoundPolicy, findings: Findings
) -> ReleaseHead:
    if set(columns["release_id"].values) != {path.stem}:
        findings.add("the file's name is not the id of the release in its rows", path.stem)
    partitions, values = len(bound.policy.partition_by), len(bound.policy.release_by)
    if len(np.unique(payload[:, :partitions], axis=0)) > 1:
        findings.add("one release holds rows of several partitions", path.stem)
    elif len(np.unique(payload[:, :values], axis=0)) > 1:
        findings.add("one release holds rows of several parts of a window (split_by)", path.stem)
    borders = (columns[name] for name in ("window_start", "window_end"))
    start, end = (read_object(each.values[each.place[0]], MILLISECONDS) for each in borders)
    partition, part = (
        tuple(payload[0, own].tolist()) for own in (slice(partitions), slice(partitions, values))
    )
    return ReleaseHead(path.stem, start, end, partition, part=part)


class OneWindow:
    """All rows of a release name one window, and it is one of the policy's."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def epoch(self, file: ReleaseFile, findings: Findings) -> str | None:
        """The epoch that a release has to name."""
        return None

    def named(
        self, head: ReleaseHead, columns: Mapping[str, Cells], boxes: np.ndarray, findings: Findings
    ) -> ReleaseHead:
        """The head with what the rows of its release tell of time; noted is what is wrong with that."""
        if any(len(set(columns[name].values)) > 1 for name in ("window_start", "window_end")):
            findings.add("rows of one release name different windows", head.release_id)
        if not self._is_window(head.start, head.end):
            findings.add("the release's window is none of the policy's", head.release_id)
        return head

    def groups(self, fields: int, findings: Findings) -> ReleasedGroups | None:
        """The groups that rows name, of all releases."""
        return None

    def _is_window(self, start: int | None, end: int | None) -> bool:
        """Whether start and end are borders of the policy's windows, no further apart than max_delay allows."""
        policy = self._policy
        if policy.window_ms is None:
            return start is None and end is None
        if start is None or end is None:
            return False
        aligned = all((border - policy.window_offset_ms) % policy.window_ms == 0 for border in (start, end))
        return aligned and policy.window_ms <= end - start <= policy.window_ms + policy.max_delay_ms


class OwnGroups(OneWindow):
    """Each row names its group and the window of that, and the release an epoch."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._groups: list[ReleasedGroups] = []

    def epoch(self, file: ReleaseFile, findings: Findings) -> str | None:
        """As of ``OneWindow``."""
        if (epoch := file.epoch()) is None:
            findings.add("a release that names no epoch")
        return epoch

    def named(
        self, head: ReleaseHead, columns: Mapping[str, Cells], boxes: np.ndarray, findings: Findings
    ) -> ReleaseHead:
        """As of ``OneWindow``."""
        own = groups_of_file(head.release_id, columns, boxes, self._policy, findings)
        self._groups.append(own)
        return replace(head, start=int(own.start.min()), end=int(own.end.max()))

    def groups(self, fields: int, findings: Findings) -> ReleasedGroups | None:
        """As of ``OneWindow``."""
        return all_groups(self._groups, fields, findings)
