"""What does a draft make of feeds of twelve trades, and how far is it from there to a release that passes assess?

Feeds: bank, retail, hospital, telco, insurance, pharmacy, mobility, payroll, web log, census, energy, loyalty
(``trade_feeds.py``), with planted contact data (e-mail, phone, IBAN, cards, names, free text, places to the metre), and
soiled: blanks behind cells, words for nothing in several spellings, ids as doubles, days with the day first, umlauts.
Each once with its names of columns, once with c1, c2, ... Files are CSV, k is 5.

Draft: the whole of ``kanonflow policy draft``. A wrong kind is a person, contact field, attribute or place to the metre
that is drafted as published exactly, surely or as a proposal. Held back is payload that is drafted as anything else.
Answers: each question by the truth; an edit is an answer other than what was proposed. Payload asked about since
its measure is above a limit is dropped, as is proposed. An attribute that is (some rows of people have nothing in the
place of their value) is ``quasi`` under ``cohort: window``, as the draft says, which is an edit more. Then ``policy
check``, ``anonymize``, ``verify`` in full (secret, matching records) and ``assess`` (half of the people as controls),
by the command, with its exit codes: 0 is passed. Seconds are of the wall, on a machine that others use.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.trade_feeds import TRADES, Feed
from kanonflow.pipelines.cli import main as kanonflow
from kanonflow.pipelines.commands.draft import draft_from_input

HIDDEN = ("person", "contact", "attribute", "where")
"""Kinds that are never published exactly."""
EXACT = ("sensitive", "insensitive")
_MEASURED = "measured to tell"
_ASKED = "?"


@dataclass(frozen=True)
class Drafted:
    """asked: the fields whose role is open. proposed: the policy with what is proposed there. measured: of the asked,
    those above a limit. row_asked: whether it is asked whether rows are people."""

    asked: tuple[str, ...]
    proposed: dict[str, Any]
    measured: tuple[str, ...]
    row_asked: bool

    @property
    def questions(self) -> int:
        """How many there are."""
        return len(self.asked) + self.row_asked

    def role(self, name: str) -> str:
        """Of a field, asked or not."""
        return str(self.proposed["fields"][name]["role"])

    def wrong(self, feed: Feed) -> list[str]:
        """Fields of hidden kinds that are published exactly."""
        return [name for name, kind in feed.truth.items() if kind in HIDDEN and self.role(name) in EXACT]

    def held_back(self, feed: Feed) -> list[str]:
        """Payload that is not published exactly."""
        return [
            name for name, kind in feed.truth.items() if kind == "payload" and self.role(name) not in EXACT
        ]


def write_feed(feed: Feed, folder: Path) -> Path:
    """The feed as a CSV file."""
    path = folder / "feed.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(feed.cells)
        writer.writerows(zip(*feed.cells.values(), strict=True))
    return path


def drafted(path: Path) -> Drafted:
    """What the draft says of a file."""
    text = draft_from_input([str(path)])
    plain = yaml.safe_load(text)
    asked = tuple(name for name, field in plain["fields"].items() if field["role"] == _ASKED)
    reasons = dict(re.findall(r'  # (.*)\n  "?([^:"\n]+)"?: \{', text))
    measured = {name for reason, name in reasons.items() if _MEASURED in reason}
    proposed = yaml.safe_load(draft_from_input([str(path)], answered=True))
    return Drafted(asked, proposed, tuple(sorted(measured & {*asked})), plain.get("protect") == _ASKED)


def answered(draft: Drafted, feed: Feed) -> tuple[dict[str, Any], int]:
    """The policy with each question answered by the truth, and how many answers are not what was proposed."""
    policy = json.loads(json.dumps(draft.proposed, default=str))
    edits = 0
    if draft.row_asked and not feed.rows_are_people:
        raise ValueError(f"{feed.name}: its rows are no people, and the draft has no individual")
    for name in draft.asked:
        field, kind = policy["fields"][name], feed.truth[name]
        said = {key: value for key, value in field.items() if key in ("as", "format")}
        answers: dict[str, dict[str, Any]] = {
            "person": {"role": "individual", **said},
            "attribute": field if field["role"] == "quasi" else {"role": "quasi", "type": "categorical"},
            "payload": {"role": "sensitive", **said},
        }
        answer = answers.get(kind, {"role": "identifier"})
        if answer["role"] == field["role"] or (name in draft.measured and kind != "attribute"):
            continue
        policy["fields"][name] = answer
        edits += 1
        if name in draft.measured and policy.get("cohort") != "window":
            policy["cohort"] = "window"
            edits += 1
    return policy, edits


def walk(path: Path, policy: dict[str, Any], folder: Path, *, assessed: bool = True) -> tuple[list[int], str]:
    """Exit codes of check, anonymize, verify and assess, as far as they come; what the last one says. assessed: whether
    assess is asked, too."""
    names = {name: str(folder / name) for name in ("policy.yaml", "secret", "out")}
    Path(names["policy.yaml"]).write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    Path(names["secret"]).write_bytes(bytes(range(1, 33)))
    Path(names["secret"]).chmod(0o600)
    both = ["--policy", names["policy.yaml"], "--input", str(path)]
    followed = ["--matching-records", "--secret-file", names["secret"]]
    commands = (
        ["policy", "check", *both[1:]],
        ["anonymize", *both, "--output", names["out"], *followed],
        ["verify", *both, "--release", names["out"], *followed],
        ["assess", names["out"], *both, "--json"],
    )
    codes: list[int] = []
    said = io.StringIO()
    for command in commands if assessed else commands[:-1]:
        said, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
            codes.append(kanonflow(command))
        if command[0] == "assess" and told.getvalue():
            assessment = json.loads(told.getvalue())
            return codes, "\n".join(f"above: {each}" for each in assessment["above"])
        if codes[-1] and command[0] != "policy":
            said.write(told.getvalue())
            break
    return codes, said.getvalue()


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Drafts of feeds of twelve trades.")
    parser.add_argument("--times", type=int, default=3, help="people and rows, of those in tests")
    parser.add_argument("--trades", nargs="+", help="names of those to take")
    parser.add_argument("--draft-only", action="store_true", help="nothing behind the draft")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("trades", __doc__ or "", module="trades")
    table = findings.table(
        "Drafts, and what came of them",
        (
            *("trade", "columns", "rows", "fields", "wrong kinds", "held back", "questions", "edits"),
            *("draft s", "check", "anonymize", "verify", "assess", "all s"),
        ),
        "check to assess: exit codes; -: not reached.",
    )
    above = findings.table(
        "What assess, or the last command, says where it does not pass", ("trade", "columns", "line")
    )
    fields = findings.table(
        "Fields: truth and draft", ("trade", "columns", "field", "truth", "drafted", "asked")
    )
    feeds = [make(arguments.times).soiled() for make in TRADES]
    for columns in ("named", "c1, c2, ..."):
        for whole in feeds:
            if arguments.trades and whole.name not in arguments.trades:
                continue
            feed = whole if columns == "named" else whole.nameless()
            with tempfile.TemporaryDirectory() as place:
                begin = time.perf_counter()
                path = write_feed(feed, Path(place))
                draft = drafted(path)
                seconds = (time.perf_counter() - begin) / 2  # drafted plain and answered
                codes: list[int] = []
                edits = None
                if not arguments.draft_only:
                    policy, edits = answered(draft, feed)
                    codes, said = walk(path, policy, Path(place))
                    if codes[-1] or len(codes) < 4:
                        above.rows += [(feed.name, columns, line) for line in telling(said)]
                table.rows.append(
                    (
                        *(feed.name, columns, feed.table().num_rows, len(feed.truth), len(draft.wrong(feed))),
                        *(len(draft.held_back(feed)), draft.questions, edits, seconds),
                        *(*codes, *[None] * (4 - len(codes)), time.perf_counter() - begin),
                    )
                )
                print(*table.rows[-1], flush=True)
                names = zip(whole.truth, feed.truth, strict=True)
                fields.rows += [
                    (feed.name, columns, name, feed.truth[here], draft.role(here), here in draft.asked)
                    for name, here in names
                ]
    return publish(findings, arguments, begun)


def telling(said: str) -> list[str]:
    """Lines that say why something was refused, without the paths of this machine."""
    lines = [re.sub(r"/\S*/", "", line).strip() for line in said.splitlines()]
    return [line for line in lines if re.search(r"above|FAIL|kanonflow:|too few", line)][:6]


if __name__ == "__main__":
    raise SystemExit(main())
