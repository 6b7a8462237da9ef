"""docs/reasons.md has every reason for which the code rejects a row, and no other."""

import json
import re
from pathlib import Path

from kanonflow.transforms.release.rejected import MESSAGES
from kanonflow.transforms.rows.unfit import UNFIT
from kanonflow.transforms.sinks.sinks import CONFLICT

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reasons.md"


def in_schema() -> set[str]:
    """The reasons that rejected.avsc names."""
    schema = json.loads((ROOT / "schemas" / "rejected.avsc").read_text())
    (doc,) = [field["doc"] for field in schema["fields"] if field["name"] == "reason"]
    return set(re.findall(r"\w+_\w+|\b(?!or\b)\w+", doc))


def on_page() -> dict[str, tuple[str, str]]:
    """Reason -> what it means, what to do."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len({row[0] for row in rows})
    return {reason: (meaning, mend) for reason, meaning, mend in rows}


def test_the_page_has_the_reasons_of_the_schema() -> None:
    """Each with what it means and what to do."""
    assert set(on_page()) == in_schema()
    for meaning, mend in on_page().values():
        assert meaning.endswith(".")
        assert mend.endswith(".")


def test_the_schema_has_the_reasons_of_the_code() -> None:
    """Those of rows that do not fit, of releases and of sinks; and ``ahead``, which stands in no list."""
    assert set(MESSAGES) | set(UNFIT) | {CONFLICT, "ahead"} == in_schema()


def test_reasons_of_the_input_stand_together() -> None:
    """Under the heading that names max_rejected stand those that it counts, and no others."""
    part = PAGE.read_text().partition("## The input does not fit")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) == set(UNFIT)
