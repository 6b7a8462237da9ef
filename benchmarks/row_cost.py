"""What does a row cost beside the search, and what did it cost in an earlier commit?

Data: sparkov, its first ``--days`` days, under its example policy (``cohort: lasting``, windows of a day, k = 5). Two
trees of the project, the one of ``--before`` (a commit, or a folder that holds one) and this one, do the same work in
processes of their own, by turns; each first once without being counted, which compiles or loads kernels. Ratios are of
runs that followed each other; CPU seconds of all threads. The machine may be busy with other things: trust the ratios.

table: ``anonymize_table(feed, text=True, threads=1)``; merging is ``window_groups``, founding ``found``, rest all else.
order: ``canonical_order`` of one whole window, the third of the feed.
command: ``kanonflow anonymize`` on the feed as CSV, with a start without search (``l-greedy``), less what a process
takes that imports what the command imports. It reads, looks at the payload, merges cohorts, publishes and writes.
stage: where that command's time goes under the policy's own solver, less what stands within other stages; a stage that
a tree does not have yet is left out. ``runner`` is what Beam does besides, ``between`` what no stage claims. What is
loaded once stands where it is first needed. The child that draws ends later, and counts in ``command`` alone.
GCP: the mean loss of the rows that it released, as they are published.

The figures of this tree are kept in results/row_cost_history, a file a commit. Stages that cost 10% more are named.

With ``--weeks`` windows are of a week, rows are waited for two weeks, and the results are ``row_cost_weeks``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from statistics import median

import fastavro
import yaml

from benchmarks.data_sets import SPARKOV, WEEK_MS, MissingDataError, data_path, with_window, write_slice
from benchmarks.main_job import BENCHMARK_SECRET, write_policy
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed_child
from kanonflow.schemas.policy_file import load_policy, to_mapping

ROOMS = ("pipelines", "transforms", "solvers", "schemas", "policies")
BEFORE = "9db1f7f4"
Measured = dict[str, float]
"""CPU us a row, by what was measured; and the loss."""

# Before an installation is asked where the package is.
_OWN_TREE = """
import sys, types
sys.modules["kanonflow"] = package = types.ModuleType("kanonflow")
package.__path__ = [{folder!r}]
"""
_TABLE = """
import json, time
import pyarrow as pa, pyarrow.csv
import kanonflow.transforms.one_table as one_table
try:
    from kanonflow.transforms.protections import intake, lasting
except ImportError:
    # A tree of before protections were objects.
    import kanonflow.transforms.protections.lasting as intake
    lasting = intake
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import Secret
path, policy, secret = sys.argv[1], load_policy(sys.argv[2]), Secret.from_file(sys.argv[3])
names = pyarrow.csv.open_csv(path).schema.names
texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
table = pyarrow.csv.read_csv(path, convert_options=texts)
spent = {}
def watched(module, name):
    original = getattr(module, name)
    def call(*args, **kwargs):
        begin = time.process_time()
        try:
            return original(*args, **kwargs)
        finally:
            spent[name] = spent.get(name, 0.0) + time.process_time() - begin
    setattr(module, name, call)
one_table.anonymize_table(table, policy, secret, text=True, threads=1)
watched(intake, "found"); watched(lasting, "window_groups")
begin = time.process_time()
one_table.anonymize_table(table, policy, secret, text=True, threads=1)
whole = time.process_time() - begin
bound = bind(policy, table.schema, text=True, source="feed")
classified = classify(table.select(list(bound.input_columns)), bound).rows
rows = [pa.Table.from_batches([part]) for _, _, part in split(classified, bound)][2]
canonical_order(rows, bound, secret)
begin = time.process_time()
for _ in range(20):
    canonical_order(rows, bound, secret)
