"""``kanonflow compare``: what k, a method, or a rule for a sensitive field would cost on these files.

Every setting is played by the product itself (``dry_run``), over the whole feed or a stretch of it, the same one for
all. What would be released is thrown away. The secret is a fixed one: a comparison repeats and says nothing of a run.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from kanonflow.pipelines.dry_run.feed import feed_of, read_feed
from kanonflow.pipelines.dry_run.side_by_side import Played, side_by_side
from kanonflow.pipelines.dry_run.stretch import Budget
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.fit.people_file import read_people
from kanonflow.pipelines.pages.charts import alone, line_chart
from kanonflow.pipelines.pages.pages import Figure, Page, Section, render_page
from kanonflow.pipelines.runs.kernel_cache import compile_sets
from kanonflow.pipelines.terminal.table import Table, decimal, quantity, rows_of, share
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
    bounds by rows, None when nothing was released. released: share of the rows that fit. shown: the least l or the
    largest t of any class. seconds: of solving. count_error, mean_error: medians of the errors of random queries
    (``analysis/query_error.py``); None where nothing can be asked. asked_loss: mean of the loss that the policy asks
    for; None where it is the first one.
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
    asked = list(
        product(settings.methods or [policy.solver.method], settings.ks or [policy.k], _limits(settings))
    )
    policies: dict[tuple[str, int, float | None], Policy] = {}
    mistakes: dict[str, list[str]] = {}
    for method, k, limit in asked:
        try:
            changed = _with(policy, method, k, limit, settings)
            check_solver(changed)
        except PolicyError as error:
            mistakes[_name(method, k, limit)] = list(error.mistakes)
        else:
            policies[method, k, limit] = changed
    if not policies:
        raise PolicyError(
            list(dict.fromkeys(each for some in mistakes.values() for each in some)), policy.name
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
    played = side_by_side(
        feed_of(rows, bound, None if people is None else people.rows),
        list(bounds.values()),
        lambda _: budget,
        queries=_QUERIES,
        workers=1,
        threads=settings.threads or policy.solver.threads or os.cpu_count() or 1,
    )
    outcomes = [_outcome(limit, each, settings) for (_, _, limit), each in zip(bounds, played, strict=True)]
    refused = tuple(f"{name}: {'; '.join(why)}" for name, why in mistakes.items())
    return Comparison(tuple(outcomes), refused)


def _name(method: str, k: int, limit: float | None) -> str:
    return f"{method}, k = {k}" + ("" if limit is None else f", limit {limit:g}")


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


def _outcome(limit: float | None, played: Played, settings: Settings) -> Outcome:
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
        limit=limit,
        shape=protection_of(policy).answer(policy.promise),
        loss=(run.mean("gcp_hull") or 0.0) * released + 1.0 - released,
        asked_loss=run.mean("loss_end") if policy.solver.loss != "ncp" else None,
        bound=run.mean("lower_bound"),
        released=released,
        shown=(max if settings.ts else min)(limits) if limits else None,
        seconds=sum(each.metrics["solve_ms"] for each in run.releases) / 1000.0,
        count_error=measures.count_error,
        mean_error=measures.mean_error,
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
    """The outcomes as a table, and what was refused."""
    lines = _table(found.outcomes, settings, policy).lines()
    return "\n".join([*lines, *(f"- not played, {each}" for each in found.refused)])


def to_json(found: Comparison) -> str:
    """The outcomes as a JSON object: of each setting, and what was refused."""
    outcomes = [asdict(outcome) | {"gap": outcome.gap} for outcome in found.outcomes]
    return json.dumps({"outcomes": outcomes, "refused": list(found.refused)}, indent=1)


def is_page(target: Path) -> bool:
    """By its ending."""
    return target.suffix.lower() in (".html", ".htm")


def write_front(found: Comparison, settings: Settings, policy: Policy, target: Path) -> None:
    """Draw loss against l or t (against k when neither is varied): SVG, or a page by the file's ending.

    Raises InputError, MissingExtraError.
    """
    axis = "t" if settings.ts else "l" if settings.ls else "k"
    points: dict[str, dict[float, float]] = {}
    for outcome in found.outcomes:
        name = outcome.method if axis == "k" else f"{outcome.method}, k = {outcome.k}"
        points.setdefault(name, {})[outcome.k if outcome.limit is None else outcome.limit] = outcome.loss
    x = sorted({each for line in points.values() for each in line})
    title = f"Loss against {axis}" + (f" of {settings.field}" if axis != "k" else "")
    chart = line_chart(title, x, {name: [line.get(each) for each in x] for name, line in points.items()})
    text = alone(chart)
    if is_page(target):
        figure = Figure(title, chart, _table(found.outcomes, settings, policy))
        text = render_page(
            Page(title, "What settings would cost", None, (Section("front", title, (figure,)),))
        )
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--plot {target}: cannot be written ({error.strerror})") from error
