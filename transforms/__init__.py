"""Beam transforms: ``KAnonymize`` for pipelines, ``anonymize_table`` for one table in memory."""

# Not by a lazy __getattr__: the module anonymize_table would hide the function of that name.
from kanonflow.transforms.anonymize import Anonymized, KAnonymize
from kanonflow.transforms.anonymize_table import AnonymizedTable, anonymize_table
from kanonflow.transforms.seeds import Secret

__all__ = ["Anonymized", "AnonymizedTable", "KAnonymize", "Secret", "anonymize_table"]
