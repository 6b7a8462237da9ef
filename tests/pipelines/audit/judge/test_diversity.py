"""The audit counts sensitive values itself: classes that lack them are found, others are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.judge.diversity import check_diversity
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, ReleaseHead
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.solvers.problem.sensitive import DISTANCES, KINDS, Sensitive
from tests import naive_diversity as naive
from tests.pipelines.small_runs import Run, people

AMOUNT = 'amount: {role: sensitive, as: "decimal(9,2)"'


def with_rule(run: Run, rule: str) -> Run:
    """The run under a policy with a rule for its amounts; an amount is on two rows of a class of four."""
    assert AMOUNT in run.policy
    run.policy = run.policy.replace(AMOUNT, f"{AMOUNT}, {rule}")
    return run


@pytest.mark.parametrize(
    "rule",
    [
        "diversity: {kind: frequency, l: 2}",
        "diversity: {kind: distinct, l: 2}",
        "diversity: {kind: entropy, l: 2}",
        "closeness: {distance: equal, t: 0.7}",
        "closeness: {distance: ordered, t: 0.7}",
    ],
)
def test_a_clean_run_has_what_its_policy_asks_for(rule: str, tmp_path: Path) -> None:
    """Classes of 4, 2 and 3 rows with 3, 2 and 3 amounts."""
    assert audit(*with_rule(people(), rule).write(tmp_path)).failures == ()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("diversity: {kind: entropy, l: 2}", "1 classes do not have the diversity"),
        ("diversity: {kind: distinct, l: 2}", "1 classes do not have the diversity"),
        ("diversity: {kind: frequency, l: 2}", "1 classes do not have the diversity"),
        ("closeness: {distance: equal, t: 0.3}", "2 classes do not have the closeness"),
        ("closeness: {distance: ordered, t: 0.3}", "1 classes do not have the closeness"),
    ],
)
def test_classes_that_lack_it_are_found(rule: str, words: str, tmp_path: Path) -> None:
    """The class of c and d has one amount only; the release and the field are named, no amount is."""
    run = with_rule(people(), rule)
    run.lines = [line.replace(",5.00,", ",4.00,") for line in run.lines]
    for row in run.releases["day1"]:
        if row["ref"] == "r6":
            row["amount"] = run.releases["day1"][5]["amount"]
    failures = audit(*run.write(tmp_path)).failures
    assert len(failures) == 1
    assert failures[0].startswith(f"field amount: {words} of the policy (release day1")
    assert "4.00" not in failures[0]


@settings(derandomize=True, max_examples=120)
@given(st.sampled_from(KINDS), st.sampled_from(DISTANCES), st.integers(0, 2**20))
def test_the_audit_counts_as_the_twin_does(kind: str, distance: str, seed: int) -> None:
    """Two releases with boxes at random; codes in another order than values; nulls are a value."""
    rng = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "x": {"role": "quasi", "type": "numeric", "as": "int"},
        "y": {
            "role": "sensitive",
            "as": "int",
            "diversity": {"kind": kind, "l": 2},
            "closeness": {"distance": distance, "t": 0.3},
        },
    }
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    bound = bind(policy, pa.schema({"x": pa.int32(), "y": pa.int32()}), text=False, source="test")
    book = CodeBook(bound.column("y"))
    known = rng.permutation([5, -3, 9, 2]).tolist()
    book.codes_of_objects(known)
    codes = rng.integers(-1, 4, 30)
    values = [-1000 if code < 0 else known[code] for code in codes]
    release, boxes = rng.integers(0, 2, 30), rng.integers(0, 3, (30, 1))
    heads = tuple(ReleaseHead(name, None, None, ()) for name in ("one", "two"))
    rows = ReleasedRows(heads, release.astype(np.int32), boxes.astype(np.int32), codes[:, None], 0)
    findings = Findings()
    check_diversity(rows, [book], findings)
    order = np.unique(values, return_inverse=True)[1]
    expected = {}
    for rule, field in (
        ("diversity", Sensitive(order, kind, 2)),
        ("closeness", Sensitive(order, distance=distance, t=0.3)),
    ):
        broken = 0
        for number in (0, 1):
            whole = np.flatnonzero(release == number).tolist()
            for box in np.unique(boxes[whole]) if whole else ():
                group = [place for place in whole if boxes[place, 0] == box]
                broken += not naive.meets(group, [field], whole)
        if broken:
            expected[rule] = broken
    messages = findings.messages()
    assert len(messages) == len(expected)
    for message, (rule, count) in zip(messages, expected.items(), strict=True):
        assert message.startswith(f"field y: {count} classes do not have the {rule} of the policy")


def judged(cells: list[Any], rule: dict[str, Any], *, text: bool = False) -> int:
    """How many messages there are of a release with these values, two in each class."""
    policy = parse_policy(
        {
            "version": 1,
            "k": 2,
            "fields": {
                "x": {"role": "quasi", "type": "numeric", "as": "int"},
                "y": {"role": "sensitive", "as": "int", **rule},
            },
        },
        "test",
        "test",
    )
    kinds = pa.schema({"x": pa.string(), "y": pa.string()} if text else {"x": pa.int32(), "y": pa.int32()})
    book = CodeBook(bind(policy, kinds, text=text, source="test").column("y"))
    codes = book.codes_of_texts(cells) if text else book.codes_of_objects(cells)
    findings = Findings()
    heads = (ReleaseHead("one", None, None, ()),)
    rows = ReleasedRows(
        heads,
        np.zeros(len(cells), np.int32),
        np.arange(len(cells), dtype=np.int32)[:, None] // 2,
        codes[:, None],
        0,
    )
    check_diversity(rows, [book], findings)
    return len(findings.messages())


def test_limits_are_met_exactly() -> None:
    """Two rows of each class; in the whole four: just as near, just as many, and one step less."""
    assert judged([1, 2, 1, 2], {"diversity": {"kind": "distinct", "l": 2}}) == 0
    assert judged([1, 2, 1, 1], {"diversity": {"kind": "distinct", "l": 2}}) == 1
    assert judged([1, 2, 1, 2], {"diversity": {"kind": "frequency", "l": 2}}) == 0
    assert judged([1, 2, 1, 1], {"diversity": {"kind": "frequency", "l": 2}}) == 1
    assert judged([1, 2, 1, 3], {"closeness": {"distance": "equal", "t": 0.25}}) == 0
    assert judged([1, 2, 1, 3], {"closeness": {"distance": "equal", "t": 0.24}}) == 1
    assert judged([1, 3, 2, 2], {"closeness": {"distance": "ordered", "t": 0.25}}) == 0
    assert judged([1, 3, 2, 2], {"closeness": {"distance": "ordered", "t": 0.24}}) == 1
    assert judged([1, 1, 1, 1], {"closeness": {"distance": "ordered", "t": 0.01}}) == 0
    assert judged([1, 2, 1, 2], {"closeness": {"distance": "equal", "t": 0.0001}}) == 0


def test_unreadable_cells_have_a_place_of_their_own() -> None:
    """They are reported elsewhere; they count as values, whatever they are."""
    assert judged(["1", "many", "1", "few"], {"diversity": {"kind": "distinct", "l": 2}}, text=True) == 0
    assert judged(["1", "1", "many", "few"], {"diversity": {"kind": "distinct", "l": 2}}, text=True) == 1
