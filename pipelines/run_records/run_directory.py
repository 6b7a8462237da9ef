"""The output directory of a run: one run each, continued only by the same run.

    OUT/restricted/run.json    what the run is: keyed digests of its policy and of its input's content, its secrets'
                               commitments, versions; with cohort: lasting, the epoch
    OUT/restricted/secret      the secret, when the run drew it itself (mode 0600)
    OUT/restricted/lock        held while a process writes here

Two runs in one directory would publish the same people twice, under different policies or secrets, which is
what the promise excludes. A run that continues (--resume) must therefore be the same in everything its
releases depend on; then every release that exists already comes out again, byte for byte, and is left alone.

A stream's releases depend on its state too, and on what came late when: begun anew over the same feed it makes others.
So it goes on from a checkpoint or savepoint, or not at all, and a directory is taken as soon as a stream has begun.
"""

import contextlib
import fcntl
import glob
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kanonflow.pipelines.chains import feeds_read, read_before
from kanonflow.pipelines.chains.chain_record import (
    NOTHING_ASKED,
    ChainAsked,
    chain_of,
    chain_record,
    place_after,
    refuse_other_epoch,
)
from kanonflow.pipelines.chains.continued_run import (
    ContinueError,
    EarlierRun,
    cohorts_record,
    continue_once,
    copied_notes,
    copy_cohorts,
    earlier_run,
    refuse_cohorts,
    refuse_continued,
    refuse_other_beginning,
)
from kanonflow.pipelines.chains.continuing_input import ContinuingInput, judge
from kanonflow.pipelines.chains.expected_people import PEOPLE_FILE, remove_expected, write_expected
from kanonflow.pipelines.chains.feeds_read import BEGINS, begin_after, feeds_of_chain
from kanonflow.pipelines.chains.individual_type import resumed_type, type_on_record
from kanonflow.pipelines.chains.people_found import PeopleFound, people_of_record
from kanonflow.pipelines.chains.renewing import RENEWED, Renewing, epoch_after
from kanonflow.pipelines.chains.run_identity import copy_words, identity_record, original_of
from kanonflow.pipelines.chains.shards_record import (
    PLAN,
    begin_shards,
    plan_note,
    plan_record,
    refuse_another_plan,
    remove_shards,
)
from kanonflow.pipelines.chains.split_cohorts import Splitting
from kanonflow.pipelines.run_records.beginning import (
    Beginning,
    Found,
    NotBegunError,
    RunDirectoryError,
    StreamStart,
    decided,
)
from kanonflow.pipelines.run_records.foreign_files import foreign_files, strangers_note
from kanonflow.pipelines.run_records.policy_keys import policy_keys, told_changed
from kanonflow.pipelines.run_records.private_places import close_own_secret, refuse_open_places
from kanonflow.pipelines.run_records.released_again import IN_CHAIN, LOSS, told_again
from kanonflow.pipelines.run_records.run_record import read_record, write_record
from kanonflow.pipelines.run_records.secret_lineage import continued_secret, lineage_record
from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import policy_digest
from kanonflow.schemas.release_format import SUFFIXES, ReleaseFormat
from kanonflow.schemas.renew import RenewedCohorts
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE
from kanonflow.transforms.files.output_directories import (
    make_output_directories,
    metrics_directory,
    public_metrics_directory,
    rejected_directory,
    release_directory,
    restricted_directory,
)
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.published_slots import holds_slots
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.sinks.divided_people import forget_divided_people
from kanonflow.transforms.windows.chain import Chain
from kanonflow.transforms.windows.expected_people import PeopleFile

_KEPT = ("second_releases", IN_CHAIN)
"""What others have written into run.json: it stays when the run resumes."""

_JUDGED = ("read", "people")
"""What a run that continues another found out of its input before it began; one that resumes has the same input."""


_STARTS = "job_starts"
"""How often a stream's job had begun before the last time."""

