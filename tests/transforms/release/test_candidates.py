"""Which rows a release can be made of; every row that comes in goes on or is accounted for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.release.candidates import gather
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Admitted, Before, Gathered
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, references, row

CLASSES = bound_feed(feed_policy(max_delay="2h", events=True))
PEOPLE = bound_feed(feed_policy(max_delay="2h", events=True, protect="row"))
ROWS = bound_feed(feed_policy(max_delay="2h", events=True, people=False))
LASTING = bound_feed(feed_policy(max_delay="2h", events=True, cohort="lasting"))
EVERY_SHAPE = pytest.mark.parametrize("bound", [CLASSES, PEOPLE, ROWS], ids=["classes", "people", "rows"])


def due(bound: BoundPolicy, hour: int = 0) -> Due:
    """The window ``hour`` is over."""
    return Due(bound, SECRET, ReleaseSlot(b"p", START + (hour + 1) * HOUR, 0))


def admit(of: Due, rows: pa.Table) -> Admitted:
    """The rows that the policy's protection takes."""
    admitted: Admitted = protection_of(of.policy).admit(of, rows, Before(WarmState()))
    return admitted


def out(stage: Gathered) -> list[str]:
    """References of the rows that a stage takes out, sorted."""
    waiting = stage.unreleased.waiting_rows
    names = [] if waiting is None else references(waiting)
    return sorted(names + [record["row"]["reference"] for record in stage.unreleased.rejected])


def waiting_state(rows: list[Row], bound: BoundPolicy, reason: str = "held_back") -> WarmState:
    """A state in which these rows wait."""
    return WarmState(waiting=canonical(rows, bound), waiting_reason=(reason,) * len(rows))


@EVERY_SHAPE
@pytest.mark.parametrize("seed", range(4))
def test_every_row_goes_on_or_is_accounted_for(bound: BoundPolicy, seed: int) -> None:
    """With late rows, repeats, heavy people and waiting rows of other parts: none twice, none lost."""
    rng = np.random.default_rng(seed)
    old = [row(number, int(rng.integers(6)), float(rng.random())) for number in range(8)]
    new = [
        row(number, 0 if rng.random() < 0.4 else int(rng.integers(9)), float(rng.integers(5)) + 0.5)
        for number in range(8, 40)
    ]
    new += [row(100 + number, 3, 4.5, event=f"e{8 + number}") for number in range(5)]
    warm = waiting_state(old, bound)
    resting = rng.random(8) < 0.4
    before = warm.to_bytes()
    gathered = gather(due(bound, 4), warm, canonical(new, bound), resting)
    admitted = admit(due(bound, 4), gathered.rows)
    everybody = sorted(str(each["reference"]) for each in old + new)
    assert (gathered.new, gathered.waited) == (len(new), len(old))
    assert sorted(references(gathered.rows) + out(gathered)) == everybody
    accounted = gathered.unreleased + admitted.unreleased
    names = [] if accounted.waiting_rows is None else references(accounted.waiting_rows)
    names += [record["row"]["reference"] for record in accounted.rejected]
    assert sorted(names + references(admitted.rows)) == everybody
    assert len(accounted.reasons) == (
        0 if accounted.waiting_rows is None else accounted.waiting_rows.num_rows
    )
    assert warm.to_bytes() == before


def test_rows_of_other_parts_wait_on_before_all_others() -> None:
    """In their order, each for its own reason."""
    warm = WarmState(
        waiting=canonical([row(number, number, 0.5) for number in range(4)], CLASSES),
        waiting_reason=("late", "held_back", "too_few_peers", "not_diverse"),
    )
    resting = np.array([True, False, False, True])
    gathered = gather(due(CLASSES), warm, None, resting)
    assert references(gathered.rows) == ["r1", "r2"]
    assert gathered.unreleased.reasons == ("late", "not_diverse")
    assert gathered.unreleased.waiting_rows is not None
    assert gathered.unreleased.waiting_rows.column("reference").to_pylist() == ["r0", "r3"]
    assert (gathered.new, gathered.waited) == (0, 4)
    assert sorted(gathered.origin.tolist()) == [0, 1]


def test_where_each_row_stood_is_told() -> None:
    """Waiting rows first, then those that came; in canonical order, repeats left out."""
    old = [row(number, number, 0.5) for number in range(3)]
    new = [row(number, number, 1.5) for number in range(3, 7)]
    gathered = gather(due(CLASSES, 1), waiting_state(old, CLASSES), canonical([*new, new[0]], CLASSES))
    stood = pa.concat_tables([canonical(old, CLASSES), canonical([*new, new[0]], CLASSES)])
    assert stood.take(pa.array(gathered.origin)).equals(gathered.rows)
    assert gathered.rows.num_rows == 7
    assert [record["reason"] for record in gathered.unreleased.rejected] == ["duplicate_event"]


@EVERY_SHAPE
def test_where_all_rows_are_admitted_none_is_copied(bound: BoundPolicy) -> None:
    """A window is held once, however many stages look at it."""
    rows = canonical([row(number, number, 0.5) for number in range(6)], bound)
    gathered = gather(due(bound), WarmState(), rows)
    assert admit(due(bound), gathered.rows).rows.column("age").chunk(0).buffers()[1].address == (
        gathered.rows.column("age").chunk(0).buffers()[1].address
    )


def test_too_few_individuals_are_admitted_not_at_all() -> None:
    """Late ones do not count."""
    rows = [row(0, 0, 3.5), row(1, 1, 3.5), row(2, 2, 0.5)]
    admitted = admit(due(CLASSES, 3), canonical(rows, CLASSES))
    assert admitted.rows.num_rows == 0
    assert [record["reason"] for record in admitted.unreleased.rejected] == ["late"]
    assert admitted.unreleased.reasons == ("too_few_peers", "too_few_peers")
    assert admit(due(CLASSES, 2), canonical(rows, CLASSES)).rows.num_rows == 3


def test_with_cohorts_that_last_an_event_id_is_a_persons() -> None:
    """Of two people's rows with one event id both go on; which of them went would hang on whose it is."""
    rows = [row(1, 1, 0.5, event="e"), row(2, 2, 0.5, event="e"), row(3, 2, 0.5, event="e")]
    gathered = gather(due(LASTING), WarmState(), canonical(rows, LASTING))
    assert len(references(gathered.rows)) == 2
    assert "r1" in references(gathered.rows)
    assert len(references(gather(due(CLASSES), WarmState(), canonical(rows, CLASSES)).rows)) == 1


def test_which_repeat_stays_is_not_for_quasi_identifiers_to_say() -> None:
    """Nor for the individual: any cells and any owner leave the same rows."""

    def kept(change: Callable[[int], Row]) -> list[str]:
        rows = [
            row(number, number // 4, 0.5, event=f"e{number // 4}") | change(number) for number in range(40)
        ]
        return references(gather(due(LASTING), WarmState(), canonical(rows, LASTING)).rows)

    first = kept(lambda number: {})
    assert len(first) == 10
    assert kept(lambda number: {"age": str(100 - number), "job": None}) == first
    assert kept(lambda number: {"who": f"p{90 - number // 4}"}) == first
