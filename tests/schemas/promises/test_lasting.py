"""Cohorts that last: what a policy of them holds, and everything that such a policy is refused for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import LATTICE_METHODS, Cohort, Policy, SolverChoice
from kanonflow.schemas.policy_file import parse_policy, policy_digest, policy_from_avro_schema, to_mapping
from kanonflow.schemas.promises.lasting import LARGEST_COHORT
from kanonflow.schemas.recorded_policy import recorded_policy
from kanonflow.solvers.shapes.classes import LARGEST_K
from tests.schemas.test_policy_file import feed, mistakes_of, with_field


def lasting(**changes: Any) -> dict[str, Any]:
    """The feed's policy (k = 5, a day's windows, two days of delay) with cohorts that last."""
    return feed(**{"cohort": "lasting"} | changes)


def read(mapping: dict[str, Any]) -> Policy:
    return parse_policy(mapping, "", "feed")


def test_defaults() -> None:
    """Cohorts of k, 200 k newcomers where rows may wait, 2% outdated rows."""
    policy = read(lasting())
    assert (policy.cohort, policy.lasting, policy.closed) == (Cohort.LASTING, True, True)
    assert (policy.cohort_size, policy.intake, policy.max_outdated) == (5, 1000, 0.02)


def test_where_no_row_waits_newcomers_enter_at_once() -> None:
    """With max_delay 0 an intake is as soon as there is a cohort."""
    for delay in (0, None):
        policy = read(lasting(max_delay=delay, cohort_size=7))
        assert (policy.cohort_size, policy.intake) == (7, 7)


def test_what_is_given_holds() -> None:
    """Each key reaches the member of its name."""
    policy = read(lasting(cohort_size=10, intake=40, max_outdated=0.1))
    assert (policy.cohort_size, policy.intake, policy.max_outdated) == (10, 40, 0.1)


@pytest.mark.parametrize("mapping", [feed(protect="row"), feed(cohort="window")])
def test_other_policies_hold_none_of_it(mapping: dict[str, Any]) -> None:
    """No member has a value, and nothing of it is written: digests of such policies are what they were."""
    policy = read(mapping)
    assert not policy.lasting
    assert (policy.cohort_size, policy.intake, policy.max_outdated) == (None, None, None)
    assert not {"cohort_size", "intake", "max_outdated"} & to_mapping(policy).keys()


@pytest.mark.parametrize(
    "changes", [{}, {"max_delay": 0}, {"cohort_size": 9, "intake": 12, "max_outdated": 0}]
)
def test_a_policy_is_read_back_as_it_was(changes: dict[str, Any]) -> None:
    """From its mapping, from the JSON of its digest, and from the properties of an Avro schema."""
    policy = read(lasting(**changes))
    mapping = to_mapping(policy)
    assert read(json.loads(json.dumps(mapping))) == policy
    assert {key: mapping[key] for key in ("cohort_size", "intake", "max_outdated")} == {
        "cohort_size": policy.cohort_size,
        "intake": policy.intake,
        "max_outdated": policy.max_outdated,
    }
    fields = [
        {"name": name, "type": "string", "kanonflow": entry} for name, entry in mapping["fields"].items()
    ]
    head = {key: value for key, value in mapping.items() if key != "fields"}
    assert policy_from_avro_schema({"name": "feed", "kanonflow": head, "fields": fields}, "") == policy


@pytest.mark.parametrize("changes", [{"cohort_size": 6}, {"intake": 999}, {"max_outdated": 0.03}])
def test_digests_tell_the_keys_apart(changes: dict[str, Any]) -> None:
    """Of the policy, and of what a matching record vouches for."""
    one, other = read(lasting()), read(lasting(**changes))
    assert policy_digest(one) != policy_digest(other)
    assert recorded_policy(one) != recorded_policy(other)


def test_cohorts_are_no_larger_than_solvers_make_them() -> None:
    """The rule's figure is the solvers'."""
    assert LARGEST_COHORT == LARGEST_K
    assert read(lasting(cohort_size=LARGEST_K)).cohort_size == LARGEST_K


TIME_AS_QUASI = {"role": "time", "also_quasi": True, "type": "date"}
REFUSED = {
    "rows": (lasting(protect="row"), "cohort: belongs to protect: individual", "leave it out"),
    "nobody": (lasting(individual=None), "cohort: belongs to protect: individual", "role: individual"),
    "below k": (lasting(cohort_size=4), "cohort_size: must be at least k = 5, and is 4", "raise it"),
    "above the solvers": (lasting(cohort_size=256), "cohort_size: must be at most 255, and is 256", "lower"),
    "k above the solvers": (lasting(k=300), "cohort_size: must be at most 255, and is 300", "it is k"),
    "half a person": (lasting(cohort_size=5.5), "cohort_size: must be a whole number", "at least 2"),
    "many people": (lasting(cohort_size="many"), "cohort_size: must be a whole number", "at least 2"),
    "intake below k": (lasting(intake=4), "intake: must be at least k = 5, and is 4", "raise it"),
    "intake below a cohort": (
        lasting(cohort_size=8, intake=7),
        "intake: must be at least cohort_size = 8, and is 7",
        "raise it",
    ),
    "half a newcomer": (lasting(intake=99.5), "intake: must be a whole number", "at least 2"),
    "all outdated": (lasting(max_outdated=1), "max_outdated: must be a share of a window's rows", "below 1"),
    "less than none": (lasting(max_outdated=-0.1), "max_outdated: must be a share", "at least 0"),
    "cohort_size alone": (
        feed(cohort="window", cohort_size=5),
        "cohort_size: belongs to cohort: lasting",
        "leave it out",
    ),
    "intake alone": (feed(cohort="window", intake=100), "intake: belongs to cohort: lasting", "leave it out"),
    "max_outdated alone": (
        feed(cohort="window", max_outdated=0.1),
        "max_outdated: belongs to cohort: lasting",
        "or say",
    ),
    "deadline": (
        lasting(solver={"deadline": "3s"}),
        "solver.deadline: 3000ms would make groups that last depend on the machine",
        "evaluations_per_row",
    ),
    "everybody": (
        lasting(solver="pass-through"),
        "solver.method: pass-through puts everybody into one class",
        "leave it out",
    ),
    "time": (
        with_field("booked", TIME_AS_QUASI, cohort="lasting"),
        "fields.booked.also_quasi: a time differs from row to row",
        "cohort: window",
    ),
    "diversity": (
        with_field(
            "amount", {"role": "sensitive", "diversity": {"kind": "distinct", "l": 2}}, cohort="lasting"
        ),
        "fields.amount.diversity: cohort: lasting has two forms of it",
        "add per: release",
    ),
    "closeness": (
        with_field(
            "amount", {"role": "sensitive", "closeness": {"distance": "equal", "t": 0.2}}, cohort="lasting"
        ),
        "fields.amount.closeness: cohort: lasting has two forms of it",
        "or per: epoch (counted for each cohort, measured only)",
    ),
    "an epoch where there is none": (
        with_field(
            "amount",
            {"role": "sensitive", "diversity": {"kind": "distinct", "l": 2, "per": "epoch"}},
            cohort="window",
        ),
        "fields.amount.diversity.per: epoch belongs to cohort: lasting",
        "leave it out",
    ),
    "a limit of what is met": (
        with_field(
            "amount",
            {
                "role": "sensitive",
                "diversity": {"kind": "distinct", "l": 2, "per": "release", "max_failing": 0.1},
            },
            cohort="lasting",
        ),
        "fields.amount.diversity.max_failing: belongs to per: epoch",
        "leave it out",
    ),
    "renew": (lasting(renew="26w"), "renew: must be a mapping with the keys", "accept_risk"),
    "renew.min_peers": (
        lasting(renew={"min_peers": 1}),
        "renew.min_peers: must be a whole number of at least 2",
        "",
    ),
    "renew.cohorts": (lasting(renew={"cohorts": "new"}), "renew.cohorts: must be one of", "kept"),
    "renew.accept_risk": (lasting(renew={"accept_risk": " "}), "renew.accept_risk: must be the reason", ""),
    "people without cohorts that last": (
        feed(cohort="window", people="customers.csv"),
        "people: belongs to cohort: lasting",
        "leave it out",
    ),
    "max_share": (feed(max_share=0.2), "max_share: comes with a later version", "leave it out"),
    "misspelt": (lasting(cohort="lastin", cohort_size=7), "cohort: must be one of", "did you mean lasting?"),
} | {
    method: (
        lasting(solver=method),
        f"solver.method: {method} publishes levels of hierarchies",
        "cohort: window",
    )
    for method in LATTICE_METHODS
}


@pytest.mark.parametrize(("mapping", "start", "mend"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(mapping: dict[str, Any], start: str, mend: str) -> None:
    """One mistake each: the key first, then the figure, and what to do."""
    (mistake,) = mistakes_of(mapping)
    assert mistake.startswith(start)
    assert mend in mistake


def test_without_a_window_nothing_lasts() -> None:
    """One release promises nothing over several."""
    mapping = lasting(window=None, max_delay=None)
    mapping["fields"] = {name: entry for name, entry in mapping["fields"].items() if name != "booked"}
    (mistake,) = mistakes_of(mapping)
    assert mistake.startswith("cohort: lasting needs a window")
    assert "cohort: window" in mistake


def test_all_of_it_is_said_at_once() -> None:
    """Beside the mistakes of other keys."""
    mapping = with_field("booked", TIME_AS_QUASI, cohort="lasting", cohort_size=3, intake=2, metrics="secret")
    starts = ("metrics: must", "cohort_size: must", "intake: must", "fields.booked.also_quasi: a time")
    found = mistakes_of(mapping)
    assert len(found) == len(starts)
    for mistake, start in zip(found, starts, strict=True):
        assert mistake.startswith(start)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"cohort_size": 5.0}, "cohort_size: must be a whole number"),
        ({"cohort_size": True}, "cohort_size: must be a whole number"),
        ({"intake": 1000.0}, "intake: must be a whole number"),
        ({"max_outdated": "2%"}, "max_outdated: must be a share"),
        ({"max_outdated": float("nan")}, "max_outdated: must be a share"),
        ({"solver": SolverChoice(deadline_ms=10)}, "solver.deadline: 10ms"),
        ({"cohort": Cohort.WINDOW}, "cohort_size: belongs to cohort: lasting"),
    ],
)
def test_programs_are_held_to_the_same_rules(changes: dict[str, Any], start: str) -> None:
    """A policy that no file was read for."""
    with pytest.raises(PolicyError) as caught:
        replace(read(lasting()), **changes)
    assert caught.value.mistakes[0].startswith(start)


@pytest.mark.parametrize("name", ["person", "cohort", "forgotten"])
def test_names_of_the_cohorts_own_columns_are_refused(name: str) -> None:
    """Of quasi-identifiers, which stand beside them in restricted/cohorts; with cohort: window they may be."""
    mapping = lasting()
    mapping["fields"] = {**mapping["fields"], name: {"role": "quasi", "type": "categorical"}}
    columns = pa.schema([(field.name, pa.string()) for field in read(mapping).fields])
    with pytest.raises(PolicyError, match=f"restricted/cohorts has a column {name}"):
        bind(read(mapping), columns, text=True, source="feed")
    bind(read(mapping | {"cohort": "window"}), columns, text=True, source="feed")


@pytest.mark.parametrize(
    ("said", "share", "is_written"),
    [
        ({}, 0.05, False),
        ({"intake": 300}, 0.0, False),
        ({"max_delay": 0}, 0.0, False),
        ({"intake_share": 0.0}, 0.0, True),
        ({"intake": 300, "intake_share": 0.1}, 0.1, True),
    ],
)
def test_a_share_that_follows_from_the_rest_is_no_part_of_the_digest(
    said: dict[str, Any], share: float, is_written: bool
) -> None:
    """Runs and streams of builds that knew no share go on; two policies have two digests all the same."""
    policy = read(lasting(**said))
    assert policy.intake_share == share
    assert (b"intake_share" in policy_digest(policy)) is is_written
    assert read(to_mapping(policy)) == policy
    assert policy_digest(replace(policy, intake_share=0.3)) != policy_digest(policy)


def test_rules_for_values_say_what_they_are_about() -> None:
    """Both forms, told apart by every page; without cohorts that last a release is what is meant."""
    rules = {"diversity": {"kind": "distinct", "l": 2, "per": "release"}}
    rules["closeness"] = {"distance": "equal", "t": 0.2, "per": "epoch", "max_failing": 0.1}
    policy = parse_policy(with_field("amount", {"role": "sensitive"} | rules, cohort="lasting"), "t", "t")
    assert to_mapping(policy)["fields"]["amount"] | rules == to_mapping(policy)["fields"]["amount"]
    floor, measured = policy.promise.covered(policy)[-2:]
    assert "diversity (distinct, l 2) of amount" in floor
    assert "A floor for readers who do not link releases" in floor
    assert "no promise over the epoch" in floor
    assert measured.startswith("values, per epoch, measured only: closeness (equal, t 0.2) of amount.")
    assert policy.values_told == f"{floor} {measured}"
    (of_releases,) = policy.ruled
    assert (of_releases.diversity is not None, of_releases.closeness) == (True, None)
    assert [field.name for field in policy.counted] == ["amount"]
    rules = {"diversity": {"kind": "distinct", "l": 2, "per": "release"}}
    window = parse_policy(with_field("amount", {"role": "sensitive"} | rules, cohort="window"), "t", "t")
    assert [field.name for field in window.ruled] == ["amount"]
    assert (window.counted, window.values_told) == ((), None)
