"""Whether files fit a policy, by a sample of them: what ``policy check`` says and what a run looks at first."""

from __future__ import annotations

from collections.abc import Sequence

from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.pipelines.feeds.spread_sample import MOST_FILES, spread_sample
from kanonflow.pipelines.fit.input_fit import InputFit, InputMisfitError, input_fit
from kanonflow.pipelines.fit.text_mends import encoding_mend
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.text_form import CsvForm

_SEED = 1


def sampled_fit(
    files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm, reading: Reading = read_batches
) -> InputFit:
    """A sample spread over the files, cast as the policy says. Raises InputError: a file is damaged."""
    samples = spread_sample(files, bound.input_columns, csv, seed=_SEED, reading=reading)
    return input_fit(samples, bound, whole=len(files) <= MOST_FILES)


def refused_input(
    fit: InputFit,
    files: Sequence[InputFile],
    csv: CsvForm,
    source: str,
    error: type[InputMisfitError] = InputMisfitError,
) -> InputMisfitError | None:
    """The error for an input that does not fit; None: it does. error: RunMisfitError where a run ends with it."""
    if fit.fits:
        return None
    torn = [file for file in files if file.path == fit.broken_file]
    mend = encoding_mend(torn[0], csv) if torn else ""
    return error(list(fit.mistakes(mend)), source)
