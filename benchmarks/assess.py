"""What do releases of ours and of naive rivals give away, by the attacks of ``kanonflow assess``?

Data: the first 28 days of sparkov and all of complete_journey, under the example policies of these names; the first
10,000 rows of Adult, each its own person. k = 5. Everything is assessed as the command does it without ``--controls``:
the release and a second release of half of the people are attacked, the other half are the controls, and the worse of
the two is told; seed 1, budget of 100 evaluations a row, one thread.

*lasting*, *window*, *row*: our three modes. Rivals are what a careful engineer writes first: *Mondrian, rows for
people* cuts the rows of each window into classes by themselves; *closed classes afresh* puts people together in each
window, and nobody waits. Payload is dealt out at random in all of them.

Figure: (people - controls) / (1 - controls), in brackets its 95% interval. *Singling out*: predicates over several
attributes (Anonymeter's attack). *Linkability*: two halves of a person's attributes lead to one row. *Inference*: of
the payload field of which it is highest. *Membership*: who is in it, hits less false alarms. *Known purchase*: a reader
who knows one row of somebody by its window and amount finds that person's whole history. *Box and value*, *box and
end*, *random*: predicates over one published box that are exactly one person's, of all such; no k-anonymity removes the
last. Nothing is a ratio of other figures. CPU seconds: of release and assessment together.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    SPARKOV,
    DataSet,
    MissingDataError,
    afresh,
    data_path,
    example_policy,
    read_feed,
)
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.pipelines.assess.assessment import Assessed, assess, split_people
from kanonflow.pipelines.assess.findings import (
    ATTRIBUTES,
    ELSE,
    INFERENCE,
    LINKABILITY,
    SINGLING_OUT,
    Assessment,
    Line,
)
from kanonflow.pipelines.assess.twin import twin_of
from kanonflow.pipelines.dry_run.feed import Feed, feed_of
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy, Protection

DAYS, ADULT_ROWS = 28, 10_000
SEED, EVALUATIONS = 1, 100.0
COLUMNS = (
    "release", "singling out", "linkability", "inference", "membership", "known purchase", "box and value",
    "box and end", "random", "above a limit", "CPU s",
)  # fmt: skip
NOTE = "Figures with 95% intervals; - where the attack has nothing to try or too few cases. Higher is worse."
DATA: tuple[tuple[DataSet, str, int | None, int | None], ...] = (
    (SPARKOV, "sparkov", DAYS, None),
    (COMPLETE_JOURNEY, "complete_journey", None, None),
    (ADULT, "adult", None, ADULT_ROWS),
)


def of_rows(policy: Policy) -> Policy:
    """The policy with its promise about single rows."""
    return replace(afresh(policy), protect=Protection.ROW, cohort=None)


def at_once(policy: Policy) -> Policy:
    """Nobody waits for another window."""
    return replace(policy, max_delay_ms=0, state_ttl_ms=0)


def releases(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Ours, then the rivals; of rows without people those that there are."""
    if policy.individual is not None:
        yield "ours, lasting", policy
        yield "ours, window", afresh(policy)
    yield "ours, row", of_rows(policy)
    rows = at_once(of_rows(policy))
    yield "Mondrian, rows for people", replace(rows, solver=replace(rows.solver, method="mondrian"))
    if policy.individual is not None:
        yield "closed classes afresh", at_once(afresh(policy))


def assessed(feed: Feed, bound: BoundPolicy) -> Assessment:
    """The release of all of the feed, attacked."""
    everybody = np.ones(feed.rows.num_rows, dtype=np.bool_)
    release = twin_of(feed, everybody, bound).released
    split = split_people(feed, ~everybody, SEED)
    return assess(Assessed(feed, release, bound, split, SEED))


def figures(assessment: Assessment) -> Mapping[str, str]:
    """By column, of the line that it is about."""
    lines = assessment.lines
    inferred = [line for line in lines if (line.question, line.reader) == (INFERENCE, ATTRIBUTES)]
    bought = [line for line in lines if line.question == SINGLING_OUT and "by its window and" in line.reader]
    alone = {line.attack: line for line in lines if line.reader == "the release alone"}
    return {
        "singling out": _shown(_of(lines, SINGLING_OUT, "one person by several values")),
        "linkability": _shown(_of(lines, LINKABILITY, "one row by either half")),
        "inference": _worst(inferred, named=True),
        "membership": _shown(_of(lines, ELSE, "who is in it (membership)")),
        "known purchase": _worst(bought),
        "box and value": _shown(alone.get("this box and a value of its set")),
        "box and end": _shown(alone.get("this box and an end cell")),
        "random": _shown(alone.get("a random 1/members of a box")),
        "above a limit": str(len(assessment.above)),
    }


def _of(lines: tuple[Line, ...], question: str, attack: str) -> Line | None:
    return next((line for line in lines if (line.question, line.attack) == (question, attack)), None)


def _worst(lines: list[Line], *, named: bool = False) -> str:
    of = [(line.outcome[0], line) for line in lines if line.outcome is not None]
    if not of:
        return "-"
    line = max(of, key=lambda each: each[0])[1]
    return (f"{line.attack} " if named else "") + _shown(line)


def _shown(line: Line | None) -> str:
    if line is None or line.outcome is None:
        return "-"
    figure, (low, high) = line.outcome
    return f"{figure:.3f} [{low:.3f}, {high:.3f}]"


def main(argv: list[str] | None = None) -> int:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[name for _, name, _, _ in DATA], help="one data set")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("assess", __doc__ or "")
    for data, name, days, rows in DATA:
        if arguments.only not in (None, name):
            continue
        try:
            path = data_path(data)
        except MissingDataError as error:
            findings.skipped.append(str(error))
            continue
        table = findings.table(f"{name}, k = 5", COLUMNS, NOTE)
        policy = example_policy(name)
        solver = replace(policy.solver, evaluations_per_row=EVALUATIONS, threads=1)
        for title, variant in releases(replace(policy, solver=solver)):
            read = read_feed(path, variant, days=days, rows=rows, lasting=True)
            whole = pa.concat_tables([window.rows for window in read.windows]).combine_chunks()
            feed = feed_of(whole, read.bound)
            result, spent = timed(assessed, feed, read.bound)
            shown = figures(result)
            table.rows.append((title, *(shown[column] for column in COLUMNS[1:-1]), round(spent.cpu)))
            print(table.rows[-1], flush=True)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
