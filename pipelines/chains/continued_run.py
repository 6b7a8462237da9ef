"""``--continue DIR``: a run that begins with the cohorts of an earlier one, in the same epoch.

Of a policy without cohorts that last nobody is handed on: such a chain has places and what was read, and nothing else.

    OUT/restricted/run.json      has what a later run must agree with (``cohorts``), and which of its chain this one is
    OUT/restricted/cohorts/...   begins as a copy of DIR's, so that a chain of runs needs its last directory only
    DIR/restricted/carried/...   what was left of each partition (``windows/chain``); it is copied beside the cohorts
    DIR/restricted/ended         says that all of it is there

A run of a build that carried nothing over has cohorts alone: who was seen there and did not enter is new here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.chains.individual_type import type_difference, type_on_record
from kanonflow.pipelines.chains.renewal_file import RENEWAL
from kanonflow.pipelines.chains.renewing import Renewing
from kanonflow.pipelines.chains.run_identity import copy_words, original_of, place_of
from kanonflow.pipelines.chains.split_cohorts import LaidPart, Splitting
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import (
    Outcome,
    create_if_absent,
    make_directory,
    read_whole,
)
from kanonflow.transforms.files.output_directories import CARRIED_SUFFIX, carried_directory
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.kinds.range_values import range_values
from kanonflow.transforms.lineage.committed_rosters import (
    BOXES,
    CARRIED,
    CONTINUED,
    GROUPS,
    PEOPLE,
    TOGETHER,
    cohorts_directory,
    segment_file,
)
from kanonflow.transforms.protections.known_otherwise import known_of
from kanonflow.transforms.roster.cohort_files import people_of_file
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.continued_cohorts import read_continued
from kanonflow.transforms.shards.shards import SplitShard
from kanonflow.transforms.windows.chain import (
    CarriedState,
    carried_from_bytes,
    refuse_other_roster,
    windows_of,
)

CONTINUED_BY = "continued_by.json"
ENDED = "ended"
"""Of a run that has done all it was to do: the file that says so, in ``restricted/``."""
_SEGMENT = re.compile(rf"(\d{{6}}){re.escape(BOXES)}")
_GROUPS = re.compile(rf"(-?\d+)(?:-(\d+))?{re.escape(GROUPS)}")


class ContinueError(Exception):
    """The run that --continue names cannot be continued by this one; the message says why and what to do."""

    exit_code = 2


@dataclass(frozen=True)
class EarlierRun:
    """The run to continue. directory: its output. record: its run.json. bound: the policy of the new run.

    epoch: of both, where cohorts last.
    """

    directory: str
    record: Mapping[str, Any]
    bound: BoundPolicy

    @property
    def carried(self) -> dict[str, str]:
        """By partition's name, the file of what was left of it."""
        paths = storage.paths_below(carried_directory(self.directory), f"*{CARRIED_SUFFIX}")
        return {storage.split(path)[1].removesuffix(CARRIED_SUFFIX): path for path in paths}

    @property
    def epoch(self) -> int:
        """The epoch that goes on."""
        return int(self.record["epoch"], 16)


def cohorts_record(bound: BoundPolicy, earlier: EarlierRun | None = None) -> dict[str, Any]:
    """What run.json holds for a run that continues this one. earlier: the run that this one continues."""
    policy = bound.policy
    size = policy.cohorts.cohort_size
    if earlier is not None:
        size = min(size, earlier.record["cohorts"]["cohort_size"])
    return {
        "individual": policy.cohorts.individual.name,
        "quasi": [
            [column.name, _kind(column.field.quasi), str(column.arrow_type)] for column in bound.quasis
        ],
        "partition_by": list(policy.partition_by),
        "partition_types": {name: _spelled(bound.column(name)) for name in policy.partition_by},
        "event_id": None
        if policy.event_id is None
        else [policy.event_id.name, _spelled(bound.column(policy.event_id.name))],
        "cohort_size": size,
        **({} if (reader := known_of(policy)) is None else {"against": [*reader[:3], list(reader.of)]}),
        **type_on_record(bound),
    }


def _kind(quasi: Any) -> str:
    return str(quasi.type)


def _spelled(column: BoundColumn) -> str:
    """What decides how values are spelled: 7 and 007 are two texts, and one number of any width."""
    kind = column.values.id_type
    return str(column.arrow_type) if kind == "bytes" else kind


