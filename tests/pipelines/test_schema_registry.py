"""The client of a schema registry: what it finds, what it remembers, and whose fault a failure is."""

from collections.abc import Iterator

import pytest

from kanonflow.pipelines.schema_registry import RegistryUnavailableError, SchemaRegistry
from kanonflow.schemas.errors import InputError
from tests.pipelines.registry_stub import StubRegistry, stub_registry

ROW = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": "int"}]}
WIDER = {
    "type": "record",
    "name": "Row",
    "fields": [*ROW["fields"], {"name": "b", "type": "int", "default": 0}],
}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    """A registry with one subject."""
    with stub_registry() as stub:
        stub.add("rows-value", ROW)
        yield stub


def _client(stub: StubRegistry, **how: object) -> SchemaRegistry:
    return SchemaRegistry(stub.url, tries=1, timeout_s=5, **how)  # type: ignore[arg-type]


def test_a_schema_is_asked_for_once(registry: StubRegistry) -> None:
    """What an id means never changes."""
    client = _client(registry)
    assert [client.schema(1), client.schema(1)] == [ROW, ROW]
    assert registry.asked == ["/schemas/ids/1"]


def test_a_subject_has_a_latest_schema(registry: StubRegistry) -> None:
    """Registering again gives the same id; another schema becomes the latest."""
    client = _client(registry)
    assert client.latest("rows-value") == ROW
    assert client.register("rows-value", ROW) == 1
    assert client.register("rows-value", WIDER) == 2
    assert client.latest("rows-value") == WIDER


def test_what_does_not_exist_is_told_from_what_does_not_answer(registry: StubRegistry) -> None:
    """An id that the registry does not know is a fact; an error, a stranger's 404 and silence are not."""
    client = _client(registry)
    assert client.schema(7) == "the schema registry does not know it"
    registry.failing = 500
    with pytest.raises(RegistryUnavailableError, match="500"):
        client.schema(8)
    registry.failing = 404
    with pytest.raises(RegistryUnavailableError, match="404"):
        client.schema(8)
    registry.failing = None
    registry.schemas[8] = registry.schemas[1]
    assert client.schema(8) == ROW
    nobody = SchemaRegistry("http://127.0.0.1:9", tries=2, timeout_s=1)
    with pytest.raises(RegistryUnavailableError):
        nobody.schema(1)


def test_it_asks_again(registry: StubRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that passes is not noticed."""
    registry.failing = 503

    def recover(seconds: float) -> None:
        registry.failing = None

    monkeypatch.setattr("kanonflow.pipelines.schema_registry.time.sleep", recover)
    assert SchemaRegistry(registry.url, tries=2).latest("rows-value") == ROW
    assert len(registry.asked) == 2


def test_schemas_that_cannot_be_used_say_why(registry: StubRegistry) -> None:
    """Other languages, references, and what is no record."""
    for more in ({"schemaType": "PROTOBUF"}, {"references": [{"name": "x"}]}):
        registry.add("other", ROW, **more)
    registry.schemas[9] = {"schema": '"string"'}
    client = _client(registry)
    told = [client.schema(number) for number in (2, 3, 9)]
    assert told == [
        "it is not an Avro schema",
        "it refers to other schemas, which is not supported; register it as one",
        "it is not a record",
    ]
    with pytest.raises(InputError, match="subject other: it refers to"):
        client.latest("other")
    with pytest.raises(InputError, match="no subject missing; register a schema, or give schema=FILE"):
        client.latest("missing")


def test_passwords_are_sent_and_a_refusal_says_where_they_belong(registry: StubRegistry) -> None:
    """Basic authentication; the message does not repeat it."""
    _client(registry, credentials="me:hunter2").schema(1)
    assert registry.passwords == ["Basic bWU6aHVudGVyMg=="]
    registry.failing = 401
    with pytest.raises(InputError, match=r"401.*schema.registry.basic.auth.user.info") as caught:
        _client(registry, credentials="me:hunter2").schema(1)
    assert "hunter2" not in str(caught.value)
    registry.failing = 409
    with pytest.raises(InputError, match="not compatible"):
        _client(registry).register("rows-value", WIDER)
