"""A promise in words, with a policy's numbers; what it is not. docs/guarantees.md is where it is told in full."""

from __future__ import annotations

_LASTING, _WINDOW = "lasting", "window"


def promise(k: int, protect: str, cohort: str | None) -> str:
    """What is promised. protect, cohort: as metrics.avsc has them."""
    part = f"1/{k}"
    if protect == "individual" and cohort == _LASTING:
        return (
            f"People enter in cohorts of {k} or more, for good. All rows of a person over all releases of this epoch,"
            f" linked or not, are a given person's with probability at most {part}: for a reader who has the"
            " attributes of everybody at hand, knows the method to the letter, knows in which release each person"
            " entered, and recognizes every row of a person in every release."
        )
    if protect == "individual":
        return (
            f"In each release people form closed classes of {k} or more. All rows of a class carry one box, every"
            f" number of rows that occurs is shared by {k} people of the class, and payloads are shuffled within it."
            f" So any set of rows of one release, linked or not, is a given person's with probability at most {part}."
        )
    return (
        f"In each release every row stands for {k} records: its payload stands on each of {k} boxes with probability"
        f" exactly {part}, for a reader who has the attributes of everybody at hand and knows the method to the letter."
    )


def premises(k: int, protect: str, cohort: str | None) -> tuple[str, ...]:
    """What the promise rests on, and what it is not, a sentence or two each."""
    told = [
        "It bounds how well rows can be assigned to people. It is no finding that the data are anonymous in the sense"
        " of the GDPR: that depends on who the readers are, what they can know, and what the payload says.",
        "Each row is released once: one policy, one secret, one run, no copies in the input. Of rows that are released"
        f" again fewer than {k} candidates are left, and of some only one. A release of them in another place is not"
        " seen from here.",
        "The quasi-identifiers are classified as such: a field that somebody can look up, and that is published as it"
        " is, can tell whose row it is.",
        "The payload must not point at the attributes: who can tell from a published value which of the"
        f" {k} it belongs to guesses better than 1/{k}.",
        "What all candidates have in common is certain for each of them.",
        "Each match that a reader knows leaves one candidate fewer.",
        "The secret of the run stays secret, and restricted/ stays inside.",
    ]
    if protect == "individual" and cohort == _LASTING:
        return (
            *told,
            "It is not for a reader who knows anything of when or how often somebody was active: one purchase with its"
            " day, a holiday, a stay in hospital. Who knows one purchase by its day and amount finds, as a rule, all"
            " rows of the person. Row counts are not hidden, nor is who was there.",
            "Candidates are accounts, people who have left among them. Attributes are those at entry, if none of them"
            " changed between a person's first row and then.",
            "It is the promise of one epoch: lost state, a run that does not go on from the cohorts of the one before,"
            " or a second policy over the same people each begin another, and what two epochs tell together is not"
            " covered.",
        )
    if protect == "individual" and cohort == _WINDOW:
        return (
            *told,
            "Each release is promised alone. What several of them tell together of a person who comes back is not"
            " covered: classes are formed anew in each.",
        )
    return (
        *told,
        "Rows of one person that the payload links, in one release or over several, are not covered: often one person"
        " alone lies in all of their boxes.",
    )
