"""Prism runs no transform of ours: refused by name, and warned of where Beam might choose it."""

from __future__ import annotations

import warnings

import apache_beam as beam
import pytest
from apache_beam.runners.portability.prism_runner import PrismRunner

from kanonflow.pipelines.options.options import OptionsError, parse, run_options
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.local_runners import RunnerError, RunnerWarning
from tests.small_feeds import SECRET, feed_policy, row


def apply(runner: str | None) -> None:
    """Put a pipeline together."""
    beam.Pipeline(runner=runner) | beam.Create([]) | KAnonymize(feed_policy(), SECRET)


@pytest.mark.parametrize("runner", [None, "DirectRunner", "SwitchingDirectRunner"])
def test_beams_default_runner_is_warned_of(runner: str | None) -> None:
    """When the transform is applied; the warning names the runner to say."""
    with pytest.warns(RunnerWarning, match='runner="FnApiRunner"'):
        apply(runner)


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner", "FlinkRunner"])
def test_a_runner_that_is_named_is_not(runner: str) -> None:
    """No warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunnerWarning)
        apply(runner)


class HandedOverError(BaseException):
    """Prism was given a pipeline. No Exception: Beam's switch would go on with another runner."""


def test_beams_switch_hands_no_pipeline_of_ours_to_prism(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub stands for Prism. It is given a pipeline without the transform, and none with it; another runner is."""

    def handed(*given: object) -> None:
        raise HandedOverError

    monkeypatch.setattr(PrismRunner, "run_pipeline", handed)
    plain = beam.Pipeline(runner="DirectRunner")
    _ = plain | beam.Create([1])
    with pytest.raises(HandedOverError):
        plain.run()
    ours = beam.Pipeline(runner="DirectRunner")
    rows = [row(number, number, 0.5) for number in range(6)]
    with pytest.warns(RunnerWarning):
        _ = ours | beam.Create(rows) | KAnonymize(feed_policy(), SECRET)
    ours.run().wait_until_finish()


def test_prism_is_refused_by_name() -> None:
    """In a pipeline of one's own, and as a flag of the commands."""
    with pytest.raises(RunnerError, match='say runner="FnApiRunner"') as refused:
        apply("PrismRunner")
    assert refused.value.exit_code == 2
    for name in ("PrismRunner", "prism", "apache_beam.runners.portability.prism_runner.PrismRunner"):
        given = ["anonymize", "--policy", "p", "--input", "i", "--output", "o", "--runner", name]
        arguments, flags = parse(given)
        with pytest.raises(OptionsError, match="open faults with timers"):
            run_options(arguments, flags)
