"""``kanonflow verify`` of several outputs: runs that continue each other, judged as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.chain import audit_chain
from kanonflow.pipelines.audit.read.chain_record import chain_record
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.options.options import OptionsError

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
    return audit_chain(policy, inputs, outputs, **checks)
