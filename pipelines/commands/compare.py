"""``kanonflow compare``: what k, a method, or a rule for a sensitive field would cost on these files.

Every setting is the whole product without the writing: windows, waiting rows, warm starts, publishing, the gate. What
would be released is thrown away. The secret is a fixed one, so a comparison repeats and says nothing about a run.
With ``rows`` the settings are tried on whole windows sampled over the files (``trials``), the same ones for all.
"""

import json
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.pipelines.analysis.query_error import query_errors
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.commands.front_chart import as_page, front_chart
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.trials.measured_release import measured
from kanonflow.pipelines.trials.trials import NOT_SECRET, FeedWindows, feed_windows, trial_feed, try_policy
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy, bind
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy import LATTICE_METHODS, Policy
from kanonflow.schemas.policy_fields import (
    Closeness,
    ClosenessDistance,
    Diversity,
    DiversityKind,
    Field,
)
from kanonflow.schemas.policy_rules import LEAST_PART
from kanonflow.schemas.text_form import with_delimiter
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.solver_check import check_solver

_SEED = 1


@dataclass(frozen=True)
class Settings:
    """What to compare: every combination is one run. None and (): what the policy says.

    field: the sensitive field that limits are for. limits: l of kind, or t of distance; l = 1 or t = 1: no rule.
    rows: of whole windows sampled over the files, about so many at most; of a window with more, so many of its rows.
    evaluations: a row.
    """

    methods: Sequence[str] = ()
    ks: Sequence[int] = ()
    field: str | None = None
    kind: str | None = None
    ls: Sequence[float] = ()
    distance: str | None = None
    ts: Sequence[float] = ()
    rows: int | None = None
    evaluations: float | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Outcome:
    """One setting. limit: its l or t, None when none is varied.

    loss: (sum over releases of GCP of the hulls x rows + rejected rows) / rows. bound: mean of the releases' lower
    bounds by rows, None when nothing was released. released: share of the rows. shown: the least l or the largest t
    of any class. seconds: of solving. count_error, mean_error: medians of the errors of random queries
    (``analysis/query_error.py``); None where nothing can be asked.
    """

    method: str
    k: int
    limit: float | None
    shape: str
    loss: float
    bound: float | None
    released: float
    shown: float | None
    seconds: float
    count_error: float | None = None
    mean_error: float | None = None

    @property
    def gap(self) -> float | None:
        """Share by which the loss is above the bound, where the bound is proven; LB1 is too low to say much."""
        if self.method != "certify" or not self.bound:
            return None
        return self.loss / self.bound - 1.0


def compare(
    policy: Policy,
    patterns: Sequence[str],
    settings: Settings,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
) -> Iterator[Outcome]:
    """Run every setting over the files, one after the other; yields each outcome when it is there.

    Raises InputError, and PolicyError for a setting that the policy cannot have (all of them are checked first).
    """
    policies = [
        (limit, _with(policy, method, k, limit, settings))
        for method, k, limit in product(
            settings.methods or [policy.solver.method], settings.ks or [policy.k], _limits(settings)
        )
    ]
    for _, changed in policies:
        check_solver(changed)
    files = find_inputs(patterns, input_format)
    form = with_delimiter(policy.csv, delimiter)
    schema = input_schema(files, form)
    bound = bind(policy, schema.columns, text=schema.text, csv=schema.csv, source=", ".join(patterns))
    batches = [
        from_ipc(batch.ipc) for file in files for batch in read_batches(file, list(bound.input_columns), form)
    ]
    table = pa.concat_tables(batches)
    for field in policy.fields:
        if field.name not in table.column_names:
            # Identifiers are never read; here they stand for themselves, as the policy expects them.
            table = table.append_column(field.name, pa.nulls(table.num_rows, pa.string()))
    if table.num_rows == 0:
        raise InputError("the input has no rows to compare on")
    # As typed by the policy; what settings change plays no part in it.
    rows = classify(table.select(list(bound.input_columns)), bound).rows
    if settings.rows is None:
        for limit, changed in policies:
            yield _outcome(changed, limit, table, rows, schema.text, settings)
        return
    if FAULT_COLUMN in rows.column_names:
        rows = rows.filter(pc.is_null(rows.column(FAULT_COLUMN)))
    if rows.num_rows == 0:
        raise InputError("no row of the input fits the policy; policy check says why")
    windows = feed_windows(trial_feed(rows, bound), bound, most=settings.rows, seed=_SEED)
    for limit, changed in policies:
        with_limit = bind(
            changed, schema.columns, text=schema.text, csv=schema.csv, source=", ".join(patterns)
        )
        yield _sampled_outcome(with_limit, limit, windows, settings)


