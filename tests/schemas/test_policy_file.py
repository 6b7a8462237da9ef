"""Policies as files: what is accepted, what is refused, and that every mistake is reported at once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.durations import format_duration, parse_duration
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Cohort, Others, Policy, Protection, Role
from kanonflow.schemas.policy_file import (
    load_policy,
    parse_policy,
    policy_digest,
    policy_from_avro_schema,
    to_mapping,
)

FEED = """
version: 1
k: 5
window: 1d
max_delay: 2d
partition_by: [state]
individual: card
fields:
  booked: {role: time}
  born: {role: quasi, type: date, domain: [1900-01-01, 2020-01-01]}
  sex: {role: quasi, type: categorical}
  lat: {role: quasi, type: numeric, domain: [17, 72], grid: 0.1}
  amount: {role: sensitive, as: "decimal(9,2)"}
  state: insensitive
  name: {role: identifier}
others: drop
"""


def feed(**changes: Any) -> dict[str, Any]:
    """The feed's policy with keys replaced, or removed where the change is None."""
    mapping = {**yaml.safe_load(FEED), **changes}
    return {key: value for key, value in mapping.items() if value is not None}


def with_field(name: str, entry: Any, **changes: Any) -> dict[str, Any]:
    """The feed's policy with one field added or replaced."""
    mapping = feed(**changes)
    mapping["fields"] = {**mapping["fields"], name: entry}
    return mapping


def mistakes_of(mapping: Any) -> tuple[str, ...]:
    """What a policy is refused for; nothing when it is accepted."""
    try:
        parse_policy(mapping, "feed.yaml", "feed")
    except PolicyError as error:
        return error.mistakes
    return ()


def test_a_complete_policy_is_read(tmp_path: Path) -> None:
    """Keys, roles, shorthands and defaults of a file end up where the policy's properties look."""
    path = tmp_path / "feed.yaml"
    path.write_text(FEED)
    policy = load_policy(path)
    assert (policy.name, policy.k, policy.window_ms, policy.max_delay_ms) == (
        "feed",
        5,
        86_400_000,
        172_800_000,
    )
    assert policy.individual is not None
    assert policy.individual.name == "card"
    assert policy.time is not None
    assert policy.time.name == "booked"
    assert [field.name for field in policy.quasis] == ["born", "sex", "lat"]
    assert [field.name for field in policy.payload] == ["amount", "state"]
    assert policy.partition_by == ("state",)
    assert policy.field("lat").quasi.grid == Decimal("0.1")
    assert policy.others is Others.DROP


def test_an_individual_means_closed_classes() -> None:
    """A policy that names an individual protects individuals, put together once, in cohorts that last."""
    policy = parse_policy(feed(), "", "feed")
    assert (policy.protect, policy.cohort, policy.closed) == (Protection.INDIVIDUAL, Cohort.LASTING, True)
    rows = parse_policy(feed(protect="row"), "", "feed")
    assert (rows.protect, rows.cohort, rows.closed) == (Protection.ROW, None, False)


def test_how_many_rows_are_solved_in_one_go() -> None:
    """200,000 of a window unless the policy says otherwise, never so few that k leaves no choice."""
    assert parse_policy(feed(), "", "feed").max_window_rows == 200_000
    assert parse_policy(feed(max_window_rows=50), "", "feed").max_window_rows == 50
    assert parse_policy(feed(k=30_000, cohort="window"), "", "feed").max_window_rows == 300_000
    with pytest.raises(PolicyError, match=r"max_window_rows: must be a whole number of at least 50"):
        replace(parse_policy(feed(), "", "feed"), max_window_rows=3.5)


def test_all_mistakes_are_reported_at_once() -> None:
    """A policy with mistakes in many keys names every one of them in one error, once."""
    mapping = with_field(
        "lat", {"role": "quasi", "type": "numeric", "domain": [3, 1], "grid": -1}, k="five", windw=1
    )
    mapping["fields"] |= {"a": {"role": "?"}, "b": None, "born": {"role": "qusi"}, "c": {"role": "quasi"}}
    mapping["fields"]["amount"] = {"role": "sensitive", "foo": 2}
    found = mistakes_of(mapping)
    starts = [
        "windw: unknown key; did you mean window?",
        "k: must be",
        "fields without a role: a, b;",
        "fields.born.role: must be one of",
        "fields.amount.foo: unknown key",
        "fields.c.type: missing",
        "fields.lat.domain: low must be below high",
        "fields.lat.grid: must be a positive number",
    ]
    assert len(found) == len(starts)
    for start in starts:
        assert any(mistake.startswith(start) for mistake in found), start


