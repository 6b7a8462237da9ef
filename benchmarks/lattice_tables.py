"""Tables with hierarchies for the lattice benchmarks: Cargo 2000, a made-up tax table, Adult, windows of Sparkov.

Cargo 2000 (UCI 382): 3,942 transport legs, 97 whole numbers, 0 where a leg does not exist; read as it is. Its only
generalization is by ranges (S1, 4.1); S1 prints widths only for an age (table 4: 5, 10, 50, 100). Here they go on like
that, 5, 10, 50, ..., 50,000, as far as an attribute's values reach, and then everything: 4 to 11 levels.

The tax table stands in for S1's second data set, which is not public: 1,600 rows and 47 attributes of its four kinds
(dates, numbers, strings, places), seeded; 400 households of files give rows that resemble each other.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import DataSet, Feed
from kanonflow.schemas.hierarchy import ROOT, Hierarchy
from kanonflow.schemas.hierarchy_builders import date_hierarchy, ranges_of_widths, star_hierarchy
from kanonflow.schemas.hierarchy_file import parse_hierarchy, read_hierarchy
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable

CARGO = DataSet("cargo2000", "cargo2000/c2k_data_comma.csv", None)
TAX_ROWS = 1_600
TAX_ATTRIBUTES = 47
WIDTHS = (5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000)
PLACES = {
    "Noord Brabant": ("Den Bosch", "Breda", "Tilburg", "Eindhoven"),
    "Zeeland": ("Middelburg", "Goes", "Vlissingen"),
    "Utrecht (province)": ("Utrecht", "Amersfoort"),
    "Zuid Holland": ("Den Haag", "Rotterdam", "Delft", "Leiden", "Gouda"),
    "Limburg": ("Maastricht", "Venlo"),
}


def lattice_of(
    columns: Sequence[tuple[Hierarchy, Sequence[str]]], individuals: NDArray[np.int64] | None = None
) -> Lattice:
    """A lattice of columns of text with their hierarchies; every value needs a leaf."""
    tables, values = [], []
    for hierarchy, texts in columns:
        codes = hierarchy.leaf_codes(pa.array(texts, pa.string()))
        if codes.size and codes.min() < 0:
            raise ValueError("a column has values without a leaf")
        tables.append(LevelTable(hierarchy.codes))
        values.append(codes)
    return Lattice(tuple(tables), np.stack(values, axis=1).astype(np.int32), individuals=individuals)


def number_hierarchy(values: NDArray[np.int64], widths: Sequence[int] = WIDTHS) -> Hierarchy:
    """Ranges as wide as the values reach."""
    reach = int(np.abs(values).max(initial=0))
    return ranges_of_widths(set(values.tolist()), [width for width in widths if width <= reach])


def cargo_lattice(path: Path, attributes: int, widths: Sequence[int] = WIDTHS) -> Lattice:
    """The first attributes of Cargo 2000."""
    table = np.loadtxt(path, dtype=np.int64, delimiter=",", skiprows=1)[:, :attributes]
    return lattice_of(
        [(number_hierarchy(column, widths), [str(value) for value in column]) for column in table.T]
    )


def tax_lattice(attributes: int = TAX_ATTRIBUTES, rows: int = TAX_ROWS, seed: int = 47) -> Lattice:
    """The first attributes of the made-up tax table; kinds alternate number, date, number, string, place."""
    generator = np.random.default_rng(seed)
    household = generator.integers(0, rows // 4, size=rows)
    columns: list[tuple[Hierarchy, Sequence[str]]] = []
    for attribute in range(attributes):
        kind = ("number", "date", "number", "string", "place")[attribute % 5]
        base = generator.lognormal(2.0, 1.2, size=rows // 4)[household]
        noise = generator.lognormal(0.0, 0.3, size=rows)
        level = base * noise
        if kind == "number":
            amounts = (level * 100).astype(np.int64) // 5 * 5
            columns.append((number_hierarchy(amounts), [str(amount) for amount in amounts]))
        elif kind == "date":
            days = [date(2015, 1, 1) + timedelta(int(each * 40) % 2000) for each in level]
            hierarchy = date_hierarchy(days, ("day", "month", "year"))
            columns.append((hierarchy, [day.isoformat() for day in days]))
        elif kind == "string":
            codes = [f"NL{int(each * 7) % 900:03d}" for each in base]
            columns.append((star_hierarchy(codes), codes))
        else:
            columns.append(_places(level))
    return lattice_of(columns)


def _places(level: NDArray[np.float64]) -> tuple[Hierarchy, Sequence[str]]:
    lines = [f"{city};{province};*" for province, cities in PLACES.items() for city in cities]
    hierarchy = parse_hierarchy("\n".join(lines))
    cities = hierarchy.leaves
    return hierarchy, [cities[int(each) % len(cities)] for each in level]


def adult_lattice(path: Path, rows: int | None = None) -> Lattice:
    """Adult with the hierarchies of ARX that stand beside it, all but salary-class."""
    with path.open(encoding="utf-8", newline="") as source:
        header, *records = csv.reader(source, delimiter=";")
    records = records[:rows]
    folder = path.parent / "hierarchies"
    return lattice_of(
        [
            (read_hierarchy(folder / f"adult_hierarchy_{name}.csv"), [record[place] for record in records])
            for place, name in enumerate(header)
            if name != "salary-class"
        ]
    )


def sparkov_lattices(feed: Feed) -> list[Lattice]:
    """One lattice a window over the quasi-identifiers of the example policy, individuals the card holders.

    Birth dates by month, quarter, year and decade; latitude and longitude by 1, 5, 10 and 50 degrees; city population
    by 1,000 to 1,000,000; gender and job as they are or not at all. Hierarchies are those of all windows' values, so
    that a node means the same in every window.
    """
    rows = pa.concat_tables([window.rows for window in feed.windows])
    degrees, people = (1, 5, 10, 50), (1_000, 10_000, 100_000, 1_000_000)
    hierarchies = {
        "dob": date_hierarchy(rows.column("dob").unique().to_pylist()),
        "gender": _value_or_nothing(rows, "gender"),
        "lat": ranges_of_widths(_texts(rows, "lat").unique().to_pylist(), degrees),
        "long": ranges_of_widths(_texts(rows, "long").unique().to_pylist(), degrees),
        "city_pop": ranges_of_widths(_texts(rows, "city_pop").unique().to_pylist(), people),
        "job": _value_or_nothing(rows, "job"),
    }
    holders = np.unique(_texts(rows, "cc_num").to_numpy(zero_copy_only=False), return_inverse=True)[1]
    found, begin = [], 0
    for window in feed.windows:
        until = begin + window.rows.num_rows
        columns = [
            (hierarchy, _texts(window.rows, name).to_pylist()) for name, hierarchy in hierarchies.items()
        ]
        found.append(lattice_of(columns, holders[begin:until].astype(np.int64)))
        begin = until
    return found


def _texts(rows: pa.Table, name: str) -> pa.StringArray:
    return render_text(rows.column(name))


def _value_or_nothing(rows: pa.Table, name: str) -> Hierarchy:
    return Hierarchy(tuple((value, ROOT) for value in sorted(_texts(rows, name).unique().to_pylist())))
