"""``kanonflow rejected``: which rows a run rejected, where they are from, and a file of them to mend and feed again."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import field as member
from typing import Any

from kanonflow.pipelines.feeds.csv_files import PLAIN, csv_header
from kanonflow.pipelines.feeds.input_files import FileFormat, find_inputs
from kanonflow.pipelines.feeds.row_lines import lines_by_number
from kanonflow.pipelines.run_records.rejected_rows import unsettled_rejected
from kanonflow.pipelines.terminal.table import aligned
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.printable import printable
from kanonflow.schemas.text_form import CsvForm, with_delimiter
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE
from kanonflow.transforms.files.output_directories import rejected_directory

FIRST_PLACES = 3
"""Places that the summary names for each reason and field."""

_NO_CHARACTER = ("\ufffd", "\x1a")
"""What stands in a row's text for bytes that are none."""
_JSON = (".jsonl", ".json", ".ndjson")
_Record = Mapping[str, Any]


@dataclass
class RejectedGroup:
    """Rows rejected for one reason in one field. places: the first of them by file and line."""

    reason: str
    field: str | None
    rows: int = 0
    expected: str | None = None
    places: list[tuple[str, int | None]] = member(default_factory=list)


def rejected_rows(output: str) -> Iterator[_Record]:
    """The records of rejected.avsc of a run, each row once. O(n).

    Raises InputError: there is no such folder, or a file of it is damaged.
    """
    folder = rejected_directory(output)
    if not storage.exists(folder):
        raise InputError(f"{output}: has no {os.path.relpath(folder, output)}; give the --output of a run")
    yield from unsettled_rejected(output)


def summarize_rejected(records: Iterator[_Record]) -> list[RejectedGroup]:
    """The rows by reason and field, most first. Memory: O(reasons x fields)."""
    groups: dict[tuple[str, str | None], RejectedGroup] = {}
    for record in records:
        key = record["reason"], record.get("field")
        group = groups.setdefault(key, RejectedGroup(*key))
        group.rows += 1
        group.expected = group.expected or record.get("expected")
        if record.get("source") is not None:
            place = record["source"], record.get("line")
            group.places = sorted({*group.places, place}, key=_by_place)[:FIRST_PLACES]
    return sorted(groups.values(), key=lambda group: (-group.rows, group.reason, group.field or ""))


def render(groups: Sequence[RejectedGroup]) -> str:
    """A table of the groups, with no value of a row."""
    if not groups:
        return "no rejected rows"
    head = ("reason", "field", "rows", "expected", "first")
    lines = [
        (
            group.reason,
            printable(group.field or "-"),
            f"{group.rows:,}",
            printable(group.expected or "-"),
            _places(group.places),
        )
        for group in groups
    ]
    total = sum(group.rows for group in groups)
    table = aligned([head, *lines], left=range(len(head)), indent="")
    return "\n".join([*table, f"{total:,} rejected rows"])


def to_json(groups: Sequence[RejectedGroup]) -> str:
    """The groups as a JSON array of objects, with no value of a row."""
    return json.dumps([asdict(group) for group in groups], indent=1)


