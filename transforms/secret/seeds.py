"""The secret, and everything that is derived from it.

One HKDF label a purpose (order, id, partition, search, publish, class ids, member, commitment, certificate): a key that
leaks through one use says nothing about the others. A label stays, whatever its use is called. Whatever goes into a
derivation is length-prefixed, so two different inputs never have the same bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from kanonflow.schemas.slot_kinds import REGULAR
from kanonflow.solvers.matching.random_words import shuffled
from kanonflow.transforms.secret.secret_files import (
    MINIMUM_SECRET_BYTES,
    SecretError,
    read_secret_file,
    refuse_guessable,
)

_ID_BYTES = 16
_HASH_BYTES = 32
_HIDDEN = "<secret, hidden>"


class ReleaseSlot(NamedTuple):
    """The place a release occupies; a retry of the same release has the same slot.

    partition: the partition's key (see ``partition_key``).     window_end: milliseconds since the epoch, None
    without windows.     release_no: of a release, the number of its part within the window, from 0.
    kind: what takes the place: ``REGULAR`` or ``CLOSING``, or ``expiry`` with a number of its own count.
    place: of the run in the chain of runs that continue each other, 0 of the one that began the epoch.

    A release's place follows from its run and its window alone, not from how many there were before: a replay that
    meets other late rows, and so another number of expiries, must collide with what is published and not pass beside
    it. Two runs of a chain may each have a release at the end of one window: of other rows, so under another name.
    """

    partition: bytes
    window_end: int | None
    release_no: int
    kind: str = REGULAR
    place: int = 0

    @property
    def in_its_run(self) -> tuple[bytes, int | None, int, str]:
        """The slot among those of one run, whichever that is in its chain."""
        return self[:4]


def encode(*parts: bytes | str | int | None) -> bytes:
    """An injective encoding of a sequence: each part as its kind, its length in 8 bytes, its bytes."""
    pieces: list[bytes] = []
    for part in parts:
        if isinstance(part, str):
            kind, content = b"s", part.encode()
        elif isinstance(part, bytes):
            kind, content = b"b", part
        elif part is None:
            kind, content = b"n", b""
        else:
            kind, content = b"i", str(part).encode()
        pieces += (kind, len(content).to_bytes(8, "big"), content)
    return b"".join(pieces)


class SecretSource(Protocol):
    """Where a secret comes from: what transforms are given, and what a pickled pipeline holds.

    A ``Secret`` is its own source. A reference (a file, a variable, a secret manager) is resolved by each worker, so
    the secret itself is in no job graph.
    """

    def resolve(self) -> Secret:
        """The secret. Raises SecretError: it cannot be had here."""
        ...


def check_source(source: object) -> None:
    """Raise SecretError if this is no source of a secret. Nothing of it is shown: it may be the secret itself."""
    # A path can be resolved, too.
    if not isinstance(source, type | os.PathLike) and callable(getattr(source, "resolve", None)):
        return
    if isinstance(source, os.PathLike):
        mend = "a path: SecretFile(path)"
    elif isinstance(source, str):
        mend = "SecretFile(path) of its file, SecretVariable(name) of a variable, or Secret(key) of 32 random bytes"
    else:
        mend = (
            "a key of 32 random bytes: Secret(key)" if isinstance(source, bytes) else "Secret.from_file(path)"
        )
    what = f"the class {source.__name__}" if isinstance(source, type) else type(source).__name__
    raise SecretError(
        "secret: expected a Secret, or a reference to one (SecretFile, SecretVariable, ManagedSecret), not"
        f" {what}; give {mend}"
    )


class Secret:
    """The random bytes all keys come from, with the version under which windows remember them.

    key: at least 32 random bytes; SecretError when there are fewer.  version: a number of the owner's choice.
    replaced: the secrets that a feed used before this one, oldest first; SecretError when two have one version.

    Rotation. What a window publishes is derived from the version that it began under (``of``): order, search and
    matching. What only names things, and must be found again as long as the feed goes on, is derived from the first
    secret (``lasting``): partition keys, which address the state; the digests by which individuals and event ids are
    recognized in it; release ids, so that a slot has one name, and a window that is replayed from before a rotation
    collides with its first release and is not published twice. None of them drives a matching, so a leaked first
    secret opens no later window.

    No representation, format or error shows the key. It can be pickled (Beam ships it to its workers inside
    the transforms), so a pickled pipeline that was given a Secret, and not a reference to one, is as confidential as
    the secret itself.
    """

    __slots__ = ("_extracted", "_key", "_replaced", "_version")
    _key: bytes
    _extracted: bytes
    _version: int
    _replaced: tuple[Secret, ...]

    def __init__(self, key: bytes, version: int = 1, replaced: Sequence[Secret] = ()) -> None:
        if not isinstance(key, bytes):
            raise SecretError("the secret must be given as bytes")
        if len(key) < MINIMUM_SECRET_BYTES:
            raise SecretError(
                f"the secret has {len(key)} bytes; it needs {MINIMUM_SECRET_BYTES} random ones or more"
                " (for example: (umask 077; head -c 32 /dev/urandom > FILE))"
            )
        object.__setattr__(self, "_key", key)
        # Of HKDF (RFC 5869) the first step, which has no salt.
        object.__setattr__(self, "_extracted", hmac.digest(bytes(_HASH_BYTES), key, "sha256"))
        if len({version, *(each.version for each in replaced)}) <= len(replaced):
            raise SecretError("two secrets of a feed have the same version; a window could not tell its own")
        object.__setattr__(self, "_version", version)
        # Each stands alone: the chain is kept in one place.
        object.__setattr__(self, "_replaced", tuple(Secret(each._key, each.version) for each in replaced))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], version: int = 1) -> Secret:
        """The secret that a file holds, byte for byte. Raises SecretError as ``read_secret_file``, or too short."""
        return cls(read_secret_file(path), version)

    @classmethod
    def from_environment(
        cls, variable: str, version: int = 1, environment: Mapping[str, str] | None = None
    ) -> Secret:
        """The secret that an environment variable holds (its bytes as the system passed them).

        environment: what to look in; None: the process's own. Raises SecretError when unset, too short or guessable.
        """
        value = (os.environ if environment is None else environment).get(variable)
        if value is None:
            raise SecretError(
                f"the environment variable {variable}, which should hold the secret, is not set"
            )
        refuse_guessable(os.fsencode(value), f"the environment variable {variable}")
        return cls(os.fsencode(value), version)

    @classmethod
    def generate(cls, version: int = 1) -> Secret:
        """A new secret of 32 bytes from the operating system's generator."""
        return cls(os.urandom(MINIMUM_SECRET_BYTES), version)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the secret to a new file that only its owner may read (mode 0600).

        Raises SecretError when the file exists (a secret in use must not be lost) or cannot be written.
        """
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._key)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise SecretError(f"the secret cannot be stored in {os.fspath(path)}: {error.strerror}") from None

    @property
    def version(self) -> int:
        """The number under which a window remembers which secret it began with."""
        return self._version

    @property
    def chain(self) -> tuple[Secret, ...]:
        """Every secret of the feed, oldest first, this one last; each by itself."""
        return (*self._replaced, Secret(self._key, self._version))

    def opens(self, committed: object) -> bool:
        """Whether people are known by this secret where that ``commit`` was written down."""
        return self.lasting.commit() == committed

    @property
    def lasting(self) -> Secret:
        """The first secret of the feed, which names what must be found again after a rotation."""
        return self._replaced[0] if self._replaced else self

    def of(self, version: int | None) -> Secret:
        """The secret of a version, with those before it; None, as state from before versions has it: the first.

        Raises SecretError: the feed's secrets do not have that version.
        """
        if version == self._version:
            return self
        chain = self.chain
        place = next((n for n, each in enumerate(chain) if version in (None, each.version)), None)
        if place is None:
            raise SecretError(
                f"a window began under version {version} of the secret, which is not given: name it with"
                " --previous-secret, or its rows cannot leave"
            )
        return Secret(chain[place]._key, chain[place].version, chain[:place])

    def committed(self, commitment: str) -> Secret | None:
        """The secret of the feed that has this commitment, with those before it; None: it is none of them."""
        for each in self.chain:
            if hmac.compare_digest(each.commit(), commitment):
                return self.of(each.version)
        return None

    def after(self, replaced: Sequence[Secret], version: int | None = None) -> Secret:
        """This secret as the one that replaced others, oldest first; version: its number among them."""
        return Secret(self._key, self._version if version is None else version, replaced)

    def resolve(self) -> Secret:
        """Itself: a ``SecretSource``."""
        return self

    def derive(self, label: str, *parts: bytes | str | int | None) -> bytes:
        """The 32-byte key of one purpose: HKDF-SHA256(secret, encode("kanonflow", label, parts...))."""
        # Of HKDF's second step one block is all that 32 bytes take.
        return hmac.digest(self._extracted, encode("kanonflow", label, *parts) + b"\1", "sha256")

    def commit(self) -> str:
        """A commitment to the secret, 64 hex digits: fixes it without telling anything about it."""
        return self.derive("commitment").hex()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Secret cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Secret cannot be changed")

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN}, version={self._version})"

    def __format__(self, specification: str) -> str:
        return format(repr(self), specification)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        same = hmac.compare_digest(self._key, other._key) and self._version == other._version
        return same and self._replaced == other._replaced

    def __hash__(self) -> int:
        return hash((self.commit(), self._version))

    def __reduce__(self) -> tuple[type[Secret], tuple[bytes, int, tuple[Secret, ...]]]:
        return Secret, (self._key, self._version, self._replaced)


class Keystream:
    """The ChaCha20 keystream of a 32-byte key: the random words of one publication (a ``Words``).

    Deterministic: equal keys give equal words, however they are asked for in between. One keystream serves
    one publication, from one thread.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise SecretError(f"a keystream needs a key of 32 bytes, not {len(key)}")
        # A key serves one stream only, so the nonce may be constant.
        self._stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words, uint64 (count,), read-only."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8")

    def bits(self, count: int) -> NDArray[np.uint8]:
        """``count`` independent fair bits, uint8 (count,) of 0 and 1."""
        packed = self.words((count + 63) // 64).view(np.uint8)
        return np.unpackbits(packed, count=count, bitorder="little")

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniformly random permutation of ``0 .. n-1``, int64 (n,); takes n words."""
        return shuffled(n, self.words(n))

    def __repr__(self) -> str:
        return f"Keystream({_HIDDEN})"

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        raise SecretError("a keystream cannot be pickled: derive it where it is used")


def partition_key(secret: Secret, values: Sequence[str | None]) -> bytes:
    """The key of a partition in Beam and in the metrics: 16 bytes, HMAC(K_partition, its field values)."""
    return _mac(secret.lasting.derive("partition"), encode(*values))


def keys_to_draw(secret: Secret, values: Sequence[str | None]) -> Iterator[bytes]:
    """Keys for shards of a partition, without end: 16 bytes each, HMAC(K_shards, (its field values, a number))."""
    key = secret.lasting.derive("partition", "shards")
    return (_mac(key, encode(*values, number)) for number in itertools.count())


def release_id(secret: Secret, policy_name: str, slot: ReleaseSlot) -> str:
    """The name of a release, 32 hex digits: HMAC(K_id, (policy name, partition, window end, number, kind, place)).

    Of the first run of a chain the place is left out: its names are those of a run that nobody continues.
    The content is left out on purpose: a replay with other rows must collide with the first file, not join
    it.
    """
    place = (slot.place,) if slot.place else ()
    return _mac(secret.lasting.derive("id"), encode(policy_name, *slot.in_its_run, *place)).hex()


def search_seed(secret: Secret, slot: ReleaseSlot) -> int:
    """The search's seed for a slot, ``0 <= seed < 2^63``. It never drives the publishing.

    Of the slot in its run: a chain of runs solves what one long run would.
    """
    return int.from_bytes(_mac(secret.derive("search"), encode(*slot.in_its_run))[:8], "big") >> 1


def order_key(secret: Secret) -> bytes:
    """The key of the codes by which rows are ordered (``line_codes``), and of nothing else; 32 bytes."""
    return secret.derive("order", "line codes")


def people_key(secret: Secret) -> bytes:
    """The key of the digests by which individuals are recognized from release to release, 32 bytes."""
    return secret.lasting.derive("partition", "people")


def member_key(secret: Secret) -> bytes:
    """The key of the numbers that releases give people (``epoch_numbers``), and of nothing else; 32 bytes.

    Of the first secret: a person keeps its number when the secret is rotated."""
    return secret.lasting.derive("member")


def group_key(secret: Secret) -> bytes:
    """The key of the numbers that releases give groups (``group_numbers``), and of nothing else; 32 bytes."""
    return secret.lasting.derive("group")


def publish_key(secret: Secret, release: str, members_digest: bytes, content_digest: bytes) -> bytes:
    """The key of one publication's keystream: HKDF(secret, "publish", release id, members, content), 32 bytes.

    Why both digests: were the same words spent on two graphs or two row sets of one slot, the two
    publications together would tell more than either.
    """
    return secret.derive("publish", release, members_digest, content_digest)


def publish_keystream(
    secret: Secret, release: str, members_digest: bytes, content_digest: bytes
) -> Keystream:
    """The randomness of one publication: the keystream of ``publish_key``."""
    return Keystream(publish_key(secret, release, members_digest, content_digest))


def class_ids_key(secret: Secret, release: str, groups_digest: bytes, content_digest: bytes) -> bytes:
    """The key of the numbers that a release gives its groups, 32 bytes; nothing links them to those of another."""
    return secret.derive("class ids", release, groups_digest, content_digest)


def seed_commitment(key: bytes, release: str) -> str:
    """A commitment to a publication's key, 64 hex digits: HMAC-SHA256(key, ("kanonflow", "commitment", release id)).

    It fixes the key and tells nothing about it; whoever is given the key, or derives it, can open it.
    """
    return hmac.digest(key, encode("kanonflow", "commitment", release), "sha256").hex()


def matching_record_key(secret: Secret) -> bytes:
    """The key of the digests in matching records, 32 bytes. Its label stays: another would be another key."""
    return secret.derive("certificate", "digests")


def array_digest(array: NDArray[np.generic]) -> bytes:
    """SHA-256 of an array's type, shape and content: the digest of members or labels. 32 bytes."""
    fixed = np.ascontiguousarray(array)
    state = hashlib.sha256(encode(fixed.dtype.str, *fixed.shape))
    state.update(fixed.tobytes())
    return state.digest()


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")[:_ID_BYTES]
