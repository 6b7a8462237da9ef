"""What is a release of ours worth beside what others would publish, at equal k and at equal measured risk?

Data: one row in 25 of sparkov, in windows of a week; one in three of complete_journey and of Adult, here, each row a
person; under their example policies (``--rows``: the first of these). Half of the people, drawn ``--splits`` times, are
published; the other half are in no release: models are asked of them, and they are the controls of the attacks. Card
default, which the issue speaks of, is not among the data. Run it with OPENBLAS_NUM_THREADS=1: threads that wait for
each other took five times the processor time.

    raw             the rows as they are: the floor
    lasting, window, row    our modes
    Mondrian        strict, our code, over the rows of each window, whosever they are
    anonypy         the same by its own code, in the hulls of its classes; it needs ``--python`` (``peers``)
    dropped fields  as few as leave 95% of the rows in combinations of k people or more; other rows are suppressed
    DP, a person    Laplace histograms, eps = 1 shared evenly by all tables: a dashboard a field, and another one by
                    periods. Of who has more rows than the median each weighs less. Counts are scaled to the true sum,
                    which is given away for nothing. DP, a row: of single rows. Nobody models or attacks them here

    misplaced       half of the sum of |counted - true| over the bands (``worth``) or categories of a field, in % of the
                    rows, mean of the fields; against all rows of the people, released or not
    trends          share of a band in the rows of each period (a week; of complete_journey four) to its share of all,
                    less 1, of bands with 5% of the rows or more: the ratio of the RMS of the error to that of the
                    truth, mean of the fields; a flat line has 1
    missed          of the five categories told as largest, how many are none of the five, in %; by rows, of fields with
                    ten categories or more
    AUC gap         to the same model on raw rows: a logistic regression by all fields of 50 categories or fewer, of a
                    salary above 50K, an amount of the largest quarter, the department PRODUCE; mean chances of five
                    tables of ``impute``. By the outcome: with ``outcome``
    inference       as ``assess`` has it: a person's own payload (category, department, salary class) guessed by
                    attributes, beyond what is guessed of controls; rare: of rows without the value of most
    membership      who is in it, hits less false alarms

All is flattened as ``estimate`` does; by middles: each range its middle, each set its first member. In brackets are 95%
intervals: of means over the splits by Student's t, of risks those of a single split (``rates.py``), for splits share
their people. CPU time of answers is in ``using_releases`` and ``plausible``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from scipy.special import stdtrit

from benchmarks.by_data_set import Tables, by_data_set
from benchmarks.data_sets import ADULT, COMPLETE_JOURNEY, SPARKOV, WEEK_MS, DataSet
from benchmarks.publishers import published, source_of
from benchmarks.result_files import Findings
from benchmarks.tagged_releases import naive
from benchmarks.worth_models import Model, Modelled
from benchmarks.worth_risk import Risks, risks_of, together
from benchmarks.worth_uses import Uses, asked_of, counts_of, true_counts, uses_of, with_noise

KS = (3, 5, 10)
EPSILON = 1.0
SENTENCE = (("row", 10), ("Mondrian", 3), ("Mondrian", 5), ("anonypy", 3), ("anonypy", 5))
"""Of Adult: what issue 36 wants compared, ours first; there tables are imputed by the outcome, too."""
OURS, RIVALS = ("lasting", "window", "row"), ("Mondrian", "anonypy", "dropped fields")


class Case(NamedTuple):
    """every: one of so many rows is taken. windows: of a period. guessed: the payload of attacks. outcome: of models,
    and when it happened. weighed: whether tables are imputed by it, too."""

    every: int
    window_ms: int | None
    windows: int
    guessed: str
    outcome: str
    happened: Callable[[Any], Any]
    weighed: bool = False


def _largest_quarter(values: Any) -> Any:
    return pc.greater(values, pc.quantile(values, 0.75)[0])


CASES: dict[DataSet, Case] = {
    SPARKOV: Case(25, WEEK_MS, 1, "category", "amt", _largest_quarter),
    COMPLETE_JOURNEY: Case(
        3, None, 4, "department", "department", lambda values: pc.equal(values, "PRODUCE")
    ),
    ADULT: Case(3, None, 1, "salary-class", "salary_class", lambda values: pc.equal(values, ">50K"), True),
}
WORTH = ("data", "k", "release", "misplaced, %", "trends", "missed, %", "AUC gap", "inference", "membership")
MODELS = ("data", "k", "release", "AUC", "AUC by the outcome", "inference, rare")
SENTENCES = (
    "rival", "its k", "AUC, ours less its", "by the outcome", "inference, rare", "its", "ours less its",
)  # fmt: skip
MIDDLES = (
    "data", "k", "release", "misplaced, %", "middles", "trends", "middles ", "missed, %", "middles  ", "AUC gap",
    "middles   ", "middles are better in",
)  # fmt: skip
EQUAL = (
    "data", "ours", "k", "inference", "rival", "its k", "its inference", "misplaced, %", "its", "trends", "its ",
    "missed, %", "its  ", "AUC gap", "its   ",
)  # fmt: skip


class Found(NamedTuple):
    """Of one release of one split. by_middles: the same uses. model, risks: None: there are none."""

    uses: Uses
    by_middles: Uses | None = None
    model: Modelled | None = None
    risks: Risks | None = None


def measure_case(tables: Tables, data: DataSet, arguments: argparse.Namespace) -> None:
    """All figures of one data set."""
    case = CASES[data]
    source = source_of(data, case.every, case.window_ms, arguments.rows)
    feed = source.feed
    model = Model(source, case.outcome, case.happened)
    found: dict[tuple[str, int | None], list[Found]] = defaultdict(list)
    for split in range(arguments.splits):
        random = np.random.default_rng([arguments.seed, split])
        people = random.permutation(np.unique(feed.who))
        inside = np.sort(people[: people.size // 2])
        mask = np.isin(feed.who, inside)
        rows, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
        own_rows = np.bincount(feed.who)[feed.who[rows]]
        asked = truth = None
        for each in published(source, mask, KS, arguments.python):
            if asked is None or truth is None:
                asked = asked_of(source, each.read, case.windows)
                truth = true_counts(asked, source, each.read, rows, np.ones(rows.size))
                for name, most in _bounds(feed.who[rows], people=source.policy.individual is not None):
                    weight = np.minimum(most / own_rows, 1.0) if most > 1 else np.ones(rows.size)
                    told = with_noise(
                        asked,
                        true_counts(asked, source, each.read, rows, weight),
                        most,
                        rows.size,
                        EPSILON,
                        random,
                    )
                    found[name, None].append(Found(uses_of(asked, *told, truth, random)))
            counts, middles = counts_of(asked, source, each.read), counts_of(asked, source, naive(each.read))
            found[each.name, each.k].append(
                Found(
                    uses_of(asked, counts, counts, truth, random),
                    uses_of(asked, middles, middles, truth, random),
                    model.of(
                        each, outside, weighed=case.weighed and (each.name, each.k) in SENTENCE, seed=split
                    ),
                    risks_of(source, each, inside, case.guessed, split),
                )
            )
            print(
                data.name,
                split,
                each.name,
                each.k,
                sorted(each.dropped),
                found[each.name, each.k][-1],
                flush=True,
            )
    add_rows(tables, data.name, found, weighed=case.weighed)


def _bounds(who: np.ndarray, *, people: bool) -> list[tuple[str, float]]:
    """DP histograms, and how much a person's rows weigh at most."""
    if not people:
        return [("DP, a person", 1.0)]
    rows = np.bincount(who)
    return [("DP, a person", float(np.median(rows[rows > 0]))), ("DP, a row", 1.0)]