def write_rejected(
    records: Iterator[_Record], to: str, patterns: Sequence[str] = (), form: CsvForm = PLAIN
) -> str:
    """Write rows as they came to files that only their owner may read, and say which.

    to: a name of CSV, or of lines of JSON for messages. patterns: the run's input, to look rows up whose text is not
    kept. form: how the input's CSV files are written; the files get its encoding, so that they can be fed like these.
    Rows that were rejected for who else was there (late, too_few_peers...) are looked up as little as those of
    Avro, Parquet and memory: they are counted, and left out.
    Raises InputError: a file is there already, cannot be written, or there is nothing to write.
    """
    as_json = to.lower().endswith(_JSON)
    rows: dict[str, list[str]] = {}
    other_kind = without = foul = 0
    sought: dict[str, list[int]] = {}
    for record in records:
        header, raw = record.get("header"), record.get("raw")
        if raw is not None and any(sign in raw for sign in _NO_CHARACTER):
            foul += 1
        elif raw is not None and (header is None) == as_json:
            # Of JSON, a line end outside of its strings is white space.
            rows.setdefault(header or "", []).append(re.sub(r"[\r\n]+", " ", raw) if as_json else raw)
        elif raw is not None:
            other_kind += 1
        elif record.get("expected") is not None and record.get("line") is not None and not as_json:
            sought.setdefault(record["source"], []).append(record["line"])
        else:
            without += 1
    without += _look_up(sought, patterns, rows, form)
    if not rows and other_kind:
        raise InputError(
            f"--to {to}: the rows are {'CSV; name a FILE.csv' if as_json else 'JSON; name a FILE.jsonl'}"
        )
    if not rows:
        hint = "" if patterns or not sought else "; --input GLOB names the run's input, to look them up there"
        raise InputError(f"--to {to}: none of the rejected rows is there as it came{hint}")
    stem, ending = os.path.splitext(to)
    names = [to] if len(rows) == 1 else [f"{stem}-{number}{ending}" for number in range(1, len(rows) + 1)]
    for name in names:
        if os.path.lexists(name):
            raise InputError(f"--to {name}: the file is there already; name one that is not")
    said = []
    for name, (header, lines) in zip(names, rows.items(), strict=True):
        _write(name, [*([header] if header else []), *lines], "utf-8" if as_json else form.encoding)
        said.append(f"{name}: {len(lines):,} rows as they came, with all their fields")
    if foul:
        said.append(
            f"left out: {foul:,} rows with bytes that are no text, which would be other values: mend them in the input"
        )
    if other_kind:
        said.append(f"left out: {other_kind:,} rows that are {'CSV' if as_json else 'JSON messages'}")
    if without:
        hint = (
            ""
            if patterns or not sought
            else " (--input GLOB names the run's input, to look some of them up there)"
        )
        said.append(f"left out: {without:,} rows that are not kept as they came{hint}")
    return "\n".join(said)


def _look_up(
    sought: Mapping[str, Sequence[int]], patterns: Sequence[str], rows: dict[str, list[str]], form: CsvForm
) -> int:
    """Add the rows that begin on these lines of the input's files, by header; how many are not there."""
    files = {file.name: file for file in find_inputs(patterns)} if sought and patterns else {}
    missing = 0
    for source, numbers in sought.items():
        file = files.get(source)
        if file is None or file.format is not FileFormat.CSV:
            missing += len(numbers)
            continue
        written = with_delimiter(form, csv_header(file.path, form).delimiter)
        header, lines = lines_by_number(file.path, written, set(numbers))
        rows.setdefault(header, []).extend(lines[number] for number in sorted(lines))
        missing += sum(count for number, count in Counter(numbers).items() if number not in lines)
    return missing


def _write(path: str, lines: Sequence[str], encoding: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(handle, "w", encoding=encoding, newline="") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise InputError(f"--to {path}: cannot be written ({error.strerror})") from None
    except UnicodeEncodeError:
        raise InputError(
            f"--to {path}: {encoding} has not all characters; give the policy of the run"
        ) from None


def _by_place(place: tuple[str, int | None]) -> tuple[str, int]:
    return place[0], -1 if place[1] is None else place[1]


def _places(places: Sequence[tuple[str, int | None]]) -> str:
    by_source: dict[str, list[str]] = {}
    for source, line in places:
        # The place in a topic ends with the offset already.
        numbers = by_source.setdefault(source, [])
        if line is not None and not source.endswith(f"/{line}"):
            numbers.append(str(line))
    shown = [
        printable(source) + (f":{','.join(lines)}" if lines else "") for source, lines in by_source.items()
    ]
    return "; ".join(shown) or "-"
