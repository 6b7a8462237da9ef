"""What can be read in the job graph that a runner is handed."""

from __future__ import annotations

import base64
import bz2
import re
from typing import Any

_PICKLED = re.compile(rb"QlpoO[A-Za-z0-9+/]+=*")
"""base64 of bz2 at its highest level: how Beam packs what it pickles."""


def readable(proto: Any) -> bytes:
    """Every byte of the graph, with all pickles in it unpacked, also those inside of pickles."""
    found, texts = [proto.SerializeToString()], []
    while found:
        text = found.pop()
        texts.append(text)
        found += [
            bz2.decompress(base64.b64decode(packed[: len(packed) // 4 * 4]))
            for packed in _PICKLED.findall(text)
        ]
    return b"\n".join(texts)
