"""A column that joins the rows of a person over an epoch (``publish_member``): one number a person, on all of its rows.

The reader of the promise links all rows of everybody anyway, so it stands as it is. Every other reader becomes that
one: whose one row is known, of that person all rows of the epoch are. That is why it takes a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kanonflow.schemas.against import Against
from kanonflow.schemas.published_group import name_faults

NAME = "member"
PUBLISHED = "one number a person, on all of its rows of the epoch"
"""What stands in such a column, in words."""
_UNREAD = "?"


@dataclass(frozen=True)
class PublishedMember:
    """accept_risk: why every reader may link. name: of the column."""

    accept_risk: str
    name: str = NAME

    @property
    def words(self) -> str:
        """What it means for whoever reads the releases."""
        return (
            f"Every reader links: the column {self.name} has {PUBLISHED}. Whoever knows whose one row is has all of"
            " them, past and to come."
        )


def published_member(accept_risk: str = _UNREAD, name: str = NAME) -> PublishedMember:
    """As a file says it; what could not be read, and was told, has a stand-in."""
    return PublishedMember(accept_risk, name)


def rules_of_member(
    member: PublishedMember, fields: Collection[str], reserved: Collection[str], against: Against | None
) -> Iterator[str]:
    """What is wrong with it, and how to mend that. fields: names of fields; reserved: columns that a release has."""
    if not isinstance(member.accept_risk, str) or not member.accept_risk.strip():
        yield "publish_member.accept_risk: must be the reason, as text, why every reader may link the rows of a person"
    yield from name_faults("publish_member.name", member.name, fields, reserved)
    for key in ("known_windows", "known_purchases"):
        items = None if against is None else getattr(against, key)
        if items is not None and not items.drop:
            yield (
                f"publish_member: beside against.{key} without drop everybody who knows so much of a person has all of"
                " its rows; give the clause drop: true, or leave one of them out"
            )
