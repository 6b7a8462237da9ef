"""The files of releases, read in batches. Nothing but ``release/`` is opened: what is read here is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.analysis.release_formats import BATCH_ROWS, damaged, reader_of
from kanonflow.pipelines.analysis.released_fields import ReleaseForm, release_form
from kanonflow.schemas.avro_schema import PROPERTY
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.release_format import SUFFIXES


@dataclass(frozen=True)
class ReleasedFiles:
    """Release files of one form. epochs: that each file names, None where it names none. others: entries of the folders
    that are no releases, and are not read. shared: ids that stand for two releases, as nights that continued each other
    could come to before a release's id had its run's place in the chain."""

    files: tuple[Path, ...]
    form: ReleaseForm
    epochs: tuple[str | None, ...]
    others: int
    shared: tuple[str, ...] = ()

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """The rows, file by file, in tables of about ``rows`` rows. Memory: O(rows).

        Raises InputError, naming the file, when one is damaged.
        """
        kept: list[pa.Table] = []
        for path, epoch in zip(self.files, self.epochs, strict=True):
            for table in _tables(path, self.form, epoch):
                kept.append(table)
                if sum(table.num_rows for table in kept) >= rows:
                    yield pa.concat_tables(kept)
                    kept = []
        if kept:
            yield pa.concat_tables(kept)


def open_releases(directories: Sequence[str | Path]) -> ReleasedFiles:
    """The releases that are in these directories now: the --output of runs, or their ``release`` folders.

    A run may still go on, or be one of several that continue each other; what appears later is not read.
    One of them may have none yet, as a night whose rows all wait.
    Raises InputError: there is no such folder or no release in any, a file is none, or files differ in their form.
    """
    files: list[Path] = []
    others = 0
    for directory in directories:
        found, strangers = _release_files(str(directory))
        files += found
        others += strangers
    if not files:
        raise InputError(
            f"{directories[0]}: no releases here; give the --output of a run that has released something"
        )
    heads = [(path, release_schema(path)) for path in files]
    shared = _shared_ids(files)
    first, form = heads[0][0], _form(*heads[0])
    for path, schema in heads[1:]:
        if difference := _difference(form, _form(path, schema)):
            raise InputError(
                f"{path}: is of another form than {first} ({difference}); give releases of one policy at a time"
            )
    epochs = tuple(schema[PROPERTY].get("epoch") for _, schema in heads)
    return ReleasedFiles(tuple(files), form, epochs, others, shared)


def _shared_ids(files: Sequence[Path]) -> tuple[str, ...]:
    """Ids that two of the files have. Raises InputError: they are of one release."""
    names: dict[str, list[Path]] = {}
    for path in files:
        names.setdefault(path.stem, []).append(path)
    for same in names.values():
        if len(same) == 1:
            continue
        formats = {path.suffix for path in same}
        if len(formats) > 1 or len({path.read_bytes() for path in same}) < len(same):
            raise InputError(f"{same[-1]} and {same[0]}: the same release twice; give each directory once")
    return tuple(sorted(name for name, same in names.items() if len(same) > 1))


def _release_files(directory: str) -> tuple[list[Path], int]:
    if "://" in directory:
        raise InputError(f"{directory}: releases are read from folders of this machine; copy them here first")
    root = Path(directory)
    folder = root / "release" if (root / "release").is_dir() else root
    if not folder.is_dir():
        raise InputError(f"{directory}: no such folder; give the --output of a run")
    found = release_paths(folder)
    return found, len(list(folder.iterdir())) - len(found)


def release_paths(folder: Path) -> list[Path]:
    """The files of a folder that have the names of releases, in order; [] where there is no such folder."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        path
        for path in entries
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    ]


def release_schema(path: Path) -> Any:
    """What the head of a release's file says of its rows: an Avro schema, if it is a release's; nothing is checked.

    Raises InputError: the file is damaged.
    """
    try:
        with path.open("rb") as stream:
            return reader_of(path).schema(stream)
    except Exception as error:  # whatever the decoder trips over, the header is not one
        raise damaged(path, error, head=True) from None


def rows_of_release(path: Path) -> int:
    """How many rows a file has. Raises InputError: it is damaged."""
    try:
        with path.open("rb") as stream:
            return int(reader_of(path).count(stream))
    except Exception as error:  # whatever the decoder trips over, the head is not one
        raise damaged(path, error, head=True) from None


def _form(path: Path, schema: Mapping[str, Any]) -> ReleaseForm:
    try:
        return release_form(schema)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _difference(one: ReleaseForm, other: ReleaseForm) -> str:
    """What the first difference of two forms lies in; empty when there is none. The name of the policy is none."""
    if one.k != other.k:
        return f"k is {other.k}, not {one.k}"
    ours, theirs = ({field.name: field for field in form.fields} for form in (one, other))
    for name in (*ours, *theirs):
        if ours.get(name) != theirs.get(name):
            return f"field {name}"
    return "" if one.arrow.equals(other.arrow) else "the order of its fields"


def _tables(path: Path, form: ReleaseForm, epoch: str | None) -> Iterator[pa.Table]:
    """The rows of a file in tables of the form's columns. Raises InputError: it is damaged."""
    names = [name for name in form.arrow.names if name != form.epoch]
    try:
        with path.open("rb") as stream:
            for rows, cells in reader_of(path).batches(stream, names):
                yield _table(rows, cells, form, epoch, path)
    except InputError:
        raise
    except Exception as error:  # whatever the decoder trips over, the file is damaged
        raise damaged(path, error) from None


def _table(rows: int, cells: Mapping[str, Any], form: ReleaseForm, epoch: str | None, path: Path) -> pa.Table:
    columns = []
    for field in form.arrow:
        own = [epoch] * rows if field.name == form.epoch else cells[field.name]
        try:
            columns.append(own.cast(field.type) if isinstance(own, pa.Array) else pa.array(own, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{path}: field {field.name} is damaged ({type(error).__name__})") from None
    return pa.table(columns, schema=form.arrow)
