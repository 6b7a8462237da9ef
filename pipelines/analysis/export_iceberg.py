"""``kanonflow export --to iceberg``: releases as snapshots of an Apache Iceberg table, by pyiceberg.

Protocol. Each release is one transaction: its rows are appended as one snapshot, whose summary names the release, and
the table's property ``kanonflow.release.ID`` becomes a digest of the release's file. The transaction holds only if no
snapshot was made since the table was read. So at any instant the property says whether the rows of a release are, or
were, in the table: after a crash, beside another export, and after snapshots have expired. A release that has its
property is not added again.

pyiceberg by itself repeats a transaction that met another one without looking at what the other has done. Here it must
not: the table is read again first, and a release that the other one has added is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.analysis.export_release import Counted, Exported, lay
from kanonflow.pipelines.analysis.flat_columns import Flat
from kanonflow.pipelines.analysis.release_formats import BATCH_ROWS
from kanonflow.schemas.errors import InputError

TABLE = "kanonflow.releases"
RELEASE = "kanonflow.release."
"""Before the id of a release that the table has, or had."""
TRIES = 20
"""How often a release is tried while others change the table."""
_RETRIES = "commit.retry.num-retries"
_SAME = ("kanonflow.k", "kanonflow.flat", "kanonflow.by")
"""What all releases of a table have in common, beside its columns."""


@dataclass(frozen=True)
class Lake:
    """Where a table is. catalog: a name of pyiceberg's own configuration; None: SQLite and files in ``folder``.
    table: with its namespace, a dot between them."""

    folder: Path
    catalog: str | None = None
    table: str = TABLE

    @property
    def name(self) -> str:
        """As a message has it."""
        return f"{self.catalog or self.folder}: {self.table}"

    def open(self) -> Any:
        """The catalog, as pyiceberg has it. Raises InputError: the extra is missing, the table's name has no
        namespace, or there is no such catalog."""
        try:
            from pyiceberg.catalog import list_catalogs, load_catalog
        except ImportError:
            raise InputError(
                "--to iceberg: needs the extra: pip install 'kanonflow[iceberg]'; a catalog may need more, as in"
                " pip install 'pyiceberg[glue]'"
            ) from None
        if len(parts := self.table.split(".")) < 2 or not all(parts):
            raise InputError(f"--table {self.table}: needs a namespace, as in {TABLE}")
        if self.catalog is not None:
            if self.catalog not in list_catalogs():
                raise InputError(
                    f"--catalog {self.catalog}: pyiceberg's configuration has none of this name; write it into"
                    " ~/.pyiceberg.yaml, or variables such as PYICEBERG_CATALOG__NAME__URI"
                )
            return load_catalog(self.catalog)
        folder = self.folder.absolute()
        folder.mkdir(exist_ok=True)
        files = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        return load_catalog("kanonflow", type="sql", **files)


def export_iceberg(
    directories: Sequence[str],
    lake: Lake,
    flat: Flat | str = Flat.COLUMNS,
    *,
    by: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, str] | None = None,
) -> Exported:
    """Add what the table does not have yet of the releases, one snapshot each, in the order of their ids.

    flat: as ``export_releases`` takes it; as columns, a set is a list. by, hierarchies: the same; each release is cut
    by its own boxes, so that what is there does not change with what comes later.
    Memory: O(rows of the largest release).
    Raises InputError: nothing to read, the extra or the catalog is missing, the table is of another form, has another
    release of one of the ids, or is changed by others each time.
    """
    laid = lay(directories, flat, by or {}, hierarchies or {}, lists=flat == Flat.COLUMNS)
    counted, already = Counted(last=-(10**9), cut=bool(by)), 0
    with _in_words(lake):
        table = _Table(lake, lake.open(), laid.labels())
        for path, release in laid.each():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
            if table.has(path, digest):
                already += 1
                continue
            parts = list(release.batches(BATCH_ROWS))
            if not parts:  # all of its rows are outside of the parts of --by
                continue
            rows = pa.concat_tables(part for part, _, _ in parts)
            if not table.add(path, digest, rows, release.releases.epochs[0]):
                already += 1
                continue
            for part in parts:
                counted.take(*part)
            counted.files += 1
    return laid.exported(directories, lake.name, counted, unit="snapshot", already=already)


class _Table:
    """A table that may not be there yet. labels: its properties."""

    def __init__(self, lake: Lake, catalog: Any, labels: Mapping[str, str]) -> None:
        self._lake, self._catalog, self._labels = lake, catalog, labels
        self._table: Any = catalog.load_table(lake.table) if catalog.table_exists(lake.table) else None
        self._check()

    def has(self, path: Path, digest: str) -> bool:
        """Whether the release is there. Raises InputError: another one of its id is."""
        there = None if self._table is None else self._table.properties.get(RELEASE + path.stem)
        if there not in (None, digest):
            raise InputError(
                f"{path}: {self._lake.name} has another release of this id; give this run a table of its own"
            )
        return there is not None

    def add(self, path: Path, digest: str, rows: pa.Table, epoch: str | None) -> bool:
        """Append the rows of a release; False: somebody else did so meanwhile."""
        from pyiceberg.exceptions import CommitFailedException

        if self._table is None:
            self._make(rows.schema)
        self._fits(rows.schema)
        summary = {**self._labels, "kanonflow.release": path.stem}
        if epoch is not None:
            summary["kanonflow.epoch"] = epoch
        for _ in range(TRIES):
            if self.has(path, digest):
                return False
            # Of this copy alone, and not written: see the head of this file.
            once = {**self._table.properties, _RETRIES: "0"}
            self._table.metadata = self._table.metadata.model_copy(update={"properties": once})
            try:
                with self._table.transaction() as transaction:
                    transaction.append(rows, snapshot_properties=summary)
                    transaction.set_properties({RELEASE + path.stem: digest})
            except CommitFailedException:
                self._table = self._catalog.load_table(self._lake.table)
                self._check()
                self._fits(rows.schema)
            else:
                return True
        raise InputError(f"{self._lake.name}: is changed by others each time; run the command again")

    def _make(self, columns: pa.Schema) -> None:
        namespace = self._lake.table.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        self._table = self._catalog.create_table_if_not_exists(
            self._lake.table, schema=columns, properties=dict(self._labels)
        )
        self._check()

    def _check(self) -> None:
        """Raises InputError: the table holds releases of another k, or laid flat in another way."""
        if self._table is None:
            return
        there = self._table.properties
        for name in _SAME:
            ours, theirs = self._labels.get(name, "none"), there.get(name, "none")
            if _SAME[0] in there and ours != theirs:
                raise InputError(
                    f"{self._lake.name}: is of another form ({name.rpartition('.')[2]} is {theirs}, not {ours});"
                    " name another --table"
                )

    def _fits(self, columns: pa.Schema) -> None:
        """Raises InputError: the table's columns are others."""
        from pyiceberg.io.pyarrow import pyarrow_to_schema

        numbered = pa.schema([_numbered(place, each) for place, each in enumerate(columns, start=1)])
        ours = {each.name: str(each.field_type) for each in pyarrow_to_schema(numbered).fields}
        theirs = {each.name: str(each.field_type) for each in self._table.schema().fields}
        wrong = [
            f"{name}: {theirs.get(name, 'not there')}, not {ours.get(name, 'there')}"
            for name in {**ours, **theirs}
            if ours.get(name) != theirs.get(name)
        ]
        if wrong:
            raise InputError(
                f"{self._lake.name}: has other columns ({'; '.join(wrong)}); name another --table"
            )


def _numbered(place: int, column: pa.Field) -> pa.Field:
    """With the ids that pyiceberg wants in order to say which type of its own a column is."""
    kind = column.type
    if kind.num_fields:
        inner = kind.field(0).with_metadata({"PARQUET:field_id": str(-place)})
        kind = pa.list_(inner)
    return pa.field(column.name, kind, metadata={"PARQUET:field_id": str(place)})


@contextmanager
def _in_words(lake: Lake) -> Iterator[None]:
    """What a catalog, its database or its store trips over, as an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of whatever library the catalog is made of
        why = str(error).partition("\n")[0] if type(error).__module__.startswith("pyiceberg") else ""
        raise InputError(
            f"{lake.name}: {type(error).__name__}{': ' if why else ''}{why}; what is in the table stays, and the same"
            " command adds the rest"
        ) from error
