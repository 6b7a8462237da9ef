"""What a topic's rows look like before the first is read."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.feeds.message_values import JsonValues
from kanonflow.pipelines.kafka.address import kafka_source_address
from kanonflow.pipelines.kafka.avro_values import AvroValues, RegistryValues
from kanonflow.pipelines.kafka.input import kafka_input, value_decoder
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from tests.pipelines.kafka.registry_stub import stub_registry

ROW: dict[str, Any] = {"type": "record", "name": "Row", "fields": [{"name": "age", "type": "int"}]}


@pytest.fixture(scope="module")
def policy() -> Policy:
    """One field."""
    fields = {"age": {"role": "quasi", "type": "numeric", "as": "int"}}
    return parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")


def test_json_has_the_policys_fields_as_text(policy: Policy) -> None:
    """Nothing else says what there is."""
    address = kafka_source_address("kafka://a:1/t?format=json")
    schema = kafka_input(address, policy).schema
    assert (schema.columns, schema.text) == (pa.schema([("age", pa.string())]), True)
    assert isinstance(value_decoder(address, None, ("age",)), JsonValues)


def test_avro_has_the_schema_of_a_file_or_of_the_registry(tmp_path: Path, policy: Policy) -> None:
    """The file goes first; the schema travels with the job."""
    path = tmp_path / "row.avsc"
    path.write_text(json.dumps(ROW))
    address = kafka_source_address(f"kafka://a:1/t?format=avro&schema={path}")
    found = kafka_input(address, policy)
    assert (found.schema.columns.types, found.schema.text) == ([pa.int32()], False)
    assert json.loads(found.avro or "") == ROW
    assert isinstance(value_decoder(address, found.avro, ("age",)), AvroValues)
    wide = ROW | {"fields": [{"name": "age", "type": "long"}]}
    with stub_registry() as registry:
        registry.add("t-value", wide)
        from_registry = kafka_source_address(f"kafka://a:1/t?format=registry&registry={registry.url}")
        latest = kafka_input(from_registry, policy)
        both = kafka_source_address(f"kafka://a:1/t?format=registry&registry={registry.url}&schema={path}")
        assert kafka_input(both, policy) == found
    assert latest.schema.columns.types == [pa.int64()]
    assert isinstance(value_decoder(from_registry, latest.avro, ("age",)), RegistryValues)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not readable as JSON"),
        ("[]", "not a record"),
        ('{"type": "string"}', "not a record"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "no"}]}',
            "not a valid Avro schema",
        ),
    ],
)
def test_a_schema_file_that_is_none_is_refused(tmp_path: Path, policy: Policy, text: str, told: str) -> None:
    """By its name."""
    path = tmp_path / "row.avsc"
    path.write_text(text)
    with pytest.raises(InputError, match=told) as caught:
        kafka_input(kafka_source_address(f"kafka://a:1/t?format=avro&schema={path}"), policy)
    assert "row.avsc" in str(caught.value)


def test_a_registry_without_the_subject_is_refused(policy: Policy) -> None:
    """With what to do."""
    with stub_registry() as registry:
        address = kafka_source_address(f"kafka://a:1/t?format=registry&registry={registry.url}")
        with pytest.raises(InputError, match="no subject t-value; register a schema, or give schema=FILE"):
            kafka_input(address, policy)
        registry.failing = 500
        with pytest.raises(InputError, match="registry=http://localhost"):
            kafka_input(address, policy)
