"""At most five sentences on what to do, each with the figures that it rests on and the change that would try it.

What undoes the promise comes first: no loss is worth a payload that names people. Then what gains most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kanonflow.pipelines.dry_run.field_width import FieldWidth, in_words
from kanonflow.pipelines.dry_run.measures import LEAST_GAIN, Measures, saved, worthwhile
from kanonflow.pipelines.explain.dependencies import Dependency, redundant
from kanonflow.pipelines.explain.plain_statistics import PlainStatistics, Share
from kanonflow.pipelines.explain.variants import Group
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.durations import format_duration
from kanonflow.schemas.field_declaration import field_mapping

if TYPE_CHECKING:
    from kanonflow.pipelines.explain.solved import Solved, Tried
    from kanonflow.pipelines.explain.wanted_fields import Wanted

MOST = 5
FEW_SMALL = 0.01
MANY_SMALL = 0.05
"""Shares of windows with fewer than k people: what is good, and what is worth a sentence."""
MANY_ALONE = 0.3
MANY_NULLS = 0.5
_NARROWER = 0.8
"""Medians of sets are small whole numbers: 9 values and 8 may be the same."""
_MOST_SINGLE = 2
# Cost of a policy that releases next to nothing: then everything costs as much.
_NOTHING_LEFT = 0.95
_LITTLE_DEARER = 1.15
_OF_OTHERS = {"others", "field", "before", "after", "unit"}
_WORDS = {3_600_000: "an hour", 86_400_000: "a day", 7 * 86_400_000: "a week", 28 * 86_400_000: "four weeks"}


@dataclass(frozen=True)
class Recommendation:
    """sentence: what to do. kind: of what. change: the keys of the policy file that do it; ``fields`` by name, None
    takes a key out. gain: share of what is lost that it saves, or of rows that tell too much; 0: it saves nothing, and
    gives something else. measured: the figures in the sentence."""

    sentence: str
    kind: str
    change: Mapping[str, Any]
    gain: float
    measured: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def recommendations(
    plain: PlainStatistics,
    solved: Solved | None,
    bound: BoundPolicy,
    needed: Sequence[str] = (),
    wanted: Wanted | None = None,
) -> tuple[Recommendation, ...]:
    """What to do, the most pressing first. solved: None: nothing was; then sentences are about counts alone. needed:
    quasi-identifiers of which no sentence says to leave them out, or to publish them coarser. wanted: what was tried
    for them."""
    plain = plain.without(needed)
    risks = [*_of_payload(plain, bound), *_crowded(plain, bound)]
    if wanted is not None:
        risks += _for_counts(wanted)
    if solved is None:
        others = [
            *_redundant(plain, None, needed),
            *_small_windows(plain),
            *_lonely(plain, bound),
            *_missing(plain),
        ]
        return tuple([*risks, *others][:MOST])
    gains = [
        *_redundant(plain, solved, needed),
        *_longer_window(plain, solved, bound),
        *_fields(plain, solved, bound),
        *_longer_delay(solved),
        *_lasting(solved, bound),
    ]
    # A field may be what the feed is published for: what is said of it alone comes after what keeps all fields.
    gains.sort(key=lambda each: (each.kind == "field" and each.measured.keys() <= _OF_OTHERS, -each.gain))
    return tuple([*risks, *gains, *_for_little(solved, bound)][:MOST])


def _of_payload(plain: PlainStatistics, bound: BoundPolicy) -> Iterator[Recommendation]:
    """What undoes the promise."""
    accepted = {field.name for field in bound.policy.fields if field.accept_risk is not None}
    names = [each for each in plain.names if each.field not in accepted]
    if names:
        told = _and([each.field for each in names])
        one = len(names) == 1
        yield Recommendation(
            f"{told} {'names its person' if one else 'name their person'}: in"
            f" {_and([f'{each.share:.0%}' for each in names])} of the rows {'it has' if one else 'they have'} a value"
            " that its person alone repeats. Leave"
            f" {'it' if one else 'them'} out (role: identifier), or publish {'it' if one else 'them'} coarser.",
            "names",
            _without([each.field for each in names]),
            max(each.share for each in names),
            {each.field: each.share for each in names},
        )
    tells: dict[str, list[Dependency]] = {}
    for found in plain.tells:
        # What names a person tells all that is known of it.
        if found.by[0] not in accepted | {each.field for each in names}:
            tells.setdefault(found.by[0], []).append(found)
    if tells:
        parts = [f"{name} tells {_and([one.dependent for one in each])}" for name, each in tells.items()]
        names_told = _and(list(tells))
        one = len(tells) == 1
        yield Recommendation(
            f"{_and(parts)}, and {'is' if one else 'are'} published as {'it is' if one else 'they are'}: what is"
            f" told is widened for nothing then. Leave {names_told} out (role: identifier), or publish"
            f" {'it' if one else 'them'} coarser (role: quasi).",
            "tells",
            _without(list(tells)),
            max(one.share for each in tells.values() for one in each),
            {name: {one.dependent: one.share for one in each} for name, each in tells.items()},
        )
    rises = [each for each in plain.rises if each.field not in accepted]
    if rises:
        one = len(rises) == 1
        yield Recommendation(
            f"{_and([_moves(each) for each in rises])} with time and {'tells' if one else 'tell'} when a row came."
            f" Leave {'it' if one else 'them'} out (role: identifier).",
            "rises",
            _without([each.field for each in rises]),
            max(abs(each.share) for each in rises),
            {each.field: each.share for each in rises},
        )


def _crowded(plain: PlainStatistics, bound: BoundPolicy) -> Iterator[Recommendation]:
    """One sentence for all fields whose widths count where nobody is: it changes what every loss means."""
    if not plain.crowded:
        return
    one = len(plain.crowded) == 1
    fields = _and([f"{each.field} ({each.share:.2%})" for each in plain.crowded])
    scales = _and(
        [f"scale: {each}" for each in dict.fromkeys(str(each.keys["scale"]) for each in plain.crowded)]
    )
    yield Recommendation(
        f"Half of the people lie in a hundredth of the domain of {fields}, so narrow ranges cover most of them, and the"
        f" loss does not tell. Count {'its' if one else 'their'} widths where the people are ({scales}, with the"
        " numbers that kanonflow policy check --input names), or declare"
        f" {'a narrower domain' if one else 'narrower domains'} with outside: code.",
        "scale",
        {
            "fields": {
                each.field: field_mapping(bound.column(each.field).field) | each.keys
                for each in plain.crowded
            }
        },
        0.0,
        {each.field: each.share for each in plain.crowded},
    )


def _moves(each: Share) -> str:
    return f"{each.field} {'rises' if each.share > 0 else 'falls'}"


def _for_counts(wanted: Wanted) -> Iterator[Recommendation]:
    """The best of what was tried for some fields."""
    best = wanted.best
    if best is None:
        return
    counts = [
        f"by {each.name} {after.median:.1%} instead of {before.median:.1%}"
        for each, before, after in zip(wanted.asked, wanted.own.errors, best.errors, strict=True)
    ]
    without, weighed = best.without, best.weighed
    ways = [f"leave {_and(without)} out of the release altogether (role: identifier)"] if without else []
    ways += [f"give {_and(weighed)} more weight ({', '.join(best.lines[len(without) :])})"] if weighed else []
    yield Recommendation(
        f"For counts by {_and(wanted.fields)} {' and '.join(ways)}: the median error of a count is"
        f" {_and(counts)} then.",
        "for",
        best.change,
        saved(wanted.own.error, best.error),
        {
            each.name: [before._asdict(), after._asdict()]
            for each, before, after in zip(wanted.asked, wanted.own.errors, best.errors, strict=True)
        },
    )


def _redundant(
    plain: PlainStatistics, solved: Solved | None, needed: Sequence[str]
) -> Iterator[Recommendation]:
    """One sentence for all fields that others say already."""
    found = redundant(plain.follows)
    if not found:
        return
    mutual = {
        each
        for each in found
        if len(each.by) == 1
        and any(o.by == (each.dependent,) and o.dependent == each.by[0] for o in plain.follows)
    }
    parts = [
        f"{each.dependent} and {each.by[0]} say the same of a person"
        if each in mutual
        else f"{each.dependent} follows from {_and(each.by)} ({each.share:.0%})"
        for each in found
    ]
    names = [each.dependent for each in found]
    one = len(names) == 1
    ways = f"Leave {_and(names)} out (role: identifier)"
    if one and found[0] not in mutual and not set(found[0].by) & set(needed):
        ways += f", or make it a level in a hierarchy of {found[0].by[0]}"
    said: dict[str, Any] = {each.dependent: {"by": list(each.by), "share": each.share} for each in found}
    gain, effect = (
        0.0,
        "."
        if solved is not None
        else (
            f": {'it is' if one else 'they are'} widened beside what {'it follows' if one else 'they follow'} from for"
            " nothing."
        ),
    )
    if solved is not None:
        variant = _variant(solved, Group.WITHOUT, _without(names))
        if variant is not None:
            gain, effect, figures = _others(solved.own, variant.measures, names)
            said |= figures
    yield Recommendation(f"{_and(parts)}. {ways}{effect}", "redundant", _without(names), gain, said)


def _others(own: Measures, without: Measures, names: Sequence[str]) -> tuple[float, str, dict[str, Any]]:
    """What leaving fields out does for the others: gain, the end of a sentence, figures."""
    before = [each for each in own.fields if each.field not in names]
    gain = saved(_mean_ncp(before), _mean_ncp(without.fields))
    named = _narrowed(before, without)
    figures: dict[str, Any] = {"others": [_mean_ncp(before), _mean_ncp(without.fields)]}
    if named is not None:
        first, after = named
        figures |= {"field": first.field, "before": first.median, "after": after.median, "unit": first.unit}
        return gain, f": {first.field} is published as {_instead(first, after)} then.", figures
    if gain >= LEAST_GAIN:
        return gain, f": the other fields lose {gain:.0%} less then.", figures
    return max(gain, 0.0), ": the others lose no more without.", figures


def _instead(before: FieldWidth, after: FieldWidth) -> str:
    """2.4 years instead of 15; the unit once, where it is one."""
    first, then = in_words(before, after), in_words(after, before)
    number, _, unit = first.partition(" ")
    return f"{then} instead of {number if unit and unit.rstrip('s') in then else first}"


def _mean_ncp(fields: Sequence[FieldWidth]) -> float:
    return sum(each.ncp for each in fields) / len(fields) if fields else 0.0


def _narrowed(before: Sequence[FieldWidth], after: Measures) -> tuple[FieldWidth, FieldWidth] | None:
    """The field whose boxes lose most of their share of the domain, of those whose median is clearly narrower."""
    later = {each.field: each for each in after.fields}
    pairs = [(each, later[each.field]) for each in before if each.field in later]
    clear = [
        (first, then)
        for first, then in pairs
        if first.median is not None
        and then.median is not None
        and then.median <= _NARROWER * first.median
        and in_words(first, then) != in_words(then, first)
    ]
    return max(clear, key=lambda pair: pair[0].ncp - pair[1].ncp, default=None)


def _variant(solved: Solved, group: Group, change: Mapping[str, Any]) -> Tried | None:
    return next((each for each in solved.of(group) if each.variant.change == change), None)


def _small_windows(plain: PlainStatistics) -> Iterator[Recommendation]:
    """The policy's windows often have too few people, as counts say."""
    own = plain.own
    if own is None or own.small <= MANY_SMALL:
        return
    better = [each for each in plain.windows if each.length_ms > own.length_ms and each.small <= FEW_SMALL]
    figures: dict[str, Any] = {"small": [own.small, better[0].small if better else None]}
    if better:
        length = format_duration(better[0].length_ms)
        yield Recommendation(
            f"{_has(plain)} windows, whose rows wait or are rejected; one of {length} in {better[0].small:.0%}. Say"
            f" window: {length}.",
            "window",
            {"window": length},
            own.small - better[0].small,
            figures,
        )
    else:
        yield Recommendation(
            f"{_has(plain)} windows, and four weeks do not mend it. Say one single window: leave the time field and"
            " window out.",
            "window",
            {"window": None},
            own.small,
            figures,
        )