def earlier_run(
    directory: str,
    output: str,
    record: Mapping[str, Any] | None,
    bound: BoundPolicy,
    individual_type: str | None = None,
    *,
    afresh: bool = False,
) -> EarlierRun:
    """The run to continue.

    record: its run.json, None: there is none. individual_type: what --individual-type says of it. afresh: people are
    put together anew, so that neither the size of their cohorts counts nor what was promised of them.

    Raises ContinueError: its cohorts last and the policy's do not, or the other way round; people or boxes mean
    something else there; it is a copy; or it has not ended.
    """
    if place_of(directory) == place_of(output):
        raise ContinueError(
            "--continue: DIR is --output itself; to go on with a run that stopped say --resume"
        )
    if record is None:
        raise ContinueError(f"--continue {directory}: no run's output, it has no restricted/run.json")
    if (original := original_of(directory, record)) is not None:
        raise ContinueError(f"--continue {directory}: {copy_words(original)}")
    ended = storage.exists(storage.join(directory, "restricted", ENDED))
    if "job" in record and not ended:
        raise ContinueError(
            f"--continue {directory}: a stream writes there whose feed has not ended. End it with kanonflow stop (on"
            " Dataflow, a drain does it, too), or go on with it by --resume: two runs must not take newcomers into one"
            " roster. If its job is gone, resume from its last checkpoint or savepoint, and stop that; without one"
            " nobody can tell which rows of its source are out, and reading it again would publish them a second time"
        )
    if "chain" in record and not ended:
        elsewhere = (
            ". If it is a job on another machine, wait for restricted/ended, which it writes behind its last release"
            if record.get("elsewhere")
            else ""
        )
        raise ContinueError(
            f"--continue {directory}: that run has not ended, and what waits there would be lost; go on with it by"
            f" --resume first{elsewhere}"
        )
    before = record.get("cohorts")
    if not bound.policy.promise.epochs:
        if before is not None:
            raise ContinueError(
                f"--continue {directory}: its cohorts last, and this policy would put the same people together anew in"
                " each window. Say cohort: lasting, or leave the flag out: what was published before and what will be"
                " are not covered together then"
            )
        if individual_type is not None:
            raise ContinueError(
                "--individual-type: for a policy with cohort: lasting; this one hands on no people"
            )
        return EarlierRun(directory, record, bound)
    nobody = "chain" not in record and not any(_partitions(directory))
    if not isinstance(before, dict) or "epoch" not in record or nobody:
        raise ContinueError(
            f"--continue {directory}: it has no cohorts; its policy was not cohort: lasting, or nobody entered. Leave"
            " the flag out, and an epoch begins"
        )
    now = cohorts_record(bound)
    differences = [
        f"{what} ({before[name]} there, {now[name]} here)"
        for name, what in (("individual", "the individual"), ("partition_by", "partition_by"))
        if before[name] != now[name]
    ]
    there, here = ({name: kinds for name, *kinds in each["quasi"]} for each in (before, now))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names or list(there) != list(here):
        fields = ", ".join(names) or "their order"
        differences.append(f"the quasi-identifiers or their types ({fields})")
    types = before.get("partition_types", {})  # an earlier build did not write them down
    differences += [
        f"the type of {name} in partition_by ({kind} there, {now['partition_types'][name]} here)"
        for name, kind in types.items()
        if now["partition_types"].get(name, kind) != kind
    ]
    if (events := before.get("event_id")) not in (None, now["event_id"]):
        there_and_here = ("none" if each is None else ", ".join(each) for each in (events, now["event_id"]))
        differences.append("the event_id ({} there, {} here)".format(*there_and_here))
    if not afresh and before.get("against") != now.get("against"):
        why = (
            "what is out there already was not counted for it" if "against" in now else "it is promised there"
        )
        differences.append(f"against ({why})")
    if not afresh and bound.policy.k > before["cohort_size"]:
        differences.append(f"k ({bound.policy.k} here, cohorts of {before['cohort_size']} there)")
    if differences:
        raise ContinueError(
            f"--continue {directory}: its cohorts do not fit this policy, which differs in {'; '.join(differences)}."
            " Put that back, or leave the flag out: an epoch begins then, and what was published before and what will"
            " be are not covered together"
        )
    if difference := type_difference(before, bound, individual_type):
        raise ContinueError(f"--continue {directory}: {difference}")
    return EarlierRun(directory, record, bound)


