"""What a run keeps of the people who are known from the start: a pool a partition, before the first row comes.

OUT/restricted/cohorts/PARTITION/expected.state
"""

from __future__ import annotations

from kanonflow.pipelines.chains.people_of_output import placed_people
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory
from kanonflow.transforms.lineage.committed_rosters import EXPECTED, cohorts_directory, partition_cohorts
from kanonflow.transforms.secret.seeds import Secret, people_key
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.shards.shards import Shards
from kanonflow.transforms.windows.expected_people import PeopleFile, expected_states

PEOPLE_FILE = "people_file"
"""In run.json: what the file of people held."""


def remove_expected(output: str) -> None:
    """Remove what a run laid down that came no further: one that begins expects others, or nobody."""
    storage.delete(storage.paths_below(cohorts_directory(output), "*", EXPECTED))


def write_expected(
    output: str,
    people: PeopleFile,
    bound: BoundPolicy,
    secret: Secret,
    epoch: int,
    place: int,
    plan: ShardPlan | None = None,
) -> tuple[str, ...]:
    """Lay them beside the cohorts of their partitions, or shards; what to tell of it. Raises InputError: a person
    stands there twice."""
    placed = None
    if plan is not None:
        placed = placed_people(output, Shards(plan, bound, secret), people_key(secret))
    states = expected_states(people.rows, bound, secret, epoch, place, plan, placed)
    few, size = 0, bound.policy.cohorts.cohort_size
    for key, state in states.items():
        folder = partition_cohorts(output, key)
        make_directory(folder, private=True)
        create_if_absent(storage.join(folder, EXPECTED), state.to_bytes(), private=True)
        named = 0 if state.warm.roster is None else state.warm.roster.pool.people.size
        few += named if named < size else 0
    if not few:
        return (people.note,)
    parts = "partitions" if plan is None else "partitions or shards"
    return (
        f"{people.note} {few:,} of them are in {parts} with fewer than cohort_size = {size} of them: these are known"
        " by their rows, as others are.",
    )
