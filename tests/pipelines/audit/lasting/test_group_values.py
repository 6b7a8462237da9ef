"""Does the audit find groups whose values do not meet a rule, in releases of cohorts that last?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections import lasting
from kanonflow.transforms.publishing import gate_frozen
from tests.pipelines.audit.lasting_runs import POLICY, lines, make_run

pytestmark = pytest.mark.thorough

RULES = {
    "diversity: {kind: frequency, l: 3, per: release}": "diversity",
    "closeness: {distance: equal, t: 0.1, per: release}": "closeness",
}


def policy(rule: str) -> str:
    return POLICY.replace("note: {role: sensitive}", f"note: {{role: sensitive, {rule}}}")


def no_rules(rows: pa.Table, bound: BoundPolicy) -> tuple[()]:
    """The rules switched off."""
    return ()


@pytest.mark.parametrize("rule", RULES)
def test_groups_that_meet_the_rule_pass_and_others_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Each by its number, also where two groups have one box; without the secret, for releases alone show it."""
    good = make_run(tmp_path / "good", lines(), policy=policy(rule))
    report = good.judged()
    assert report.passed, report.failures
    assert any("shows what the policy asks of the values of note" in line for line in report.checked)
    assert any("what the values of note tell of a cohort" in line for line in report.not_checked)
    monkeypatch.setattr(lasting, "sensitive_fields", no_rules)
    monkeypatch.setattr(gate_frozen, "diversity_faults", lambda *_: [])
    bad = make_run(tmp_path / "bad", lines(), policy=policy(rule))
    for secret in (True, False):
        (failure,) = bad.judged(secret=secret).failures
        assert failure.startswith("field note: ")
        assert f"classes do not have the {RULES[rule]} of the policy" in failure


@pytest.mark.parametrize("rule", RULES)
def test_the_gate_lets_out_no_group_that_breaks_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """It counts the released rows for itself, whatever merging was told."""
    monkeypatch.setattr(lasting, "sensitive_fields", no_rules)
    stopped = make_run(tmp_path, lines(), policy=policy(rule))
    reasons = b"".join(path.read_bytes() for path in (stopped.out / "restricted/rejected").glob("**/*.avro"))
    assert b"gate_refused" in reasons


def test_of_an_epoch_nothing_is_judged(tmp_path: Path) -> None:
    """A rule that is measured only is no promise that a release could break."""
    rule = "diversity: {kind: frequency, l: 3, per: epoch}"
    assert make_run(tmp_path, lines(), policy=policy(rule)).judged().passed
