"""``kanonflow verify`` of several outputs: runs that continue each other, judged as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.chain import audit_chain
from kanonflow.pipelines.audit.read.chain_record import chain_record
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.options.options import OptionsError
from kanonflow.pipelines.run_records.policy_keys import told_changed
from kanonflow.pipelines.run_records.run_summary import read_json

NO_VERDICT = "no verdict is kept of several runs together; verify of one alone keeps it beside that one"


def outputs_of(given: Sequence[str], inputs: Sequence[str], restricted: str | None) -> list[str]:
    """The outputs that are to be judged, at least one.

    Raises OptionsError: there is none, one is given twice, or a topic or --restricted stands among several.
    """
    if not given:
        raise OptionsError("verify: --release is missing; name the --output of the run")
    if len(given) == 1:
        return list(given)
    if restricted is not None or any("://" in each for each in (*given, *inputs)):
        raise OptionsError("--release: several runs are judged as a whole from directories and files only")
    if len({Path(each).resolve() for each in given}) < len(given):
        raise OptionsError("--release: give each directory once")
    return list(given)


def newest_output(outputs: Sequence[str]) -> str:
    """That of the last run of the chain, whose records name all secrets before; it is asked for the secret."""

    def place(output: str) -> int:
        record = chain_record(Path(output))
        return -1 if record is None or record.place is None else record.place

    return max(reversed(outputs), key=place)


def verify_chain(
    policy: Path, inputs: Sequence[str], outputs: Sequence[str], *, known: int = 0, **checks: Any
) -> AuditReport:
    """Audit them. checks: as of ``audit``. Raises as ``audit_chain``; known matches are asked of single runs."""
    if known:
        raise OptionsError("--known: of one run at a time")
    report = audit_chain(policy, inputs, outputs, **checks)
    if report.passed or (changed := _changed_policy(outputs)) is None:
        return report
    return replace(report, failures=(changed, *report.failures))


def _changed_policy(outputs: Sequence[str]) -> str | None:
    """A sentence where two of the runs were made under other policies, as the digests of one secret tell; else None.

    Told where the whole did not pass: a solver may change between nights, and one policy judges them all the same.
    """
    before: dict[str, tuple[str, Mapping[str, str]]] = {}
    for output in outputs:
        record = read_json(Path(output) / "restricted" / "run.json")
        keys = record.get("policy_keys")
        if not isinstance(keys, dict):
            continue
        other, there = before.setdefault(str(record.get("secret")), (output, keys))
        if changed := told_changed(there, keys):
            return (
                f"the policy of {output} is not that of {other}{changed}: one policy judges a chain as a whole, and"
                " what follows may come of that alone; verify each run by itself, with its own policy and files"
            )
    return None
