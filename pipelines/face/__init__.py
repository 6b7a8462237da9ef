"""Continuous k-anonymization of record feeds.

    anonymize_table     a table in memory, under a policy (load_policy) and a secret (Secret)
    KAnonymize          the same in a Beam pipeline; WriteReleases, WriteMetrics and WriteRejected write what it makes,
                        ReleasedRows makes Beam rows of it
    AnonymizeRows       the same as a step of Beam YAML
    SecretFile          where each worker finds the secret; SecretVariable and ManagedSecret are other places
    KanonflowOptions    flags for a pipeline of one's own
    read_release        releases as a table: flat, in Arrow, polars or pandas, and asked for estimates with bounds
    solver_table        a table as the numbers that kanonflow.solvers takes
    query_errors        how far answers from a release are from those of its input

    import pyarrow.parquet
    from kanonflow import Secret, anonymize_table
    result = anonymize_table(pyarrow.parquet.read_table("feed.parquet"), "policy.yaml", Secret.from_file("secret"))
    result.released.num_rows, len(result.rejected)

anonymize_table takes DataFrames of pandas and polars as well; ``kanonflow policy draft --input F`` proposes a policy.
The command is ``kanonflow``. Names are loaded when they are asked for: Beam takes seconds.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanonflow.pipelines.analysis.flat_columns import split_range, split_set
    from kanonflow.pipelines.analysis.query_error import QueryErrors, query_errors
    from kanonflow.pipelines.analysis.released_table import ReleasedTable, read_release
    from kanonflow.pipelines.estimates.estimate import Estimate, WideBoundsWarning
    from kanonflow.pipelines.own_pipelines.anonymize_rows import AnonymizeRows
    from kanonflow.pipelines.own_pipelines.pipeline_options import KanonflowOptions
    from kanonflow.pipelines.runs.secret_sources import ManagedSecret, SecretFile, SecretVariable
    from kanonflow.schemas.policy_file import load_policy
    from kanonflow.transforms.anonymize import Anonymized, KAnonymize
    from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
    from kanonflow.transforms.secret.seeds import Secret
    from kanonflow.transforms.sinks.beam_rows import ReleasedRows
    from kanonflow.transforms.sinks.sinks import WriteMetrics, WriteRejected, WriteReleases
    from kanonflow.transforms.solver_table import SolverTable, solver_table

_PLACES = {
    "kanonflow.pipelines.estimates.estimate": ("Estimate", "WideBoundsWarning"),
    "kanonflow.pipelines.analysis.flat_columns": ("split_range", "split_set"),
    "kanonflow.pipelines.analysis.query_error": ("QueryErrors", "query_errors"),
    "kanonflow.pipelines.analysis.released_table": ("ReleasedTable", "read_release"),
    "kanonflow.pipelines.own_pipelines.anonymize_rows": ("AnonymizeRows",),
    "kanonflow.pipelines.own_pipelines.pipeline_options": ("KanonflowOptions",),
    "kanonflow.pipelines.runs.secret_sources": ("ManagedSecret", "SecretFile", "SecretVariable"),
    "kanonflow.schemas.policy_file": ("load_policy",),
    "kanonflow.transforms.anonymize": ("Anonymized", "KAnonymize"),
    "kanonflow.transforms.one_table": ("AnonymizedTable", "anonymize_table"),
    "kanonflow.transforms.secret.seeds": ("Secret",),
    "kanonflow.transforms.sinks.beam_rows": ("ReleasedRows",),
    "kanonflow.transforms.solver_table": ("SolverTable", "solver_table"),
    "kanonflow.transforms.sinks.sinks": ("WriteMetrics", "WriteRejected", "WriteReleases"),
}
_PLACE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "AnonymizeRows",
    "Anonymized",
    "AnonymizedTable",
    "Estimate",
    "KAnonymize",
    "KanonflowOptions",
    "ManagedSecret",
    "QueryErrors",
    "ReleasedRows",
    "ReleasedTable",
    "Secret",
    "SecretFile",
    "SecretVariable",
    "SolverTable",
    "WideBoundsWarning",
    "WriteMetrics",
    "WriteRejected",
    "WriteReleases",
    "anonymize_table",
    "load_policy",
    "query_errors",
    "read_release",
    "solver_table",
    "split_range",
    "split_set",
]


def __getattr__(name: str) -> Any:
    """A public name, loaded now, or ``__version__``. Raises AttributeError."""
    if name == "__version__":
        return version("kanonflow")
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_PLACE_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, loaded or not, and nothing that they are made of."""
    return sorted([*__all__, "__version__"])
