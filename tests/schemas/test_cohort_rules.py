"""What policies could say before about individuals: read as what it is called now, or refused with what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kanonflow.pipelines import cli
from kanonflow.schemas.policy import Cohort
from kanonflow.schemas.policy_file import parse_policy, policy_digest, policy_from_avro_schema, to_mapping
from tests.schemas.test_policy_file import feed, mistakes_of


@pytest.mark.parametrize(
    ("mapping", "start", "instead"),
    [
        (feed(cohort="keep"), "cohort: keep is gone", "leave it out for cohorts that last"),
        (feed(cohort="strict"), "cohort: strict is gone", "leave it out for cohorts that last"),
        (feed(cohort_windows=6), "cohort_windows: is gone", "leave it out"),
        (feed(stability=0.25), "stability: is gone", "leave it out"),
        (feed(stability=0), "stability: is gone", "leave it out"),
        (feed(hold_share=0.1), "hold_share: is gone", "leave it out"),
        (feed(shape="graph"), "shape: graph over individuals is gone", "cohort: window"),
        (feed(shape="ring"), "shape: is gone but for classes", "leave it out"),
        (feed(shape="graph", protect="row"), "shape: belongs to protect: individual", "leave it out"),
        (feed(cohort="window", protect="row"), "cohort: belongs to protect: individual", "leave it out"),
        (feed(cohort="windw"), "cohort: must be one of window", "did you mean window?"),
        (feed(cohort=["strict"]), "cohort: must be one of window", "window"),
    ],
)
def test_what_is_gone_is_refused_with_what_to_write(
    mapping: dict[str, Any], start: str, instead: str
) -> None:
    """One mistake each, which names the key and the mend."""
    (mistake,) = mistakes_of(mapping)
    assert mistake.startswith(start)
    assert instead in mistake


def test_all_that_is_gone_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, a sentence for each, beside the mistakes of other keys."""
    mapping = feed(cohort="strict", shape="graph", stability=0.2, hold_share=0.1, cohort_windows=6, k=1)
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(mapping))
    assert cli.main(["policy", "check", str(path)]) == 2
    told = capsys.readouterr().err
    for key in (
        "cohort: strict",
        "shape: graph",
        "stability: is",
        "hold_share: is",
        "cohort_windows: is",
        "k: must",
    ):
        assert told.count(f"- {key}") == 1, key


@pytest.mark.parametrize(
    "former", [{"cohort": "free"}, {"shape": "classes"}, {"cohort": "free", "shape": "classes"}]
)
def test_former_names_are_read_as_those_of_now(former: dict[str, str]) -> None:
    """The same policy as without them, a note for each, also from the properties of an Avro schema."""
    now = parse_policy(feed(cohort="window") if "cohort" in former else feed(), "", "feed")
    policy = parse_policy(feed(**former), "", "feed")
    assert policy == now
    assert policy.cohort is (Cohort.WINDOW if "cohort" in former else Cohort.LASTING)
    assert (len(policy.notes), now.notes) == (len(former), ())
    assert policy_digest(policy) == policy_digest(now)
    assert not {"shape", "stability", "hold_share"} & to_mapping(policy).keys()
    head = {key: value for key, value in feed(**former).items() if key not in ("fields", "individual")}
    fields = [
        {"name": name, "type": "string", "kanonflow": entry}
        for name, entry in to_mapping(now)["fields"].items()
    ]
    assert (
        policy_from_avro_schema({"name": "feed", "kanonflow": head, "fields": fields}, "").notes
        == policy.notes
    )


def test_cohorts_that_last_are_the_default() -> None:
    """Written or left out, where there is a window; without one people are put together once in any case."""
    assert parse_policy(feed(cohort="lasting"), "", "feed") == parse_policy(feed(), "", "feed")
    assert to_mapping(parse_policy(feed(), "", "feed"))["cohort"] == "lasting"
    single = feed(window=None, max_delay=None)
    del single["fields"]["booked"]
    assert to_mapping(parse_policy(single, "", "feed"))["cohort"] == "window"
    assert "cohort" not in to_mapping(parse_policy(feed(protect="row"), "", "feed"))


@pytest.mark.parametrize("explicit", [True, False])
def test_free_says_nothing_where_rows_are_protected(explicit: bool) -> None:
    """As policies of before were written out, with and without ``protect``: read with a note, as if it were absent."""
    mapping = feed(individual=None, cohort="free")
    plain = feed(individual=None)
    if explicit:
        mapping, plain = mapping | {"protect": "row"}, plain | {"protect": "row"}
    policy = parse_policy(mapping, "", "feed")
    assert policy == parse_policy(plain, "", "feed")
    (note,) = policy.notes
    assert "leave it out" in note
    (mistake,) = mistakes_of(mapping | {"shape": "classes"})
    assert mistake.startswith("shape: belongs to protect: individual")
