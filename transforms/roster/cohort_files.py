"""Who entered with a release, as Avro: OUT/restricted/cohorts/PARTITION/NUMBER.people.avro and .boxes.avro.

Two files a segment; ``lineage/committed_rosters`` says where they are and when they count. ``boxes`` has the corners of
the new cohorts' boxes, and with the digests and cohorts in ``people`` it is what a later run goes on from. ``people``
also has everybody's frozen values, for the audit; a person who is forgotten loses those, and the box stays as it is.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import arrow_to_avro, epoch_text
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.slot_kinds import REGULAR
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.lineage.segment_header import told_of
from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import RosterHead, Segment
from kanonflow.transforms.roster.window_groups import LastGroups
from kanonflow.transforms.rows.elements import EnteredPeople, sound_rows, to_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot

PERSON = "person"
COHORT_FIELD = "cohort"
FORGOTTEN = "forgotten"
GROUP = "group"
_WHAT = "files of a segment"


def entered_people(
    segment: Segment, pool: Pool, bound: BoundPolicy, release_id: str, slot: ReleaseSlot
) -> EnteredPeople:
    """The two files of a segment. pool: whom it took in. slot: of the release. Equal arguments give equal bytes."""
    after = segment.after
    header: dict[str, object] = {
        "epoch": epoch_text(segment.head.epoch),
        "partition": slot.partition.hex(),
        "release_id": release_id,
        "window_end": slot.window_end,
        "part": slot.release_no,
        "segment": segment.head.segments,
        "before": segment.head.chain,
        "chain": after.chain,
        "people": after.people,
        "cohorts": after.cohorts,
        # As ever where there is nothing to tell.
        **({"chain_place": slot.place} if slot.place else {}),
        **({"kind": slot.kind} if slot.kind != REGULAR else {}),
    }
    forgotten = np.zeros(segment.people.size, dtype=np.bool_)
    return _files(segment, FrozenValues(pool.values, forgotten), header, bound)


class FrozenValues(NamedTuple):
    """Of the people of a segment, in their order. values: p rows, the quasi-identifiers. forgotten: bool (p,), of whom
    these are nulls."""

    values: pa.Table
    forgotten: NDArray[np.bool_]


def _files(
    segment: Segment, frozen: FrozenValues, header: dict[str, object], bound: BoundPolicy
) -> EnteredPeople:
    quasis = [pa.field(column.published_name, column.arrow_type) for column in bound.quasis]
    own = {
        column.published_name: frozen.values.column(column.name).combine_chunks() for column in bound.quasis
    }
    people = pa.table(
        {
            PERSON: pa.array(segment.people.view(np.int64)),
            COHORT_FIELD: pa.array(segment.cohort),
            FORGOTTEN: pa.array(frozen.forgotten),
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
    marker = bytes.fromhex(segment.after.chain)[:16]
    return EnteredPeople(
        _file(people, "EnteredPeople", header, marker), _file(boxes, "CohortBoxes", header, marker)
    )


def files_of_part(
    part: Segment, frozen: FrozenValues, boxes: bytes, key: bytes, bound: BoundPolicy
) -> EnteredPeople:
    """The two files of a segment of one part of a shard that was split. boxes: of the shard's. key: of the part.

    They tell the release with which these people entered, which was one of the shard. Equal arguments give equal bytes.
    """
    after = part.after
    header: dict[str, object] = {
        **told_of(boxes),
        "partition": key.hex(),
        "segment": part.head.segments,
        "before": part.head.chain,
        "chain": after.chain,
        "people": after.people,
        "cohorts": after.cohorts,
    }
    return _files(part, frozen, header, bound)


def files_of_renewal(
    segment: Segment, frozen: FrozenValues, boxes: bytes, before: str, bound: BoundPolicy
) -> EnteredPeople:
    """The two files of the one segment that a renewal begins with. boxes: of the last segment of before, whose release
    they tell: it was of the epoch that ended (``before``). Equal arguments give equal bytes."""
    after = segment.after
    header: dict[str, object] = {
        **told_of(boxes),
        "epoch": epoch_text(segment.head.epoch),
        "renews": before,
        "segment": segment.head.segments,
        "before": segment.head.chain,
        "chain": after.chain,
        "people": after.people,
        "cohorts": after.cohorts,
    }
    return _files(segment, frozen, header, bound)


def frozen_values(people: bytes, bound: BoundPolicy) -> FrozenValues:
    """What a segment's file of people has of each. Raises StateError: it cannot be read."""
    try:
        who: list[Any] = list(fastavro.reader(BytesIO(people)))
        columns = {
            column.name: pa.array([row[column.published_name] for row in who], column.arrow_type)
            for column in bound.quasis
        }
        forgotten = np.array([row[FORGOTTEN] for row in who], dtype=np.bool_)
    except Exception:  # a decoder's errors may hold values
        raise damaged(_WHAT, "they cannot be read") from None
    return FrozenValues(pa.table(columns), forgotten)


