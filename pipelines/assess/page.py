"""An assessment for whoever reads: tables, lines for a terminal, and a page in the order of the law."""

from __future__ import annotations

from collections.abc import Iterator

from kanonflow.pipelines.assess.findings import (
    ABOVE,
    ELSE,
    INFERENCE,
    LINKABILITY,
    SINGLING_OUT,
    Assessment,
    Line,
)
from kanonflow.pipelines.assess.rates import Rate
from kanonflow.pipelines.pages.pages import Block, Items, Page, Paragraph, Section, Status
from kanonflow.pipelines.terminal.table import Cell, Table, decimal, rows_of, share

_QUESTIONS = {
    SINGLING_OUT: (
        "Singling out",
        "Can one person be isolated? (Opinion 05/2014; the same word in ISO/IEC 27559; identity disclosure in NIST SP"
        " 800-188)",
    ),
    LINKABILITY: (
        "Linkability",
        "Can two records of one person be put together? (Opinion 05/2014; linking in ISO/IEC 27559; linkage attacks in"
        " NIST SP 800-188)",
    ),
    INFERENCE: (
        "Inference",
        "Can a value of a person be found out? (Opinion 05/2014; the same word in ISO/IEC 27559; attribute and"
        " inferential disclosure in NIST SP 800-188)",
    ),
    ELSE: ("Beside these", "What else can be told of people"),
}
_MENDS = {
    SINGLING_OUT: "A larger k, a coarser grid, or fewer fields that are published exactly",
    LINKABILITY: "A larger k, or a coarser grid",
    INFERENCE: "A larger k hides a value among more rows, or this field is left out (role: identifier)",
}
_HEAD = ("the reader has", "and finds", "people", "controls", "figure", "95% from", "to", "limit", "verdict")
_READ = (
    "A figure is (people - controls) / (1 - controls): what is found of people in the release beyond what is found"
    " of controls, who are not in it. Intervals of rates are those of Clopper and Pearson; those of figures are put"
    " together from them. Limits are the policy's, for the reader who has everybody's attributes, which is who the"
    " promise is about. What a reader finds who knows more has no limit, and no grouping takes it away."
)
_ALONE = (
    "The release alone: a predicate over one box of it. About (1 - 1/k)^(k-1) of random predicates of weight"
    " 1/members match exactly one person whatever the grouping. What is found so is that somebody has these values:"
    " neither who it is, nor which row is theirs."
)
ODD = (
    "Controls are found more often than people, by more than chance: they are of another kind than the people of the"
    " release, and figures against them say too little."
)


_TRIED = {
    SINGLING_OUT: (
        "One person by one value, by several values: a predicate out of released values that one released record"
        " meets is"
        " met by exactly one person (Giomi and others 2023). Values of ranges are their middles.",
        "One person whose rows fit: the reader sees which rows are one person's, not whose. Of those whose boxes"
        " hold the"
        " person, and whose rows fit what the reader knows, there is one.",
        "Boxes of one person: released boxes that hold the rows of one person of the input at most.",
        "Rows that are alone: nobody else has these values. Amounts and times of a booking are left out.",
    ),
    LINKABILITY: (
        "One row by either half: there are two files, with one half of the attributes each. Both halves of a person"
        " come"
        " to the same released box as the nearest, and of all people whose second half comes to it, one is taken by"
        " chance. Over several ways to cut the attributes in halves.",
        "Several rows of that person: where one person's rows fit, there are more of them than the reader knew of.",
    ),
    INFERENCE: (
        "A value of a person's rows is guessed from the released rows that fit. Numbers within 5% are right. Where more"
        " than half of the rows have one value, only right guesses of others count. Of readers who know more, the field"
        " that they guess best.",
    ),
    ELSE: (
        "Membership: whoever is held by k released rows or more is said to be in it. Downcoding: the half of a"
        " published"
        " range in which more released middles lie is said to be the person's. Both are people less controls.",
    ),
}


def tables(assessment: Assessment) -> Iterator[Table]:
    """A table a question."""
    for question, (title, words) in _QUESTIONS.items():
        lines = [line for line in assessment.lines if line.question == question]
        if lines:
            name = question.replace(" ", "_")
            rows = rows_of(_row(line, assessment) for line in lines)
            yield Table(name, f"{title}. {words}", _HEAD, rows, folded=False)


