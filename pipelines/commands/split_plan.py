"""``kanonflow plan --continue``: a plan that splits shards of a run that has ended, for the run that continues it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from kanonflow.pipelines.commands.plan import PlanMade, other_number, refuse_target, write_plan
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.schemas.policy_source import read_policy


def split_shards(
    path: str,
    patterns: Sequence[str],
    target: str,
    continues: str,
    named: Sequence[str],
    parts: int,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
    accept_small: bool = False,
    threads: int | None = None,
) -> PlanMade:
    """Write a plan that splits shards of the run in ``continues``, for its owner only.

    named: the shards, by their keys; nothing: the whole of a run that went by no plan. parts: of each. Others: as of
    ``plan_shards``.

    Raises PolicyError, InputError: they do not fit. ContinueError: the run has not ended, or is continued already.
    PlanError: a name is that of no shard, or a shard has too few people.
    """
    from kanonflow.pipelines.chains.chain_record import place_after
    from kanonflow.pipelines.chains.continued_run import earlier_run, refuse_continued
    from kanonflow.pipelines.chains.people_of_shard import people_by_shard, people_of_shard
    from kanonflow.pipelines.chains.shards_record import kept_plan
    from kanonflow.pipelines.run_records.run_record import read_record
    from kanonflow.pipelines.runs.kernel_cache import compile_first
    from kanonflow.transforms.files.output_directories import restricted_directory
    from kanonflow.transforms.shards.shard_plan import PlanError, head_of
    from kanonflow.transforms.shards.split_shard import named_shard, plan_of_one_piece, split_shard
    from kanonflow.transforms.shards.trial import cost_words, refusal
    from kanonflow.transforms.solver_check import check_solver

    policy = replace(read_policy(path), people=None)
    check_solver(policy)
    _, _, bound, _ = bind_input(policy, patterns, delimiter, input_format)
    if head_of(bound)["individual"] is None:
        raise PlanError(
            "--continue: with protect: row no shard is split; a chain that begins may go by another plan"
        )
    refuse_target(target)
    record = read_record(restricted_directory(continues))
    earlier = earlier_run(continues, target, record, bound)
    refuse_continued(continues)
    place, plan_there = place_after(earlier.record), kept_plan(continues)
    if plan_there is None:
        if named:
            raise PlanError(f"--split: {continues} went by no plan, and is split as a whole; leave it out")
        key, people = people_of_shard(continues, None, bound)
        plan = plan_of_one_piece(bound, people.people)
        keys: list[tuple[str, ...]] = [(key,)]
        shards = [(0, 0)]
    else:
        plan, keys = plan_there
        plan.refuse_other_policy(bound, f"of {continues}")
        if not named:
            raise PlanError(
                f"--continue {continues}: say which of its shards to split (--split KEY, or --split largest)"
            )
        people_in = people_by_shard(continues)
        shards = [named_shard(keys, plan, name, people_in) for name in named]
        if len(set(shards)) < len(shards):
            raise PlanError("--split: names one shard twice")
    compile_first(bound, sys.stderr)
    splits, counts, everybody = [], [], 0
    for number, (partition, shard) in enumerate(shards, 1):
        _, people = people_of_shard(continues, keys[partition][shard], bound)
        made = split_shard(
            plan, partition, shard, people, bound, parts, place, threads=threads or os.cpu_count() or 1
        )
        plan, tried, everybody = made.plan, made.tried, everybody + people.people
        counts.append(made.people)
        if (
            why := refusal(made.people, bound.policy.cohorts.cohort_size, accept_small=accept_small)
        ) is not None:
            raise PlanError(f"--shards {parts}: {why}")
        splits.append(
            (
                number,
                len(made.people),
                min(made.people),
                max(made.people),
                tried.name,
                tried.whole,
                tried.losses[tried.name],
            )
        )
    write_plan(target, plan.to_json())
    return PlanMade(
        target,
        everybody,
        tuple(splits),
        0,
        tuple(filter(None, [other_number(parts, list(map(len, counts))), cost_words(min(counts, key=min))])),
        continues,
    )
