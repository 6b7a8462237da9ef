"""Cohorts of a window that is released in parts: each part begins with the last window's, all parts leave one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kanonflow.transforms.release.warm_state import Cohorts


def before_next_part(first: Cohorts, last: Cohorts) -> Cohorts:
    """What the next part begins with. first: the last window's cohorts. last: those that the part before left.

    Classes follow each other, because a label is not used twice in a window; their history is that of whole
    windows. Of graphs each part finds its people in those of the last window.
    """
    return replace(last, history=first.history) if last.labels.size else first


def after_all_parts(first: Cohorts, parts: Sequence[Cohorts]) -> Cohorts:
    """What the window leaves. parts: what each part that was released left, in order; nobody is in two of them."""
    if not parts:
        return first
    if parts[-1].history:
        return replace(parts[-1], history=_joined_history(parts))
    if not any(part.members.size for part in parts):
        return parts[-1]
    people = np.concatenate([part.people for part in parts])
    order = np.argsort(people, kind="stable")
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    begins = np.cumsum([0, *(part.people.size for part in parts[:-1])])
    return Cohorts(
        people=people[order],
        members=np.concatenate(
            [rank[part.members + begin] for part, begin in zip(parts, begins, strict=True)]
        ),
        seen=np.concatenate([part.seen for part in parts])[order],
    )


def _joined_history(parts: Sequence[Cohorts]) -> tuple:
    """The last part's history, with everybody who was released in the window in its last entry."""
    entries = [part.history[-1] for part in parts]
    people = np.concatenate([who for _, who, _ in entries])
    labels = np.concatenate([label for _, _, label in entries])
    order = np.argsort(people, kind="stable")
    return (*parts[-1].history[:-1], (entries[-1][0], people[order], labels[order]))
