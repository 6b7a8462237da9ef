"""Which windows a release may name, and that one of cohorts that last names its epoch: heads and files by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kanonflow.pipelines.audit.files.avro_cells import cells_of_rows
from kanonflow.pipelines.audit.files.release_files import ReleaseFile
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import (
    OneWindow,
    OwnGroups,
    ReleaseHead,
    _head,
    check_slots,
    release_ends,
)
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy

DAY = 86_400_000
NONE_OF_THEM = "the release's window is none of the policy's (release r)"


def policy_of(**windows: str) -> Policy:
    """Closed classes or a graph, with these windows."""
    fields = {"x": {"role": "quasi", "type": "numeric"}}
    if windows:
        fields["when"] = {"role": "time"}
    return parse_policy({"version": 1, "k": 2, "fields": fields, **windows}, "test", "test")


def said(policy: Policy, start: int | None, end: int | None) -> list[str]:
    """What is found of a release that names these borders in each of its rows."""
    findings = Findings()
    row = {"window_start": start, "window_end": end}
    head = ReleaseHead("r", start, end, ())
    assert (
        OneWindow(policy).named(head, cells_of_rows([row, row]), np.zeros((2, 1), np.int32), findings) == head
    )
    return list(findings.messages())


@pytest.mark.parametrize(
    ("start", "end", "fine"),
    [
        (0, DAY, True),
        (-DAY, 0, True),
        (0, 2 * DAY, True),
        (0, 3 * DAY, False),
        (0, 0, False),
        (DAY, 0, False),
        (DAY // 2, DAY, False),
        (0, DAY + DAY // 2, False),
        (None, DAY, False),
        (0, None, False),
        (None, None, False),
    ],
)
def test_a_release_names_whole_windows(start: int | None, end: int | None, fine: bool) -> None:
    """A day, or two where one of them may be late: neither an hour, which says when somebody was there, nor none."""
    policy = policy_of(window="1d", max_delay="1d")
    assert said(policy, start, end) == ([] if fine else [NONE_OF_THEM])


@pytest.mark.parametrize(("start", "end"), [(None, None), (0, None), (None, 0), (0, DAY)])
def test_without_windows_a_release_names_none(start: int | None, end: int | None) -> None:
    """Neither border: each of them says when its rows were there."""
    fine = (start, end) == (None, None)
    assert said(policy_of(), start, end) == ([] if fine else [NONE_OF_THEM])


def split_policy() -> Policy:
    """Partitions by one field, windows that are split by another."""
    fields = {
        "x": {"role": "quasi", "type": "numeric"},
        "when": {"role": "time"},
        "who": {"role": "individual"},
    }
    fields |= {"town": {"role": "insensitive"}, "channel": {"role": "insensitive"}}
    head = {"version": 1, "k": 2, "window": "1d", "partition_by": ["town"], "split_by": ["channel"]}
    return parse_policy({**head, "fields": fields}, "test", "test")


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ([[1, 2, 7], [1, 2, 8]], []),
        (
            [[1, 2, 7], [1, 3, 7]],
            ["one release holds rows of several parts of a window (split_by) (release r)"],
        ),
        ([[1, 2, 7], [2, 2, 7]], ["one release holds rows of several partitions (release r)"]),
    ],
)
def test_a_release_is_of_one_partition_and_one_part(payload: list[list[int]], fault: list[str]) -> None:
    """Partition fields are the first of the payload, those that split windows the next."""
    findings = Findings()
    row = {"release_id": "r", "window_start": None, "window_end": None}
    bound = cast(BoundPolicy, SimpleNamespace(policy=split_policy()))
    head = _head(Path("r.avro"), cells_of_rows([row, row]), np.array(payload), bound, findings)
    assert list(findings.messages()) == fault
    assert (head.partition, head.part) == ((1,), (2,))


def test_a_part_of_a_window_is_released_once(tmp_path: Path) -> None:
    """Two releases of one window are of two parts; without parts they need the numbers that metrics tell."""
    once = [ReleaseHead("a", 0, DAY, (1,), part=(2,)), ReleaseHead("b", 0, DAY, (1,), part=(3,))]
    assert found_in_slots(once, tmp_path) == []
    twice = [*once, ReleaseHead("c", 0, DAY, (1,), part=(2,))]
    assert "one part of a window was released more than once (release c)" in found_in_slots(twice, tmp_path)
    elsewhere = [
        *once,
        ReleaseHead("c", 0, DAY, (2,), part=(2,)),
        ReleaseHead("d", DAY, 2 * DAY, (1,), part=(2,)),
    ]
    assert found_in_slots(elsewhere, tmp_path) == []
    plain = [ReleaseHead(name, 0, DAY, (1,)) for name in "ab"]
    assert found_in_slots(plain, tmp_path) == [
        "one window of a partition was released more than once (release b)"
    ]


def found_in_slots(heads: list[ReleaseHead], metrics: Path) -> list[str]:
    """What is found, without metrics."""
    findings = Findings()
    check_slots(heads, metrics, findings)
    return list(findings.messages())


def test_an_epoch_that_is_missing_is_found() -> None:
    """Which promise a release belongs to is told, or it is a failure; an honest one is none."""
    groups, findings = OwnGroups(policy_of(window="1d")), Findings()
    for told in ("00000000000000ab", None):
        assert findings.messages() == ()
        file = cast(ReleaseFile, SimpleNamespace(epoch=lambda told=told: told))
        assert groups.epoch(file, findings) == told
    assert findings.messages() == ("a release that names no epoch",)


def test_ends_are_told() -> None:
    """Of each release when it was made, that of the beginning of 1970 too."""
    heads = [ReleaseHead("r", None, end, ()) for end in (-DAY, 0, DAY)]
    assert release_ends(heads).tolist() == [-DAY, 0, DAY]
