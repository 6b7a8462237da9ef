"""Keyed codes of lines of words, many at a time: what puts rows into an order that nobody can foresee."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

_BLOCK = 16
_WORD = 8
# x^128 + x^7 + x^2 + x + 1, by which a subkey of CMAC is doubled.
_REDUCTION = 0x87
_ALL_BITS = (1 << 128) - 1


def line_codes(lines: NDArray[np.uint64], key: bytes, purpose: int) -> NDArray[np.uint64]:
    """A 128-bit code of each line, uint64 (n, 2), the more significant word first; equal lines have different ones.

    AES-256-CMAC (NIST SP 800-38B) of the message

        w in 8 bytes, purpose in 8 bytes | the words of the line, and a zero where they are odd in number |
        occurrence number in 16 bytes, of equal lines by their places, from 0          (numbers big endian)

    lines: uint64 (n, w), as they stand in memory. key: 32 bytes.
    purpose: tells apart what one key is used for, below 2^64.

    Precondition: the key is used for nothing else.
    Postcondition: the set of codes is a function of the set of lines, whatever their order; which of several equal
    lines has which of their codes follows from their places.
    Why: messages of two widths differ in their first block, and those of one width are injective in line and number.
    CMAC is a pseudorandom function as long as AES is a pseudorandom permutation (Black and Rogaway 2000, Iwata and
    Kurosawa 2003, after Bellare, Kilian and Rogaway 1994): without the key the codes of N lines cannot be told from
    independent random ones, but for an advantage in the order of (N w / 2)^2 / 2^128.

    One call of the library's AES for each block of a line, over all lines at once. O(n w + n log n).
    """
    n, width = lines.shape
    cipher = Cipher(AES(key), ECB()).encryptor()

    def encrypted(blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return np.frombuffer(cipher.update(blocks.tobytes()), dtype=np.uint64).reshape(-1, 2)

    head = np.frombuffer(width.to_bytes(_WORD, "big") + purpose.to_bytes(_WORD, "big"), dtype=np.uint64)
    state = np.broadcast_to(encrypted(head), (n, 2))
    for place in range(0, width - 1, 2):
        state = encrypted(state ^ lines[:, place : place + 2])
    if width % 2:
        state = encrypted(np.stack([state[:, 0] ^ lines[:, -1], state[:, 1]], axis=1))
    # Of lines of one width only equal ones have come to one state, but for a chance of n^2 / 2^129.
    last = np.zeros((n, 2), dtype=">u8")
    last[:, 1] = _occurrences(state)
    codes = encrypted(state ^ last.view(np.uint64) ^ _subkey(encrypted(np.zeros((1, 2), dtype=np.uint64))))
    return codes.view(">u8").astype(np.uint64)


def order_by_codes(codes: NDArray[np.uint64], group: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The indices that sort by group, ascending from 0, and then by code; int64 (n,). O(n log n).

    codes: uint64 (n, 2). group: int64 (n,), none below 0; None: all are of one.
    """
    if group is None:
        group = np.zeros(codes.shape[0], dtype=np.int64)
    bits = int(group.max(initial=0)).bit_length()
    key = codes[:, 0] >> np.uint64(bits)
    if bits:
        key |= group.astype(np.uint64) << np.uint64(64 - bits)
    order = np.argsort(key)
    sorted_key = key[order]
    if np.any(sorted_key[1:] == sorted_key[:-1]):
        # As many bits of a code as one word holds did not tell all of them apart.
        return np.lexsort([codes[:, 1], codes[:, 0], group])
    return order


def _occurrences(state: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many equal ones stand before each, int64 (n,). state: uint64 (n, 2)."""
    numbers = np.zeros(state.shape[0], dtype=np.int64)
    first = np.sort(state[:, 0])
    if not np.any(first[1:] == first[:-1]):
        return numbers
    order = np.lexsort([state[:, 1], state[:, 0]])
    ordered = state[order]
    begins = np.append(True, np.any(ordered[1:] != ordered[:-1], axis=1))
    heads = np.flatnonzero(begins)
    numbers[order] = np.arange(order.size) - heads[np.cumsum(begins) - 1]
    return numbers


def _subkey(zero: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What CMAC adds to a last block that is whole, uint64 (2,). zero: the encrypted block of zeros."""
    value = int.from_bytes(zero.tobytes(), "big")
    doubled = (value << 1) & _ALL_BITS ^ (_REDUCTION if value >> 127 else 0)
    return np.frombuffer(doubled.to_bytes(_BLOCK, "big"), dtype=np.uint64)