def _has(plain: PlainStatistics) -> str:
    own = plain.own
    assert own is not None
    return f"A window of {format_duration(own.length_ms)} has fewer than k = {plain.k} people in {own.small:.0%} of all"


def _longer_window(plain: PlainStatistics, solved: Solved, bound: BoundPolicy) -> Iterator[Recommendation]:
    """The shortest window that brings most of what a longer one can."""
    policy, own = bound.policy, solved.own
    longer = [
        each
        for each in solved.of(Group.GRID)
        if each.variant.policy.k == policy.k
        and (each.variant.policy.window_ms or 0) > (policy.window_ms or 0)
    ]
    small = list(_small_windows(plain))
    gains = {each.variant.policy.window_ms or 0: saved(own.cost, each.measures.cost) for each in longer}
    good = worthwhile(gains)
    if not good:
        yield from small
        return
    if small:
        # Where windows have too few people, the next ones that have enough.
        enough = [each.length_ms for each in plain.windows if each.small <= FEW_SMALL]
        good = [length for length, gain in gains.items() if gain >= LEAST_GAIN and length in enough]
    if not good:
        yield from small
        return
    length = min(good)
    after = next(each for each in longer if each.variant.policy.window_ms == length)
    figures: dict[str, Any] = {
        "cost": [own.cost, after.measures.cost],
        "rejected": [own.rejected, after.measures.rejected],
    }
    named = _narrowed(own.fields, after.measures)
    if named is not None:
        first, then = named
        figures |= {"field": first.field, "before": first.median, "after": then.median, "unit": first.unit}
        effect = f"publish {first.field} as {_instead(first, then)}"
    else:
        effect = f"lose {gains[length]:.0%} less"
    if own.rejected - after.measures.rejected >= FEW_SMALL:
        effect += f" and reject {after.measures.rejected:.1%} of the rows instead of {own.rejected:.1%}"
    told = _WORDS.get(length, format_duration(length))
    sentence = f"A window of {told} would {effect} (window: {format_duration(length)})."
    gain = gains[length]
    if small:
        figures |= small[0].measured
        sentence = f"{_has(plain)} windows. {sentence}"
        gain = max(gain, small[0].gain)
    yield Recommendation(sentence, "window", {"window": format_duration(length)}, gain, figures)


