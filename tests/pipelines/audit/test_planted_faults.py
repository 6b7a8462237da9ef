"""What an audit sees: every planted fault, and whether it is found without matching records, with them, or not at all.

The count before the audit matched payloads and held files against the policy stands in
docs/decisions/040-what-verify-sees.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.matching_record_recipe import recipe_check
from kanonflow.transforms.secret.seeds import Secret
from tests.pipelines.audit import planted_faults as plant
from tests.pipelines.audit import planted_files as files
from tests.pipelines.audit import planted_parquet
from tests.pipelines.audit.good_runs import CARD, SHAPES, GoodRun, make_run, read

pytestmark = pytest.mark.thorough


class Sight(Enum):
    """When a fault is found."""

    FOUND = "without matching records"
    WITH_RECORDS = "only with matching records and secret"
    HIDDEN = "not visible"


@pytest.fixture(scope="module")
def good_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GoodRun]:
    """A good run of each promise."""
    return {shape: make_run(tmp_path_factory.mktemp(shape), shape) for shape in SHAPES}


@pytest.fixture(scope="module")
def parquet_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GoodRun]:
    """The same with releases in Parquet."""
    return {shape: make_run(tmp_path_factory.mktemp(shape), shape, "parquet") for shape in SHAPES}


def judged(run: GoodRun, *, recorded: bool) -> AuditReport:
    """The audit's report, with all that a data owner has or with none of it."""
    recipe = recipe_check(Secret.from_file(run.secret)) if recorded else None
    return audit(run.policy, [str(run.source)], run.out, matching_records=recorded, recipe=recipe)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("runs", ["good_runs", "parquet_runs"])
def test_a_good_run_passes_with_all_that_is_checked(
    shape: str, runs: str, request: pytest.FixtureRequest
) -> None:
    """No check fails a run that the command made, with and without matching records."""
    run = request.getfixturevalue(runs)[shape]
    for recorded in (False, True):
        assert judged(run, recorded=recorded).failures == ()


@pytest.mark.parametrize("shape", SHAPES)
def test_both_formats_hold_the_same_releases(
    shape: str, good_runs: dict[str, GoodRun], parquet_runs: dict[str, GoodRun]
) -> None:
    """The same names, schemas and rows; all other files are the same bytes, matching records among them."""
    one, other = good_runs[shape], parquet_runs[shape]
    assert [path.stem for path in one.releases] == [path.stem for path in other.releases]
    assert {path.suffix for path in other.releases} == {".parquet"}
    for avro, parquet in zip(one.releases, other.releases, strict=True):
        assert read(avro) == read(parquet)
    for place in ("metrics", "restricted/rejected", "restricted/matching_records"):
        names = sorted(path.name for path in (one.out / place).iterdir())
        assert names == sorted(path.name for path in (other.out / place).iterdir())
        assert all(name.endswith(".avro") for name in names)
    for number in range(len(one.releases)):
        twins = [run.twin("restricted/matching_records", number).read_bytes() for run in (one, other)]
        assert twins[0] == twins[1]


