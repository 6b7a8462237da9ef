"""What an audit is given of a real topic: all that was committed, or nothing."""

import pytest

from kanonflow.pipelines.commands.topic_copies import committed_messages
from kanonflow.pipelines.kafka.address import KafkaAddress, kafka_sink_address
from kanonflow.schemas.errors import InputError
from tests.kafka.topics import Topics

pytestmark = pytest.mark.cluster


def _address(topics: Topics, topic: str) -> KafkaAddress:
    return kafka_sink_address(f"kafka://{topics.bootstrap}/{topic}?format=avro")


def test_all_that_was_committed(topics: Topics) -> None:
    """Of every partition, behind the ends of transactions too; what was aborted or is open is not there."""
    topic = topics.create(partitions=3)
    topics.write(topic, [b"plain", None], partition=0)
    for number, outcome in enumerate(("commit", "abort", "commit", "open")):
        producer = topics.producer(**{"transactional.id": f"{topic}-{number}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, outcome.encode(), key=b"k", partition=1)
        assert producer.flush(30) == 0
        if outcome == "commit":
            producer.commit_transaction(30)
        elif outcome == "abort":
            producer.abort_transaction(30)
    found = list(committed_messages(_address(topics, topic)))
    assert found == [(None, b"plain"), (None, None), (b"k", b"commit"), (b"k", b"commit")]
    producer.abort_transaction(30)


def test_a_topic_that_is_not_whole_is_refused(topics: Topics) -> None:
    """What was deleted cannot be audited; a topic that is not there holds nothing to audit."""
    topic = topics.create(partitions=2)
    topics.write(topic, [b"a", b"b", b"c"], partition=1)
    place = topics.library.TopicPartition(topic, 1, 2)
    topics.admin.delete_records([place])[place].result()
    with pytest.raises(
        InputError, match="partition 1 begins at offset 2; what stood before it, from 0, is deleted"
    ):
        list(committed_messages(_address(topics, topic)))
    with pytest.raises(InputError, match="there is no such topic"):
        list(committed_messages(_address(topics, "nowhere")))
