"""``kanonflow export``: releases as one Parquet data set or one CSV file.

    OUT/window=2024-03-01/part-00000.parquet     rows by the last day (UTC) of their window
    OUT.csv                                       one header; null: nothing, empty text: ""

With ``--flat shares`` a row is as many as it meets combinations of the parts of ``--by``, each with its share, so that
any tool that adds up has what ``estimate`` has: SUM(share), SUM(share * amount).

Each is made under another name beside its place and appears whole; what is there already is never replaced.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from kanonflow.pipelines.analysis.flat_columns import MISSING, Flat, flat_table, with_lists
from kanonflow.pipelines.analysis.release_formats import BATCH_ROWS
from kanonflow.pipelines.analysis.released_fields import free_name
from kanonflow.pipelines.analysis.released_files import ReleasedFiles, open_releases
from kanonflow.pipelines.analysis.released_table import SHARE, WINDOW_FIELD, ReleasedTable
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.kinds.forms import form_of

FORMATS = ("parquet", "csv")
SHARES = "shares"
"""How rows are laid flat that are cut into parts."""
HELD_ROWS = 262_144
"""Rows that are held; with more, the day that has the most is written."""
_PARTITIONS = ("window", "window_day", "kanonflow_window")
_DAY_MS = 86_400_000
# What a spreadsheet may take for a formula; and a number with a sign, or a sign alone, which is none.
_FORMULA = r"^[=+\-@\t\r\n]"
_NUMBER = r"^[+-]?([0-9]+([.,][0-9]+)*|[.,][0-9]+)?([eE][+-]?[0-9]+)?%?$"


@dataclass
class Exported:
    """What was read and written. read: directories. files: how many were written, or of what ``unit`` is. already:
    releases that were there before. releases: files. days: (first, last) of windows, ISO; None without
    windows. epochs: of the promise, each once. others: entries beside the releases that were not read. shared: ids that
    stand for two releases.
    formulas: cells of a CSV file that a spreadsheet would run. neutralized: whether ' stands before them. within: rows
    that the parts of fields hold, shares added up; None: rows were not cut."""

    read: tuple[str, ...]
    written: str
    files: int
    releases: int
    rows: int
    days: tuple[str, str] | None
    epochs: tuple[str, ...]
    others: int
    columns: tuple[str, ...] = field(default=())
    shared: tuple[str, ...] = ()
    formulas: int = 0
    neutralized: bool = False
    within: float | None = None
    unit: str = "file"
    already: int | None = None

    def notes(self) -> Iterator[str]:
        """What somebody who uses the data set must know of it."""
        if len(self.epochs) > 1:
            yield (
                f"note: the releases are of {len(self.epochs)} epochs; nothing is promised over several of them"
                " together, and the same person may be in each"
            )
        if self.shared:
            yield (
                f"note: {len(self.shared)} release ids stand for two releases each ({self.shared[0]}), of runs before"
                " ids told runs apart; class_id tells their groups apart, release_id does not"
            )
        if self.formulas:
            yield (
                f"note: {self.formulas:,} cells begin as a formula does (=, +, -, @ or tab)"
                + (
                    ", and have ' before them: programs other than spreadsheets must take it away"
                    if self.neutralized
                    else ", and a spreadsheet would run them; --neutralize-formulas puts ' before them"
                )
            )
        if self.within is not None and self.within < self.rows - 0.5:
            yield (
                f"note: the parts of --by hold {self.within:,.0f} of {self.rows:,} rows; what lies outside of them is"
                " not written"
            )
        if self.others:
            yield f"note: {self.others} entries beside the releases are none, and were not read"

    def render(self) -> str:
        """In a few lines, for a terminal."""
        days = "" if self.days is None else f", windows from {self.days[0]} to {self.days[1]}"
        epochs = "".join(f", epoch {epoch}" for epoch in self.epochs) if len(self.epochs) == 1 else ""
        columns = f", {len(self.columns)} columns" if self.columns else ""
        already = "" if self.already is None else f"; {self.already:,} releases were there before"
        return "\n".join(
            [
                f"read     {', '.join(self.read)}: {self.releases:,} releases that were there,"
                f" {self.rows:,} rows{days}{epochs}",
                f"written  {self.written}: {self.files:,} {self.unit if self.files == 1 else self.unit + 's'}"
                f"{columns}{already}",
            ]
        )

    def to_json(self) -> str:
        """The same as a JSON object."""
        return json.dumps(
            {
                "read": self.read,
                "written": self.written,
                f"{self.unit}s": self.files,
                "releases": self.releases,
                "rows": self.rows,
                "first_day": None if self.days is None else self.days[0],
                "last_day": None if self.days is None else self.days[1],
                "epochs": self.epochs,
                "others": self.others,
                "shared": self.shared,
                "columns": self.columns,
                "formulas": self.formulas,
                "neutralized": self.neutralized,
                "within": self.within,
                "already": self.already,
            },
            indent=1,
        )


def export_releases(
    directories: Sequence[str],
    to: str,
    flat: Flat | str = Flat.COLUMNS,
    output: str | None = None,
    *,
    by: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, str] | None = None,
    neutralize: bool = False,
) -> Exported:
    """Write the releases of one or more directories as one data set.

    to: parquet or csv. flat: ``flat_columns``. output: where; else ``DIR/export.parquet`` (a folder) or
    ``DIR/export.csv`` in the first directory.
    by: with ``flat`` shares the parts of each field, as text (``parts_of_text``). hierarchies: files, by field.
    neutralize: put ' before cells of CSV that a spreadsheet would run.
    Memory: HELD_ROWS and a batch, however many there are; of shares all rows.
    Raises InputError: nothing to read (``open_releases``), something is at ``output`` already, or it cannot be written.
    """
    if to not in FORMATS:
        raise InputError(f"--to {to}: is none of {', '.join(FORMATS)}")
    laid = lay(directories, flat, by or {}, hierarchies or {})
    target = Path(output) if output is not None else Path(directories[0]) / f"export.{to}"
    if os.path.lexists(target):
        raise InputError(f"--output {target}: is there already, and is not replaced; name another place")
    try:
        counted = _write_parquet(laid, target) if to == "parquet" else _write_csv(laid, target, neutralize)
    except OSError as error:
        raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error
    return laid.exported(
        directories, str(target), counted, formulas=counted.formulas, neutralized=neutralize and to == "csv"
    )


@dataclass(frozen=True)
class Laid:
    """Releases, and how their rows are laid flat. by, hierarchies: as of ``export_releases``. lists: whether the
    columns of sets are lists."""

    releases: ReleasedFiles
    flat: Flat | str
    by: Mapping[str, str]
    hierarchies: Mapping[str, str]
    lists: bool = False

    def batches(self, most: int) -> Iterator[tuple[pa.Table, np.ndarray | None, int]]:
        """Flat rows, of each the last day of its window (``_last_days``), and how many rows were read for them."""
        form = self.releases.form
        if not self.by:
            fields = with_lists(form.fields) if self.lists else form.fields
            for batch in self.releases.batches(most):
                yield flat_table(batch, fields, self.flat), _last_days(batch), batch.num_rows
            return
        whole = ReleasedTable(pa.concat_tables(self.releases.batches()), form, self.hierarchies)
        rows = whole.shares({name: parts_of_text(whole, name, text) for name, text in self.by.items()})
        for begin in range(0, rows.num_rows, most):
            batch = rows.slice(begin, most)
            yield batch, _last_days(batch), 0 if begin else len(whole)

    def exported(self, directories: Sequence[str], written: str, counted: Counted, **more: Any) -> Exported:
        """What is said of it in the end. more: members of ``Exported``."""
        return Exported(
            read=tuple(map(str, directories)),
            written=written,
            files=counted.files,
            releases=len(self.releases.files),
            rows=counted.rows,
            days=None if counted.first is None else (_day(counted.first), _day(counted.last)),
            epochs=tuple(sorted({epoch for epoch in self.releases.epochs if epoch is not None})),
            others=self.releases.others,
            columns=counted.columns,
            shared=self.releases.shared,
            within=counted.within if self.by else None,
            **more,
        )

    def labels(self) -> dict[str, str]:
        """What a data set says of itself: k, the policy, and how it was laid flat."""
        form = self.releases.form
        own = {"k": str(form.k), "policy": form.policy, "flat": str(self.flat)}
        parts = {"by": "; ".join("=".join(each) for each in sorted(self.by.items()))} if self.by else {}
        return {f"kanonflow.{name}": text for name, text in (own | parts).items()}

    def each(self) -> Iterator[tuple[Path, Laid]]:
        """The file of each release, and that release alone. Raises InputError: two of them have one id."""
        if self.releases.shared:
            raise InputError(
                f"{self.releases.shared[0]}: is the id of two releases, of runs before ids told runs apart; give their"
                " directories one by one, and each a place of its own"
            )
        for path, epoch in zip(self.releases.files, self.releases.epochs, strict=True):
            yield path, replace(self, releases=replace(self.releases, files=(path,), epochs=(epoch,)))


def lay(
    directories: Sequence[str],
    flat: Flat | str,
    by: Mapping[str, str],
    hierarchies: Mapping[str, str],
    lists: bool = False,
) -> Laid:
    """The releases of directories, to be laid flat. Raises InputError: see ``export_releases``."""
    if (flat == SHARES) != bool(by):
        raise InputError(
            "--flat shares: needs the parts of fields, such as --by born=10y; and --by is for --flat shares alone"
        )
    if hierarchies and not by:
        raise InputError("--hierarchy: is for the parts of --by, and else says nothing; leave it out")
    return Laid(open_releases(directories), flat, by, hierarchies, lists)


def parts_of_text(release: ReleasedTable, name: str, text: str) -> Any:
    """What ``estimate`` takes for the parts of a field: ``each`` or a period, or, with commas between them, edges or
    categories; ``\\N`` is the missing value. Text that is no value of the field's type stays text, which is then
    refused by name."""
    if "," not in text:
        return text
    cells = [None if cell == MISSING else cell for cell in text.split(",")]
    if name == WINDOW_FIELD or form_of(kind := release.form.field(name).value).text:
        return cells
    try:
        return pa.array(cells, pa.string()).cast(kind).to_pylist()
    except pa.ArrowException:
        return cells


@dataclass
class Counted:
    """What was read and laid flat. first, last: days of windows. within: shares added up, of rows that are cut."""

    rows: int = 0
    files: int = 0
    first: int | None = None
    last: int = 0
    columns: tuple[str, ...] = ()
    formulas: int = 0
    cut: bool = False
    within: float = 0.0

    def take(self, flat: pa.Table, days: np.ndarray | None, read: int) -> None:
        self.rows += read
        self.within += float(pc.sum(flat.column(SHARE)).as_py() or 0.0) if self.cut else 0.0
        self.columns = tuple(flat.schema.names)
        if days is not None and days.size:
            least = int(days.min())
            self.first = least if self.first is None else min(self.first, least)
            self.last = max(self.last, int(days.max())) if self.first is not None else 0


def _write_parquet(laid: Laid, target: Path) -> Counted:
    counted = Counted(last=-(10**9), cut=bool(laid.by))
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    labels = {name.encode(): text.encode() for name, text in laid.labels().items()}
    try:
        held: dict[int | None, list[pa.Table]] = {}
        parts: Counter[int | None] = Counter()
        partition = ""

        def write(day: int | None) -> None:
            folder = work if day is None else work / f"{partition}={_day(day)}"
            folder.mkdir(exist_ok=True)
            table = pa.concat_tables(held.pop(day))
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), **labels})
            path = folder / f"part-{parts[day]:05d}.parquet"
            pyarrow.parquet.write_table(table, path, compression="zstd")
            parts[day] += 1
            counted.files += 1

        for rows, days, read in laid.batches(min(BATCH_ROWS, HELD_ROWS)):
            partition = partition or free_name(_PARTITIONS, rows.schema.names)
            counted.take(rows, days, read)
            for day, some in _by_day(rows, days):
                held.setdefault(day, []).append(some)
            while sum(map(_rows, held.values())) > HELD_ROWS:
                write(max(held, key=lambda day: _rows(held[day])))
        for day in list(held):
            write(day)
        work.chmod(0o777 & ~umask())
        # An empty folder that appeared there since is replaced by this; anything else is an error.
        os.rename(work, target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return counted


def _write_csv(laid: Laid, target: Path, neutralize: bool) -> Counted:
    counted = Counted(last=-(10**9), files=1, cut=bool(laid.by))
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            writer = None
            for flat, days, read in laid.batches(BATCH_ROWS):
                rows, formulas = csv_table(flat, neutralize)
                counted.formulas += formulas
                counted.take(rows, days, read)
                writer = writer or pyarrow.csv.CSVWriter(stream, rows.schema)
                writer.write_table(rows)
            if writer is not None:
                writer.close()
        os.chmod(name, 0o666 & ~umask())
        os.link(name, target)
    finally:
        os.unlink(name)
    return counted


def _rows(tables: Sequence[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def umask() -> int:
    """Of this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def csv_table(table: pa.Table, neutralize: bool) -> tuple[pa.Table, int]:
    """As it stands in a CSV file, bytes as base64; and how many cells a spreadsheet would run, which then begin with '
    if asked for."""
    columns: Mapping[str, Any] = dict(zip(table.schema.names, table.columns, strict=True))
    return _without_formulas(
        pa.table({name: _as_text(column) for name, column in columns.items()}), neutralize
    )


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if form_of(column.type).plain_type is not bytes:
        return column
    cells = [None if cell is None else base64.b64encode(cell).decode() for cell in column.to_pylist()]
    return pa.array(cells, pa.string())


