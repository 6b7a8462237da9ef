"""Who is in the cohorts of one shard of an output, with the values that they are frozen with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.chains.continued_run import ContinueError
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.lineage.committed_rosters import BOXES, PEOPLE, cohorts_directory, segment_file
from kanonflow.transforms.lineage.segment_header import told_of
from kanonflow.transforms.roster.cohort_files import frozen_values, segment_of_files
from kanonflow.transforms.roster.pool import quasi_schema
from kanonflow.transforms.shards.split_shard import ShardPeople


def people_of_shard(output: str, key: str | None, bound: BoundPolicy) -> tuple[str, ShardPeople]:
    """The people of a shard, and its key. key: in hexadecimal; None: of the only partition that there is.

    Raises ContinueError: nobody entered there, or a file is damaged. O(people + corners).
    """
    paths = storage.paths_below(cohorts_directory(output), key or "*", f"*{BOXES}")
    folders = sorted({storage.split(path)[0] for path in paths})
    if len(folders) != 1:
        raise ContinueError(f"--continue {output}: nobody is in cohorts there, or of several partitions")
    segments, values, digests = [], [quasi_schema(bound).empty_table()], [np.empty(0, dtype=np.uint64)]
    for number in range(len(paths)):
        try:
            people, boxes = (
                read_whole(storage.join(folders[0], segment_file(number, kind))) for kind in (PEOPLE, BOXES)
            )
            segments.append(segment_of_files(people, boxes, bound))
            frozen = frozen_values(people, bound)
        except (StateError, OSError) as error:
            raise ContinueError(f"--continue {output}: its cohorts cannot be read ({error})") from None
        values.append(frozen.values.filter(pa.array(~frozen.forgotten)))
        digests.append(segments[-1].people[~frozen.forgotten])
    everybody = ShardPeople(
        tuple(segments), pa.concat_tables(values).combine_chunks(), np.concatenate(digests)
    )
    return storage.split(folders[0])[1], everybody


def people_by_shard(output: str) -> dict[str, int]:
    """How many people are in the cohorts of each partition or shard, by key in hexadecimal, as their newest segments
    tell. Raises ContinueError: one is damaged."""
    paths = storage.paths_below(cohorts_directory(output), "*", f"*{BOXES}")
    newest = {storage.split(storage.split(path)[0])[1]: path for path in paths}
    try:
        return {key: int(told_of(read_whole(path))["people"]) for key, path in newest.items()}
    except (ValueError, KeyError, TypeError):
        raise ContinueError(f"--continue {output}: a segment of its cohorts is damaged") from None
