"""KanonflowOptions: the flags of a pipeline of one's own, so that nobody writes a parser for them again."""

from __future__ import annotations

import argparse
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from kanonflow.pipelines.runs.secret_sources import ManagedSecret, SecretFile, SecretVariable, secret_source
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.secret.seeds import SecretError


class KanonflowOptions(PipelineOptions):
    """``options.view_as(KanonflowOptions)``: --kanonflow_policy, one of --kanonflow_secret_file, _env and _manager,
    and --kanonflow_threads.

    The flags name a secret and hold none. Beam keeps them with the job as it keeps all of its options, and a cluster
    shows them.
    """

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--kanonflow_policy", help="path of the policy's file, here")
        parser.add_argument("--kanonflow_secret_file", help="a file with the secret, which each worker reads")
        parser.add_argument("--kanonflow_secret_env", help="a variable of each worker's environment with it")
        parser.add_argument(
            "--kanonflow_secret_manager", help="projects/PROJECT/secrets/SECRET/versions/NUMBER"
        )
        parser.add_argument(
            "--kanonflow_threads", type=int, help="of the search in a window; default: the policy's"
        )

    def secret(self) -> SecretFile | SecretVariable | ManagedSecret:
        """Where workers find the secret. Raises SecretError: none of the flags is given, or more than one."""
        told = self.get_all_options()
        names = ("file", "env", "manager")
        given = {name: told[f"kanonflow_secret_{name}"] for name in names}
        if sum(each is not None for each in given.values()) != 1:
            raise SecretError(
                "give one of "
                + ", ".join(f"--kanonflow_secret_{name}" for name in names)
                + ": where workers find it"
            )
        source = secret_source(given["file"], given["env"], given["manager"])
        assert source is not None
        return source

    def k_anonymize(self, **others: Any) -> KAnonymize:
        """The transform that the flags describe; others: its further arguments. Raises InputError, and as it does."""
        told = self.get_all_options()
        if told["kanonflow_policy"] is None:
            raise InputError("give --kanonflow_policy: the path of the policy's file")
        threads = {"threads": told["kanonflow_threads"]} | others
        return KAnonymize(told["kanonflow_policy"], self.secret(), **threads)