def _without_formulas(table: pa.Table, neutralize: bool) -> tuple[pa.Table, int]:
    """How many cells a spreadsheet would run as formulas; and the table, in which these begin with ' if asked for.

    Text that is a number with its sign is none: -5 is what it is.
    """
    found = 0
    for place, column in enumerate(table.columns):
        if not form_of(column.type).text:
            continue
        runs = pc.and_(
            pc.match_substring_regex(column, _FORMULA), pc.invert(pc.match_substring_regex(column, _NUMBER))
        )
        count = int(pc.sum(runs).as_py() or 0)
        found += count
        if count and neutralize:
            mended = pc.if_else(runs, pc.binary_join_element_wise("'", column, ""), column)
            table = table.set_column(place, table.schema.field(place), mended)
    return table, found


def _last_days(batch: pa.Table) -> np.ndarray | None:
    """Days since 1970, UTC, of the last instant of each row's window; None without windows."""
    ends = batch.column("window_end")
    if ends.null_count:
        return None
    return (np.asarray(ends.cast(pa.int64())) - 1) // _DAY_MS


def _by_day(rows: pa.Table, days: np.ndarray | None) -> Iterator[tuple[int | None, pa.Table]]:
    if days is None:
        yield None, rows
        return
    for day in np.unique(days).tolist():
        yield day, rows.filter(pa.array(days == day)) if np.any(days != day) else rows


def _day(day: int) -> str:
    return (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()
