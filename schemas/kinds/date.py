"""Days, instants and times of day; and the quasi-identifiers that are ranges of days or instants."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.formatted_times import formatted_days, formatted_instants
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.kinds.form import (
    MICROSECONDS,
    MILLISECONDS,
    NOTHING,
    Ends,
    Form,
    as_type,
    cast_halves,
    well_formed,
)
from kanonflow.schemas.kinds.kind import Ranges
from kanonflow.schemas.kinds.number import whole_units
from kanonflow.schemas.local_times import FIRST_SECOND, LAST_SECOND, localize
from kanonflow.schemas.policy_fields import DATE_UNITS, Domain, Field, Quasi
from kanonflow.schemas.text_form import EPOCH, TextForm, directives_of
from kanonflow.schemas.written_values import read_date

TIME_OF_DAY = pa.time64("us")
_EPOCH = date(1970, 1, 1)
_DAY_MS = 86_400_000
_DAY_SECONDS = 86_400
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Dated(Form):
    """What days and instants share."""

    family = "calendar"
    ordered = True

    @property
    def event_time(self) -> pa.DataType:
        """In milliseconds, the unit of windows."""
        return MILLISECONDS

    @property
    def casts(self) -> bool:
        """Days are read from instants, and instants from days."""
        return False


class Days(Dated):
    """Days, counted from 1970-01-01."""

    grid = "date"  # type: ignore[assignment]
    width_unit = "days"  # type: ignore[assignment]
    value = "date"  # type: ignore[assignment]
    per_day = 1  # type: ignore[assignment]
    plain_type = date  # type: ignore[assignment]
    leaf = True

    def misfit_of_leaves(self, hierarchy: Hierarchy) -> str | None:
        """They are days, too."""
        if hierarchy.of_days:
            return None
        return (
            "its hierarchy is not one of days; build it, as in {calendar: [month, year], domain: [1920-01-01, "
            "2010-12-31]}, or write a row a day that begins with it, as in 1984-05-30;1984-05;1984;*"
        )

    @property
    def avro(self) -> Any:
        """Days as Avro has them."""
        return {"type": "int", "logicalType": "date"} if self.arrow == pa.date32() else None

    def of_python(self, value: Any) -> date:
        """A date; an instant is none."""
        if isinstance(value, datetime) or not isinstance(value, date):
            raise TypeError
        return value

    @property
    def canonical(self) -> pa.DataType:
        """Of 32 bits."""
        return pa.date32()

    def becomes(self, other: Form) -> bool:
        """An instant, or its text."""
        return super().becomes(other) or other.text

    def units(self, array: pa.Array) -> NDArray[np.int64]:
        """Days since 1970."""
        if self.arrow != pa.date32():
            return super().units(array)
        return whole_units(array.view(pa.int32()))

    def of_units(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Days since 1970."""
        if self.arrow != pa.date32():
            return super().of_units(values, nulls)
        return as_type(pa.array(values, mask=nulls), pa.int32()).view(self.arrow)

    def nearest(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """Cut to 32 bits."""
        bounds = np.iinfo(np.int32)
        return self.of_units(np.clip(values, bounds.min, bounds.max).astype(np.int32), nulls)

    def read(self, cells: pa.StringArray, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """By the format that a policy gives, or as ISO 8601 has it."""
        if form.format is not None:
            return formatted_days(pc.utf8_trim_whitespace(cells), form.format)
        return super().read(cells, form)

    def take(self, array: pa.Array, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Of instants the day in UTC, as windows are: a cast takes that in the column's own zone."""
        array, bad = _in_utc(array, form)
        if _is_instants(array.type):
            array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
        values = array if array.type == self.arrow else array.cast(self.arrow, safe=False)
        return values, bad | self.beyond(values)

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        return cast_halves(well_formed(cells, r"^\d{4}-\d\d-\d\d$", signed=True), self.arrow)

    def beyond(self, values: pa.Array) -> NDArray[np.bool_]:
        """Outside of the years 1 to 9999, which most Avro readers cannot hold."""
        days = np.asarray(pc.fill_null(values.cast(pa.int32()), 0))
        return (days < FIRST_SECOND // _DAY_SECONDS) | (days > LAST_SECOND // _DAY_SECONDS)

    def expected(self, form: TextForm) -> str:
        """By the format."""
        return "a date as YYYY-MM-DD" if form.format is None else f"a date as {form.format}"

    def expected_typed(self) -> str:
        """Of the calendar."""
        return "a date in the years 1 to 9999"

    def grid_mistakes(self, where: str, grid: str | Decimal) -> Iterator[str]:
        """A grid finer than a day."""
        if grid in ("second", "minute", "hour"):
            yield f"{where}.grid: {grid} is finer than the days this field has"

    def ends(self, where: str, domain: Domain, mistakes: list[str]) -> Ends | None:
        """As days."""
        low, high = domain[0], domain[-1]
        if isinstance(low, datetime):
            mistakes.append(f"{where}.domain: the field has days; give two dates without a time")
            return None
        assert isinstance(low, date)
        assert isinstance(high, date)
        return (low - _EPOCH).days, (high - _EPOCH).days


class Instants(Dated):
    """Instants in UTC, in the type's own unit since 1970."""

    grid = "timestamp"  # type: ignore[assignment]
    width_unit = "ms"  # type: ignore[assignment]
    value = "timestamp"  # type: ignore[assignment]

    @property
    def canonical(self) -> pa.DataType:
        """Seconds become milliseconds, nanoseconds microseconds."""
        return MILLISECONDS if self.arrow.unit in ("s", "ms") else MICROSECONDS

    @property
    def avro(self) -> Any:
        """In milliseconds or microseconds."""
        unit = {"ms": "millis", "us": "micros"}.get(self.arrow.unit)
        return None if unit is None else {"type": "long", "logicalType": f"timestamp-{unit}"}

    @property
    def in_box(self) -> pa.DataType:
        """In milliseconds, the unit of boxes."""
        return MILLISECONDS

    @property
    def as_leaf(self) -> pa.DataType:
        """Their day in UTC."""
        return pa.date32()

    def widths(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """In milliseconds, whatever the type's unit."""
        return units / {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}[self.arrow.unit]

    def keeps_own_unit(self, declared: Form) -> bool:
        """Of instants."""
        return isinstance(declared, Instants)

    @property
    def per_day(self) -> int:
        """In the type's unit."""
        return _DAY_SECONDS * _PER_SECOND[self.arrow.unit]

    def units(self, array: pa.Array) -> NDArray[np.int64]:
        """In the type's unit."""
        return whole_units(array.view(pa.int64()))

    def of_units(self, values: NDArray[Any], nulls: NDArray[np.bool_]) -> pa.Array:
        """In the type's unit."""
        return pa.array(values, pa.int64(), mask=nulls).view(self.arrow)

    def read(self, cells: pa.StringArray, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """By the format that a policy gives, or as ISO 8601 has it."""
        if form.format is not None:
            return formatted_instants(pc.utf8_trim_whitespace(cells), self.arrow, form)
        return super().read(cells, form)

    def take(self, array: pa.Array, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """In the type's unit, floored; of days their midnight.

        Arrow's own cast rounds towards 1970, which would move earlier instants into the next unit.
        """
        if array.type in (pa.date32(), pa.date64()):
            array = array.cast(pa.timestamp("s"))
        array, bad = _in_utc(array, form)
        have, want = _PER_SECOND[array.type.unit], _PER_SECOND[self.arrow.unit]
        nulls = np.asarray(array.is_null())
        values = whole_units(array.view(pa.int64()))
        seconds = values // have
        outside = ~nulls & ((seconds < FIRST_SECOND) | (seconds > LAST_SECOND))
        values = np.where(nulls | outside, 0, values)
        values = values * (want // have) if want >= have else values // (have // want)
        return self.of_units(values, nulls | outside), bad | outside

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        """Those with and without a zone apart, because a cast accepts only one of the two; local times of no instant
        are null."""
        spelled = rf"^\d{{4}}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{{1,9}})?)?({_ZONE[:-1]})?)?$"
        array = well_formed(cells, spelled, signed=False)
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[self.arrow.unit]
        if pc.match_substring_regex(array, rf"\.\d{{{digits + 1}}}").true_count:
            array = pc.replace_substring_regex(array, rf"(\.\d{{{digits}}})\d+", r"\1")
        zoned = pc.match_substring_regex(array, _ZONE)
        if not zoned.true_count:
            return self._local(array, form)
        with_zone = cast_halves(pc.if_else(zoned, array, NOTHING), self.arrow)
        return pc.if_else(zoned, with_zone, self._local(pc.if_else(zoned, NOTHING, array), form))

    def _local(self, array: pa.Array, form: TextForm) -> pa.Array:
        """Times without a zone."""
        local = cast_halves(array, pa.timestamp(self.arrow.unit))
        if form.timezone is None:
            return local.cast(self.arrow)
        return localize(local, form.timezone, form.fold)[0].cast(self.arrow)

    def expected(self, form: TextForm) -> str:
        """By the format, and where the clocks are."""
        where = "in UTC" if form.timezone is None else f"in {form.timezone}"
        if form.format is None:
            return f"a time as YYYY-MM-DD HH:MM:SS, {where} unless its zone stands behind it"
        if form.format in EPOCH:
            return (
                f"a whole number of {'seconds' if EPOCH[form.format] == 1_000 else 'milliseconds'} since 1970"
            )
        zoned = any(part.letter == "z" for part in directives_of(form.format))
        twice = "" if form.timezone is None or form.fold is not None else ", that its clocks showed once"
        return f"a time as {form.format}" if zoned else f"a time as {form.format}, {where}{twice}"

    def expected_typed(self) -> str:
        """Of the calendar."""
        return f"a {'time' if self.arrow == MILLISECONDS else 'date'} in the years 1 to 9999"

    def ends(self, where: str, domain: Domain, mistakes: list[str]) -> Ends:
        """In milliseconds; a last date means its whole day."""
        low, high = domain[0], domain[-1]
        if isinstance(low, datetime) and isinstance(high, datetime):
            return _milliseconds(low), _milliseconds(high)
        assert isinstance(low, date)
        assert isinstance(high, date)
        return (low - _EPOCH).days * _DAY_MS, ((high - _EPOCH).days + 1) * _DAY_MS - 1


class TimesOfDay(Form):
    """Times of day, published as they are."""

    ordered = True

    @property
    def canonical(self) -> pa.DataType:
        """In microseconds."""
        return TIME_OF_DAY

    def becomes(self, other: Form) -> bool:
        """Its text."""
        return super().becomes(other) or other.text

    @property
    def avro(self) -> Any:
        """In microseconds."""
        return {"type": "long", "logicalType": "time-micros"} if self.arrow == TIME_OF_DAY else None

    def unfit(self) -> str:
        """They have no ranges."""
        return (
            "times of day have no ranges; add as: string and type: categorical (or a hierarchy of such texts), or give "
            "it role: insensitive or identifier"
        )

    def take(self, array: pa.Array, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """In microseconds, floored; those that no day has are none."""
        per_second = _PER_SECOND[array.type.unit]
        nulls = np.asarray(array.is_null())
        width = pa.int32() if array.type.bit_width == 32 else pa.int64()
        values = np.asarray(array.view(width).cast(pa.int64()).fill_null(0))
        outside = (values < 0) | (values >= _DAY_SECONDS * per_second)
        values = np.where(outside, 0, values)
        values = values * (10**6 // per_second) if per_second <= 10**6 else values // (per_second // 10**6)
        return pa.array(values, pa.int64(), mask=nulls | outside).cast(TIME_OF_DAY), outside

    def units(self, array: pa.Array) -> NDArray[np.int64]:
        """Of 64 bits, in the type's unit since midnight."""
        if self.arrow.bit_width != 64:
            return super().units(array)
        return whole_units(array.view(pa.int64()))


def _in_utc(array: pa.Array, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Times without a zone as instants, where a policy says whose clocks showed them; and a mask of those of none."""
    if form.timezone is None or not _is_instants(array.type) or array.type.tz is not None:
        return array, np.zeros(len(array), dtype=bool)
    return localize(array, form.timezone, form.fold)


def _is_instants(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.TimestampType)


def _milliseconds(instant: datetime) -> int:
    since = instant - datetime.combine(_EPOCH, time(), UTC)
    return (since.days * _DAY_SECONDS + since.seconds) * 1_000 + since.microseconds // 1_000


class DateKind(Ranges):
    """``type: date``."""

    dated = True

    def read_domain(
        self, value: list[Any] | tuple[Any, ...], mistakes: list[str], where: str
    ) -> Domain | None:
        """Two dates."""
        dates = tuple(found for found in map(read_date, value) if found is not None)
        if len(dates) == len(value) == 2:
            return dates  # type: ignore[return-value]
        mistakes.append(
            f"{where}domain: must be [first, last], two ISO dates of the calendar, such as 1930-01-01"
        )
        return None

    def rules_of_domain(self, where: str, domain: Domain) -> Iterator[str]:
        """Two of one kind, the first before the last."""
        if len(domain) != 2 or isinstance(domain[0], datetime) != isinstance(domain[1], datetime):
            yield f"{where}.domain: must be [first, last], two dates or two date-times"
        elif not domain[0] < domain[1]:  # type: ignore[operator]
            yield f"{where}.domain: the first date must be before the last"

    def rules_of_grid(self, where: str, grid: object) -> Iterator[str]:
        """A unit of the calendar."""
        if grid not in ("auto", "exact", *DATE_UNITS):
            yield f"{where}.grid: must be auto, exact or one of {', '.join(DATE_UNITS)}"

    def rules_of_value(self, where: str, value: Form) -> Iterator[str]:
        """A day or an instant."""
        if value.per_day is None:
            yield f"{where}.as: type: date needs date or timestamp"

    def type_of_text(self, field: Field) -> pa.DataType:
        """Instants where what is said of the text makes instants of it, whatever day that is somewhere; else days."""
        return MILLISECONDS if _names_instants(field) else pa.date32()

    def misfit(self, quasi: Quasi, form: Form) -> str | None:
        """What is not of the calendar."""
        if form.per_day is None:
            return form.unfit() or "type: date needs a column of dates or timestamps (for text, add as: date)"
        return None


def _names_instants(field: Field) -> bool:
    form = field.format
    if field.timezone is not None or form in EPOCH:
        return True
    return form is not None and any(part.letter == "z" for part in directives_of(form))