def known_people(earlier: EarlierRun) -> NDArray[np.uint64]:
    """The digests of everybody in the cohorts of the earlier run, sorted. Raises ContinueError: a file is damaged."""
    digests = [np.empty(0, dtype=np.uint64)]
    for _, folder in _partitions(earlier.directory):
        for number in range(_files_of(folder)[0]):
            try:
                digests.append(people_of_file(read_whole(storage.join(folder, segment_file(number, PEOPLE)))))
            except (StateError, OSError) as error:
                raise _unreadable(earlier, error) from None
    return np.unique(np.concatenate(digests))


class Copied(NamedTuple):
    """What a run begins with. people: who is known. pool: who waits for an intake. rows: those that were carried over.

    carries: whether the earlier run left anything but its cohorts.
    """

    people: int
    pool: int
    rows: int
    carries: bool


def copy_cohorts(
    earlier: EarlierRun,
    output: str,
    splitting: Splitting | None = None,
    renewing: Renewing | None = None,
) -> Copied:
    """Begin the cohorts of ``output`` with those of the earlier run, and with what it carried over.

    splitting: which shards are split between the two; None: none is. renewing: how an epoch begins; None: none does.
    Every segment is read first, so that nothing is copied of a run that is damaged. Copying again changes nothing.
    Raises ContinueError: a file is damaged, a value lies outside of a declared domain, rows that wait do not fit the
    policy, or other cohorts are there. PlanError: a shard is split by a plan of other cohorts.
    """
    people, pool, rows, laid = 0, 0, 0, dict[str, Mapping[str, bytes]]()
    left, folders = earlier.carried, dict(_partitions(earlier.directory))
    # Those that are split first: a plan of other cohorts is refused before anything is laid down.
    for name in sorted({*folders, *left}, key=lambda name: (_split(splitting, name) is None, name)):
        folder = folders.get(name, storage.join(cohorts_directory(earlier.directory), name))
        segments, groups = _files_of(folder)
        if name in left:
            groups = None  # it is part of what was left
        try:
            cohorts = read_continued(folder, segments, groups, left.get(name), earlier.bound, earlier.epoch)
            roster = cohorts.roster
            state = None if cohorts.carried is None else carried_from_bytes(cohorts.carried)
            if state is not None:
                refuse_other_roster(state, bytes.fromhex(name), roster.head)
        except (StateError, OSError) as error:
            raise _unreadable(earlier, error) from None
        if roster.head.epoch != earlier.epoch:
            raise ContinueError(
                f"--continue {earlier.directory}: its cohorts are of another epoch than its run.json"
            )
        _refuse_outside(earlier, cohorts)
        people += roster.head.people
        if state is not None:
            _refuse_rows(earlier, state)
            rows += state.rows
            pool += 0 if state.warm.roster is None else state.warm.roster.pool.people.size
        split = _split(splitting, name)
        if renewing is not None:
            laid[name] = _renewed(earlier, renewing, folder, name, cohorts, split)
        elif splitting is None or split is None:
            laid[name] = {}
            files = _files_to_copy(folder, segments, groups, cohorts.carried)
            _lay(storage.join(cohorts_directory(output), name), files)
        else:
            for part in _parts(earlier, splitting.parts(split, folder, cohorts, groups)):
                laid[part.key.hex()] = {}
                _lay(storage.join(cohorts_directory(output), part.key.hex()), part.files)
    _lay_renewal(earlier, output, laid, renewing)
    if {name for name, _ in _partitions(output)} != set(laid):
        raise _others(output)
    return Copied(people, pool, rows, bool(left) or "chain" in earlier.record)


def _renewed(
    earlier: EarlierRun,
    renewing: Renewing,
    folder: str,
    name: str,
    cohorts: Continued,
    split: SplitShard | None,
) -> dict[str, bytes]:
    """What a partition begins its epoch with. Raises ContinueError: it is damaged, or a plan splits it, too."""
    if split is not None:
        raise ContinueError(
            "--renew: the plan splits a shard, too; let one run renew, and split it for the run that continues that one"
        )
    try:
        return renewing.files(folder, name, cohorts)
    except (StateError, OSError) as error:
        raise _unreadable(earlier, error) from None


