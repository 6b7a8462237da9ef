"""``kanonflow forget``: what the cohorts of a run hold of a person is deleted; its place in them stays.

The frozen values become null and ``forgotten`` true. The digest stays, for who comes back must not found a cohort
again, and so do the boxes: they are published, and a value of a box that was this person's alone stays in it.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.run_records.run_directory import RunDirectoryError, lock_directory
from kanonflow.pipelines.run_records.run_record import read_record
from kanonflow.pipelines.run_records.secret_lineage import secret_of_run
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.committed_rosters import EXPECTED, PEOPLE, cohorts_directory
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.roster.cohort_files import COHORT_FIELD, FORGOTTEN, PERSON
from kanonflow.transforms.secret.seeds import Secret, SecretError
from kanonflow.transforms.windows.chain import carried_from_bytes


class Forgotten(NamedTuple):
    """found: people whose values are gone now, or were already. missing: people who are in no cohort of the run."""

    found: int
    missing: int

    def render(self) -> str:
        """One line, without a name."""
        return f"{self.found:,} people forgotten, {self.missing:,} not found"

    def to_json(self) -> str:
        """The same as a JSON object."""
        return json.dumps(self._asdict())


def forget(output: str, individual_file: str, given: Secret | None, previous: list[Secret]) -> Forgotten:
    """Forget the people that a file names, in the cohorts of a run. Doing it again changes nothing.

    output: the run's. given: its secret, None: the one that it drew itself. previous: those that it used before.

    Each file is replaced at once: a crash leaves it as it was or as it is to be.
    Raises InputError: the file cannot be read. RunDirectoryError: it is no local output with cohorts, or somebody is
    writing there. SecretError: the secrets given are not those of the run.
    """
    restricted = restricted_directory(output)
    if not is_local(output) or (read_record(restricted) or {}).get("cohorts") is None:
        raise RunDirectoryError(f"{output} is no local output of a run with cohort: lasting")
    secret = secret_of_run(output, _own(restricted) if given is None else given, previous)
    if not secret.opens((read_record(restricted) or {}).get("secret")):
        raise SecretError("the secret is not the run's: under another one nobody would be found")
    names = _names(individual_file)
    digests = np.unique(person_digests(names, secret.lasting.derive("partition", "people")))
    gone = np.zeros(digests.size, dtype=np.bool_)
    with lock_directory(restricted):
        for path in sorted(Path(cohorts_directory(output)).glob(f"*/*{PEOPLE}")):
            gone |= _forget_in(path, digests)
        for path in sorted(Path(cohorts_directory(output)).glob(f"*/{EXPECTED}")):
            gone |= _forget_expected(path, digests)
    return Forgotten(int(gone.sum()), int((~gone).sum()))


def _own(restricted: str) -> Secret:
    path = os.path.join(restricted, "secret")
    if not os.path.exists(path):
        raise SecretError("a secret is needed to know people by: give the run's with a --secret-... flag")
    return Secret.from_file(path)


def _names(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--individual-file {path}: cannot be read ({type(error).__name__})") from None
    return [line for line in lines if line]


def _forget_in(path: Path, digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Forget people in one file; which of them it has."""
    reader = fastavro.reader(BytesIO(path.read_bytes()))
    schema = json.loads(reader.metadata["avro.schema"])
    records: list[dict[str, Any]] = list(reader)  # type: ignore[arg-type]
    people = np.array([record[PERSON] for record in records], dtype=np.int64).view(np.uint64)
    changed = False
    for place in np.flatnonzero(np.isin(people, digests)):
        record = records[place]
        changed |= not record[FORGOTTEN]
        for name in record:
            if name not in (PERSON, COHORT_FIELD, FORGOTTEN):
                record[name] = None
        record[FORGOTTEN] = True
    if changed:
        out = BytesIO()
        marker = bytes.fromhex(schema["kanonflow"]["chain"])[:16]
        fastavro.writer(out, schema, records, codec="deflate", sync_marker=marker)
        _replace(path, out.getvalue())
    return np.isin(digests, people)


def _forget_expected(path: Path, digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Forget what a file of people said of some, where the run keeps it; which of them it has."""
    state = carried_from_bytes(path.read_bytes())
    roster = state.warm.roster
    if roster is None:
        return np.zeros(digests.size, dtype=np.bool_)
    pool, stays = roster.pool, pa.array(~np.isin(roster.pool.people, digests))
    columns = [pc.if_else(stays, whole(each), pa.scalar(None, each.type)) for each in pool.values.columns]
    values = pa.table(columns, schema=pool.values.schema)
    if values != pool.values:
        warm = replace(state.warm, roster=replace(roster, pool=replace(pool, values=values)))
        _replace(path, replace(state, warm=warm).to_bytes())
    return np.isin(digests, pool.people)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