_LAYOUT = {"names": 2, "slots": 1, "rejected_files": 2}
"""How releases are named (``seeds.release_id``), what is written down of one before it is visible
(``published_slots``), and how a run over files names those of rejected rows: under another way what is made again would
pass beside the file that is there."""

_EPOCH_BEGINS = (
    "An epoch begins: what this run publishes is not covered together with earlier releases of the same people;"
    " --continue DIR goes on from one."
)

_SOLVING = ("numpy", "numba", "pyarrow")
"""Packages whose version a release's bytes may depend on."""


@dataclass(frozen=True)
class RunDirectory:
    """A directory that is ready to be written to. notes: what the user should know, one sentence each.

    run: keyed digest of what makes this run the same as before: policy, secret and input, and the epoch.
    epoch: with ``cohort: lasting``, of the promise: a number of 63 bits that a resumed run has again.
    continued: whether the run began with the cohorts of another. people: of those, who was found in its input.
    chain: which of its chain it is.
    job_start: of a stream, how often its job had begun before.
    begins: of a stream, the position behind what the streams that it continues have read; "": its feed's beginning.
    expects: whether a file of people said who is known from the start.
    """

    output: str
    secret: Secret
    notes: tuple[str, ...]
    run: str = ""
    epoch: int = 0
    continued: bool = False
    people: PeopleFound | None = None
    begins: str = ""
    chain: Chain | None = None
    job_start: int = 0
    expects: bool = False


