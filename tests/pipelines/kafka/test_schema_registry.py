"""The client of a schema registry: what it finds, what it remembers, and whose fault a failure is."""

import datetime as dt
import io
import json
import sys
from collections.abc import Iterator

import fastavro
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kanonflow.pipelines.kafka.schema_registry import (
    RegistryUnavailableError,
    SchemaRegistry,
    plain_text_warning,
)
from kanonflow.schemas.errors import InputError
from tests.pipelines.kafka.registry_stub import StubRegistry, stub_registry

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

    monkeypatch.setattr("kanonflow.pipelines.kafka.schema_registry.time.sleep", recover)
    assert SchemaRegistry(registry.url, tries=2).latest("rows-value") == ROW
    assert len(registry.asked) == 2


def test_schemas_that_cannot_be_used_say_why(registry: StubRegistry) -> None:
    """Other languages, references that lead nowhere, and what is no record."""
    nowhere = {"name": "x", "subject": "missing", "version": 1}
    for more in ({"schemaType": "PROTOBUF"}, {"references": [nowhere]}):
        registry.add("other", ROW, **more)
    registry.schemas[9] = {"schema": '"string"'}
    client = _client(registry)
    told = [client.schema(number) for number in (2, 3, 9)]
    assert told == [
        "it is not an Avro schema",
        "it refers to a schema that the registry does not know",
        "it is not a record",
    ]
    with pytest.raises(InputError, match="subject other: it refers to"):
        client.latest("other")
    with pytest.raises(InputError, match="no subject missing; register a schema, or give schema=FILE"):
        client.latest("missing")


PLACE = {"type": "record", "name": "Place", "namespace": "geo", "fields": [{"name": "town", "type": "Town"}]}
TOWN = {"type": "enum", "name": "geo.Town", "symbols": ["ULM", "BONN"]}


def _refers_to(name: str, subject: str) -> dict[str, object]:
    return {"references": [{"name": name, "subject": subject, "version": 1}]}


def test_a_schema_with_references_stands_by_itself(registry: StubRegistry) -> None:
    """What is referred to, and what that refers to, is written out once, where it is first used."""
    visit = {
        "type": "record",
        "name": "Visit",
        "fields": [
            {"name": "at", "type": ["null", "geo.Place"]},
            {"name": "to", "type": "geo.Place"},
            {"name": "towns", "type": {"type": "array", "items": "geo.Town"}},
        ],
    }
    registry.add("town", TOWN)
    registry.add("place", PLACE, **_refers_to("geo.Town", "town"))
    number = registry.add("visits-value", visit, **_refers_to("geo.Place", "place"))
    found = _client(registry).schema(number)
    assert isinstance(found, dict)
    assert found == _client(registry).latest("visits-value")
    record = {"at": {"town": "ULM"}, "to": {"town": "BONN"}, "towns": ["ULM"]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(found), record)
    out.seek(0)
    assert fastavro.schemaless_reader(out, fastavro.parse_schema(found), None) == record
    assert json.dumps(found).count("symbols") == 1


def test_references_in_a_circle_end(registry: StubRegistry) -> None:
    """A registry that somebody else fills may answer anything."""
    one = {"type": "record", "name": "One", "fields": [{"name": "other", "type": ["null", "Two"]}]}
    two = {"type": "record", "name": "Two", "fields": [{"name": "other", "type": ["null", "One"]}]}
    registry.add("one", one, **_refers_to("Two", "two"))
    registry.add("two", two, **_refers_to("One", "one"))
    found = _client(registry).schema(1)
    assert isinstance(found, dict)
    fastavro.parse_schema(found)


def test_passwords_are_sent_and_a_refusal_says_where_they_belong(registry: StubRegistry) -> None:
    """Basic authentication; the message does not repeat it."""
    mine = {"basic.auth.user.info": "me:hunter2"}
    _client(registry, properties=mine).schema(1)
    assert registry.passwords == ["Basic bWU6aHVudGVyMg=="]
    registry.failing = 401
    with pytest.raises(InputError, match=r"401.*schema.registry.basic.auth.user.info") as caught:
        _client(registry, properties=mine).schema(1)
    assert "hunter2" not in str(caught.value)
    registry.failing = 409
    with pytest.raises(InputError, match="not compatible"):
        _client(registry).register("rows-value", WIDER)


