"""What an audit found of a run, kept beside it, and told as long as the files are those that were judged.

    OUT/verdict.json              passed or not, when, by which version, how: what may go with the releases
    OUT/restricted/verdict.json   the whole report of the audit

Both hold a digest of the list of files that were judged, so that a directory in which one was changed, added or taken
away since is no longer called audited. The public one is of the public files alone, for a digest of a few raw rows
would tell them. Whoever may write into the directory could also write a verdict: it is a record, no signature.

The digest can be worked out without this package, in OUT:
``find release metrics -type f | LC_ALL=C sort | xargs sha256sum | sha256sum`` (``metrics`` only where it is there).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kanonflow.pipelines.audit.followed_share import FollowedShare
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.run_records.replaced_file import replace_file
from kanonflow.pipelines.run_records.run_summary import read_json
from kanonflow.schemas.policy import Policy

NAME = "verdict.json"
_PUBLIC = ("release", "metrics")
_RESTRICTED = tuple(
    f"restricted/{name}" for name in ("metrics", "rejected", "cohorts", "matching_records", "certificates")
)
"""``certificates`` is where builds before 0.1.0 put matching records."""
_CHUNK = 1 << 20


class Judged(NamedTuple):
    """The files of a directory at one moment. files: how many are public; digest: of their list.

    all_files, all_digest: with what lies in ``restricted/`` and was judged too. special: how many of them are neither
    files nor links to files; whoever opened them might wait for ever."""

    files: int
    digest: str
    all_files: int
    all_digest: str
    special: int = 0


@dataclass(frozen=True)
class Verdict:
    """What may be known of an audit beside its releases: nothing that these and the policy's name do not say, but that
    rows were released twice, where that is known: the promise is then gone.

    judged_at: in UTC, to the second. releases, rows: that it read. waiting: the run was going on.
    matching_records, secret: what it was given besides. files, digest: ``Judged``. second_release: of this run's rows
    another release is known (``released_again``). place: of the run in its chain, None where it tells none.
    followed_groups, followed_people, followed_rows: how much of the run was followed, in tenths of a percent
    (``FollowedShare``).
    """

    passed: bool
    judged_at: str
    kanonflow: str
    policy: str
    k: int
    protect: str
    cohort: str | None
    releases: int
    rows: int
    waiting: bool
    matching_records: bool
    secret: bool
    second_release: bool
    files: int
    digest: str
    followed_groups: int
    followed_people: int
    followed_rows: int
    place: int | None = None

    @property
    def followed(self) -> FollowedShare:
        """How much was followed."""
        return FollowedShare(self.followed_groups, self.followed_people, self.followed_rows)

    @property
    def in_full(self) -> bool:
        """Whether it passed, and is known to have left nothing out."""
        return self.passed and self.followed.whole


class VerdictError(Exception):
    """A verdict that cannot be kept; the message says why. The audit itself is not touched by that."""


def judged_files(output: str | Path) -> Judged:
    """What lies in a run's directory now. Reads every file. Links, pipes and the like are listed as such.
    Links are not followed."""
    root = Path(output)
    public, inside = _lines(root, _PUBLIC), _lines(root, _RESTRICTED)
    special = sum(not path.is_file() for path in _entries(root, (*_PUBLIC, *_RESTRICTED)))
    everything = [*public, *inside]
    return Judged(len(public), _digest(public), len(everything), _digest(everything), special)


def verdict_of(
    report: AuditReport,
    policy: Policy,
    judged: Judged,
    *,
    version: str,
    now_ms: int,
    waiting: bool,
    matching_records: bool,
    secret: bool,
    second_release: bool = False,
) -> Verdict:
    """What of an audit's report may be told. version: of kanonflow."""
    return Verdict(
        passed=report.passed,
        judged_at=datetime.fromtimestamp(now_ms // 1000, UTC).isoformat(timespec="seconds"),
        kanonflow=version,
        policy=policy.name,
        k=policy.k,
        protect=str(policy.protect),
        cohort=None if policy.cohort is None else str(policy.cohort),
        releases=report.figures.releases,
        rows=report.figures.rows,
        waiting=waiting,
        matching_records=matching_records,
        secret=secret,
        second_release=second_release,
        files=judged.files,
        digest=judged.digest,
        place=report.figures.place,
        followed_groups=report.followed.groups,
        followed_people=report.followed.people,
        followed_rows=report.followed.rows,
    )


def keep_verdict(output: str | Path, verdict: Verdict, report: AuditReport, before: Judged) -> None:
    """Write both files, in the place of earlier ones.

    before: ``judged_files`` as it was when the audit began. Raises VerdictError: something has changed since, so it is
    not known what was judged; or the directory cannot be written to.
    """
    root = Path(output)
    after = judged_files(root)
    if after != before:
        raise VerdictError(
            "files changed while they were audited, so the verdict is of none that is there now"
        )
    public = asdict(verdict)
    whole = public | {
        "files": before.all_files,
        "digest": before.all_digest,
        "report": json.loads(report.to_json()),
    }
    try:
        # The public one first: should the other fail, what others are told is of this audit.
        replace_file(root / NAME, _json(public), private=False)
        if (root / "restricted").is_dir():
            replace_file(root / "restricted" / NAME, _json(whole), private=True)
    except OSError as error:
        raise VerdictError(f"the verdict cannot be kept in {root} ({error.strerror})") from None


def read_verdict(output: str | Path) -> Verdict | None:
    """The verdict that is kept beside a run's releases; None: there is none, or it is damaged."""
    values_read = read_json(Path(output) / NAME)
    kinds: dict[str, type] = {"passed": bool, "waiting": bool, "matching_records": bool, "secret": bool}
    kinds |= {"second_release": bool, "k": int, "releases": int, "rows": int, "files": int, "place": int}
    kinds |= dict.fromkeys(("followed_groups", "followed_people", "followed_rows"), int)
    values: dict[str, Any] = {}
    for member in fields(Verdict):
        value = values_read.get(member.name)
        optional = member.name in ("cohort", "place") and value is None
        if not optional and type(value) is not kinds.get(member.name, str):
            return None
        values[member.name] = value
    return Verdict(**values)


def read_report(output: str | Path, judged: Judged | None) -> Mapping[str, Any] | None:
    """The audit's whole report as ``verify --json`` prints it, if it is of the files that are there now: ``judged``."""
    whole = read_json(Path(output) / "restricted" / NAME)
    report = whole.get("report")
    if judged is None or not isinstance(report, dict) or whole.get("digest") != judged.all_digest:
        return None
    return report


def judged_again(output: str | Path) -> Judged | None:
    """What lies there now, for the verdict that is kept there; None, and no file is read, where none is."""
    return judged_files(output) if (Path(output) / NAME).exists() else None


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=1).encode() + b"\n"


