"""Lattice solvers to check the others by, or to beat: the product takes ``ola`` and ``kgen``."""

from __future__ import annotations

from kanonflow.solvers.problem.limits import Limits
from kanonflow.solvers.problem.parameters import chosen
from kanonflow.solvers.rivals import exhaustive, incognito, samarati
from kanonflow.solvers.rivals.datafly import datafly
from kanonflow.solvers.rivals.random_search import RandomSearch, random_search
from kanonflow.solvers.shapes.lattices import LatticeSolver

TOY_LATTICES: dict[str, LatticeSolver] = {
    "exhaustive": LatticeSolver(
        lambda checks, task: exhaustive.exhaustive(checks),
        Limits(levels_only=True, nodes=exhaustive.MOST_NODES),
        exact=True,
    ),
    "incognito": LatticeSolver(
        lambda checks, task: incognito.incognito(checks),
        Limits(levels_only=True, nodes=incognito.MOST_NODES, of_subsets=True),
        exact=True,
    ),
    "samarati": LatticeSolver(
        lambda checks, task: samarati.samarati(checks), Limits(levels_only=True, nodes=samarati.MOST_NODES)
    ),
    "datafly": LatticeSolver(lambda checks, task: datafly(checks)),
    "random-search": LatticeSolver(
        lambda checks, task: random_search(
            checks,
            seed=task.seed,
            parameters=chosen(RandomSearch, {"evaluations": task.evaluations, **task.parameters}),
            known=task.known,
        ),
        warm=True,
        parameters=RandomSearch,
    ),
}