def test_a_redirect_is_not_followed(registry: StubRegistry) -> None:
    """A password would go to whoever the answer names; so would a schema that was not asked of him."""
    with stub_registry() as other:
        other.add("rows-value", ROW)
        registry.elsewhere = other.url
        client = _client(registry, properties={"basic.auth.user.info": "me:hunter2"})
        for ask in (
            lambda: client.schema(1),
            lambda: client.latest("rows-value"),
            lambda: client.register("rows-value", WIDER),
        ):
            with pytest.raises(RegistryUnavailableError, match="sends to another address") as caught:
                ask()
            assert "hunter2" not in str(caught.value)
        assert other.asked == []


@pytest.mark.parametrize("answer", [b"<html>hunter2", b"[1]", b"3", b"null", b'{"schema": 3}', b"\xff"])
def test_a_stranger_is_no_registry(registry: StubRegistry, answer: bytes) -> None:
    """Whatever a wrong address answers, no row is at fault, and the answer is not repeated."""
    registry.stranger = answer
    for ask in (lambda c: c.schema(1), lambda c: c.latest("rows-value"), lambda c: c.register("a", ROW)):
        try:
            told = ask(_client(registry))
        except (RegistryUnavailableError, InputError) as error:
            told = str(error)
        assert isinstance(told, str)
        assert "hunter2" not in told


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_tls_trusts_whom_it_is_told_to(certificate: tuple[str, str]) -> None:
    """A registry with a certificate of its own: refused, unless ssl.ca.location names it."""
    with stub_registry(certificate) as stub:
        stub.add("rows-value", ROW)
        assert stub.url.startswith("https://")
        with pytest.raises(RegistryUnavailableError, match="does not answer"):
            _client(stub).schema(1)
        assert _client(stub, properties={"ssl.ca.location": certificate[0]}).schema(1) == ROW
    with pytest.raises(InputError, match=r"schema\.registry\.\*.*not there"):
        _client(stub, properties={"ssl.ca.location": "/no/such/file"})


def test_a_token_is_fetched_and_shown(registry: StubRegistry) -> None:
    """OAuth: the client's secret goes to the issuer, the token to the registry; neither into a message."""
    registry.tokens = "t0ken"
    oauth = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": f"{registry.url}/token",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "hunter2",
        "bearer.auth.scope": "schemas",
        "bearer.auth.logical.cluster": "lsrc-1",
    }
    assert _client(registry, properties=oauth).schema(1) == ROW
    assert registry.asked == ["/token", "/schemas/ids/1"]
    assert registry.passwords[1] == "Bearer t0ken"
    registry.tokens = None
    with pytest.raises(RegistryUnavailableError, match="token cannot be had") as caught:
        _client(registry, properties=oauth).schema(1)
    assert "hunter2" not in str(caught.value)
    half = {"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.secret": "hunter2"}
    with pytest.raises(InputError, match="refuses the properties") as refused:
        _client(registry, properties=half)
    assert "hunter2" not in str(refused.value)


def test_a_password_over_http_is_warned_of() -> None:
    """Also when only the way to the token's issuer is open; not without a password, and not over https."""
    password, token = {"basic.auth.user.info": "me:hunter2"}, {"bearer.auth.client.secret": "hunter2"}
    told = plain_text_warning("http://registry:8081", password)
    assert told is not None
    assert "plain text" in told
    assert "hunter2" not in told
    assert plain_text_warning("HTTP://registry:8081", token) is not None
    issuer = {**token, "bearer.auth.issuer.endpoint.url": "http://sso/token"}
    assert plain_text_warning("https://registry", issuer) is not None
    assert plain_text_warning("https://registry", password | token) is None
    assert plain_text_warning("http://registry:8081", {}) is None


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to install it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(InputError, match=r"pip install kanonflow\[kafka\]"):
        SchemaRegistry("http://localhost:1")
