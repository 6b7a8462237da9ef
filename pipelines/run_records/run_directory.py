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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from kanonflow.pipelines.run_records import feeds_read
from kanonflow.pipelines.run_records.chain_record import (
    NOTHING_ASKED,
    ChainAsked,
    chain_of,
    chain_record,
    refuse_other_epoch,
)
from kanonflow.pipelines.run_records.continued_run import (
    ContinueError,
    EarlierRun,
    cohorts_record,
    continue_once,
    copied_notes,
    copy_cohorts,
    earlier_run,
    refuse_cohorts,
    refuse_continued,
)
from kanonflow.pipelines.run_records.continuing_input import ContinuingInput, judge
from kanonflow.pipelines.run_records.feeds_read import BEGINS, begin_after, feeds_of_chain
from kanonflow.pipelines.run_records.foreign_files import foreign_files, strangers_note
from kanonflow.pipelines.run_records.individual_type import resumed_type, type_on_record
from kanonflow.pipelines.run_records.people_found import PeopleFound, people_of_record
from kanonflow.pipelines.run_records.policy_keys import policy_keys, told_changed
from kanonflow.pipelines.run_records.private_places import close_own_secret, refuse_open_places
from kanonflow.pipelines.run_records.read_before import keyed
from kanonflow.pipelines.run_records.secret_lineage import continued_secret, lineage_record
from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import policy_digest
from kanonflow.schemas.release_format import SUFFIXES, ReleaseFormat
from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE, is_local, read_whole
from kanonflow.transforms.lineage.published_slots import holds_slots
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.sinks.divided_people import forget_divided_people
from kanonflow.transforms.sinks.sinks import (
    make_output_directories,
    metrics_directory,
    public_metrics_directory,
    rejected_directory,
    release_directory,
    restricted_directory,
)
from kanonflow.transforms.windows.chain import Chain

_KEPT = ("second_releases",)
"""What others have written into run.json: it stays when the run resumes."""

_JUDGED = ("read", "people")
"""What a run that continues another found out of its input before it began; one that resumes has the same input."""


_NAMES = 2
"""How releases are named (``seeds.release_id``): 2, by window and part. 1 counted them; under the other way of naming a
window that is made again would pass beside the file that is there."""


_SLOTS = 1
"""What a run writes down about a release before it is visible (``published_slots``)."""

_WITHOUT_SLOTS = (
    "An earlier build began this stream, which did not write down what releases were built on; from here on it is. An"
    " older state than the last cannot be told there: be sure that this is the last checkpoint or savepoint."
)

_EPOCH_BEGINS = (
    "An epoch begins: what this run publishes is not covered together with earlier releases of the same people;"
    " --continue DIR goes on from one."
)

_SOLVING = ("numpy", "numba", "pyarrow")
"""Packages whose version a release's bytes may depend on."""

_REJECTED_FILES = 2
"""How files of rejected rows are named in a run over files: 2, by all that they gather. 1 named them by window and
batch, and such a run, begun again, would find none of them under the new names."""


class RunDirectoryError(Exception):
    """The output directory cannot be used for this run; the message says why and what to do."""

    exit_code = 2


