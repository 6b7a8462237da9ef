"""What may serve as a secret, and what is refused: files that others read, bytes that can be guessed."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from kanonflow.transforms.secret.secret_files import open_to_others, read_secret_file, refuse_guessable
from kanonflow.transforms.secret.seeds import Secret, SecretError

KEY = bytes(range(100, 132))


def _file(folder: Path, key: bytes = KEY, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_bytes(key)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o602, 0o620, 0o666, 0o601])
def test_a_file_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    """With its name and the mend, for a shell and for Kubernetes."""
    path = _file(tmp_path, mode=mode)
    with pytest.raises(
        SecretError, match=rf"{path} is open to others.*mode {mode:04o}.*chmod 600.*defaultMode"
    ):
        read_secret_file(path)
    path.chmod(0o400)
    assert read_secret_file(path) == KEY


def test_a_group_may_read_what_its_user_can_read_in_no_other_way() -> None:
    """A volume of Kubernetes is root's; a pod that is not root has an fsGroup, and others have nothing."""

    def status(mode: int, owner: int) -> os.stat_result:
        return os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 2000, 32, 0, 0, 0))

    assert not open_to_others(status(0o440, 0), 1000)
    assert open_to_others(status(0o440, 1000), 1000)
    assert open_to_others(status(0o440, 0), 0)
    assert open_to_others(status(0o444, 0), 1000)
    assert open_to_others(status(0o460, 0), 1000)
    assert not open_to_others(status(0o400, 0), 0)


def test_a_link_into_a_volume_is_followed(tmp_path: Path) -> None:
    """Kubernetes exchanges a volume's content by a link; what counts is the file behind it."""
    (tmp_path / "..data").mkdir()
    path = _file(tmp_path / "..data")
    (tmp_path / "key").symlink_to(path)
    assert read_secret_file(tmp_path / "key") == KEY
    path.chmod(0o644)
    with pytest.raises(SecretError, match="open to others"):
        read_secret_file(tmp_path / "key")


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    """A pipe would wait for ever, a device never end, and a table is no secret."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(SecretError, match=r"not a plain file|Is a directory"):
            read_secret_file(path)
    with pytest.raises(SecretError, match="more than"):
        read_secret_file(_file(tmp_path, KEY * 40_000))


@pytest.mark.parametrize(
    "key",
    [
        b"a" * 32,
        bytes(64),
        b"ab" * 100 + b"\n",
        b"0123456789abcdef" * 4,
        b"password" * 8,
        b"1234567" * 6,
        b"a" * 500 + b"bcdefghij",
        b"aaaaaaaabbbbbbbbccccccccdddddddd\n",
        b"mellon mellon mellon mellon mellon mellon",
    ],
)
def test_few_different_bytes_are_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    """Also when they are many, repeated; and not from a variable either."""
    with pytest.raises(SecretError, match="can be guessed") as caught:
        Secret.from_file(_file(tmp_path, key))
    assert key.strip().decode("latin-1") not in str(caught.value)
    with pytest.raises(SecretError, match=r"the environment variable K .*can be guessed"):
        Secret.from_environment("K", environment={"K": os.fsdecode(key).replace("\0", "a")})


def test_no_random_secret_is_refused() -> None:
    """100,000 of 32 bytes; 20,000 as hexadecimal, base64 and decimal digits each."""
    random = np.random.default_rng(20)
    for key in random.integers(0, 256, (100_000, 32), np.uint8):
        refuse_guessable(key.tobytes(), "key")
    for key in random.integers(0, 256, (20_000, 32), np.uint8):
        refuse_guessable(key.tobytes().hex().encode() + b"\n", "key")
        refuse_guessable(base64.b64encode(key.tobytes()), "key")
    for digits in random.integers(0, 10, (20_000, 78), np.uint8):
        refuse_guessable((digits + ord("0")).tobytes(), "key")
