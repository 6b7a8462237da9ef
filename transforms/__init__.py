"""Beam transforms, and the public face of the package.

``KAnonymize`` for pipelines and ``anonymize_table`` for one table in memory, both under a policy (``load_policy``) and
a secret (``Secret``); ``WriteReleases``, ``WriteMetrics`` and ``WriteRejected`` write what they make, once.
"""

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
