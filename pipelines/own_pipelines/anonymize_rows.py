"""AnonymizeRows: rows in, rows out, with everything said in words and numbers. The step of a pipeline in Beam YAML."""

# Beam YAML reads the annotations of the constructor, which must be types and no text of them.

from collections.abc import Mapping
from functools import partial
from typing import Optional

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints.decorators import no_annotations

from kanonflow.pipelines.analysis.flat_columns import Flat, flat_table
from kanonflow.pipelines.analysis.released_fields import ReleasedField, release_form
from kanonflow.pipelines.runs.secret_sources import secret_source
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.secret.seeds import SecretError
from kanonflow.transforms.sinks.beam_rows import RejectedAsRows, ReleasedRows

NESTED = "nested"
GOOD = "rows"
"""The output of released records."""
_BEAMS_NAMES = ("good", "None")
FLAT = (*(str(form) for form in Flat), NESTED)


class AnonymizeRows(beam.PTransform):
    """K-anonymize rows with named fields, and give the released records as rows.

    Both outputs are windowed as the input is; each row has a time within the window of its release.
    Rows with a type bind the policy to it. Rows of dicts, and rows whose fields are all text, as of a CSV file, are
    cast as the policy says. Nulls are None, NaN, and in text what the policy's ``csv: {nulls: ...}`` says.

    Args:
      policy (str): the path of the policy's file, where the pipeline is put together.
      secret_file (str): a file with the secret, which each worker reads. One of the three is needed.
      secret_env (str): a variable of each worker's environment with the secret.
      secret_manager (str): projects/PROJECT/secrets/SECRET/versions/NUMBER.
      flat (str): how ranges and sets are laid out: ``columns`` (a range age as age_min, age_max, age_mid and age_nulls,
        a set as text), ``label`` (as one text), ``mid`` (as its middle), or ``nested`` (as rows and lists).
      plain (bool): days, instants and decimals as text of ISO 8601, which every format takes; false: as Beam's types.
      threads (int): of the search in a window; by default all cores of the worker.
      verdict (str): check.json of ``policy check --for DIR``, of this policy; else the first windows are measured.
      error_handling (dict): ``output`` names the output of rejected rows. They are raw data: what is done with them
        must stay where the input is. It must be given, as some rows can never be released.
    """

    def __init__(
        self,
        policy: str,
        secret_file: Optional[str] = None,  # noqa: UP045 - as Beam reads it
        secret_env: Optional[str] = None,  # noqa: UP045
        secret_manager: Optional[str] = None,  # noqa: UP045
        flat: str = "columns",
        plain: bool = True,
        threads: Optional[int] = None,  # noqa: UP045
        verdict: Optional[str] = None,  # noqa: UP045
        error_handling: Optional[Mapping[str, str]] = None,  # noqa: UP045
    ) -> None:
        """Raises InputError: an option is wrong or missing; PolicyError, SecretError and others as ``KAnonymize``."""
        super().__init__()
        secret = secret_source(secret_file, secret_env, secret_manager)
        if secret is None:
            raise SecretError(
                "give secret_file, secret_env or secret_manager: where each worker finds the secret"
            )
        if flat not in FLAT:
            raise InputError(f"flat: {flat} is none of {', '.join(FLAT)}")
        if not error_handling or set(error_handling) != {"output"}:
            raise InputError(
                "error_handling: say {output: NAME}, and what becomes of that output. Rows that do not fit the"
                " policy, or have too few peers, come there; they are raw data"
            )
        output = error_handling["output"]
        if not isinstance(output, str) or output in ("", GOOD, *_BEAMS_NAMES):
            raise InputError(
                f"error_handling: output: give the rejected rows a name of their own, as rejected; {GOOD!r} names the"
                " released ones, and good and None mean something to Beam"
            )
        self._anonymize = KAnonymize(policy, secret, threads=threads, verdict=verdict)
        self._flat = flat
        self._plain = plain
        self._errors = output

    @no_annotations
    def expand(self, rows: beam.PCollection) -> dict[str, beam.PCollection]:
        """``rows``: the released records; under the name of ``error_handling`` the rejected ones."""
        anonymized = rows | "KAnonymize" >> self._anonymize
        lay_out = None if self._flat == NESTED else partial(_laid_flat, _fields(anonymized.bound), self._flat)
        released = ReleasedRows(anonymized.bound, plain=self._plain, lay_out=lay_out)
        # Rows whose time nobody could read stand before all windows: a fixed one of theirs begins before time does,
        # which sinks of files cannot take.
        windows = rows.windowing.windowfn
        return {
            GOOD: anonymized.released | "Rows" >> released | "Windows" >> beam.WindowInto(windows),
            self._errors: anonymized.rejected
            | "Rejected" >> RejectedAsRows()
            | "Windows of rejected" >> beam.WindowInto(windows),
        }


def _fields(bound: BoundPolicy) -> tuple[ReleasedField, ...]:
    return release_form(release_avro_schema(bound), with_epoch=False).fields


def _laid_flat(fields: tuple[ReleasedField, ...], flat: str, table: pa.Table) -> pa.Table:
    return flat_table(table, fields, flat)