order = (time.process_time() - begin) / 20
n = table.num_rows
print(json.dumps({
    "table, all": 1e6 * whole / n,
    "table, merging": 1e6 * spent["window_groups"] / n,
    "table, founding": 1e6 * spent["found"] / n,
    "table, rest": 1e6 * (whole - spent["window_groups"] - spent["found"]) / n,
    "order": 1e6 * order / rows.num_rows,
    "rows": n,
}))
"""
# After it ``watch(places)`` lets the functions of (module, name, stage) count into ``spent``, each without what another
# of them takes within it; a tree of before may lack some.
WATCHING = """
import functools, importlib, json, resource, sys, time
def cpu():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
spent, within = {}, []
def watched(module, name, stage):
    module = importlib.import_module("kanonflow." + module)
    original = getattr(module, name)
    @functools.wraps(original)
    def call(*args, **kwargs):
        begin = cpu()
        within.append(0.0)
        try:
            return original(*args, **kwargs)
        finally:
            took, inner = cpu() - begin, within.pop()
            spent[stage] = spent.get(stage, 0.0) + took - inner
            if within:
                within[-1] += took
    setattr(module, name, call)
def watch(places):
    for place in places:
        try:
            watched(*place)
        except (ImportError, AttributeError):
            pass
"""
STAGES_PROGRAM = f"""{WATCHING}
import kanonflow.pipelines.runs.anonymize_files, kanonflow.pipelines.commands.policy, kanonflow.transforms.anonymize
from kanonflow.pipelines.cli import main
spent["imports"] = cpu()
watch(json.loads(sys.argv[1]))
code = main(sys.argv[2:])
spent["between"] = cpu() - sum(spent.values())
print()
print(json.dumps(spent))
raise SystemExit(code)
"""
_RUN = "pipelines.runs.anonymize_files"
STAGES = (
    (_RUN, "refuse_misfits", "fit"),
    (_RUN, "compile_first", "kernels"),
    (_RUN, "measure_payload", "payload"),
    (_RUN, "with_rows", "rows as a number"),
    (_RUN, "connect", "graph of the job"),
    (_RUN, "run_to_end", "runner"),
    ("pipelines.cli", "_reported", "report"),
    ("transforms.protections.release_parts", "release_window", "windows"),
    ("transforms.protections.intake", "found", "founding"),
    ("transforms.protections.lasting", "window_groups", "merging"),
    ("transforms.sinks.sinks", "avro_file", "Avro"),
    ("transforms.roster.cohort_files", "avro_file", "Avro"),
)
"""Module, function, stage."""
DEARER = 1.1
_IMPORTS = "import kanonflow.pipelines.runs.anonymize_files, kanonflow.pipelines.commands.policy"
_COMMAND = "from kanonflow.pipelines.cli import main\nraise SystemExit(main(sys.argv[1:]))"


class ChildFailedError(Exception):
    """A process that is measured ended with an exit code other than 0."""


class Tree:
    """The project as it stood in a folder.

    name: for messages. kernels: where compiled ones are kept; None: where this process keeps them. python: whose.
    """

    def __init__(self, name: str, folder: Path, kernels: Path | None, python: str = sys.executable) -> None:
        self.name = name
        self._python = python
        self._start = _OWN_TREE.format(folder=str(folder))
        self._environment = dict(os.environ)
        # Without bytecode a process compiles for seconds.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if kernels is not None:
            self._environment["NUMBA_CACHE_DIR"] = str(kernels)

    def run(self, body: str, *arguments: object) -> tuple[str, float]:
        """What a program prints, and its CPU seconds. Raises ChildFailedError."""
        done, spent = timed_child(self._call, body, *map(str, arguments))
        if done.returncode:
            raise ChildFailedError(f"{self.name}: {done.stderr.strip()[-400:]}")
        return done.stdout, spent.cpu

    def _call(self, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._python, "-c", self._start + body, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=self._environment, cwd="/"
        )


def tree_of(commit: str, target: Path) -> Path:
    """The files of a commit, below a folder; of what is a folder already, itself."""
    if Path(commit).is_dir():
        return Path(commit)
    packed = subprocess.run(["git", "archive", commit, *ROOMS], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as files:
        files.extractall(target, filter="data")
    return target


def measured(tree: Tree, inputs: Mapping[str, Path], output: Path) -> Measured:
    """All figures of one tree, once."""
    told, _ = tree.run(_TABLE, inputs["feed"], inputs["policy"], inputs["secret"])
    found: Measured = json.loads(told)
    rows = found.pop("rows")
    _, imports = tree.run(_IMPORTS)
    flags = ("--policy", inputs["start"], "--input", inputs["feed"], "--output", output)
    _, whole = tree.run(_COMMAND, "anonymize", *flags, "--secret-file", inputs["secret"])
    own = ("--policy", inputs["policy"], "--input", inputs["feed"], "--output", f"{output}_own", "--quiet")
    told, _ = tree.run(
        STAGES_PROGRAM, json.dumps(STAGES), "anonymize", *own, "--secret-file", inputs["secret"]
    )
    stages = json.loads(told.splitlines()[-1])
    releases = [
        record
        for path in Path(f"{output}_own").glob("restricted/metrics/*.avro")
        for record in fastavro.reader(BytesIO(path.read_bytes()))
        if record["gcp"] is not None
    ]
    found["GCP"] = sum(each["gcp"] * each["rows_released"] for each in releases) / sum(
        each["rows_released"] for each in releases
    )
    found |= {f"stage, {stage}": 1e6 * seconds / rows for stage, seconds in stages.items()}
    return found | {
        "imports, ms": 1e3 * imports,
        "command, all": 1e6 * whole / rows,
        "command, less imports": 1e6 * (whole - imports) / rows,
    }


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="What a row costs beside the search, and what it cost before."
    )
    parser.add_argument("--before", default=BEFORE, help="a commit, or a folder with the project as it was")
    parser.add_argument("--days", type=int, default=91)
    parser.add_argument("--weeks", action="store_true", help="windows of a week, not of a day")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="of an installation as users have it, for imports are dearer here",
    )
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("row_cost_weeks" if arguments.weeks else "row_cost", __doc__ or "")
    table = findings.table(
        "CPU us a row, and loss, before and after",
        ["what", "before, median", "after, median", "after / before, median", "lowest", "highest"],
        arguments.note,
    )
    try:
        data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        secret = folder / "secret"
        secret.write_bytes(BENCHMARK_SECRET)
        secret.chmod(0o600)
        inputs = {
            "feed": write_slice(SPARKOV, folder, days=arguments.days),
            "policy": write_policy("sparkov", "own", folder),
            "start": write_policy("sparkov", "l-greedy", folder),
            "secret": secret,
        }
        if arguments.weeks:
            for policy in (inputs["policy"], inputs["start"]):
                in_weeks = with_window(load_policy(policy), WEEK_MS)
                policy.write_text(yaml.safe_dump(to_mapping(in_weeks), sort_keys=False), encoding="utf-8")
        before = tree_of(arguments.before, folder / "before")
        trees = (
            Tree("before", before, before / ".numba_cache", arguments.python),
            Tree("after", Path(__file__).parent.parent, None, arguments.python),
        )
        runs: list[tuple[Measured, Measured]] = []
        for turn in range(arguments.repeats + 1):
            one, other = (measured(tree, inputs, folder / f"{tree.name}{turn}") for tree in trees)
            if turn:
                runs.append((one, other))
    dearer, figures = [], {}
    for what in runs[0][1]:
        if what not in runs[0][0]:
            continue
        ratios = sorted(after[what] / before_[what] for before_, after in runs)
        sides = [median(run[side][what] for run in runs) for side in range(2)]
        table.rows.append((what, *sides, median(ratios), ratios[0], ratios[-1]))
        figures[what] = sides[1]
        if median(ratios) > DEARER:
            dearer.append(what)
    table.note = " ".join([table.note, f"Dearer by more than 10%: {', '.join(dearer) or 'nothing'}."]).strip()
    history = arguments.results / f"{findings.name}_history"
    history.mkdir(parents=True, exist_ok=True)
    kept = {
        "commit": begun["commit"],
        "before": arguments.before,
        "days": arguments.days,
        "us a row": figures,
    }
    (history / f"{begun['commit']}.json").write_text(json.dumps(kept, indent=1) + "\n")
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
