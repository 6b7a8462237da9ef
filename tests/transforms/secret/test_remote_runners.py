"""A secret by value stays on this machine: which runners are remote, and what is refused there."""

from __future__ import annotations

from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from kanonflow.pipelines.runs.secret_sources import ManagedSecret, PinnedSecret, SecretFile, SecretVariable
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.secret.remote_runners import is_remote, refuse_secret_in_graph
from kanonflow.transforms.secret.seeds import Secret, SecretError, SecretSource
from tests.small_feeds import feed_policy

pytestmark = pytest.mark.thorough

SECRET = Secret(bytes(range(50, 90)))


def _pipeline(runner: str, *flags: str) -> beam.Pipeline:
    return beam.Pipeline(runner=runner, options=PipelineOptions(list(flags)))


@pytest.mark.parametrize(
    ("runner", "flags", "remote"),
    [
        ("FnApiRunner", (), False),
        ("BundleBasedDirectRunner", (), False),
        ("DirectRunner", (), False),
        ("FlinkRunner", (), False),
        ("FlinkRunner", ("--flink_master=[local]",), False),
        ("FlinkRunner", ("--flink_master=localhost:8081",), True),
        ("FlinkRunner", ("--flink_master=jobmanager:8081",), True),
        ("FlinkRunner", ("--environment_type=EXTERNAL", "--environment_config=pool:50000"), True),
        ("FlinkRunner", ("--job_endpoint=jobs:8099",), True),
        ("PortableRunner", ("--job_endpoint=jobs:8099",), True),
        ("PortableRunner", ("--job_endpoint=jobs:8099", "--environment_type=LOOPBACK"), True),
        ("PortableRunner", ("--job_endpoint=localhost:8099", "--environment_type=DOCKER"), True),
        ("PortableRunner", ("--job_endpoint=localhost:8099", "--environment_type=LOOPBACK"), False),
        ("PortableRunner", ("--job_endpoint=[::1]:8099", "--environment_type=LOOPBACK"), False),
        ("PortableRunner", ("--job_endpoint=embed",), False),
        ("SparkRunner", (), True),
    ],
)
def test_a_secret_by_value_is_refused_where_the_graph_leaves(
    runner: str, flags: tuple[str, ...], remote: bool
) -> None:
    """When the transform is applied, before anything is submitted; a reference passes everywhere."""
    pipeline = _pipeline(runner, *flags)
    assert is_remote(pipeline) is remote
    records = pipeline | beam.Create([])
    by_value: list[SecretSource] = [SECRET, PinnedSecret(SECRET, SECRET.commit())]
    for number, source in enumerate(by_value):
        if remote:
            with pytest.raises(SecretError, match="SecretFile, SecretVariable or ManagedSecret") as caught:
                records | f"Refused{number}" >> KAnonymize(feed_policy(), source)
            assert caught.value.exit_code == 2
        else:
            _ = records | f"Taken{number}" >> KAnonymize(feed_policy(), source)
    managed = ManagedSecret("projects/p/secrets/s/versions/3")
    references: list[SecretSource] = [SecretFile("/secret/key"), SecretVariable("KEY"), managed]
    references.append(PinnedSecret(SecretFile("/secret/key"), SECRET.commit()))
    for number, source in enumerate(references):
        _ = records | f"Reference{number}" >> KAnonymize(feed_policy(), source)


def test_dataflow_is_remote() -> None:
    """Told by its class: to make one asks Google's servers."""
    runner = type("DataflowRunner", (), {})()
    pipeline = SimpleNamespace(runner=runner, options=PipelineOptions([]))
    with pytest.raises(SecretError, match="DataflowRunner: the job graph would hold the secret"):
        refuse_secret_in_graph(pipeline, SECRET)  # type: ignore[arg-type]
    refuse_secret_in_graph(pipeline, SecretVariable("KEY"))  # type: ignore[arg-type]


def test_a_runner_that_nobody_knows_is_remote() -> None:
    """A new runner is refused until somebody has looked where its graphs go."""
    options = PipelineOptions([])
    assert is_remote(SimpleNamespace(runner=object(), options=options))  # type: ignore[arg-type]
    inside = SimpleNamespace(_underlying_runner=_pipeline("FnApiRunner").runner)
    assert not is_remote(SimpleNamespace(runner=inside, options=options))  # type: ignore[arg-type]
