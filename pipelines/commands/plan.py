"""``kanonflow plan``: how the people of each partition, or its rows, are cut into shards, tried before it is written
down."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.fit.people_file import read_people
from kanonflow.pipelines.terminal.table import aligned
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_source import read_policy
from kanonflow.schemas.text_form import CsvForm


class PlanMade(NamedTuple):
    """What is told of a plan. partitions: of each that is cut, its number in the plan, shards, the fewest people of one
    and the most, how the people were cut, and the loss of a sample in one piece and in shards. whole: partitions that
    stay one piece. warnings: what so few people cost. continues: the run whose shards it splits, each of which stands
    in the place of a partition; None: it is of an epoch that begins. windows: of a plan of rows, which are counted in
    the place of people, how many they are of, and of a shard's those of a mean window are told; None: it is of people.
    """

    target: str
    people: int
    partitions: tuple[tuple[int, int, int, int, str, float, float], ...]
    whole: int
    warnings: tuple[str, ...]
    continues: str | None = None
    windows: int | None = None

    def render(self) -> str:
        """As text, without a value of anybody."""
        splits = self.continues is not None
        head = (
            "split" if splits else "partition",
            "shards",
            "people, fewest" if self.windows is None else "rows a window, fewest",
            "most",
            "cut",
            "loss in one piece",
            "in shards",
            "ratio",
        )
        rows = [
            (
                str(number),
                str(shards),
                f"{least:,}",
                f"{most:,}",
                how,
                f"{whole:.4f}",
                f"{cut:.4f}",
                f"{cut / whole:.3f}" if whole else "-",
            )
            for number, shards, least, most, how, whole, cut in self.partitions
        ]
        lines = [*aligned([head, *rows], left=[4])]
        if self.whole:
            few = "people" if self.windows is None else "rows, or equal ones"
            lines.append(f"{self.whole:,} partitions have too few {few}, and stay one piece")
        lines += self.warnings
        origin = "people, for the run that begins with them (--plan)"
        if splits:
            origin = f"people in cohorts, for the run that continues {self.continues} (--continue, --plan)"
        elif self.windows is not None:
            several = "" if self.windows == 1 else "s"
            origin = f"rows of {self.windows:,} window{several}, for runs over such rows (--plan)"
        return "\n".join(
            [
                f"{self.target}: a plan from {self.people:,} {origin}. Losses are of a sample of them, put together in"
                " one piece and in its shards.",
                *lines,
            ]
        )

    def to_json(self) -> str:
        """The same as a JSON object."""
        return json.dumps(self._asdict(), indent=1)


def plan_shards(
    path: str,
    patterns: Sequence[str],
    target: str,
    shards: int,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
    people_file: str | None = None,
    accept_small: bool = False,
    threads: int | None = None,
) -> PlanMade:
    """Make a plan of the people whom a policy's file names, and write it to ``target``, for its owner only.

    With ``protect: row`` it is one of the rows of the feed: of all that fit.

    path: of the policy. patterns: files of the feed, whose types the people's must have. shards: of each partition.
    people_file: in the place of the policy's ``people``. accept_small: let shards have very few people.

    Raises PolicyError, InputError: they do not fit. PlanError: there is nobody to make it from, or too few.
    """
    from kanonflow.pipelines.runs.kernel_cache import compile_first
    from kanonflow.transforms.release.cohorts import people_in
    from kanonflow.transforms.shards.make_plan import make_plan
    from kanonflow.transforms.shards.shard_plan import PlanError, head_of
    from kanonflow.transforms.shards.trial import cost_words, group_size, refusal
    from kanonflow.transforms.solver_check import check_solver

    policy = read_policy(path)
    if people_file is not None:
        policy = replace(policy, people=os.path.abspath(people_file))
    check_solver(policy)
    files, _, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    of_rows = head_of(bound)["individual"] is None
    refuse_target(target)
    windows = 1
    if of_rows:
        rows, windows = _rows_of(files, bound, csv)
        digests = np.zeros(rows.num_rows, dtype=np.uint64)
    else:
        people = read_people(bound, path)
        if people is None:
            raise PlanError(
                "a plan is made from people who enter with the first release, not from rows: a sample of a feed would"
                " tell who was early. Name a file of people in the policy (people:) or with --people"
            )
        rows = people.rows
        _, digests = people_in(rows.column(policy.cohorts.individual.name), bytes(32))
    compile_first(bound, sys.stderr)
    size = group_size(policy)
    threads = threads or os.cpu_count() or 1
    made = make_plan(rows, digests, bound, shards, threads=threads, least=shards * size * windows)
    cuts = made.plan.partitions
    if not cuts:
        each = f"people for a cohort of {size} in each; name more people, or"
        if of_rows:
            each = f"rows for k = {size} of a window in each; ask for"
        raise PlanError(f"--shards {shards}: no partition has {each} fewer shards")
    counts = [tuple(count // windows for count in cut.people) for cut in cuts]
    smallest = min(counts, key=min)
    if (why := refusal(smallest, size, accept_small=accept_small, rows=of_rows)) is not None:
        raise PlanError(f"--shards {shards}: {why}")
    write_plan(target, made.plan.to_json())
    notes = other_number(shards, [cut.shards for cut in cuts]), cost_words(smallest, rows=of_rows)
    return PlanMade(
        target,
        rows.num_rows,
        tuple(
            (number, len(count), min(count), max(count), tried.name, tried.whole, tried.losses[tried.name])
            for number, (count, tried) in enumerate(zip(counts, made.trials, strict=True), 1)
        ),
        made.whole,
        tuple(filter(None, notes)),
        windows=windows if of_rows else None,
    )


def _rows_of(files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm) -> tuple[pa.Table, int]:
    """What a plan of rows goes by, of all rows that come into a window; and how many windows these are.

    Raises PlanError: there are none. InputError: a file is damaged.
    """
    from kanonflow.transforms.rows.classify import classify
    from kanonflow.transforms.rows.elements import from_ipc
    from kanonflow.transforms.rows.split import window_numbers
    from kanonflow.transforms.shards.shard_plan import PlanError

    policy = bound.policy
    names = sorted({*policy.partition_by, *(column.name for column in bound.quasis)})
    tables, windows = [], set[int]()
    for file in files:
        for batch in read_batches(file, bound.input_columns, csv):
            rows = classify(from_ipc(batch.ipc), bound, faults=batch.faults, source=batch.name).rows
            tables.append(rows.select(names))
            if policy.time is not None:
                windows.update(np.unique(window_numbers(rows.column(policy.time.name), policy)).tolist())
    if not any(table.num_rows for table in tables):
        raise PlanError("--input: no row fits the policy, so there is nothing to make a plan from")
    return pa.concat_tables(tables).combine_chunks(), max(len(windows), 1)


def other_number(asked: int, made: Sequence[int]) -> str | None:
    """What is said where cells that are packed whole make more shards than were asked for, or fewer."""
    other = [count for count in made if count != asked]
    if not other:
        return None
    return f"{asked} shards were asked for; of {len(other)} partitions others were made, for what is alike stays whole"


def refuse_target(target: str) -> None:
    """Raise InputError if something is there."""
    if os.path.exists(target):
        raise InputError(f"--output {target}: is there already; a plan is for an epoch, so none is replaced")


def write_plan(target: str, data: bytes) -> None:
    """For its owner only. Raises InputError: it cannot be written."""
    from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE

    try:
        handle = os.open(Path(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error