def _limits(settings: Settings) -> Sequence[float | None]:
    if settings.ls and settings.ts:
        raise PolicyError(["--l and --t: give one of them; a front has one axis"], "compare")
    if (settings.ls or settings.ts) and settings.field is None:
        raise PolicyError(["--field: which sensitive field are --l or --t for?"], "compare")
    return settings.ls or settings.ts or [None]


def _with(policy: Policy, method: str, k: int, limit: float | None, settings: Settings) -> Policy:
    solver = replace(
        policy.solver,
        method=method,
        # Only lattice solvers have it; the policy may declare it for one of several that are compared.
        suppression=policy.solver.suppression if method in LATTICE_METHODS else 0.0,
        seed=_SEED if policy.solver.seed is None else policy.solver.seed,
        evaluations_per_row=settings.evaluations or policy.solver.evaluations_per_row,
    )
    fields = policy.fields
    if limit is not None:
        if settings.field not in [field.name for field in fields]:
            raise PolicyError([f"--field: {settings.field} is not a field of the policy"], "compare")
        fields = tuple(
            _with_limit(field, limit, settings) if field.name == settings.field else field for field in fields
        )
    most = policy.max_window_rows
    if settings.rows is not None:
        # No window has more rows than that, so solvers of small windows can be compared on a part of a large one.
        most = min(most, max(settings.rows, LEAST_PART * k))
    # Sizes of lasting cohorts go with k: another k has its own defaults.
    size, intake = (policy.cohort_size, policy.intake) if k == policy.k else (None, None)
    return replace(
        policy, k=k, cohort_size=size, intake=intake, solver=solver, fields=fields, max_window_rows=most
    )


def _with_limit(field: Field, limit: float, settings: Settings) -> Field:
    if settings.ts:
        declared = field.closeness.distance if field.closeness else ClosenessDistance.EQUAL
        distance = ClosenessDistance(settings.distance) if settings.distance else declared
        return replace(field, closeness=None if limit == 1 else Closeness(distance, float(limit)))
    kind = field.diversity.kind if field.diversity else DiversityKind.FREQUENCY
    kind = DiversityKind(settings.kind) if settings.kind else kind
    return replace(field, diversity=None if limit == 1 else Diversity(kind, float(limit)))


def _outcome(
    policy: Policy, limit: float | None, table: pa.Table, rows: pa.Table, text: bool, settings: Settings
) -> Outcome:
    found = anonymize_table(table, policy, NOT_SECRET, text=text, threads=settings.threads)
    releases = [record for record in found.metrics if record["released"]]
    bound = bind(policy, table.schema, text=text, source="the table")
    count, lost = sum(record["rows_released"] for record in releases), len(found.rejected)
    return _told(
        bound,
        limit,
        settings,
        releases,
        [1.0] * len(releases),
        lost / max(count + lost, 1),
        rows,
        found.released,
    )


def _sampled_outcome(
    bound: BoundPolicy, limit: float | None, windows: FeedWindows, settings: Settings
) -> Outcome:
    """On sampled windows; rows that wait there for another one are neither released nor lost."""
    threads = settings.threads or bound.policy.solver.threads or os.cpu_count() or 1
    sample = try_policy(windows, bound, threads=threads)
    rejected = measured(sample, bound, queries=0).rejected
    return _told(
        bound, limit, settings, sample.metrics, sample.weights, rejected, sample.due, sample.released
    )


