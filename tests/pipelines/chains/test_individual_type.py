"""What kind of value an individual's id is, and when two runs differ in it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kanonflow.pipelines.chains.continued_run import cohorts_record
from kanonflow.pipelines.chains.individual_type import (
    KEY,
    individual_type,
    resumed_type,
    type_difference,
)
from kanonflow.pipelines.options.table import INDIVIDUAL_TYPES
from kanonflow.pipelines.run_records.run_directory import RunDirectoryError, StreamStart, open_run_directory
from kanonflow.pipelines.run_records.run_record import read_record, write_record
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.secret.seeds import Secret

SECRET = Secret(bytes(range(40)))


def bound(ids: pa.DataType, **field: str) -> BoundPolicy:
    """A policy over a typed input whose ids are of a type."""
    policy = parse_policy(
        {
            "version": 1,
            "name": "typed",
            "k": 3,
            "window": "1d",
            "cohort": "lasting",
            "fields": {
                "who": {"role": "individual", **field},
                "when": {"role": "time"},
                "age": {"role": "quasi", "type": "numeric"},
            },
        },
        "here",
        "typed",
    )
    schema = pa.schema([("who", ids), ("when", pa.timestamp("ms")), ("age", pa.int32())])
    return bind(policy, schema, text=False, source="here")


@pytest.mark.parametrize(
    ("ids", "field", "kind"),
    [
        (pa.string(), {}, "string"),
        (pa.dictionary(pa.int32(), pa.string()), {}, "string"),
        (pa.uuid(), {}, "string"),
        (pa.int8(), {}, "long"),
        (pa.int64(), {}, "long"),
        (pa.float64(), {"as": "long"}, "long"),
        (pa.string(), {"as": "long"}, "long"),
        (pa.int64(), {"as": "string"}, "string"),
        (pa.binary(), {}, "bytes"),
        (pa.binary(16), {}, "bytes"),
    ],
)
def test_what_counts_is_the_canonical_type(ids: pa.DataType, field: dict[str, str], kind: str) -> None:
    """After ``as``: two inputs are of one type where equal people have equal texts. It is on record, and what the flag
    can say are these words."""
    assert individual_type(bound(ids, **field)) == kind
    assert cohorts_record(bound(ids, **field))[KEY] == kind
    assert kind in INDIVIDUAL_TYPES


@pytest.mark.parametrize("there", INDIVIDUAL_TYPES)
@pytest.mark.parametrize("here", [pa.string(), pa.int64(), pa.binary()])
@pytest.mark.parametrize("recorded", [True, False])
def test_two_types_are_named_with_a_mend_and_one_goes_on(
    there: str, here: pa.DataType, recorded: bool
) -> None:
    """Whether it is on record or told by the user."""
    now = bound(here)
    before = {"individual": "who", **({KEY: there} if recorded else {})}
    said = type_difference(before, now, None if recorded else there)
    if there == individual_type(now):
        assert said is None
    else:
        assert said is not None
        assert f"({there})" in said.replace("bytes", "(bytes)")
        assert f"({individual_type(now)})" in said.replace("bytes", "(bytes)")
        assert "To go on" in said


def test_a_stream_from_its_state_has_the_type_that_it_began_with(tmp_path: Path) -> None:
    """A source of the same name that has changed its type is refused; what an earlier build began is written down."""
    output, text, numbers = str(tmp_path / "out"), bound(pa.string()), bound(pa.int64())

    def opened(now: BoundPolicy, from_state: bool) -> dict[str, object]:
        start = StreamStart("files", {"name": "job"}, from_state, "--savepoint_path", lambda job: False)
        feed = [{"topic": "feed"}]
        with open_run_directory(
            output, now.policy, feed, SECRET, resume=from_state, stream=start, bound=now
        ) as directory:
            record = read_record(str(Path(directory.output) / "restricted"))
        assert record is not None
        return record

    cohorts = opened(text, False)["cohorts"]
    with pytest.raises(RunDirectoryError, match=r"who was text \(string\) and is whole numbers \(long\)"):
        opened(numbers, True)
    assert opened(text, True)["cohorts"] == cohorts
    restricted = str(tmp_path / "out" / "restricted")
    old = read_record(restricted)
    assert old is not None
    del old["cohorts"][KEY]
    write_record(restricted, old)
    assert opened(text, True)["cohorts"] == cohorts
    assert resumed_type(old["cohorts"], None) is None
