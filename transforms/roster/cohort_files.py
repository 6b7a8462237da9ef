"""Who entered with a release, as Avro: OUT/restricted/cohorts/PARTITION/NUMBER.people.avro and .boxes.avro.

Two files a segment. ``boxes`` has the corners of the new cohorts' boxes, and with the digests and cohorts in ``people``
it is what a later run goes on from. ``people`` also has everybody's frozen values, for the audit; a person who is
forgotten loses those, and the box stays as it is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kanonflow.schemas.avro_schema import arrow_to_avro
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import Segment
from kanonflow.transforms.rows.elements import EnteredPeople

PERSON = "person"
COHORT_FIELD = "cohort"
FORGOTTEN = "forgotten"


def entered_people(
    segment: Segment, pool: Pool, bound: BoundPolicy, release_id: str, partition: bytes
) -> EnteredPeople:
    """The two files of a segment. pool: whom it took in. Equal arguments give equal bytes."""
    after = segment.after
    told = {
        "epoch": segment.head.epoch,
        "partition": partition.hex(),
        "release_id": release_id,
        "segment": segment.head.segments,
        "before": segment.head.chain,
        "chain": after.chain,
        "people": after.people,
        "cohorts": after.cohorts,
    }
    quasis = [pa.field(column.published_name, column.arrow_type) for column in bound.quasis]
    own = {
        column.published_name: pool.values.column(column.name).combine_chunks() for column in bound.quasis
    }
    people = pa.table(
        {
            PERSON: pa.array(segment.people.view(np.int64)),
            COHORT_FIELD: pa.array(segment.cohort),
            FORGOTTEN: pa.array(np.zeros(segment.people.size, dtype=np.bool_)),
            **own,
        },
        schema=pa.schema(
            [
                pa.field(PERSON, pa.int64(), nullable=False),
                pa.field(COHORT_FIELD, pa.int64(), nullable=False),
                pa.field(FORGOTTEN, pa.bool_(), nullable=False),
                *quasis,
            ]
        ),
    )
    boxes = pa.table(
        {
            COHORT_FIELD: segment.corners.column(COHORT),
            **{
                column.published_name: segment.corners.column(column.name).combine_chunks()
                for column in bound.quasis
            },
        },
        schema=pa.schema([pa.field(COHORT_FIELD, pa.int64(), nullable=False), *quasis]),
    )
    marker = bytes.fromhex(after.chain)[:16]
    return EnteredPeople(_file(people, "EnteredPeople", told, marker), _file(boxes, "CohortBoxes", told, marker))


def _file(table: pa.Table, name: str, told: dict[str, object], marker: bytes) -> bytes:
    schema = arrow_to_avro(table.schema, name)
    schema["kanonflow"] = told
    return avro_file(table, schema, marker)
