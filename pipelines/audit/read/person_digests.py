"""Whose digest is whose: individuals of the input as the cohorts' files name them.

A person is the first 8 bytes, little-endian, of BLAKE2b over its canonical text, keyed by HKDF-SHA256(first secret,
("kanonflow", "partition", "people")). The key is given: it is all of the secret that the audit takes.
"""

from __future__ import annotations

import hashlib

import numpy as np

from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.text_values import render_text


def digests_of_codes(book: CodeBook, key: bytes) -> np.ndarray:
    """The digest of each value of the individual's field, uint64 by code; 0 of what could not be read. O(values)."""
    digests = np.zeros(len(book.values), np.uint64)
    for code, text in enumerate(render_text(book.canonical()).to_pylist()):
        if text is not None:
            digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8, key=key).digest()
            digests[code] = int.from_bytes(digest, "little")
    return digests
