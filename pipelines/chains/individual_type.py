"""What kind of value an individual's id is: part of what a chain of runs has in common.

People are known by keyed digests of their id's canonical text. ``00007919`` as text and 7919 as a number are two texts,
so under another kind everybody would be new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanonflow.schemas.bound_policy import BoundPolicy

KEY = "individual_type"
"""Under ``cohorts`` in run.json. An earlier build did not write it down."""

_WORDS = {"string": "text (string)", "long": "whole numbers (long)", "bytes": "bytes"}


def individual_type(bound: BoundPolicy) -> str:
    """The kind of the individual's canonical type, as ``--individual-type`` calls it: string, long or bytes."""
    return bound.column(bound.policy.cohorts.individual.name).values.id_type


def type_difference(before: Mapping[str, Any], bound: BoundPolicy, told: str | None) -> str | None:
    """Why a run does not fit a chain whose ``cohorts`` in run.json are given; None: it does.

    told: what --individual-type says of a chain that has no type on record; None: nothing.
    The sentence names both types and what to do.
    """
    there, here = before.get(KEY), individual_type(bound)
    field = before["individual"]
    if there is None and told is None:
        return (
            f"an earlier build began it, which did not write down what kind of value {field} was. Look at the files"
            f" that it read and say so once: --individual-type string, or long where {field} was a column of whole"
            f" numbers or had as: long, or bytes. Here {field} is {_WORDS[here]}"
        )
    if there is not None and told is not None and there != told:
        return f"--individual-type {told}: on record is that {field} was {_WORDS[there]}; leave the flag out"
    there = there or told or here
    if there == here:
        return None
    mend = {
        "long": f"write as: long under {field} in the policy, which reads text as whole numbers",
        "string": f"give {field} as text, spelled as it was there; as: string under {field} in the policy makes text of"
        " numbers, without leading zeros",
        "bytes": f"give {field} as bytes again",
    }[there]
    return (
        f"{field} is {_WORDS[there]} there and {_WORDS[here]} here, so that people would not be known again and would"
        f" enter a second time. To go on, {mend}"
    )


def type_on_record(bound: BoundPolicy) -> dict[str, str]:
    """What ``cohorts`` in run.json holds of it."""
    return {KEY: individual_type(bound)}


def resumed_type(before: Mapping[str, Any], bound: BoundPolicy | None) -> str | None:
    """Why a run that goes on from its state does not fit what it was; None: it does, or nobody wrote it down.

    before: its ``cohorts`` in run.json. A source that is the same by name may have changed its types.
    """
    if bound is None or KEY not in before or before[KEY] == individual_type(bound):
        return None
    there, here = _WORDS[before[KEY]], _WORDS[individual_type(bound)]
    return (
        f"{before['individual']} was {there} and is {here} in its source now, so that nobody would be known again. Give"
        " it as it was; or stop this stream and let another one continue it, under a policy that reads it so (as:)"
    )
