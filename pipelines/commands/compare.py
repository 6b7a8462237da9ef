"""``kanonflow compare``: what k, a method, or a rule for a sensitive field would cost on these files.

Every setting is the whole product without the writing: windows, waiting rows, warm starts, publishing, the gate. What
would be released is thrown away. The secret is a fixed one, so a comparison repeats and says nothing about a run.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import pyarrow as pa

from kanonflow.pipelines.analysis.query_error import query_errors
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.commands.front_chart import as_page, front_chart
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import bind
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
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.solver_check import check_solver

_NOT_SECRET = Secret(b"kanonflow compare publishes nothing at all")
_SEED = 1


@dataclass(frozen=True)
class Settings:
    """What to compare: every combination is one run. None and (): what the policy says.

    field: the sensitive field that limits are for. limits: l of kind, or t of distance; l = 1 or t = 1: no rule.
    rows: only the first ones. evaluations: a row.
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
    if settings.rows is not None:
        table = table.slice(0, settings.rows)
    if table.num_rows == 0:
        raise InputError("the input has no rows to compare on")
    # As typed by the policy; what settings change plays no part in it.
    rows = classify(table.select(list(bound.input_columns)), bound).rows
    for limit, changed in policies:
        yield _outcome(changed, limit, table, rows, schema.text, settings)


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
        # No window has more rows than are read, so solvers of small windows can be compared on the first rows.
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
    found = anonymize_table(table, policy, _NOT_SECRET, text=text, threads=settings.threads)
    releases = [record for record in found.metrics if record["released"]]
    count = sum(record["rows_released"] for record in releases)
    lost = len(found.rejected)
    cost = sum(record["gcp_hull"] * record["rows_released"] for record in releases) + lost
    limits = [
        value
        for record in releases
        for name, value in record["diversity"].items()
        if settings.field is not None and name.startswith(f"{settings.field}.")
    ]
    worst = (max if settings.ts else min)(limits) if limits else None
    bound = bind(policy, table.schema, text=text, source="the table")
    names = {column.published_name: column.name for column in bound.columns}
    errors = query_errors(rows, ReleasedTable.of(found.released, bound), names=names, seed=_SEED)
    shape = "rows" if policy.individual is None else "individuals"
    return Outcome(
        method=policy.solver.method,
        k=policy.k,
        limit=limit,
        shape=f"classes of {shape}" if policy.closed else "graph",
        loss=cost / max(count + lost, 1),
        bound=sum(r["lower_bound"] * r["rows_released"] for r in releases) / count if count else None,
        released=count / max(count + lost, 1),
        shown=worst,
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
