"""Do the sentences of ``kanonflow explain`` hold when they are carried out?

Data: complete_journey and sparkov under their example policies; and complete_journey, where days are thin, with windows
of a day and no delay, and with people put together afresh (``cohort: window``).

    1. ``explain --json`` in a process of its own. Each recommendation in it has a change of the policy file and the
       figures that its sentence says.
    2. The policy as it is, and with each change, over the whole feed (``anonymize_table``, another secret, the search
       as long as a run's): every window, warm starts, what waits.
    3. cost: GCP of the published boxes by rows, a row that is rejected counts 1; of fields that a change leaves out,
       GCP of the others. Widths: medians over all released rows.

gain: 1 - cost with the change / cost without it, as said and as it came out. holds: of what gains, that at least half
of it came out, and the field that is named is published narrower; of what is said to cost nothing, that it cost no more
than 2%; of larger cohorts, that the cost is within 15% of what is said. off: greatest relative difference between a
figure that is said and the one that came out.

Of the policies as they are, also every other one that explain tried: the GCP that it said, of the stretches it played,
and that of a whole run under the change. off: their relative difference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from benchmarks.data_sets import COMPLETE_JOURNEY, SPARKOV, DataSet, MissingDataError, data_path
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed_child
from kanonflow.pipelines.dry_run.measures import median_widths
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.policies import __file__ as policies
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import Secret

CASES: tuple[tuple[DataSet, str, dict[str, Any]], ...] = (
    (COMPLETE_JOURNEY, "as it is", {}),
    (COMPLETE_JOURNEY, "days, no delay", {"window": "1d", "max_delay": 0}),
    (COMPLETE_JOURNEY, "afresh", {"cohort": "window"}),
    (SPARKOV, "as it is", {}),
)
COLUMNS = (
    "data",
    "policy",
    "sentence",
    "gain, said",
    "gain",
    "before, said",
    "before",
    "after, said",
    "after",
    "off",
    "holds",
)
VARIANTS = ("data", "varied", "variant", "rows played", "rows", "GCP, said", "GCP", "off")
SPEED = ("data", "policy", "rows", "step", "seconds, wall", "seconds, CPU")
_SECRET = b"the secret of a benchmark, which is none"


class Came(NamedTuple):
    """What a whole run came to. ncp: mean share of the domain by field. rejected: share of the rows. gcp: by rows."""

    ncp: dict[str, float]
    widths: dict[str, float | None]
    rejected: float
    gcp: float = 0.0

    def cost(self, fields: set[str]) -> float:
        """Of some fields, a rejected row counted 1."""
        loss = float(np.mean([self.ncp[name] for name in sorted(fields)]))
        return loss * (1.0 - self.rejected) + self.rejected


def with_change(mapping: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A policy file's mapping with a change carried out: None takes a key out."""
    made = {**mapping, "fields": {**mapping["fields"], **change.get("fields", {})}}
    made |= {key: value for key, value in change.items() if key != "fields"}
    return {key: value for key, value in made.items() if value is not None}


def whole_run(path: Path, mapping: Mapping[str, Any], name: str) -> Came:
    """Anonymize all rows of a file under a policy."""
    policy = parse_policy(dict(mapping), name, name)
    files = find_inputs([str(path)])
    schema = input_schema(files)
    bound = bind(policy, schema.columns, text=schema.text, csv=schema.csv, source=name)
    batches = [
        from_ipc(batch.ipc) for file in files for batch in read_batches(file, list(bound.input_columns))
    ]
    table = pa.concat_tables(batches)
    rows = table.num_rows
    for field in policy.fields:
        if field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(rows, pa.string()))
    found = anonymize_table(table, policy, Secret(_SECRET), text=schema.text)
    releases = [record for record in found.metrics if record["released"]]
    weights = [record["rows_released"] for record in releases]
    ncp = {
        column.name: float(np.average([record["ncp"][column.name] for record in releases], weights=weights))
        for column in bound.quasis
    }
    gcp = float(np.average([record["gcp"] for record in releases], weights=weights))
    return Came(ncp, median_widths(found.released, bound), len(found.rejected) / rows, gcp)


