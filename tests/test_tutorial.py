"""docs/tutorial.md: each of its commands, one after the other, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fastavro
import pytest

pytestmark = pytest.mark.thorough

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"


@pytest.mark.timeout(300)
def test_the_tutorial_goes_from_a_file_as_people_have_it_to_an_audited_release(tmp_path: Path) -> None:
    """Decimal commas, German dates, local times and cp1252: drafted, checked, released, audited; all rows accounted
    for, and the rejected ones written out in the file's own encoding."""
    steps = re.findall(r"^```(bash|python)\n(.*?)^```$", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)
    commands = os.path.dirname(sys.executable)
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    said = {}
    for language, text in steps:
        command = ["bash", "-ec", text] if language == "bash" else [sys.executable, "-c", text]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
        said[text.split()[1] if language == "bash" else "python"] = ran.stdout
    policy = (tmp_path / "umsaetze.yaml").read_text()
    assert 'decimal: ","' in policy
    assert "timezone: Europe/Berlin" in policy
    assert 'role: "?"' not in policy
    assert said["policy"].count("fits umsaetze.csv") == 1
    assert "audit passed" in said["verify"]
    released = [
        row
        for path in (tmp_path / "umsaetze-out" / "release").glob("*.avro")
        for row in fastavro.reader(path.open("rb"))
    ]
    rows = (tmp_path / "umsaetze.csv").read_text(encoding="cp1252").splitlines()
    mend = (tmp_path / "mend.csv").read_text(encoding="cp1252").splitlines()
    assert mend[0] == rows[0]
    assert set(mend[1:]) < set(rows[1:])
    rejected = re.search(r"^([0-9,]+) rejected rows$", said["rejected"], re.MULTILINE)
    assert rejected is not None
    assert len(released) + int(rejected[1].replace(",", "")) == len(rows) - 1
    assert int(rejected[1].replace(",", "")) >= len(mend) - 1 > 0
    assert {str(row["Betrag"])[-3] for row in released if row["Betrag"] is not None} == {"."}
