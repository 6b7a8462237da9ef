"""The secret stays secret, and what is derived from it is deterministic, separate and well formed."""

from __future__ import annotations

import pickle
import stat
import sys
import traceback

import numpy as np
import pytest
from apache_beam.internal import cloudpickle_pickler
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.transforms.secret.seeds import (
    Keystream,
    ReleaseSlot,
    Secret,
    SecretError,
    array_digest,
    encode,
    order_key,
    partition_key,
    publish_keystream,
    release_id,
    search_seed,
)

KEY = bytes(range(40, 72))
SECRET = Secret(KEY)
SLOT = ReleaseSlot(b"partition", 86_400_000, 3)
PARTS = st.lists(st.one_of(st.none(), st.binary(max_size=4), st.text(max_size=4), st.integers()), max_size=4)


@settings(derandomize=True)
@given(PARTS, PARTS)
def test_encode_is_injective(left: list, right: list) -> None:
    """Two different sequences never have the same bytes (True and 1 do not occur as parts)."""
    same = [(type(a), a) for a in left] == [(type(b), b) for b in right]
    assert (encode(*left) == encode(*right)) == same


@pytest.mark.parametrize("key", [b"", b"x" * 31, "x" * 32])
def test_a_short_secret_is_refused(key: object) -> None:
    """Fewer than 32 bytes, or text, end with SecretError, exit code 2, which does not quote the key."""
    with pytest.raises(SecretError) as caught:
        Secret(key)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert "xx" not in str(caught.value)


def test_no_secret_in_repr_str_format_or_traceback() -> None:
    """repr, str, format, f-strings, vars and a formatted traceback do not show the key."""
    shown = [repr(SECRET), str(SECRET), f"{SECRET}", f"{SECRET!r:>80}", f"{[SECRET]}"]
    shown.append(repr(Keystream(KEY)))
    try:
        SECRET.version = 2  # type: ignore[misc]
    except AttributeError:
        shown.append("".join(traceback.TracebackException(*sys.exc_info(), capture_locals=True).format()))
    forms = [KEY.decode("latin-1"), KEY.hex(), repr(KEY)[2:-1]]
    assert not any(form in text for form in forms for text in shown)
    assert not hasattr(SECRET, "__dict__")


def test_a_secret_survives_pickling_and_a_keystream_refuses_it() -> None:
    """Beam ships transforms to its workers by (cloud)pickle; a keystream, whose position matters, is not
    shipped.
    """
    for pickler in (pickle, cloudpickle_pickler):
        assert pickler.loads(pickler.dumps(SECRET)) == SECRET
    assert hash(pickle.loads(pickle.dumps(SECRET))) == hash(SECRET)
    with pytest.raises(SecretError):
        pickle.dumps(Keystream(KEY))


def test_a_secret_comes_from_a_file_the_environment_or_the_system(tmp_path) -> None:
    """All ways lead to the same keys; a stored secret is private to its owner and never overwritten."""
    path = tmp_path / "secret"
    SECRET.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secret.from_file(path) == SECRET
    assert Secret.from_environment("K", environment={"K": KEY.decode("ascii")}) == SECRET
    assert Secret.generate() != Secret.generate()
    with pytest.raises(SecretError, match="File exists"):
        SECRET.save(path)
    with pytest.raises(SecretError, match="cannot be read"):
        Secret.from_file(tmp_path / "absent")
    with pytest.raises(SecretError, match="NOT_SET"):
        Secret.from_environment("NOT_SET", environment={})


def test_a_key_is_what_the_librarys_hkdf_derives() -> None:
    """HKDF-SHA256 of RFC 5869 without salt, of secrets shorter and longer than a block of the hash."""
    for key in (KEY, bytes(range(64)), bytes(range(200))):
        info = encode("kanonflow", "publish", "name", b"digest", 7, None)
        theirs = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(key)
        assert Secret(key).derive("publish", "name", b"digest", 7, None) == theirs


def test_labels_separate_the_keys() -> None:
    """Order, id, partition, search, publish and commitment have unrelated keys; so have two secrets."""
    labels = ("order", "id", "partition", "search", "publish", "commitment")
    keys = {SECRET.derive(label) for label in labels} | {Secret(KEY[::-1]).derive(label) for label in labels}
    assert len(keys) == 2 * len(labels)
    assert order_key(SECRET) == SECRET.derive("order", "line codes") not in keys


def test_a_release_id_names_the_slot_and_nothing_else() -> None:
    """Each of policy name, partition, window end and number changes the id; the same slot has the same id."""
    ids = {
        release_id(SECRET, "p", SLOT),
        release_id(SECRET, "q", SLOT),
        release_id(SECRET, "p", SLOT._replace(partition=b"other")),
        release_id(SECRET, "p", SLOT._replace(window_end=None)),
        release_id(SECRET, "p", SLOT._replace(release_no=4)),
    }
    assert len(ids) == 5
    assert all(len(name) == 32 and set(name) <= set("0123456789abcdef") for name in ids)
    assert release_id(SECRET, "p", SLOT) == release_id(Secret(KEY), "p", ReleaseSlot(*SLOT))


def test_partition_keys_tell_null_from_text_and_search_seeds_fit_63_bits() -> None:
    """A null, an empty text and shifted borders give different partitions."""
    keys = {partition_key(SECRET, values) for values in ([None], [""], ["ab", "c"], ["a", "bc"], [])}
    assert len(keys) == 5
    assert all(len(key) == 16 for key in keys)
    seeds = [search_seed(SECRET, SLOT._replace(release_no=number)) for number in range(50)]
    assert len(set(seeds)) == 50
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_keystream_is_chacha20_and_one_stream() -> None:
    """Words are the cipher's own keystream (RFC 8439, zero key), independent of how they are asked for."""
    first = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28")
    assert Keystream(bytes(32)).words(2).tobytes() == first
    whole = Keystream(KEY).words(100)
    stream = Keystream(KEY)
    assert np.array_equal(whole, np.concatenate([stream.words(1), stream.words(0), stream.words(99)]))
    assert np.array_equal(
        Keystream(KEY).bits(70), np.unpackbits(whole[:2].view(np.uint8), bitorder="little")[:70]
    )
    assert np.array_equal(np.sort(Keystream(KEY).permutation(1000)), np.arange(1000))


def test_the_publishing_words_depend_on_release_members_and_content() -> None:
    """Another release id, graph or content gives another keystream; the same gives the same."""
    members, content = array_digest(np.zeros((2, 3), np.int32)), array_digest(np.zeros(4))
    cases = [
        ("r", members, content),
        ("s", members, content),
        ("r", content, content),
        ("r", members, members),
    ]
    streams = [publish_keystream(SECRET, *case).words(4).tobytes() for case in cases]
    assert len(set(streams)) == 4
    assert publish_keystream(SECRET, *cases[0]).words(4).tobytes() == streams[0]


def test_array_digests_tell_shape_and_type() -> None:
    """Arrays with the same bytes but another shape or type have another digest; memory layout does not
    matter.
    """
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    digests = {
        array_digest(a)
        for a in (array, array.reshape(3, 2), array.view(np.uint32), np.empty((0, 3), np.int32))
    }
    assert len(digests) == 4
    assert array_digest(np.asfortranarray(array)) == array_digest(array)
