"""The Loss protocol: one search serves every loss that is a sum over slots.

The kernels of the search (two_opt, ejection, kicks, rounds) know a slot only by the fields and functions below. The
*type* of the state, a NamedTuple, says which loss is meant: numba compiles the search once for each type, and calls
of ``replaced_loss``, ``refresh`` and ``least_added`` in it become the ones that this type has been given. No search is
written twice, and none asks at run time which loss it lowers.

A state of n slots of k units has at least these fields (``ncp`` of slots.py is the example):

* ``members`` int32 (n, k): units; ``who`` int32 (n, k): their individuals.
* ``loss`` float64 (n,): of each slot. What is minimized is the mean over slots, and nothing else.
* ``spare`` float64 (n, k): no unit in the place of this member lowers the slot's loss by more. At most EPSILON where
  exchanging the member cannot help. It prunes, so the nearer to the truth the faster; too small is wrong.
* ``places`` int32 (n k,), ``first_place`` int64 (u + 1,), ``entry`` int32 (n, k): where each unit stands; ``swap`` and
  ``fill`` below keep ``members``, ``who`` and these; ``place_fields`` makes them.

and whatever its loss needs besides. It gives three functions over (features, state, ...), where features are those
of ``Units.features``, or what the state's module puts into their place under that name:

* ``replaced_loss(features, slots, slot, position, unit) -> float``: loss of the slot after the member at ``position``
  has given way to ``unit`` (any unit, also one of those in the slot). Reads only. The hottest function of all.
* ``refresh(features, slots, slot) -> None``: recompute ``loss[slot]``, ``spare[slot]`` and its own fields of the slot
  from ``members[slot]``. The result may depend on nothing else, so that a swap is its own inverse, bit for bit.
* ``least_added(features, slots, slot, unit) -> float``: a lower bound, for every position p, of
  ``replaced_loss(slot, p, unit) - (loss[slot] - spare[slot, p])``; 0 is always right. It saves a look at each position.

They are written as njit functions (forceinline) in the module of the state, whose last line before ``build_...`` is::

    give_loss(SilSlots, replaced_loss, refresh, least_added)

A kernel must be compiled after the module of its state was imported, which importing the state's type sees to.
Caches on disk do not see edits of a loss: delete those of the search kernels after one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.distinct_rows import Units

# Places are packed as slot * PLACE + position: a power of two, so that unpacking is a shift; k stays below it.
PLACE = 256
# How the functions of a loss are compiled.
KERNEL = {
    "nogil": True,
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def replaced_loss(features: Any, slots: Any, slot: int, position: int, unit: int) -> float:
    """Loss of a slot after the member at ``position`` has given way to ``unit``; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def refresh(features: Any, slots: Any, slot: int) -> None:
    """Recompute what is kept for a slot; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def least_added(features: Any, slots: Any, slot: int, unit: int) -> float:
    """What ``unit`` adds to a slot at least, whichever member leaves; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def give_loss(state: type, replaced: Any, refreshed: Any, least: Any) -> None:
    """Let the search lower a loss: its three functions (njit) serve states of the NamedTuple class ``state``."""
    for stub, function in ((replaced_loss, replaced), (refresh, refreshed), (least_added, least)):
        chosen_by_state(stub, state, function.py_func)


def chosen_by_state(stub: Any, state: type, function: Any) -> None:
    """In kernels, calls of ``stub`` whose second argument is a ``state`` become calls of ``function``, inlined.

    numba asks each overload of ``stub`` in turn; those that do not know the state's type answer None.
    """

    def chosen(features, slots, *rest):  # type: ignore[no-untyped-def]
        mine = getattr(slots, "instance_class", None) is state
        return function if mine else None

    overload(stub, strict=False, jit_options=KERNEL)(chosen)


# Inlined: a call passes twenty arrays, which costs the search 5 to 8%.
@kernel(forceinline=True, counting=False)
def swap(features: Any, slots: Any, b: int, p: int, d: int, q: int) -> float:
    """Exchange the members at (b, p) and (d, q); returns the change of total loss. Its own inverse."""
    before = slots.loss[b] + slots.loss[d]
    a, c = slots.members[b, p], slots.members[d, q]
    at_b, at_d = slots.entry[b, p], slots.entry[d, q]
    slots.members[b, p], slots.members[d, q] = c, a
    slots.who[b, p], slots.who[d, q] = slots.who[d, q], slots.who[b, p]
    slots.places[at_b], slots.places[at_d] = d * PLACE + q, b * PLACE + p
    slots.entry[b, p], slots.entry[d, q] = at_d, at_b
    # In a loop, as everything that swaps twice: each further copy of ``refresh`` takes a second to compile.
    for slot in (b, d):
        refresh(features, slots, slot)
    return slots.loss[b] + slots.loss[d] - before


@kernel(forceinline=True, counting=False)
def admits(slots: Any, slot: int, position: int, individual: int, limit: int) -> bool:
    """Whether a unit may take the place of the member at ``position``: the label-free legality of a swap.

    The slot may name an individual ``limit`` times: once; or, where each record is its own individual and equal
    records form a unit with a number of its own, as often as the unit has rows.
    """
    named = 0
    for p in range(slots.who.shape[1]):
        if slots.who[slot, p] == individual and p != position:
            named += 1
    return named < limit


@kernel
def fill(features: Any, individual: np.ndarray, slots: Any) -> None:
    """Work out every field of a state from its ``members`` and ``first_place``. O(n k d)."""
    n, k = slots.members.shape
    cursor = slots.first_place[:-1].copy()
    for slot in range(n):
        for p in range(k):
            unit = slots.members[slot, p]
            slots.who[slot, p] = individual[unit]
            slots.places[cursor[unit]] = slot * PLACE + p
            slots.entry[slot, p] = cursor[unit]
            cursor[unit] += 1
        refresh(features, slots, slot)


def place_fields(units: Units, members: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """The fields that every state has, by name; ``members`` int32 (n, k) is copied, the rest is for ``fill``."""
    n, k = members.shape
    first_place = np.zeros(units.weight.size + 1, dtype=np.int64)
    np.cumsum(units.weight.astype(np.int64) * k, out=first_place[1:])
    return {
        "members": np.ascontiguousarray(members, dtype=np.int32).copy(),
        "who": np.empty((n, k), dtype=np.int32),
        "loss": np.empty(n),
        "spare": np.empty((n, k)),
        "places": np.empty(n * k, dtype=np.int32),
        "first_place": first_place,
        "entry": np.empty((n, k), dtype=np.int32),
    }
