"""The bags as Beam declares them, hands them over and ships them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.internal import pickler
from apache_beam.transforms.core import get_function_arguments
from apache_beam.transforms.userstate import get_dofn_specs, validate_stateful_dofn

from kanonflow.transforms.rows.elements import to_ipc
from kanonflow.transforms.windows.bags import BAGS, Bags
from kanonflow.transforms.windows.solve_windows import SolveWindows
from kanonflow.transforms.windows.state_cells import with_cells
from tests.driven_partitions import Bag
from tests.small_feeds import SECRET, bound_feed, feed_policy

NAMES = [f"bag_{index:02}" for index in range(16)]
OF_WARM = ["warm", "pool", *(f"events_{index}" for index in range(4))]


def solving() -> SolveWindows:
    """The stateful step over a policy."""
    return SolveWindows(bound_feed(feed_policy()), SECRET, 1)


def rows(*numbers: int) -> bytes:
    """A batch."""
    return to_ipc(pa.table({"number": list(numbers)}))


def test_beam_reads_the_cells_that_a_running_job_has() -> None:
    """Names are those of state that is out there: with others an updated job would find nothing in its bags."""
    step = solving()
    validate_stateful_dofn(step)
    cells, timers = get_dofn_specs(step)
    assert sorted(cell.name for cell in cells) == sorted([*NAMES, *OF_WARM, "clock", "roster"])
    assert [timer.name for timer in timers] == ["ts-kanonflow_window_due"]
    for method in ("process", "fire"):
        names, defaults = get_function_arguments(step, method)
        assert names[-BAGS - len(OF_WARM) :] == [*NAMES, *OF_WARM]
        declared = [each.state_spec.name for each in defaults if isinstance(each, beam.DoFn.StateParam)]
        assert declared == ["clock", "roster", *NAMES, *OF_WARM]


def test_the_step_can_be_shipped() -> None:
    """A worker that has unpickled it reads the same cells and the same timer."""
    there = pickler.loads(pickler.dumps(solving()))
    validate_stateful_dofn(there)
    assert {spec.name for spec in get_dofn_specs(there)[0]} == {*NAMES, *OF_WARM, "clock", "roster"}


class _Listing(beam.DoFn):
    """Yields its arguments."""

    @with_cells(bags=Bags)
    def process(self, element: Any, first: Any = None, *, bags: Bags) -> Iterator[Any]:
        """As Beam calls it."""
        yield element, first, bags._cells


def test_bags_come_by_position_and_by_name() -> None:
    """``process`` is given its arguments one way, the callback of a timer the other."""
    cells = [Bag() for _ in range(BAGS)]
    named = {spec.name: cell for spec, cell in zip(Bags.SPECS, cells, strict=True)}
    ((element, first, given),) = _Listing().process("element", "clock", *cells)
    assert (element, first, list(given)) == ("element", "clock", cells)
    ((element, first, given),) = _Listing().process(first="clock", element="element", **named)
    assert (element, first, list(given)) == ("element", "clock", cells)


def test_the_method_is_a_generator_with_its_own_name() -> None:
    """Beam checks outputs of methods that return, one by one, and finds a timer's callback by its name."""
    assert inspect.isgeneratorfunction(_Listing().process)
    assert _Listing.process.__name__ == "process"
    assert list(inspect.signature(_Listing().process).parameters) == ["element", "first", *NAMES]


def test_a_bag_gives_back_what_is_not_due() -> None:
    """Windows 1, 17 and 33 share a bag: each take leaves the others in it, and reads no other bag."""
    cells = [Bag() for _ in range(BAGS)]
    bags = Bags(cells)
    bags.add(1, False, rows(1))
    bags.add(17, False, rows(17))
    bags.add(17, True, rows(18, 19))
    bags.add(33, True, rows(33))
    bags.add(-15, False, rows(-15))
    assert sum(bag.reads for bag in cells) == 0
    assert [len(bag.values) for bag in cells] == [0, 5, *[0] * 14]
    assert bags.take((2,), late_only=False) is None
    taken = [bags.take(due, late_only=late) for due, late in (((17,), True), ((1, 17), False), ((1,), False))]
    assert [table and table.column("number").to_pylist() for table in taken] == [[18, 19], [1, 17], None]
    assert [bag.reads for bag in cells] == [0, 3, 1, *[0] * 13]
    rest = bags.take((33, -15), late_only=False)
    assert rest is not None
    assert sorted(rest.column("number").to_pylist()) == [-15, 33]
    assert not any(bag.values for bag in cells)


def test_what_is_carried_over_is_not_compressed() -> None:
    """However the batches came: how many rows came before them must not show in what an output keeps."""
    table = pa.table({"number": [7] * 1000})
    handed = []
    for compressed in (False, True):
        bags = Bags([Bag() for _ in range(BAGS)])
        bags.add(3, False, to_ipc(table, compressed=compressed))
        handed.append(list(bags.batches()))
    assert handed[0] == handed[1]
    assert handed[0][0].ipc == to_ipc(table)
