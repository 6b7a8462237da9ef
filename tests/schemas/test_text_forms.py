"""Text in the forms that a policy names, against a reader that goes cell by cell."""

import random
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.formatted_times import as_written, fixed_width
from kanonflow.schemas.local_times import localize
from kanonflow.schemas.text_form import Fold, TextForm, directives_of
from kanonflow.schemas.text_values import cast_text

pytestmark = pytest.mark.thorough

DAYS = pa.date32()
INSTANTS = pa.timestamp("us", tz="UTC")
NAMES = [date(2020, month, 1).strftime("%B") for month in range(1, 13)]
FORMATS = [
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%y%m%d",
    "%Y%m%d",
    "%d-%b-%Y",
    "%d %B %Y",
    "%d.%m.%Y %H:%M",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%m/%d/%Y %I:%M:%S %p",
    "%H:%M %d.%m.%y",
    "%%%Y|%m|%d",
]


def slow(cell: str, form: TextForm) -> datetime | None:
    """What a cell says by a format, read from left to right; local times as UTC. None: nothing."""
    at, found = 0, {}
    assert form.format is not None
    parts = directives_of(form.format)
    for part in parts:
        if not part.letter:
            if not cell.startswith(part.text, at):
                return None
            at += len(part.text)
            continue
        match = {
            "Y": r"[0-9]{4}",
            "f": r"[0-9]{1,9}",
            "b": r"[A-Za-z]{3}",
            "B": r"[A-Za-z]+",
            "p": r"[AaPp][Mm]",
            "z": r"Z|[+-][0-9]{2}(:?[0-9]{2})?",
        }.get(part.letter, r"[0-9]{1,2}" if part.short else r"[0-9]{2}")
        piece = re.compile(match).match(cell, at)
        if piece is None:
            return None
        found[part.letter] = piece[0]
        at = piece.end()
    if at < len(cell):
        return None
    year = int(found["Y"]) if "Y" in found else int(found["y"]) + (1900 if int(found["y"]) >= 69 else 2000)
    short = [name[:3].lower() for name in NAMES]
    try:
        if "b" in found:
            month = short.index(found["b"].lower()) + 1
        elif "B" in found:
            month = [name.lower() for name in NAMES].index(found["B"].lower()) + 1
        else:
            month = int(found["m"])
        hour = int(found.get("H", 0))
        if "I" in found:
            if not 1 <= int(found["I"]) <= 12:
                return None
            hour = int(found["I"]) % 12 + (12 if found["p"].lower() == "pm" else 0)
        fraction = int(found.get("f", "0").ljust(9, "0")[:6])
        read = datetime(
            year, month, int(found["d"]), hour, int(found.get("M", 0)), int(found.get("S", 0)), fraction, UTC
        )
    except ValueError:
        return None
    zone = found.get("z", "Z")
    if zone == "Z":
        return read
    digits = zone[1:].replace(":", "").ljust(4, "0")
    if int(digits[:2]) > 23 or int(digits[2:]) > 59:
        return None
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return read - ahead if zone[0] == "+" else read + ahead


def written(moment: datetime, form: str, chance: random.Random) -> str:
    """A moment as people write it by a format, with zeros in front or without."""
    cells = []
    for part in directives_of(form):
        text = part.text if not part.letter else moment.strftime(f"%{part.letter}")
        text = moment.strftime("%Y").zfill(4) if part.letter == "Y" else text
        text = chance.choice(["Z", "+02", "-0530", "+14:00"]) if part.letter == "z" else text
        cells.append(text.lstrip("0") or "0" if part.short and chance.random() < 0.5 else text)
    return "".join(cells)


def bent(cell: str, chance: random.Random) -> str:
    """A cell with one sign changed, put in or taken away."""
    at = chance.randrange(len(cell))
    sign = chance.choice("0123456789./-: aPZ+")
    return chance.choice(
        [cell[:at] + sign + cell[at + 1 :], cell[:at] + sign + cell[at:], cell[:at] + cell[at + 1 :]]
    )


@pytest.mark.parametrize("form", FORMATS)
def test_formats_read_as_a_slow_reader_does(form: str) -> None:
    """Whole cells and bent ones, as days and as instants, alone and together."""
    chance = random.Random(form)
    cells = []
    for _ in range(1_500):
        moment = datetime(1900, 1, 1) + timedelta(
            seconds=chance.randrange(6 * 10**9), microseconds=chance.randrange(10**6)
        )
        cell = written(moment, form, chance)
        cells.append(bent(cell, chance) if chance.random() < 0.6 else cell)
    text = TextForm(format=form)
    expected = [slow(cell.strip(), text) for cell in cells]
    good = [one is not None for one in expected]
    assert 300 < sum(good) < len(cells)
    values, bad = cast_text(pa.array(cells), INSTANTS, text)
    assert values.to_pylist() == expected
    assert bad.tolist() == [cell.strip() != "" and not one for cell, one in zip(cells, good, strict=True)]
    if "%z" not in form:
        values, bad = cast_text(pa.array(cells), DAYS, text)
        assert values.to_pylist() == [None if one is None else one.date() for one in expected]


