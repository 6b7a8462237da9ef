"""The flags of ``kanonflow compare``."""

import argparse
from collections.abc import Callable
from typing import Any

from kanonflow.pipelines.options.json_flag import add_json
from kanonflow.schemas.policy_fields import ClosenessDistance, DiversityKind


def add_compare(
    commands: Any, add_policy_and_input: Callable[[argparse.ArgumentParser], None], epilog: str
) -> None:
    """Add the command. add_policy_and_input: adds the flags that it shares with others."""
    compare = commands.add_parser(
        "compare",
        allow_abbrev=False,
        help="show what k, a method, or diversity of a sensitive field would cost",
        description="Anonymizes the files under every combination of the settings and writes nothing but a table"
        " of losses. Lists are separated by commas.",
        epilog=epilog,
    )
    add_policy_and_input(compare)
    compare.add_argument(
        "--methods",
        type=_list(str),
        default=[],
        help="solver methods, by the names in docs/solvers.md (default: the policy's)",
    )
    compare.add_argument(
        "--k", type=_list(int), default=[], dest="ks", help="values of k (default: the policy's)"
    )
    compare.add_argument("--field", help="sensitive field that --l or --t is for")
    limits = compare.add_mutually_exclusive_group()
    limits.add_argument("--l", type=_list(float), default=[], dest="ls", help="values of l; 1 is no rule")
    limits.add_argument("--t", type=_list(float), default=[], dest="ts", help="values of t; 1 is no rule")
    compare.add_argument(
        "--kind",
        choices=[str(kind) for kind in DiversityKind],
        help="of l (default: the policy's, or frequency)",
    )
    compare.add_argument(
        "--distance",
        choices=[str(distance) for distance in ClosenessDistance],
        help="of t (default: the policy's, or equal)",
    )
    compare.add_argument(
        "--rows", type=int, metavar="N", help="only a stretch of whole windows, of about N rows"
    )
    compare.add_argument("--evaluations", type=float, help="search budget: evaluations a row")
    compare.add_argument("--threads", type=int, help="solver threads (default: cores)")
    add_json(compare)
    compare.add_argument(
        "--plot",
        metavar="FILE",
        help="draw loss against l or t (or k): .svg or .html (pip install 'kanonflow[report]')",
    )


def _list(kind: type) -> Callable[[str], list[Any]]:
    def read(text: str) -> list[Any]:
        try:
            values = [kind(part.strip()) for part in text.split(",") if part.strip()]
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"expected {kind.__name__}s separated by commas") from error
        if not values:
            raise argparse.ArgumentTypeError("expected at least one value")
        return values

    return read
