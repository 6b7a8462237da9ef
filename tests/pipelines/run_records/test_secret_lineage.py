"""Which secrets a resumed run may use: those it has used, and for a stream a new one behind them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.run_records.run_directory import (
    RunDirectory,
    RunDirectoryError,
    StreamStart,
    open_run_directory,
)
from kanonflow.pipelines.run_records.secret_lineage import continued_secret
from kanonflow.pipelines.runs.anonymize_files import shipped_secret
from kanonflow.pipelines.runs.secret_sources import SecretFile, SecretVariable, previous_sources
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.secret.seeds import Secret, SecretError

A_KEY, B_KEY, C_KEY = (bytes(range(first, first + 40)) for first in (33, 43, 53))
A, B, C = (Secret(key) for key in (A_KEY, B_KEY, C_KEY))
INPUT = ({"feed": "x"},)
POLICY = parse_policy(
    {"version": 1, "k": 2, "fields": {"age": {"role": "quasi", "type": "numeric"}}}, "t", "t"
)


@pytest.fixture
def stream(tmp_path: Path) -> Callable[..., RunDirectory]:
    """Open the directory of a stream, or of a run over files; with ``release`` something is released."""

    def run(
        secret: Secret, *previous: Secret, resume: bool = True, streaming: bool = True, release: bool = True
    ) -> RunDirectory:
        output = str(tmp_path / "out")
        start = StreamStart("files", {"name": "job"}, True, "--savepoint_path=...", lambda job: False)
        with open_run_directory(
            output,
            POLICY,
            INPUT,
            secret,
            resume=resume,
            stream=start if streaming else None,
            previous=previous,
        ) as directory:
            if release:
                (tmp_path / "out" / "release" / "r.avro").write_bytes(b"rows")
            return directory

    return run


def chain(directory: RunDirectory) -> list[tuple[int, str]]:
    """Version and commitment of each secret that a run goes on with."""
    return [(each.version, each.commit()) for each in directory.secret.chain]


def test_a_stream_takes_up_a_new_secret(stream: Callable[..., RunDirectory], tmp_path: Path) -> None:
    """Numbered in the order of their use; run.json remembers them, the notes say what to keep."""
    assert chain(stream(A)) == [(1, A.commit())]
    rotated = stream(B, A)
    assert chain(rotated) == [(1, A.commit()), (2, B.commit())]
    assert any("New secret, version 2" in note for note in rotated.notes)
    assert chain(stream(B, A)) == [(1, A.commit()), (2, B.commit())]
    assert chain(stream(C, B, A)) == [(1, A.commit()), (2, B.commit()), (3, C.commit())]
    record = json.loads((tmp_path / "out" / "restricted" / "run.json").read_text())
    assert record["secrets"] == [[1, A.commit()], [2, B.commit()], [3, C.commit()]]
    assert record["secret"] == A.commit()


def test_a_rotated_stream_is_the_same_run(stream: Callable[..., RunDirectory]) -> None:
    """Its topic, which holds the run's digest, takes releases of it still."""
    assert stream(A).run == stream(B, A).run == stream(C, A, B).run != ""


def test_a_secret_managers_numbers_are_kept(stream: Callable[..., RunDirectory]) -> None:
    """Versions 7 and 9 of a managed secret are 7 and 9; a file after them is the next number."""
    seven, nine = Secret(b"7" * 32, 7), Secret(b"9" * 32, 9)
    stream(seven)
    assert [version for version, _ in chain(stream(nine, seven))] == [7, 9]
    assert [version for version, _ in chain(stream(A, nine, seven))] == [7, 9, 10]


def test_a_stream_that_released_nothing_yet_has_state_all_the_same(
    stream: Callable[..., RunDirectory],
) -> None:
    """Rows wait under keys of the first secret: another one without it would lose them."""
    stream(A, resume=False, release=False)
    with pytest.raises(RunDirectoryError, match="the secret is another one"):
        stream(B, release=False)
    assert len(chain(stream(B, A, release=False))) == 2