Fault = Callable[[GoodRun], None]
# Fault, when it is found, and a piece of what the report says: of the failure, or of the line that says it was not
# checked.
TABLE: tuple[tuple[Fault, Sight, str], ...] = (
    (plant.row_dropped, Sight.FOUND, "the payload is not that of the input"),
    (plant.row_doubled, Sight.FOUND, "repeat a value: a record was published twice"),
    (plant.payloads_swapped_across_windows, Sight.FOUND, "payloads stand in other boxes or windows"),
    (plant.all_payloads_shuffled_over_all_days, Sight.FOUND, "payloads stand in other boxes or windows"),
    (plant.payload_swapped_out_of_its_box, Sight.FOUND, "payloads stand in other boxes or windows"),
    (
        plant.payload_swapped_within_two_boxes,
        Sight.WITH_RECORDS,
        "payloads that changed places between boxes",
    ),
    (plant.payload_value_altered, Sight.FOUND, "the payload is not that of the input"),
    (plant.one_field_swapped, Sight.FOUND, "the payload is not that of the input"),
    (plant.identifier_in_the_payload, Sight.FOUND, "the payload is not that of the input"),
    (plant.order_of_the_input, Sight.FOUND, "do not stand in the order of what they publish"),
    (plant.box_narrowed, Sight.FOUND, ""),
    (plant.box_widened_by_a_step, Sight.FOUND, "field born: an end that is not the line of its grid"),
    (plant.box_widened_to_the_domain, Sight.FOUND, "field age: an end that is not the line of its grid"),
    (plant.end_off_its_grid, Sight.FOUND, "field age: an end that is not the line of its grid"),
    (plant.date_end_off_its_grid, Sight.FOUND, "field born: an end that is not the line of its grid"),
    (plant.digits_in_an_automatic_end, Sight.FOUND, "field height: an end that is not the line of its grid"),
    (plant.exact_hull_published, Sight.FOUND, "field age: an end that is not the line of its grid"),
    (plant.known_value_added_to_a_set, Sight.FOUND, "field town: a set with values that no record"),
    (plant.unknown_value_added_to_a_set, Sight.FOUND, "field town: a set with values that no record"),
    (plant.set_out_of_order, Sight.FOUND, "field town: a set out of order"),
    (plant.value_twice_in_a_set, Sight.FOUND, "field town: a set that names a value twice"),
    (plant.null_flag_raised, Sight.FOUND, "field born: a range holds null"),
    (plant.null_flag_lowered, Sight.FOUND, ""),
    (plant.label_raised, Sight.FOUND, "field place: a label that is not the lowest"),
    (plant.label_lowered, Sight.FOUND, "not a generalization of the original"),
    (plant.one_row_with_a_box_of_its_own, Sight.FOUND, ""),
    (plant.window_start_older, Sight.FOUND, "window_start is older than any record"),
    (plant.window_end_later, Sight.FOUND, "its metrics tell another window_end"),
    (plant.window_of_one_row_altered, Sight.FOUND, "rows of one release name different windows"),
    (plant.release_file_renamed, Sight.FOUND, "the file's name is not the id"),
    (plant.release_of_another_run, Sight.FOUND, "released more than once"),
    (plant.release_id_of_a_row_altered, Sight.FOUND, "the file's name is not the id"),
    (plant.hidden_file_among_the_releases, Sight.FOUND, "1 entries that are not releases"),
    (files.extra_column, Sight.FOUND, "fields that the policy does not publish: position"),
    (files.card_number_in_the_schema, Sight.FOUND, "a schema whose names, documentation or properties"),
    (files.property_of_a_field_altered, Sight.FOUND, "a schema whose names, documentation or properties"),
    (files.key_in_the_header, Sight.FOUND, "a header with other keys than codec and schema"),
    (files.schema_spelled_otherwise, Sight.FOUND, "a header that says the right things in another form"),
    (files.bytes_in_the_marker, Sight.FOUND, "a sync marker that does not follow"),
    (files.another_codec, Sight.FOUND, "another codec than deflate"),
    (files.empty_block_behind_the_last, Sight.FOUND, "a block without rows"),
    (files.bytes_behind_the_rows, Sight.FOUND, "bytes behind a block's rows"),
    (files.bytes_behind_the_stream, Sight.FOUND, "bytes behind a block's compressed stream"),
    (files.other_compression, Sight.HIDDEN, "which of several spellings the same bytes have"),
    (files.rows_in_other_blocks, Sight.HIDDEN, "which of several spellings the same bytes have"),
    (files.count_in_the_metrics_altered, Sight.FOUND, "its metrics tell another rows_released"),
    (files.people_in_the_metrics_altered, Sight.FOUND, "its metrics tell another individuals"),
    (files.people_shown_altered, Sight.FOUND, "public metrics: another individuals than the exact ones"),
    (files.ledger_in_the_metrics_altered, Sight.FOUND, "its metrics tell a ledger that does not add up"),
    (files.loss_in_the_metrics_altered, Sight.HIDDEN, "losses, bounds, effort and times in the metrics"),
    (files.metrics_of_a_release_missing, Sight.FOUND, "a release without metrics"),
    (files.exact_metrics_made_public, Sight.FOUND, "public metrics: a schema whose names"),
    (files.public_metrics_without_leave, Sight.FOUND, "the policy does not make metrics public"),
    (files.public_metrics_missing, Sight.FOUND, "a release without public metrics"),
    (files.rejected_row_missing, Sight.FOUND, "were not rejected"),
    (
        files.reason_of_a_rejection_altered,
        Sight.FOUND,
        "rejected rows name a faulty value where there is none",
    ),
    (files.restricted_open_to_all, Sight.FOUND, "open to others than its owner in 1 places"),
    (files.secret_open_to_all, Sight.FOUND, "(the secret among them)"),
    (files.record_of_a_release_missing, Sight.WITH_RECORDS, "which member a row belongs to"),
    (files.member_list_altered, Sight.WITH_RECORDS, "which member a row belongs to"),
    (files.matching_chosen_by_hand, Sight.WITH_RECORDS, "uniformity of the permutation"),
    (files.released_again_elsewhere, Sight.HIDDEN, "second releases in other directories"),
    (files.times_of_a_file_altered, Sight.HIDDEN, "who has read the files"),
)
# In Parquet header and blocks are others, and rows in other groups are seen.
OF_AVRO = (
    files.key_in_the_header,
    files.bytes_in_the_marker,
    files.another_codec,
    files.empty_block_behind_the_last,
    files.bytes_behind_the_rows,
    files.bytes_behind_the_stream,
    files.rows_in_other_blocks,
    files.schema_spelled_otherwise,
    files.other_compression,
)
_OTHER_BYTES = "other bytes than pyarrow writes of its rows"
OF_PARQUET: tuple[tuple[Fault, Sight, str], ...] = (
    (files.key_in_the_header, Sight.FOUND, "a footer with other keys than the schema's"),
    (files.schema_spelled_otherwise, Sight.FOUND, "a schema that says the right things in another form"),
    (files.another_codec, Sight.FOUND, _OTHER_BYTES),
    (files.other_compression, Sight.FOUND, _OTHER_BYTES),
    (files.rows_in_other_blocks, Sight.FOUND, _OTHER_BYTES),
    (planted_parquet.schema_missing, Sight.FOUND, "a footer with other keys than the schema's"),
    (planted_parquet.schema_of_arrow_kept, Sight.FOUND, "a footer with other keys than the schema's"),
    (planted_parquet.statistics, Sight.FOUND, _OTHER_BYTES),
    (planted_parquet.page_index, Sight.FOUND, _OTHER_BYTES),
    (planted_parquet.number_of_a_field, Sight.FOUND, _OTHER_BYTES),
    (planted_parquet.another_writer, Sight.FOUND, "a footer that names another writer than pyarrow"),
    (planted_parquet.value_that_no_row_has, Sight.FOUND, _OTHER_BYTES),
    (
        planted_parquet.values_in_another_order,
        Sight.FOUND,
        _OTHER_BYTES,
    ),
    (planted_parquet.bytes_before_the_footer, Sight.FOUND, _OTHER_BYTES),
    (planted_parquet.columns_in_another_order, Sight.FOUND, _OTHER_BYTES),
    (planted_parquet.column_twice, Sight.FOUND, "1 fields that stand there twice"),
    (
        planted_parquet.column_never_null,
        Sight.FOUND,
        "fields of another type than the policy and the input say: note",
    ),
    (
        planted_parquet.wider_numbers,
        Sight.FOUND,
        "fields of another type than the policy and the input say: age",
    ),
    (planted_parquet.cut_off, Sight.FOUND, "not a Parquet file"),
    (planted_parquet.the_same_in_avro_beside_it, Sight.FOUND, "releases of several formats"),
)
IN_PARQUET = (*(each for each in TABLE if each[0] not in OF_AVRO), *OF_PARQUET)
# Closed classes have no two boxes that hold a record each of the other.
ONE_PROMISE = {plant.payload_swapped_within_two_boxes: "rows"}