@contextlib.contextmanager
def open_run_directory(
    output: str,
    policy: Policy,
    inputs: Sequence[Mapping[str, Any]],
    secret: Secret | None,
    *,
    resume: bool,
    stream: StreamStart | None = None,
    previous: Sequence[Secret] = (),
    elsewhere: bool = False,
    bound: BoundPolicy | None = None,
    continues: str | None = None,
    continuing: ContinuingInput | None = None,
    release_format: ReleaseFormat = ReleaseFormat.AVRO,
    asked: ChainAsked = NOTHING_ASKED,
    people: PeopleFile | None = None,
    plan: ShardPlan | None = None,
) -> Iterator[RunDirectory]:
    """Prepare ``output`` for a run, and keep other processes of this machine out until the run ends.

    Args:
        output: local folder, or a remote prefix (no lock there, and the secret must be given).
        inputs: what is read, as a resumed run must read it too.
        secret: None draws one, or takes the one that the resumed run drew.
        resume: continue the run that is there; in a directory without run.json and output the same as a new run.
        stream: how a stream begins; None for bounded input. A stream goes on under a newer kanonflow too, and says so.
        elsewhere: the run may go on without this process (on a cluster, in a service): the directory is taken as soon
            as it has begun, though nothing is released yet.
        previous: secrets that the run used before ``secret``; a stream may take up a new one (``secret_lineage``).
        bound: the policy, bound to the input; needed with ``cohort: lasting``.
        continues: the output of a run whose cohorts this one begins with (``continued_run``); one that resumes has
            them already.
        continuing: how the input of a run that continues another is judged; None: it is not.
        release_format: of the files of releases. A run has one: the same release in two files would be out twice. One
            that continues another has an output of its own, and may have another format.
        asked: what is asked of the run in its chain (``chain_record``).
        people: who is known from the start; None: nobody by a file.
        plan: of shards; None: no partition is cut.

    Raises:
        RunDirectoryError: another run's releases are there; the run to resume differs in policy, input,
            secret or version, or is a copy, or a stream without its state, or goes on; somebody else is writing.
        SecretError: the secrets given are not those that the run has used.
        ContinueError: the run to continue does not fit this one, or has read this input, or what is asked of the chain
            does not fit.
        StrangePeopleError: hardly anybody of the input is known there.
        OpenPlaceError: others could read, or have prepared, what a new run keeps in ``restricted/``.
    """
    restricted = restricted_directory(output)
    there = read_record(restricted)
    begins = decided(
        output, _found(output, there, resume, stream, continues is not None, bool(previous)), there, stream
    )
    record = there if begins.used else None
    if record is not None:
        if (original := original_of(output, record)) is not None:
            raise RunDirectoryError(f"{output} cannot be resumed: {copy_words(original)}")
        refuse_continued(output)
        if continues is not None:
            refuse_other_beginning(continues, output, record)
    earlier = None
    if continues is not None and begins is Beginning.CONTINUE:
        # An earlier run's cohorts mean nothing under a policy that none of them is of.
        earlier = _earlier_run(continues, output, policy, bound, continuing, asked)
        refuse_another_plan(earlier.directory, earlier.record, plan, place_after(earlier.record))
    elif record is None and plan is not None:
        plan.refuse_first()
    run = _Run(output, policy, inputs, stream, previous, bound, continuing, asked, record, earlier, people)
    fed = _fed(record, earlier, inputs, stream)
    strangers = _prepare(output, policy, begins)
    with contextlib.ExitStack() as locks:
        locks.enter_context(lock_directory(restricted))
        if earlier is not None:
            locks.enter_context(lock_directory(restricted_directory(earlier.directory)))
            secret = _secret_to_continue(restricted, earlier, secret)
        if not begins.used:
            forget_divided_people(output)
        secret, notes = _secret(run, restricted, secret)
        notes += strangers_note(output, strangers)
        this = _record_of(policy, inputs, secret) | identity_record(output, record) | fed
        if release_format is not ReleaseFormat.AVRO:
            this |= {"release_format": str(release_format)}
        chain, told = chain_of(asked, policy, record, earlier)
        epoch, continued = 0, False
        says, told_of_input = _in_chain(run, this, secret, chain)
        this |= says
        notes += told_of_input
        if policy.promise.epochs:
            splitting = None if bound is None else Splitting(plan, bound, secret, chain.place)
            epoch, continued, lasting, told_of_epoch = _lasting(run, splitting, run.renewing(secret))
            this |= lasting
            notes += told_of_epoch
        elif earlier is not None:
            continue_once(earlier, output)
        notes += told
        this |= _of_feed(run, elsewhere=elsewhere)
        if people is not None:
            this |= {PEOPLE_FILE: read_before.keyed(people.record, secret)}
        this |= plan_record(plan)
        notes += () if plan is None else (plan_note(plan),)
        if record is not None:
            notes += _resumed(run, record, this)
        else:
            remove_expected(output)
            remove_shards(output)
        if record is None and people is not None and bound is not None:
            notes += write_expected(output, people, bound, secret, epoch, chain.place, plan)
        if record is None and plan is not None and bound is not None:
            begin_shards(output, plan, bound, secret)
        told_before = {name: there[name] for name in _KEPT if there is not None and name in there}
        write_record(restricted, this | told_before)
        _remove_leftovers(output)
        try:
            same = [
                this[name] for name in ("policy_name", "policy", "secret", "input", "epoch") if name in this
            ]
            digest = secret.lasting.derive("run", "directory", json.dumps(same, sort_keys=True)).hex()
            yield RunDirectory(
                output,
                secret,
                notes,
                digest,
                epoch,
                continued,
                people_of_record(this.get("people")),
                fed.get(BEGINS, ""),
                chain,
                int(this.get(_STARTS, 0)),
                people is not None,
            )
        except NotBegunError as error:
            if is_local(restricted) and not begins.used and not holds_output(output):
                os.unlink(os.path.join(restricted, "run.json"))
            raise error.reason from None


