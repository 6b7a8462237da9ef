"""What an audit did not look at, each with its reason, so that "passed" is not read for more than it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NO_MATCHING_RECORDS = "no matching records given (--matching-records)"
KEYS_OF_SHARDS = (
    "that the keys of shards are those the secret gives",
    "the audit takes of the secret only people's digests",
)


@dataclass(frozen=True)
class Seen:
    """What an audit was given, and how far it came. metrics: there are any; structure: the graph was judged.

    With cohorts that last: cohorts: they were judged; people: also against the input; unfollowed: groups whose rows
    have more than one set of cohorts that may stand in them; bounded: a run over files.
    loose: releases whose people are known only between two bounds; None: not at all.
    foreign: entries of its directory that no run makes. runs: of a chain, that were judged as one.
    elsewhere: other versions of pyarrow, which wrote releases. expected: a file of people was held against it.
    left_to: the reader of ``against`` who was judged, in words; None: there is none, or he was not.
    members: whether numbers of people (``publish_member``) were worked out again; None: the policy publishes none.
    ids: the same of ids of groups (``publish_group``).
    renewed: its epoch began with a renewal, and the runs before were not given.
    shards: of a plan, None: the run went by none; unplaced: people in these who are held against no plan, None: all.
    """

    matching_records: bool
    secret: bool
    metrics: bool
    waiting: bool
    structure: bool
    cohorts: bool = False
    people: bool = False
    unfollowed: int = 0
    loose: int | None = None
    bounded: bool = False
    runs: bool = False
    foreign: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    expected: bool = False
    left_to: str | None = None
    shards: int | None = None
    unplaced: int | None = None
    members: bool | None = None
    ids: bool | None = None
    renewed: bool = False

    @property
    def recorded(self) -> bool:
        """Whether matching records told who of the cohorts stands in each group."""
        return self.matching_records and self.people


RENEWAL = "renewal.json"
BEFORE_RENEWAL = (
    f"what readers of several epochs are left with ({RENEWAL})",
    "the runs before the renewal were not given; name their outputs, too",
)


def of_cohorts(seen: Seen) -> Iterator[str]:
    """With cohorts that last, one line a thing that was checked."""
    yield "rows of a group have one class_id, one box, one window; no class_id comes again, or tells an order"
    if not seen.cohorts:
        return
    yield "segments of cohorts follow each other: counts, chain of digests, releases, one epoch"
    yield "nobody entered twice, and each cohort has cohort_size people who entered in one release"
    yield "the box of each cohort is the hull of its members' frozen values, where nobody of it is forgotten"
    if seen.shards is not None:
        yield f"each release has the key of one of {seen.shards} shards of its partition, and nobody entered in two"
    if not seen.people:
        return
    yield "everybody had been seen when he entered, and his frozen values are those of rows that were there"
    if seen.expected:
        yield (
            "whom the file of people names entered with the first release of the partition, in cohorts of their own,"
            " with the values that it has"
        )
    if seen.shards is not None:
        yield (
            "people entered in the shard that the plan gives, with the values of their first window"
            + (", where the input tells these" if seen.unplaced else "")
        )
    if seen.left_to is not None:
        yield f"rows that are out leave k people to who also knows {seen.left_to}: all sets of these were tried"
    if seen.members:
        yield "each row has the member number that the secret gives the person of a row with its payload"
    if seen.ids:
        yield "groups that are followed have the id that the secret gives their cohorts, and one set has one id"
    yield "newcomers entered when as many waited as the policy asks for, or when one had to leave"
    if seen.bounded and not seen.waiting:
        yield "nobody who had been seen was left out of an intake, and none that was due was put off"
    yield (
        "groups consist of whole cohorts, have rows of k people, and carry their rows' payloads, their rows' window "
        "and the snapped hull of their cohorts' boxes"
        + ("" if seen.matching_records or not seen.unfollowed else ", where these can be followed")
    )


def of_cohorts_unchecked(seen: Seen) -> Iterator[tuple[str, str]]:
    """With cohorts that last, name and reason of each thing that was not."""
    if not seen.cohorts:
        yield "who entered, and with whom", "restricted/cohorts is not whole, see the failures"
    elif not seen.people:
        yield (
            "who entered when and with which values; whether groups are whole cohorts of k people with rows, and boxes "
            "and windows theirs",
            "no secret given (--secret-file), without which nobody of the input is found among those who entered",
        )
    elif seen.unfollowed and not seen.matching_records:
        yield (
            f"people, box and window of {seen.unfollowed} groups",
            "more than one set of whole cohorts may have their rows, or a failure stands above; matching records "
            "(--matching-records) tell which",
        )
    if seen.members is False:
        yield (
            "whose member number each is",
            "no secret given (--secret-file); k of them in each box, and boxes of one cohort for each, were checked",
        )
    if seen.ids is False:
        yield (
            "that ids of groups are those of their cohorts",
            "no secret given (--secret-file), or no group is followed; that an id has one box in all releases, and"
            " stands once in each, was checked",
        )
    if seen.cohorts and seen.shards is not None:
        yield from _of_shards(seen)
    if seen.people and (seen.waiting or not seen.bounded):
        yield (
            "an intake that left somebody out, or came late",
            "which row came to which run is not in the input of all; each by itself shows it"
            if seen.runs
            else "when rows arrived is not in the input of a feed",
        )
    if not (seen.recorded and seen.secret):
        yield (
            "that class_ids are those the secret draws",
            "they are drawn of who stands in each row, which matching records and the secret tell together",
        )
    yield (
        "that of several values of a window the least was frozen"
        + ("" if seen.shards is None or not seen.people else ", where no shard and no first window tells"),
        "the gate and the pipeline's own tests see it",
    )
    yield (
        "that founding and merging saw frozen values and counts only",
        "only the pipeline's own tests show it (the swap test)",
    )
    yield "what a reader knows of when or how often somebody was active", "the promise leaves it out"
    yield (
        "planted accounts, and several accounts of one human being",
        "individuals are as the input names them",
    )


def _of_shards(seen: Seen) -> Iterator[tuple[str, str]]:
    if not seen.people:
        yield (
            "who entered in which shard, and whether with the values of his first window",
            "no secret given (--secret-file); rows of people whose shard the plan alone does not tell count in each",
        )
    elif seen.unplaced:
        yield (
            f"the shard and first values of {seen.unplaced} people",
            "rows of their first window are elsewhere, cannot be read, or came when the input does not tell",
        )
    yield KEYS_OF_SHARDS
    yield (
        "that the plan was made of the people that it names",
        "it is judged by where people went, not by how it was made",
    )


def of_any(seen: Seen, people: bool, boxes: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The same of any run. people: whether the policy names whose a row is. boxes: what is not checked of these."""
    if not seen.matching_records:
        yield "which member a row belongs to", NO_MATCHING_RECORDS
        yield "uniformity of the permutation", NO_MATCHING_RECORDS
    elif not seen.secret:
        yield (
            "that each matching is the one the secret draws",
            "no secret given (--secret-file); the ranks of all draws together were tested",
        )
    yield from boxes
    if seen.foreign:
        yield (
            f"{len(seen.foreign)} entries of the directory",
            f"no run makes them ({', '.join(seen.foreign)})",
        )
    if seen.elsewhere:
        yield (
            "pages of Parquet files, byte by byte",
            f"pyarrow {', '.join(seen.elsewhere)} wrote them; what this one reads was judged, and that sees the rest",
        )
    if not seen.metrics:
        yield "metrics", "there are none in restricted/metrics"
    else:
        yield (
            "losses, bounds, effort and times in the metrics",
            "only counts, windows and k follow from the releases",
        )
    if seen.waiting:
        yield "rows that wait", "the run goes on (--waiting)"
    if seen.metrics and people and seen.loose != 0:
        yield (
            "how many people the metrics count in "
            + (f"{seen.loose} releases" if seen.loose else "each release"),
            "rows may be one person's or another's, so the count was held between two bounds"
            if seen.loose
            else "no secret given (--secret-file), or a failure stands above",
        )
    yield "why a readable row was rejected", "only faulty values can be told from the input"
    yield "that the payload had no say in who is grouped with whom", "only the pipeline's own tests show it"
    yield (
        "second releases in other directories or topics, or under another policy",
        "only one directory is read",
    )
    yield "who has read the files", "modes are compared, not accounts, copies or times"
    yield (
        "which of several spellings the same bytes have",
        "how rows fall into blocks of Avro, and how bytes are compressed there",
    )