def stands(verdict: Verdict | None, judged: Judged | None) -> bool:
    """Whether the files are those that were judged; without a verdict they are not."""
    return verdict is not None and judged is not None and verdict.digest == judged.digest


def _lines(root: Path, folders: Sequence[str]) -> list[bytes]:
    """As sha256sum prints them, in the order of their names' bytes."""
    digests = [(os.fsencode(path.relative_to(root)), _content(path)) for path in _entries(root, folders)]
    return [digest + b"  " + name + b"\n" for name, digest in sorted(digests)]


def _entries(root: Path, folders: Sequence[str]) -> Iterator[Path]:
    """All but folders; links to folders are entries, and not followed."""
    for place, below, names in (each for folder in folders for each in os.walk(root / folder)):
        for name in [*names, *(each for each in below if os.path.islink(os.path.join(place, each)))]:
            yield Path(place, name)


def _content(path: Path) -> bytes:
    """The digest of a file. A name may be any bytes, and a pipe is never opened for its content."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return b"link " + os.fsencode(os.readlink(path))
    if not stat.S_ISREG(mode):
        return b"special"
    digest = hashlib.sha256()
    # What became a pipe or a link just now neither waits for a writer nor leads elsewhere.
    with open(path, "rb", opener=_open_file) as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest().encode()


def _open_file(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _digest(lines: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()
