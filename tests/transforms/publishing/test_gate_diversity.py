"""The gate's own count of sensitive values: right, and in the way of every release that breaks a rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Protection
from kanonflow.schemas.policy_fields import Closeness, ClosenessDistance, Diversity, DiversityKind
from kanonflow.solvers.partition_search.diversity import failing_classes
from kanonflow.solvers.problem.sensitive import DISTANCES, KINDS
from kanonflow.transforms.protections.sensitive_values import sensitive_fields
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.gate_diversity import diversity_faults, measured_diversity
from tests import naive_diversity as naive
from tests.transforms.publishing.test_gate import individual_case, row_case
from tests.transforms.window_rows import SCHEMA, bound_policy, window_rows

ORDERED = ("amount", "paid", "serial", "rate")


def with_rules(
    bound: BoundPolicy, name: str, kind: str | None, least: float, distance: str | None, most: float
) -> BoundPolicy:
    """The bound policy with rules for one sensitive field."""
    fields = tuple(
        replace(
            field,
            diversity=Diversity(DiversityKind(kind), least) if kind else None,
            closeness=Closeness(ClosenessDistance(distance), most) if distance else None,
        )
        if field.name == name
        else field
        for field in bound.policy.fields
    )
    return bind(replace(bound.policy, fields=fields), SCHEMA, text=False, source="the test's rows")


@settings(derandomize=True, max_examples=120)
@given(
    st.sampled_from(["shop", "mark", *ORDERED]),
    st.sampled_from([None, *KINDS]),
    st.sampled_from([None, *DISTANCES]),
    st.integers(0, 2**20),
)
def test_the_gate_the_solver_and_the_twin_agree(
    name: str, kind: str | None, distance: str | None, seed: int
) -> None:
    """On classes at random, over every type of sensitive field, nulls and both zeros included."""
    if distance == "ordered" and name not in ORDERED:
        distance = "equal"
    bound = with_rules(bound_policy(individual=False), name, kind, 2, distance, 0.3)
    rng = np.random.default_rng(seed)
    rows = window_rows(24, seed, bound)
    if name in ("rate", "serial"):
        small = pa.array(rng.choice([-0.0, 0.0, 1.0, 2.0], 24), mask=rng.random(24) < 0.1)
        rows = rows.set_column(rows.schema.names.index(name), name, small.cast(rows.schema.field(name).type))
    labels = rng.integers(0, 3, 24).astype(np.int32)
    fields = sensitive_fields(rows, bound)
    assert len(fields) == (kind is not None or distance is not None)
    faults = diversity_faults(rows, labels, bound)
    assert bool(faults) == bool(failing_classes(labels, fields).any())
    measured = measured_diversity(rows, labels, bound)
    groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    for field in fields:
        values = field.codes
        if kind is not None:
            expected = min(naive.shown(values[group].tolist(), kind) for group in groups)
            assert measured[f"{name}.{kind}"] == pytest.approx(expected)
            assert ((name, "diversity") in faults) == (expected < 2 - 1e-7)
        if distance is not None:
            expected = max(
                naive.distance(values[group].tolist(), values.tolist(), distance) for group in groups
            )
            assert measured[f"{name}.{distance}"] == pytest.approx(expected)
            assert ((name, "closeness") in faults) == (expected > 0.3 + 1e-7)


def test_a_release_that_breaks_a_rule_is_refused() -> None:
    """The message names the field and the rule, no value; the same release passes without the rule."""
    case = individual_case()
    case.check()
    shops = [value or "none" for value in case.released["shop"].to_pylist()]
    lacking = replace(case, bound=with_rules(case.bound, "shop", "frequency", 3, None, 1))
    with pytest.raises(GateError, match="field shop: some classes do not have the diversity") as raised:
        lacking.check()
    assert not any(f"'{shop}'" in str(raised.value) for shop in shops)
    far = replace(case, bound=with_rules(case.bound, "serial", None, 1, "equal", 0.2))
    with pytest.raises(GateError, match="field serial: some classes do not have the closeness"):
        far.check()
    replace(case, bound=with_rules(case.bound, "serial", "distinct", 3, None, 1)).check()


def test_a_graph_never_passes_under_a_rule() -> None:
    """Whatever its slots hold: the values that a record's slots show are drawn, not chosen."""
    case = row_case()
    bound = with_rules(bound_policy(individual=False), "serial", "distinct", 2, None, 1)
    assert diversity_faults(case.released, None, bound) == [("serial", "diversity")]
    with pytest.raises(GateError, match="field serial"):
        replace(case, bound=bound).check()


def test_codes_follow_the_values_not_the_rows() -> None:
    """Equal values share a code, codes rise with the values, a null comes first."""
    bound = with_rules(bound_policy(individual=False), "serial", "distinct", 2, None, 1)
    rows = window_rows(5, 1, bound)
    place = rows.schema.names.index("serial")
    rows = rows.set_column(place, "serial", pa.array([30, None, -7, 30, 2], pa.int64()))
    (field,) = sensitive_fields(rows, bound)
    assert field.codes.tolist() == [3, 0, 1, 3, 2]
    assert sensitive_fields(rows, bound_policy(protect=Protection.INDIVIDUAL)) == ()