@dataclass(frozen=True)
class _Run:
    """What was asked of a run, and what it goes on from: record: its own run.json, where it began before; earlier: the
    run that a new one continues."""

    output: str
    policy: Policy
    inputs: Sequence[Mapping[str, Any]]
    stream: StreamStart | None
    previous: Sequence[Secret]
    bound: BoundPolicy | None
    continuing: ContinuingInput | None
    asked: ChainAsked
    record: dict[str, Any] | None
    earlier: EarlierRun | None
    people: PeopleFile | None

    def renewing(self, secret: Secret) -> Renewing | None:
        """How the epoch of the run that this one continues is renewed; None: it goes on. Raises RenewalError."""
        if not self.asked.renews or self.earlier is None or self.bound is None:
            return None
        before = self.earlier.epoch
        epoch = epoch_after(secret, before, place_after(self.earlier.record))
        epoch = epoch if self.asked.epoch is None else self.asked.epoch
        return Renewing(self.policy.renew, self.bound, secret, before, epoch, self.people)


def _found(
    output: str,
    record: Mapping[str, Any] | None,
    resume: bool,
    stream: StreamStart | None,
    continues: bool,
    previous: bool,
) -> Found:
    values = record or {}
    return Found(
        recorded=record is not None,
        taken="job" in values or bool(values.get("elsewhere")),
        published=holds_output(output),
        resume=resume,
        stream=stream is not None,
        from_state=stream is not None and stream.from_state,
        continues=continues,
        previous=previous,
    )


def _prepare(output: str, policy: Policy, begins: Beginning) -> Any:
    """Make the folders; what lies there and no run made."""
    if not begins.used:
        refuse_open_places(output)
    strangers = foreign_files(output)
    make_output_directories(output, policy)
    if begins.used:
        close_own_secret(output)
    else:  # what was laid there meanwhile
        refuse_open_places(output)
    return strangers


def _secret(run: _Run, restricted: str, given: Secret | None) -> tuple[Secret, tuple[str, ...]]:
    """The secret of the run with those that it replaced, and what to tell of it."""
    secret, notes = _find_secret(restricted, given, resumed=run.record is not None)
    if run.record is not None:
        secret, more = continued_secret(run.record, secret, run.previous, rotates=run.stream is not None)
        return secret, notes + more
    if run.earlier is None:
        return secret, notes
    secret, more = continued_secret(run.earlier.record, secret, run.previous, rotates=True)
    if not secret.opens(run.earlier.record["secret"]):
        raise ContinueError(
            f"--continue {run.earlier.directory}: people and files are known there by another secret, and under this"
            " one none would be. Give the secret of that run; a new one together with those that it used before"
            " (--previous-secret)"
        )
    return secret, notes + more


