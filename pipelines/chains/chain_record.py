"""Which run of its chain a run is, and where it ends, as run.json has it.

    "chain": {"place": 0, "carry": false, "until": null}

It stands there before the first release, so that a run that resumes has the same ids and the same end. A run of an
earlier build has none: its ids are those of place 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kanonflow.pipelines.chains.continued_run import ContinueError, EarlierRun
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.windows.chain import Chain

KEY = "chain"


def _nothing() -> int | None:
    return None


@dataclass(frozen=True)
class ChainAsked:
    """What is asked of a run's end.

    carry: whether what waits is left for a run that continues it. until: the end in ms; None: where its rows end.
    latest: the end of the window of the latest row, in ms; None: there is none. It is asked for once, if at all.
    epoch: the number of the epoch that begins; None: one is drawn. renews: whether an epoch begins where it continues.
    """

    carry: bool = False
    until: int | None = None
    latest: Callable[[], int | None] = _nothing
    epoch: int | None = None
    renews: bool = False


NOTHING_ASKED = ChainAsked()


def chain_of(
    asked: ChainAsked, policy: Policy, resumed: Mapping[str, Any] | None, earlier: EarlierRun | None
) -> tuple[Chain, tuple[str, ...]]:
    """The run in its chain, and what to tell of where it ends.

    resumed: run.json of the run that goes on. earlier: the run that a new one continues.
    Raises ContinueError: what is asked is not what run.json has, or the policy hands nothing on.
    """
    if not policy.promise.epochs and (asked.carry or asked.epoch is not None or asked.renews):
        flag = "--carry" if asked.carry else "--renew" if asked.renews else "--epoch"
        raise ContinueError(f"{flag}: for a policy with cohort: lasting; runs of this one hand nothing on")
    if resumed is not None:
        return _recorded(asked, resumed), ()
    place = 0 if earlier is None else place_after(earlier.record)
    if not asked.carry:
        return Chain(place), ()
    return _ending(asked, place, None if earlier is None else _until(earlier.record))


def chain_record(chain: Chain, resumed: Mapping[str, Any] | None) -> dict[str, Any]:
    """What run.json holds of it; nothing of a run that an earlier build began."""
    if resumed is not None and KEY not in resumed:
        return {}
    return {KEY: asdict(chain)}


def refuse_other_epoch(asked: ChainAsked, epoch: int) -> None:
    """Raise ContinueError if another epoch is asked for than the one that goes on."""
    if asked.epoch is not None and asked.epoch != epoch:
        raise ContinueError(
            "--epoch: the run goes on in the epoch that it, or the run that it continues, began in; leave the flag out"
        )


def _recorded(asked: ChainAsked, record: Mapping[str, Any]) -> Chain:
    place = record.get(KEY)
    chain = Chain() if place is None else Chain(place["place"], place["carry"], place["until"])
    if asked.carry and not chain.carry:
        raise ContinueError("--carry: the run began without it, and a run that resumes ends as it would have")
    if asked.until is not None and asked.until != chain.until:
        raise ContinueError("--until: the run began with another end; leave the flag out")
    return chain


def _ending(asked: ChainAsked, place: int, before: int | None) -> tuple[Chain, tuple[str, ...]]:
    """A run that carries over. before: the end of the run that it continues."""
    if asked.until is not None:
        if before is not None and asked.until < before:
            raise ContinueError(
                f"--until {_told(asked.until)}: the run that this one continues went on to {_told(before)} already"
            )
        return Chain(place, True, asked.until), (_end_note(asked.until, "--until"),)
    latest = asked.latest()
    ends = [end for end in (latest, before) if end is not None]
    if not ends:
        return Chain(place, True), ()
    what = "the end of the window of its latest row" if latest == max(ends) else "where the run before ended"
    return Chain(place, True, max(ends)), (_end_note(max(ends), what),)


def _end_note(until: int, what: str) -> str:
    return (
        f"This run ends at {_told(until)} ({what}). What could still wait or come then is neither released nor"
        " rejected: it is kept for the run that continues this one."
    )


def _told(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def place_after(record: Mapping[str, Any]) -> int:
    """Of the run that continues one. record: its run.json."""
    return int(record.get(KEY, {}).get("place", 0)) + 1


def _until(record: Mapping[str, Any]) -> int | None:
    return record.get(KEY, {}).get("until")
