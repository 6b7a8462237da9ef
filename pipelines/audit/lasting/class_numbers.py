"""Does the ``class_id`` of a group tell nothing?

    drawn    it neither counts, nor comes after another, nor is a digest anybody can work out; no bit is the same in all
    order    by it groups stand as by chance: not by rows, window or box, nor, with the secret, by their oldest cohort

That it is the number which the secret draws takes matching records, for it is drawn of who stands in each group
(matching_records.py). That none comes again is told where releases are read (released_groups.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from kanonflow.pipelines.audit.judge.ranks import ALARM
from kanonflow.pipelines.audit.lasting.frozen_hulls import note_groups
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.read.findings import Findings

_SMALL = 1 << 20
_NEAR = 64
_FEWEST_BITS = 40
_TRIED = 3


def judge_numbers(ground: LastingGround, findings: Findings) -> None:
    """Note class_ids that are not drawn: numbers that are any 64 bits are as good as never any of these."""
    groups = ground.groups
    number = groups.number
    small = (number > -_SMALL) & (number < _SMALL)
    note_groups(
        ground,
        np.flatnonzero(small),
        "have a class_id that counts or names something: it is too small",
        findings,
    )
    order = np.argsort(number, kind="stable")
    ahead = number[order]
    near = np.flatnonzero((ahead[1:] - ahead[:-1] > 0) & (ahead[1:] - ahead[:-1] < _NEAR))
    near = np.unique(order[np.concatenate([near, near + 1])])
    note_groups(ground, near[~small[near]], "have a class_id that comes after that of another", findings)
    bits = number.view(np.uint64)
    fixed = int((np.bitwise_and.reduce(bits) | ~np.bitwise_or.reduce(bits)) if len(bits) else 0)
    if len(number) >= _FEWEST_BITS and fixed:
        findings.add(f"{fixed.bit_count()} bits of class_id are the same in all groups")
    borders = np.searchsorted(groups.release, np.arange(len(ground.heads) + 1))
    known = [
        place
        for release, head in enumerate(ground.heads)
        for place in _computable(head.release_id, number, int(borders[release]), int(borders[release + 1]))
    ]
    note_groups(
        ground, np.array(known, np.int64), "have a class_id that is a digest anybody can work out", findings
    )


def _computable(release_id: str, number: np.ndarray, start: int, stop: int) -> Iterator[int]:
    """Groups of a release whose number is the beginning of a plain digest of its place among them."""
    if start == stop:
        return
    told = {int(each): place for place, each in enumerate(number[start:stop].tolist(), start)}
    texts = [str(each) for each in range(min(stop - start, _TRIED) + 1)]
    texts += [f"{release_id}{mark}{each}" for each in texts for mark in ("", ":", "-", "/")]
    for text in texts:
        for name in ("sha256", "md5", "blake2b", "sha1"):
            digest = hashlib.new(name, text.encode(), usedforsecurity=False).digest()[:8]
            for order in ("little", "big"):
                if (found := int.from_bytes(digest, order, signed=True)) in told:
                    yield told[found]


def judge_order(ground: LastingGround, scores: Mapping[str, np.ndarray], findings: Findings) -> None:
    """Note scores by which class_ids rise or fall. scores: float64 (g,) by name, nan where it is not known.

    Drawn numbers put the groups of a release into any order with equal chances. So the sum, over all releases, of
    centred rank of number times centred rank of score has the mean 0 and the variance

        sum over releases of  (sum of a^2) (sum of b^2) / (groups - 1)

    whatever the scores are, and is as good as normal. An honest run fails with a chance of about ``ALARM``.
    """
    for name, score in scores.items():
        known = np.flatnonzero(~np.isnan(score))
        release = ground.groups.release[known]
        product, variance = 0.0, 0.0
        borders = np.searchsorted(release, np.arange(len(ground.heads) + 1))
        for start, stop in pairwise(borders):
            if stop - start < 2:
                continue
            own = known[start:stop]
            one, other = (_centred(each[own]) for each in (ground.groups.number, score))
            product += float(one @ other)
            variance += float(one @ one) * float(other @ other) / (stop - start - 1)
        if variance and math.erfc(abs(product) / math.sqrt(2 * variance)) * len(scores) < ALARM:
            findings.add(f"class_ids are in the order of {name}, so they are not drawn")


def _centred(values: np.ndarray) -> np.ndarray:
    """The rank of each value less the mean of all; equal values share a rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: np.ndarray = (last - (count - 1) / 2)[place] - (len(values) + 1) / 2
    return ranks