def segment_of_files(people: bytes, boxes: bytes, bound: BoundPolicy) -> Segment:
    """The segment that two files hold, of whoever may have been forgotten since too.

    Raises StateError: they cannot be read, are not of one segment, or do not come to the digest that they name.
    """
    try:
        header = told_of(boxes)
        who = list(fastavro.reader(BytesIO(people)))
        rows = list(fastavro.reader(BytesIO(boxes)))
        head = RosterHead(
            int(header["epoch"], 16),
            header["before"],
            header["segment"],
            header["people"] - len(who),
            min(row[COHORT_FIELD] for row in rows),
        )
        columns = {COHORT: pa.array([row[COHORT_FIELD] for row in rows], pa.int64())}
        for column in bound.quasis:
            values = [row[column.published_name] for row in rows]
            columns[column.name] = pa.array(values, column.arrow_type)
        segment = Segment(
            head,
            np.array([each[PERSON] for each in who], dtype=np.int64).view(np.uint64),
            np.array([each[COHORT_FIELD] for each in who], dtype=np.int64),
            pa.table(columns),
        )
        after, told_of_people = segment.after, told_of(people)
    except Exception:  # a decoder's errors may hold values
        raise damaged(_WHAT, "they cannot be read") from None
    if told_of_people != header:
        raise damaged(_WHAT, "people and boxes are not of one segment")
    if (after.chain, after.people, after.cohorts) != (header["chain"], header["people"], header["cohorts"]):
        raise damaged(_WHAT, "they do not come to the digest that they name")
    return segment


def people_of_file(people: bytes) -> NDArray[np.uint64]:
    """The digests of those who entered with a segment, of its file of people. Raises StateError: it cannot be read."""
    try:
        who = [each[PERSON] for each in fastavro.reader(BytesIO(people))]  # type: ignore[index,call-overload]
    except Exception:  # a decoder's errors may hold values
        raise damaged(_WHAT, "they cannot be read") from None
    return np.array(who, dtype=np.int64).view(np.uint64)


def groups_file(last: LastGroups) -> bytes:
    """Which cohorts a release put together. Inverse of ``groups_of_file``."""
    table = pa.table({COHORT_FIELD: pa.array(last.cohorts), GROUP: pa.array(last.groups)})
    return to_ipc(table, compressed=True)


def groups_of_file(data: bytes) -> LastGroups:
    """The groups of a file. Raises StateError: it holds none."""
    try:
        table = sound_rows(data)
        return LastGroups(*(np.asarray(whole(table.column(name))) for name in (COHORT_FIELD, GROUP)))
    except (pa.ArrowException, KeyError, OSError):
        raise damaged("file of groups", "it cannot be read") from None


def _file(table: pa.Table, name: str, header: dict[str, object], marker: bytes) -> bytes:
    return avro_file(table, _avro(table.schema, name) | {"kanonflow": header}, marker)


@lru_cache(maxsize=32)
def _avro(schema: pa.Schema, name: str) -> dict[str, Any]:
    """``arrow_to_avro``: the same for each segment under a policy."""
    return arrow_to_avro(schema, name)
