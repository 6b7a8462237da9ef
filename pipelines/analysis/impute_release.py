"""``kanonflow impute``: imputed tables of releases as files, for programs other than Python.

    OUT/imputed/imputed-1.parquet ... imputed-5.parquet, or .csv

The folder is made under another name beside its place and appears whole; what is there already is never replaced.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from kanonflow.pipelines.analysis.export_release import csv_table, umask
from kanonflow.pipelines.analysis.impute import labels_that_stay
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.schemas.errors import InputError

INVENTED = (
    "imputed rows are invented: they are no people and no release, nothing may be joined to them or looked up in them,"
    " and none of them is told from one alone; use all tables, and combine what they give"
)
IMPUTED_KEY = b"kanonflow.imputed"


@dataclass(frozen=True)
class Imputed:
    """What was read and written. read: directories. tables, rows: how many, and rows of each. outcome: that they are
    weighed by. unresolved: fields whose labels stay labels. formulas: cells of CSV that a spreadsheet would run."""

    read: tuple[str, ...]
    written: str
    tables: int
    rows: int
    columns: tuple[str, ...]
    outcome: str | None
    seed: int
    unresolved: tuple[str, ...] = ()
    formulas: int = 0
    neutralized: bool = False

    def notes(self) -> Iterator[str]:
        """What somebody who uses the tables must know."""
        yield f"note: {INVENTED}"
        if self.outcome is None:
            yield (
                "note: without --outcome a slope of a model on these tables is drawn towards 0; name the column that"
                " the model is about"
            )
        if self.unresolved:
            yield f"note: labels stay as they were released: {', '.join(self.unresolved)}"
        if self.formulas and not self.neutralized:
            yield (
                f"note: {self.formulas:,} cells begin as a formula does, and a spreadsheet would run them;"
                " --neutralize-formulas puts ' before them"
            )

    def render(self) -> str:
        """In a few lines, for a terminal."""
        by = "" if self.outcome is None else f", weighed by {self.outcome}"
        return (
            f"read     {', '.join(self.read)}: {self.rows:,} rows\n"
            f"written  {self.written}: {self.tables} imputed tables of"
            f" {len(self.columns)} columns{by}, seed {self.seed}"
        )

    def to_json(self) -> str:
        """The same as a JSON object."""
        return json.dumps(asdict(self) | {"invented": INVENTED}, indent=1)


def impute_releases(
    directories: Sequence[str],
    to: str,
    m: int,
    *,
    seed: int,
    outcome: str | None = None,
    output: str | None = None,
    hierarchies: Mapping[str, str] | None = None,
    neutralize: bool = False,
) -> Imputed:
    """Write m imputed tables (``impute``) of releases that are in these directories now.

    to: parquet or csv. output: the folder, else ``DIR/imputed`` in the first directory. hierarchies: files, by
    published name. neutralize: put ' before cells of CSV that a spreadsheet would run. Each Parquet file says in its
    metadata that it is invented.
    Memory: the release, and m tables. Raises InputError: nothing to read, m or outcome is none, something is at
    ``output`` already, or it cannot be written.
    """
    target = Path(output) if output is not None else Path(directories[0]) / "imputed"
    if os.path.lexists(target):
        raise InputError(f"--output {target}: is there already, and is not replaced; name another place")
    release = read_release(*directories, hierarchies=hierarchies)
    tables = release.impute(m, outcome=outcome, seed=seed)
    formulas = 0
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            for number, table in enumerate(tables, start=1):
                formulas += _WRITERS[to](work / f"imputed-{number}.{to}", table, number, m, neutralize)
            work.chmod(0o777 & ~umask())
            # An empty folder that appeared there since is replaced by this; anything else is an error.
            os.rename(work, target)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error
    return Imputed(
        read=tuple(map(str, directories)),
        written=str(target),
        tables=m,
        rows=len(release),
        columns=tuple(tables[0].schema.names),
        outcome=outcome,
        seed=seed,
        unresolved=labels_that_stay(release),
        formulas=formulas,
        neutralized=neutralize,
    )


def _parquet(path: Path, table: pa.Table, number: int, m: int, neutralize: bool) -> int:
    words = {IMPUTED_KEY: f"{number} of {m}; {INVENTED}".encode()}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **words})
    pyarrow.parquet.write_table(table, path, compression="zstd")
    return 0


def _csv(path: Path, table: pa.Table, number: int, m: int, neutralize: bool) -> int:
    rows, formulas = csv_table(table, neutralize)
    pyarrow.csv.write_csv(rows, path)
    return formulas


_WRITERS = {"parquet": _parquet, "csv": _csv}
