"""What ``policy check --for DIR`` found, kept where the stream that asks for it will write; and what a run over files
measured itself, for its report.

    DIR/restricted/check.json      digest of the policy, fields and figures of its payload, when it was measured
    DIR/restricted/measured.json   the same of a run; no stream goes by it, for a check looks at more

A stream cannot measure its payload before it has it, and what it published cannot be taken back. So a sample of the
feed is measured before, and the stream wants to see that it was, under the policy that it runs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from apache_beam.io.filesystems import FileSystems

from kanonflow.pipelines.run_records.private_places import refuse_open_places
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_choices import SolverChoice
from kanonflow.schemas.policy_file import policy_digest
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE, is_local, make_directory, read_whole
from kanonflow.transforms.sinks.sinks import restricted_directory

_NAME = "check.json"
MEASURED = "measured.json"
_ACCEPTED = "accepted"


class UncheckedError(Exception):
    """A stream whose payload nobody measured; the message says how to."""

    exit_code = 2


def check_digest(policy: Policy) -> str:
    """Of all that payload is measured by: the policy without its solver, without the words that accept a risk, and
    without how many rows may be rejected."""
    fields = tuple(
        replace(field, accept_risk=_ACCEPTED if field.accept_risk else None) for field in policy.fields
    )
    digest = policy_digest(
        replace(policy, solver=SolverChoice(), fields=fields, max_rejected=None, assess=None)
    )
    return hashlib.sha256(digest).hexdigest()


def write_check(output: str, policy: Policy, figures: Mapping[str, Any], now_ms: int) -> str:
    """Write what was measured below ``output``, in the place of an earlier one; the file's path.

    figures: of the payload, as JSON has them; no values of records.
    Raises OpenPlaceError: others could read it. UncheckedError: there was nothing to measure.
    """
    if not figures["rows"]:
        raise UncheckedError(
            "the sample has no row that can be released, so nothing was measured, and nothing is kept; take more of the"
            " feed, whole windows if you can"
        )
    refuse_open_places(output)
    return _keep(_NAME, output, policy, figures, now_ms)


def keep_measured(output: str, policy: Policy, figures: Mapping[str, Any], now_ms: int) -> str:
    """What a run over files measured, in the directory that it has taken; the file's path."""
    return _keep(MEASURED, output, policy, figures, now_ms)


def _keep(name: str, output: str, policy: Policy, figures: Mapping[str, Any], now_ms: int) -> str:
    restricted = restricted_directory(output)
    make_directory(restricted, private=True)
    path = FileSystems.join(restricted, name)
    values = {
        "policy_name": policy.name,
        "policy": check_digest(policy),
        "measured_at": datetime.fromtimestamp(now_ms / 1_000, UTC).isoformat(timespec="seconds"),
        **figures,
    }
    data = json.dumps(values, indent=1).encode()
    if not is_local(path):
        with FileSystems.create(path) as file:
            file.write(data)
        return path
    handle = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(path + ".tmp", path)
    return path


def refuse_unchecked(output: str, policy: Policy) -> None:
    """Raise UncheckedError unless a check of this policy's payload is below ``output``, or there is none to check."""
    if all(field.accept_risk is not None for field in policy.payload):
        return
    path = FileSystems.join(restricted_directory(output), _NAME)
    how = (
        f"measure a sample of the feed with  kanonflow policy check POLICY --input SAMPLE --for {output}  or say"
        " --unmeasured"
    )
    if not FileSystems.exists(path):
        raise UncheckedError(f"{output}: nobody has measured what the payload tells about people; {how}")
    try:
        record = json.loads(read_whole(path))
        digest = record["policy"]
    except (ValueError, KeyError, TypeError):
        raise UncheckedError(f"{path} is damaged; {how}") from None
    if digest != check_digest(policy):
        raise UncheckedError(f"{path} is of another policy, or of this one before it was changed; {how}")
