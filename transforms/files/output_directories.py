"""Where the parts of a run's output are, and with which modes they are made."""

from __future__ import annotations

from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_choices import MetricsAccess
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import make_directory

CARRIED_SUFFIX = ".state"
PROMISE = "promise.json"
PLAN_FILE = "plan.json"


def release_directory(output: str) -> str:
    """Where release files are."""
    return storage.join(output, "release")


def restricted_directory(output: str) -> str:
    """Where everything is that must stay inside."""
    return storage.join(output, "restricted")


def metrics_directory(output: str) -> str:
    """Where the exact metrics are."""
    return storage.join(restricted_directory(output), "metrics")


def public_metrics_directory(output: str) -> str:
    """Where the public metrics of releases are, if the policy has any."""
    return storage.join(output, "metrics")


def rejected_directory(output: str) -> str:
    """Where rejected rows are."""
    return storage.join(restricted_directory(output), "rejected")


def carried_directory(output: str) -> str:
    """Where a run leaves what the one that continues it goes on from."""
    return storage.join(restricted_directory(output), "carried")


def make_output_directories(output: str, policy: Policy) -> None:
    """Create the directories of a run, so that they exist even if nothing is ever written to one of them."""
    make_directory(restricted_directory(output), private=True)
    make_directory(rejected_directory(output), private=True)
    make_directory(metrics_directory(output), private=True)
    make_directory(release_directory(output))
    if policy.metrics is MetricsAccess.PUBLIC:
        make_directory(public_metrics_directory(output))


def promise_is_made(output: str) -> bool:
    """Whether nothing public below an output says that its promise over releases is not made."""
    return not storage.exists(storage.join(output, PROMISE))
