"""The one table of options: what the parser takes, what is refused of it, and what the documents say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines.options import table
from kanonflow.pipelines.options.options import OptionsError, parse

ROOT = Path(__file__).parents[3]
RUN = ["--policy", "p", "--input", "i", "--output", "o"]
STREAM = ["stream", "--policy", "p", "--source", "s", "--output", "o"]


def test_the_document_of_commands_is_that_of_the_table() -> None:
    """docs/commands.md ends with what the table gives, every option of every command."""
    assert (ROOT / "docs/commands.md").read_text().endswith("\n\n" + table.option_tables().rstrip() + "\n")


def test_every_row_is_of_commands_that_there_are() -> None:
    """A mistyped command would take an option away in silence; what an option goes with is its command's too."""
    names = {name.replace(" ", "-") for name in table.COMMANDS}
    for option in table.OPTIONS:
        assert set(option.commands.split()) <= names, option
        for command in option.commands.split():
            there = {each.name for each in table.options_of(command)}
            assert not option.with_ or option.with_ in there, option


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["anonymize", *RUN, "--until", "2024-01-01"], "--until goes with --carry: without it"),
        (["anonymize", *RUN, "--people-changed"], "--people-changed goes with --continue"),
        (["anonymize", *RUN, "--individual-type", "long"], "--individual-type goes with --continue"),
        ([*STREAM, "--rewind"], "--rewind goes with --resume"),
        ([*STREAM, "--carry"], "--carry: not for a stream"),
        ([*STREAM, "--until=2024-01-01"], "--until: not for a stream"),
        ([*STREAM, "--second-release"], "--second-release: not for a stream"),
        (["report", "out", "--input", "i"], "--input goes with --policy: queries"),
        (["policy", "check", "p", "--for", "out"], "--for goes with --input"),
    ],
)
def test_what_goes_with_nothing_there_is_refused(argv: list[str], message: str) -> None:
    """By the flag's name and with the reason, before anything is read."""
    with pytest.raises(OptionsError, match=message):
        parse(argv)


@pytest.mark.parametrize(
    ("flagged", "placed"),
    [
        ("report --release out --policy p --input i", "report out --policy p --input i"),
        ("report --release=out", "report out"),
        ("export --release one two --to csv", "export one two --to csv"),
        ("assess --policy p --input i --release out", "assess out --policy p --input i"),
        ("rejected --release out --policy p --to mend.csv", "rejected out --policy p --to mend.csv"),
        ("forget --release out --individual-file f", "forget out --individual-file f"),
        ("policy check --policy p --input i", "policy check p --input i"),
    ],
)
def test_policies_and_releases_are_called_the_same_everywhere(flagged: str, placed: str) -> None:
    """A flag before the place says what the place says, and nothing is told of it."""
    assert parse(flagged.split()) == parse(placed.split())
    assert parse(flagged.split())[0].notes == []


def test_verify_takes_a_release_as_the_others_do() -> None:
    """Before or behind its flag."""
    by_flag, _ = parse(["verify", "--policy", "p", "--input", "i", "--release", "out"])
    by_place, _ = parse(["verify", "out", "--policy", "p", "--input", "i"])
    assert [*by_flag.directories, *by_flag.release] == [*by_place.directories, *by_place.release] == ["out"]


def test_a_flag_that_had_another_name_is_read_with_a_note() -> None:
    """The spelling of before 0.1.0 says what the new one says."""
    old, _ = parse(["anonymize", *RUN, "--certificates"])
    new, _ = parse(["anonymize", *RUN, "--matching-records"])
    assert old.matching_records is new.matching_records is True
    assert (old.notes, new.notes) == (["--certificates is called --matching-records now"], [])