def test_the_message_lists_the_mistakes_under_the_file() -> None:
    """The error's text names the source and holds one mistake a line; a command ends with 2."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(feed(k=1, metrics="secret"), "feed.yaml", "feed")
    lines = str(caught.value).splitlines()
    assert lines[0] == "feed.yaml: 2 mistakes in the policy"
    assert [line.split(":")[0] for line in lines[1:]] == ["  - k", "  - metrics"]
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("mapping", "start"),
    [
        (None, "file: must hold a mapping"),
        (feed(version=None), "version: missing"),
        (feed(version=2), "version: this version"),
        (feed(k=None), "k: missing"),
        (feed(k=True), "k: must be"),
        (feed(k=1), "k: must be"),
        (feed(name="a b"), "name: use letters"),
        (feed(window="1 day"), "window: must be a whole number and a unit"),
        (feed(window=3600), "window: must be a whole number and a unit"),
        (feed(window="0s"), "window: must be longer"),
        (feed(window=None, max_delay=None), "window: missing, but a field has role: time"),
        (
            feed(window={"size": "1d", "slide": "1h"}),
            "window: sliding windows would publish a row several times",
        ),
        (feed(slide="1h"), "slide: sliding windows"),
        (feed(every="1h"), "every: sliding windows"),
        (feed(window_offset="1d"), "window_offset: must be at least 0 and shorter"),
        (feed(state_ttl="1d"), "state_ttl: must be at least window + max_delay"),
        (feed(max_delay="-1d"), "max_delay: must be a whole number and a unit"),
        (feed(protect="everyone"), "protect: must be one of row, individual"),
        (feed(protect="individual", individual=None), "protect: individual needs a field"),
        (feed(cohort="window", protect="row"), "cohort: belongs to protect: individual"),
        (feed(others="refused"), "others: must be one of refuse, drop (did you mean refuse?)"),
        (feed(max_window_rows="200k"), "max_window_rows: must be a whole number of at least 1"),
        (feed(max_window_rows=0), "max_window_rows: must be a whole number of at least 1"),
        (feed(max_window_rows=True), "max_window_rows: must be a whole number"),
        (feed(max_window_rows=49), "max_window_rows: must be a whole number of at least 50 (10 * k)"),
        (feed(partition_by=["city"]), "partition_by: city is not declared"),
        (feed(partition_by=["sex"]), "partition_by: sex has role: quasi, but a partition field is published"),
        (feed(split_by=["city"]), "split_by: city is not declared"),
        (feed(split_by=["sex"]), "split_by: sex has role: quasi, but a split field is published"),
        (feed(split_by="booked"), "split_by: booked has role: time, but a split field is published"),
        (with_field("x", "insensitive", split_by=["x", "x"]), "split_by: names a field twice"),
        (
            with_field("x", "insensitive", split_by=["x"], partition_by=["x"]),
            "split_by: x is in partition_by, which parts the feed already",
        ),
        (feed(l_diversity=3), "l_diversity: unknown key"),
        (feed(solver={"evaluations_per_row": 0}), "solver.evaluations_per_row: must be a positive"),
        (feed(solver={"stars": [2]}), "solver.stars: must be a number, a word, true or false"),
        (feed(solver={"stars": None}), "solver.stars: must be a number, a word, true or false"),
        (feed(fields=None), "fields: must map each field"),
        (feed(individual="sex"), "individual: sex has another role"),
        (with_field("x", {"role": "individual"}), "fields: at most one field may have role: individual"),
        (with_field("x", {"role": "time"}), "fields: at most one field may have role: time"),
        (with_field("__x", "sensitive"), "fields.__x: names that start with '__'"),
        (with_field("release_id", "sensitive"), "fields.release_id: the release has a column of this name"),
        (with_field("x", {"role": "sensitive", "as": "decimal(2,3)"}), "fields.x.as: must be one of"),
        (with_field("x", {"role": "sensitive", "grid": 1}), "fields.x.grid: only quasi-identifiers"),
        (
            with_field("x", {"role": "quasi", "type": "hierarchy"}),
            "fields.x.hierarchy: missing; name its file",
        ),
        (
            with_field("x", {"role": "quasi", "type": "categorical", "hierarchy": "x.csv"}),
            "fields.x.hierarchy: only a policy file can name a file",
        ),
        (with_field("x", {"role": "quasi", "type": "numeric", "weight": 0}), "fields.x.weight: must be"),
        (
            with_field("x", {"role": "quasi", "type": "numeric", "domain": [1]}),
            "fields.x.domain: must be [low, high]",
        ),
        (
            with_field("x", {"role": "quasi", "type": "numeric", "grid": "day"}),
            "fields.x.grid: must be auto, exact",
        ),
        (
            with_field("x", {"role": "quasi", "type": "numeric", "as": "date"}),
            "fields.x.as: type: numeric needs",
        ),
        (
            with_field("x", {"role": "quasi", "type": "numeric", "outside": "code"}),
            "fields.x.outside: code needs",
        ),
        (with_field("x", {"role": "quasi", "type": "date", "grid": "week"}), "fields.x.grid: must be auto"),
        (
            with_field("x", {"role": "quasi", "type": "date", "domain": ["2020-01-01", "2019-01-01"]}),
            "fields.x.domain: the first date must be before",
        ),
        (
            with_field("x", {"role": "quasi", "type": "categorical", "grid": 1}),
            "fields.x.grid: a categorical",
        ),
        (
            with_field("x", {"role": "quasi", "type": "categorical", "domain": [True, False]}),
            "fields.x.domain: must list texts",
        ),
        (
            with_field("x", {"role": "quasi", "type": "categorical", "domain": ["a", "a"]}),
            "fields.x.domain: lists a value twice",
        ),
        (with_field(1, "sensitive"), "fields.1: a field's name must be text"),
        (
            with_field("booked", {"role": "time", "type": "date"}),
            "fields.booked.type: only quasi-identifiers",
        ),
        (
            with_field("booked", {"role": "time", "also_quasi": True, "type": "numeric"})
            | {"cohort": "window"},
            "fields.booked.type: a time field that is also a quasi-identifier needs type: date",
        ),
    ],
)
def test_one_mistake_is_one_message(mapping: Any, start: str) -> None:
    """Each rule of a policy refuses what breaks it with a single message that names the key."""
    found = mistakes_of(mapping)
    assert len(found) == 1, found
    assert found[0].startswith(start)


def test_a_policy_without_quasi_identifiers_is_refused() -> None:
    """There must be something to protect."""
    assert mistakes_of({"version": 1, "k": 2, "fields": {"a": "sensitive"}}) == (
        "fields: at least one field needs role: quasi; without one there is nothing to protect",
    )


def test_a_time_field_can_be_a_quasi_identifier_too() -> None:
    """``also_quasi`` keeps the role of the event time and publishes it generalized."""
    policy = parse_policy(
        with_field("booked", {"role": "time", "also_quasi": True, "type": "date"}) | {"cohort": "window"},
        "",
        "feed",
    )
    assert policy.time is not None
    assert policy.time.also_quasi
    assert policy.quasis[0] is policy.time


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    """YAML would let the second declaration of a field replace the first silently."""
    path = tmp_path / "twice.yaml"
    path.write_text(FEED.replace("  name: {role: identifier}", "  amount: {role: identifier}"))
    with pytest.raises(PolicyError, match=r"line \d+: not valid YAML: the key amount is given twice"):
        load_policy(path)


def test_files_that_are_no_policies_are_refused(tmp_path: Path) -> None:
    """A missing file, a binary one and broken YAML are policy errors, not tracebacks."""
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x81")
    (tmp_path / "broken.yaml").write_text("fields: {a: [")
    for name, reason in (("missing", "cannot be read"), ("binary", "not"), ("broken", "not valid YAML")):
        with pytest.raises(PolicyError, match=reason):
            load_policy(tmp_path / f"{name}.yaml")


@pytest.mark.parametrize(
    "day", ["2020-02-30", "2020-13-01", "0000-01-01", "2020-01-01 25:00:00", "2020-01-01 00:00:00+24:00"]
)
def test_a_date_that_no_calendar_has_is_a_mistake_of_its_field(tmp_path: Path, day: str) -> None:
    """A user's slip: it is told with the field, beside the other mistakes."""
    path = tmp_path / "feed.yaml"
    path.write_text(FEED.replace("2020-01-01", day).replace("k: 5", "k: 1"))
    with pytest.raises(PolicyError) as error:
        load_policy(path)
    mistakes = error.value.mistakes
    assert len(mistakes) == 2
    assert (
        "fields.born.domain: must be [first, last], two ISO dates of the calendar, such as 1930-01-01"
        in mistakes
    )


