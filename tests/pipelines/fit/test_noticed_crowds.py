"""Where half of the people lie in a hundredth of a field's domain, draft, check and explain say so, with the mend."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from kanonflow.pipelines.cli import main
from kanonflow.schemas.field_declaration import field_mapping
from kanonflow.schemas.policy_file import parse_policy

pytestmark = pytest.mark.thorough

CROWD = "half of the people lie in"
POLICY = """version: 1
k: 5
fields:
  holder: {role: individual}
  credit-limit: {role: quasi, type: numeric, as: long, domain: [0, 3000000], outside: code}
  amount: {role: sensitive, as: double}
"""


def rows_of(limits: np.ndarray, visits: np.ndarray) -> str:
    """Rows of people as often as they come."""
    rng = np.random.default_rng(1)
    lines = [
        f"h{person:04},{int(limits[person])},{rng.integers(1, 99)}.50"
        for person in rng.permutation(np.repeat(np.arange(limits.size), visits))
    ]
    return "\n".join(["holder,credit-limit,amount", *lines, ""])


def test_a_crowd_of_people_is_noticed_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By people and not by rows: the few who are far out have most of the rows. A draft says the scale; a policy
    without one is told of it, and one with it no more."""
    rng = np.random.default_rng(3)
    limits = np.append(50 * np.rint(np.exp(rng.normal(3.5, 1.2, 380))), rng.integers(1, 30, 20) * 99_000)
    visits = np.append(np.full(380, 3), np.full(20, 100))
    (tmp_path / "feed.csv").write_text(rows_of(limits, visits))
    (tmp_path / "policy.yaml").write_text(POLICY)
    feed, policy = str(tmp_path / "feed.csv"), str(tmp_path / "policy.yaml")

    assert main(["policy", "draft", "--input", feed, "--individual", "holder"]) == 0
    text = capsys.readouterr().out
    drafted = yaml.safe_load(text)
    assert CROWD in text
    assert drafted["fields"]["credit-limit"]["scale"] == "rank"
    assert len(drafted["fields"]["credit-limit"]["quantiles"]) == 19
    parse_policy(drafted, "draft", "draft")

    main(["policy", "check", policy, "--input", feed])
    said = next(line for line in capsys.readouterr().out.splitlines() if CROWD in line)
    assert said.startswith("- credit-limit: ")
    assert "say scale: rank, quantiles: [" in said

    assert main(["explain", "--policy", policy, "--input", feed, "--quick", "--json"]) == 0
    (sentence,) = [
        each for each in json.loads(capsys.readouterr().out)["recommendations"] if each["kind"] == "scale"
    ]
    assert "of the domain of credit-limit" in sentence["sentence"]
    mended = yaml.safe_load(POLICY)
    mended["fields"] |= sentence["change"]["fields"]
    (found,) = [each for each in parse_policy(mended, "", "p").fields if each.quasi]
    assert field_mapping(found)["domain"] == ["0", "3000000"]

    (tmp_path / "policy.yaml").write_text(json.dumps(mended))
    main(["policy", "check", policy, "--input", feed])
    assert CROWD not in capsys.readouterr().out
    main(["explain", "--policy", policy, "--input", feed, "--quick"])
    assert "hundredth of the domain" not in capsys.readouterr().out
