"""Files and a policy put together, and what to do where they cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kanonflow.pipelines.feeds.csv_files import csv_header
from kanonflow.pipelines.feeds.input_files import (
    FileFormat,
    InputFile,
    InputSchema,
    find_inputs,
    input_schema,
)
from kanonflow.pipelines.fit.text_mends import delimiter_mend, encoding_mend
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import CsvForm, with_delimiter


class BoundInput(NamedTuple):
    """files: of the run. schema: what they share. bound: the policy over them. csv: how they are written."""

    files: tuple[InputFile, ...]
    schema: InputSchema
    bound: BoundPolicy
    csv: CsvForm


def bind_input(
    policy: Policy, patterns: Sequence[str], delimiter: str | None = None, input_format: str | None = None
) -> BoundInput:
    """The files and the policy, bound to them.

    delimiter: of the command line, before the policy's. input_format: what the files hold; None: their names say it.

    Raises InputError, PolicyError; where the encoding or the delimiter is to blame, they say what to write.
    """
    files, csv = find_inputs(patterns, input_format), with_delimiter(policy.csv, delimiter)
    schema = read_schema(files, csv)
    try:
        bound = bind(policy, schema.columns, text=schema.text, csv=schema.csv, source=", ".join(patterns))
    except PolicyError as error:
        mend = wrong_delimiter(files[0], schema, csv)
        if not mend:
            raise
        raise PolicyError([f"{files[0].path}: {mend}", *error.mistakes], error.source) from None
    return BoundInput(files, schema, bound, csv)


def read_schema(files: Sequence[InputFile], csv: CsvForm) -> InputSchema:
    """The schema of the files. Raises InputError, with the encoding that would read a header that is no text."""
    try:
        return input_schema(files, csv)
    except InputError as error:
        mends = {file.path: encoding_mend(file, csv) for file in files if str(error).startswith(file.path)}
        mend = next(filter(None, mends.values()), "")
        if not mend:
            raise
        raise InputError(f"{error}; {mend}") from None


def wrong_delimiter(file: InputFile, schema: InputSchema, csv: CsvForm) -> str:
    """What to say of the delimiter when a header came out as one column; "": nothing."""
    if file.format is not FileFormat.CSV or len(schema.columns.names) > 1:
        return ""
    return delimiter_mend(schema.columns.names[0], csv_header(file.path, csv).delimiter)
