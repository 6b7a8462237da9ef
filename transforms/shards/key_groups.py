"""Which worker Flink gives a key to, and how weights are dealt so that its workers get even shares.

Flink divides keys by a hash among key groups, as many as its greatest parallelism says, and gives each parallel
instance of a step a run of them that stand side by side. Without ``--max_parallelism`` there are 128 up to a
parallelism of 85, then 256 and more; the low bits of a key's group stay, so more of them part what was dealt together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

KEY_GROUPS = 128

_WORD = 0xFFFF_FFFF


def key_group(key: bytes) -> int:
    """The key group of a key, ``0 <= group < KEY_GROUPS``.

    Beam's Flink runner hands Flink the encoded key as a Java ``ByteBuffer`` (``FlinkKeyUtils.encodeKey``): bytes, with
    their number before them. Its hash code goes through Flink's ``MathUtils.murmurHash``, and the rest of the division
    by the number of groups is the group (``KeyGroupRangeAssignment.assignToKeyGroup``). So it is for streams on Flink
    1.19 by Beam 2.62. Later versions of Beam hash the bytes another way; a bounded run divides keys without groups.
    """
    code = 1
    for byte in reversed(_length(len(key)) + key):
        code = 31 * code + byte - ((byte & 0x80) << 1) & _WORD
    return abs(_signed(_murmur(code))) % KEY_GROUPS


def worker_of(group: int, parallelism: int) -> int:
    """Which of so many parallel instances of a step has a key group (``computeOperatorIndexForKeyGroup``)."""
    return group * parallelism // KEY_GROUPS


def dealt(weights: Iterable[int], loads: Mapping[int, int] | None = None) -> list[int]:
    """A key group for each of some weights, which come heaviest first. loads: what groups have already.

    Each goes down from all groups to the lighter half of them, to the lighter half of that, and so on. So halves,
    quarters, eighths are even as if dealt by themselves, and whoever has a run of groups has about its share.
    """
    sums = [0] * (2 * KEY_GROUPS)  # a heap: the halves of node n are 2n and 2n + 1, the leaves are groups
    for group, load in (loads or {}).items():
        node = KEY_GROUPS + group
        while node:
            sums[node] += load
            node //= 2
    groups = []
    for weight in weights:
        node = 1
        while node < KEY_GROUPS:
            node = 2 * node + (sums[2 * node] > sums[2 * node + 1])
            sums[node] += weight
        groups.append(node - KEY_GROUPS)
    return groups


def _length(number: int) -> bytes:
    """A number as Beam writes it before bytes: seven bits a byte, the lowest first; the high bit: there are more."""
    more = number >> 7
    return bytes([number & 0x7F | 0x80]) + _length(more) if more else bytes([number])


def _murmur(code: int) -> int:
    code = code * 0xCC9E2D51 & _WORD
    code = _turned(code, 15) * 0x1B873593 & _WORD
    code = (_turned(code, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    code = (code ^ code >> 16) * 0x85EBCA6B & _WORD
    code = (code ^ code >> 13) * 0xC2B2AE35 & _WORD
    return code ^ code >> 16


def _turned(code: int, bits: int) -> int:
    return (code << bits | code >> (32 - bits)) & _WORD


def _signed(code: int) -> int:
    """A word as Java's int; of the least, which has no absolute value, 0, as Flink has it."""
    return 0 if code == 1 << 31 else code - ((code & 1 << 31) << 1)
