"""The page of S2 (Doka et al.): our copy, the short version, has algorithms and an example, and no experiments."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.paper_page import NOT_PRINTED, PaperPage, Results, Shown, number, span
from benchmarks.result_files import ResultTable
from benchmarks.small_example import PRINTED_NAME

ADULT = "heterogeneous_adult"
OTHERS = ("heterogeneous_complete_journey_2000", "heterogeneous_sparkov_2000")
EXAMPLE = "small_example", "Eight tuples"
ABOVE_NINE = "Adult, 1,000, 2,000, 5,000 rows, k = 3, 5, 10"


def _example(graph: str) -> Callable[[Results], float]:
    return lambda results: float(results.one(*EXAMPLE, "GCP", graph=graph))


def _alone(results: Results, construction: str, *names: str) -> dict[tuple[str, int, int], float]:
    """GCP of a construction by itself, by (data, rows, k)."""
    return {
        (line["data"], line["rows"], line["k"]): line["GCP alone"]
        for name in names
        for line in results.rows(name, "Loss and time", construction=construction)
    }


def _ratios(results: Results, construction: str, base: str, *names: str) -> list[float]:
    """Loss of one construction by that of another, in each cell that both have."""
    ours, theirs = (_alone(results, each, *names) for each in (construction, base))
    return [ours[cell] / theirs[cell] for cell in ours if cell in theirs]


def _ratio(construction: str, base: str, *names: str) -> Callable[[Results], str]:
    return lambda results: span(_ratios(results, construction, base, *names))


def _table_one(results: Results) -> str:
    said = ", ".join(
        f"{name} {number(_example(name)(results))}"
        for name in ("ring", "greedy", "sort-greedy", "hungarian", "our search")
    )
    return f"printed graph {number(_example(PRINTED_NAME)(results))}; {said}"


def _table_one_comment(results: Results) -> str:
    printed, found = _example(PRINTED_NAME)(results), _example("our search")(results)
    bound = _example("proven bound")(results)
    return (
        f"GCP of eq. 3. The printed graph is valid and not the best: ours has {100 * (1 - found / printed):.0f}% less,"
        f" and none is below {number(bound)}"
    )


def _seconds(construction: str) -> Callable[[Results], str]:
    """How the time grows from the smallest to the largest table, by k."""

    def told(results: Results) -> str:
        lines = results.rows(ADULT, "Loss and time", construction=construction)
        said = []
        for k in sorted({line["k"] for line in lines}):
            each = {line["rows"]: line["CPU s alone"] for line in lines if line["k"] == k}
            small, large = min(each), max(each)
            said.append(
                f"k={k}: {number(each[large] / each[small])} times for {large / small:.0f} times the rows"
            )
        return "; ".join(said)

    return told


def _free_to_ring(results: Results) -> str:
    names = (ADULT, *OTHERS)
    ratios = [value for each in ("greedy", "sort-greedy") for value in _ratios(results, each, "ring", *names)]
    return f"{'held' if max(ratios) < 1 else 'not held'}: {span(ratios)} of the ring's loss"


def _sorted_to_plain(results: Results) -> str:
    ratios = _ratios(results, "sort-greedy", "greedy", ADULT, *OTHERS)
    below = sum(ratio < 1 for ratio in ratios)
    return f"{'held' if below == len(ratios) else f'held in {below} of {len(ratios)} cells'}: {span(ratios)} of it"


def _free_to_classes(results: Results) -> str:
    said = []
    for each in ("greedy", "sort-greedy"):
        ratios = _ratios(results, each, "l-greedy", ADULT, *OTHERS)
        said.append(f"{each} below l-greedy in {sum(ratio < 1 for ratio in ratios)} of {len(ratios)} cells")
    return f"not held for Greedy: {', '.join(said)}"


def _cells(results: Results) -> ResultTable:
    table = ResultTable(
        "Loss of the constructions by themselves, GCP",
        ("data", "rows", "k", "ring", "Greedy", "SortGreedy", "Hungarian", "l-greedy"),
        note="From `heterogeneous_*`: hulls, one seed, no search afterwards.",
    )
    names = (ADULT, *OTHERS)
    found = [
        _alone(results, each, *names) for each in ("ring", "greedy", "sort-greedy", "hungarian", "l-greedy")
    ]
    table.rows += [(*cell, *(each.get(cell) for each in found)) for cell in found[0]]
    return table


PAGE = PaperPage(
    name="s2",
    paper="S2: K. Doka et al., Heterogeneous k-Anonymization with High Utility",
    about="""
Our copy is the short version. It defines the problem and two algorithms, and refers to the long one (k-Anonymization
by Freeform Generalization, 2015) for its experiments, which we do not have: there is no table or figure of an
experiment to set ours beside. Its one worked example is solved here, and what its text claims is measured.
""",
    shown=(
        Shown(
            "Fig. 1",
            "Classes, ring, reciprocal and freeform graphs",
            "drawings, no figures",
            lambda results: (
                f"ring / Hungarian {_ratio('ring', 'hungarian', ADULT)(results)};"
                f" classes (l-greedy) / Hungarian {_ratio('l-greedy', 'hungarian', ADULT)(results)}"
            ),
            ABOVE_NINE,
            "What the four forms cost: a freeform graph is the least constrained",
        ),
        Shown(
            "Table I",
            "Eight tuples made 3-anonymous by a freeform graph",
            "the graph; its loss is not printed",
            _table_one,
            "8 rows, k = 3",
            _table_one_comment,
        ),
        Shown(
            "Fig. 2",
            "The graph of Table I, in the plane and by itself",
            "drawing, no figures",
            "the same graph as in Table I",
            "8 rows, k = 3",
        ),
    ),
    claims=(
        Shown(
            "section I",
            "Freeform graphs lose less than rings",
            NOT_PRINTED,
            _free_to_ring,
            ABOVE_NINE + "; complete_journey and sparkov, 2,000 rows, k = 5, 10",
            "Rings along the leaves of a k-d tree, which is kinder to them than an order of rows",
        ),
        Shown(
            "section I",
            "Freeform graphs lose less than classes",
            NOT_PRINTED,
            _free_to_classes,
            ABOVE_NINE + "; complete_journey and sparkov, 2,000 rows, k = 5, 10",
            "Greedy gives late rows what is left, and an edge a round; l-greedy chooses whole classes. SortGreedy and"
            " Hungarian (the long version) hold it",
        ),
        Shown(
            "section IV",
            "SortGreedy makes better choices than Greedy",
            NOT_PRINTED,
            _sorted_to_plain,
            ABOVE_NINE + "; complete_journey and sparkov, 2,000 rows, k = 5, 10",
        ),
        Shown(
            "section III",
            "Greedy takes O(k n²)",
            "O(k n²)",
            _seconds("greedy"),
            ABOVE_NINE,
            "25 times would be n²; CPU seconds, the grouping and the tree of our start included",
        ),
        Shown(
            "section IV",
            "SortGreedy takes O(k n² log n)",
            "O(k n² log n)",
            _seconds("sort-greedy"),
            ABOVE_NINE,
            "Ours sorts candidates near each other first, so it grows slower than all n² edges would",
        ),
        Shown(
            "section III",
            "Backtracking one step resolves a dead end",
            "an eligible predecessor is found",
            "not held: `tests/solvers/rivals/test_heterogeneous.py`",
            "any table with many equal rows",
            "One step may find none (most rows equal, or several rows a person); ours goes on by an augmenting path,"
            " which always exists in a regular graph. Line 4 of Algorithm 1 names the wrong edge",
        ),
    ),
    tables=(_cells,),
)
