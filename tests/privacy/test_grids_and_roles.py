"""Domains, grids and roles: what a published range tells, and what a policy must not forget."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.grid import snap_outward
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import classify

checked = settings(derandomize=True, max_examples=200)


def policy_of(fields: dict[str, Any], **head: Any) -> dict[str, Any]:
    """A small policy as a file would hold it."""
    return {"version": 1, "k": 2, "fields": fields, **head}


def ends(low: float, high: float, grid: Any, domain: Any = None) -> tuple[float, float]:
    """One range of doubles, snapped."""
    snapped = snap_outward(np.array([low]), np.array([high]), grid=grid, kind="float", domain=domain)
    return float(snapped[0][0]), float(snapped[1][0])


@checked
@given(st.integers(-1000, 1000), st.floats(0.001, 0.999), st.floats(0.001, 0.999), st.integers(0, 50))
def test_moving_a_member_within_its_grid_cell_changes_nothing(
    cell: int, first: float, second: float, width: int
) -> None:
    """On a fixed grid the published ends depend on the cells of the extreme members only."""
    top = cell + width
    published = {
        ends(cell + one, top + max(one, two), Decimal(1))
        for one in (first, second)
        for two in (first, second)
    }
    assert published == {(cell, top + 1)}


@checked
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_automatic_grids_hide_digits_below_a_25th_of_the_width(low: float, width: float) -> None:
    """Each end lies on a grid whose step is between a 25th and a tenth of the width."""
    high = low + width
    steps = [m * 10.0**e for e in range(-8, 8) for m in (1, 2, 5)]
    fitting = [
        step for step in steps if (high - low) / 25 * (1 - 1e-9) <= step <= (high - low) / 10 * (1 + 1e-9)
    ]
    on_grid = [
        all(
            abs(end / step - round(end / step)) < 1e-9 * max(1.0, abs(end / step))
            for end in ends(low, high, "auto")
        )
        for step in fitting
    ]
    assert any(on_grid)


def test_a_domain_clips_the_grid_and_nothing_else_does() -> None:
    """A range stops at a declared end; without a declaration it does not stop at anybody's value."""
    assert ends(17.2, 71.9, Decimal(5), (17, 72)) == (17.0, 72.0)
    assert ends(17.2, 71.9, Decimal(5)) == (15.0, 75.0)


def test_values_outside_of_a_domain_never_widen_it() -> None:
    """They are rejected, or cut to the open top or bottom code, as the policy says."""
    for outside, kept in (("reject", []), ("code", [0.0, 9.0])):
        quasi = {"role": "quasi", "type": "numeric", "domain": [0, 9], "outside": outside}
        bound = bind(
            parse_policy(policy_of({"x": quasi}), "", "p"),
            pa.schema([("x", pa.string())]),
            text=True,
            source="x",
        )
        rows, rejected = classify(pa.table({"x": ["-1", "10"]}), bound)
        assert rows.column("x").to_pylist() == kept
        assert len(rejected) == 2 - len(kept)


def test_a_field_without_a_role_is_refused() -> None:
    """Fail closed: a new column of the feed stops the job instead of being published or dropped unseen."""
    fields = {"x": {"role": "quasi", "type": "categorical"}}
    columns = pa.schema([("x", pa.string()), ("new", pa.string())])
    with pytest.raises(PolicyError, match="input fields without a role: new;"):
        bind(parse_policy(policy_of(fields), "", "p"), columns, text=True, source="feed")
    dropped = bind(parse_policy(policy_of(fields, others="drop"), "", "p"), columns, text=True, source="feed")
    assert dropped.input_columns == ("x",)


def test_sliding_windows_are_refused() -> None:
    """Copies of a row in several windows would narrow it down together; the error names the alternative."""
    fields = {"x": {"role": "quasi", "type": "categorical"}, "when": "time"}
    for head in ({"window": {"size": "1d", "slide": "1h"}}, {"window": "1d", "slide": "1h"}):
        with pytest.raises(PolicyError, match="use fixed windows"):
            parse_policy(policy_of(fields, **head), "", "p")


@checked
@given(st.text(st.characters(categories=["L", "Nd"]), min_size=4, max_size=12))
def test_no_value_in_the_message_of_a_rejection(secret: str) -> None:
    """What is rejected and why can be logged: the row's values are in the restricted record only."""
    fields = {
        "x": {"role": "quasi", "type": "numeric", "domain": [0, 1]},
        "sex": {"role": "quasi", "type": "categorical", "domain": ["F"]},
    }
    columns = pa.schema([("x", pa.string()), ("sex", pa.string())])
    bound = bind(parse_policy(policy_of(fields), "", "p"), columns, text=True, source="feed")
    _, reference = classify(pa.table({"x": ["?"], "sex": ["?"]}), bound)
    _, rejected = classify(pa.table({"x": [f"?{secret}"], "sex": [f"?{secret}"]}), bound)
    assert rejected[0]["message"] == reference[0]["message"]
    assert rejected[0]["row"]["sex"] == f"?{secret}"
