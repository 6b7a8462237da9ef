"""The flags of ``kanonflow export``."""

from __future__ import annotations

from typing import Any

from kanonflow.pipelines.options.json_flag import add_json


def add_export(commands: Any, exit_codes: str) -> None:
    """Add the command to the parser's."""
    export = commands.add_parser(
        "export",
        allow_abbrev=False,
        help="write releases as one Parquet data set or CSV file",
        description="Writes the releases that are in DIR now with one value a cell, for polars, DuckDB, pandas, Spark"
        " and others (docs/using-releases.md). Reads nothing but DIR/release, and replaces nothing.",
        epilog=exit_codes,
    )
    export.add_argument(
        "directories",
        nargs="+",
        metavar="DIR",
        help="the --output of a run, finished or not; several of one policy that continue each other",
    )
    export.add_argument(
        "--to",
        required=True,
        choices=("parquet", "csv"),
        help="parquet: a folder, with a folder for each day; csv: one file",
    )
    export.add_argument(
        "--flat",
        choices=("columns", "label", "mid"),
        default="columns",
        help="a range as columns _min, _max, _mid and _nulls, as one text such as [20, 30], or as its middle alone"
        " (default: %(default)s)",
    )
    export.add_argument(
        "--neutralize-formulas",
        action="store_true",
        help="in CSV, put ' before text that a spreadsheet would run (=, +, -, @, tab); numbers stay as they are",
    )
    export.add_argument(
        "--output", metavar="PATH", help="default: export.parquet or export.csv in the first DIR"
    )
    add_json(export)
