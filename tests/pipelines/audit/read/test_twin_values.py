"""Generated cells, read by what the audit and the run read by, and by the second reader."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.text_form import Fold, TextForm
from tests.twin_values import TwinBook, plain_cells

MS, US = (pa.timestamp(unit, tz="UTC") for unit in ("ms", "us"))
NUMBERS = (
    "7",
    "-12",
    "+3.50",
    "1e3",
    ".5",
    "5.",
    "1.234,5",
    "1 234",
    "00017.0",
    "9999999999999999999",
    "1e-400",
)
TIMES = (
    *("2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "2020-10-25 02:30", "2020-03-29 02:30:00"),
    *(
        "1969-12-31T23:59:59.9999999Z",
        "2024-01-01 05:00+05:30",
        "31.12.1999",
        "1.2.2020 3:04",
        "12/31/99 11:59 PM",
    ),
    *("20 Feb 2020", "1582934400", "-1", "1582934400000"),
)
FORMS = {
    "plain": (
        TextForm(),
        (pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.bool_()),
    ),
    "German": (
        TextForm(",", ".", ("n/a", " - ")),
        (pa.int64(), pa.float64(), pa.decimal128(20, 3), pa.string()),
    ),
    "grouped by blanks": (TextForm(".", " "), (pa.int64(), pa.float64())),
    "days and instants": (TextForm(), (pa.date32(), MS, US)),
    "local": (TextForm(timezone="Europe/Prague"), (MS, US)),
    "the second of two": (TextForm(timezone="Europe/Prague", fold=Fold.SECOND), (MS,)),
    "days of months": (TextForm(format="%d.%m.%Y"), (pa.date32(), MS)),
    "one digit": (
        TextForm(format="%d.%m.%Y %H:%M", timezone="America/New_York", fold=Fold.FIRST),
        (MS, US),
    ),
    "twelve hours": (TextForm(format="%m/%d/%y %I:%M %p"), (MS,)),
    "names": (TextForm(format="%d %b %Y"), (pa.date32(),)),
    "since 1970": (TextForm(format="epoch_s"), (MS, US)),
}
ALPHABET = list("0123456789+-.,eE:TZ /APMapm\u00a0_x")


def cells(seed: int, count: int = 1_500) -> list[str]:
    """Cells as they come, with characters changed, taken away and put in, and spaces around."""
    random = np.random.default_rng(seed)
    found = [*NUMBERS, *TIMES, "", " ", "true", "FALSE", "n/a", "-", "nan", "inf", "0x1f"]
    base = list(found)
    while len(found) < count:
        cell = list(base[random.integers(len(base))])
        for _ in range(random.integers(1, 4)):
            at, sign = int(random.integers(len(cell) + 1)), ALPHABET[random.integers(len(ALPHABET))]
            match random.integers(4):
                case 0:
                    cell[at : at + 1] = [sign]
                case 1:
                    cell.insert(at, sign)
                case 2:
                    del cell[at : at + 1]
                case 3 if at < len(cell) and cell[at].isdigit():
                    cell[at] = str(random.integers(10))
        found.append("".join(cell))
    return found


def values(book: CodeBook | TwinBook, codes: np.ndarray) -> list[Any]:
    """The value of each code, None: null; of -0.0 and 0.0 which it is."""
    told = [None if code < 0 else book.values[code] for code in codes.tolist()]
    return [str(value) if value == 0.0 and isinstance(value, float) else value for value in told]


def column(kind: pa.DataType, form: TextForm) -> BoundColumn:
    """An insensitive field that comes as text."""
    return BoundColumn(Field("x", Role.INSENSITIVE), kind, from_text=True, form=form)


@pytest.mark.parametrize("name", FORMS)
def test_generated_cells_are_the_same_to_both_readers(name: str) -> None:
    """Of every type that the form is for: the same value, null or unreadable cell, whichever cells stand beside it."""
    form, kinds = FORMS[name]
    for seed, kind in enumerate(kinds):
        texts = cells(seed)
        book, twin = CodeBook(column(kind, form)), TwinBook(column(kind, form))
        read = values(book, book.codes_of_texts(texts))
        for text, one, other in zip(
            texts, read, values(twin, twin.codes_of_texts(texts, len(texts))), strict=True
        ):
            assert one == other, (kind, text)
        good = value_faults(book).tolist().count(False)
        assert good >= 2, (kind, good)


TYPED: dict[str, tuple[BoundColumn, pa.DataType]] = {
    "local": (
        BoundColumn(
            Field("x", Role.INSENSITIVE), MS, from_text=False, form=TextForm(timezone="Europe/Prague")
        ),
        pa.timestamp("us"),
    ),
    "in UTC": (BoundColumn(Field("x", Role.INSENSITIVE), MS, from_text=False), pa.timestamp("ns", tz="UTC")),
    "seconds without a zone": (
        BoundColumn(Field("x", Role.INSENSITIVE), US, from_text=False),
        pa.timestamp("s"),
    ),
}


@pytest.mark.parametrize("name", TYPED)
def test_generated_instants_are_the_same_to_both_readers(name: str) -> None:
    """Before and after 1970, around the hours in which clocks change, and beyond the calendar."""
    own, kind = TYPED[name]
    random = np.random.default_rng(7)
    second = {"s": 1, "us": 10**6, "ns": 10**9}[kind.unit]
    near = [int(dt.datetime(2020, *day, tzinfo=dt.UTC).timestamp()) for day in ((3, 29), (10, 25))]
    ticks = [
        int(each) * second + int(random.integers(second)) for each in random.integers(-(2**33), 2**33, 500)
    ]
    ticks += [(each + int(step)) * second for each in near for step in random.integers(0, 20_000, 300)]
    if second == 1:
        ticks += [-(2**60), 2**60, -62_135_596_801, 253_402_300_800]
    array = pa.array([*ticks, None], pa.int64()).cast(kind)
    book, twin = CodeBook(own), TwinBook(own)
    other = twin.codes_of_typed(plain_cells(array, own.arrow_type), len(array))
    assert values(book, book.codes_of_column(array)) == values(twin, other)
