"""The plan of shards of a run, and of its chain: which it is, and what is written down of it.

    OUT/restricted/plan.json       the plan with the keys of its shards
    OUT/restricted/shards.state    the shard of everybody who is known before the first row; none of a plan of rows

A plan is the chain's: who is in a shard stays there for the epoch, or in a part of it, where that is split between two
runs. The plan that splits it follows from the one before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from kanonflow.pipelines.chains.continued_run import ContinueError
from kanonflow.pipelines.chains.people_of_output import (
    entered_shards,
    expected,
    expected_before,
    placed_people,
)
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent, read_whole
from kanonflow.transforms.files.output_directories import PLAN_FILE
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.secret.seeds import Secret, people_key
from kanonflow.transforms.shards.known_shards import NOBODY, SHARDS, KnownShards, StoredPlan
from kanonflow.transforms.shards.layers import LayeredCut, live_people
from kanonflow.transforms.shards.make_plan import people_digest
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan, plan_from_json
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.windows.expected_people import PeopleFile

PLAN = "plan"
"""In run.json: the digest of the plan."""


def asked_plan(
    path: str | None, output: str, continues: str | None, *, resume: bool
) -> tuple[ShardPlan, str] | None:
    """The plan of a run and where it is: the one that is named, else that of the run that it goes on with or continues.

    Raises PlanError: it cannot be read.
    """
    goes_on = ([output] if resume else []) + ([] if continues is None else [continues])
    places = [path] if path is not None else [_file(each) for each in goes_on]
    for place in places:
        if place is not None and (path is not None or storage.exists(place)):
            return plan_from_json(_read(place), place), place
    return None


def kept_plan(output: str) -> tuple[ShardPlan, list[tuple[str, ...]]] | None:
    """The plan that a run went by and of each partition the keys, in hexadecimal, of all shards that are or were; None:
    it went by none. Raises PlanError: it is damaged."""
    path = _file(output)
    if not storage.exists(path):
        return None
    data = _read(path)
    plan, plain = plan_from_json(data, path), json.loads(data)
    try:
        keys = [list(map(str, cut["keys"])) for cut in plain["partitions"]]
        for split in plain.get("splits", ()):
            keys[split["partition"]] += map(str, split["keys"])
    except (KeyError, TypeError):
        raise PlanError(f"{path}: it tells no keys of its shards; a run writes them down") from None
    return plan, list(map(tuple, keys))


def refuse_other_people(plan: ShardPlan, source: str, bound: BoundPolicy, people: PeopleFile | None) -> None:
    """Raise PlanError unless an epoch that begins with a plan begins with the people whom it was made from.

    A plan of rows is for other rows, too: none of them stays anywhere.
    """
    if plan.individual is None:
        return
    if people is None:
        raise PlanError(
            f"--plan {source}: who is in it must enter with the first release, before any row of theirs: name the file"
            " that it was made from in the policy (people:)"
        )
    if people_digest(people.rows) != plan.people:
        raise PlanError(
            f"--plan {source}: it was made from other people than {people.path} names; make it from this file"
            " (kanonflow plan), or name the other one in people:"
        )


def plan_record(plan: ShardPlan | None) -> dict[str, Any]:
    """What run.json says of it."""
    return {} if plan is None else {PLAN: plan.digest}


def plan_note(plan: ShardPlan) -> str:
    """What is told of a run that goes by a plan."""
    counts = live_people(LayeredCut.of(plan))
    cuts = len(plan.partitions)
    least, own = f"{min(counts):,} people", "cohorts and releases"
    if plan.individual is None:
        least, own = f"{min(counts):,} of the {sum(counts):,} rows that it was made from", "releases"
    return (
        f"By a plan of shards: {cuts:,} partition{'' if cuts == 1 else 's'} in {len(counts):,} shards, the"
        f" smallest of {least}; each has {own} of its own."
    )


def refuse_another_plan(directory: str, there: Mapping[str, Any], plan: ShardPlan | None, place: int) -> None:
    """Raise ContinueError unless two runs of a chain have one plan, or the second one's splits shards of the first's.

    there: run.json of the first. place: of the second in the chain.
    """
    before = there.get(PLAN)
    if before == (None if plan is None else plan.digest):
        return
    if plan is not None and plan.individual is None:
        raise ContinueError(
            f"--continue {directory}: it went by {'no plan' if before is None else 'another plan'}, and a chain has one"
            " for all of its runs, so that all are judged by it; leave --plan out"
        )
    splits = "kanonflow plan --continue makes a plan that splits what is there"
    if plan is None or not plan.splits:
        what = (
            "its people are in one piece, and a plan of other people begins with an epoch"
            if before is None
            else "its people are in shards by another plan, and who is in one stays there for the epoch"
        )
        raise ContinueError(
            f"--continue {directory}: {what}; leave --plan out, and what is there goes on ({splits})"
        )
    parent = plan.parent
    if before != (None if parent is None else parent.digest) or plan.place != place:
        raise ContinueError(
            f"--continue {directory}: the plan splits shards of another run than this one, or of its chain before this"
            f" one; make one of this run ({splits})"
        )


def remove_shards(output: str) -> None:
    """Remove what a run laid down that came no further."""
    places = [_file(output), _file(output, SHARDS)]
    if before := [place for place in places if storage.exists(place)]:
        storage.delete(before)


def begin_shards(output: str, plan: ShardPlan, bound: BoundPolicy, secret: Secret) -> None:
    """Write down the plan with its keys, and the shard of everybody who is known; of rows nobody is.

    Precondition: cohorts, carried states and expected people of the run are there, and nobody has entered since.
    """
    shards = Shards(plan, bound, secret)
    plain = json.loads(plan.to_json())
    for place, keys in enumerate(shards.keys_by_partition(plan)):
        # In the order in which shards are numbered.
        numbered = iter(key.hex() for key in keys)
        for cut in (plain["partitions"][place], *plain.get("splits", ())):
            if cut.get("partition", place) == place:
                cut["keys"] = [next(numbered) for _ in cut["people"]]
    _create(_file(output), json.dumps(plain, indent=1).encode())
    if plan.individual is None:
        return
    _create(_file(output, SHARDS), _directory(output, shards, people_key(secret)).to_bytes())


def _directory(output: str, shards: Shards, key: bytes) -> FirstPartitions:
    """Of people in shards. Whom a file names first and who are too few for a cohort are known by their rows: counted as
    the step does (``having_expected``), who is in none, and whom no file named before."""
    policy, own = shards.bound.policy, shards.partition_of
    size = policy.cohorts.cohort_size
    directory, entered = placed_people(output, shards, key), entered_shards(output, shards)
    for shard, people in expected(output, policy.cohorts.individual.name, key):
        if shard not in own:
            continue
        named = in_partition(own[shard], people)
        new = (entered.of(named) < 0) & ~np.isin(people, expected_before(output, shard, size))
        if new.sum() >= size:
            directory = directory.having(shard, named[directory.of(named) < 0])
    return directory


def stored_plan(output: str, plan: ShardPlan | None) -> StoredPlan | None:
    """Where workers find the plan. output: as they see it."""
    return None if plan is None else StoredPlan(_file(output))


def known_shards(output: str, plan: ShardPlan | None) -> KnownShards:
    """Where workers find that. output: as they see it."""
    return NOBODY if plan is None or plan.individual is None else KnownShards(_file(output, SHARDS))


def _file(output: str, name: str = PLAN_FILE) -> str:
    return storage.join(output, "restricted", name)


def _create(path: str, data: bytes) -> None:
    workspace = storage.split(path)[0] if is_local(path) else None
    create_if_absent(path, data, private=True, workspace=workspace)


def _read(path: str) -> bytes:
    try:
        return bytes(read_whole(path))
    except OSError as error:
        raise InputError(f"--plan {path}: cannot be read ({type(error).__name__})") from None