def test_a_word_for_null_may_look_like_a_date(tmp_path: Path) -> None:
    """Which no calendar has, as databases write it for none."""
    path = tmp_path / "feed.yaml"
    path.write_text(FEED + "csv: {nulls: [0000-00-00]}\n")
    assert load_policy(path).csv.nulls == ("0000-00-00",)


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        ("0x_", "a value is written as int, and is none; put it in quotes if it is text"),
        ("!!int x", "a value is written as int, and is none"),
        ("!!int ''", "a value is written as int, and is none"),
        ("!!float x", "a value is written as float, and is none"),
        ("1:" + 200 * "59:" + "1.5", "a value is written as float, and is none"),
        ("!!bool perhaps", "a value is written as bool, and is none"),
        ("!!set a", "a list or a value is written as a mapping"),
        ("!!map [a]", "a list or a value is written as a mapping"),
        (r'"\UFFFFFFFF"', r"the number behind \U is no character's"),
        (r'"\U00110000"', r"the number behind \U is no character's"),
        (r'"\uD800"', "half of a pair of surrogates is no character"),
    ],
)
@pytest.mark.parametrize("place", ["name: {}\n", "{}: 1\n", "csv:\n  nulls: [{}]\n"])
def test_a_value_that_is_not_what_it_looks_like_is_told_with_its_line(
    tmp_path: Path, value: str, mistake: str, place: str
) -> None:
    """Wherever it stands."""
    path = tmp_path / "feed.yaml"
    path.write_text(FEED + place.format(value))
    with pytest.raises(PolicyError) as error:
        load_policy(path)
    line = FEED.count("\n") + place.count("\n")
    (told,) = error.value.mistakes
    assert told.startswith(f"line {line}: not valid YAML: {mistake}")