@dataclass(frozen=True)
class RunDirectory:
    """A directory that is ready to be written to. notes: what the user should know, one sentence each.

    run: keyed digest of what makes this run the same as before: policy, secret and input, and the epoch.
    epoch: with ``cohort: lasting``, of the promise: a number of 63 bits that a resumed run has again.
    continued: whether the run began with the cohorts of another. people: of those, who was found in its input.
    chain: which of its chain it is.
    begins: of a stream, the position behind what the streams that it continues have read; "": its feed's beginning.
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


@dataclass(frozen=True)
class StreamStart:
    """How a stream begins.

    sink: where its releases go: ``files``, or the name of a topic. job: its name and cluster.
    from_state: whether it goes on from a checkpoint or savepoint, or takes over a running job. how: the flag that
    would say so on its runner. goes_on: whether a job, as an earlier start recorded it, still runs. rewinds: whether it
    goes on from an older state on purpose. chosen: whether its source's address says where to begin.
    """

    sink: str
    job: Mapping[str, str]
    from_state: bool
    how: str
    goes_on: Callable[[Mapping[str, str]], bool]
    rewinds: bool = False
    chosen: bool = False


class NotBegunError(Exception):
    """A stream's job is not there, and wrote nothing but into the directory. reason: why."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _refuse_stream(output: str, stream: StreamStart, record: Mapping[str, Any]) -> None:
    if not stream.from_state:
        raise RunDirectoryError(
            f"{output} holds a stream that has begun, and this one would read the feed from its beginning: without"
            " its state a stream makes other releases of the same rows, and both would be out. Go on from its last"
            f" checkpoint or savepoint with {stream.how}, or choose another --output for rows that no release holds"
        )
    job = record.get("job")
    if isinstance(job, dict) and stream.goes_on(job):
        raise RunDirectoryError(
            f"{output}: the job {job.get('name')} that writes there still runs; stop it with a savepoint and go on"
            " from that"
        )
    if stream.rewinds and record.get("slots") != _SLOTS:
        raise RunDirectoryError(
            f"{output}: --rewind: an earlier build began this stream, which did not write down what releases were built"
            " on. What an older state makes again could not be told from what is published: go on from the last"
            " checkpoint or savepoint"
        )


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
) -> Iterator[RunDirectory]:
    """Prepare ``output`` for a run, and keep other processes of this machine out until the run ends.

    Args:
        output: local folder, or a remote prefix (no lock there, and the secret must be given).
        inputs: what is read, as a resumed run must read it too.
        secret: None draws one, or takes the one that the resumed run drew.
        resume: continue the run that is there; on an unused directory the same as a new run.
        stream: how a stream begins; None for bounded input. A stream goes on under a newer kanonflow too, and says so.
        elsewhere: the run may go on without this process (on a cluster, in a service): the directory is taken as soon
            as it has begun, though nothing is released yet.
        previous: secrets that the run used before ``secret``; a stream may take up a new one (``secret_lineage``).
        bound: the policy, bound to the input; needed with ``cohort: lasting``.
        continues: the output of a run whose cohorts this one begins with (``continued_run``); one that resumes has
            them already, and what is given then does not count.
        continuing: how the input of a run that continues another is judged; None: it is not.
        release_format: of the files of releases. A run has one: the same release in two files would be out twice. One
            that continues another has an output of its own, and may have another format.
        asked: what is asked of the run in its chain (``chain_record``).

    Raises:
        RunDirectoryError: another run's releases are there; the run to resume differs in policy, input,
            secret or version, or is a stream without its state, or goes on; somebody else is writing.
        SecretError: the secrets given are not those that the run has used.
        ContinueError: the run to continue does not fit this one, or has read this input, or what is asked of the chain
            does not fit.
        StrangePeopleError: hardly anybody of the input is known there.
        OpenPlaceError: others could read, or have prepared, what a new run keeps in ``restricted/``.
    """
    restricted = restricted_directory(output)
    record = read_record(restricted)
    # A stream's state may hold rows before anything was released.
    begun = record is not None and (stream is not None or "job" in record or bool(record.get("elsewhere")))
    used = begun or holds_output(output)
    if used and not resume:
        raise RunDirectoryError(
            f"{output} holds the output of another run, or another stream has begun there, or a run that may go on"
            " elsewhere. Choose another --output, or continue that run with --resume: rows must not be published twice."
            " (anonymize --second-release does it all the same, and says what it costs.)"
        )
    if used:
        refuse_continued(output)
    if used and stream is not None:
        _refuse_stream(output, stream, record or {})
    if used and record is None:
        raise RunDirectoryError(
            f"{output} holds releases but no restricted/run.json, so the run cannot be continued;"
            " choose another --output"
        )
    earlier = None
    if continues is not None and not used:
        # An earlier run's cohorts mean nothing under a policy that none of them is of.
        earlier = _earlier_run(continues, output, policy, bound, continuing)
    fed = _fed(record if used else None, earlier, inputs, stream)
    if previous and not (used and record is not None) and earlier is None:
        raise RunDirectoryError(
            "--previous-secret: for a run that goes on with --resume, and none began here"
        )
    if not used:
        refuse_open_places(output)
    strangers = foreign_files(output)
    make_output_directories(output, policy)
    if used:
        close_own_secret(output)
    else:  # what was laid there meanwhile
        refuse_open_places(output)
    with contextlib.ExitStack() as locks:
        locks.enter_context(lock_directory(restricted))
        if earlier is not None:
            locks.enter_context(lock_directory(restricted_directory(earlier.directory)))
            secret = _secret_to_continue(restricted, earlier, secret)
        if not used:
            forget_divided_people(output)
        secret, notes = _find_secret(restricted, secret, resumed=used)
        notes += strangers_note(output, strangers)
        if used and record is not None:
            secret, told = continued_secret(record, secret, previous, rotates=stream is not None)
            notes += told
        elif earlier is not None:
            secret, told = continued_secret(earlier.record, secret, previous, rotates=True)
            notes += told
            if secret.lasting.commit() != earlier.record["secret"]:
                raise ContinueError(
                    f"--continue {earlier.directory}: its people are known by another secret, and under this one nobody"
                    " would be. Give the secret of that run; a new one together with those that it used before"
                    " (--previous-secret)"
                )
        this = _record_of(policy, inputs, secret) | fed
        if release_format is not ReleaseFormat.AVRO:
            this |= {"release_format": str(release_format)}
        epoch, continued = 0, False
        resumed = record if used else None
        chain, told = chain_of(asked, policy, resumed, earlier)
        if policy.has_epochs:
            if earlier is not None:
                judged = judge(earlier, this["input"], secret, continuing, fed.get(BEGINS, ""))
                this |= judged.record()
                notes += judged.notes()
            elif resumed is not None:
                this |= {name: resumed[name] for name in _JUDGED if name in resumed}
            epoch, continued, told_of_epoch = _begin_epoch(output, resumed, earlier, asked)
            notes += (*told_of_epoch, *told)
            this |= {"epoch": epoch_text(epoch), "continued": continued, **chain_record(chain, resumed)}
            if resumed is not None and "cohorts" in resumed:
                if told_type := resumed_type(resumed["cohorts"], bound):
                    raise RunDirectoryError(f"{output} cannot be resumed: {told_type}")
                this |= {"cohorts": (type_on_record(bound) if bound else {}) | resumed["cohorts"]}
            elif bound is not None:
                this |= {"cohorts": cohorts_record(bound, earlier)}
        if stream is not None:
            this |= {"sink": stream.sink, "job": dict(stream.job)}
            if used and record is not None and record.get("slots") != this["slots"]:
                notes += (_WITHOUT_SLOTS,)
                this |= {"slots": record.get("slots")}  # of all its releases, or it says nothing
        else:
            this |= {"rejected_files": _REJECTED_FILES, **({"elsewhere": True} if elsewhere else {})}
        if used and record is not None:
            if stream is not None and record.get("kanonflow") != this["kanonflow"]:
                notes += (f"Begun by kanonflow {record.get('kanonflow')}, resumed by {this['kanonflow']}.",)
                record = {**record, "kanonflow": this["kanonflow"]}
            _refuse_differences(output, record, this)
            notes += ("Resuming: releases that exist already are left as they are.",)
        told_before = {name: record[name] for name in _KEPT if record is not None and name in record}
        write_record(restricted, this | told_before)
        _remove_leftovers(output)
        try:
            same = [
                this[name] for name in ("policy_name", "policy", "secret", "input", "epoch") if name in this
            ]
            run = secret.lasting.derive("run", "directory", json.dumps(same, sort_keys=True)).hex()
            people = people_of_record(this.get("people"))
            yield RunDirectory(
                output, secret, notes, run, epoch, continued, people, fed.get(BEGINS, ""), chain
            )
        except NotBegunError as error:
            if is_local(restricted) and not used and not holds_output(output):
                os.unlink(os.path.join(restricted, "run.json"))
            raise error.reason from None


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
    told: dict[str, Any] = {feeds_read.KEY: feeds} if feeds else {}
    if stream is not None:
        begins = begin_after(earlier.directory, feeds, inputs[0], chosen=stream.chosen)
        told |= {} if begins is None else {BEGINS: begins}
    return told


