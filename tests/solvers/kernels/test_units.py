"""The list of kernels: its types are read as they were written, and it names what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from numba.core import types

from deploy.wheel.record_kernels import write_units
from kanonflow.solvers.kernels.units import (
    Unit,
    Units,
    kernel_named,
    known_units,
    read_type,
    type_text,
)
from kanonflow.solvers.search.workspace import Workspace
from kanonflow.solvers.warm_up import KERNEL_SETS, kernel_sets

VECTOR = types.Array(types.float64, 1, "C")


@pytest.mark.parametrize(
    "kind",
    [
        types.int64,
        types.float64,
        types.boolean,
        types.none,
        types.Omitted(None),
        VECTOR,
        types.Array(types.boolean, 2, "F"),
        types.Array(types.uint64, 3, "A", readonly=True),
        types.NamedTuple([VECTOR, types.none, types.int32], Workspace),
        types.Tuple([types.int64, types.NamedTuple([VECTOR], Workspace)]),
        types.UniTuple(types.int64, 2),
    ],
    ids=str,
)
def test_types_are_read_as_they_were_written(kind: object) -> None:
    """Each kind that a kernel takes."""
    assert read_type(type_text(kind)) == kind


def test_other_types_have_no_word() -> None:
    """They are left out of the list, not written as something else."""
    for kind in (types.literal(1), types.unicode_type, types.Omitted(3), types.literal(True)):
        with pytest.raises(ValueError, match="no word"):
            type_text(kind)


def test_the_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Units with their types, seconds and needs, and the sets."""
    units = Units(
        (Unit("a.b.c", ("int64", "float64[1C]"), 0.25, ()), Unit("a.b.d", ("float64[1C]",), 1.5, (0,))),
        {"one": (1,), "none": ()},
    )
    write_units(units, tmp_path / "units.json")
    assert known_units(tmp_path / "units.json") == units
    assert units.of(["one"]) == [0, 1]
    assert units.of(["none", "unknown"]) == []
    assert known_units(tmp_path / "missing.json") == Units((), {})


def test_needs_stand_before_who_needs_them() -> None:
    """The order in which a process can compile them."""
    for place, unit in enumerate(known_units().units):
        assert all(need < place for need in unit.needs)


def test_every_unit_can_be_compiled() -> None:
    """Each names a kernel of the sources, and types that there are. After a change: ``make kernel-list``."""
    units = known_units().units
    assert len(units) > 100
    for unit in units:
        assert kernel_named(unit.kernel).py_func.__name__ == unit.kernel.rpartition(".")[2]
        arguments = [read_type(text) for text in unit.arguments]
        assert [type_text(each) for each in arguments] == list(unit.arguments)


def test_every_set_is_listed() -> None:
    """And holds kernels that Python can call, and no others."""
    units = known_units()
    assert set(units.sets) == set(KERNEL_SETS)
    for name, entries in units.sets.items():
        assert entries, name
        for place in entries:
            assert not kernel_named(units.units[place].kernel).targetoptions.get("no_cpython_wrapper")


def test_sets_are_named_by_what_a_policy_asks_for() -> None:
    """The names of ``KERNEL_SETS``; lattices have none."""
    assert kernel_sets("classes", merging=True) == ("classes ncp", "merging")
    assert kernel_sets("classes", ruled=True, loss="sil") == ("classes sil", "classes ruled sil")
    assert kernel_sets("row_graph", hierarchies=True, ruled=True) == ("row_graph ncp hierarchies",)
    assert kernel_sets("lattice_node") == ()
    for shape in ("classes", "row_graph"):
        for trees in (False, True):
            for loss in ("ncp", "sil"):
                named = kernel_sets(shape, ruled=True, hierarchies=trees, loss=loss, merging=True)
                assert set(named) <= set(KERNEL_SETS)
