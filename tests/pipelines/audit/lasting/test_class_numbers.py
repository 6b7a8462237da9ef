"""Numbers of groups that are not drawn, at the borders of what is taken for drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np

from kanonflow.pipelines.audit.lasting.class_numbers import _centred, judge_numbers, judge_order
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.pipelines.audit.read.released_groups import ReleasedGroups

DRAWN = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 60).tolist()


def ground_of(numbers: Sequence[int], release: Sequence[int] | None = None) -> LastingGround:
    """Groups with these numbers, in releases r0, r1, ..."""
    of = np.zeros(len(numbers), np.int32) if release is None else np.array(release, np.int32)
    heads = [ReleaseHead(f"r{place}", None, None, ()) for place in range(int(of.max(initial=0)) + 1)]
    groups = ReleasedGroups(of, np.array(numbers, np.int64), *(np.zeros(0, np.int64) for _ in range(4)))
    return cast(LastingGround, SimpleNamespace(groups=groups, heads=heads))


def said(numbers: Sequence[int], release: Sequence[int] | None = None) -> tuple[str, ...]:
    """What is found of these numbers."""
    findings = Findings()
    judge_numbers(ground_of(numbers, release), findings)
    return findings.messages()


def test_drawn_numbers_pass() -> None:
    """Any 64 bits, and none at all."""
    assert said(DRAWN) == said(DRAWN[:1]) == said([]) == ()


def test_small_numbers_count_something() -> None:
    """Up to a million in both directions; and not a step further."""
    for small in (0, 5, -5, 2**20 - 1, 1 - 2**20):
        assert said([*DRAWN, small]) == (
            "1 groups have a class_id that counts or names something: it is too small (release r0)",
        )
    for large in (2**20, -(2**20)):
        assert said([*DRAWN, large]) == ()


def test_a_number_after_another_is_found() -> None:
    """Less than 64 after it: both groups are told, wherever they stand; 64 after it is no neighbour."""
    release = [0] * 58 + [1, 2]
    message = "2 groups have a class_id that comes after that of another (release r1 and 1 more)"
    for ahead in (1, 63):
        told = said([*DRAWN[:58], DRAWN[58], DRAWN[58] + ahead], release)
        assert [each.split(" (")[0] for each in told] == [message.split(" (")[0]]
        assert "r1" in told[0]
        assert "r0" not in told[0]
    assert said([*DRAWN[:59], DRAWN[58] + 64]) == ()
    # The least and the greatest are no neighbours.
    assert said([-(2**63), 2**63 - 1]) == ()


def test_a_bit_that_never_changes_is_found() -> None:
    """In forty groups; fewer may have it by chance."""
    even = [number & ~1 for number in DRAWN]
    assert said(even[:40]) == ("1 bits of class_id are the same in all groups",)
    assert said(even[:39]) == ()
    odd = [number | 1 for number in DRAWN]
    assert said(odd[:40]) == ("1 bits of class_id are the same in all groups",)


def test_digests_of_places_are_found() -> None:
    """Of the number of a group, and of its release's id with it."""
    for text in ("0", "3", "r00", "r1:2"):
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
        where = "r1" if text.startswith("r1") else "r0"
        release = [1 if where == "r1" else 0] * 20
        told = said([*DRAWN[:19], number], release)
        assert told == (f"1 groups have a class_id that is a digest anybody can work out (release {where})",)


def test_an_order_is_told_at_its_chance() -> None:
    """Pairs of groups in one order: 24 of them have less than a chance in a million, 23 have more."""
    for pairs, found in ((23, False), (24, True)):
        numbers = [number for pair in range(pairs) for number in (pair, pair + 1000)]
        release = [pair for pair in range(pairs) for _ in range(2)]
        findings = Findings()
        rows = np.array([1.0, 2.0] * pairs)
        judge_order(ground_of(numbers, release), {"their rows": rows}, findings)
        assert bool(findings.messages()) == found
    # Where nothing is known of one of each, nothing is ordered.
    unknown = Findings()
    judge_order(ground_of(numbers, release), {"their rows": np.array([np.nan, 2.0] * 24)}, unknown)
    assert unknown.messages() == ()


def test_ranks_are_centred() -> None:
    """Around their mean; equal values share a rank."""
    assert _centred(np.array([5, 1, 5])).tolist() == [0.5, -1.0, 0.5]
    assert _centred(np.array([7])).tolist() == [0.0]