def _earlier_run(
    continues: str, output: str, policy: Policy, bound: BoundPolicy | None, asked: ContinuingInput | None
) -> EarlierRun:
    if bound is None or bound.policy != policy:
        raise RunDirectoryError("--continue needs the policy that is bound to the input")
    told = None if asked is None else asked.individual_type
    return earlier_run(continues, output, read_record(restricted_directory(continues)), bound, told)


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
    output: str, record: Mapping[str, Any] | None, earlier: EarlierRun | None, asked: ChainAsked
) -> tuple[int, bool, tuple[str, ...]]:
    """The epoch of a run, whether it began with the cohorts of another, and what to tell the user.

    record: run.json of a run that resumes. earlier: the run that a new one continues.
    """
    if record is not None:
        epoch = _epoch_in(record) or draw_epoch()
        refuse_other_epoch(asked, epoch)
        return epoch, bool(record.get("continued")), ()
    if earlier is None:
        refuse_cohorts(output)
        return draw_epoch() if asked.epoch is None else asked.epoch, False, (_EPOCH_BEGINS,)
    refuse_other_epoch(asked, earlier.epoch)
    copied = copy_cohorts(earlier, output)
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
    patterns = [FileSystems.join(place, "*.avro") for place in places]
    patterns += [FileSystems.join(release_directory(output), f"*{suffix}") for suffix in SUFFIXES]
    matches = FileSystems.match(patterns)
    return any(match.metadata_list for match in matches) or holds_slots(output)


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
    # release.
    fields = tuple(replace(field, accept_risk=None) for field in policy.fields)
    fixed = replace(policy, solver=replace(policy.solver, threads=None), fields=fields, max_rejected=None)
    return {
        "kanonflow": version("kanonflow"),
        "versions": {name: version(name) for name in _SOLVING},
        "names": _NAMES,
        "slots": _SLOTS,
        "policy_name": policy.name,
        "policy": secret.lasting.derive("run", "policy", policy_digest(fixed)).hex(),
        "policy_keys": policy_keys(fixed, secret),
        **lineage_record(secret),
        "input": [keyed(each, secret) for each in inputs],
        "accepted_risks": {field.name: field.accept_risk for field in policy.fields if field.accept_risk},
    }