@pytest.mark.parametrize(
    "fields",
    [
        None,
        7,
        ["a"],
        [{"type": "int"}],
        [{"name": 7}],
        [{"name": "\ud800"}],
        [{"name": []}],
        [{"name": "a"}, {"name": "a"}],
    ],
)
def test_an_avro_schema_whose_fields_have_no_names_holds_no_policy(fields: Any) -> None:
    """It is said so, also of two fields of one name, of which the second would replace the first."""
    schema = {"type": "record", "name": "R", "kanonflow": {"k": 2, "others": "drop"}, "fields": fields}
    with pytest.raises(PolicyError, match=r"fields: .* each with a name of its own"):
        policy_from_avro_schema(schema, "a.avsc")


def test_a_policy_in_an_avro_schema() -> None:
    """Record and field properties hold what a file would; fields without one are unclassified."""
    fields = [
        {"name": "age", "type": "int", "kanonflow": {"role": "quasi", "type": "numeric"}},
        {"name": "pay", "type": "int", "kanonflow": {"role": "sensitive"}},
        {"name": "note", "type": "string"},
    ]
    schema = {"type": "record", "name": "People", "kanonflow": {"k": 3}, "fields": fields}
    with pytest.raises(PolicyError, match="fields without a role: note;"):
        policy_from_avro_schema(schema, "people.avsc")
    schema["kanonflow"] = {"k": 3, "others": "drop", "max_window_rows": 1000}
    policy = policy_from_avro_schema(schema, "people.avsc")
    assert (policy.name, policy.k, policy.max_window_rows) == ("People", 3, 1000)
    assert [field.role for field in policy.fields] == [Role.QUASI, Role.SENSITIVE]
    with pytest.raises(PolicyError, match="no such property"):
        policy_from_avro_schema({"type": "record", "name": "X", "fields": []}, "x.avsc")


