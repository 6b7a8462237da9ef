"""What a page says of the promise: it in words with its premises, or why it is not made here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kanonflow.pipelines.pages.pages import Block, Items, Paragraph
from kanonflow.pipelines.run_records.released_again import LOSS
from kanonflow.pipelines.run_records.verdict import Verdict
from kanonflow.schemas.promises.promises import promise_of

AGAIN = f"THE PROMISE IS LOST: these rows were released more than once. {LOSS}"
DIVIDED = (
    "NO PROMISE OVER RELEASES: people have rows in more than one partition. They are in two cohorts, and who links"
    " their rows finds them in both."
)
REFUTED = "The audit failed, so nothing is promised here."


def no_promise(verdict: Verdict | None, *, released_again: bool, divided: bool = False) -> str | None:
    """Why a page promises nothing; None: nothing speaks against it.

    verdict: of the last audit, of whatever files. divided: whether people of cohorts that last have rows in more than
    one partition.
    """
    if released_again:
        return AGAIN
    if divided:
        return DIVIDED
    return REFUTED if verdict is not None and not verdict.passed else None


def who_links(head: Mapping[str, Any]) -> Iterator[Block]:
    """The first lines of a page where every reader links rows of a person, or of a group. head: as metrics have it."""
    for key in ("publish_member", "publish_group"):
        if head.get(key):
            yield Paragraph(head[key])


def told_promise(head: Mapping[str, Any], lost: str | None, renewal: str | None) -> Iterator[Block]:
    """head: k, protect, cohort, against and values, as metrics have them. lost: ``no_promise``. renewal: of
    ``told_renewal``."""
    if lost is not None:
        yield Paragraph(lost)
        return
    promise = promise_of(head["protect"], head.get("cohort"))
    yield Paragraph(promise.said(head["k"]))
    if renewal is not None:
        yield Paragraph(renewal)
    for name in ("against", "values"):
        if head.get(name):
            yield Paragraph(head[name])
    for heading, sentences in promise.premises(head["k"]).items():
        yield Items(sentences, heading)
