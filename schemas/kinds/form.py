"""The form of a value: what a canonical type knows of its own values, so that nobody asks which type it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.errors import SchemaError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy_fields import Domain
from kanonflow.schemas.text_form import TextForm

Ends = tuple[int, int] | tuple[float, float]
# Not pa.scalar: it loads pandas, which nobody has asked for.
NOTHING = pa.nulls(1, pa.string())[0]
MILLISECONDS = pa.timestamp("ms", tz="UTC")
MICROSECONDS = pa.timestamp("us", tz="UTC")
FEW = 500
"""Up to so many texts are looked at by Python: a call of Arrow's costs as much as this does with some hundreds."""
_BYTES = {pa.string().id, pa.binary().id}


@dataclass(frozen=True)
class Form:
    """The form of the values of one Arrow type. This one is of types that the pipeline cannot carry.

    family: forms of one family become each other (``as``); "": only text. ordered: whether a distance can go by an
    order of the values. label: whether they can stand in a set, or below a hierarchy. leaf: whether the leaves of a
    hierarchy say if they can (``misfit_of_leaves``). name: whether they can say whose
    or which a row is. text: whether they are text as they stand. spelled: whether a ``format`` may say how such numbers
    spell days and times.
    """

    arrow: pa.DataType

    family: ClassVar[str] = ""
    ordered: ClassVar[bool] = False
    label: ClassVar[bool] = False
    leaf: ClassVar[bool] = False
    name: ClassVar[bool] = False
    text: ClassVar[bool] = False
    spelled: ClassVar[bool] = False

    @property
    def scale(self) -> int | None:
        """Digits behind the point that the units of a number count, 0 of doubles; None: it is no number."""
        return None

    @property
    def fraction(self) -> bool:
        """Whether there is a value between two whole numbers."""
        return False

    @property
    def canonical(self) -> pa.DataType | None:
        """The type that the pipeline carries such values as; None: it cannot."""
        return None

    @property
    def grid(self) -> str | None:
        """What ``grid.snap_outward`` calls such values; None: there are no ranges of them."""
        return None

    @property
    def per_day(self) -> int | None:
        """Units a day, of days and instants; None: of others."""
        return None

    @property
    def value(self) -> str:
        """What ``as`` calls such values; "": nothing."""
        return ""

    @property
    def avro(self) -> Any:
        """The Avro type; None: Avro has none."""
        return None

    @property
    def id_type(self) -> str:
        """What ``--individual-type`` calls the ids of people that such values are."""
        return "bytes"

    @property
    def width_unit(self) -> str:
        """What the width of a range of them is told in."""
        return "number"

    def widths(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Widths in units as they are told, float64."""
        return units

    @property
    def wider(self) -> tuple[str, ...]:
        """What ``as`` calls types that hold more numbers, the nearest first."""
        return ()

    @property
    def event_time(self) -> pa.DataType:
        """The type as a row's event time."""
        return self.arrow

    @property
    def in_box(self) -> pa.DataType:
        """The type as a quasi-identifier's."""
        return self.arrow

    @property
    def as_leaf(self) -> pa.DataType:
        """The type of what stands below a hierarchy."""
        return self.arrow

    def misfit_of_leaves(self, hierarchy: Hierarchy) -> str | None:
        """Why values cannot be matched with its leaves, which is done as text; None: they can."""
        return None

    @property
    def casts(self) -> bool:
        """Whether values of another form of the family need a cast to become these: days and instants do not."""
        return True

    def becomes(self, other: Form) -> bool:
        """Whether there are values of this form that are values of another one."""
        return self.arrow == other.arrow or bool(self.family and self.family == other.family)

    def keeps_own_unit(self, declared: Form) -> bool:
        """Whether a column keeps its own type where ``as`` names another: instants keep their unit."""
        return False

    @property
    def limits(self) -> tuple[Decimal, Decimal]:
        """The least and the largest value of numbers. Raises SchemaError: they are none."""
        raise SchemaError(f"columns of type {self.arrow} are no numbers")

    def holds(self, number: Decimal) -> bool:
        """Whether a number is one of these values; of floats, near one."""
        return False

    def unfit(self) -> str | None:
        """Why no quasi-identifier can have such values; None: one can."""
        return None

    def unfit_range(self) -> str | None:
        """Why a number has no ranges; None: it has."""
        return None

    @property
    def measured(self) -> bool:
        """Whether distances and means of values say something: of numbers that units can hold, days and instants."""
        return self.per_day is not None or (self.scale is not None and self.unfit_range() is None)

    def units(self, array: pa.Array) -> NDArray[Any]:
        """Values in the units that grids and domains count in, (n,): float64 (null: NaN) or int64 (null: 0). Raises
        SchemaError: there are none."""
        raise SchemaError(f"columns of type {self.arrow} have no units")

    def of_units(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """The inverse of ``units``. Raises SchemaError, pa.ArrowInvalid: a value does not fit."""
        raise SchemaError(f"columns of type {self.arrow} have no units")

    def nearest(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """As ``of_units``, where what is beyond the type becomes the last value that it can hold."""
        return self.of_units(values, nulls)

    def keys(self, array: pa.Array) -> list[NDArray[Any]]:
        """Integers in the order of the values, the most significant first; of nulls anything."""
        return [self.units(array)]

    def read(self, cells: pa.StringArray, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Cells of text as values, and a mask (n,) of those that are none."""
        values = self._cast(cells, form)
        if values.null_count == cells.null_count:  # no cell of nothing becomes a value
            return values, np.zeros(len(cells), dtype=np.bool_)
        return values, np.asarray(pc.and_(cells.is_valid(), values.is_null()))

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        return cast_halves(cells, self.arrow)

    def take(self, array: pa.Array, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Values of a typed column as these, and a mask (n,) of those that are none. Raises what pyarrow raises: the
        column's type is not one of these."""
        values = as_type(array, self.arrow)
        return values, self.beyond(values)

    @property
    def plain_type(self) -> type | None:
        """The type of Python whose values pyarrow takes as these; None: each has to be looked at."""
        return None

    def of_python(self, value: Any) -> Any:
        """A value of Python as pyarrow takes it. Raises TypeError: its type is none of this form's; ValueError,
        ArithmeticError: it is none itself."""
        raise TypeError

    def of_other(self, array: pa.Array, own: Form) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Values of another form as these, and a mask (n,) of those that are none, null in the result. Raises
        SchemaError: it does not become these."""
        raise SchemaError(f"values of type {own.arrow} do not become {self.arrow}")

    def plain(self, array: pa.Array) -> pa.Array:
        """Values of which two that are equal look alike: of two zeros one."""
        return array

    def texts(self, array: pa.Array) -> pa.StringArray:
        """Values as canonical text."""
        try:
            return as_type(array, pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # Nested values, and instants beyond the calendar: only ever seen in rejected rows.
            return pa.array([_as_text(value) for value in array], pa.string())

    def beyond(self, values: pa.Array) -> NDArray[np.bool_]:
        """Mask (n,) of values that no release can hold."""
        return np.zeros(len(values), dtype=bool)

    def expected(self, form: TextForm) -> str:
        """How a cell of text has to be written, in words."""
        return "text"

    def expected_typed(self) -> str:
        """Which values of a typed column can be used, in words."""
        return f"a value of type {self.arrow}"

    def grid_mistakes(self, where: str, grid: str | Decimal) -> Iterator[str]:
        """Mistakes of a grid that the type cannot hold."""
        yield from ()

    def ends(self, where: str, domain: Domain, mistakes: list[str]) -> Ends | None:
        """A declared domain in units; None, with a mistake, where the type cannot hold it."""
        return None


def _as_text(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return None
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):
        return str(value.value)


def as_type(array: pa.Array, kind: pa.DataType, *, safe: bool = True) -> pa.Array:
    """The array cast, or itself where it is of that type: asking Arrow costs more. Not safe: to what is nearest."""
    return array if array.type == kind else array.cast(kind, safe=safe)


def present(array: pa.Array) -> NDArray[np.bool_]:
    """Where there is a value, bool (n,)."""
    return np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), dtype=np.bool_)


def by_bytes(kind: pa.DataType) -> bool:
    """Whether values are told apart as text or bytes."""
    return kind.id in _BYTES


def ranks_of_few(array: pa.Array) -> tuple[NDArray[np.int64], list[str] | list[bytes]]:
    """The rank of each text among the distinct ones, from 1, a null's 0; and these in their order."""
    texts = array.to_pylist()
    # Characters in the order of their numbers are in that of their bytes.
    distinct = sorted(set(texts) - {None})
    place = dict(zip(distinct, range(1, len(distinct) + 1), strict=True))
    place[None] = 0
    return np.fromiter(map(place.__getitem__, texts), np.int64, len(texts)), distinct


def cast_halves(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast whole where that works, else in halves, down to the single cells that no cast accepts."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        pass
    if len(array) == 1:
        return pa.nulls(1, kind)
    half = len(array) // 2
    return pa.concat_arrays([cast_halves(part, kind) for part in (array[:half], array[half:])])


def well_formed(array: pa.Array, form: str, *, signed: bool) -> pa.Array:
    """The cells that have the form, some of them only without spaces around and a leading plus; else null.

    The form decides what is accepted, not the cast: a cast takes more (hexadecimal, NaN, underscores), and
    which of its rules applied would depend on the other cells.
    """
    matches = pc.match_substring_regex(array, form)
    if not matches.false_count:
        return array
    array = pc.utf8_trim_whitespace(array)
    if signed:
        array = pc.replace_substring_regex(array, r"^\+(\d|\.)", r"\1")
    matches = pc.match_substring_regex(array, form)
    return pc.if_else(matches, array, NOTHING)