def test_days_of_the_calendar_only() -> None:
    """The last of February, the first year and what comes after the last."""
    form = TextForm(format="%d.%m.%Y")
    cells = [
        "29.02.2024",
        "29.02.2023",
        "31.04.2020",
        "0.1.2020",
        "1.13.2020",
        "1.1.0001",
        "31.12.9999",
        "1.1.0000",
    ]
    values, bad = cast_text(pa.array(cells), DAYS, form)
    assert values.to_pylist() == [
        date(2024, 2, 29), None, None, None, None, date(1, 1, 1), date(9999, 12, 31), None,
    ]  # fmt: skip
    assert bad.tolist() == [False, True, True, True, True, False, False, True]


def test_two_digits_of_a_year() -> None:
    """69 to 99 are of the last century, 00 to 68 of this."""
    values, _ = cast_text(pa.array(["690101", "991231", "000101", "681231"]), DAYS, TextForm(format="%y%m%d"))
    assert [value.year for value in values.to_pylist()] == [1969, 1999, 2000, 2068]


def test_whole_numbers_since_1970() -> None:
    """Seconds and milliseconds, with a fraction of zeros or not; nothing beyond the calendar."""
    cells = [
        "0",
        "1577836800",
        "1577836800.0",
        "+5",
        "-1",
        "1.5",
        "x",
        "9" * 15,
        "253402300799",
        "253402300800",
        "1e9",
    ]
    values, bad = cast_text(pa.array(cells), INSTANTS, TextForm(format="epoch_s"))
    found = [None if value is None else int(value.timestamp()) for value in values.to_pylist()]
    assert found == [0, 1577836800, 1577836800, 5, -1, None, None, None, 253402300799, None, None]
    assert bad.tolist() == [one is None for one in found]
    values, bad = cast_text(
        pa.array(["1577836800123", "-1"]), pa.timestamp("ms", tz="UTC"), TextForm(format="epoch_ms")
    )
    assert values.cast(pa.int64()).to_pylist() == [1577836800123, -1]


def test_numbers_in_a_column_of_days() -> None:
    """What a column of whole numbers lost in front comes back where the format's width is known."""
    assert fixed_width("%y%m%d") == 6
    assert fixed_width("%Y%m%d") == 8
    assert fixed_width("%d.%m.%Y") is None
    assert as_written(pa.array([70315, 931231, None, -7]), "%y%m%d").to_pylist() == [
        "070315", "931231", None, "-00007",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("decimal", "thousands", "good", "bad"),
    [
        (",", None, {"1,5": 1.5, " -0,25 ": -0.25, "+3": 3.0, ",5": 0.5, "1e3": 1000.0},
         ["1.5", "1,5,5", "1!5", "1 000"]),
        (",", ".", {"1.234,5": 1234.5, "1234,5": 1234.5, "12.345.678": 12345678.0, "-1.000": -1000.0},
         ["1.23,5", "1234.567", "12.345.67", ".500", "1,234.5"]),
        (".", ",", {"1,234.5": 1234.5, "1,234,567": 1234567.0}, ["1,23", "1,2345", "1.234,5", ",500"]),
        (",", " ", {"1 234,5": 1234.5, "1\u00a0234": 1234.0, "1\u202f234\u202f567,25": 1234567.25}, ["1 2", "1  234"]),
        (".", "'", {"1'234.50": 1234.5}, ["1'2"]),
    ],
)  # fmt: skip
def test_numbers_as_countries_write_them(
    decimal: str, thousands: str | None, good: dict[str, float], bad: list[str]
) -> None:
    """Good cells in every type that holds them; bad ones in none."""
    form = TextForm(decimal=decimal, thousands=thousands)
    for kind in (pa.float64(), pa.decimal128(18, 2)):
        values, faults = cast_text(pa.array([*good, *bad]), kind, form)
        fit = [
            one is None or Decimal(str(one)) == Decimal(str(one)).quantize(Decimal("0.01"))
            for one in good.values()
        ]
        assert all(fit)
        assert [None if value is None else float(value) for value in values.to_pylist()] == [
            *good.values()
        ] + [None] * len(bad)
        assert faults.tolist() == [False] * len(good) + [True] * len(bad)


