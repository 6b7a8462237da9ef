"""``kanonflow compare``: what k, a method, or a rule for a sensitive field would cost on these files.

Every setting is played by the product itself (``dry_run``), over the whole feed or a stretch of it, the same one for
all. What would be released is thrown away. The secret is a fixed one: a comparison repeats and says nothing of a run.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kanonflow.pipelines.dry_run.class_figures import ClassFigures, class_figures, misfits_of_class_field
from kanonflow.pipelines.dry_run.feed import feed_of, read_feed
from kanonflow.pipelines.dry_run.side_by_side import Played, side_by_side
from kanonflow.pipelines.dry_run.stretch import Budget
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.fit.people_file import read_people
from kanonflow.pipelines.pages.charts import alone, line_chart
from kanonflow.pipelines.pages.pages import Figure, Page, Section, render_page
from kanonflow.pipelines.runs.kernel_cache import compile_sets
from kanonflow.pipelines.terminal.table import Cell, Table, count, decimal, quantity, rows_of, share
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy import LATTICE_METHODS, Policy
from kanonflow.schemas.policy_fields import (
    Closeness,
    ClosenessDistance,
    Diversity,
    DiversityKind,
    Field,
    Per,
)
from kanonflow.schemas.policy_rules import LEAST_PART
from kanonflow.transforms.protections.needed_kernels import needed_kernels
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.solver_check import check_solver

_SEED = 1
_QUERIES = 200


@dataclass(frozen=True)
class Settings:
    """What to compare: every combination is one run. None and (): what the policy says.

    field: the sensitive field that limits are for. limits: l of kind, or t of distance; l = 1 or t = 1: no rule.
    rows: of a stretch of the feed, about so many; of a window with more, so many of its rows.
    evaluations: a row. suppressions: of solvers that publish levels; others are played once. class_field: a field of
    payload with few values, of which CM and accuracy are told.
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
    suppressions: Sequence[float] = ()
    class_field: str | None = None


class Setting(NamedTuple):
    """One of them. suppression: None: the policy's, of a solver that publishes levels; 0 of another."""

    method: str
    k: int
    limit: float | None
    suppression: float | None

    def __str__(self) -> str:
        name = f"{self.method}, k = {self.k}" + ("" if self.limit is None else f", limit {self.limit:g}")
        return name + ("" if self.suppression is None else f", suppression {self.suppression:g}")


