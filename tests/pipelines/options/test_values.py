"""Values of options as they are read from the command line."""

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.options.values import place, place_or_topic

_ANONYMIZE = ["anonymize", "--policy", "p", "--input", "i", "--output"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("out", "out"),
        ("/data/out", "/data/out"),
        ("file:///data/out", "/data/out"),
        ("gs://bucket/out", "gs://bucket/out"),
        ("s3://bucket/out", "s3://bucket/out"),
    ],
)
def test_places(text: str, read: str) -> None:
    """A directory here is called by its path or by file://."""
    assert place(text) == place_or_topic(text) == read


@pytest.mark.parametrize(
    ("text", "flags", "told"),
    [
        ("file://data/out", ["stop"], "file:// goes before a whole path"),
        ("http://host/out", ["stop"], "nothing here reads and writes http://"),
        ("http://host/out", _ANONYMIZE, "nothing here reads and writes http://"),
        ("kafka://host:9092/topic", _ANONYMIZE, "nothing here reads and writes kafka://"),
    ],
)
def test_places_that_nothing_writes_to(
    text: str, flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before anything is read, with what may stand there."""
    with pytest.raises(SystemExit) as ended:
        cli.main([*flags, text])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_an_output_may_be_a_topic() -> None:
    """Of a stream."""
    assert place_or_topic("kafka://host:9092/topic") == "kafka://host:9092/topic"
