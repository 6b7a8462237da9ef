"""What may serve as a secret: bytes that nobody can guess, from a file that nobody else can read."""

from __future__ import annotations

import math
import os
import stat
from collections import Counter

MINIMUM_SECRET_BYTES = 32
LEAST_DISTINCT = 8
"""Different bytes: dice and decimal digits have more, a key that leans on the keyboard has not."""
LEAST_BITS = 96.0
"""Entropy of the bytes as they are distributed, times their number: 32 random bytes have 141 or more in practice, and
32 hexadecimal digits, which are 128 random bits, as a rule 100 or more."""

_MOST_BYTES = 1 << 20
_MEND = "chmod 600 {path}; for a volume of Kubernetes, defaultMode: 0400 (0440 where the pod has an fsGroup)"


class SecretError(Exception):
    """The secret is missing, too short, guessable, open to others or cannot be stored. The message holds none of it."""

    exit_code = 2


def read_secret_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a secret's file. What is looked at is the open file, so it cannot be exchanged in between.

    Links are followed: volumes of Kubernetes are made of them. Raises SecretError: not readable, not a plain file,
    open to others (see ``open_to_others``), larger than 1 MiB, or guessable.
    """
    name = os.fspath(path)
    try:
        # Without O_NONBLOCK a named pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SecretError(f"the secret file {name} is not a plain file")
            if open_to_others(status, os.geteuid()):
                raise SecretError(
                    f"the secret file {name} is open to others than its owner"
                    f" (mode {stat.S_IMODE(status.st_mode):04o}): {_MEND.format(path=name)}"
                )
            key = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SecretError(f"the secret file {name} cannot be read: {error.strerror}") from None
    if len(key) > _MOST_BYTES:
        raise SecretError(f"the secret file {name} has more than {_MOST_BYTES} bytes; it is no secret's")
    refuse_guessable(key, f"the secret file {name}")
    return key


def open_to_others(status: os.stat_result, user: int) -> bool:
    """Whether others than ``user`` and root can read or change a file.

    Its group may read it where that is the user's only way to it: a volume of Kubernetes belongs to root, and a pod
    that does not run as root reads it through its fsGroup.
    """
    mode = stat.S_IMODE(status.st_mode)
    needs_group = user not in (0, status.st_uid)
    return bool(mode & (0o037 if needs_group else 0o077))


def refuse_guessable(key: bytes, name: str) -> None:
    """Raise SecretError for a key that no generator of randomness made. name: where it is from, for the message.

    A key that repeats itself counts once. Too short a key is somebody else's to refuse. Words of a language pass when
    there are enough of them: this finds accidents, not weak passwords.
    """
    if len(key) < MINIMUM_SECRET_BYTES:
        return
    unit = _period(key.rstrip(b"\r\n"))
    counts = Counter(unit)
    bits = sum(count * math.log2(len(unit) / count) for count in counts.values())
    if len(counts) < LEAST_DISTINCT or bits < LEAST_BITS:
        raise SecretError(
            f"{name} holds {len(counts)} different bytes in a pattern that can be guessed (fewer than {LEAST_BITS:.0f}"
            " bits); a secret is random (for example: (umask 077; head -c 32 /dev/urandom > FILE))"
        )


def _period(key: bytes) -> bytes:
    """The shortest beginning whose repetition, the last one perhaps cut off, is the key; else the key."""
    shortest = (size for size in range(1, len(key) // 2 + 1) if key[size:] == key[:-size])
    return key[: next(shortest, len(key))]
