"""The broker for trials as a command: up, up again, down, and up with the same data."""

from pathlib import Path

import pytest

from deploy.kafka import broker as trial
from deploy.kafka.broker import Broker, BrokerError
from tests.kafka.topics import Topics

pytestmark = pytest.mark.cluster


def test_it_goes_up_and_down(tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    """The second ``up`` finds the first; after ``down`` nothing answers; the address and the data stay.

    ``broker`` is only asked for because what it needs is needed here too.
    """
    folder = str(tmp_path / "state")
    try:
        assert trial.main(["up", folder]) == 0
        assert trial.main(["up", folder]) == 0
        first, second = capsys.readouterr().out.split()
        assert first == second != broker.bootstrap
        with Topics(first) as topics:
            topic = topics.create()
            topics.write(topic, [b"a"])
    finally:
        assert trial.main(["down", folder]) == 0
    assert not trial.answers(int(first.rsplit(":", 1)[1]))
    assert trial.main(["down", folder]) == 0
    with Broker(Path(folder)) as again, Topics(again.bootstrap) as topics:
        assert again.bootstrap == first
        assert [message.value for message in topics.committed(topic)] == [b"a"]


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert trial.missing_programs() == ("java", "mvn")
    with pytest.raises(BrokerError, match="mvn is not on the path; a broker needs Java 17 and Maven"):
        Broker(tmp_path / "state").start()
    assert [path.name for path in (tmp_path / "cache" / "kanonflow").iterdir()] == ["kafka.lock"]
