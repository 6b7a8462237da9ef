"""Who was never in a release, and can it be told?

Data: Adult (``data_sets.py``), each row a person, cut at random (``--seed``) into people who are released and outsiders
who never were in it, ``--rows`` of either. Policy ``adult``, everything released at once by ``anonymize_table``, one
thread, default effort; ``cohort: window`` with each row as its own individual; anonypy's Mondrian, whose classes we
publish as their hulls, as it does, where ``--python`` names an environment that has it (``benchmarks/peers.py``).

The reader knows everybody's quasi-identifiers, and of each person counts the released rows whose box holds him. He says
"was in it" from k rows on. Everybody released is held by k or more (checked), so that he is wrong of outsiders only.
Advantage: share of those released of whom he says it, less that of the outsiders; 0 is guessing. At best: from the
number on that serves him best. Outsiders may have the attributes of somebody released: *twins*. No times are measured,
neither CPU seconds nor ratios of them; the whole takes a CPU minute.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.attacks.box_candidates import in_boxes
from benchmarks.data_sets import ADULT, MissingDataError, data_path, example_policy
from benchmarks.peers import peer_classes
from benchmarks.readers import advantage, best_advantage
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Others, Policy, Protection
from kanonflow.schemas.policy_choices import Cohort
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.secret.seeds import Secret

SECRET = Secret(bytes(range(32)))
PERSON = "person"
AT_ONCE = 2000
COLUMNS = (
    "k", "release", "people", "outsiders", "twins %", "in no box %", "in fewer than k %", "advantage from k rows on",
    "at best",
)  # fmt: skip


def of_people(policy: Policy) -> Policy:
    """The policy with each row as its own individual, in closed classes."""
    return dataclasses.replace(
        policy,
        protect=Protection.INDIVIDUAL,
        cohort=Cohort.WINDOW,
        fields=(*policy.fields, Field(PERSON, Role.INDIVIDUAL)),
    )


def halves(path: Path, rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """People who are released and outsiders, as text; each has a number of its own."""
    with path.open(encoding="utf-8", newline="") as source:
        header, *lines = csv.reader(source, delimiter=";")
    rows = min(rows, len(lines) // 2)
    drawn = np.random.default_rng(seed).permutation(len(lines))[: 2 * rows].tolist()
    columns = dict(zip(header, map(list, zip(*(lines[line] for line in drawn), strict=True)), strict=True))
    table = pa.table({**columns, PERSON: [str(line) for line in drawn]})
    return table.slice(0, rows), table.slice(rows)


def hulls(labels: NDArray[np.integer], quasi: pa.Table, bound: BoundPolicy) -> pa.Table:
    """Of each record the hull of its class, in the columns of a release. labels: (n,)."""
    grouped: dict[str, Any] = {}
    labelled = quasi.append_column("class", pa.array(labels))
    for column in bound.quasis:
        kind, options = ("min_max", None) if column.in_ranges else ("distinct", pc.CountOptions(mode="all"))
        found = labelled.group_by("class", use_threads=False).aggregate([(column.name, kind, options)])
        box = found.sort_by("class").column(f"{column.name}_{kind}").combine_chunks()
        if column.in_ranges:
            low, high = box.field("min"), box.field("max")
            box = pa.StructArray.from_arrays(
                [low, high, pa.array(np.zeros(len(box), np.bool_))], ["min", "max", "nulls"]
            )
        else:
            # Lest a member's place tell whose it is.
            members = [sorted(each, key=lambda value: (value is None, value)) for each in box.to_pylist()]
            box = pa.array(members, box.type)
        grouped[column.published_name] = box
    return pa.table(grouped).take(pa.array(np.unique(labels, return_inverse=True)[1]))


def rows_that_hold(file: pa.Table, people: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """Of each person the released rows whose box holds it, int64 (p,). O(rows p d)."""
    return np.concatenate(
        [
            in_boxes(file, people.slice(start, AT_ONCE), bound).sum(axis=0)
            for start in range(0, people.num_rows, AT_ONCE)
        ]
    )


def twins(people: pa.Table, outsiders: pa.Table, bound: BoundPolicy) -> float:
    """Share of outsiders whose attributes are those of somebody released."""
    names = [column.name for column in bound.quasis]
    known = {tuple(row.values()) for row in people.select(names).to_pylist()}
    return float(np.mean([tuple(row.values()) in known for row in outsiders.select(names).to_pylist()]))


def membership_row(inside: NDArray[np.int64], outside: NDArray[np.int64], k: int) -> tuple[float, ...]:
    """Of outsiders held by no row and by fewer than k, in %; the advantage from k rows on, and at best.

    inside, outside: rows that hold the released people and the outsiders.
    """
    assert inside.min() >= k, "somebody released is held by fewer than k rows"
    held = np.concatenate([inside, outside])
    member = np.arange(held.size) < inside.size
    return (
        100 * float((outside == 0).mean()),
        100 * float(((outside > 0) & (outside < k)).mean()),
        advantage(held, member, k),
        best_advantage(held, member),
    )


def releases(people: pa.Table, policy: Policy, python: str | None) -> Iterable[tuple[str, pa.Table]]:
    """What each publisher releases of the people."""
    yield "protect: row", anonymize_table(people, policy, SECRET, text=True, threads=1).released
    yield (
        "cohort: window, closed classes",
        anonymize_table(people, of_people(policy), SECRET, text=True, threads=1).released,
    )
    if python is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        with path.open("w", encoding="utf-8", newline="") as sink:
            writer = csv.writer(sink, delimiter=";")
            writer.writerow(people.drop_columns([PERSON]).column_names)
            writer.writerows(row.values() for row in people.drop_columns([PERSON]).to_pylist())
        partition, _ = peer_classes(python, "anonypy", path, policy.k)
    bound, quasi = canonical(people, policy)
    yield "anonypy, Mondrian", hulls(partition.labels, quasi, bound)


def canonical(people: pa.Table, policy: Policy) -> tuple[BoundPolicy, pa.Table]:
    """The policy as bound to the people, and their canonical rows."""
    bound = bind(policy, people.schema, text=True, source="Adult")
    return bound, classify(people.select(list(bound.input_columns)), bound).rows


def main(argv: list[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(description="Can a reader tell who was never in a release?")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--rows", type=int, nargs="+", default=[1500, 10_000], help="of either half")
    parser.add_argument("--seed", type=int, default=1, help="of the cut in two")
    parser.add_argument("--python", help="the Python of anonypy's environment; without it, it is skipped")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("membership", __doc__ or "")
    told = findings.table("Outsiders, and what a reader can tell", COLUMNS)
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    if arguments.python is None:
        findings.skipped.append("anonypy: skipped, --python names no environment that has it")
    for rows, k in product(arguments.rows, arguments.k):
        people, outsiders = halves(path, rows, arguments.seed)
        policy = dataclasses.replace(example_policy("adult"), others=Others.DROP, k=k)
        bound, inside = canonical(people, policy)
        outside = canonical(outsiders, policy)[1]
        alike = 100 * twins(inside, outside, bound)
        for name, file in releases(people, policy, arguments.python):
            found = (rows_that_hold(file, each, bound) for each in (inside, outside))
            told.rows.append((k, name, inside.num_rows, outside.num_rows, alike, *membership_row(*found, k)))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
