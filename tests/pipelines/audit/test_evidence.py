"""Of which windows a release may hold records."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kanonflow.pipelines.audit.evidence import Evidence, partitions_of, window_range
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy

SECOND = 1000


def policy_of(**windows: str) -> Policy:
    """Windows, or none."""
    fields = {"x": {"role": "quasi", "type": "numeric"}}
    if windows:
        fields["when"] = {"role": "time"}
    return parse_policy({"version": 1, "k": 2, "fields": fields, **windows}, "test", "test")


def held(start: int | None, end: int | None, *, closing: bool = False, max_delay: str = "2s") -> list[int]:
    """The numbers of the windows of a second whose records a release may hold, its borders in seconds."""
    borders = (None if each is None else each * SECOND for each in (start, end))
    head = ReleaseHead("r", *borders, (), closing=closing)
    first, last = window_range(head, policy_of(window="1s", max_delay=max_delay))
    return list(range(first, last + 1))


def test_a_release_of_unknown_windows_holds_nothing() -> None:
    """Not even what is of the first window of 1970: no row of it can be explained."""
    assert held(None, 1) == held(0, None) == held(None, None) == []
    assert held(0, 1) == [0]


@pytest.mark.parametrize(("closing", "windows"), [(False, [7, 8, 9]), (True, [4, 5, 6, 7, 8, 9])])
def test_no_record_waits_longer_than_it_may(closing: bool, windows: list[int]) -> None:
    """Whatever a release says of its oldest record; those of a closing one waited before its run began."""
    assert held(4, 10, closing=closing) == windows


def test_a_delay_that_is_no_whole_window_counts_up() -> None:
    """A window that ended a second ago waits for a second and a half, one that ended two seconds ago does not."""
    assert held(4, 10, max_delay="1500ms") == [8, 9]
    assert held(8, 10) == [8, 9]


def test_a_release_of_a_partition_that_nobody_is_in_has_none() -> None:
    """Its rows are nobody's: not those of whichever partition comes first."""
    evidence = Evidence(
        **{
            **dict.fromkeys(Evidence.__dataclass_fields__),
            "bound": SimpleNamespace(policy=SimpleNamespace(partition_by=("land",)), place=("land",).index),
            "records": np.array([[4], [7], [4]], np.int32),
            "released": SimpleNamespace(heads=[ReleaseHead("r", 0, 1, (land,)) for land in (7, 5, 4, -1)]),
        }
    )
    partition, of_release = partitions_of(evidence)
    assert (partition.tolist(), of_release) == ([0, 1, 0], [1, -1, 0, -1])


def test_without_windows_all_records_are_of_one() -> None:
    """And every release may hold them."""
    assert window_range(ReleaseHead("r", None, None, ()), policy_of()) == (0, 0)
