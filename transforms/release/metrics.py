"""The metrics record of one release, or of a window that released nothing: losses, effort, and the ledger."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import metrics_defaults
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.solvers.loss.class_measures import (
    average_class_size,
    class_sizes,
    discernibility,
    level_of_generalization,
)
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.structure import Structure
from kanonflow.transforms.columns.encode import describe, extents
from kanonflow.transforms.publishing.boxes import declared_ncp, field_ncp, gcp
from kanonflow.transforms.release.cohorts import guaranteed_candidates, peer_retention
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import SUPPRESSED
from kanonflow.transforms.release.public_metrics import shared_rows
from kanonflow.transforms.release.stages import Gathered, Publication
from kanonflow.transforms.release.warm_state import Cohorts, WarmState

NAMESPACE = "kanonflow"
"""Of counters and gauges."""


def release_metrics(
    bound: BoundPolicy,
    publication: Publication,
    before: Cohorts,
    after: Cohorts,
    rejected: Mapping[str, int],
) -> dict[str, Any]:
    """What the record of a release that went out tells; these values go over those of ``window_metrics``.

    before: who was together in earlier releases. after: with this one. rejected: rows of the window by reason.
    """
    answer, published = publication.answer, publication.published
    solution, encoded = answer.solution, answer.encoded
    release, structure = publication.release, solution.structure
    widths = extents(encoded.domains, bound)
    ncp = field_ncp(published.boxes, widths)
    told = declared_ncp(published.boxes)
    graph = structure.shape == "row_graph"
    people = answer.people.of_row
    if people is not None and answer.kept is not None:
        people = people[answer.kept]
    common = None
    if graph and people is not None:
        common = common_candidates(solution.graph, published.factor, people)
    if graph:
        of_rows = {str(bound.policy.k): published.rows.num_rows}
        of_people = of_rows if common is None else histogram(common)
    else:
        of_rows, of_people = class_candidates(solution.partition.labels, people)
    guaranteed = guaranteed_candidates(after)
    sizes = None if graph else class_sizes(solution.partition)
    return {
        "released": True,
        "window_start": release.window_start,
        "digest": None if release.slot is None else release.slot.digest,
        "start": solution.start,
        "warm": solution.start == "warm",
        "rows_released": published.rows.num_rows,
        "individuals": published.rows.num_rows if people is None else int((np.bincount(people) > 0).sum()),
        "classes": None if sizes is None else solution.partition.classes,
        "c_avg": None if sizes is None else average_class_size(sizes, bound.policy.k),
        "dm": None if sizes is None else discernibility(sizes, sum(rejected.values())),
        **published_levels(bound, structure, published.rows.num_rows, rejected.get(SUPPRESSED, 0)),
        "gcp": gcp(ncp, bound),
        "gcp_hull": gcp(field_ncp(published.hulls, widths), bound),
        "ncp": ncp,
        "release_gcp": gcp(told, bound) if told.keys() == ncp.keys() else None,
        "release_ncp": told,
        # Of groups of cohorts, what was searched are boxes and no rows.
        "sil": sil(encoded.table, structure) if answer.frozen is None else None,
        "loss_start": solution.start_loss,
        "loss_end": solution.loss,
        "lower_bound": solution.lower_bound,
        "warm_loss": solution.warm_loss,
        "cold_loss": solution.cold_loss,
        "warm_kept": solution.warm_kept,
        **lattice_work(solution),
        "evaluations": solution.evaluations,
        "deadline_struck": solution.deadline_struck,
        "solve_ms": answer.solve_ms,
        "publish_ms": publication.publish_ms,
        "linked_candidates": None if common is None else linked_candidates(common),
        "candidates_min": min(map(int, of_rows)),
        "candidates_of_rows": of_rows,
        "candidates_of_people": of_people,
        "peer_retention": peer_retention(before, after),
        "guaranteed_candidates": None if guaranteed is None else guaranteed[0],
        "tied_edges": solution.tied_edges,
        "diversity": published.diversity,
        "domains": describe(encoded.domains, bound),
    }


def published_levels(
    bound: BoundPolicy, structure: Structure, released: int, suppressed: int
) -> dict[str, dict[str, int] | float]:
    """At which level each field is published, LOG and LOS (S1, 2.4 and 4.2); empty where boxes are hulls.

    released, suppressed: rows of the window.
    """
    if structure.levels is None:
        return {}
    heights = [0 if column.tree is None else column.tree.height for column in bound.quasis]
    return {
        "levels": dict(
            zip((column.name for column in bound.quasis), map(int, structure.levels), strict=True)
        ),
        "log": float(level_of_generalization(np.array([structure.levels], dtype=np.int32), heights)[0]),
        "los": suppressed / (suppressed + released),
    }


def lattice_work(solution: Solution) -> dict[str, float | int | None]:
    """What a lattice solver had to do, by the names of metrics.avsc; empty for other solvers.

    The size is a float: a lattice of many fields has more nodes than a long can count.
    """
    work = solution.lattice
    if work is None:
        return {}
    return {
        "lattice_nodes": float(work.nodes),
        "nodes_seeded": work.seeded,
        "last_cold_evaluations": work.last_cold,
    }


def histogram(values: NDArray[np.int64], weights: NDArray[np.int64] | None = None) -> dict[str, int]:
    """How often each value occurs, or the sum of its weights, least value first; names of an Avro map are text.

    values: 0 or more, of people or rows. O(n + the largest of them).
    """
    sums = np.zeros(int(values.max(initial=-1)) + 1, dtype=np.int64)
    there = sums.astype(np.bool_)
    there[values] = True
    np.add.at(sums, values, 1 if weights is None else weights)
    kinds = np.flatnonzero(there)
    return {str(kind): count for kind, count in zip(kinds.tolist(), sums[kinds].tolist(), strict=True)}


def class_candidates(
    labels: NDArray[np.int32], people: NDArray[np.int64] | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Rows, and people, by how many people their class has.

    labels: int32 (n,), the class of each row, below 0 where it waits. people: of the rows that do not; None: each row
    is its own individual. O(n log n).
    """
    classes = labels[labels >= 0].astype(np.int64)
    who = np.arange(classes.size) if people is None else people
    pairs = np.unique(classes * (int(who.max()) + 1) + who)
    size = np.bincount(pairs // (int(who.max()) + 1))
    sizes = size[size > 0]
    return histogram(size[classes]), histogram(sizes, sizes)


def common_candidates(
    graph: GeneralizationGraph, factor: NDArray[np.int32], individuals: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What is left of k when the payload links the rows of one individual (row mode).

    For each individual: how many individuals are members of the slots of all of its rows; int64 (people,).
    """
    people = int(individuals.max()) + 1
    owner = individuals[factor].astype(np.int64)
    pairs, slots = np.unique(owner[:, None] * people + individuals[graph.members], return_counts=True)
    first = pairs // people
    return np.bincount(first[slots == np.bincount(owner, minlength=people)[first]], minlength=people)


def linked_candidates(common: NDArray[np.int64]) -> dict[str, float]:
    """Of ``common_candidates`` the minimum, the first percentile, the mean, and the share of individuals of whom only
    they themselves are left."""
    return {
        "minimum": int(common.min()),
        "percentile_1": float(np.percentile(common, 1)),
        "mean": float(common.mean()),
        "share_one": float((common == 1).mean()),
    }


@cache
def _installed() -> dict[str, str]:
    """What made the release. Once a process: to look a version up is to search the disk, milliseconds each time."""
    return {name: importlib.metadata.version(name) for name in ("kanonflow", "apache-beam", "numpy", "numba")}


def _versions(version: int) -> dict[str, str]:
    return {**_installed(), "secret": str(version)}


def _waiting_people(after: WarmState, policy: Policy) -> list[Any] | None:
    """Whose each waiting row is; None where each row is its own individual."""
    rows = after.waiting
    return next((rows.column(name).to_pylist() for name in policy.owner if rows is not None), None)


def _rejected_people(rejected: list[dict[str, Any]], policy: Policy) -> list[Any] | None:
    """Whose each rejected row was, nobody's rows together; None where each row is its own individual."""
    return next(([record["row"].get(name) for record in rejected] for name in policy.owner), None)


@cache
def _defaults(of_a_release: bool) -> tuple[Mapping[str, Any], Mapping[str, type]]:
    """Read once a process; and the types of those that are an empty map or list, which is made anew each time."""
    defaults = metrics_defaults(of_a_release=of_a_release)
    return defaults, {name: type(value) for name, value in defaults.items() if isinstance(value, dict | list)}


def _without_release(*, of_a_release: bool = False) -> dict[str, Any]:
    defaults, empty = _defaults(of_a_release)
    return {**defaults, **{name: kind() for name, kind in empty.items()}}


def withheld_metrics(record: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The record of a release that was made and not published: its rows are rejected rows, and the ledger adds up.

    What was spent on it stays: start, losses of the search, effort and times.
    """
    rejected = Counter(record["rows_rejected"]) + Counter({reason: record["rows_released"]})
    return {**record, **_without_release(of_a_release=True), "rows_rejected": dict(rejected)}


def window_metrics(
    due: Due, gathered: Gathered, after: WarmState, rejected: list[dict[str, Any]]
) -> dict[str, Any]:
    """The record (metrics.avsc) of a window as if it released nothing; where it did, ``release_metrics`` go over it.

    after: the state that the window leaves. rejected: records of rejected.avsc.
    Its ledger adds up: rows new + waited = released + waiting + rejected.
    """
    policy = due.policy
    end = due.slot.window_end
    start = None if end is None or policy.window_ms is None else end - policy.window_ms
    reasons = [record["reason"] for record in rejected]
    return {
        **_without_release(),
        "release_id": due.release_id,
        "policy": policy.name,
        "partition": due.slot.partition.hex(),
        "window_start": start,
        "window_end": end,
        "release_no": due.slot.release_no,
        "kind": due.kind,
        "chain_place": due.slot.place,
        "k": policy.k,
        "protect": str(policy.protect),
        "cohort": None if policy.cohort is None else str(policy.cohort),
        "solver": policy.solver.method,
        "rows_new": gathered.new,
        "rows_waited": gathered.waited,
        "rows_waiting": after.waiting_rows,
        "rows_rejected": dict(Counter(reasons)),
        "waiting_reasons": dict(Counter(after.waiting_reason)),
        "waiting_shared": shared_rows(after.waiting_reason, _waiting_people(after, policy), policy.k),
        "rejected_shared": shared_rows(reasons, _rejected_people(rejected, policy), policy.k),
        "versions": _versions(due.secret.version),
    }