@dataclass(frozen=True)
class Outcome:
    """One setting. limit: its l or t, None when none is varied.

    loss: (sum over releases of GCP of the hulls x rows + rejected rows) / rows. bound: mean of the releases' lower
    bounds by rows, None when nothing was released. released: share of the rows that fit. shown: the least l or the
    largest t of any class. seconds: of solving. count_error, mean_error: medians of the errors of random queries
    (``analysis/query_error.py``); None where nothing can be asked. asked_loss: mean of the loss that the policy asks
    for; None where it is the first one. suppression: as of ``Setting``. figures: measures of the literature.
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
    asked_loss: float | None = None
    suppression: float | None = None
    figures: ClassFigures | None = None

    @property
    def gap(self) -> float | None:
        """Share by which the loss is above the bound, where the bound is proven; LB1 is too low to say much."""
        if self.method != "certify" or not self.bound:
            return None
        return self.loss / self.bound - 1.0


@dataclass(frozen=True)
class Comparison:
    """outcomes: of each setting, in their order. refused: those that the policy cannot have, each with the reason."""

    outcomes: tuple[Outcome, ...]
    refused: tuple[str, ...]


def compare(
    policy: Policy,
    patterns: Sequence[str],
    settings: Settings,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
    policy_file: str = "",
) -> Comparison:
    """Play every setting over the files. A setting that the policy cannot have is refused, and the others are played.

    policy_file: where the policy is, beside which is its file of people.

    Raises InputError, and PolicyError where no setting is left. Time is measured when everything is compiled.
    """
    if settings.class_field is not None and (
        misfits := [*misfits_of_class_field(policy, settings.class_field)]
    ):
        raise PolicyError(misfits, "compare")
    policies: dict[Setting, Policy] = {}
    mistakes: dict[Setting, list[str]] = {}
    for each in _asked(policy, settings):
        try:
            changed = _with(policy, each, settings)
            check_solver(changed)
        except PolicyError as error:
            mistakes[each] = list(error.mistakes)
        else:
            policies[each] = changed
    if not policies:
        raise PolicyError(
            list(dict.fromkeys(mistake for some in mistakes.values() for mistake in some)), policy.name
        )
    files, schema, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    people = read_people(bound, policy_file)
    rows = read_feed(files, bound, csv).rows
    if rows.num_rows == 0:
        raise InputError("no row of the input fits the policy; policy check says why")
    bounds = {
        key: bind(changed, schema.columns, text=schema.text, csv=schema.csv, source=", ".join(patterns))
        for key, changed in policies.items()
    }
    compile_sets(
        tuple(dict.fromkeys(name for each in bounds.values() for name in needed_kernels(each).sets)),
        sys.stderr,
    )
    budget = Budget(rows.num_rows, rows.num_rows, rows.num_rows)
    if settings.rows is not None:
        budget = Budget(settings.rows, settings.rows, settings.rows)
    feed = feed_of(rows, bound, None if people is None else people.rows)
    played = side_by_side(
        feed,
        list(bounds.values()),
        lambda _: budget,
        queries=_QUERIES,
        workers=1,
        threads=settings.threads or policy.solver.threads or os.cpu_count() or 1,
        matching_records=settings.class_field is not None,
    )
    outcomes = []
    for setting, one in zip(bounds, played, strict=True):
        counted = feed.rows.filter(pa.array(one.stretch.counted))
        figures = class_figures(one.run, counted, settings.class_field)
        outcomes.append(_outcome(setting, one, settings, figures))
    refused = tuple(f"{setting}: {'; '.join(why)}" for setting, why in mistakes.items())
    return Comparison(tuple(outcomes), refused)


def _asked(policy: Policy, settings: Settings) -> list[Setting]:
    """Every combination; of a solver without levels one for all shares of suppression."""
    methods = settings.methods or [policy.solver.method]
    if settings.suppressions and not set(methods) & set(LATTICE_METHODS):
        raise PolicyError(
            [
                f"--suppression: {', '.join(methods)} publishes no levels and suppresses nothing; name one of"
                f" {', '.join(LATTICE_METHODS)} with --methods"
            ],
            "compare",
        )
    shares: Sequence[float | None] = settings.suppressions or [None]
    return [
        Setting(method, k, limit, suppression)
        for method, k, limit in product(methods, settings.ks or [policy.k], _limits(settings))
        for suppression in (shares if method in LATTICE_METHODS else [None])
    ]


def _limits(settings: Settings) -> Sequence[float | None]:
    if settings.ls and settings.ts:
        raise PolicyError(["--l and --t: give one of them; a front has one axis"], "compare")
    if (settings.ls or settings.ts) and settings.field is None:
        raise PolicyError(["--field: which sensitive field are --l or --t for?"], "compare")
    return settings.ls or settings.ts or [None]


def _with(policy: Policy, setting: Setting, settings: Settings) -> Policy:
    method, k, limit, suppression = setting
    if suppression is None:
        # Only lattice solvers have it; the policy may declare it for one of several that are compared.
        suppression = policy.solver.suppression if method in LATTICE_METHODS else 0.0
    elif not 0 <= suppression < 1:
        raise PolicyError([f"--suppression: {suppression:g} must be from 0, below 1"], "compare")
    solver = replace(
        policy.solver,
        method=method,
        suppression=suppression,
        # Likewise those of one method.
        parameters=policy.solver.parameters if method == policy.solver.method else (),
        seed=_SEED if policy.solver.seed is None else policy.solver.seed,
        evaluations_per_row=settings.evaluations or policy.solver.evaluations_per_row,
    )
    fields = policy.fields
    if limit is not None:
        if settings.field not in [field.name for field in fields]:
            raise PolicyError([f"--field: {settings.field} is not a field of the policy"], "compare")
        fields = tuple(
            _with_limit(field, limit, settings, policy.promise.per) if field.name == settings.field else field
            for field in fields
        )
    most = policy.max_window_rows
    if settings.rows is not None:
        # No window has more rows than that, so solvers of small windows can be compared on a part of a large one.
        most = min(most, max(settings.rows, LEAST_PART * k))
    # Sizes of lasting cohorts go with k: another k has its own defaults.
    own = k == policy.k
    sizes: dict[str, Any] = {} if own else dict.fromkeys(("cohort_size", "intake", "intake_share"))
    return replace(policy, k=k, solver=solver, fields=fields, max_window_rows=most, **sizes)


def _with_limit(field: Field, limit: float, settings: Settings, per: Per | None) -> Field:
    if settings.ts:
        declared = field.closeness.distance if field.closeness else ClosenessDistance.EQUAL
        distance = ClosenessDistance(settings.distance) if settings.distance else declared
        return replace(field, closeness=None if limit == 1 else Closeness(distance, float(limit), per))
    kind = field.diversity.kind if field.diversity else DiversityKind.FREQUENCY
    kind = DiversityKind(settings.kind) if settings.kind else kind
    return replace(field, diversity=None if limit == 1 else Diversity(kind, float(limit), per))


def _outcome(setting: Setting, played: Played, settings: Settings, figures: ClassFigures) -> Outcome:
    run, measures, policy = played.run, played.measures, played.run.bound.policy
    limits = [
        value
        for each in run.releases
        for name, value in each.metrics["diversity"].items()
        if settings.field is not None and name.startswith(f"{settings.field}.")
    ]
    released = 1.0 - measures.rejected if run.releases else 0.0
    return Outcome(
        method=policy.solver.method,
        k=policy.k,
        limit=setting.limit,
        shape=protection_of(policy).answer(policy.promise),
        loss=(run.mean("gcp_hull") or 0.0) * released + 1.0 - released,
        asked_loss=run.mean("loss_end") if policy.solver.loss != "ncp" else None,
        bound=run.mean("lower_bound"),
        released=released,
        shown=(max if settings.ts else min)(limits) if limits else None,
        seconds=sum(each.metrics["solve_ms"] for each in run.releases) / 1000.0,
        count_error=measures.count_error,
        mean_error=measures.mean_error,
        suppression=policy.solver.suppression if policy.solver.method in LATTICE_METHODS else None,
        figures=figures,
    )


def _measures(outcomes: Sequence[Outcome], settings: Settings) -> Table:
    """Measures of the literature, of each setting; columns that none of them has are left out."""
    axis = "t" if settings.ts else "l"
    columns: dict[str, list[Cell]] = {"method": [each.method for each in outcomes]}
    columns["k"] = [quantity(each.k) for each in outcomes]
    columns[axis] = [None if each.limit in (None, 1) else quantity(each.limit) for each in outcomes]
    columns["suppression"] = [share(each.suppression, 2) for each in outcomes]
    figures = [each.figures for each in outcomes]
    by_class = [None if each is None else each.by_class for each in figures]
    for name, attribute, shown_as in (
        ("GenTotal-IL", "total_loss", partial(decimal, digits=2)),
        ("C_AVG", "c_avg", partial(decimal, digits=3)),
        ("DM", "dm", count),
        ("LOG", "log", decimal),
        ("LOS", "los", decimal),
    ):
        columns[name] = [shown_as(getattr(each, attribute, None)) for each in figures]
    columns["CM"] = [decimal(getattr(each, "metric", None)) for each in by_class]
    columns["accuracy"] = [share(getattr(each, "accuracy", None)) for each in by_class]
    columns = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
    caption = (
        "GenTotal-IL: percent, rows that are rejected lose all. C_AVG: rows over classes and k. DM: sum over rows of"
        " the rows of their class."
    )
    if first := next((each for each in by_class if each is not None), None):
        caption += (
            f" CM: share of rows without the majority's {settings.class_field} of their class. accuracy: of a model"
            f" that learns it from the release; from the input {first.exact:.1%}, who says the most frequent value"
            f" {first.most:.1%}."
        )
    return Table(
        "measures", caption, tuple(columns), rows_of(zip(*columns.values(), strict=True)), folded=False
    )


def _table(outcomes: Sequence[Outcome], settings: Settings, policy: Policy) -> Table:
    axis = "t" if settings.ts else "l"
    head = [
        "method",
        "k",
        axis,
        "from",
        "loss",
        "bound",
        "gap",
        "released",
        f"{axis} shown",
        "count off",
        "mean off",
    ]
    others = policy.solver.loss != "ncp"
    rows = [
        [
            each.method,
            quantity(each.k),
            None if each.limit is None or each.limit == 1 else quantity(each.limit),
            each.shape,
            decimal(each.loss),
            decimal(each.bound),
            share(each.gap),
            share(each.released) if each.released else "none",
            quantity(each.shown),
            share(each.count_error),
            share(each.mean_error),
            *([decimal(each.asked_loss)] if others else []),
            decimal(each.seconds, 1),
        ]
        for each in outcomes
    ]
    head += [*([policy.solver.loss] if others else []), "seconds"]
    caption = (
        "loss: GCP of the hulls, a row that is not released counts 1. bound: no graph or classes have less. gap: to the"
        " bound of certify. count off, mean off: median error of random queries against the input."
    )
    return Table("outcomes", caption, tuple(head), rows_of(rows), folded=False)


def render(found: Comparison, settings: Settings, policy: Policy) -> str:
    """The outcomes as two tables, and what was refused."""
    lines = [*_table(found.outcomes, settings, policy).lines(), *_measures(found.outcomes, settings).lines()]
    return "\n".join([*lines, *(f"- not played, {each}" for each in found.refused)])


def to_json(found: Comparison) -> str:
    """The outcomes as a JSON object: of each setting, and what was refused."""
    outcomes = []
    for outcome in found.outcomes:
        figures = {} if outcome.figures is None else outcome.figures._asdict()
        by_class = figures.pop("by_class", None)
        plain = asdict(replace(outcome, figures=None)) | {"gap": outcome.gap}
        plain["figures"] = figures | ({} if by_class is None else {"by_class": by_class._asdict()})
        outcomes.append(plain)
    return json.dumps({"outcomes": outcomes, "refused": list(found.refused)}, indent=1)


def is_page(target: Path) -> bool:
    """By its ending."""
    return target.suffix.lower() in (".html", ".htm")


def write_front(found: Comparison, settings: Settings, policy: Policy, target: Path) -> None:
    """Draw loss against l or t, else suppression, else k, which is varied: SVG, or a page by the file's ending.

    Raises InputError, MissingExtraError.
    """
    axis = "t" if settings.ts else "l" if settings.ls else "suppression" if settings.suppressions else "k"
    points: dict[str, dict[float, float]] = {}
    for outcome in found.outcomes:
        name = outcome.method if axis == "k" else f"{outcome.method}, k = {outcome.k}"
        if axis in ("l", "t") and settings.suppressions and outcome.suppression is not None:
            name += f", suppression {outcome.suppression:g}"
        place = outcome.suppression or 0.0 if axis == "suppression" else outcome.limit
        points.setdefault(name, {})[outcome.k if place is None else place] = outcome.loss
    x = sorted({each for line in points.values() for each in line})
    title = f"Loss against {axis}" + (f" of {settings.field}" if axis in ("l", "t") else "")
    chart = line_chart(title, x, {name: [line.get(each) for each in x] for name, line in points.items()})
    text = alone(chart)
    if is_page(target):
        figure = Figure(title, chart, _table(found.outcomes, settings, policy))
        text = render_page(
            Page(
                title,
                "What settings would cost",
                None,
                (Section("front", title, (figure, _measures(found.outcomes, settings))),),
            )
        )
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--plot {target}: cannot be written ({error.strerror})") from error
