"""``kanonflow explain``: what a feed is like under a policy, and what to change before anything is released."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kanonflow.pipelines.dry_run.feed import read_feed
from kanonflow.pipelines.explain.explanation import Explanation, explain
from kanonflow.pipelines.explain.wanted_names import wanted_names
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.fit.people_file import read_people
from kanonflow.pipelines.terminal.terminal import tell
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_source import read_policy


def explain_input(
    path: str,
    patterns: Sequence[str],
    delimiter: str | None = None,
    input_format: str | None = None,
    *,
    quick: bool = False,
    wanted: str | None = None,
) -> Explanation:
    """The explanation of files under the policy at ``path``; of as many rows as ``read_feed`` takes.

    quick: solve nothing. wanted: a list of fields that users count by, between commas; None: of none it is said.

    Rows that do not fit the policy are left out: whether they fit is what ``policy check`` says.
    Raises PolicyError, InputError.
    """
    files, _, bound, csv = bind_input(read_policy(path), patterns, delimiter, input_format)
    needed = () if wanted is None else wanted_names(wanted, bound)
    rows = read_feed(files, bound, csv).rows
    if not rows.num_rows:
        raise InputError(f"{', '.join(patterns)}: no row fits the policy; policy check says why")
    if not quick:
        _compile_first(bound)
    people = read_people(bound, path)
    expected = None if people is None else people.rows
    return explain(
        rows,
        bound,
        quick=quick,
        needed=needed,
        expected=expected,
        tell=lambda line: tell(line, sys.stderr),
    )


def _compile_first(bound: BoundPolicy) -> None:
    """What the variants of a policy are solved with. Raises PolicyError: the policy itself has no solver."""
    from kanonflow.pipelines.explain.variants import variants
    from kanonflow.pipelines.runs.kernel_cache import compile_sets
    from kanonflow.transforms.protections.needed_kernels import needed_kernels
    from kanonflow.transforms.solver_check import check_solver

    check_solver(bound.policy)
    choices, _ = variants(bound, [], [])
    sets = dict.fromkeys(name for each in choices for name in needed_kernels(each.bound).sets)
    compile_sets(tuple(sets), sys.stderr)


def write_page(found: Explanation, policy: str, target: Path) -> None:
    """The explanation as HTML in a file that only its owner may read: it tells of the input. policy: where it is; its
    name is the page's. Raises InputError, MissingExtraError."""
    from kanonflow.pipelines.explain.page import explanation_page
    from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE  # imports Beam

    page = explanation_page(found, read_policy(policy).name)
    try:
        target.unlink(missing_ok=True)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise InputError(f"--html {target}: cannot be written ({error.strerror})") from error
