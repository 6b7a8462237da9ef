"""What ``kanonflow export --to`` writes, an object a word: which flags it takes, and what does it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kanonflow.pipelines.analysis.export_iceberg import TABLE, Lake, export_iceberg
from kanonflow.pipelines.analysis.export_lineage import export_lineage
from kanonflow.pipelines.analysis.export_release import Exported, export_releases
from kanonflow.pipelines.analysis.flat_columns import Flat
from kanonflow.schemas.errors import InputError

_FLAT = {"by": "--by", "hierarchies": "--hierarchy"}
_TEXT = {"neutralize_formulas": "--neutralize-formulas"}
_TABLE = {"catalog": "--catalog", "table": "--table"}
_EVENTS = {"reads": "--reads", "writes": "--writes"}


@dataclass(frozen=True)
class _Way:
    """write: (directories, arguments) to what was written. takes: its flags, by the names of arguments."""

    write: Callable[[Sequence[str], Namespace], Exported]
    takes: Mapping[str, str]


def _one_data_set(directories: Sequence[str], arguments: Namespace) -> Exported:
    return export_releases(
        directories,
        arguments.to,
        arguments.flat,
        arguments.output,
        by=dict(arguments.by),
        hierarchies=dict(arguments.hierarchies),
        neutralize=arguments.neutralize_formulas,
    )


def _table(directories: Sequence[str], arguments: Namespace) -> Exported:
    if arguments.catalog is not None and arguments.output is not None:
        raise InputError(
            "--output: is where tables are without --catalog; the catalog says where its own are"
        )
    folder = Path(arguments.output or Path(directories[0]) / "export.iceberg")
    lake = Lake(folder, arguments.catalog, arguments.table or TABLE)
    by, hierarchies = dict(arguments.by), dict(arguments.hierarchies)
    return export_iceberg(directories, lake, arguments.flat, by=by, hierarchies=hierarchies)


def _events(directories: Sequence[str], arguments: Namespace) -> Exported:
    if arguments.flat != Flat.COLUMNS:
        raise InputError(f"--flat {arguments.flat}: says nothing with --to openlineage, which writes no rows")
    return export_lineage(directories, arguments.output, reads=arguments.reads, writes=arguments.writes)


_WAYS = {
    "parquet": _Way(_one_data_set, _FLAT),
    "csv": _Way(_one_data_set, _FLAT | _TEXT),
    "iceberg": _Way(_table, _FLAT | _TABLE),
    "openlineage": _Way(_events, _EVENTS),
}


def export_to(to: str, directories: Sequence[str], arguments: Namespace) -> Exported:
    """Write the releases of directories. to: one of ``_WAYS``. Raises InputError: a flag is of another."""
    way = _WAYS[to]
    for name, flag in (_FLAT | _TEXT | _TABLE | _EVENTS).items():
        if getattr(arguments, name) and name not in way.takes:
            others = [other for other, each in _WAYS.items() if name in each.takes]
            raise InputError(f"{flag}: says nothing with --to {to}; it is for --to {' and '.join(others)}")
    return way.write(directories, arguments)
