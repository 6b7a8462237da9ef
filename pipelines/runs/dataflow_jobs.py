"""What is different when the runner is Dataflow: workers on other machines, and a launcher that only submits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    WorkerOptions,
)

from kanonflow.pipelines.options.options import OptionsError, RunOptions, beam_options
from kanonflow.pipelines.runs.secret_sources import ManagedSecret, previous_sources, secret_source
from kanonflow.transforms.files import storage
from kanonflow.transforms.secret.seeds import SecretSource

AT_LEAST_ONCE = "streaming_mode_at_least_once"


def is_dataflow(runner: str) -> bool:
    """Whether a runner, by its name with or without a module, is Dataflow."""
    return runner.rsplit(".", 1)[-1].lower() in ("dataflowrunner", "dataflow")


def only_submits(options: PipelineOptions) -> bool:
    """Whether ``run`` writes the job graph and ends, as in a Flex Template's launcher: nothing is to be waited for."""
    return options.view_as(GoogleCloudOptions).template_location is not None


def check_runner(options: RunOptions, inputs: Sequence[str]) -> None:
    """Refuse what cannot work if Dataflow is to run the job; on other runners nothing.

    To be called first: it looks at arguments only. Nothing is read, made or fetched, so a refusal leaves no trace.
    inputs: as ``check_for_dataflow`` has them. Raises OptionsError with every mistake; SecretError: no reference.
    """
    if is_dataflow(options.runner):
        secret = secret_source(options.secret_file, options.secret_env, options.secret_manager)
        replaced = previous_sources(options.previous_secrets)
        check_for_dataflow(beam_options(options.beam_flags), options.output, inputs, secret, replaced)


def check_for_dataflow(
    options: PipelineOptions,
    output: str,
    inputs: Sequence[str],
    secret: SecretSource | None,
    replaced: Sequence[SecretSource] = (),
) -> None:
    """Refuse what cannot work when Dataflow runs the job. Raises OptionsError with every mistake.

    inputs: patterns, directories or addresses, as given. secret: where it comes from; None: no flag was given.
    replaced: where the secrets are that the run used before.
    """
    mistakes = list(_mistakes(options, output, inputs, [secret, *replaced]))
    if mistakes:
        raise OptionsError("--runner DataflowRunner: " + "; ".join(mistakes))


def _mistakes(
    options: PipelineOptions, output: str, inputs: Sequence[str], secrets: Sequence[SecretSource | None]
) -> Iterator[str]:
    if storage.scheme_of(output) is None:
        yield f"--output or --restricted {output} is on this machine, which workers do not see; give a gs:// prefix"
    for pattern in inputs:
        if "://" not in pattern:
            yield f"{pattern} is on this machine, which workers do not see; put it in a bucket"
    if not all(isinstance(secret, ManagedSecret) for secret in secrets):
        yield (
            "workers get the secret from Secret Manager only; give --secret-manager"
            " projects/PROJECT/secrets/SECRET/versions/NUMBER"
        )
    cloud = options.view_as(GoogleCloudOptions)
    if not cloud.project:
        yield "--project is missing"
    if not (cloud.temp_location or cloud.staging_location):
        yield "--temp_location is missing; give a gs:// prefix"
    setup = options.view_as(SetupOptions)
    if not (options.view_as(WorkerOptions).sdk_container_image or setup.setup_file or setup.extra_packages):
        yield "workers have no kanonflow; give --sdk_container_image (deploy/dataflow) or --setup_file=./setup.py"
    if AT_LEAST_ONCE in (cloud.dataflow_service_options or ()):
        yield f"--dataflow_service_options={AT_LEAST_ONCE} is refused: rows could be released twice"
