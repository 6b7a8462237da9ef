"""Which windows a release may name, and that one of cohorts that last names its epoch: heads and files by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import OneWindow, OwnGroups, ReleaseHead, release_ends
from kanonflow.pipelines.audit.read.release_files import ReleaseFile
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
    assert OneWindow(policy).named(head, [row, row], np.zeros((2, 1), np.int32), findings) == head
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
