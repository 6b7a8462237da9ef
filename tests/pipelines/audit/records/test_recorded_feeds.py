"""Whole runs with matching records: partitions, windows in parts, late and repeated rows, nulls and signed zeros."""

from __future__ import annotations

from pathlib import Path

import fastavro
import numpy as np
import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.matching_record_recipe import recipe_check
from kanonflow.transforms.secret.seeds import Secret

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
name: feed
k: 3
window: 1d
max_delay: 2d
partition_by: [kind]
max_window_rows: {most}
protect: {protect}
fields:
  who: {{role: {who}}}
  when: {{role: time}}
  age: {{role: quasi, type: numeric, as: int, domain: [0, 90], outside: code}}
  height: {{role: quasi, type: numeric, as: double}}
  town: {{role: quasi, type: categorical}}
  kind: {{role: insensitive}}
  amount: {{role: sensitive, as: double}}
  event: {{role: {event}}}
"""
THIRD_MIDNIGHT = 1_709_510_400_000
MODES = {
    "rows": ("row", "identifier", "identifier", 60),
    "rows of people": ("row", "individual", "event_id", 400),
    "classes": ("individual", "individual", "identifier", 60),
}


def afresh(protect: str) -> str:
    """The value of ``protect``, and for individuals the line that puts them together afresh in each window."""
    return "individual\ncohort: window" if protect == "individual" else protect


def write_feed(path: Path, seed: int) -> None:
    """Rows of 60 people on five days, late ones among them, some twice, some events twice, in two kinds and none."""
    random = np.random.default_rng(seed)
    lines = ["who,when,age,height,town,kind,amount,event"]
    for day in random.integers(1, 6, 260).tolist():
        person = int(random.integers(60))
        own = np.random.default_rng(person)
        cells = [
            f"p{person}",
            f"2024-03-{day:02d} {random.integers(24):02d}:00:00",
            str(own.integers(10, 95)),
            str(random.choice(["-0.0", "0.0", "1.5", "2.25"])),
            str(own.choice(["A", "B", ""])),
            str(random.choice(["x", "y", ""], p=[0.6, 0.35, 0.05])),
            str(random.choice(["-0.0", "0", "3.5"])),
            f"e{random.integers(240)}",
        ]
        lines += [",".join(cells)] * (1 + (random.random() < 0.05))
    path.write_text("\n".join(lines) + "\n")


def forget_after(out: Path, end: int) -> None:
    """What a run had written when the windows until ``end`` were released."""
    for path in (out / "restricted/metrics").glob("*.avro"):
        with path.open("rb") as stream:
            told = next(iter(fastavro.reader(stream)))
        if told["window_end"].timestamp() * 1000 > end:  # type: ignore[index]
            for place in (
                "release",
                "restricted/metrics",
                "restricted/matching_records",
                "restricted/rejected",
            ):
                (out / place / path.name).unlink(missing_ok=True)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_and_its_first_days_pass_every_check(mode: str, tmp_path: Path) -> None:
    """With matching records and secret the whole run passes; what was out after three days passes with the rest
    waiting, and is incomplete to the strict audit."""
    protect, who, event, most = MODES[mode]
    policy, source, out = tmp_path / "policy.yaml", tmp_path / "rows.csv", tmp_path / "out"
    policy.write_text(POLICY.format(protect=afresh(protect), who=who, event=event, most=most))
    write_feed(source, 7)
    given = ["--policy", str(policy), "--input", str(source), "--output", str(out), "--quiet"]
    assert main(["anonymize", *given, "--matching-records", "--threads", "1", "--evaluations", "20"]) == 0
    recipe = recipe_check(Secret.from_file(out / "restricted/secret"))
    whole = audit(policy, [str(source)], out, matching_records=True, recipe=recipe)
    assert whole.failures == ()
    assert whole.figures.matching_records == whole.figures.releases > 6
    forget_after(out, THIRD_MIDNIGHT)
    part = audit(policy, [str(source)], out, waiting=True, matching_records=True, recipe=recipe)
    assert part.failures == ()
    figures = part.figures
    assert figures.waiting == figures.records - figures.rejected - figures.rows > 50
    assert not audit(policy, [str(source)], out).passed
