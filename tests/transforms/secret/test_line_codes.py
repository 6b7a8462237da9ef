"""Codes of lines are the library's CMAC of each, and orders by them follow from key and lines alone."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.transforms.secret.line_codes import line_codes, order_by_codes

KEY = bytes(range(32))


def lines_of(rows: list[list[int]], width: int) -> NDArray[np.uint64]:
    """Lines of equal width."""
    return np.array(rows, dtype=np.uint64).reshape(len(rows), width)


def slow_codes(lines: NDArray[np.uint64], key: bytes, purpose: int) -> list[tuple[int, int]]:
    """One line at a time, by the CMAC of the library."""
    codes, seen = [], {}
    for line in lines.astype("<u8"):
        content = line.tobytes()
        number = seen.get(content, 0)
        seen[content] = number + 1
        mac = CMAC(AES(key))
        mac.update(len(line).to_bytes(8, "big") + purpose.to_bytes(8, "big"))
        mac.update(content + bytes(8 * (len(line) % 2)))
        mac.update(number.to_bytes(16, "big"))
        code = mac.finalize()
        codes.append((int.from_bytes(code[:8], "big"), int.from_bytes(code[8:], "big")))
    return codes


WORDS = st.integers(0, 2**64 - 1) | st.integers(0, 1)


@settings(derandomize=True, max_examples=60)
@given(
    data=st.data(),
    width=st.integers(0, 7),
    purpose=st.sampled_from([0, 1, 2**40]),
    key=st.binary(min_size=32, max_size=32),
)
def test_codes_are_the_cmac_of_each_line(data: st.DataObject, width: int, purpose: int, key: bytes) -> None:
    """Lines of any width, none included, equal ones among them, under any key."""
    rows = data.draw(st.lists(st.lists(WORDS, min_size=width, max_size=width), max_size=12))
    lines = lines_of(rows, width)
    assert [tuple(code) for code in line_codes(lines, key, purpose).tolist()] == slow_codes(
        lines, key, purpose
    )


def test_a_subkey_is_reduced_where_it_must_be() -> None:
    """Both cases of the doubling are met among a few keys: codes are those of the library."""
    lines = lines_of([[1, 2, 3]], 3)
    for number in range(16):
        key = bytes([number]) * 32
        assert [tuple(code) for code in line_codes(lines, key, 0).tolist()] == slow_codes(lines, key, 0)


def test_codes_are_a_set_whatever_the_order() -> None:
    """Shuffled lines have the same codes line by line, and equal lines the same ones together."""
    rng = np.random.default_rng(1)
    lines = rng.integers(0, 3, (200, 3), dtype=np.uint64)
    shuffle = rng.permutation(200)
    codes, other = line_codes(lines, KEY, 0), line_codes(lines[shuffle], KEY, 0)
    assert len(set(map(tuple, codes.tolist()))) == 200
    of = {line: set() for line in map(tuple, lines.tolist())}
    again = {line: set() for line in of}
    for line, code in zip(lines.tolist(), codes.tolist(), strict=True):
        of[tuple(line)].add(tuple(code))
    for line, code in zip(lines[shuffle].tolist(), other.tolist(), strict=True):
        again[tuple(line)].add(tuple(code))
    assert of == again


def test_key_purpose_and_width_tell_codes_apart() -> None:
    """Nothing is left of a code under another key, purpose or width; a zero at the end is part of a line."""
    line = lines_of([[5, 6, 7]], 3)
    codes = [
        line_codes(line, KEY, 0),
        line_codes(line, KEY[::-1], 0),
        line_codes(line, KEY, 1),
        line_codes(lines_of([[5, 6, 7, 0]], 4), KEY, 0),
        line_codes(lines_of([[5, 6]], 2), KEY, 0),
    ]
    assert np.unique(np.concatenate(codes)).size == 2 * len(codes)


@pytest.mark.parametrize("fields", [1, 3])
def test_codes_are_uniform(fields: int) -> None:
    """Over 20,000 lines that differ in a counter alone each of 64 bits of a code is set half of the time: the largest
    of 128 deviations is below 4.9 standard deviations (false alarm 0.01%)."""
    lines = np.zeros((20_000, fields), dtype=np.uint64)
    lines[:, -1] = np.arange(20_000)
    codes = line_codes(lines, KEY, 0)
    bits = np.unpackbits(codes.view(np.uint8), axis=1)
    assert bits.shape == (20_000, 128)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 4.9 * 0.5 / np.sqrt(20_000)


@settings(derandomize=True, max_examples=60)
@given(data=st.data(), count=st.integers(0, 30))
def test_an_order_is_by_group_and_then_by_both_words(data: st.DataObject, count: int) -> None:
    """Also where the first words of codes are equal, or so near that one word with the group holds too little."""
    near = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
    codes = lines_of(
        data.draw(st.lists(st.tuples(near, near), min_size=count, max_size=count, unique=True)), 2
    )
    group = np.array(data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), dtype=np.int64)
    for groups in (group, None):
        told = np.zeros(count, dtype=np.int64) if groups is None else group
        expected = sorted(range(count), key=lambda at: (told[at], *codes[at].tolist()))
        assert order_by_codes(codes, groups).tolist() == expected
