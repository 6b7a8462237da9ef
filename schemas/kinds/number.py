"""Numbers: whole ones, fractions and decimals; and the quasi-identifiers that are ranges of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.errors import SchemaError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.kinds.form import Ends, Form, as_type, cast_halves, well_formed
from kanonflow.schemas.kinds.kind import Ranges
from kanonflow.schemas.loss_scales import mistake_in_log_from, mistake_in_quantiles
from kanonflow.schemas.policy_fields import Domain, Field, Quasi, ScaleName
from kanonflow.schemas.text_form import BLANKS, ISO, TextForm
from kanonflow.schemas.written_values import read_number

MOST_QUASI_DIGITS = 18
"""Precision up to which the unscaled value of a decimal fits into an int64."""
MOST_GRID_DIGITS = 15
"""Significant digits of a grid: a double holds every multiple of it up to 2**53 exactly."""
_NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"
_WHOLE_FLOATS = {pa.float32(): 2**24, pa.float64(): 2**53}
_WITHIN_LONGS = frozenset(kind.id for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()))
_DIGITS = Context(prec=100)
"""More than any type has: Python's own 28 would refuse numbers that fit."""
_LARGEST = np.int64(np.iinfo(np.int64).max)


class NumberForm(Form):
    """What all numbers share: the ends of a domain count in units of 10**-scale."""

    family = "numbers"
    ordered = True
    scale = 0  # type: ignore[assignment]

    def becomes(self, other: Form) -> bool:
        """Another number, or its text."""
        return super().becomes(other) or other.text

    def holds(self, number: Decimal) -> bool:
        """A whole number of units that the type has digits for."""
        low, high = self.limits
        return low <= number <= high and (Fraction(number) * 10**self.scale).denominator == 1

    def grid_mistakes(self, where: str, grid: str | Decimal) -> Iterator[str]:
        """A step of which the units hold no multiple."""
        if isinstance(grid, Decimal):
            step = Fraction(grid) * 10**self.scale
            if step.denominator != 1 or step >= 2**62:
                yield f"{where}.grid: the field's type {self.grid} cannot hold multiples of it"

    def ends(self, where: str, domain: Domain, mistakes: list[str]) -> Ends | None:
        """The ends as whole numbers of units."""
        units = [Fraction(end) * 10**self.scale for end in domain if isinstance(end, Decimal)]
        if all(end.denominator == 1 and abs(end) < 2**63 for end in units):
            return int(units[0]), int(units[1])
        mistakes.append(f"{where}.domain: the field's type {self.grid} cannot hold its ends")
        return None

    def of_python(self, value: Any) -> Any:
        """Any number; a boolean is none."""
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise TypeError
        return self.of_number(value)

    def of_number(self, value: float | Decimal) -> Any:
        """As one of these. Raises ValueError, ArithmeticError: there is none."""
        raise NotImplementedError

    def as_whole(self, array: pa.Array, other: Whole) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Values as whole numbers; those that the other type cannot hold are none."""
        return self._within(array, other, pa.scalar(True))

    def as_float(self, array: pa.Array, other: FloatForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Values as fractions; those that the other type cannot hold are none."""
        return self._within(array, other, pa.scalar(True))

    @property
    def most(self) -> int:
        """The largest whole number of which all smaller ones are values too."""
        raise NotImplementedError

    @property
    def least(self) -> int:
        """The least whole number of which all larger ones are values too."""
        raise NotImplementedError

    def _within(
        self, array: pa.Array, other: NumberForm, also: pa.Array
    ) -> tuple[pa.Array, NDArray[np.bool_]]:
        low, high = max(self.least, other.least), min(self.most, other.most)
        low, high = pa.scalar(low, self.arrow), pa.scalar(high, self.arrow)
        fits = pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))
        return self._fitting(array, pc.and_(fits, also), other)

    def _fitting(
        self, array: pa.Array, fits: pa.Array, other: NumberForm
    ) -> tuple[pa.Array, NDArray[np.bool_]]:
        bad = np.asarray(pc.fill_null(pc.invert(fits), False))
        return pc.if_else(fits, array, pa.scalar(None, self.arrow)).cast(other.arrow, safe=False), bad


