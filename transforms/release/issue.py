"""What goes out of an answer: its rows published through the gate, with all that a sink and the next release need.

issue(due, answer) -> Issued
"""

from __future__ import annotations

import pyarrow as pa

from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.lineage.release_lineage import Slot
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.publish import Published, publish
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import own_ends, reject
from kanonflow.transforms.release.matching_record import RecordHead, make_matching_record
from kanonflow.transforms.release.recorded_solution import belongs_to, solution_to_bytes
from kanonflow.transforms.release.stages import Answer, Issued, Publication
from kanonflow.transforms.rows.elements import COMPRESSED_ROWS, MatchingRecord, Release, to_ipc
from kanonflow.transforms.secret.seeds import array_digest, publish_keystream

_DIGEST_DIGITS = 32
_Bounds = tuple[int | None, int | None]
"""Start and end of a window in ms, None without windows."""


def issue(due: Due, answer: Answer | None) -> Issued:
    """What goes out of an answer, through the gate: all rows that it keeps, or none.

    answer: None: there is none. O(n k d + n log n).
    """
    if answer is None or answer.released.num_rows == 0:
        return Issued()
    began = due.clock()
    window = (_window_start(due, answer.released), due.slot.window_end)
    try:
        published = _publish(due, answer, window)
        matching_record = _matching_record(due, answer, published, window)
    except GateError:
        # Never out without the gate's word, and never an exception that would stop the feed for ever.
        return Issued(unreleased=reject(due, answer.released, "gate_refused"))
    publish_ms = due.milliseconds_since(began)
    release = _release(due, answer, published, window)
    return Issued(Publication(answer, release, matching_record, published, publish_ms))


def _window_start(due: Due, released: pa.Table) -> int | None:
    """Start of the oldest window of any row, in ms; None without windows."""
    if not due.policy.window_ms:
        return None
    return int(own_ends(released, due.bound).min()) - due.policy.window_ms


def _publish(due: Due, answer: Answer, window: _Bounds) -> Published:
    structure = answer.solution.structure
    members = array_digest(structure.described())
    keystream = publish_keystream(due.secret, due.release_id, members, answer.content)
    return publish(answer.rows, structure, due.bound, keystream, due.release_id, window, answer.frozen)


def _matching_record(
    due: Due, answer: Answer, published: Published, window: _Bounds
) -> MatchingRecord | None:
    """The matching record of a publication, where one is asked for. Raises GateError."""
    if not due.matching_records:
        return None
    head = RecordHead(due.release_id, due.slot, window)
    return make_matching_record(
        answer.rows, answer.solution.structure, published, due.bound, due.secret, head
    )


def _release(due: Due, answer: Answer, published: Published, window: _Bounds) -> Release:
    """What the sink gets: the rows, and the place that they take."""
    rows, slot, name = published.rows.combine_chunks(), due.slot, due.release_id
    digest = content_digest(rows).hex()[:_DIGEST_DIGITS]
    taken = Slot(
        slot.partition,
        slot.window_end,
        slot.release_no,
        name,
        digest,
        due.secret.version,
        kind=slot.kind,
        chain_place=slot.place,
    )
    record = None
    if due.by_the_clock:
        record = solution_to_bytes(answer.solution, belongs_to(due.secret, name, due.policy, answer.rows))
    compressed = due.compressed and rows.num_rows >= COMPRESSED_ROWS
    return Release(name, *window, to_ipc(rows, compressed=compressed), taken, record)