NUMBERS = st.decimals(-(10**6), 10**6, places=3)
PAIRS = st.tuples(NUMBERS, NUMBERS).filter(lambda pair: pair[0] < pair[1]).map(list)
DATES = st.tuples(st.dates(), st.dates()).filter(lambda pair: pair[0] < pair[1]).map(list)
WEIGHTS = st.floats(1e-3, 1e3)
QUASIS = st.one_of(
    st.fixed_dictionaries(
        {"role": st.just("quasi"), "type": st.just("numeric")},
        optional={
            "domain": PAIRS,
            "grid": st.sampled_from(["auto", "exact", 5, 0.25, "0.1"]),
            "weight": WEIGHTS,
            "as": st.sampled_from(["int", "double", "decimal(12,3)"]),
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("quasi"), "type": st.just("date"), "domain": DATES, "outside": st.just("code")},
        optional={"grid": st.sampled_from(["exact", "month"])},
    ),
    st.fixed_dictionaries(
        {"role": st.just("quasi"), "type": st.just("categorical")},
        optional={"domain": st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=4, unique=True)},
    ),
)
DURATIONS = st.integers(1, 10**12).map(format_duration)
MAPPINGS = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "k": st.integers(2, 50),
        "fields": st.dictionaries(
            st.from_regex(r"[a-z]{1,4}", fullmatch=True), QUASIS, min_size=1, max_size=4
        ).map(
            lambda quasis: {**quasis, "_time": {"role": "time"}, "_who": "individual", "_pay": "sensitive"}
        ),
        "window": DURATIONS,
    },
    optional={
        "max_delay": DURATIONS,
        "max_ahead": DURATIONS,
        "max_window_rows": st.integers(500, 10**9),
        "protect": st.sampled_from(["row", "individual"]),
        "others": st.sampled_from(["refuse", "drop"]),
        "metrics": st.sampled_from(["restricted", "public"]),
        "solver": st.fixed_dictionaries(
            {},
            optional={
                "evaluations_per_row": st.floats(0.1, 100),
                "deadline": DURATIONS,
                "seed": st.integers(0),
                "loss": st.sampled_from(["ncp", "sil"]),
                "stars": st.integers(0, 5),
                "improvement": st.sampled_from(["best", "first"]),
                "literal": st.booleans(),
                "mutation": st.floats(0, 1),
            },
        ),
    },
)


@settings(derandomize=True, max_examples=60)
@given(MAPPINGS)
def test_a_policy_survives_the_way_to_a_mapping_and_back(mapping: dict[str, Any]) -> None:
    """to_mapping spells out all of a policy: reading it back, also through YAML, gives the same policy."""
    choice = mapping.get("solver", {})
    if mapping.get("protect") != "row" and (choice.get("loss") == "sil" or "deadline" in choice):
        # What cohorts that last do not take.
        mapping = mapping | {"cohort": "window"}
    policy = parse_policy(mapping, "", "feed")
    again = parse_policy(to_mapping(policy), "", "other")
    through_yaml = parse_policy(
        yaml.safe_load(yaml.safe_dump(to_mapping(policy), sort_keys=False)), "", "other"
    )
    assert again == through_yaml == policy
    assert policy_digest(again) == policy_digest(policy)


def test_the_digest_tells_policies_apart() -> None:
    """The canonical bytes change with every setting and with the order of the fields, not with spelling."""
    base = parse_policy(feed(), "", "feed")
    reordered = feed()
    reordered["fields"] = dict(reversed(reordered["fields"].items()))
    variants = [feed(k=6), feed(window="2d"), feed(name="b"), reordered, with_field("lat", "sensitive")]
    variants.append(feed(max_window_rows=100_000))
    variants.append(feed(solver={"loss": "sil"}, cohort="window"))
    digests = {policy_digest(parse_policy(variant, "", "feed")) for variant in variants}
    assert len(digests | {policy_digest(base)}) == len(variants) + 1
    spelled = with_field(
        "lat", {"role": "quasi", "type": "numeric", "domain": [17.0, "72.00"], "grid": "0.10"}
    )
    assert policy_digest(parse_policy(spelled, "", "feed")) == policy_digest(base)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("10m", 600_000), ("1w", 604_800_000), ("5ms", 5), (0, 0)]
)
def test_durations(text: object, milliseconds: int) -> None:
    """Durations are a whole number and a unit; a number alone has no unit."""
    assert parse_duration(text) == milliseconds
    assert parse_duration(format_duration(milliseconds)) == milliseconds
    assert all(parse_duration(wrong) is None for wrong in ("1.5d", "d", "1 d", 10, True, None, "-1d"))


def test_a_policy_built_in_code_obeys_the_same_rules() -> None:
    """The constructor refuses what a file would be refused for."""
    fields = parse_policy(feed(), "", "feed").fields
    with pytest.raises(PolicyError, match="window: missing"):
        Policy(name="p", k=5, fields=fields)
    assert Policy(name="p", k=5, fields=fields, window_ms=1000).protect is Protection.INDIVIDUAL