def _fields(plain: PlainStatistics, solved: Solved, bound: BoundPolicy) -> Iterator[Recommendation]:
    """Fields without which the others would be published much narrower; what follows from others has its own."""
    follows = {each.dependent for each in redundant(plain.follows)}
    alone = {each.fields[0]: each.share for each in plain.alone if len(each.fields) == 1}
    nulls = {each.field: each.share for each in plain.nulls}
    categories = {column.name for column in bound.quasis if not column.in_ranges}
    found = []
    for each in solved.of(Group.WITHOUT):
        names = list(each.variant.change["fields"])
        if len(names) > 1 or names[0] in follows:
            continue
        name = names[0]
        gain, effect, figures = _others(solved.own, each.measures, names)
        if gain < LEAST_GAIN:
            continue
        why = ""
        # Nearly every number is alone, and its neighbours are near; of categories nobody is near.
        if nulls.get(name, 0.0) > MANY_NULLS:
            why = f"{name} is missing in {nulls[name]:.0%} of the rows. "
            figures["missing"] = nulls[name]
        elif name in categories and alone.get(name, 0.0) > MANY_ALONE:
            why = f"{name} alone singles out {alone[name]:.0%} of the people. "
            figures["alone"] = alone[name]
        sentence = f"{why}Leave {name} out if nobody needs it (role: identifier){effect}"
        found.append(Recommendation(sentence, "field", each.variant.change, gain, figures))
    yield from sorted(found, key=lambda each: -each.gain)[:_MOST_SINGLE]


