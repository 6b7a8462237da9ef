"""What a cell of the input must have become under its field's grid, worked out anew for the audit.

A value at a time, in fractions: nothing of the pipeline's own arithmetic (transforms/rows/payload_cells.py) is used.
"""

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.payload_grids import PARTS_OF_DAY, WEEKDAYS
from kanonflow.schemas.policy_fields import PartOfTime

_UNITS = {"ms": 1_000, "us": 1}
_MIDDLE = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_coarse(column: BoundColumn) -> bool:
    """Whether the column's field has a grid at all."""
    field = column.field
    grids = field.truncate, field.part_of_time, field.round, field.bottom, field.top
    return any(each is not None for each in grids)


def coarse_value(value: Hashable, column: BoundColumn) -> Hashable:
    """A plain value (``values``) of the column as it is read, as it has to be published; what is no value stays so."""
    field, kind = column.field, column.as_read.arrow_type
    if field.truncate is not None and isinstance(value, str):
        return value[: field.truncate]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if field.part_of_time is not None:
        assert isinstance(value, int)
        shown = _shown(timedelta(microseconds=value * _UNITS[kind.unit]), column.clocks)
        match field.part_of_time:
            case PartOfTime.HOUR:
                return shown.hour
            case PartOfTime.WEEKDAY:
                return WEEKDAYS[shown.weekday()]
        return PARTS_OF_DAY[shown.hour // 6]
    if field.round is None and field.bottom is None and field.top is None:
        return value
    return _on_grid(value, column, kind)


def _shown(since: timedelta, clocks: str | None) -> datetime:
    instant = _EPOCH + since
    if clocks is None:
        return instant
    # Beyond the calendar's ends there is no local time to ask for.
    offset = min(max(instant, _MIDDLE[0]), _MIDDLE[1]).astimezone(ZoneInfo(clocks)).utcoffset()
    # Of the day and hour only; a leap of 400 years keeps both.
    years = 400 if instant.year < 5_000 else -400
    return (instant.replace(tzinfo=None, year=instant.year + years)) + (offset or timedelta())


def _on_grid(value: int | float, column: BoundColumn, kind: pa.DataType) -> int | float:
    field = column.field
    form, single = form_of(kind), kind.to_pandas_dtype()
    unit = 10 ** (form.scale or 0)
    # A float is the shortest decimal that is read as it.
    exact = Fraction(value, unit) if isinstance(value, int) else Fraction(Decimal(str(single(value))))
    number = exact
    if field.round is not None:
        step = Fraction(field.round)
        steps, rest = divmod(exact, step)
        if rest * 2 > step or (rest * 2 == step and steps % 2):
            steps += 1
        low, high = map(Fraction, form.limits)
        if not low <= steps * step <= high:
            steps -= 1 if steps > 0 else -1
        number = steps * step
    if field.bottom is not None and number < field.bottom:
        number = Fraction(field.bottom)
    if field.top is not None and number > field.top:
        number = Fraction(field.top)
    if field.round is None and number == exact:
        return value
    if isinstance(value, int):
        return int(number * unit)
    return float(single(number.numerator / number.denominator))
