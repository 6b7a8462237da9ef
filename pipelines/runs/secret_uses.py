"""A secret's file is nothing else: not what the run reads, and not its policy, which others have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kanonflow.pipelines.runs.secret_sources import SecretFile
from kanonflow.transforms.secret.seeds import SecretError, SecretSource


def refuse_shared_secret(
    sources: Sequence[SecretSource | None], used: Iterable[str], directories: Iterable[str] = ()
) -> None:
    """Raise SecretError if a secret's file is among the files that are used otherwise, or below a directory of theirs.

    sources: the secrets, those of --previous-secret too. used: paths of policy and input. directories: what a stream
    reads everything of. Files are compared, not names: a link to the secret is the secret.
    """
    others = [path for path in used if os.path.exists(path)]
    for source in sources:
        if not isinstance(source, SecretFile) or not os.path.exists(source.path):
            continue
        for path in others:
            if os.path.samefile(path, source.path):
                raise SecretError(
                    f"the secret file {source.path} is also {path}, which the run reads as policy or input: whoever has"
                    " that has the secret; give a file of its own"
                )
        for folder in directories:
            inside = os.path.realpath(source.path).startswith(os.path.join(os.path.realpath(folder), ""))
            if inside:
                raise SecretError(
                    f"the secret file {source.path} is in {folder}, which the run reads as its input; keep it elsewhere"
                )
