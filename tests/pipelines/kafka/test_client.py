"""Properties for the Kafka client: what a file may say, and that nothing of its values is ever repeated."""

import sys
from pathlib import Path

import pytest

from kanonflow.pipelines.kafka.address import KafkaAddress, ValueFormat
from kanonflow.pipelines.kafka.client import TroubleLog, connect, kafka_library, read_properties
from kanonflow.schemas.errors import InputError


def _file(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o640, 0o602])
def test_a_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    """Passwords stand there; the message says how to mend it and holds none of them."""
    path = _file(tmp_path, "sasl.password=hunter2\n")
    Path(path).chmod(mode)
    with pytest.raises(InputError, match=f"mode {mode:04o}.*chmod 600") as caught:
        read_properties(path)
    assert "hunter2" not in str(caught.value)


def test_a_file_gives_properties_and_the_registry_its_password(tmp_path: Path) -> None:
    """Comments and blank lines aside; a value may hold an equals sign."""
    text = "# ours\n\nsasl.password = a=b \nschema.registry.basic.auth.user.info=me:hunter2\n"
    properties = read_properties(_file(tmp_path, text))
    assert (properties.client, properties.registry) == (
        {"sasl.password": "a=b"},
        {"basic.auth.user.info": "me:hunter2"},
    )
    assert read_properties(None) == ({}, {})


def test_what_our_promises_rest_on_cannot_be_set(tmp_path: Path) -> None:
    """Every mistake at once, by its line, without the value."""
    text = "isolation.level=hunter2\nsasl.username=me\nno sign\n=hunter2\nerror_cb=hunter2\n"
    text += "schema.registry.ssl.ca.locaton=hunter2\nschema.registry.basic.auth.user.info=hunter2\n"
    text += "schema.registry.bearer.auth.credentials.source=hunter2\n"
    with pytest.raises(InputError) as caught:
        read_properties(_file(tmp_path, text))
    lines = str(caught.value).splitlines()
    assert len(lines) == 7
    assert "line 1: isolation.level is not yours to set" in lines[0]
    assert "line 3 is not name=value" in lines[1]
    assert "line 6: schema.registry.ssl.ca.locaton is not a property" in lines[4]
    assert "line 7: schema.registry.basic.auth.user.info is not user:password" in lines[5]
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InputError, match="not readable"):
        read_properties(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no.such.thing=hunter2", 'No such configuration property: "no.such.thing"'),
        ("security.protocol=hunter2", "a value is not accepted"),
    ],
)
def test_the_client_refuses_without_telling_values(tmp_path: Path, line: str, told: str) -> None:
    """A password that stands in the wrong line must not end up in a log."""
    pytest.importorskip("confluent_kafka")
    address = KafkaAddress("localhost:1", "t", ValueFormat.JSON, config=_file(tmp_path, line))
    with pytest.raises(InputError) as caught:
        connect(kafka_library().Consumer, address, {"group.id": "tests"})
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to install it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(InputError, match=r"pip install kanonflow\[kafka\]"):
        kafka_library()


def test_trouble_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of it, also when it comes and goes."""
    now = [0.0]
    log = TroubleLog(KafkaAddress("a:1", "t", ValueFormat.JSON), lambda: now[0])
    log.over()
    for what in ("_TRANSPORT", "_TRANSPORT", "_RESOLVE"):
        log.tell(what)
    for _ in range(3):
        log.over()
        log.tell("_TRANSPORT")
    assert [record.getMessage() for record in caplog.records] == [
        "kafka://a:1/t: _TRANSPORT; trying again",
        "kafka://a:1/t: _RESOLVE; trying again",
        "kafka://a:1/t: works again",
    ]
    now[0] = 60.0
    log.tell("_TRANSPORT")
    assert len(caplog.records) == 4
