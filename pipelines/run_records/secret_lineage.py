"""The secrets that a run has used, one after the other: what run.json records of them, and what a resumed run may use.

run.json lists version and commitment of each, oldest first. The version is what windows in the keyed state remember;
it is numbered here, because a file has none of its own. Nothing else may number them: a window that began under
version 2 must find the same bytes under 2 for ever.

A stream rotates its secret when it is resumed with a new one and all that it used before. Windows that began are
finished under theirs, later ones begin under the new one (``partition_clock``). The first secret is needed as long as
the feed goes on: the keys that state is found by, and release ids, are derived from it (``Secret.lasting``).
A bounded run has no later windows: it is finished under the secret that it began with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kanonflow.pipelines.run_records.run_record import read_record
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.secret.seeds import Secret, SecretError


def lineage_record(secret: Secret) -> dict[str, Any]:
    """What run.json holds of a run's secrets: the first one's commitment, and version and commitment of each."""
    chain = secret.chain
    return {"secret": chain[0].commit(), "secrets": [[each.version, each.commit()] for each in chain]}


def continued_secret(
    record: Mapping[str, Any], given: Secret, previous: Sequence[Secret], *, rotates: bool
) -> tuple[Secret, tuple[str, ...]]:
    """The secret that a run goes on with, behind those that it replaced, and what to tell the user.

    record: run.json. given: the secret of --secret-...; previous: those of --previous-secret, in any order.
    rotates: whether the run may take up a new one (streams).

    Another secret without any previous one is returned as it is: the caller refuses it as another run's.
    Raises SecretError: one that the run has used is not given, one that it never used is, or an old one comes back.
    """
    used = _used(record)
    by_commitment = {secret.commit(): secret for secret in (*previous, given)}
    missing = [version for version, commitment in used if commitment not in by_commitment]
    if missing and len(used) == 1 and not previous:
        return given, ()
    if missing:
        raise SecretError(
            f"the run has used {len(used)} secret{'s' if len(used) > 1 else ''}, and version"
            f" {', '.join(map(str, missing))} is not given: name each that it used before with --previous-secret"
        )
    commitments = [commitment for _, commitment in used]
    if any(secret.commit() not in commitments for secret in previous):
        raise SecretError("--previous-secret: names a secret that this run never used")
    chain = [by_commitment[commitment].after((), version) for version, commitment in used]
    now = given.commit()
    if now == commitments[-1]:
        return chain[-1].after(chain[:-1]), ()
    if now in commitments:
        raise SecretError(
            "the secret given was replaced in this run already: give the newest one, the others with"
            " --previous-secret"
        )
    if not rotates:
        note = "This run is finished under the secret it began with; the new one is for the next run."
        return chain[-1].after(chain[:-1]), (note,)
    newest = max(version for version, _ in used)
    version = given.version if given.version > newest else newest + 1
    note = (
        f"New secret, version {version}: windows that have begun are finished under the one they began with. Keep all"
        " of them, and name the old ones with --previous-secret in every later run of this feed."
    )
    return given.after(chain, version), (note,)


def _used(record: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Version and commitment of each secret the run has used. Raises SecretError: the record does not say."""
    if "secrets" not in record:
        raise SecretError(
            "restricted/run.json does not say which secrets the run has used: it is of another build, which has to"
            " finish or audit it"
        )
    return [(int(version), str(commitment)) for version, commitment in record["secrets"]]


def secret_of_run(output: str, given: Secret, previous: Sequence[Secret]) -> Secret:
    """The secret of a finished run with those that it replaced, as run.json has them; the given one without run.json.

    Raises SecretError: one that the run has used is not given, or one that it never used is.
    """
    record = read_record(restricted_directory(output))
    return given if record is None else continued_secret(record, given, previous, rotates=False)[0]
