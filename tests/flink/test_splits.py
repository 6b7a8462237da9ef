"""A job that ends reads one large file on both TaskManagers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.feeds import bounded_source
from kanonflow.pipelines.feeds.bounded_source import FileSplit, ReadBatches, file_splits
from kanonflow.pipelines.feeds.input_files import InputFile, find_inputs
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import RawBatch, from_ipc

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ROWS = 400_000


def small_splits(file: InputFile, form: CsvForm) -> Iterator[FileSplit]:
    """Splits of a mebibyte."""
    return file_splits(file, form, 1 << 20)


class NoteReader(beam.DoFn):
    """Writes down who read a batch: a file, named by the process, of the rows' numbers. folder: of the files."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def process(self, batch: RawBatch) -> Iterator[None]:
        numbers = from_ipc(batch.ipc).column("number").to_pylist()
        Path(self._folder, f"{os.getpid()}-{batch.name}").write_text("\n".join(numbers))
        yield from ()


def test_one_file_is_read_on_both_task_managers(
    cluster: SessionCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row once, and each worker process reads a part."""
    path = tmp_path / "feed.csv"
    lines = (f'{number},"in\nquotes"\n' for number in range(ROWS))
    path.write_text("number,text\n" + "".join(lines))
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(bounded_source, "file_splits", small_splits)
    options = PipelineOptions([*cluster.flags(), "--parallelism=4"])
    with beam.Pipeline(options=options) as pipeline:
        read = pipeline | ReadBatches(find_inputs([str(path)]), ["number"])
        _ = read | beam.ParDo(NoteReader(str(notes)))
    read_by: dict[str, list[int]] = {}
    for note in notes.iterdir():
        read_by.setdefault(note.name.partition("-")[0], []).extend(map(int, note.read_text().split()))
    assert sorted(number for numbers in read_by.values() for number in numbers) == list(range(ROWS))
    assert len(read_by) == 2
    assert min(map(len, read_by.values())) > ROWS // 20
