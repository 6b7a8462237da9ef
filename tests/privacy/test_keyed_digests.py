"""Digests that leave restricted/: another secret gives another one, so nobody can test a guess against them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.kafka.release_messages import rows_digest

POLICY = """
version: 1
name: digests
k: 3
metrics: public
partition_by: [town]
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  age: {role: quasi, type: numeric, as: int}
  job: {role: quasi, type: categorical}
  town: {role: insensitive}
  amount: {role: sensitive, as: double}
"""
DIGEST = re.compile(r"[0-9a-f]{16,}")


def digests_of(value: Any) -> Iterator[str]:
    """Everything in a value that looks like a digest: hexadecimal of 8 bytes or more."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from digests_of(name)
            yield from digests_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from digests_of(each)
    elif isinstance(value, bytes):
        yield value.hex()
    elif not isinstance(value, float):  # whose digits look like one
        yield from DIGEST.findall(str(value))


def published(folder: Path) -> set[str]:
    """All digests in the public part of an output: names, values, schemas, marks between Avro blocks, what the
    certificate and the verdict say."""
    found: set[str] = set()
    for path in [each for each in folder.rglob("*") if "restricted" not in each.parts and each.is_file()]:
        found.update(digests_of(path.name))
        if path.suffix in (".html", ".json"):
            # Digits behind a point are a number's.
            found.update(re.findall(r"(?<![0-9.])[0-9a-f]{16,}", path.read_text()))
            continue
        with path.open("rb") as stream:
            reader = fastavro.reader(stream)
            records = list(reader)
            found.update(digests_of(records))
            found.update(digests_of(reader.writer_schema))
            found.add(reader._header["sync"].hex())
            if path.parent.name == "release":
                plain = [repr(sorted(record.items())).encode() for record in records]
                found.add(rows_digest(plain, reader.writer_schema))
    return found


@pytest.fixture
def outputs(tmp_path: Path) -> list[Path]:
    """The same rows under two secrets."""
    lines = [f"p{n},{20 + n % 9},job {n % 3},town {n % 2},{n}.5" for n in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["who,age,job,town,amount", *lines]) + "\n")
    (tmp_path / "p.yaml").write_text(POLICY)
    folders = []
    for letter in "ab":
        (tmp_path / letter).write_bytes(bytes(range(ord(letter), ord(letter) + 40)))
        (tmp_path / letter).chmod(0o600)
        folders.append(tmp_path / f"out-{letter}")
        places = ["--input", str(tmp_path / "in.csv"), "--output", str(folders[-1]), "--quiet"]
        given = ["--policy", str(tmp_path / "p.yaml"), "--secret-file", str(tmp_path / letter)]
        assert cli.main(["anonymize", *given, *places]) == 0
        judged = ["--policy", str(tmp_path / "p.yaml"), "--release", str(folders[-1])]
        assert cli.main(["verify", *judged, "--input", str(tmp_path / "in.csv")]) == 0
        assert "passed" in (folders[-1] / "certificate.html").read_text()
    return folders


def test_every_public_digest_depends_on_the_secret(outputs: list[Path]) -> None:
    """Release ids, file names, keyed partitions, sync marks, digests of rows in a topic: none is there twice.

    A release's row digest is of rows that all hold their release id, which is keyed.
    """
    first, second = map(published, outputs)
    # Of each of two releases: its id, its sync mark, its row digest. Public metrics name no partition. One of the list
    # of files that were judged.
    assert len(first) == len(second) == 2 * 3 + 1
    assert not first & second