class WholeRuns:
    """Whole runs over a file under a policy with changes, each change once."""

    def __init__(self, path: Path, mapping: Mapping[str, Any], name: str) -> None:
        self._policy = (path, mapping, name)
        self._came: dict[str, Came] = {}

    def under(self, change: Mapping[str, Any]) -> Came:
        """What came of a change."""
        path, mapping, name = self._policy
        key = repr(sorted(change.items()))
        if key not in self._came:
            self._came[key] = whole_run(path, with_change(mapping, change), name)
        return self._came[key]


def explained(path: Path, mapping: Mapping[str, Any], folder: Path, *flags: str) -> dict[str, Any]:
    """The JSON of the command."""
    policy = folder / f"{mapping['name']}.yaml"
    policy.write_text(yaml.safe_dump(dict(mapping), sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "kanonflow.pipelines.cli", "explain", "--policy", str(policy)]
    told = subprocess.run(
        [*command, "--input", str(path), "--json", *flags], capture_output=True, text=True, check=True
    )
    result: dict[str, Any] = json.loads(told.stdout)
    return result


def off(said: float | None, came: float | None) -> float:
    """Relative difference; 0 where nothing is said."""
    if said is None or came is None:
        return 0.0
    return abs(said - came) / max(abs(came), 1e-9)


def tried(recommendation: Mapping[str, Any], before: Came, after: Came) -> tuple[Any, ...]:
    """The row of a recommendation, without the data's name and the policy's."""
    measured, kind = recommendation["measured"], recommendation["kind"]
    fields = set(before.ncp) & set(after.ncp)
    gain = 1.0 - after.cost(fields) / before.cost(fields)
    said = recommendation["gain"]
    if "cost" in measured:
        first, then = measured["cost"]
        said = 1.0 - then / first
    if "field" in measured:
        name = measured["field"]
        figures = [
            measured["before"],
            before.widths[name],
            measured["after"],
            after.widths[name],
        ]
    else:
        first, then = measured.get("cost") or measured["others"]
        figures = [first, before.cost(fields), then, after.cost(fields)]
    far = max(off(figures[0], figures[1]), off(figures[2], figures[3]))
    if recommendation["gain"] > 0:
        narrower = "field" not in measured or (after.widths[measured["field"]] or 0.0) < (
            before.widths[measured["field"]] or 0.0
        )
        holds = gain >= said / 2 and narrower
    elif kind == "cohort_size":
        holds = off(measured["cost"][1], after.cost(fields)) <= 0.15
    else:
        holds = after.cost(fields) <= 1.02 * before.cost(fields)
    return (recommendation["sentence"], said, gain, *figures, far, holds)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Whether what explain says holds when it is tried.")
    parser.add_argument("--data", nargs="*", help="only these data sets")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("explain_sentences", __doc__ or "")
    sentences = findings.table("Sentences, said and tried (widths in days, numbers or values)", COLUMNS)
    said = findings.table("GCP of every policy that was tried, said and of a whole run", VARIANTS)
    speed = findings.table("What explain takes", SPEED)
    for data, name, change in CASES:
        if arguments.data and data.name not in arguments.data:
            continue
        try:
            path = data_path(data)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        shipped = yaml.safe_load(Path(policies).with_name(f"{data.name}.yaml").read_text(encoding="utf-8"))
        mapping = with_change(shipped, change)
        with tempfile.TemporaryDirectory() as folder:
            for step, flags in (("all", ()), ("--quick", ("--quick",))):
                told, spent = timed_child(explained, path, mapping, Path(folder), *flags)
                speed.rows.append((data.name, name, told["rows"], step, spent.wall, spent.cpu))
                if step == "all":
                    found = told
        run = WholeRuns(path, mapping, data.name).under
        for recommendation in found["recommendations"]:
            after = run(recommendation["change"])
            sentences.rows.append((data.name, name, *tried(recommendation, run({}), after)))
            print(sentences.rows[-1], flush=True)
        for each in [] if change else found["solved"]["tried"]:
            gcp = run(each["change"]).gcp
            figures = (each["rows"], found["rows"], each["loss"], gcp, off(each["loss"], gcp))
            said.rows.append((data.name, each["group"], each["name"], *figures))
            print(said.rows[-1], flush=True)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
