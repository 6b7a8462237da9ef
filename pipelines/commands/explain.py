"""``kanonflow explain``: what a feed is like under a policy, and what to change before anything is released."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kanonflow.pipelines.explain.explanation import Explanation, explain
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.risks.trails import read_feed
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.solver_check import check_solver


def explain_input(
    path: str,
    patterns: Sequence[str],
    delimiter: str | None = None,
    input_format: str | None = None,
    *,
    quick: bool = False,
) -> Explanation:
    """The explanation of files under the policy at ``path``; of as many rows as ``read_feed`` takes.

    quick: solve nothing.

    Rows that do not fit the policy are left out: whether they fit is what ``policy check`` says.
    Raises PolicyError, InputError.
    """
    policy = read_policy(path)
    check_solver(policy)
    files, _, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    rows = read_feed(files, bound, csv).rows
    if not rows.num_rows:
        raise InputError(f"{', '.join(patterns)}: no row fits the policy; policy check says why")
    return explain(rows, bound, quick=quick)


def write_page(found: Explanation, policy: str, target: Path) -> None:
    """The explanation as HTML in a file. policy: where it is; its name is the page's. Raises InputError,
    MissingExtraError."""
    from kanonflow.pipelines.explain.page import explanation_page

    page = explanation_page(found, read_policy(policy).name)
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--html {target}: cannot be written ({error.strerror})") from error