def add_rows(
    tables: Tables, name: str, found: dict[tuple[str, int | None], list[Found]], *, weighed: bool
) -> None:
    """What was found of one data set, over its splits."""
    order = {each: place for place, each in enumerate(("raw", *OURS, *RIVALS))}
    ranked = sorted(found, key=lambda key: (key[1] or (0 if key[0] == "raw" else 99), order.get(key[0], 9)))
    raw = found["raw", None]
    for release, k in ranked:
        each = found[release, k]
        gaps = _gaps(each, raw, "imputed")
        tables["worth"].rows.append(
            (
                name, k, release,
                _shown([one.uses.misplaced for one in each], 1), _shown([one.uses.trends for one in each], 2),
                _shown([one.uses.missed for one in each], 0), _shown(gaps, 4),
                _risk(each, "inferred"), _risk(each, "member"),
            )
        )  # fmt: skip
        if each[0].model is None:
            continue
        models = [one.model for one in each if one.model is not None]
        tables["models"].rows.append(
            (
                name, k, release, _shown([one.imputed for one in models], 4),
                _shown([one.outcome for one in models], 4), _risk(each, "rare"),
            )
        )  # fmt: skip
        if release not in ("raw", "dropped fields"):
            tables["middles"].rows.append((name, k, release, *_beside_middles(each, raw)))
    if weighed:
        ours = found[SENTENCE[0]]
        for key in SENTENCE[1:]:
            if key in found:
                tables["sentence"].rows.append((*key, *_beside(ours, found[key])))
    for mode in OURS:
        for k in KS[1:]:
            for rival in RIVALS:
                if (mode, k) in found and (rival, k) in found:
                    tables["equal"].rows.append((name, mode, k, *_at_equal_risk(found, (mode, k), rival)))