def _lay_renewal(
    earlier: EarlierRun, output: str, laid: Mapping[str, Mapping[str, bytes]], renewing: Renewing | None
) -> None:
    """What a renewal made of all partitions, once all of it is known; and what is public of the last one."""
    if renewing is None:
        before = storage.join(earlier.directory, RENEWAL)
        if storage.exists(before):
            create_if_absent(storage.join(output, RENEWAL), read_whole(before))
        return
    facts = renewing.facts()
    for name, files in laid.items():
        _lay(storage.join(cohorts_directory(output), name), files)
    public = json.dumps(facts.public(), indent=1).encode()
    if create_if_absent(storage.join(output, RENEWAL), public) is Outcome.DIFFERENT:
        raise _others(output)


def _split(splitting: Splitting | None, name: str) -> SplitShard | None:
    return None if splitting is None else splitting.of(bytes.fromhex(name))


def copied_notes(earlier: EarlierRun, copied: Copied) -> tuple[str, ...]:
    """What to tell of it."""
    note = f"The epoch of {earlier.directory} goes on: {copied.people:,} people are known from there"
    if not copied.carries:
        return (
            f"{note}. An earlier build made it, which kept nothing of who had been seen and did not enter: they are new"
            " here.",
        )
    note += f", {copied.pool:,} wait for an intake" if copied.pool else ""
    note += f"; {copied.rows:,} rows that waited there are part of this run" if copied.rows else ""
    return (f"{note}.",)


def _refuse_rows(earlier: EarlierRun, state: CarriedState) -> None:
    """Raise ContinueError if rows that wait, or the clock that they wait by, mean nothing under the policy now."""
    policy, schema = earlier.bound.policy, earlier.bound.canonical_schema
    if state.clock is not None and state.windows != windows_of(policy):
        raise ContinueError(
            f"--continue {earlier.directory}: rows wait there under another window, offset or max_delay than this"
            " policy's. Put that back for one run without --carry, which ends their waiting; the run after it may"
            " change them"
        )
    tables = [batch.rows for batch in state.batches]
    tables += [] if state.warm.waiting is None else [state.warm.waiting]
    for table in tables:
        other = set(zip(table.schema.names, table.schema.types, strict=True)) ^ set(
            zip(schema.names, schema.types, strict=True)
        )
        if other:
            names = ", ".join(sorted({name for name, _ in other}))
            raise ContinueError(
                f"--continue {earlier.directory}: rows wait there that have other fields, or other types of them, than"
                f" this policy ({names}). Put that back for one run without --carry, which ends their waiting"
            )


def refuse_second_successor(directory: str, output: str) -> None:
    """Raise ContinueError if another run than that of ``output`` continues a directory: before anything is read."""
    continued = storage.exists(storage.join(directory, "restricted", CONTINUED_BY))
    if continued and successor(directory) != place_of(output):
        raise _continued_already(directory)
    begun = (storage.join(output, "restricted", name) for name in ("run.json", "lock"))
    if continued and not any(map(storage.exists, begun)):
        raise ContinueError(
            f"--continue {directory}: {output} continued it already, and is not there any more: moved or removed. What"
            " it published would be published again. Continue it where it is now; or, if nothing of it was published,"
            f" delete {directory}/restricted/{CONTINUED_BY}"
        )


def successor(directory: str) -> str | None:
    """The output of the run that continues a directory; None: none does, or nobody can tell which."""
    mark = storage.join(directory, "restricted", CONTINUED_BY)
    try:
        return str(json.loads(read_whole(mark))["output"]) if storage.exists(mark) else None
    except (ValueError, KeyError, TypeError):
        return None


def _continued_already(directory: str) -> ContinueError:
    return ContinueError(
        f"--continue {directory}: another run continues it already (restricted/{CONTINUED_BY} names its output)."
        " Continue that one, or, if nothing of it was published, delete that file"
    )


def continue_once(earlier: EarlierRun, output: str) -> None:
    """Write down in the earlier run's directory that this one continues it.

    Raises ContinueError: another one does. Why: two runs that go on from the same cohorts take in newcomers each by
    itself, and what both publish of one person is not covered together. A run that begins again may.
    """
    mark = storage.join(earlier.directory, "restricted", CONTINUED_BY)
    mine = json.dumps({"output": place_of(output)}).encode()
    if create_if_absent(mark, mine, private=True) is Outcome.DIFFERENT:
        raise _continued_already(earlier.directory)


def refuse_continued(output: str) -> None:
    """Raise ContinueError if another run continues the run of ``output``: it must not take anybody in any more."""
    if storage.exists(storage.join(output, "restricted", CONTINUED_BY)):
        raise ContinueError(
            f"{output}: another run continues its cohorts (restricted/{CONTINUED_BY} names its output), and both would"
            " take newcomers in. Go on with that one, or, if nothing of it was published, delete that file"
        )


