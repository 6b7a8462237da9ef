"""``kanonflow policy check``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import pyarrow as pa
import pyarrow.csv

from kanonflow.pipelines.commands.ends_of_ranges import ends_of_ranges_notes, singling_out_note
from kanonflow.pipelines.commands.hierarchy_coverage import values_without_leaf
from kanonflow.pipelines.feeds.read_files import ReadOnce
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.fit.input_fit import InputFit
from kanonflow.pipelines.fit.sampled_fit import refused_input, sampled_fit
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_source import read_policy
from kanonflow.schemas.printable import printable

_RULED = (
    "Every class meets the rules for {fields}, each field by itself, in the rows that are released. The classes,"
    " and who waits, then depend on these values: somebody who knows the method and works out what the search would"
    " have done without the rules can learn from where it did not (minimality)."
)


_FIT_ONLY = (
    "No risk was measured: what payload and people tell is said without --fit-only, and a policy that is refused for it"
    " is refused by every run."
)


class PolicyCheck(NamedTuple):
    """text: what was found out. refusal: why the policy cannot be used over these files; None when it can.

    policy: as it was read. figures: of the payload, as JSON has them; None: none was measured.
    told: what was found out, for programs, of plain values.
    """

    text: str
    refusal: PolicyError | None
    policy: Policy
    figures: dict[str, Any] | None = None
    told: Mapping[str, Any] = {}

    def to_json(self) -> str:
        """What was found out as a JSON object."""
        refused = () if self.refusal is None else self.refusal.mistakes
        return json.dumps({**self.told, "refused": list(refused)}, indent=1)


def check_policy(
    path: str,
    patterns: Sequence[str] | None,
    delimiter: str | None = None,
    input_format: str | None = None,
    *,
    fit_only: bool = False,
    terminal: TextIO | None = None,
) -> PolicyCheck:
    """What the policy promises and what it does not; also that it fits the files, if there are any.

    Over files a sample spread over all of them is cast (see ``input_fit``). If it fits, the risks of every payload
    field are measured (see ``payload_risks``), and under ``cohort: lasting`` those of the feed as a whole (see
    ``lasting_risks``).
    fit_only: stop at whether they fit: no risk is measured, and no solver is loaded.
    terminal: where it stands that kernels are compiled first; None: nowhere.
    Raises PolicyError with all mistakes, InputError.
    """
    policy = read_policy(path)
    if not fit_only:
        from kanonflow.transforms.solver_check import check_solver

        check_solver(policy)
    lines = [f"{path}: policy {policy.name}, k = {policy.k}"]
    table = ""
    told: dict[str, Any] = {"policy": policy.name, "k": policy.k, "fits": list(patterns or ())}
    refusal: PolicyError | None = None
    figures = None
    if patterns:
        over = _over_files(
            policy, path, patterns, delimiter, input_format, fit_only=fit_only, terminal=terminal
        )
        lines, table, refusal, figures = [*lines, *over.lines], over.table, over.refusal, over.figures
        told |= over.told
    lines += [f"- {note}" for note in _notes(policy)]
    return PolicyCheck(
        "\n".join(map(printable, lines)) + table, refusal, policy, figures, told | {"said": lines}
    )


class _OverFiles(NamedTuple):
    """lines: for the head. table: of figures, as text. refusal: why the policy cannot be used over the files.

    figures: of the payload, None where it was not measured. told: as of ``PolicyCheck``.
    """

    lines: list[str]
    table: str
    refusal: PolicyError | None
    figures: dict[str, Any] | None = None
    told: Mapping[str, Any] = {}


def _over_files(
    policy: Policy,
    path: str,
    patterns: Sequence[str],
    delimiter: str | None,
    input_format: str | None,
    *,
    fit_only: bool,
    terminal: TextIO | None,
) -> _OverFiles:
    """What the files look like under the policy, and what their people and payload tell."""
    files, schema, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    dropped = [name for name in schema.columns.names if name not in bound.input_columns]
    named = None
    if policy.people is not None:
        from kanonflow.pipelines.fit.people_file import read_people  # loads solvers

        named = read_people(bound, path)
    reading = ReadOnce()
    fit = sampled_fit(files, bound, csv, reading)
    misfit = refused_input(fit, files, csv, ", ".join(patterns))
    verdict = "fits" if misfit is None else "does not fit"
    lines = [f"{verdict} {', '.join(patterns)}; not read: {', '.join(dropped) or 'nothing'}"]
    lines += [] if named is None else [f"- {named.note}"]
    lines += [f"- {line}" for line in values_without_leaf(files, bound, csv)]
    table = f"\n{fit.render()}"
    figures: dict[str, Any] = {"not_read": dropped, "fit": fit.render().splitlines()}
    if misfit is not None:
        # What is left of such an input says nothing of its payload.
        return _OverFiles(lines, table, misfit, told=figures)
    if fit_only:
        return _OverFiles([*lines, f"- {_FIT_ONLY}"], table, None, told=figures)
    # The risks load solvers, which whoever asks for the fit alone need not wait for.
    from kanonflow.pipelines.dry_run.feed import read_feed
    from kanonflow.pipelines.pictures.value_parts import input_parts
    from kanonflow.pipelines.risks.lasting_risks import lasting_risks
    from kanonflow.pipelines.risks.payload_sample import measured_files
    from kanonflow.pipelines.risks.window_sizes import window_sizes
    from kanonflow.pipelines.runs.kernel_cache import compile_first
    from kanonflow.transforms.risks.idle_boxes import idle_boxes

    compile_first(bound, terminal, here=policy.lasting)
    rows, risks = measured_files(files, bound, csv, reading)
    people = window_sizes(rows, bound)
    lines += [f"- {line}" for line in people.told(policy.k, all_rows=_are_all(rows, fit))]
    refusal: PolicyError | None = risks.refusal(path)
    table = f"{table}\n{risks.render()}"
    figures["payload"] = [{**risk._asdict(), "verdict": risk.verdict} for risk in risks.risks]
    loss = risks.loss
    if policy.lasting:
        expected = None if named is None else named.rows
        measured = lasting_risks(read_feed(files, bound, csv, reading=reading), bound, expected)
        figures["lasting"] = measured.render().splitlines()
        loss = measured.loss
        table, refusal = f"{table}\n{measured.render()}", _together(refusal, measured.refusal(path), path)
    if (asked := idle_boxes(loss, policy)) is not None:
        lines.append(f"- {asked}")
    if _are_all(rows, fit) and (few := people.refusal(policy.k, path)) is not None:
        refusal = _together(few, refusal, path)
    return _OverFiles(lines, table, refusal, risks.figures() | {"fields": input_parts(rows, bound)}, figures)


def _are_all(rows: pa.Table, fit: InputFit) -> bool:
    """Whether the rows that risks are measured on are all that the files have: so are those of the sample then."""
    return fit.whole and rows.num_rows >= fit.rows - fit.unfit


def _together(first: PolicyError | None, second: PolicyError | None, source: str) -> PolicyError | None:
    """One error with the mistakes of both."""
    if first is None or second is None:
        return first or second
    from kanonflow.pipelines.risks.lasting_risks import LastingRiskError

    return LastingRiskError([*first.mistakes, *second.mistakes], source)


def renamed_note(policy: Policy) -> list[str]:
    """Which fields stand in releases under another name, for Avro has letters, digits and _ only; [] of none."""
    names = ", ".join(f"{name} -> {published}" for name, published in policy.renamed)
    return [f"Published under names that Avro takes: {names}."] if names else []


def _notes(policy: Policy) -> list[str]:
    notes = [*policy.promise.covered(policy), f"What shows it: {policy.promise.evidence}"]
    if policy.ruled:
        notes.append(_RULED.format(fields=", ".join(field.name for field in policy.ruled)))
    if policy.by_levels:
        notes.append(
            f"solver: {policy.solver.method}. Every field of a release stands at one level of its hierarchy; at most"
            f" {policy.solver.suppression:.3g} of a window's rows are rejected (suppressed) so that it can be lower."
        )
    notes += [f"Accepted risk of {name}: {reason}" for name, reason in policy.accepted_risks.items()]
    notes += renamed_note(policy)
    if policy.event_id is None:
        notes.append(
            "No event_id: rows that are equal count as separate records. If the source may deliver a row"
            " twice, give the field that tells (role: event_id)."
        )
    if policy.time is None:
        notes.append("No time field: the whole input is one window.")
    notes += [*ends_of_ranges_notes(policy), singling_out_note(policy)]
    kinds = [
        (field, quasi, KINDS[quasi.type]) for field in policy.quasis if (quasi := field.quasi) is not None
    ]
    open_ended = [field.name for field, quasi, kind in kinds if kind.in_ranges and quasi.domain is None]
    if open_ended:
        notes.append(
            f"No domain for {', '.join(open_ended)}: the loss is measured against what was seen so far, and"
            " no value is refused as impossible."
        )
    return [*notes, *policy.promise.waits(policy)]
