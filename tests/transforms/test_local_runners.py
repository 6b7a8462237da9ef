"""Prism runs no transform of ours: refused by name, and warned of where Beam might choose it."""

from __future__ import annotations

import platform
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.testing import test_stream as stepped

from kanonflow.pipelines.options.options import OptionsError, parse, run_options
from kanonflow.transforms import anonymize
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.local_runners import RunnerError, RunnerWarning
from kanonflow.transforms.sinks.sinks import WriteReleases
from kanonflow.transforms.windows import solve_windows
from kanonflow.transforms.windows.solve_windows import SolveWindows
from tests.runners import bounded_pipeline, streaming_pipeline
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


class _Steps(PipelineVisitor):
    """What a pipeline's stateful step is."""

    def __init__(self) -> None:
        self.found: list[SolveWindows] = []

    def visit_transform(self, transform_node: Any) -> None:
        step = getattr(transform_node.transform, "fn", None)
        if isinstance(step, SolveWindows):
            self.found.append(step)


@pytest.mark.parametrize(
    ("runner", "feed", "at_end"),
    [
        ("FnApiRunner", beam.Create([]), True),
        ("BundleBasedDirectRunner", stepped.TestStream(), False),
        ("FlinkRunner", beam.Create([]), False),
    ],
)
def test_a_feed_that_ends_is_released_at_its_end_in_this_process_alone(
    runner: str, feed: beam.PTransform, at_end: bool
) -> None:
    """Elsewhere a bundle that does all of it would hold up checkpoints, and be done again as a whole."""
    pipeline, steps = beam.Pipeline(runner=runner), _Steps()
    _ = pipeline | feed | KAnonymize(feed_policy(), SECRET)
    pipeline.visit(steps)
    (step,) = steps.found
    assert step.partition_step().at_end is at_end


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


@pytest.fixture
def prism(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stub of the service that Prism takes jobs with; what it was asked for. The mark that keeps Beam's switch off is
    gone, as if a later Beam did not heed it."""
    asked: list[str] = []

    def service(*given: object) -> None:
        asked.append("a job")
        raise HandedOverError

    monkeypatch.setattr(PrismRunner, "create_job_service", service)
    monkeypatch.setattr(SolveWindows, "is_materialize_values_do_fn", False)
    return asked


def built(tmp_path: Path, runner: str, **options: bool) -> beam.Pipeline:
    """A pipeline that releases six people and writes them."""
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(**options))
    rows = [row(number, number, 0.5) for number in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunnerWarning)
        done = pipeline | beam.Create(rows) | KAnonymize(feed_policy(), SECRET)
    _ = done.released | WriteReleases(str(tmp_path), done.bound)
    return pipeline


@pytest.mark.parametrize("runner", ["FnApiRunner", "DirectRunner", "BundleBasedDirectRunner"])
def test_what_is_handed_to_prism_all_the_same_fails_before_a_row_is_published(
    tmp_path: Path, prism: list[str], runner: str
) -> None:
    """Its graph is not made, so it gets no job, and nothing is written. A pipeline without the transform it would
    take."""
    pipeline = built(tmp_path, runner)
    with pytest.raises(RuntimeError, match="KAnonymize") as refused:
        PrismRunner().run_pipeline(pipeline, pipeline.options)
    assert isinstance(refused.value.__cause__, RunnerError)
    assert 'name the runner where the pipeline is made, runner="FnApiRunner"' in str(refused.value.__cause__)
    assert prism == []
    assert not any(tmp_path.rglob("*.avro"))
    plain = beam.Pipeline(runner=runner)
    _ = plain | beam.Create([1])
    with pytest.raises(HandedOverError):
        PrismRunner().run_pipeline(plain, plain.options)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_switch_that_chooses_prism_comes_back_to_another_runner(
    tmp_path: Path, prism: list[str], streaming: bool
) -> None:
    """Beam's switch goes on where Prism does not begin. For streaming it makes the pipeline anew from its graph, and
    the transform there still knows what it was built for."""
    pipeline = built(tmp_path, "DirectRunner", streaming=streaming)
    pipeline.run().wait_until_finish()
    assert prism == []
    assert len(list((tmp_path / "release").glob("*.avro"))) == 1


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


@pytest.mark.parametrize(("runner", "compressed"), [("FnApiRunner", False), ("FlinkRunner", True)])
def test_releases_are_compressed_for_other_processes_only(
    runner: str, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on this machine hands them from step to step."""
    asked: list[bool] = []
    own = anonymize.SolveWindows
    monkeypatch.setattr(
        anonymize,
        "SolveWindows",
        lambda *given, **named: asked.append(named["compressed"]) or own(*given, **named),
    )
    apply(runner)
    assert asked == [compressed]


FREED = """
import pathlib
from kanonflow.transforms.local_runners import return_freed_memory

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

pieces = [bytes([number % 250]) * 100_000 for number in range(3000)]
some = pieces[::50]
held = resident()
del pieces
return_freed_memory()
print(held - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_freed_memory_goes_back_to_the_system() -> None:
    """Of 300 MB that were freed in pieces between which something lives on, most."""
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 200_000_000


@pytest.mark.parametrize("bounded", [True, False])
def test_a_bounded_local_run_makes_room_before_its_windows(
    bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the step begins that keeps the rows; not at each bundle of a stream."""
    asked: list[bool] = []
    monkeypatch.setattr(solve_windows, "return_freed_memory", lambda: asked.append(True))
    rows = [row(number, number, 0.5) for number in range(6)]
    with bounded_pipeline() if bounded else streaming_pipeline() as pipeline:
        feed = stepped.TestStream().add_elements(rows).advance_watermark_to_infinity()
        _ = pipeline | (beam.Create(rows) if bounded else feed) | KAnonymize(feed_policy(), SECRET)
    assert bool(asked) is bounded
