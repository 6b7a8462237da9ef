"""``kanonflow policy draft``: a policy that a sample of the files speaks for, measured as ``policy check`` would."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TextIO

import numpy as np
import pyarrow as pa
import yaml

from kanonflow.pipelines.dry_run.feed import read_feed
from kanonflow.pipelines.explain.advised_window import Advised, advised_window
from kanonflow.pipelines.explain.dependencies import dependencies, redundant
from kanonflow.pipelines.feeds.input_files import (
    FileFormat,
    InputFile,
    InputSchema,
    find_inputs,
    input_schema,
)
from kanonflow.pipelines.feeds.read_files import ReadOnce
from kanonflow.pipelines.feeds.spread_sample import spread_sample
from kanonflow.pipelines.fit.bound_input import wrong_delimiter
from kanonflow.pipelines.fit.found_types import FoundType, found_types
from kanonflow.pipelines.fit.proposed_roles import Proposal, proposed_roles
from kanonflow.pipelines.fit.text_mends import frequent_sign, likely_encoding
from kanonflow.pipelines.risks.lasting_risks import lasting_risks
from kanonflow.pipelines.risks.payload_sample import measured_files
from kanonflow.pipelines.runs.kernel_cache import compile_first
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.draft import DraftedField, draft_policy, value_type
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.text_form import NUMBERED, CsvForm, with_delimiter
from kanonflow.transforms.columns.column_facts import codes_of
from kanonflow.transforms.rows.classify import one_array

_K = 5
_DAY_MS = 86_400_000
_SEED = 1
_FIELD = re.compile(r"fields\.(.+?): ")
_MEASURED = "measured to tell more than 1/k of its people"


def draft_from_input(
    patterns: Sequence[str],
    delimiter: str | None = None,
    input_format: str | None = None,
    *,
    individual: str | None = None,
    answered: bool = False,
    terminal: TextIO | None = None,
) -> str:
    """A policy (YAML) with the roles, types and formats that the files speak for, and reasons as comments.

    Where the data cannot tell a role, or a payload field is above a limit of ``policy check``, the draft asks: its role
    is "?". individual: the field that says whose a row is; None: the data are asked. answered: with what is proposed in
    the place of each "?", but for fields above a limit, which are dropped.
    terminal: where it stands that kernels are compiled first; None: nowhere.
    Deterministic. Raises InputError: a file cannot be read, or has no such field.
    """
    files = find_inputs(patterns, input_format)
    csv, schema = _readable(files, with_delimiter(None, delimiter))
    rows, broken = _sampled(files, schema, csv)
    if not rows.num_rows and broken and schema.csv:  # each row with a delimiter behind its last cell
        csv = replace(csv, header=NUMBERED)
        schema = input_schema(files, csv)
        rows, broken = _sampled(files, schema, csv)
    if not rows.num_rows:
        raise InputError(
            f"{files[0].path}: "
            + (
                "no row has as many cells as the header"
                if broken
                else "columns, and no row: a draft needs rows"
            )
        )
    columns = _typed(rows, schema.columns)
    if schema.text:
        texts, csv = found_types(rows, csv, signs=files[0].format is FileFormat.CSV)
        columns = {name: texts.get(name, typed) for name, typed in columns.items()}
    if individual is not None and individual not in columns:
        raise InputError(
            f"--individual {individual}: {files[0].path} has no such field; it has {', '.join(columns)}"
        )
    proposal = proposed_roles(columns, _K, individual)
    csv = replace(csv, nulls=(*csv.nulls, *(word for word in proposal.nulls if word not in csv.nulls)))
    name = PurePosixPath(files[0].name).name.split(".", 1)[0]
    said = csv if schema.csv else None
    asked, advised = _measured(proposal, name, said, files, schema, csv, terminal)
    days, remarks = proposal.window_days, proposal.told
    if advised is not None:
        days = (advised.bound.policy.window_ms or 0) // _DAY_MS
        remarks = (*(line for line in remarks if not line.startswith("window: ")), advised.words)
    return draft_policy(
        _following(asked, columns),
        name,
        csv=said,
        window_days=days,
        told=remarks,
        asks_row=proposal.asks_row,
        answered=answered,
    )


def _sampled(files: Sequence[InputFile], schema: InputSchema, csv: CsvForm) -> tuple[pa.Table, int]:
    """Rows of all over the files, with the columns that can be published, and how many were none."""
    readable = [field.name for field in schema.columns if value_type(field.type)]
    samples = spread_sample(files, readable, csv, seed=_SEED)
    rows = pa.concat_tables([sample.rows for sample in samples]).combine_chunks()
    return rows, sum(sample.broken for sample in samples)


def _readable(files: Sequence[InputFile], csv: CsvForm) -> tuple[CsvForm, InputSchema]:
    """The schema, and the form under which there is one. Raises InputError."""
    encoding = likely_encoding(files[0])
    csv = csv if encoding is None else replace(csv, encoding=encoding)
    try:
        schema = input_schema(files, csv)
    except InputError:  # perhaps of columns that have no name of their own
        csv = replace(csv, header=NUMBERED)
        schema = input_schema(files, csv)
    if csv.delimiter is None and wrong_delimiter(files[0], schema, csv):
        sign = frequent_sign(schema.columns.names[0], ",")
        csv = replace(csv, delimiter=sign)
        schema = input_schema(files, csv)
    return csv, schema


def _typed(rows: pa.Table, schema: pa.Schema) -> dict[str, FoundType]:
    """The columns of a file that has types; without values those of types that no field can have."""
    found = {}
    for field in schema:
        value = value_type(field.type)
        values = one_array(rows.column(field.name)) if value else pa.nulls(rows.num_rows, pa.string())
        if isinstance(values.type, pa.BaseExtensionType):  # UUIDs
            values = pa.array([each and str(each) for each in values.to_pylist()], pa.string())
        found[field.name] = FoundType(value, None, values, str(field.type))
    return found


def _measured(
    proposal: Proposal,
    name: str,
    said: CsvForm | None,
    files: Sequence[InputFile],
    schema: InputSchema,
    csv: CsvForm,
    terminal: TextIO | None,
) -> tuple[Mapping[str, DraftedField], Advised | None]:
    """The fields, those that ``policy check`` would refuse without a role; and the window that ``explain`` would advise
    of cohorts that last, under which they are measured."""
    text = draft_policy(
        proposal.fields,
        name,
        csv=said,
        window_days=proposal.window_days,
        asks_row=proposal.asks_row,
        answered=True,
    )
    mistakes: list[str] = []
    try:
        policy = parse_policy(yaml.safe_load(text), "", name)
        bound = bind(policy, schema.columns, text=schema.text, csv=schema.csv, source=name)
    except PolicyError as error:
        return _ask_about(proposal.fields, [each for each in error.mistakes if _FIELD.match(each)]), None
    compile_first(bound, terminal, here=policy.lasting)
    reading, advised = ReadOnce(), None
    feed = read_feed(files, bound, csv, reading=reading) if policy.lasting else None
    if feed is not None and feed.rows.num_rows:
        advised = advised_window(feed.rows, bound)
        bound = bound if advised is None else advised.bound
        mistakes += getattr(lasting_risks(feed, bound).refusal(name), "mistakes", ())
    _, risks = measured_files(files, bound, csv, reading)
    mistakes += getattr(risks.refusal(name), "mistakes", ())
    return _ask_about(proposal.fields, mistakes), advised


def _following(
    fields: Mapping[str, DraftedField], columns: Mapping[str, FoundType]
) -> Mapping[str, DraftedField]:
    """The fields, a remark on quasi-identifiers that follow from others: they would be widened twice."""
    roles = {name: drafted.keys.get("role") for name, drafted in fields.items()}
    quasis = [name for name, role in roles.items() if role == "quasi"]
    people = [name for name, role in roles.items() if role == "individual"]
    codes = {name: codes_of(columns[name].values) for name in quasis}
    if people:
        first = np.unique(codes_of(columns[people[0]].values), return_index=True)[1]
        codes = {name: each[first] for name, each in codes.items()}
    remarks = {
        each.dependent: f"follows from {' and '.join(each.by)}: leave it out, or make it a level of a hierarchy"
        for each in redundant(dependencies(codes))
    }
    return {
        name: replace(drafted, reason="; ".join(filter(None, (drafted.reason, remarks.get(name)))))
        for name, drafted in fields.items()
    }


def _ask_about(fields: Mapping[str, DraftedField], mistakes: Sequence[str]) -> Mapping[str, DraftedField]:
    """The fields that mistakes are about with a question in the place of their role; of all payload, all of it."""
    asked: dict[str, str] = {}
    for mistake in mistakes:
        named = _FIELD.match(mistake)
        if named:
            asked[named[1]] = mistake[named.end() :]
        elif mistake.startswith("fields: "):
            payload = [field for field, drafted in fields.items() if drafted.keys.get("role") == "sensitive"]
            asked |= {field: mistake.removeprefix("fields: ") for field in payload if field not in asked}
    return {
        field: DraftedField({"role": "identifier"}, f"{_MEASURED}: {asked[field]}", sure=False)
        if field in asked
        else drafted
        for field, drafted in fields.items()
    }
