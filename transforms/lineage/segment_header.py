"""What the files of a segment say of themselves, in their headers."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro


def told_of(data: bytes) -> dict[str, Any]:
    """What the header of a segment's file says of it. Raises ValueError: it is no such file."""
    try:
        told = json.loads(fastavro.reader(BytesIO(data)).metadata["avro.schema"])["kanonflow"]
    except Exception:  # whatever the decoder trips over, it is none
        raise ValueError("no file of a segment") from None
    if not isinstance(told, dict):
        raise ValueError("no file of a segment")
    return told