class Whole(NumberForm):
    """Whole numbers of 8 to 64 bits."""

    label = name = spelled = True
    id_type = "long"  # type: ignore[assignment]
    grid = "integer"  # type: ignore[assignment]
    wider = ("decimal(38,0)", "double")  # type: ignore[assignment]
    plain_type = int  # type: ignore[assignment]

    def of_number(self, value: float | Decimal) -> int:
        """Without a fraction."""
        if int(value) != value:
            raise ValueError("not whole")
        return int(value)

    @property
    def canonical(self) -> pa.DataType:
        """int32 or int64; what only 64 bits without a sign hold is a decimal."""
        if self.arrow == pa.uint64():
            return pa.decimal128(20, 0)
        return pa.int32() if self.arrow.bit_width < 32 or self.arrow == pa.int32() else pa.int64()

    @property
    def value(self) -> str:
        """int, or long."""
        return {pa.int32(): "int", pa.int64(): "long"}.get(self.arrow, "")

    @property
    def avro(self) -> str | None:
        """The same."""
        return self.value or None

    @property
    def most(self) -> int:
        """Of all its bits."""
        return 2 ** (self.arrow.bit_width - 1) - 1

    @property
    def least(self) -> int:
        """Of all its bits."""
        return -(2 ** (self.arrow.bit_width - 1))

    @property
    def limits(self) -> tuple[Decimal, Decimal]:
        """Of all its bits."""
        return Decimal(self.least), Decimal(self.most)

    def of_other(self, array: pa.Array, own: Form) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Of numbers."""
        assert isinstance(own, NumberForm)
        return own.as_whole(array, self)

    def units(self, array: pa.Array) -> NDArray[np.int64]:
        """Themselves."""
        return whole_units(array if array.type.id in _WITHIN_LONGS else array.cast(pa.int64()))

    def of_units(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Themselves."""
        return as_type(pa.array(values, pa.int64(), mask=nulls), self.arrow)

    def nearest(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Cut to the type's own bounds."""
        ends = np.iinfo(str(self.arrow))
        return pa.array(np.clip(values, ends.min, ends.max).astype(ends.dtype), self.arrow, mask=nulls)

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        formed = well_formed(_with_point(cells, form), r"^-?\d+(\.0*)?$", signed=True)
        # Without a fraction of zeros, as in 17850.0.
        if pc.any(pc.match_substring(formed, ".")).as_py():
            formed = pc.replace_substring_regex(formed, r"\.0*$", "")
        return cast_halves(formed, self.arrow)

    def expected(self, form: TextForm) -> str:
        """With the bits that there are."""
        return f"a whole number of {self.arrow.bit_width} bits such as 12"


class FloatForm(NumberForm):
    """Fractions of 32 and 64 bits."""

    grid = "float"  # type: ignore[assignment]
    fraction = True  # type: ignore[assignment]
    leaf = True

    def misfit_of_leaves(self, hierarchy: Hierarchy) -> str | None:
        """Nobody can list fractions."""
        return "type: hierarchy needs exact values; add as: decimal(9,2), of its step's digits, or use type: numeric"

    @property
    def canonical(self) -> pa.DataType:
        """Halves become singles."""
        return pa.float32() if self.arrow == pa.float16() else self.arrow

    @property
    def value(self) -> str:
        """float, or double."""
        return {pa.float32(): "float", pa.float64(): "double"}.get(self.arrow, "")

    @property
    def avro(self) -> str | None:
        """The same."""
        return self.value or None

    @property
    def plain_type(self) -> type | None:
        """Of doubles."""
        return float if self.arrow == pa.float64() else None

    def of_number(self, value: float | Decimal) -> float:
        """The nearest."""
        return float(value)

    @property
    def most(self) -> int:
        """Below the least whole number from which on the type does not hold each."""
        return _WHOLE_FLOATS[self.arrow] - 1

    @property
    def least(self) -> int:
        """The same below 0."""
        return -self.most

    def of_other(self, array: pa.Array, own: Form) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Of numbers."""
        assert isinstance(own, NumberForm)
        return own.as_float(array, self)

    def as_whole(self, array: pa.Array, other: Whole) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Without a fraction."""
        return self._within(array, other, pc.equal(pc.trunc(array), array))

    def as_float(self, array: pa.Array, other: FloatForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """What stays finite."""
        return self._fitting(array, pc.is_finite(array.cast(other.arrow, safe=False)), other)

    def units(self, array: pa.Array) -> NDArray[np.float64]:
        """Themselves, a null NaN."""
        array = as_type(array, pa.float64())
        return np.asarray(array.fill_null(float("nan")) if array.null_count else array)

    def of_units(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Themselves."""
        return as_type(pa.array(values, pa.float64(), mask=nulls), self.arrow)

    def nearest(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Cut to the largest single where the type is one."""
        limit = np.finfo(f"float{self.arrow.bit_width}").max
        return self.of_units(np.clip(values, -limit, limit), nulls)

    def keys(self, array: pa.Array) -> list[NDArray[Any]]:
        """The bits; -0.0 and 0.0 differ."""
        array = as_type(array, pa.float64())
        bits = np.asarray(array.fill_null(0.0) if array.null_count else array).view(np.int64)
        # Negative doubles count downward in their bits; turning all but the sign makes them count up.
        return [np.where(bits < 0, bits ^ _LARGEST, bits)]

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        values = cast_halves(well_formed(_with_point(cells, form), _NUMBER, signed=True), self.arrow)
        finite = pc.is_finite(values)
        return pc.if_else(finite, values, pa.scalar(None, self.arrow)) if finite.false_count else values

    def plain(self, array: pa.Array) -> pa.Array:
        """One zero of two."""
        return pc.add(array, pa.scalar(0.0, self.arrow))

    def beyond(self, values: pa.Array) -> NDArray[np.bool_]:
        """What is not finite."""
        finite = pc.is_finite(values)
        return ~np.asarray(finite.fill_null(True)) if finite.false_count else super().beyond(values)

    def expected(self, form: TextForm) -> str:
        """With the sign before the fraction."""
        return f"a number such as 12{form.decimal}5"

    def expected_typed(self) -> str:
        """No infinity."""
        return "a finite number"

    @property
    def limits(self) -> tuple[Decimal, Decimal]:
        """The finite ones."""
        most = Decimal(float(np.finfo(f"float{self.arrow.bit_width}").max))
        return most.copy_negate(), most

    def holds(self, number: Decimal) -> bool:
        """One that is near."""
        return self.limits[0] <= number <= self.limits[1]

    def grid_mistakes(self, where: str, grid: str | Decimal) -> Iterator[str]:
        """None: a double comes near every multiple."""
        yield from ()

    def ends(self, where: str, domain: Domain, mistakes: list[str]) -> Ends:
        """As doubles."""
        low, high = domain[0], domain[-1]
        return float(low), float(high)  # type: ignore[arg-type]


class DecimalForm(NumberForm):
    """Decimals, in units of their last digit."""

    wider = ("double",)  # type: ignore[assignment]
    leaf = True

    def misfit_of_leaves(self, hierarchy: Hierarchy) -> str | None:
        """They have as many digits: the text of a decimal has all of its own."""
        ending = re.compile(rf"-?\d+\.\d{{{self.scale}}}" if self.scale else r"-?\d+")
        if all(map(ending.fullmatch, hierarchy.leaves)):
            return None
        step = format(Decimal(1).scaleb(-self.scale), "f")
        return (
            f"its hierarchy is not one of decimals of {self.scale} digits; build it with step: {step}, as in {{widths:"
            f" [1, 5], domain: [0, 100], step: {step}}}, or name the digits of its step, as in as: decimal(9,1) of 0.1"
        )

    def widths(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """As numbers, and not unscaled."""
        return units / 10.0**self.scale

    def of_number(self, value: float | Decimal) -> Decimal:
        """Without rounding; a float as it is written: 0.1 is 0.1, and no sum of powers of two."""
        exact = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
        if not exact.is_finite() or exact != exact.quantize(Decimal(1).scaleb(-self.scale), context=_DIGITS):
            raise ValueError("more decimals than the type has")
        return exact

    @property
    def scale(self) -> int:  # type: ignore[override]
        """Digits behind the point."""
        return self.arrow.scale

    @property
    def limits(self) -> tuple[Decimal, Decimal]:
        """Of all its digits."""
        most = Decimal((0, (9,) * self.arrow.precision, -self.scale))
        return most.copy_negate(), most

    @property
    def grid(self) -> str:
        """With the scale."""
        return f"decimal({self.arrow.scale})"

    @property
    def canonical(self) -> pa.DataType | None:
        """Of 128 bits; None: those of more digits."""
        precision, scale = self.arrow.precision, self.arrow.scale
        return pa.decimal128(precision, scale) if precision <= 38 and 0 <= scale <= precision else None

    @property
    def value(self) -> str:
        """With all digits."""
        return f"decimal({self.arrow.precision},{self.arrow.scale})"

    @property
    def avro(self) -> Any:
        """Bytes of its unscaled value."""
        if self.arrow.bit_width != 128:
            return None
        digits = {"precision": self.arrow.precision, "scale": self.arrow.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}

    def _fits_units(self) -> bool:
        return self.arrow.bit_width == 128 and self.arrow.precision <= MOST_QUASI_DIGITS

    @property
    def fraction(self) -> bool:
        """With a point."""
        return self.scale > 0

    def unfit_range(self) -> str | None:
        """Too many digits to count in."""
        if self.arrow.precision > MOST_QUASI_DIGITS:
            return f"type: numeric takes decimals of at most {MOST_QUASI_DIGITS} digits"
        return None

    def of_other(self, array: pa.Array, own: Form) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Of numbers, at the shortest text that is read as them."""
        return self.read(own.texts(array), ISO)

    def as_whole(self, array: pa.Array, other: Whole) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Without a fraction."""
        whole, bad = DecimalForm(pa.decimal128(38, 0)).read(self.texts(array), ISO)
        low, high = (pa.scalar(Decimal(end), whole.type) for end in (other.least, other.most))
        fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
        values = pc.if_else(fits, whole, pa.scalar(None, whole.type)).cast(other.arrow)
        return values, bad | np.asarray(pc.fill_null(pc.invert(fits), False))

    def as_float(self, array: pa.Array, other: FloatForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """By text: Arrow's own cast multiplies by a power of ten, which is rounded already."""
        numbers, bad = FloatForm(pa.float64()).read(self.texts(array), ISO)
        return numbers.cast(other.arrow, safe=False), bad

    def units(self, array: pa.Array) -> NDArray[np.int64]:
        """Unscaled, of up to 18 digits."""
        if not self._fits_units():
            return super().units(array)
        return np.where(np.asarray(array.is_valid()), decimal_words(array)[1].view(np.int64), 0)

    def of_units(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Unscaled."""
        if not self._fits_units():
            return super().of_units(values, nulls)
        if np.any(np.abs(values[~nulls]) >= 10**self.arrow.precision):
            raise SchemaError(f"a value has more digits than {self.arrow} holds")
        words = np.empty((len(values), 2), np.int64)
        words[:, 0] = values
        words[:, 1] = values >> 63
        valid = pa.array(~nulls).buffers()[1]
        return pa.Array.from_buffers(self.arrow, len(values), [valid, pa.py_buffer(words.tobytes())])

    def nearest(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Cut to the most digits."""
        limit = 10**self.arrow.precision - 1
        return self.of_units(np.clip(values, -limit, limit), nulls)

    def keys(self, array: pa.Array) -> list[NDArray[Any]]:
        """The high and the low word."""
        high, low = decimal_words(array)
        if not array.null_count:
            return [high, low]
        valid = np.asarray(array.is_valid())
        return [np.where(valid, high, 0), np.where(valid, low, 0)]

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        """As they are written; null where the type cannot hold one without rounding.

        Long ones and those with an exponent are read here: pyarrow's cast gives 0 for some of them.
        """
        array = well_formed(_with_point(cells, form), _NUMBER, signed=True)
        odd = pc.match_substring_regex(array, r"[eE]|^.{38}")
        if not pc.any(odd).as_py():
            return cast_halves(array, self.arrow)
        plain = cast_halves(pc.if_else(odd, pa.scalar(None, pa.string()), array), self.arrow)
        read = [
            self._exact(text) if one else None
            for text, one in zip(array.to_pylist(), odd.to_pylist(), strict=True)
        ]
        return pc.if_else(odd, pa.array(read, self.arrow), plain)

    def _exact(self, text: str) -> Decimal | None:
        sign, digits, exponent = Decimal(text).as_tuple()
        assert isinstance(exponent, int)
        written = "".join(map(str, digits)).lstrip("0")
        significant = written.rstrip("0")
        zeros = exponent + len(written) - len(significant) + self.scale
        if not significant:
            return Decimal(0).scaleb(-self.scale)
        if zeros < 0 or len(significant) + zeros > self.arrow.precision:
            return None
        return Decimal((sign, tuple(map(int, significant + "0" * zeros)), -self.scale))

    def expected(self, form: TextForm) -> str:
        """With an example of that many digits."""
        precision, scale = self.arrow.precision, self.scale
        whole = "1" * min(2, precision - scale) or "0"
        example = f"{whole}{form.decimal}{'5' * scale}" if scale else whole
        return f"a number with up to {scale} decimals and {precision} digits, such as {example}"


def whole_units(array: pa.Array) -> NDArray[np.int64]:
    """int64 (n,), a null 0. Where there are no nulls nothing is filled: asking Arrow costs more."""
    return np.asarray(array.fill_null(0) if array.null_count else array).astype(np.int64, copy=False)


def decimal_words(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The unscaled 128-bit values of a decimal128 column: high int64 (n,), low uint64 (n,)."""
    pairs = np.frombuffer(column.buffers()[1], dtype="<i8", count=2 * (column.offset + len(column)))
    pairs = pairs.reshape(-1, 2)[column.offset :]
    return pairs[:, 1], pairs[:, 0].view(np.uint64)


def _with_point(array: pa.StringArray, form: TextForm) -> pa.StringArray:
    """Numbers in another form as they are written in ours. A cell that breaks the form gets a sign that no number has.

    Groups are of three digits with the sign between all of them, or there are none.
    """
    if form.decimal == "." and form.thousands is None:
        return array
    array = pc.utf8_trim_whitespace(array)
    if form.thousands is not None:
        sign = f"[{BLANKS}]" if form.thousands == " " else re.escape(form.thousands)
        grouped = pc.match_substring_regex(
            array, rf"^[+-]?\d{{1,3}}({sign}\d{{3}})+({re.escape(form.decimal)}\d*)?([eE][+-]?\d{{1,3}})?$"
        )
        array = pc.if_else(grouped, pc.replace_substring_regex(array, sign, ""), array)
    if form.decimal != ".":
        array = pc.replace_substring(array, ".", "!")
        array = pc.replace_substring(array, form.decimal, ".")
    return array


class NumberKind(Ranges):
    """``type: numeric``."""

    def read_domain(
        self, value: list[Any] | tuple[Any, ...], mistakes: list[str], where: str
    ) -> Domain | None:
        """Two numbers."""
        numbers = tuple(number for number in map(read_number, value) if number is not None)
        if len(numbers) == len(value) == 2:
            return numbers[0], numbers[1]
        mistakes.append(f"{where}domain: must be [low, high], two numbers")
        return None

    def rules_of_domain(self, where: str, domain: Domain) -> Iterator[str]:
        """Two finite numbers, the low one first."""
        ends = [end for end in domain if isinstance(end, Decimal) and end.is_finite()]
        if len(domain) != 2 or len(ends) != 2:
            yield f"{where}.domain: must be [low, high], two numbers"
        elif not ends[0] < ends[1]:
            yield f"{where}.domain: low must be below high"

    def rules_of_grid(self, where: str, grid: object) -> Iterator[str]:
        """A step that a double has all multiples of."""
        if isinstance(grid, Decimal):
            if not grid.is_finite() or grid <= 0:
                yield f"{where}.grid: must be a positive number"
            elif (
                len(grid.normalize().as_tuple().digits) > MOST_GRID_DIGITS or not -30 <= grid.adjusted() <= 30
            ):
                yield f"{where}.grid: needs at most {MOST_GRID_DIGITS} digits, between 1e-30 and 1e30"
        elif grid not in ("auto", "exact"):
            yield f"{where}.grid: must be auto, exact or a positive number"

    def rules_of_scale(self, where: str, quasi: Quasi) -> Iterator[str]:
        """Quantiles of ranks, and a beginning of logarithms."""
        ranked = quasi.scale is ScaleName.RANK
        if quasi.quantiles is None:
            if ranked:
                yield (
                    f"{where}.quantiles: missing; scale: rank goes by numbers that part the people evenly, such as"
                    " [18, 35, 60] (kanonflow policy draft writes them)"
                )
        elif not ranked:
            yield f"{where}.quantiles: belongs to scale: rank; leave it out"
        elif mistake := mistake_in_quantiles(quasi.quantiles):
            yield f"{where}.quantiles: {mistake}"
        if quasi.log_from is not None:
            if quasi.scale is not ScaleName.LOG:
                yield f"{where}.log_from: belongs to scale: log; leave it out"
            elif mistake := mistake_in_log_from(quasi.log_from):
                yield f"{where}.log_from: {mistake}"

    def rules_of_value(self, where: str, value: Form) -> Iterator[str]:
        """A number."""
        if value.scale is None:
            yield f"{where}.as: type: numeric needs int, long, float, double or decimal(p,s)"

    def type_of_text(self, field: Field) -> pa.DataType:
        """A double."""
        return pa.float64()

    def misfit(self, quasi: Quasi, form: Form) -> str | None:
        """What is no number, or has too many digits."""
        if form.scale is None:
            return form.unfit() or "type: numeric needs a column of numbers (for text, add as: double)"
        return form.unfit_range()