def _longer_delay(solved: Solved) -> Iterator[Recommendation]:
    own = next((each for each in solved.of(Group.DELAY) if not each.variant.change), None)
    if own is None:
        return
    longer = [
        each
        for each in solved.of(Group.DELAY)
        if each.variant.policy.max_delay_ms > own.variant.policy.max_delay_ms
        and saved(own.measures.cost, each.measures.cost) >= LEAST_GAIN
    ]
    if longer:
        yield _delayed(solved.own, longer[0])


def _delayed(own: Measures, after: Tried) -> Recommendation:
    gain = saved(own.cost, after.measures.cost)
    figures: dict[str, Any] = {
        "cost": [own.cost, after.measures.cost],
        "rejected": [own.rejected, after.measures.rejected],
    }
    named = _narrowed(own.fields, after.measures)
    effect = f"lose {gain:.0%} less"
    if named is not None:
        first, then = named
        figures |= {"field": first.field, "before": first.median, "after": then.median, "unit": first.unit}
        effect = f"publish {first.field} as {_instead(first, then)}"
    if own.rejected - after.measures.rejected >= FEW_SMALL:
        effect += f" and reject {after.measures.rejected:.1%} of the rows instead of {own.rejected:.1%}"
    sentence = f"Rows that may wait longer would {effect} (max_delay: {after.variant.name})."
    return Recommendation(sentence, "max_delay", after.variant.change, gain, figures)


