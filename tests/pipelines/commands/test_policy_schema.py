"""``kanonflow policy schema``."""

import json

import pytest

from kanonflow.pipelines import cli
from kanonflow.schemas.policy_documents import policy_schema


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """Whole, and nothing besides."""
    assert cli.main(["policy", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == policy_schema()