@pytest.mark.parametrize(
    ("secret", "previous", "message"),
    [
        (B, (), "version 1 is not given"),
        (C, (), "version 1, 2 is not given"),
        (C, (A,), "version 2 is not given"),
        (A, (B,), "was replaced in this run already"),
        (B, (A, C), "names a secret that this run never used"),
    ],
)
def test_every_secret_of_the_run_must_be_given(
    stream: Callable[..., RunDirectory], secret: Secret, previous: tuple[Secret, ...], message: str
) -> None:
    """After one rotation: without the first the state is not found, without the second a window cannot be finished."""
    stream(A)
    stream(B, A)
    with pytest.raises(SecretError, match=message):
        stream(secret, *previous)


def test_a_run_over_files_ends_under_the_secret_it_began_with(stream: Callable[..., RunDirectory]) -> None:
    """It has no later windows; a new secret is for the next run, and is not recorded."""
    stream(A, streaming=False)
    resumed = stream(B, A, streaming=False)
    assert chain(resumed) == [(1, A.commit())]
    assert any("finished under the secret it began with" in note for note in resumed.notes)
    with pytest.raises(RunDirectoryError, match="the secret is another one"):
        stream(B, streaming=False)


def test_a_new_run_has_no_previous_secret(stream: Callable[..., RunDirectory]) -> None:
    """Refused before anything is written."""
    with pytest.raises(RunDirectoryError, match="none began here"):
        stream(B, A)


def test_a_record_that_does_not_say_its_secrets_is_refused() -> None:
    """With the way out; a guess would name windows by a secret that they did not begin under."""
    with pytest.raises(SecretError, match=r"run\.json .* another build, which has to finish or audit"):
        continued_secret({"secret": A.commit()}, A, [], rotates=True)


def test_workers_find_every_secret(
    stream: Callable[..., RunDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the job graph holds resolves to the whole chain, and to nothing when one was exchanged."""
    (tmp_path / "a").write_bytes(A_KEY)
    (tmp_path / "a").chmod(0o600)
    monkeypatch.setenv("KANONFLOW_TEST_B", B_KEY.decode())
    previous = previous_sources([f"file:{tmp_path / 'a'}"])
    assert previous == (SecretFile(str(tmp_path / "a")),)
    stream(A)
    directory = stream(B, A)
    shipped = shipped_secret(SecretVariable("KANONFLOW_TEST_B"), directory, previous)
    assert shipped.resolve() == directory.secret
    assert shipped.resolve().lasting == A
    (tmp_path / "a").write_bytes(C_KEY)
    with pytest.raises(SecretError, match="another secret"):
        shipped.resolve()


@pytest.mark.parametrize("reference", ["a-file", "file:", "vault:x", "manager:latest"])
def test_a_previous_secret_is_a_reference(reference: str) -> None:
    """A kind and a name; a managed one by its number."""
    with pytest.raises(SecretError, match="expected"):
        previous_sources([reference])


def test_a_reason_may_change_between_two_runs(tmp_path: Path) -> None:
    """Why a risk is accepted changes no release: the run resumes, and run.json has the newest reason."""
    fields: dict[str, Any] = {"age": {"role": "quasi", "type": "numeric"}, "id": {"role": "insensitive"}}
    for number, reason in enumerate(("agreed on Monday", "agreed on Tuesday")):
        fields["id"] = {"role": "insensitive", "accept_risk": reason}
        policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "t", "t")
        with open_run_directory(str(tmp_path / "out"), policy, INPUT, A, resume=number > 0):
            (tmp_path / "out" / "release" / "r.avro").write_bytes(b"rows")
    record = json.loads((tmp_path / "out" / "restricted" / "run.json").read_text())
    assert record["accepted_risks"] == {"id": "agreed on Tuesday"}