def _told(
    bound: BoundPolicy,
    limit: float | None,
    settings: Settings,
    releases: Sequence[Mapping[str, Any]],
    weights: Sequence[float],
    rejected: float,
    rows: pa.Table,
    released: pa.Table,
) -> Outcome:
    """releases: their metrics; each counts by its rows times its weight. rejected: share of the rows that is lost.
    rows, released: to be asked for counts and means."""
    policy = bound.policy
    by_rows = [record["rows_released"] * weight for record, weight in zip(releases, weights, strict=True)]

    def mean(name: str) -> float | None:
        values = [record[name] for record in releases]
        return sum(map(operator.mul, values, by_rows)) / sum(by_rows) if releases else None

    limits = [
        value
        for record in releases
        for name, value in record["diversity"].items()
        if settings.field is not None and name.startswith(f"{settings.field}.")
    ]
    names = {column.published_name: column.name for column in bound.columns}
    errors = query_errors(rows, ReleasedTable.of(released, bound), names=names, seed=_SEED)
    shape, share = "rows" if policy.individual is None else "individuals", 1.0 - rejected if releases else 0.0
    return Outcome(
        method=policy.solver.method,
        k=policy.k,
        limit=limit,
        shape=f"classes of {shape}" if policy.closed else "graph",
        loss=(mean("gcp_hull") or 0.0) * share + 1.0 - share,
        bound=mean("lower_bound"),
        released=share,
        shown=(max if settings.ts else min)(limits) if limits else None,
        seconds=sum(record["solve_ms"] for record in releases) / 1000.0,
        count_error=None if errors.count is None else errors.count.median,
        mean_error=None if errors.mean is None else errors.mean.median,
    )


def render(outcomes: Sequence[Outcome], settings: Settings) -> str:
    """The outcomes as a table."""
    axis = "t" if settings.ts else "l"
    first = ("method", "k", axis, "from", "loss", "bound", "gap", "released", f"{axis} shown")
    head = (*first, "count off", "mean off", "seconds")
    cells = [head]
    for outcome in outcomes:
        none = outcome.limit is None or outcome.limit == 1
        cells.append(
            (
                outcome.method,
                str(outcome.k),
                "-" if none else f"{outcome.limit:g}",
                outcome.shape,
                f"{outcome.loss:.4f}",
                "-" if outcome.bound is None else f"{outcome.bound:.4f}",
                "-" if outcome.gap is None else f"{outcome.gap:.1%}",
                f"{outcome.released:.1%}" if outcome.released else "none",
                "-" if outcome.shown is None else f"{outcome.shown:.3g}",
                "-" if outcome.count_error is None else f"{outcome.count_error:.1%}",
                "-" if outcome.mean_error is None else f"{outcome.mean_error:.1%}",
                f"{outcome.seconds:.1f}",
            )
        )
    widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    note = (
        "loss: GCP of the hulls, a row that is not released counts 1. bound: no graph or classes have less."
        " gap: to the bound of certify. count off, mean off: median error of random queries against the input."
    )
    return "\n".join([*(line.rstrip() for line in lines), note])


def to_json(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a JSON list of objects, a setting each."""
    return json.dumps([asdict(outcome) | {"gap": outcome.gap} for outcome in outcomes], indent=1)


def write_front(outcomes: Sequence[Outcome], settings: Settings, target: Path) -> None:
    """Draw loss against l or t (against k when neither is varied): SVG, or HTML by the file's ending."""
    axis = "t" if settings.ts else "l" if settings.ls else "k"
    lines: dict[str, list[tuple[float, float]]] = {}
    for outcome in outcomes:
        name = outcome.method if axis == "k" else f"{outcome.method}, k = {outcome.k}"
        x = outcome.k if outcome.limit is None else outcome.limit
        lines.setdefault(name, []).append((x, outcome.loss))
    title = f"Loss against {axis}" + (f" of {settings.field}" if axis != "k" else "")
    svg = front_chart(title, axis, "loss (rows not released count 1)", lines)
    page = as_page(svg, title) if target.suffix.lower() in (".html", ".htm") else svg
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--plot {target}: cannot be written ({error.strerror})") from error
