"""Which input records were released, and whether the payload that came out is the one that went in."""

import re
from collections.abc import Sequence

import numpy as np

from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.avro_schema import rejected_schema
from kanonflow.schemas.policy_fields import Role

_OF_VALUES = ("bad_value", "missing_value", "outside_domain")
# The packaged schema of rejected rows names all reasons; the rest of them say nothing of values.
_REASON_DOC = next(field["doc"] for field in rejected_schema()["fields"] if field["name"] == "reason")
_OF_WINDOWS = frozenset(re.findall("[a-z_]+", _REASON_DOC)) - {*_OF_VALUES, "or"}
_NEEDED = (Role.INDIVIDUAL, Role.TIME, Role.EVENT_ID)


def released_records(
    records: np.ndarray, rejected: np.ndarray, findings: Findings, what: str = "rejected"
) -> np.ndarray:
    """Bool (n,): the records that were not rejected. what: became of the others.

    ``records`` int32 (n, c) and ``rejected`` int32 (r, c): codes of all kept fields. Each rejected row
    stands for one record with equal codes; which of several equal ones makes no difference to anything that
    follows.
    """
    distinct, group, _ = group_rows(np.concatenate([records, rejected]))
    groups = len(distinct)
    own, other = group[: len(records)], group[len(records) :]
    taken = np.bincount(other, minlength=groups)
    excess = int(np.maximum(taken - np.bincount(own, minlength=groups), 0).sum())
    if excess:
        findings.add(f"{excess} {what} rows are not in the input, or {what} more often than they are in it")
    order = np.argsort(own, kind="stable")
    start = np.searchsorted(own[order], own[order], side="left")
    occurrence = np.empty(len(own), np.int64)
    occurrence[order] = np.arange(len(own)) - start
    return occurrence >= taken[own]


def check_rejections(
    records: np.ndarray, books: Sequence[CodeBook], findings: Findings, *, free_quasis: bool = False
) -> None:
    """Records (n, c) that were not rejected must have readable values, within declared domains, where needed.

    free_quasis: nobody reads the quasi-identifiers of somebody who is in a cohort already.
    """
    for column, book in enumerate(books):
        if free_quasis and book.column.field.quasi is not None:
            continue
        codes = records[:, column]
        # The last entry serves null, whose code is -1.
        bad = np.append(value_faults(book), book.column.field.role in _NEEDED)[codes]
        if bad.any():
            findings.add(
                f"field {book.column.name}: {int(bad.sum())} records with a missing or unreadable value, or "
                "one outside of the declared domain, were not rejected"
            )


def check_reasons(
    rejected: np.ndarray,
    reasons: Sequence[str],
    books: Sequence[CodeBook],
    findings: Findings,
    *,
    free_quasis: bool = False,
) -> None:
    """Rejected records (r, c) have a reason that there is; a faulty value is the reason exactly where there is one.

    free_quasis: as of ``check_rejections``; such a row may be rejected for another reason.
    """
    unknown = sum(reason not in (*_OF_VALUES, *_OF_WINDOWS) for reason in reasons)
    if unknown:
        findings.add(f"{unknown} rejected rows have a reason that there is not")
    faulty, must = np.zeros(len(rejected), bool), np.zeros(len(rejected), bool)
    for column, book in enumerate(books):
        own = np.append(value_faults(book), book.column.field.role in _NEEDED)[rejected[:, column]]
        faulty |= own
        if not free_quasis or book.column.field.quasi is None:
            must |= own
    told = np.array([reason in _OF_VALUES for reason in reasons], bool)
    known = np.array([reason in _OF_WINDOWS for reason in reasons], bool)
    wrong = int((told & ~faulty).sum() + (known & must).sum())
    if wrong:
        findings.add(
            f"{wrong} rejected rows name a faulty value where there is none, or another reason where there is one"
        )


def check_payload(
    records: np.ndarray, rows: np.ndarray, findings: Findings, *, waiting: bool = False
) -> None:
    """The payload (m, p) of the released rows is, as a multiset, that of the records (n, p) not rejected.

    waiting: records may be missing, as many as there are fewer rows.
    """
    distinct, group, _ = group_rows(np.concatenate([records, rows]))
    groups = len(distinct)
    surplus = np.bincount(group[len(records) :], minlength=groups) - np.bincount(
        group[: len(records)], minlength=groups
    )
    lost, added = int(np.maximum(-surplus, 0).sum()), int(np.maximum(surplus, 0).sum())
    if added or (lost and not waiting):
        findings.add(
            f"the payload is not that of the input: {lost} payloads of records are missing; {added} released "
            "rows have a payload that the input has not, or less often"
        )


def check_unique_fields(
    records: np.ndarray, rows: np.ndarray, books: Sequence[CodeBook], findings: Findings
) -> None:
    """An insensitive field that never repeats in the input (n, p) does not repeat in the releases (m, p)."""
    for column, book in enumerate(books):
        values = records[records[:, column] >= 0, column]
        unique = len(values) > 1 and len(np.unique(values)) == len(values)
        if book.column.field.role is not Role.INSENSITIVE or not unique:
            continue
        released = rows[rows[:, column] >= 0, column]
        repeats = len(released) - len(np.unique(released))
        if repeats:
            findings.add(
                f"field {book.column.name}: never repeats in the input, but {repeats} released rows repeat a "
                "value: a record was published twice"
            )
