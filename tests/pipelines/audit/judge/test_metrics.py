"""Metrics that tell something else than the releases, record by record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from kanonflow.pipelines.audit.judge.metrics import check_metrics, check_modes, public_schema
from kanonflow.pipelines.audit.protections import protection_of
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.schemas.avro_schema import metrics_schema
from kanonflow.schemas.policy_file import parse_policy
from tests.pass_through import metrics_record

FIELDS = {
    "who": {"role": "individual"},
    "when": {"role": "time"},
    "x": {"role": "quasi", "type": "numeric"},
}


def said(
    folder: Path, records: list[dict[str, Any]], *, cohort: str = "window", boxes: int = 3
) -> tuple[bool, tuple[str, ...]]:
    """Whether there are metrics, and what is found of a release of ten rows; each record a file, in that order."""
    policy = parse_policy(
        {
            "version": 1, "name": "test", "k": 2, "window": "1d", "max_delay": "1d", "cohort": cohort,
            "fields": FIELDS,
        },
        "test", "test",
    )  # fmt: skip
    place = folder / "restricted/metrics"
    place.mkdir(parents=True)
    for number, told in enumerate(records):
        right = {
            "k": 2, "protect": "individual", "cohort": cohort, "rows_new": 10, "rows_released": 10,
            "individuals": 5, "classes": 3, "window_start": None, "window_end": None,
        }  # fmt: skip
        record = metrics_record("r", **{**right, **told})
        with (place / f"{number}.avro").open("wb") as stream:
            fastavro.writer(stream, metrics_schema(), [record])
    findings = Findings()
    heads = [ReleaseHead("r", None, None, ())]
    may_count = protection_of(policy).may_count
    there = check_metrics(
        folder, policy, heads, np.array([10]), np.array([boxes]), may_count, findings, waiting=False
    )
    return there, findings.messages()


@pytest.mark.parametrize("cohort", ["window", "lasting"])
def test_a_right_record_passes(cohort: str, tmp_path: Path) -> None:
    """With as many classes as there are boxes."""
    assert said(tmp_path, [{}], cohort=cohort) == (True, ())


def test_classes_may_share_a_box_where_they_are_put_together_afresh(tmp_path: Path) -> None:
    """So there may be more of them than boxes, and never fewer; with cohorts that last each is a group of its own."""
    wrong = ("its metrics tell another number of classes than there are boxes (release r)",)
    assert said(tmp_path / "a", [{}], boxes=2) == (True, ())
    assert said(tmp_path / "b", [{}], boxes=4) == (True, wrong)
    assert said(tmp_path / "c", [{}], boxes=2, cohort="lasting") == (True, wrong)
    assert said(tmp_path / "d", [{}], boxes=4, cohort="lasting") == (True, wrong)


def test_of_two_records_of_an_id_that_of_the_published_release_counts(tmp_path: Path) -> None:
    """Whichever comes first; one that was withheld alone is no record of a release that is there."""
    withheld = {"released": False, "rows_released": 0, "rows_rejected": {"release_conflict": 10}}
    assert said(tmp_path / "a", [withheld, {}]) == (True, ())
    assert said(tmp_path / "b", [{}, withheld]) == (True, ())
    there, found = said(tmp_path / "c", [withheld])
    assert there
    assert "its metrics tell another released (release r)" in found
    assert said(tmp_path / "d", []) == (False, ())


def test_public_metrics_show_what_the_schema_lets_them() -> None:
    """What is not marked stays with its owner; a count is null where it could tell of somebody, whatever it is
    otherwise."""
    told = {"public_from": "m", "of": "release"}
    fields: list[dict[str, Any]] = [
        {"name": "a", "public": "as_is", "type": "long", **told},
        {"name": "b", "public": "count", "type": "long", "default": 0},
        {"name": "c", "public": "count", "type": ["null", "long"], "default": None},
        {"name": "d", "public": "withheld", "type": "long"},
        {"name": "e", "type": "long"},
    ]
    shown = public_schema({"type": "record", "name": "m", "doc": "exact", "fields": fields})
    assert shown["doc"] != "exact"
    assert shown["fields"] == [
        {"name": "a", "public": "as_is", "type": "long"},
        {"name": "b", "public": "count", "type": ["null", "long"], "default": None},
        {"name": "c", "public": "count", "type": ["null", "long"], "default": None},
    ]


@pytest.mark.parametrize(
    ("opened", "message"),
    [
        ((), None),
        (("rejected",), "restricted/ is open to others than its owner in 2 places"),
        (
            ("secret", "rejected"),
            "restricted/ is open to others than its owner in 3 places (the secret among them)",
        ),
    ],
)
def test_who_can_read_what_is_restricted_is_told(
    opened: tuple[str, ...], message: str | None, tmp_path: Path
) -> None:
    """And that the secret is among it: with that, people are found again by anybody, without it they are not."""
    root = tmp_path / "restricted"
    root.mkdir(mode=0o755)
    for name in ("secret", "rejected"):
        (root / name).touch()
        (root / name).chmod(0o644 if name in opened else 0o600)
    root.chmod(0o755 if opened else 0o700)
    findings = Findings()
    check_modes(tmp_path, findings)
    assert findings.messages() == (() if message is None else (message,))
