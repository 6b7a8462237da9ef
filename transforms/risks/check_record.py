"""What ``policy check --for DIR`` kept of a sample of the feed, and whether it is of the policy that goes by it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import NamedTuple

from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_choices import SolverChoice
from kanonflow.schemas.policy_file import policy_digest
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole

CHECK = "check.json"
_ACCEPTED = "accepted"


class UncheckedError(Exception):
    """A feed whose payload nobody measured under its policy; the message says how to."""

    exit_code = 2


class CheckRecord(NamedTuple):
    """A check that refused nothing. path: where it stands. rows: that it measured. measured_at: UTC, as text."""

    path: str
    rows: int
    measured_at: str

    def words(self) -> str:
        """A line for logs."""
        return f"no payload above its limits, as measured on {self.rows:,} rows at {self.measured_at} ({self.path})"


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


def read_check(path: str, policy: Policy, how: str) -> CheckRecord:
    """The check at a path. how: the mend. Raises UncheckedError: there is none, or it is of another policy."""
    if not storage.exists(path):
        raise UncheckedError(f"{path}: nobody has measured what the payload tells about people; {how}")
    try:
        record = json.loads(read_whole(path))
        digest, check = record["policy"], CheckRecord(path, int(record["rows"]), str(record["measured_at"]))
    except (ValueError, KeyError, TypeError):
        raise UncheckedError(f"{path} is damaged; {how}") from None
    if digest != check_digest(policy):
        raise UncheckedError(f"{path} is of another policy, or of this one before it was changed; {how}")
    return check
