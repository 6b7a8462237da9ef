"""--second-release: rows that were released already go out again, on the user's word, and everybody is told.

    OUT/                       the first release and its restricted/, as they were
    OUT/second-2/              the second one: release/ and restricted/ of its own, so that each can be audited
    OUT/restricted/run.json    names it under second_releases; its own run.json has second_release_of
    OUT/verdict.json           says so from then on; OUT/certificate.html and the report are removed, as they did not
    NEXT/...                   the same of each run that continues OUT, now or later (released_again.IN_CHAIN)

What can be seen is another policy or secret over one --output; a run into another directory cannot be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kanonflow.pipelines.chains.chain_record import NOTHING_ASKED, ChainAsked
from kanonflow.pipelines.chains.continued_run import successor
from kanonflow.pipelines.chains.continuing_input import ContinuingInput
from kanonflow.pipelines.options.options import RunOptions
from kanonflow.pipelines.run_records.released_again import IN_CHAIN, LOSS, take_back
from kanonflow.pipelines.run_records.run_directory import (
    RunDirectory,
    RunDirectoryError,
    holds_output,
    lock_directory,
    open_run_directory,
    same_files,
)
from kanonflow.pipelines.run_records.run_record import read_record, write_record
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.output_directories import restricted_directory
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.windows.expected_people import PeopleFile

_WITHIN = ("FnApiRunner", "DirectRunner", "BundleBasedDirectRunner")
"""Runners that end with the process."""


def second_release_options(options: RunOptions) -> RunOptions:
    """The options of a run that releases what is in ``options.output`` again, in a directory of its own below it.

    Raises RunDirectoryError: nothing was released there, it is not local, or the run would continue another one's
    cohorts: those of the first release beside the first release would link the two person by person.
    """
    first = options.output
    if options.continues is not None:
        raise RunDirectoryError(
            "--second-release with --continue: the cohorts of one release would stand in two of the same rows, which"
            " could then be linked; a second release founds cohorts of its own, so leave --continue out"
        )
    if not is_local(first):
        raise RunDirectoryError("--second-release needs a local --output: it is kept apart and told there")
    if not holds_output(first):
        raise RunDirectoryError(f"--second-release: {first} holds no release; leave the flag out")
    number = 2
    while _taken(os.path.join(first, f"second-{number}")):
        if options.resume and not _taken(os.path.join(first, f"second-{number + 1}")):
            break
        number += 1
    return replace(options, output=os.path.join(first, f"second-{number}"), second_release_of=first)


def _taken(place: str) -> bool:
    return os.path.exists(os.path.join(place, "restricted", "run.json"))


@contextlib.contextmanager
def open_release_directory(
    options: RunOptions,
    policy: Policy,
    inputs: Sequence[Mapping[str, Any]],
    secret: Secret | None,
    previous: Sequence[Secret],
    bound: BoundPolicy | None = None,
    continuing: ContinuingInput | None = None,
    asked: ChainAsked = NOTHING_ASKED,
    people: PeopleFile | None = None,
    plan: ShardPlan | None = None,
) -> Iterator[RunDirectory]:
    """``open_run_directory`` of a run over files; of a second release it is recorded in both directories.

    Raises RunDirectoryError: as there; or the second release would have the names of the first one's files.
    """
    first = options.second_release_of
    with contextlib.ExitStack() as stack:
        if first is not None:
            stack.enter_context(lock_directory(restricted_directory(first)))
            _refuse_same_names(first, policy, secret)
        directory = stack.enter_context(
            open_run_directory(
                options.output,
                policy,
                inputs,
                secret,
                resume=options.resume,
                previous=previous,
                elsewhere=options.runner not in _WITHIN or not is_local(options.output),
                bound=bound,
                continues=options.continues,
                continuing=continuing,
                release_format=options.release_format,
                asked=asked,
                people=people,
                plan=plan,
            )
        )
        if first is not None:
            directory = replace(directory, notes=(_record(first, options.output, policy), *directory.notes))
        yield directory


def _refuse_same_names(first: str, policy: Policy, secret: Secret | None) -> None:
    record = read_record(restricted_directory(first)) or {}
    used = [record.get("secret"), *(commitment for _, commitment in record.get("secrets", ()))]
    if secret is not None and secret.commit() in used and record.get("policy_name") == policy.name:
        raise RunDirectoryError(
            f"--second-release: the secret and the policy's name are those of {first}, so its releases would have the"
            " same ids with other rows. Give another secret, or the policy another name; to go on with the first"
            " release, say --resume"
        )


def _record(first: str, place: str, policy: Policy) -> str:
    """Write it down on both sides, and take back what is told of the first release; the sentence for the user.

    Raises RunDirectoryError: that cannot be taken back.
    """
    restricted = restricted_directory(place)
    own = read_record(restricted) or {}
    write_record(restricted, {**own, "second_release_of": ".."})
    there = read_record(restricted_directory(first)) or {}
    entry = {"directory": os.path.basename(place), "policy_name": policy.name, "secret": own.get("secret")}
    others = [each for each in there.get("second_releases", ()) if each["directory"] != entry["directory"]]
    write_record(restricted_directory(first), {**there, "second_releases": [*others, entry]})
    _take_back(first)
    gone = _told_to_successors(first)
    same = (
        "from files of the same names and sizes"
        if same_files(own.get("input"), there.get("input"))
        else "from other files"
    )
    return f"SECOND RELEASE, {same}, beside the one in {first}. {LOSS}{gone}"


def _take_back(output: str) -> None:
    try:
        take_back(output)
    except OSError as error:
        raise RunDirectoryError(
            f"--second-release: what is told of the release in {output} cannot be taken back ({error.strerror});"
            " make its verdict.json and its pages writable"
        ) from None


def _told_to_successors(first: str) -> str:
    """Write it down in the runs that go on from the first release, of the same people; a sentence where one is not
    where it was."""
    before = first
    while (after := successor(before)) is not None:
        record = read_record(restricted_directory(after))
        if record is None or not is_local(after):
            return f" What is told of the run that continues {before} still promises it: it is not in {after} now."
        write_record(restricted_directory(after), {**record, IN_CHAIN: True})
        _take_back(after)
        before = after
    return ""
