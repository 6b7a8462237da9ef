"""The groups of releases of cohorts that last: rows that carry one ``class_id``, one box and one time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.files.avro_cells import Cells
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.values import read_object
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.policy import Policy


@dataclass(frozen=True)
class ReleasedGroups:
    """g groups, release after release.

    release: int32 (g,), ascending. number: int64 (g,), the class_id. start, end: int64 (g,), ms. boxes: int32 (g, d),
    number of the box of each quasi-identifier. of_row: int32 (m,), the group of each released row.
    member: uint64 (m,), the number of each row's person; ids, people: uint64 (g,) and int64 (g,), of each group
    over the epoch. None: the policy publishes none.
    """

    release: np.ndarray
    number: np.ndarray
    start: np.ndarray
    end: np.ndarray
    boxes: np.ndarray
    of_row: np.ndarray
    member: np.ndarray | None = None
    ids: np.ndarray | None = None
    people: np.ndarray | None = None


def groups_of_file(
    name: str, columns: Mapping[str, Cells], boxes: np.ndarray, policy: Policy, findings: Findings
) -> ReleasedGroups:
    """The groups of one release, as release 0. boxes: int32 (m, d), of its rows. O(m d).

    Noted: rows of a group that differ in box or time, and times that are none of the policy's windows.
    """
    start, end = (
        np.array([read_object(each, MILLISECONDS) for each in columns[border].values], np.int64)[
            columns[border].place
        ]
        for border in ("window_start", "window_end")
    )
    told = np.array(columns["class_id"].values, np.int64)[columns["class_id"].place]
    number, first, of_row = np.unique(told, return_index=True, return_inverse=True)
    stray = np.any(boxes != boxes[first][of_row], axis=1)
    if stray.any():
        findings.add(f"{len(np.unique(told[stray]))} groups whose rows have different boxes", name)
    stray = (start != start[first][of_row]) | (end != end[first][of_row])
    if stray.any():
        findings.add(f"{len(np.unique(told[stray]))} groups whose rows name different windows", name)
    wrong = ~_are_windows(start[first], end[first], policy)
    if wrong.any():
        findings.add(f"{int(wrong.sum())} groups with a window that is none of the policy's", name)
    release = np.zeros(len(first), np.int32)
    member = None
    if (published := policy.publish_member) is not None:
        member = _hex_numbers(name, columns[published.name], published.name, findings)
    followed = [
        _of_groups(name, column, columns[column], (first, of_row), findings)
        for column in (policy.publish_group.columns if policy.publish_group is not None else ())
    ]
    own = of_row.astype(np.int32)
    return ReleasedGroups(release, number, start[first], end[first], boxes[first], own, member, *followed)


def _hex_numbers(release: str, cells: Cells, name: str, findings: Findings) -> np.ndarray:
    """Numbers of 16 hex digits, uint64 (m,); 0 of what is none, which is noted."""
    odd = np.array([re.fullmatch("[0-9a-f]{16}", str(cell)) is None for cell in cells.values], bool)
    if odd.any():
        findings.add(f"field {name}: {int(odd[cells.place].sum())} cells that are no 16 hex digits", release)
    numbers = [0 if wrong else int(str(cell), 16) for cell, wrong in zip(cells.values, odd, strict=True)]
    return np.array(numbers, np.uint64)[cells.place]


def _of_groups(
    release: str, column: str, cells: Cells, groups: tuple[np.ndarray, np.ndarray], findings: Findings
) -> np.ndarray:
    """What a column says of each group, (g,); rows of a group that differ are noted. groups: a row of each, int64 (g,),
    and the group of each row, int64 (m,)."""
    first, of_row = groups
    if isinstance(cells.values[0], int):
        cell = np.array(cells.values, np.int64)[cells.place]
    else:
        cell = _hex_numbers(release, cells, column, findings)
    stray = np.unique(of_row[cell != cell[first][of_row]])
    if len(stray):
        findings.add(f"field {column}: {len(stray)} groups whose rows differ", release)
    return cell[first]


def _are_windows(start: np.ndarray, end: np.ndarray, policy: Policy) -> np.ndarray:
    """Whether borders are borders of the policy's windows. How far apart they may be hangs on when, and for which rows,
    the release was made (lasting.py)."""
    size = policy.cohorts.window_ms
    aligned = ((start - policy.window_offset_ms) % size == 0) & ((end - policy.window_offset_ms) % size == 0)
    return aligned & (end - start >= size)


def _joined(members: Sequence[np.ndarray | None]) -> np.ndarray | None:
    own = [each for each in members if each is not None]
    return np.concatenate(own) if own else None


def all_groups(parts: Sequence[ReleasedGroups], fields: int, findings: Findings) -> ReleasedGroups:
    """The groups of all releases. Noted: a class_id that stands in several releases, which links its groups."""
    empty = np.zeros(0, np.int64)
    counts = [len(part.number) for part in parts]
    offsets = np.cumsum([0, *counts])
    groups = ReleasedGroups(
        release=np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        number=np.concatenate([empty, *(part.number for part in parts)]),
        start=np.concatenate([empty, *(part.start for part in parts)]),
        end=np.concatenate([empty, *(part.end for part in parts)]),
        boxes=np.concatenate([np.zeros((0, fields), np.int32), *(part.boxes for part in parts)]),
        of_row=np.concatenate(
            [
                np.zeros(0, np.int32),
                *(part.of_row + offset for part, offset in zip(parts, offsets, strict=False)),
            ]
        ).astype(np.int32),
        member=_joined([part.member for part in parts]),
        ids=_joined([part.ids for part in parts]),
        people=_joined([part.people for part in parts]),
    )
    repeated = len(groups.number) - len(np.unique(groups.number))
    if repeated:
        findings.add(
            f"{repeated} groups have a class_id that stands in another release too, which links them"
        )
    return groups
