"""Local times as instants: what the clocks of a place showed, and when that was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.text_form import Fold

FIRST_SECOND = -62_135_596_800
"""0001-01-01T00:00:00 UTC."""
LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59 UTC."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime(1970, 1, 1)
_HOUR, _DAY = 3_600, 86_400
_BOTH = (0, 1)


def localize(local: pa.Array, zone: str, fold: Fold | None) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Local times as instants, and a mask (n,) of those that are none.

    local: timestamps without a zone, (n,), null where there is none.     zone: a name that the time zone database has.

        instant = local - offset(zone, local, fold)

    A time that exists twice or not at all (the clocks went back, or forward) has two offsets, and is none without a
    ``fold``: ``first`` takes the offset that holds before the clocks change, ``second`` that after. What lies beyond
    the calendar is handed on as if it were UTC: whoever reads instants refuses it. The result has the unit of ``local``
    and the zone UTC.

    Offsets are Python's: Arrow's own know no summer time from 2038 on. O(n), and O(1) in Python for each hour that
    occurs, and for each time in an hour in which the clocks change.
    """
    nulls = np.asarray(local.is_null())
    ticks = np.asarray(local.cast(pa.int64()).fill_null(0))
    per_second = _PER_SECOND[local.type.unit]
    seconds = ticks // per_second
    within = ~nulls & (seconds >= FIRST_SECOND) & (seconds <= LAST_SECOND)
    hours, of = np.unique(np.where(within, seconds // _HOUR, 0), return_inverse=True)
    place = ZoneInfo(zone)
    by_hour = np.array([_offsets_of_hour(int(hour), place) for hour in hours], np.int64).reshape(-1, 2)
    offsets = by_hour[of]
    for n in np.flatnonzero(within & (offsets[:, 0] == _CHANGES)):
        offsets[n] = [_offset(int(seconds[n]), place, each) for each in _BOTH]
    offset = offsets[:, 1 if fold is Fold.SECOND else 0]
    unclear = within & (offsets[:, 0] != offsets[:, 1]) & (fold is None)
    instants = np.where(within, ticks - offset * per_second, ticks)
    kind = pa.timestamp(local.type.unit, tz="UTC")
    return pa.array(instants, pa.int64(), mask=nulls | unclear).cast(kind), unclear


_CHANGES = 1 << 62
"""In the place of offsets: the hour has several."""


def _offsets_of_hour(hour: int, place: ZoneInfo) -> tuple[int, int]:
    """Offsets in seconds of all times in an hour, by fold; _CHANGES where they are not the same for all of it."""
    first = [_offset(hour * _HOUR, place, fold) for fold in _BOTH]
    last = [_offset(hour * _HOUR + _HOUR - 1, place, fold) for fold in _BOTH]
    return (first[0], first[1]) if first == last and first[0] == first[1] else (_CHANGES, _CHANGES)


def _offset(second: int, place: ZoneInfo, fold: int) -> int:
    """What a place's clocks are ahead of UTC, in seconds. second: since 1970, local."""
    local = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=place, fold=fold)
    ahead = local.utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())


def shown_seconds(instants: pa.Array, zone: str | None) -> NDArray[np.int64]:
    """What a place's clocks show at instants, int64 (n,): seconds since 1970 as if the place were UTC, of nulls 0.

    instants: timestamps in UTC, (n,). zone: None, UTC. Within a day of the calendar's ends the offset is that of a day
    further in. O(n), and O(1) in Python for each hour that occurs, and for each time in an hour in which clocks change.
    """
    ticks = np.asarray(instants.cast(pa.int64()).fill_null(0))
    seconds = ticks // _PER_SECOND[instants.type.unit]
    if zone is None:
        return seconds
    place = ZoneInfo(zone)
    inner = np.clip(seconds, FIRST_SECOND + _DAY, LAST_SECOND - _DAY)
    hours, of = np.unique(inner // _HOUR, return_inverse=True)
    first, last = (
        np.array([_ahead(int(hour) * _HOUR + end, place) for hour in hours], np.int64)
        for end in (0, _HOUR - 1)
    )
    offsets = first[of]
    for n in np.flatnonzero((first != last)[of]):
        offsets[n] = _ahead(int(inner[n]), place)
    return seconds + offsets


def _ahead(second: int, place: ZoneInfo) -> int:
    """What a place's clocks are ahead of UTC at an instant, in seconds. second: since 1970."""
    ahead = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC).astimezone(place).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())