def same_files(one: object, other: object) -> bool:
    """Whether two inputs, as run.json has them, have the same names and sizes."""
    return _without_content(one) == _without_content(other)


def _without_content(inputs: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name != "content"} for each in inputs or ()]


def secret_of_run(output: str, given: Secret, previous: Sequence[Secret]) -> Secret:
    """The secret of a finished run with those that it replaced, as run.json has them; the given one without run.json.

    Raises SecretError: one that the run has used is not given, or one that it never used is.
    """
    record = read_record(restricted_directory(output))
    return given if record is None else continued_secret(record, given, previous, rotates=False)[0]


def _refuse_differences(output: str, there: dict[str, Any], this: dict[str, Any]) -> None:
    """Raise RunDirectoryError naming everything in which the two runs differ."""
    differences = []
    if there.get("names", 1) != this["names"]:
        differences.append("an earlier build began it, which named the releases of a window otherwise")
    if "rejected_files" in this and there.get("rejected_files", 1) != this["rejected_files"]:
        differences.append("an earlier build began it, which named the files of rejected rows otherwise")
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
    if there.get("sink", this.get("sink")) != this.get("sink"):
        differences.append("the releases went to another place")
    if not same_files(there.get("input"), this["input"]):
        differences.append("the input has other files, or files of another size")
    elif there.get("secret") == this["secret"]:
        for before, now in zip(there["input"], this["input"], strict=True):
            if before.get("content") != now.get("content"):
                differences.append(f"the input {now['name']} has other content")
    if "sink" not in this:  # a stream's state has no need of either
        if there.get("slots") != this["slots"]:
            differences.append(
                "an earlier build began it, which did not write down what releases were built on"
            )
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


def read_record(restricted: str) -> dict[str, Any] | None:
    """run.json; None when there is none. Raises RunDirectoryError: it is damaged."""
    path = FileSystems.join(restricted, "run.json")
    if not FileSystems.exists(path):
        return None
    try:
        record = json.loads(read_whole(path))
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise RunDirectoryError(f"{path} is damaged; choose another --output")
    return record


def write_record(restricted: str, record: dict[str, Any]) -> None:
    """Replace run.json at once."""
    data = json.dumps(record, indent=1).encode()
    path = FileSystems.join(restricted, "run.json")
    if not is_local(path):
        with FileSystems.create(path) as file:
            file.write(data)
        return
    handle = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(path + ".tmp", path)


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
    """Temporary files of a process that was killed while it wrote."""
    if is_local(output):
        for leftover in glob.glob(os.path.join(glob.escape(output), "**", ".*.tmp"), recursive=True):
            os.unlink(leftover)