def _in_chain(
    run: _Run, this: Mapping[str, Any], secret: Secret, chain: Chain
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What run.json says of a run's place in its chain and of what was read before it, and what the user is told."""
    record, earlier = run.record, run.earlier
    continued = earlier is not None if record is None else bool(record.get("continued"))
    says: dict[str, Any] = {"continued": continued, **chain_record(chain, record)}
    notes: tuple[str, ...] = ()
    if earlier is not None:
        judged = judge(earlier, this["input"], secret, run.continuing, this.get(BEGINS, ""))
        says, notes = says | judged.record(), judged.notes()
        if told_again(earlier.record):
            says |= {IN_CHAIN: True}
            notes += (f"Rows of the runs that this one goes on from were released again. {LOSS}",)
    elif record is not None:
        says |= {name: record[name] for name in _JUDGED if name in record}
    return says, notes


def _lasting(
    run: _Run, splitting: Splitting | None, renewing: Renewing | None
) -> tuple[int, bool, dict[str, Any], tuple[str, ...]]:
    """Of cohorts that last: the epoch, whether it began with the cohorts of another run, what run.json says of it, and
    what the user is told. splitting: which shards are split in between; renewing: how the epoch is renewed."""
    record, earlier, bound = run.record, run.earlier, run.bound
    epoch, continued, told = _begin_epoch(run.output, record, earlier, run.asked, splitting, renewing)
    says: dict[str, Any] = {"epoch": epoch_text(epoch), **({} if renewing is None else renewing.record())}
    if record is not None and RENEWED in record:
        says |= {RENEWED: record[RENEWED]}
    if renewing is not None and not renewing.keeps:
        earlier = None  # cohorts are of this policy's size
    if record is not None and "cohorts" in record:
        if told_type := resumed_type(record["cohorts"], bound):
            raise RunDirectoryError(f"{run.output} cannot be resumed: {told_type}")
        says |= {"cohorts": (type_on_record(bound) if bound else {}) | record["cohorts"]}
    elif bound is not None:
        says |= {"cohorts": cohorts_record(bound, earlier)}
    return epoch, continued, says, told


def _of_feed(run: _Run, *, elsewhere: bool) -> dict[str, Any]:
    """What run.json says of a stream, or of a run over files."""
    if run.stream is None:
        return {"rejected_files": _LAYOUT["rejected_files"], **({"elsewhere": True} if elsewhere else {})}
    starts = 0 if run.record is None else int(run.record.get(_STARTS, 0)) + 1
    return {"sink": run.stream.sink, "job": dict(run.stream.job), _STARTS: starts}


def _resumed(run: _Run, record: dict[str, Any], this: dict[str, Any]) -> tuple[str, ...]:
    """What the user is told of a run that began before. Raises RunDirectoryError: it was another one."""
    notes: tuple[str, ...] = ()
    if run.stream is not None and record.get("kanonflow") != this["kanonflow"]:
        notes = (f"Begun by kanonflow {record.get('kanonflow')}, resumed by {this['kanonflow']}.",)
        record = {**record, "kanonflow": this["kanonflow"]}
    _refuse_differences(run.output, record, this)
    return (*notes, "Resuming: releases that exist already are left as they are.")


def _fed(
    resumed: Mapping[str, Any] | None,
    earlier: EarlierRun | None,
    inputs: Sequence[Mapping[str, Any]],
    stream: StreamStart | None,
) -> dict[str, Any]:
    """What run.json says of the feeds that a chain has read, and of where this stream begins. Raises ContinueError."""
    if resumed is not None:
        return {name: resumed[name] for name in (feeds_read.KEY, BEGINS) if name in resumed}
    if earlier is None:
        return {}
    feeds = feeds_of_chain(earlier.directory, earlier.record)
    says: dict[str, Any] = {feeds_read.KEY: feeds} if feeds else {}
    if stream is not None:
        begins = begin_after(earlier.directory, feeds, inputs[0], chosen=stream.chosen)
        says |= {} if begins is None else {BEGINS: begins}
    return says


def _earlier_run(
    continues: str,
    output: str,
    policy: Policy,
    bound: BoundPolicy | None,
    judged: ContinuingInput | None,
    asked: ChainAsked,
) -> EarlierRun:
    if bound is None or bound.policy != policy:
        raise RunDirectoryError("--continue needs the policy that is bound to the input")
    kind = None if judged is None else judged.individual_type
    afresh = asked.renews and policy.renew is not None and policy.renew.cohorts is not RenewedCohorts.KEPT
    record = read_record(restricted_directory(continues))
    return earlier_run(continues, output, record, bound, kind, afresh=afresh)


def _secret_to_continue(restricted: str, earlier: EarlierRun, given: Secret | None) -> Secret | None:
    """The secret given; where none is, the one that the earlier run drew, which becomes this run's own."""
    own = os.path.join(restricted_directory(earlier.directory), "secret")
    if given is not None or not is_local(own):
        return given
    if not os.path.exists(own):
        raise ContinueError(
            f"--continue {earlier.directory}: that run got its secret from a --secret-... flag; give the same"
        )
    secret, path = Secret.from_file(own), os.path.join(restricted, "secret")
    if is_local(restricted) and not os.path.exists(path):
        secret.save(path)
    return secret


def _begin_epoch(
    output: str,
    record: Mapping[str, Any] | None,
    earlier: EarlierRun | None,
    asked: ChainAsked,
    splitting: Splitting | None,
    renewing: Renewing | None,
) -> tuple[int, bool, tuple[str, ...]]:
    """The epoch of a run, whether it began with the cohorts of another, and what to tell the user.

    record: run.json of a run that resumes. earlier: the run that a new one continues.
    """
    if record is not None:
        if asked.renews and RENEWED not in record:
            raise ContinueError(
                "--renew: the run began without it, and one that resumes goes on in its epoch; leave the flag out"
            )
        epoch = _epoch_in(record) or draw_epoch()
        refuse_other_epoch(asked, epoch)
        return epoch, bool(record.get("continued")), ()
    if earlier is None:
        refuse_cohorts(output)
        return draw_epoch() if asked.epoch is None else asked.epoch, False, (_EPOCH_BEGINS,)
    if renewing is not None:
        copy_cohorts(earlier, output, splitting, renewing)
        continue_once(earlier, output)
        return renewing.epoch, True, (renewing.facts().note(),)
    refuse_other_epoch(asked, earlier.epoch)
    copied = copy_cohorts(earlier, output, splitting)
    continue_once(earlier, output)
    return earlier.epoch, True, copied_notes(earlier, copied)


def draw_epoch() -> int:
    """The number of an epoch that begins: 63 bits of the operating system's generator."""
    return secrets.randbits(63)


def epoch_of_run(output: str) -> int | None:
    """The epoch of the run that wrote to ``output``; None: it has none.

    Raises RunDirectoryError: run.json is damaged.
    """
    return _epoch_in(read_record(restricted_directory(output)))


def _epoch_in(record: Mapping[str, Any] | None) -> int | None:
    text = None if record is None else record.get("epoch")
    return int(text, 16) if isinstance(text, str) and re.fullmatch("[0-9a-f]{16}", text) else None


def holds_output(output: str) -> bool:
    """Whether a run has written releases, metrics or rejected rows there, or was about to."""
    places = (
        release_directory(output),
        metrics_directory(output),
        public_metrics_directory(output),
        rejected_directory(output),
    )
    looked = [(place, "*.avro") for place in places]
    looked += [(release_directory(output), f"*{suffix}") for suffix in SUFFIXES]
    return any(storage.paths_below(*each) for each in looked) or holds_slots(output)


def _find_secret(restricted: str, given: Secret | None, *, resumed: bool) -> tuple[Secret, tuple[str, ...]]:
    if given is not None:
        return given, ()
    if not is_local(restricted):
        raise RunDirectoryError(
            "a remote --output needs --secret-manager, --secret-file or --secret-env: secrets stay here"
        )
    path = os.path.join(restricted, "secret")
    if os.path.exists(path):
        return Secret.from_file(path), (f"Using the secret of this run, {path}.",)
    if resumed:
        raise RunDirectoryError("the run to resume got its secret from a --secret-... flag; give the same")
    secret = Secret.generate()
    secret.save(path)
    return secret, (
        f"No secret given: drew one and keep it in {path} (mode 0600). Whoever has it can link released rows"
        " to people: keep it inside.",
    )


def _record_of(policy: Policy, inputs: Sequence[Mapping[str, Any]], secret: Secret) -> dict[str, Any]:
    # Neither the number of threads, nor the reason why a risk is accepted, nor how many rows may be rejected changes a
    # release; nor where a file of people is, whose content is on record by itself, nor how a run may renew: who did has
    # it on record.
    followed: dict[str, Any] = {
        key: replace(each, accept_risk="a reason") for key, each in policy.followed_by.items()
    }
    fields = tuple(replace(field, accept_risk=None) for field in policy.fields)
    fixed = replace(
        policy,
        solver=replace(policy.solver, threads=None),
        fields=fields,
        max_rejected=None,
        assess=None,
        people=None,
        renew=None,
        **followed,
    )
    return {
        "kanonflow": version("kanonflow"),
        "versions": {name: version(name) for name in _SOLVING},
        "names": _LAYOUT["names"],
        "slots": _LAYOUT["slots"],
        "policy_name": policy.name,
        "policy": secret.lasting.derive("run", "policy", policy_digest(fixed)).hex(),
        "policy_keys": policy_keys(fixed, secret),
        **lineage_record(secret),
        "input": [read_before.keyed(each, secret) for each in inputs],
        "accepted_risks": policy.accepted_risks,
    }


def same_files(one: object, other: object) -> bool:
    """Whether two inputs, as run.json has them, have the same names and sizes."""
    return _without_content(one) == _without_content(other)


def _without_content(inputs: Any) -> list[dict[str, Any]]:
    return [{name: each[name] for name in each if name not in read_before.DIGESTS} for each in inputs or ()]


def _refuse_differences(output: str, there: dict[str, Any], this: dict[str, Any]) -> None:
    """Raise RunDirectoryError naming everything in which the two runs differ."""
    differences = []
    if any(there.get(name) != this[name] for name in _LAYOUT if name in this):
        differences.append(
            "an earlier build began it, which named its files otherwise or did not write down what releases were built"
            " on: let that build end it"
        )
    if there.get("kanonflow") != this["kanonflow"]:
        differences.append(
            f"kanonflow {there.get('kanonflow')} began it, this is {this['kanonflow']},"
            " which may solve windows differently"
        )
    if there.get("secret") != this["secret"]:
        # The policy's digest is keyed by the secret, so it says nothing here.
        differences.append(
            "the secret is another one (a stream that rotates its secret: see --previous-secret)"
        )
        if there.get("policy_name") != this["policy_name"]:
            differences.append("the policy is another one")
    elif there.get("policy") != this["policy"]:
        changed = told_changed(there.get("policy_keys"), this["policy_keys"])
        differences.append(f"the policy (or --evaluations, --deadline-ms, --seed) is another one{changed}")
    before, now = (each.get("release_format", str(ReleaseFormat.AVRO)) for each in (there, this))
    if before != now:
        differences.append(
            f"its releases are {before} files, and these would be {now} (--release-format {before} goes on with it)"
        )
    if there.get(PEOPLE_FILE, {}).get("content") != this.get(PEOPLE_FILE, {}).get("content"):
        differences.append("the file of people (people) is another one, or has other content")
    if there.get(PLAN) != this.get(PLAN):
        differences.append("the plan of shards (--plan) is another one")
    if there.get("sink", this.get("sink")) != this.get("sink"):
        differences.append("the releases went to another place")
    if not same_files(there.get("input"), this["input"]):
        differences.append("the input has other files, or files of another size")
    elif there.get("secret") == this["secret"]:
        for before, now in zip(there["input"], this["input"], strict=True):
            if before.get("content") != now.get("content"):
                differences.append(f"the input {now['name']} has other content")
    if "sink" not in this:  # a stream's state has no need of either
        before = there.get("versions", {})
        differences += [
            f"{name} {before[name]} began it, this is {now}, which may solve windows differently"
            for name, now in this["versions"].items()
            if before.get(name, now) != now
        ]
    if differences:
        raise RunDirectoryError(
            f"{output} cannot be resumed: {'; '.join(differences)}. Releasing the same rows again under"
            " another policy, secret or input would tell more than either release; choose another --output"
            " only if the rows are others."
        )


@contextlib.contextmanager
def lock_directory(restricted: str) -> Iterator[None]:
    """Keep other processes of this machine out. Raises RunDirectoryError: one is in."""
    if not is_local(restricted):
        yield
        return
    handle = os.open(os.path.join(restricted, "lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunDirectoryError(f"another process is writing to {Path(restricted).parent}") from None
        yield
    finally:
        os.close(handle)


def _remove_leftovers(output: str) -> None:
    """Temporary files of a process that was killed while it wrote; not those of an output in another folder here."""
    if is_local(output):
        for place in ("", "release", "metrics", os.path.join("restricted", "**")):
            for leftover in glob.glob(os.path.join(glob.escape(output), place, ".*.tmp"), recursive=True):
                os.unlink(leftover)