def refuse_other_beginning(directory: str, output: str, record: Mapping[str, Any]) -> None:
    """Raise ContinueError if a run that resumes did not begin with what --continue names; what is gone may be it.

    record: its run.json. Why: who says it believes that what both publish is covered together.
    """
    there = storage.exists(storage.join(directory, "restricted", "run.json"))
    if not record.get("continued") or (there and successor(directory) != place_of(output)):
        raise ContinueError(
            f"--continue {directory}: the run in {output} did not begin with that one, and a run that resumes goes on"
            " with what it began with; leave --continue out"
        )


def refuse_cohorts(output: str) -> None:
    """Raise ContinueError if a directory without releases holds cohorts: of a run that continued another."""
    if any(_partitions(output)):
        raise _others(output)


def _parts(earlier: EarlierRun, parts: Iterator[LaidPart]) -> list[LaidPart]:
    """All of them before one is laid down. Raises ContinueError: a file is damaged."""
    try:
        return list(parts)
    except (StateError, OSError) as error:
        raise _unreadable(earlier, error) from None


def _files_to_copy(folder: str, segments: int, groups: str | None, carried: bytes | None) -> dict[str, bytes]:
    files = [segment_file(number, kind) for number in range(segments) for kind in (PEOPLE, BOXES)]
    files += [TOGETHER] if storage.exists(storage.join(folder, TOGETHER)) else []
    copies = {
        name: read_whole(storage.join(folder, name)) for name in [*files, *([groups] if groups else [])]
    }
    if carried is not None:
        copies[CARRIED] = carried
    began = {"segments": segments, "groups": groups, "carried": carried is not None}
    # Last: a partition is begun once it is there.
    copies[CONTINUED] = json.dumps(began).encode()
    return copies


def _lay(target: str, files: Mapping[str, bytes]) -> None:
    make_directory(target, private=True)
    for name, data in files.items():
        if create_if_absent(storage.join(target, name), data, private=True) is Outcome.DIFFERENT:
            raise _others(os.path.dirname(os.path.dirname(os.path.dirname(target))))


def _unreadable(earlier: EarlierRun, error: Exception) -> ContinueError:
    return ContinueError(
        f"--continue {earlier.directory}: its cohorts cannot be read ({error}). Leave the flag out, and an epoch begins"
    )


def _others(output: str) -> ContinueError:
    return ContinueError(f"{output} holds cohorts of another run, though no release; choose another --output")


def _refuse_outside(earlier: EarlierRun, found: Continued) -> None:
    """Raise ContinueError if a frozen value lies outside of a domain that the policy declares now."""
    corners = found.roster.corners
    if corners is None:
        return
    for column in earlier.bound.quasis:
        values = whole(corners.column(column.name))
        outside = False
        if column.domain is not None:
            numbers, valid = range_values(values)
            outside = bool(((numbers < column.domain[0]) | (numbers > column.domain[1]))[valid].any())
        elif (unlisted := column.unlisted(values)) is not None:
            outside = bool(unlisted.any())
        if outside:
            raise ContinueError(
                f"--continue {earlier.directory}: field {column.name} has values there outside of the domain that this"
                " policy declares; declare a domain that holds them"
            )


def _partitions(output: str) -> Iterator[tuple[str, str]]:
    """Name and folder of each partition that has a segment, or began with something of an earlier run."""
    folder, marks = cohorts_directory(output), (segment_file(0, BOXES), CONTINUED)
    if is_local(folder):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    else:
        paths = [path for mark in marks for path in storage.paths_below(folder, "*", mark)]
        names = sorted({storage.split(storage.split(path)[0])[1] for path in paths})
    for name in names:
        place = storage.join(folder, name)
        if any(storage.exists(storage.join(place, mark)) for mark in marks):
            yield name, place


def _files_of(folder: str) -> tuple[int, str | None]:
    """How many segments a partition's folder has, and its newest file of groups."""
    names = [storage.split(path)[1] for path in storage.paths_below(folder, "*")]
    numbers = [int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name))]
    ends = [(int(match[2] or 0), int(match[1]), name) for name in names if (match := _GROUPS.fullmatch(name))]
    return max(numbers, default=-1) + 1, max(ends)[2] if ends else None