@pytest.mark.parametrize(("fault", "sight", "says"), TABLE, ids=[fault.__name__ for fault, _, _ in TABLE])
def test_what_is_found_of_planted_faults(
    fault: Fault, sight: Sight, says: str, good_runs: dict[str, GoodRun], tmp_path: Path
) -> None:
    """Each fault is found as the table says; what is not found is named among what was not checked."""
    _planted(fault, sight, says, good_runs, tmp_path)


@pytest.mark.parametrize(
    ("fault", "sight", "says"), IN_PARQUET, ids=[fault.__name__ for fault, _, _ in IN_PARQUET]
)
def test_what_is_found_of_faults_in_parquet(
    fault: Fault, sight: Sight, says: str, parquet_runs: dict[str, GoodRun], tmp_path: Path
) -> None:
    """The same faults in releases of the other format, and those that only it can have."""
    _planted(fault, sight, says, parquet_runs, tmp_path)


def _planted(fault: Fault, sight: Sight, says: str, runs: dict[str, GoodRun], tmp_path: Path) -> None:
    shapes = [ONE_PROMISE[fault]] if fault in ONE_PROMISE else list(SHAPES)
    for shape in shapes:
        run = runs[shape].copied(tmp_path / shape)
        fault(run)
        plain = judged(run, recorded=False)
        if sight is Sight.FOUND:
            assert any(says in failure for failure in plain.failures), plain.render()
            assert CARD not in plain.render()
            continue
        assert plain.failures == ()
        assert any(says in line for line in plain.not_checked), plain.render()
        full = judged(run, recorded=True)
        assert (full.failures != ()) == (sight is Sight.WITH_RECORDS), full.render()
        if sight is Sight.HIDDEN:
            assert any(says in line for line in full.not_checked), full.render()


def test_most_faults_are_found_without_matching_records() -> None:
    """38 faults or more are planted; 54 of 63 are found from input and releases alone, and every fault once."""
    found = [fault for fault, sight, _ in TABLE if sight is Sight.FOUND]
    assert (len(found), len(TABLE), len({fault for fault, _, _ in TABLE})) == (54, 63, 63)


def test_the_report_says_what_was_not_checked(
    good_runs: dict[str, GoodRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Text and JSON list it with the reason; with matching records and secret the list is shorter."""
    run = good_runs["rows"]
    flags = ["verify", "--policy", str(run.policy), "--input", str(run.source), "--release", str(run.out)]
    assert main(flags) == 0
    text = capsys.readouterr().out
    assert "not checked:\n" in text
    assert "  - which member a row belongs to: no matching records given (--matching-records)" in text
    assert main([*flags, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["not_checked"]
    assert all(": " in line and f"  - {line}" in text for line in told)
    assert len(judged(run, recorded=True).not_checked) < len(told)
