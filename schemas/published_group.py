"""Columns by which groups of cohorts can be followed over releases (``publish_group``).

A group of a release is a set of whole cohorts. Its id is a number of that set and of nothing else: the same set has it
in every release of the epoch, and another set has another. Beside it may stand how many people the set has, which is
the same in all releases too. Both are functions of what the reader of the promise has. Who does not link groups today
links them by it, so it takes a reason.

Never published: the number of a single cohort on the rows of a group of several, for it would part the group; and how
many people of the set have rows in the release, for where all of them have, everybody was there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kanonflow.schemas.avro_names import avro_name

GROUP_ID = "group_id"
IDS = "a number of the set of cohorts in the group, the same in every release of the epoch"
MEMBERS = "people of these cohorts, with rows here or not, rounded down to a multiple of k"
_UNREAD = "?"
_NAMES = re.compile("[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class PublishedGroup:
    """accept_risk: why every reader may follow groups. name: of the column of ids. members: of the column of how many
    people a group has; None: there is none."""

    accept_risk: str
    name: str = GROUP_ID
    members: str | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The columns, in their order, each with what stands in it in words."""
        return {self.name: IDS} | ({} if self.members is None else {self.members: MEMBERS})

    @property
    def words(self) -> str:
        """What it means for whoever reads the releases."""
        beside = "" if self.members is None else f", and {self.members} how many people these are"
        return (
            f"Every reader follows groups: the column {self.name} has {IDS}{beside}. A group's rows of all releases"
            " stand together; whose each is, of the people of its cohorts, it does not say."
        )


def published_group(
    accept_risk: str = _UNREAD, name: str = GROUP_ID, members: str | None = None
) -> PublishedGroup:
    """As a file says it; what could not be read, and was told, has a stand-in."""
    return PublishedGroup(accept_risk, name, members)


def rules_of_group(
    group: PublishedGroup, fields: Collection[str], reserved: Collection[str]
) -> Iterator[str]:
    """What is wrong with it, and how to mend that. fields: names of fields; reserved: columns that a release has."""
    if not isinstance(group.accept_risk, str) or not group.accept_risk.strip():
        yield "publish_group.accept_risk: must be the reason, as text, why every reader may follow groups"
    taken = {*reserved}
    for key, name in (("name", group.name), ("members", group.members)):
        if key == "members" and name is None:
            continue
        yield from name_faults(f"publish_group.{key}", name, fields, taken)
        taken.add(str(name))


def name_faults(where: str, name: object, fields: Collection[str], taken: Collection[str]) -> Iterator[str]:
    """What is wrong with the name of a column that no field has. taken: columns that a release has besides."""
    if not isinstance(name, str) or not _NAMES.fullmatch(name):
        yield f"{where}: use letters, digits and _, and no digit first (it is a column of Avro)"
    elif name in taken:
        yield f"{where}: a release has a column {name} itself; give another"
    elif name in {avro_name(field) for field in fields}:
        yield f"{where}: {name} is a field's name, or what one is published as; give another"
