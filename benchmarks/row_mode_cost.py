"""What does a row cost under ``protect: row`` beside the search, and what did it cost in an earlier commit?

Data: sparkov, its first ``--days`` days, under its example policy for rows (windows of a day), at k = 3 and k = 5, by
``anonymize_table(feed, text=True, threads=1)`` with the policy's own solver. The tree of ``--before`` (a commit, or a
folder that holds one) and this one do the same work in processes of their own, by turns, the first turn without being
counted; in each process the first windows go through once before the clock begins. Ratios are of runs that followed
each other; CPU seconds of all threads. The machine may be busy with other things: trust the ratios.

search: evaluations of the search, merged or not. eased: those around slots that a mend changed. start: the structure
that the search begins with, of which a warm one is most: the last window's slots without those who are gone, with those
who are new. mending: two-edge cuts. order, publishing, account: of ``release_window``. rest: all else, from the text of
the feed to neighbours. beside: all but search, eased and start.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import yaml

from benchmarks.data_sets import SPARKOV, MissingDataError, data_path, example_policy, write_slice
from benchmarks.main_job import BENCHMARK_SECRET
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.row_cost import WATCHING, Measured, Tree, tree_of
from kanonflow.schemas.policy_file import to_mapping

BEFORE = "e9521f55"
DEGREES = (3, 5)
PLACES = (
    ("solvers.shapes.graphs", "search_graph", "search"),
    ("solvers.shapes.graphs", "merged_search", "search"),
    ("solvers.shapes.untied", "_searched_within", "eased"),
    ("solvers.shapes.graphs", "_start", "start"),
    ("solvers.shapes.graphs", "_free", "mending"),
    ("transforms.protections.release_window", "gather", "order"),
    ("transforms.protections.release_window", "issue", "publishing"),
    ("transforms.protections.release_window", "account", "account"),
)
"""Module, function, stage."""
SEARCHES = ("search", "eased", "start")
# Two days and a bit: the second window has a warm start.
_WARMING = 6000
_PROGRAM = f"""{WATCHING}
import pyarrow as pa, pyarrow.csv
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms.secret.seeds import Secret
path, policy, secret = sys.argv[2], load_policy(sys.argv[3]), Secret.from_file(sys.argv[4])
names = pyarrow.csv.open_csv(path).schema.names
texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
table = pyarrow.csv.read_csv(path, convert_options=texts)
anonymize_table(table.slice(0, {_WARMING}), policy, secret, text=True, threads=1)
watch(json.loads(sys.argv[1]))
begin = cpu()
anonymize_table(table, policy, secret, text=True, threads=1)
spent["all"] = cpu() - begin
print(json.dumps({{"rows": table.num_rows, **spent}}))
"""


def measured(tree: Tree, feed: Path, policy: Path, secret: Path) -> Measured:
    """CPU us a row of each stage, once."""
    told, _ = tree.run(_PROGRAM, json.dumps(PLACES), feed, policy, secret)
    spent: Measured = json.loads(told)
    rows = spent.pop("rows")
    whole = spent.pop("all")
    found = {**spent, "rest": whole - sum(spent.values())}
    found |= {"beside": whole - sum(found.get(stage, 0.0) for stage in SEARCHES), "all": whole}
    return {stage: 1e6 * seconds / rows for stage, seconds in found.items()}


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What a row costs under protect: row beside the search.")
    parser.add_argument("--before", default=BEFORE, help="a commit, or a folder with the project as it was")
    parser.add_argument("--days", type=int, default=27)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("row_mode_cost", __doc__ or "")
    table = findings.table(
        "CPU us a row, before and after",
        ["k", "stage", "before, median", "after, median", "after / before, median", "lowest", "highest"],
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
        feed = write_slice(SPARKOV, folder, days=arguments.days)
        before = tree_of(arguments.before, folder / "before")
        trees = (
            Tree("before", before, before / ".numba_cache"),
            Tree("after", Path(__file__).parent.parent, None),
        )
        for k in DEGREES:
            policy = folder / f"{k}.yaml"
            policy.write_text(yaml.safe_dump(to_mapping(replace(example_policy("sparkov_rows"), k=k))))
            runs = [
                [measured(tree, feed, policy, secret) for tree in trees] for _ in range(arguments.repeats + 1)
            ][1:]
            for stage in runs[0][1]:
                sides = [[run[side].get(stage, 0.0) for run in runs] for side in range(2)]
                ratios = [after / before for before, after in zip(*sides, strict=True) if before]
                ends = (median(ratios), min(ratios), max(ratios)) if ratios else (None, None, None)
                table.rows.append((k, stage, *map(median, sides), *ends))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