def _lasting(solved: Solved, bound: BoundPolicy) -> Iterator[Recommendation]:
    """Cohorts that last, where people are put together afresh and lose more by it."""
    policy = bound.policy
    after = next(
        (
            each
            for each in solved.of(Group.PROTECTION)
            if each.variant.policy.promise.epochs and each.variant.change
        ),
        None,
    )
    if policy.promise.epochs or after is None:
        return
    gain = saved(solved.own.cost, after.measures.cost)
    if gain < LEAST_GAIN:
        return
    yield Recommendation(
        f"cohort: lasting would lose {gain:.0%} less, and its promise holds over all releases, not in each by itself.",
        "protection",
        after.variant.change,
        gain,
        {"cost": [solved.own.cost, after.measures.cost]},
    )


def _for_little(solved: Solved, bound: BoundPolicy) -> Iterator[Recommendation]:
    """What costs little or nothing and gives something else: a larger k, no waiting, larger cohorts."""
    policy, own = bound.policy, solved.own
    if own.cost >= _NOTHING_LEFT:
        return
    dearer = [
        each
        for each in solved.of(Group.GRID)
        if each.variant.policy.k >= 2 * policy.k
        and (each.variant.policy.window_ms or 0) >= (policy.window_ms or 0)
        and each.measures.cost <= own.cost
    ]
    if dearer:
        best = min(dearer, key=lambda each: (each.variant.policy.window_ms or 0, -each.variant.policy.k))
        length = best.variant.policy.window_ms or 0
        within = (
            ""
            if length == (policy.window_ms or 0)
            else f" in a window of {_WORDS.get(length, format_duration(length))}"
        )
        yield Recommendation(
            f"k = {best.variant.policy.k}{within} would lose no more than k = {policy.k} does now:"
            f" {best.measures.cost:.3f} instead of {own.cost:.3f}.",
            "k",
            best.variant.change,
            0.0,
            {"cost": [own.cost, best.measures.cost]},
        )
    at_once = _variant(solved, Group.DELAY, {"max_delay": 0})
    if (
        at_once is not None
        and at_once.measures.cost <= own.cost
        and at_once.measures.rejected <= own.rejected
        and at_once.measures.at_once - own.at_once >= FEW_SMALL
    ):
        yield Recommendation(
            f"max_delay: 0 would release {at_once.measures.at_once:.1%} of the rows with their own window instead of"
            f" {own.at_once:.1%}, and lose no more.",
            "max_delay",
            at_once.variant.change,
            0.0,
            {"at_once": [own.at_once, at_once.measures.at_once], "cost": [own.cost, at_once.measures.cost]},
        )
    if policy.cohort_size is not None:
        twice = _variant(solved, Group.PROTECTION, {"cohort_size": 2 * policy.cohort_size})
        if twice is not None and twice.measures.cost <= _LITTLE_DEARER * own.cost:
            yield Recommendation(
                f"cohort_size: {2 * policy.cohort_size} would leave {2 * policy.cohort_size} candidates or more instead"
                f" of {policy.cohort_size}, at a loss of {twice.measures.cost:.3f} instead of {own.cost:.3f}.",
                "cohort_size",
                twice.variant.change,
                0.0,
                {"cost": [own.cost, twice.measures.cost]},
            )


def _lonely(plain: PlainStatistics, bound: BoundPolicy) -> Iterator[Recommendation]:
    categories = {column.name for column in bound.quasis if not column.in_ranges}
    single = [
        each
        for each in plain.alone
        if len(each.fields) == 1 and each.fields[0] in categories and each.share > MANY_ALONE
    ]
    for lonely in sorted(single, key=lambda each: -each.share)[:1]:
        name = lonely.fields[0]
        yield Recommendation(
            f"{name} alone singles out {lonely.share:.0%} of the people, so most of what is lost is lost"
            " there. Give it a hierarchy, feed it coarser, or leave it out if nobody needs it.",
            "field",
            _without([name]),
            0.0,
            {"alone": lonely.share},
        )


def _missing(plain: PlainStatistics) -> Iterator[Recommendation]:
    for each in plain.nulls:
        if each.share > MANY_NULLS:
            yield Recommendation(
                f"{each.field} is missing in {each.share:.0%} of the rows. Leave it out if nobody needs it.",
                "field",
                _without([each.field]),
                0.0,
                {"missing": each.share},
            )


def _without(names: Sequence[str]) -> dict[str, Any]:
    return {"fields": {name: {"role": "identifier"} for name in names}}


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