def test_whole_numbers_with_a_fraction_of_zeros() -> None:
    """Ids that went through a table of floats."""
    values, bad = cast_text(pa.array(["17850.0", "17850.", "17850.5", "1e3", "-2.00"]), pa.int64())
    assert values.to_pylist() == [17850, 17850, None, None, -2]
    assert bad.tolist() == [False, False, True, True, False]
    values, _ = cast_text(pa.array(["17850,0", "1.000,0"]), pa.int64(), TextForm(decimal=",", thousands="."))
    assert values.to_pylist() == [17850, 1000]


def test_words_for_nothing() -> None:
    """With spaces around, in every type; no others."""
    form = TextForm(nulls=("NA", "-"))
    for kind in (pa.string(), pa.float64(), pa.date32(), pa.timestamp("ms", tz="UTC"), pa.bool_()):
        values, bad = cast_text(pa.array(["NA", " - ", "", None]), kind, form)
        assert values.null_count == 4
        assert not bad.any()
    values, _ = cast_text(pa.array(["na", "NULL"]), pa.string(), form)
    assert values.to_pylist() == ["na", "NULL"]


ZONES = ["Europe/Prague", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca"]


@pytest.mark.parametrize("zone", ZONES)
def test_local_times_are_those_of_the_clocks(zone: str) -> None:
    """Every instant's local time leads back to it, unless the clocks show that time twice; and what they never show
    leads nowhere. Beyond 2037 too."""
    chance = random.Random(zone)
    place = ZoneInfo(zone)
    years = [datetime(year, 1, 1, tzinfo=UTC) for year in (1890, 1945, 1996, 2020, 2037, 2045)]
    moments = [year + timedelta(seconds=chance.randrange(366 * 86_400)) for year in years for _ in range(200)]
    moments += [year + timedelta(minutes=15 * n) for year in years[3:4] for n in range(366 * 96)]
    shown = [moment.astimezone(place) for moment in moments]
    local = pa.array([one.replace(tzinfo=None) for one in shown], pa.timestamp("us"))
    twice = np.array([one.replace(fold=0).utcoffset() != one.replace(fold=1).utcoffset() for one in shown])
    for fold in (None, Fold.FIRST, Fold.SECOND):
        found, unclear = localize(local, zone, fold)
        assert unclear.tolist() == [bool(each) and fold is None for each in twice]
        for one, moment, instant in zip(shown, moments, found.to_pylist(), strict=True):
            if instant is not None and (fold is None or one.fold == (fold is Fold.SECOND)):
                assert instant == moment


def test_what_the_clocks_skip() -> None:
    """Without a fold it is no time; with one it is read by the offset before or after."""
    skipped = pa.array([datetime(2020, 3, 29, 2, 30), datetime(2020, 3, 29, 3, 0)], pa.timestamp("ms"))
    found, unclear = localize(skipped, "Europe/Prague", None)
    assert unclear.tolist() == [True, False]
    assert found.to_pylist() == [None, datetime(2020, 3, 29, 1, tzinfo=UTC)]
    for fold, hour in ((Fold.FIRST, 1), (Fold.SECOND, 0)):
        found, unclear = localize(skipped, "Europe/Prague", fold)
        assert not unclear.any()
        assert found[0].as_py() == datetime(2020, 3, 29, hour, 30, tzinfo=UTC)


def test_a_zone_of_its_own_wins() -> None:
    """A cell that says its zone is not local."""
    form = TextForm(timezone="Europe/Prague")
    cells = [
        "2020-07-01 12:00",
        "2020-07-01 12:00Z",
        "2020-07-01",
        "2020-10-25 02:30",
        "2020-10-25T02:30+01:00",
    ]
    values, bad = cast_text(pa.array(cells), pa.timestamp("ms", tz="UTC"), form)
    assert values.to_pylist() == [
        datetime(2020, 7, 1, 10, tzinfo=UTC),
        datetime(2020, 7, 1, 12, tzinfo=UTC),
        datetime(2020, 6, 30, 22, tzinfo=UTC),
        None,
        datetime(2020, 10, 25, 1, 30, tzinfo=UTC),
    ]
    assert bad.tolist() == [False, False, False, True, False]


def test_zones_at_the_ends_of_the_calendar() -> None:
    """No error, and nothing that is not there."""
    form = TextForm(format="%Y-%m-%d %H:%M", timezone="Pacific/Kiritimati")
    cells = pa.array(["0001-01-01 00:00", "9999-12-31 23:59", None])
    values, bad = cast_text(cells, pa.timestamp("ms", tz="UTC"), form)
    assert not bad.any()
    assert values.null_count == 1
