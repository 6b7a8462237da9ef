"""Beam transforms, and the public face of the package.

``KAnonymize`` for pipelines and ``anonymize_table`` for one table in memory, both under a policy (``load_policy``) and
a secret (``Secret``); ``WriteReleases``, ``WriteMetrics`` and ``WriteRejected`` write what they make, once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanonflow.schemas.policy_file import load_policy
    from kanonflow.transforms.anonymize import Anonymized, KAnonymize
    from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
    from kanonflow.transforms.secret.seeds import Secret
    from kanonflow.transforms.sinks.sinks import WriteMetrics, WriteRejected, WriteReleases

__all__ = [
    "Anonymized",
    "AnonymizedTable",
    "KAnonymize",
    "Secret",
    "WriteMetrics",
    "WriteRejected",
    "WriteReleases",
    "anonymize_table",
    "load_policy",
]

_HOMES = {
    "Anonymized": "transforms.anonymize",
    "AnonymizedTable": "transforms.one_table",
    "KAnonymize": "transforms.anonymize",
    "Secret": "transforms.secret.seeds",
    "WriteMetrics": "transforms.sinks.sinks",
    "WriteRejected": "transforms.sinks.sinks",
    "WriteReleases": "transforms.sinks.sinks",
    "anonymize_table": "transforms.one_table",
    "load_policy": "schemas.policy_file",
}
"""Where each name is made. It is loaded when it is asked for: Beam takes a second and a half, and commands that run no
pipeline come through here too."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kanonflow.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
