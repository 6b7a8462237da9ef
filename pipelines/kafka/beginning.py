"""The first offset that is read of a partition: its beginning, or where an address says (``from=``)."""

from __future__ import annotations

from typing import Any

from kanonflow.pipelines.kafka.address import Begin, KafkaAddress
from kanonflow.pipelines.kafka.client import ASK_SECONDS
from kanonflow.schemas.errors import InputError


def beginning(consumer: Any, library: Any, address: KafkaAddress, begin: Begin, number: int) -> int:
    """The offset at which a partition begins. Of a time without a later message, the partition's end.

    Raises InputError: ``begin`` has no offset of it, or one that is not there (any more). KafkaException: no answer.
    """
    place = library.TopicPartition(address.topic, number)
    first, end = consumer.get_watermark_offsets(place, timeout=ASK_SECONDS)
    if begin.at_ms is not None:
        asked = library.TopicPartition(address.topic, number, begin.at_ms)
        (found,) = consumer.offsets_for_times([asked], timeout=ASK_SECONDS)
        return int(found.offset) if found.offset >= 0 else int(end)
    if not begin.offsets:
        return int(first)
    offset = dict(begin.offsets).get(number)
    if offset is None:
        raise InputError(
            f"{address}: from= names no offset of partition {number}; name one of each, as in from=0:1200,1:900"
        )
    if not first <= offset <= end:
        raise InputError(
            f"{address}: from={number}:{offset}: partition {number} has offsets {first} to {end}, and rows that are not"
            " there cannot be read"
        )
    return offset
