"""What the report of each protection says it did not look at."""

from __future__ import annotations

import pytest

from kanonflow.pipelines.audit.protections import Graphs, People, protection_of
from kanonflow.pipelines.audit.unchecked import Seen
from kanonflow.schemas.policy_file import parse_policy

STRUCTURE, SWAPPED = (
    "how many may stand behind a row",
    "payloads that changed places between boxes that hold both records",
)


@pytest.mark.parametrize(
    ("protect", "kind", "names"), [("row", Graphs, [STRUCTURE, SWAPPED]), ("individual", People, [STRUCTURE])]
)
def test_what_ended_early_is_told(protect: str, kind: type[Graphs], names: list[str]) -> None:
    """In a graph that payloads may have changed places, too; in a class of people that is the promise itself."""
    fields = {"who": {"role": "individual"}, "x": {"role": "quasi", "type": "numeric"}}
    protection = protection_of(
        parse_policy({"version": 1, "k": 2, "protect": protect, "fields": fields}, "t", "t")
    )
    assert type(protection) is kind
    seen = Seen(matching_records=False, secret=False, metrics=True, waiting=False, structure=False)
    assert [name for name, _ in protection.unchecked(seen)] == names
