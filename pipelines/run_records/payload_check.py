"""What ``policy check --for DIR`` found, kept where the stream that asks for it will write; and what a run over files
measured itself, for its report.

    DIR/restricted/check.json      digest of the policy, fields and figures of its payload, when it was measured
    DIR/restricted/measured.json   the same of a run, or of a stream's first windows; no stream goes by it, for a check
                                   looks at more

A stream cannot measure its payload before it has it, and what it published cannot be taken back. So a sample of the
feed is measured before, and the stream wants to see that it was, under the policy that it runs. One that is told to do
without measures its first windows as they come.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kanonflow.pipelines.run_records.private_places import refuse_open_places
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE, make_directory, read_whole
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.risks.check_record import (
    CHECK,
    CheckRecord,
    UncheckedError,
    check_digest,
    read_check,
)

MEASURED = "measured.json"


def write_check(output: str, policy: Policy, figures: Mapping[str, Any], now_ms: int) -> str:
    """Write what was measured below ``output``, in the place of an earlier one; the file's path.

    figures: of the payload, and how quasi-identifiers lie (round edges, frequent words), as JSON has them.
    Raises OpenPlaceError: others could read it. UncheckedError: there was nothing to measure.
    """
    if not figures["rows"]:
        raise UncheckedError(
            "the sample has no row that can be released, so nothing was measured, and nothing is kept; take more of the"
            " feed, whole windows if you can"
        )
    refuse_open_places(output)
    return _keep(CHECK, output, policy, figures, now_ms)


def keep_measured(output: str, policy: Policy, figures: Mapping[str, Any], now_ms: int) -> str:
    """What a run over files measured, in the directory that it has taken; the file's path."""
    return _keep(MEASURED, output, policy, figures, now_ms)


def measured_file(output: str) -> str:
    """Where it stands."""
    return storage.join(restricted_directory(output), MEASURED)


def measured_words(output: str) -> str:
    """What a stream's first windows told; "": nothing was measured of them, or not yet."""
    path = measured_file(output)
    return str(json.loads(read_whole(path)).get("said", "")) if storage.exists(path) else ""


def _keep(name: str, output: str, policy: Policy, figures: Mapping[str, Any], now_ms: int) -> str:
    restricted = restricted_directory(output)
    make_directory(restricted, private=True)
    path = storage.join(restricted, name)
    values = {
        "policy_name": policy.name,
        "policy": check_digest(policy),
        "measured_at": datetime.fromtimestamp(now_ms / 1_000, UTC).isoformat(timespec="seconds"),
        **figures,
    }
    data = json.dumps(values, indent=1).encode()
    if not is_local(path):
        with storage.create(path) as file:
            file.write(data)
        return path
    # A name of its own: workers write beside each other.
    handle = os.open(
        temporary := f"{path}.{os.getpid()}.tmp",
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW,
        PRIVATE_FILE,
    )
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
    return path


def refuse_unchecked(output: str, policy: Policy) -> CheckRecord | None:
    """The check of this policy's payload below ``output``; None: every risk is accepted. Raises UncheckedError."""
    if all(field.accept_risk is not None for field in policy.payload):
        return None
    path = storage.join(restricted_directory(output), CHECK)
    how = (
        f"measure a sample of the feed with  kanonflow policy check POLICY --input SAMPLE --for {output}  or say"
        " --unmeasured, and its first windows are measured as they come"
    )
    return read_check(path, policy, how)
