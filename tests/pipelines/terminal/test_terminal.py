"""Names of columns come from inputs: none of them moves a cursor, colours a line or forges one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.terminal.terminal import tell
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.printable import printable

NAMES = ["a\x1b[2J", "b\nkanonflow: done", "c\u202egpj", "d\x07\r\x9b", "e\u2028f", "g\u200b"]
ESCAPED = ["a\\x1b[2J", "b\\nkanonflow: done", "c\\u202egpj", "d\\x07\\r\\x9b", "e\\u2028f", "g\\u200b"]


@pytest.mark.parametrize(("name", "shown"), zip(NAMES, ESCAPED, strict=True))
def test_what_a_terminal_obeys_is_escaped(name: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, in every error about policies and inputs, and at the way out; escaping twice changes nothing."""
    assert printable(name) == shown == printable(shown)
    assert str(InputError(f"column {name}")) == f"column {shown}"
    assert str(PolicyError([f"{name}: no role"])).splitlines()[1:] == [f"  - {shown}: no role"]
    tell(f"one\n{shown} Grüße, 中文")
    tell(f"two {name}")
    out = capsys.readouterr().out
    assert f"one\n{shown} Grüße, 中文\n" in out
    assert all(each.isprintable() or each == "\n" for each in out)


def _clean(text: str) -> None:
    assert [each for each in text if not (each.isprintable() or each == "\n")] == []
    assert not any(line.startswith("kanonflow: done") for line in text.splitlines())


def test_no_command_lets_a_column_name_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Drafts, checks with their table and refusals, runs with their notes and errors."""
    feed, policy = tmp_path / "feed.csv", tmp_path / "policy.yaml"
    header = ",".join(f'"{name}"' for name in (*NAMES[:3], "age"))
    rows = [f"{n % 3},x{n},{n % 5},{20 + n}" for n in range(40)]
    with feed.open("w", encoding="utf-8", newline="") as file:
        file.write("\n".join([header, *rows]) + "\n")
    draft = cli.main(["policy", "draft", "--input", str(feed)])
    drafted = capsys.readouterr()
    _clean(drafted.out + drafted.err)
    if draft == 0:
        policy.write_text(drafted.out.replace('"?"', "sensitive"), encoding="utf-8")
        for command in (
            ["policy", "check", str(policy), "--input", str(feed)],
            ["anonymize", "--policy", str(policy), "--input", str(feed), "--output", str(tmp_path / "out")],
        ):
            assert cli.main(command) == 2
            told = capsys.readouterr()
            _clean(told.out + told.err)
    policy.write_text(
        "version: 1\nk: 2\nfields: {age: {role: quasi, type: numeric, as: int}}\nothers: refuse\n"
    )
    assert cli.main(["policy", "check", str(policy), "--input", str(feed)]) == 2
    told = capsys.readouterr()
    _clean(told.out + told.err)
    assert "a\\x1b[2J" in told.err
