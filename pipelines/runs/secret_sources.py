"""Where a job's secret is: references that travel in the job graph in the place of the secret.

The launcher resolves a reference once, to bind the output directory to the secret. Each worker resolves it again when
it sets its steps up, and refuses a secret that is not the launcher's: one that was exchanged under a running job ends
in an error, not in a second release of the same rows under other keys.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kanonflow.transforms.secret.seeds import Secret, SecretError, SecretSource

_MANAGED = re.compile(r"projects/[^/\s]+/secrets/[A-Za-z0-9_-]+/versions/(?P<version>[^/\s]+)")


@dataclass(frozen=True)
class SecretFile:
    """A file, which every worker must find under the same path."""

    path: str

    def resolve(self) -> Secret:
        """What the file holds, version 1. Raises SecretError: unreadable here, open to others, short, guessable."""
        try:
            return Secret.from_file(self.path)
        except SecretError as error:
            raise SecretError(f"--secret-file {self.path}: {error}") from None


@dataclass(frozen=True)
class SecretVariable:
    """An environment variable, which must be set for every worker."""

    name: str

    def resolve(self) -> Secret:
        """What the variable holds, version 1. Raises SecretError: not set here, or too short."""
        try:
            return Secret.from_environment(self.name)
        except SecretError as error:
            raise SecretError(f"--secret-env {self.name}: {error}") from None


@dataclass(frozen=True)
class ManagedSecret:
    """One version of a secret in Google Cloud's Secret Manager.

    name: ``projects/P/secrets/S/versions/N``. Raises SecretError for any other form; N must be a number, for a
    window is finished under the version it began with, and what ``latest`` or another alias means can change.
    """

    name: str

    def __post_init__(self) -> None:
        match = _MANAGED.fullmatch(self.name)
        if match is None:
            raise SecretError(
                f"--secret-manager {self.name}: expected projects/PROJECT/secrets/SECRET/versions/NUMBER"
            )
        version = match["version"]
        if re.fullmatch("[1-9][0-9]*", version) is None:
            raise SecretError(
                f"--secret-manager {self.name}: name a version by its number. What {version} stands for can change"
                " while the job runs, and a window must be finished under the secret it began with, or its rows"
                " could be released twice"
            )

    @property
    def version(self) -> int:
        """The version's number, which the metrics of every release record."""
        return int(self.name.rpartition("/")[2])

    def resolve(self) -> Secret:
        """Fetch the version's bytes, as Beam does. Raises SecretError: refused, not there, or too short."""
        from apache_beam.utils.secret import GcpSecret

        try:
            key = GcpSecret(self.name).get_secret_bytes()
        except RuntimeError as error:  # around whatever the client raised, with the client's text in its own
            reason = error.__context__
            hint = (
                "install kanonflow[gcp]"
                if isinstance(reason, ImportError)
                else "the service account of the launcher and that of the workers need"
                " roles/secretmanager.secretAccessor on it, and the version must be enabled"
            )
            kind = type(reason or error).__name__
            raise SecretError(f"--secret-manager {self.name}: cannot be read ({kind}); {hint}") from None
        try:
            return Secret(key, self.version)
        except SecretError as error:
            raise SecretError(f"--secret-manager {self.name}: {error}") from None


@dataclass(frozen=True)
class PinnedSecret:
    """A source whose secret must be the one that a job began with.

    commitment: ``Secret.commit`` of that secret, which fixes it and tells nothing about it.
    version: its number in the run; None: its own.  replaced: those that the run used before it, oldest first.
    """

    source: SecretSource
    commitment: str
    version: int | None = None
    replaced: tuple[PinnedSecret, ...] = ()

    def resolve(self) -> Secret:
        """The source's secret. Raises SecretError: it cannot be had, or is another one by now."""
        secret = self.source.resolve()
        if not hmac.compare_digest(secret.commit(), self.commitment):
            raise SecretError(
                f"{_flag(self.source)}: this worker finds another secret there than the launcher did. A job keeps its"
                " secret: restore it, or stop the job and resume it with the new one (--previous-secret)"
            )
        return secret.after([each.resolve() for each in self.replaced], self.version)


def secret_source(
    file: str | None = None, variable: str | None = None, managed: str | None = None
) -> SecretFile | SecretVariable | ManagedSecret | None:
    """The reference that the flags --secret-file, --secret-env or --secret-manager give; None when none is given.

    Raises SecretError: more than one is given, or the name is none of Secret Manager's.
    """
    sources = [
        flag for flag, value in (("file", file), ("env", variable), ("manager", managed)) if value is not None
    ]
    if len(sources) > 1:
        raise SecretError(f"give one of {' and '.join(f'--secret-{flag}' for flag in sources)}, not both")
    if file is not None:
        return SecretFile(os.path.abspath(file))
    if variable is not None:
        return SecretVariable(variable)
    return None if managed is None else ManagedSecret(managed)


def previous_sources(given: Sequence[str]) -> tuple[SecretFile | SecretVariable | ManagedSecret, ...]:
    """The references that --previous-secret gives: file:PATH, env:NAME or manager:VERSION. Raises SecretError."""
    sources = []
    for reference in given:
        kind, _, name = reference.partition(":")
        if kind not in ("file", "env", "manager") or not name:
            raise SecretError(
                f"--previous-secret {reference}: expected file:PATH, env:NAME or"
                " manager:projects/PROJECT/secrets/SECRET/versions/NUMBER"
            )
        source = secret_source(**{{"file": "file", "env": "variable", "manager": "managed"}[kind]: name})
        assert source is not None
        sources.append(source)
    return tuple(sources)


def pinned_secret(secret: Secret, sources: Sequence[SecretSource]) -> PinnedSecret:
    """What a job graph holds of a secret and of those that it replaced; ``sources``: where each of them is."""
    by_commitment = {source.resolve().commit(): source for source in sources}
    links = [PinnedSecret(by_commitment[each.commit()], each.commit(), each.version) for each in secret.chain]
    return replace(links[-1], replaced=tuple(links[:-1]))


def _flag(source: SecretSource) -> str:
    match source:
        case SecretFile(path):
            return f"--secret-file {path}"
        case SecretVariable(name):
            return f"--secret-env {name}"
        case ManagedSecret(name):
            return f"--secret-manager {name}"
    return "the secret"
