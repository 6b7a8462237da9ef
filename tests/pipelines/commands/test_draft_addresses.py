"""What a draft proposes of addresses."""

from pathlib import Path

import pyarrow as pa
import pytest

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.fit.proposed_roles import addresses_of


@pytest.mark.parametrize(
    ("cells", "of"),
    [
        (["10.0.0.1", "192.0.2.7", None], "ipv4"),
        (["2001:db8::1", "::"], "ipv6"),
        (["10.0.0.1", "2001:db8::1"], None),
        (["10.0.0.1", "10.0.0"], None),
        ([None], None),
    ],
)
def test_addresses_are_those_of_one_version(cells: list[str | None], of: str | None) -> None:
    """Nearly all of them; a mixed column is none of either, for the rest would be rejected."""
    assert addresses_of(pa.array(cells, pa.string())) == of
    assert addresses_of(pa.array([1, 2])) is None


def test_a_draft_proposes_prefixes_of_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person's address is a quasi-identifier of type prefix."""
    rows = [f"p{row % 40},10.0.{row % 8}.{row % 8},{row % 7}" for row in range(160)]
    (tmp_path / "in.csv").write_text("\n".join(["who,client,amount", *rows]) + "\n")
    assert main(["policy", "draft", "--input", str(tmp_path / "in.csv")]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("client"))
    assert "prefix" in line
    assert "ipv4" in line