def _row(line: Line, assessment: Assessment) -> tuple[Cell, ...]:
    figure, (low, high) = line.outcome or (None, (None, None))
    shown = line.rate if line.worst is None else line.worst.rate
    rates = (None, None) if line.outcome is None else (_rate(shown), _rate(line.control))
    ends = (decimal(figure, 3), decimal(low, 3), decimal(high, 3))
    return (
        line.reader,
        line.attack,
        *rates,
        *ends,
        decimal(line.limit, 2),
        line.verdict(assessment.limits.by) or None,
    )


def _rate(rate: Rate | None) -> Cell:
    return None if rate is None else share(rate.share)


def verdict(assessment: Assessment) -> Status:
    """What must be seen first."""
    if assessment.above:
        return Status("bad", f"{len(assessment.above)} of the figures with a limit are above it")
    if assessment.open or assessment.odd:
        return Status(
            "open",
            "controls of another kind"
            if assessment.odd
            else f"{len(assessment.open)} limits could not be judged",
        )
    return Status("good", "within the limits of the policy")


def reasons(assessment: Assessment) -> list[str]:
    """What is above its limit or not judged, and why there is no figure, in sentences."""
    by = f"{assessment.limits.by} end" if str(assessment.limits.by) == "upper" else "figure"
    said = [
        f"{ABOVE}: {line.reader}: {line.attack}: {by} {_judged(line, assessment):.3g}, limit {line.limit:.2f}."
        f" {mend(line)}"
        for line in assessment.above
        if line.limit is not None
    ]
    said += [f"not judged: {line.reader}: {line.attack}: {line.reason}" for line in assessment.open]
    said += [
        f"no figure: {line.reader}: {line.attack}: {line.reason}"
        for line in assessment.lines
        if line.limit is None and line.reason
    ]
    return [*said, *([ODD] if assessment.odd else [])]


def mend(line: Line) -> str:
    """What to do about a figure that is above its limit, in a sentence."""
    assert line.outcome is not None
    if line.counted:
        return "This release breaks its promise: do not hand it on, and see what kanonflow verify says of it"
    if line.outcome[0] <= (line.limit or 0.0):
        return (
            f"The figure itself, {line.outcome[0]:.3g}, is within it: more people would tell, or judge by figures"
            " (assess: {by: figure})"
        )
    return f"{_MENDS[line.question]}; or a limit of your own (assess:), by whoever signs"


def _judged(line: Line, assessment: Assessment) -> float:
    assert line.outcome is not None
    figure, (_, high) = line.outcome
    return high if str(assessment.limits.by) == "upper" else figure


def render(assessment: Assessment) -> str:
    """The tables as text."""
    lines = [f"policy {assessment.policy}, k = {assessment.k}: {verdict(assessment).text}"]
    lines += [f"- {note}" for note in assessment.notes]
    for table in tables(assessment):
        lines += table.lines()
    return "\n".join([*lines, *(f"- {reason}" for reason in reasons(assessment))])


def assessment_page(assessment: Assessment) -> Page:
    """The page. A function of what was found alone; it tells no value of a record, and exact rates."""
    sections = [Section("compared", "What was compared", tuple(_compared(assessment)))]
    for table in tables(assessment):
        question = table.name.replace("_", " ")
        alone = (_ALONE,) if question == SINGLING_OUT else ()
        tried = Items((*_TRIED[question], *alone), "What was tried")
        sections.append(Section(table.name, _QUESTIONS[question][0], (table, tried)))
    return Page(
        f"What the releases under {assessment.policy} give away",
        "kanonflow, restricted: exact rates, for inside only",
        verdict(assessment),
        tuple(sections),
        (
            "An assessment knows the attacks that it tries. It is no finding that the data are anonymous: that depends"
            " on who the readers are and what they can know.",
        ),
    )


def _compared(assessment: Assessment) -> Iterator[Block]:
    for note in assessment.notes:
        yield Paragraph(note)
    yield Paragraph(_READ)
    if said := reasons(assessment):
        yield Items(tuple(said))
