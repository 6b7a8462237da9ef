"""KanonflowOptions: flags of a pipeline of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from kanonflow.pipelines.options.options import beam_options
from kanonflow.pipelines.own_pipelines.pipeline_options import KanonflowOptions
from kanonflow.pipelines.runs.secret_sources import ManagedSecret, SecretFile, SecretVariable
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.transforms.secret.seeds import SecretError

POLICY = "version: 1\nk: 3\nfields: {a: {role: quasi, type: categorical}, b: {role: insensitive}}\n"


def options(*flags: str) -> KanonflowOptions:
    """As a pipeline gets them."""
    return PipelineOptions([*flags, "--runner=FnApiRunner"]).view_as(KanonflowOptions)


def test_the_flags_describe_the_transform(tmp_path: Path) -> None:
    """Its policy, its secret's place and its threads; further arguments go through."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    own = options(f"--kanonflow_policy={path}", "--kanonflow_secret_env=S", "--kanonflow_threads=2")
    transform = own.k_anonymize(matching_records=True)
    assert transform.bound.policy.k == 3
    assert own.secret() == SecretVariable("S")
    assert (transform._threads, transform._matching_records) == (2, True)
    assert own.k_anonymize(threads=1)._threads == 1


def test_the_place_of_the_secret_is_one() -> None:
    """A path is made absolute: workers start elsewhere."""
    assert options("--kanonflow_secret_file=/a/b").secret() == SecretFile("/a/b")
    name = "projects/p/secrets/s/versions/3"
    assert options(f"--kanonflow_secret_manager={name}").secret() == ManagedSecret(name)
    for flags in ((), ("--kanonflow_secret_file=/a", "--kanonflow_secret_env=S")):
        with pytest.raises(SecretError, match="give one of --kanonflow_secret_file"):
            options(*flags).secret()


def test_what_is_missing_is_named() -> None:
    """The flag, or the policy's own mistakes."""
    with pytest.raises(InputError, match="give --kanonflow_policy"):
        options("--kanonflow_secret_env=S").k_anonymize()
    with pytest.raises(PolicyError, match="cannot be read"):
        options("--kanonflow_policy=none.yaml", "--kanonflow_secret_env=S").k_anonymize()


def test_beams_own_flags_stay_what_they_are() -> None:
    """No flag of ours has the name of one of Beam's, which would end every pipeline of the process."""
    assert beam_options(("--kanonflow_threads=2", "--job_name=x")).get_all_options()["job_name"] == "x"
    ours = [name for name in options().get_all_options() if name.startswith("kanonflow")]
    assert len(ours) == 5
