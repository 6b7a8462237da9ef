"""A renewal between two runs of a chain: the people of the epoch that ended are those of the one that begins.

    people    everybody once, but for who was forgotten; nobody else
    values    those of before, or what the file of people says that lies with the run
    cohorts   kept: the same. Of any: what readers of all epochs are left with is what is told, and is accepted
    pool      who waits, and rows that do, as they were left

That cohorts are large enough, and boxes the hulls of their members, is judged with the cohorts of the run itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.audit.read.carried_state import (
    CAME,
    EXPECTED,
    carried_facts,
    carried_rows,
    clock_in,
    pool_values,
)
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_cohorts import inherited_segments
from kanonflow.pipelines.audit.read.read_input import avro_records
from kanonflow.pipelines.audit.unchecked import RENEWAL
from kanonflow.schemas.errors import InputError

TOGETHER = "together.avro"
_KEPT = "kept"


class _Member(NamedTuple):
    """cohort: of one person. values: what is frozen of it, by field, as text; forgotten: nothing is."""

    cohort: int
    values: tuple[str, ...]
    forgotten: bool


def renewed_from(folder: Path) -> Mapping[str, Any]:
    """What run.json says of a renewal: ``before``, the epoch that ended, and ``cohorts``; {} of a run without one."""
    try:
        renewal = json.loads((folder / "restricted" / "run.json").read_text()).get("renewed")
    except (OSError, ValueError, AttributeError):
        return {}
    return renewal if isinstance(renewal, dict) else {}


def judge_renewal(pair: str, before: Path, after: Path, findings: Findings) -> None:
    """pair: what the two runs are called. before, after: their outputs. O(people)."""
    keeps = renewed_from(after).get("cohorts") == _KEPT
    names = sorted(
        {path.name for each in (before, after) for path in (each / "restricted" / "cohorts").glob("*/")}
    )
    left: list[int] = []
    for name in names:
        try:
            left += _judge_partition(pair, before, after, name, findings, keeps=keeps)
        except (InputError, OSError, ValueError, KeyError, TypeError):
            findings.add(f"{pair}: the cohorts of a partition that was renewed are damaged")
    _judge_told(pair, after, left, findings)


def _judge_partition(
    pair: str, before: Path, after: Path, name: str, findings: Findings, *, keeps: bool
) -> Sequence[int]:
    """How many people each person shares all cohorts with, himself among them."""
    inherited = inherited_segments(after, name)
    old, new = _members(before, name), _members(after, name, inherited)
    _judge_handed_on(pair, before, after, name, findings)
    if inherited != int(bool(old)):
        findings.add(
            f"{pair}: a renewal begins a partition with {inherited} segments of cohorts in the place of one"
        )
    expected = pool_values(after / "restricted" / "cohorts" / name / EXPECTED)
    gone = {person for person, member in old.items() if member.forgotten and person not in new}
    strangers, lost = len(new.keys() - old.keys()), len(old.keys() - new.keys() - (set() if keeps else gone))
    if strangers or lost:
        findings.add(
            f"{pair}: {lost} people of the epoch that ended are in no cohort of the one that begins, and {strangers}"
            " are who were in none"
        )
    other = sum(
        member.values != expected.get(person, old[person].values)
        for person, member in new.items()
        if person in old and not member.forgotten and (person in expected or not old[person].forgotten)
    )
    if other:
        findings.add(
            f"{pair}: {other} people have frozen values that neither the run before nor a file of people tells"
        )
    both = [person for person in new if person in old]
    if keeps:
        pairs = {(old[person].cohort, new[person].cohort) for person in both}
        if len({one for one, _ in pairs}) < len(pairs) or len({one for _, one in pairs}) < len(pairs):
            findings.add(
                f"{pair}: cohorts were to be kept, and people are together that were not, or are no more"
            )
    numbers = _together(before, name)
    key = {
        person: (numbers.get(person), None if person in numbers else old[person].cohort, new[person].cohort)
        for person in both
    }
    shared = Counter(key.values())
    labels = _together(after, name)
    if set(labels) != set(both) or len(set(zip(key.values(), map(labels.get, key), strict=True))) != len(
        shared
    ):
        findings.add(f"{pair}: {TOGETHER} does not say who of the renewed people shared all cohorts")
    return [shared[each] for each in key.values()]


def _judge_told(pair: str, after: Path, left: Sequence[int], findings: Findings) -> None:
    """What ``renewal.json`` tells is so, and nobody is left with fewer than it says but for an accepted reason."""
    try:
        facts = json.loads((after / RENEWAL).read_text())
        right = (facts["least"], facts["mean"]) == (min(left), round(float(np.mean(left)), 1))
        few = min(left) < int(facts["min_peers"]) and facts["accepted"] is not True
    except (OSError, ValueError, KeyError, TypeError):
        findings.add(
            f"{pair}: {RENEWAL} is missing or damaged: what readers of both epochs are left with is not told"
        )
        return
    if not right:
        findings.add(
            f"{pair}: {RENEWAL} tells another number of people than readers of all epochs are left with (least:"
            f" {min(left)})"
        )
    if few:
        findings.add(
            f"{pair}: a renewal leaves people with fewer than min_peers, and nobody has accepted that"
        )


def _judge_handed_on(pair: str, before: Path, after: Path, name: str, findings: Findings) -> None:
    """Rows, pool and clock of the one are those of the other."""
    left = before / "restricted" / "carried" / f"{name}.state"
    came = after / "restricted" / "cohorts" / name / CAME
    if left.is_file() != came.is_file():
        findings.add(f"{pair}: what a partition carried over is not what it began its epoch with")
        return
    if not left.is_file():
        return
    pools = [np.sort(carried_facts(path)[1]).tolist() for path in (left, came)]
    values = [pool_values(path) for path in (left, came)]
    rows = [carried_rows(path) for path in (left, came)]
    if pools[0] != pools[1] or values[0] != values[1] or clock_in(left) != clock_in(came):
        findings.add(f"{pair}: who waits to enter is not who waited at the end of the epoch before")
    if rows[0] != rows[1]:
        other = (rows[0] - rows[1]).total() + (rows[1] - rows[0]).total()
        findings.add(f"{pair}: {other} rows that waited at the end of an epoch are not there, or are others")


def _members(folder: Path, name: str, most: int | None = None) -> dict[int, _Member]:
    """Who is in the cohorts of a partition. most: of the first so many segments; None: of all."""
    members: dict[int, _Member] = {}
    paths = sorted((folder / "restricted" / "cohorts" / name).glob("[0-9]*.people.avro"))
    for path in paths if most is None else paths[:most]:
        for record in avro_records(path):
            person, cohort, forgotten = (record.pop(each) for each in ("person", "cohort", "forgotten"))
            members[person] = _Member(cohort, tuple(map(repr, record.values())), forgotten)
    return members


def _together(folder: Path, name: str) -> dict[int, int]:
    """Who shared all cohorts up to the last renewal, by a number of each such set of people."""
    path = folder / "restricted" / "cohorts" / name / TOGETHER
    if not path.is_file():
        return {}
    return {record["person"]: record["together"] for record in avro_records(path)}