def _beside_middles(each: Sequence[Found], raw: Sequence[Found]) -> list[Any]:
    cells: list[Any] = []
    worse = []
    for use, digits in (("misplaced", 1), ("trends", 2), ("missed", 0)):
        own = [getattr(one.uses, use) for one in each]
        other = [getattr(one.by_middles, use) for one in each]
        cells += [_shown(own, digits), _shown(other, digits)]
        if None not in own and np.mean(own) > np.mean(other) + 1e-9:
            worse.append(use)
    own, other = _gaps(each, raw, "imputed"), _gaps(each, raw, "middles")
    if np.mean(own) > np.mean(other) + 1e-9:
        worse.append("AUC gap")
    return [*cells, _shown(own, 4), _shown(other, 4), ", ".join(worse) or "none"]


def _beside(ours: Sequence[Found], its: Sequence[Found]) -> list[Any]:
    """Differences of AUC, split by split; of the risk of rare values with the arms of both intervals."""
    models = [
        (one.model, other.model) for one, other in zip(ours, its, strict=True) if one.model and other.model
    ]
    risks = [together([one.risks.rare for one in each if one.risks is not None]) for each in (ours, its)]
    (low, high), (least, most) = (risk.interval for risk in risks)
    own, other = (risk.figure for risk in risks)
    arms = math.hypot(own - low, most - other), math.hypot(high - own, other - least)
    risk = own - other
    return [
        _shown([one.imputed - other.imputed for one, other in models], 4),
        _shown([one.outcome - other.outcome for one, other in models if one.outcome and other.outcome], 4),
        _risk(ours, "rare"), _risk(its, "rare"),
        f"{risk:.3f} [{risk - arms[0]:.3f}, {risk + arms[1]:.3f}]",
    ]  # fmt: skip


def _at_equal_risk(
    found: dict[tuple[str, int | None], list[Found]], ours: tuple[str, int], rival: str
) -> list[Any]:
    """The rival at that k whose measured inference is nearest."""

    def figure(key: tuple[str, int | None]) -> float:
        risk = together([one.risks.inferred for one in found[key] if one.risks is not None])
        return (risk.rate.share - risk.control.share) / (1 - risk.control.share)

    k = min(KS, key=lambda each: (abs(figure((rival, each)) - figure(ours)), each))
    both, raw = (found[ours], found[rival, k]), found["raw", None]
    cells: list[Any] = [_risk(both[0], "inferred"), rival, k, _risk(both[1], "inferred")]
    for use, digits in (("misplaced", 1), ("trends", 2), ("missed", 0)):
        cells += [_shown([getattr(one.uses, use) for one in each], digits) for each in both]
    return cells + [_shown(_gaps(each, raw, "imputed"), 4) for each in both]


def _gaps(each: Sequence[Found], raw: Sequence[Found], how: str) -> list[float | None]:
    """Split by split, to the model on raw rows."""
    return [
        None if one.model is None or best.model is None else best.model.imputed - getattr(one.model, how)
        for one, best in zip(each, raw, strict=True)
    ]


def _shown(values: Sequence[float | None], digits: int) -> str | None:
    """Mean and its interval by Student's t; of one split the value."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None
    mean = float(np.mean(numbers))
    if len(numbers) == 1:
        return f"{mean:.{digits}f}"
    half = float(stdtrit(len(numbers) - 1, 0.975)) * float(np.std(numbers, ddof=1)) / len(numbers) ** 0.5
    return f"{mean:.{digits}f} [{mean - half:.{digits}f}, {mean + half:.{digits}f}]"


def _risk(each: Sequence[Found], name: str) -> str | None:
    risks = [getattr(one.risks, name) for one in each if one.risks is not None]
    if not risks:
        return None
    risk = together(risks)
    return "{:.3f} [{:.3f}, {:.3f}]".format(risk.figure, *risk.interval) if risk.enough else None


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What releases are worth, ours and others'.")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", help="the Python of anonypy's environment; without it, it is skipped")
    titles = {
        "worth": ("What each release is worth, and what it gives away", WORTH),
        "models": ("Models, and what is inferred of rare values", MODELS),
        "sentence": ("Adult: ours, row, k = 10, beside others at smaller k", SENTENCES),
        "middles": ("As estimate and impute read a release, beside middles", MIDDLES),
        "equal": ("At equal measured risk: the rival at the k whose inference is nearest", EQUAL),
    }
    return by_data_set(
        argv, parser, Findings("worth_releases", __doc__ or ""), titles, CASES, measure_case, apart=True
    )


if __name__ == "__main__":
    sys.exit(main())
