"""Faults that were mended once, put back as they were or as somebody might write them again, to be found.

A fault is a name, what tells of its mend, and what puts it back (by pytest's monkeypatch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from apache_beam.io.filesystems import FileSystems

from kanonflow.pipelines.chains import shards_record
from kanonflow.transforms.files import create_if_absent
from kanonflow.transforms.lineage import committed_rosters, published_slots
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.protections import lasting
from kanonflow.transforms.protections.known_otherwise import GoesOut, going_out
from kanonflow.transforms.release import candidates, due
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.roster.items_out import ItemsOut
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.secret.seeds import _mac, encode
from kanonflow.transforms.shards import route, route_rows
from kanonflow.transforms.sinks import sinks
from kanonflow.transforms.windows import step as steps
from kanonflow.transforms.windows.solve_windows import _Rosters
from tests.simulation.jobs import Job
from tests.simulation.play import _Course
from tests.simulation.store import Write
from tests.simulation.worlds import Schedule

Patch = pytest.MonkeyPatch


class Fault(NamedTuple):
    """told: where its mend is told. seed: of a schedule that finds it. needs: kinds without which it cannot show."""

    name: str
    told: str
    put_back: Callable[[Patch], None]
    seed: int = -1
    needs: frozenset[str] = frozenset()

    def can_show(self, schedule: Schedule) -> bool:
        """Whether a schedule may find it at all."""
        kinds = {str(each.kind) for each in schedule.disturbances}
        against = schedule.people.against is not None
        worlds = {"chain": schedule.ends, "shards": schedule.people.shards, "against": against}
        return self.needs <= kinds | {str(schedule.mode), *(name for name, there in worlds.items() if there)}


def _arrival_decides(patch: Patch) -> None:
    patch.setattr(candidates, "canonical_order", lambda rows, bound, secret: np.arange(rows.num_rows))


def _names_alone_judge(patch: Patch) -> None:
    patch.setattr(published_slots, "judge", lambda own, committed, reach: None)


def _people_enter_again(patch: Patch) -> None:
    patch.setattr(committed_rosters, "judge_roster", lambda own, committed: None)
    patch.setattr(committed_rosters.CommittedRosters, "commit", lambda self, slot, people, boxes: None)
    _names_alone_judge(patch)


def _old_states_go_on(patch: Patch) -> None:
    patch.setattr(EarlierReleases, "refuse_older", lambda self, partition, last_end: None)


def _parked_for_a_moment(patch: Patch) -> None:
    patch.setattr(PublishedSlots, "is_parked", lambda self, partition: False)
    _names_alone_judge(patch)


def _no_boundary(patch: Patch) -> None:
    patch.setattr(Job, "_put", lambda self, tag, value: self._sink(tag, value))


def _shards_are_asked_again(patch: Patch) -> None:
    right = route.settled

    def settled(waiting: Any, memory: Any, *told: Any) -> Any:
        return right(waiting, memory, *told)._replace(memory=memory)

    patch.setattr(route_rows, "settled", settled)


def _strangers_wait_for_one_window(patch: Patch) -> None:
    right = route.settled

    def settled(*told: Any) -> Any:
        return right(*told)._replace(waits=(), until=None)

    patch.setattr(route_rows, "settled", settled)


def _no_directory(patch: Patch) -> None:
    patch.setattr(shards_record, "_directory", lambda output, shards, key: FirstPartitions())


def _everything_goes_out(patch: Patch) -> None:
    patch.setattr(
        lasting,
        "going_out",
        lambda due, entered, before: GoesOut(
            np.ones(entered.rows.num_rows, dtype=np.bool_), going_out(due, entered, before).after
        ),
    )


def _a_restart_forgets_what_is_out(patch: Patch) -> None:
    right = ItemsOut.content
    patch.setattr(ItemsOut, "content", lambda self: right(ItemsOut(self.reader)))


def _names_without_place(patch: Patch) -> None:
    def release_id(secret: Any, policy_name: str, slot: Any) -> str:
        return _mac(secret.lasting.derive("id"), encode(policy_name, *slot.in_its_run)).hex()

    for module in (due, steps):
        patch.setattr(module, "release_id", release_id)


def _nights_forget_rows(patch: Patch) -> None:
    made = steps.CarriedState
    patch.setattr(steps, "CarriedState", lambda *values: replace(made(*values), batches=()))


def _nights_forget_the_pool(patch: Patch) -> None:
    made = steps.CarriedState

    def carried(*values: Any) -> Any:
        state = made(*values)
        roster = state.warm.roster
        if roster is None:
            return state
        pool = roster.pool
        none = Pool(pool.people[:0], pool.values.slice(0, 0), pool.ends[:0], pool.changed[:0], pool.tried[:0])
        return replace(state, warm=replace(state.warm, roster=replace(roster, pool=none)))

    patch.setattr(steps, "CarriedState", carried)


def _moved_clocks_go_on(patch: Patch) -> None:
    made = steps.PartitionStep._end

    def end(self: Any, key: bytes, clock: Any, held: Any) -> Any:
        for each in made(self, key, clock, held):
            if isinstance(each, steps.CarriedState) and each.clock is None:
                yield replace(each, clock=replace(clock, kept=False))
            else:
                yield each

    patch.setattr(steps.PartitionStep, "_end", end)


def _events_are_forgotten(patch: Patch) -> None:
    made = steps.CarriedState
    patch.setattr(
        steps,
        "CarriedState",
        lambda *values: replace(made(*values), warm=replace(made(*values).warm, events=())),
    )


def _rosters_by_key_alone(patch: Patch) -> None:
    def get(self: Any, key: bytes, head: Any) -> Any:
        return next((roster for (own, _), roster in self._kept.items() if own == key), None)

    patch.setattr(_Rosters, "get", get)


def _claims_are_forgotten(patch: Patch) -> None:
    made = steps.PartitionStep._built_on

    def built_on(self: Any, result: Any, claims: Any, slot: Any) -> Any:
        return made(self, result, (), slot)

    patch.setattr(steps.PartitionStep, "_built_on", built_on)


def _a_release_before_its_slot(patch: Patch) -> None:
    made = sinks._WriteRelease.process

    def process(self: Any, release: Any) -> Any:
        rows = sinks.from_ipc(release.ipc)
        data = sinks._release_file(rows, release.release_id, self._schema, self._format)
        sinks.create_if_absent(self._place(release.release_id), data, same=sinks.same_releases)
        yield from made(self, release)

    patch.setattr(sinks._WriteRelease, "process", process)


def _waiting_rows_stay_behind(patch: Patch) -> None:
    made = WarmState.rest_to_bytes

    def rest(self: Any, where: Any) -> bytes:
        return made(replace(self, waiting=None, waiting_reason=()), where)

    patch.setattr(WarmState, "rest_to_bytes", rest)


def _partitions_sleep_on(patch: Patch) -> None:
    made = _Course._begun
    patch.setattr(_Course, "_begun", lambda *asked: replace(made(*asked), woken=()))


def _rejected_share_a_file(patch: Patch) -> None:
    # Also the number that a batch has among those that are refused: where each has a name, few names meet.
    numbered = steps.PartitionStep.refuse
    patch.setattr(
        steps.PartitionStep,
        "refuse",
        lambda self, key, clock, *rows: numbered(self, key, replace(clock, refused=0), *rows),
    )
    made = sinks.create_if_absent

    def first_wins(path: str, data: bytes, **how: Any) -> Any:
        outcome = made(path, data, **how)
        return sinks.Outcome.SAME if how.get("same") is sinks.same_records else outcome

    patch.setattr(sinks, "create_if_absent", first_wins)


def _uploads_replace(patch: Patch) -> None:
    def upload(path: str, data: bytes) -> bool:
        store = FileSystems.get_filesystem(path)
        store.put(Write(path, data, unless=False))
        return True

    patch.setattr(create_if_absent, "_upload_unless_exists", upload)


def _a_resumed_run_compares_nothing(patch: Patch) -> None:
    patch.setattr(EarlierReleases, "compare", lambda self, place, made: None)
    patch.setattr(EarlierReleases, "compare_end", lambda self, place, parts: None)


FAULTS = (
    Fault("the order of arrival decides", "decision 059", _arrival_decides, seed=2),
    Fault(
        "releases are told apart by their names alone",
        "decision 038",
        _names_alone_judge,
        seed=1152,
        needs=frozenset({"rewind"}),
    ),
    Fault("people are put together a second time", "decision 055", _people_enter_again, seed=0),
    Fault(
        "a stream goes on from a state older than what is out",
        "decision 038",
        _old_states_go_on,
        seed=46,
        needs=frozenset({"older"}),
    ),
    Fault(
        "a parked partition publishes on",
        "decision 038",
        _parked_for_a_moment,
        seed=102,
        needs=frozenset({"rewind"}),
    ),
    Fault("releases are written before their checkpoint", "decision 015", _no_boundary, seed=26),
    Fault(
        "two releases of a chain have one name",
        "decision 067",
        _names_without_place,
        seed=4,
        needs=frozenset({"chain"}),
    ),
    Fault(
        "rows that wait at a night's end are gone",
        "decision 067",
        _nights_forget_rows,
        seed=16,
        needs=frozenset({"chain"}),
    ),
    Fault(
        "who waits for an intake is forgotten at a night's end",
        "decision 067",
        _nights_forget_the_pool,
        seed=4,
        needs=frozenset({"chain"}),
    ),
    Fault(
        "a clock that the end has moved goes on",
        "decision 067",
        _moved_clocks_go_on,
        seed=74,
        needs=frozenset({"chain"}),
    ),
    Fault(
        "events seen before a night are forgotten",
        "decision 067",
        _events_are_forgotten,
        seed=48,
        needs=frozenset({"chain"}),
    ),
    Fault("a worker keeps a roster that was taken back", "decision 055", _rosters_by_key_alone, seed=3),
    Fault("a release does not say what it was built on", "decision 038", _claims_are_forgotten, seed=0),
    Fault(
        "a release is out before its slot is taken",
        "decision 038",
        _a_release_before_its_slot,
        seed=102,
        needs=frozenset({"rewind"}),
    ),
    Fault(
        "a partition without rows in a night is not woken",
        "decision 067",
        _partitions_sleep_on,
        seed=4,
        needs=frozenset({"chain"}),
    ),
    Fault("rejected rows of one name share a file", "decision 045", _rejected_share_a_file, seed=1),
    Fault(
        "a resumed run compares nothing",
        "decision 038",
        _a_resumed_run_compares_nothing,
        seed=7,
        needs=frozenset({"edit"}),
    ),
    Fault(
        "an upload replaces what is there",
        "decision 066",
        _uploads_replace,
        seed=648,
        needs=frozenset({"beside"}),
    ),
    Fault("rows that wait are not in the state", "decision 078", _waiting_rows_stay_behind, seed=0),
    Fault(
        "who has a shard is asked again",
        "decision 105",
        _shards_are_asked_again,
        seed=2137,
        needs=frozenset({"shards"}),
    ),
    Fault(
        "strangers wait for one window only",
        "decision 105",
        _strangers_wait_for_one_window,
        seed=2005,
        needs=frozenset({"shards"}),
    ),
    Fault(
        "a run does not know who is in a shard",
        "decision 105",
        _no_directory,
        seed=2120,
        needs=frozenset({"shards"}),
    ),
    Fault(
        "rows go out whoever knows more",
        "decision 115",
        _everything_goes_out,
        seed=4000,
        needs=frozenset({"against"}),
    ),
    Fault(
        "a restart forgets what is out",
        "decision 115",
        _a_restart_forgets_what_is_out,
        seed=4000,
        needs=frozenset({"against"}),
    ),
)
