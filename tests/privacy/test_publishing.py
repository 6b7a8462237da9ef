"""What publishing may depend on, and what must not show in it."""

from __future__ import annotations

import logging
import pickle

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Field, Policy, Quasi, QuasiType, Role
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.publishing.publish import publish
from kanonflow.transforms.release.canonical_order import canonical_order
from kanonflow.transforms.secret.seeds import (
    Keystream,
    ReleaseSlot,
    Secret,
    array_digest,
    publish_keystream,
    release_id,
)
from tests.regular_graphs import ring
from tests.transforms.window_rows import bound_policy, window_rows

KEY = bytes(range(60, 92))


class _Carrier(beam.DoFn):
    """A DoFn that carries a secret, as the solving step does."""

    def __init__(self, secret: Secret) -> None:
        self.secret = secret

    def process(self, element: int) -> list[int]:
        return [element]


def test_no_secret_in_repr_display_data_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Representations, Beam's display data and log lines of a transform that holds the secret hide it."""
    secret = Secret(KEY)
    transform = beam.ParDo(_Carrier(secret))
    display = DisplayData.create_from(transform)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger(__name__).warning("with %s, %r and %s", secret, secret, vars(_Carrier(secret)))
    shown = [repr(secret), f"{secret:>50}", str(display.items), str(display.to_proto()), caplog.text]
    forms = (KEY.decode("latin-1"), KEY.hex(), repr(KEY)[2:-1], str(list(KEY)))
    assert not any(form in text for form in forms for text in shown)
    assert pickle.loads(pickle.dumps(transform.fn)).secret == secret


def small_window(payloads: list[str]) -> tuple[pa.Table, BoundPolicy]:
    """Rows with equal quasi-identifiers, and one of each payload."""
    schema = pa.schema({"age": pa.int64(), "shop": pa.string()})
    fields = (Field("age", Role.QUASI, quasi=Quasi(QuasiType.NUMERIC)), Field("shop", Role.SENSITIVE))
    bound = bind(Policy(name="t", k=2, fields=fields), schema, text=False, source="rows")
    return pa.table([[30] * len(payloads), payloads], schema=schema), bound


def test_payload_order_cannot_choose_the_slot() -> None:
    """Rows that differ in their payload only: over 4,000 secrets the payload that sorts first stands at each
    of 4 places of the canonical order a quarter of the time (chi-square, 3 degrees, below 21.1: false alarm
    0.01%); ordered by content it would always come first, and whoever knows it would know its slots."""
    rows, bound = small_window(["a", "b", "c", "d"])
    places = np.zeros(4)
    for number in range(4_000):
        order = canonical_order(rows, bound, Secret(number.to_bytes(32, "big")))
        places[order.tolist().index(0)] += 1
    assert ((places - 1_000) ** 2 / 1_000).sum() < 21.1


def test_payloads_do_not_move_other_rows() -> None:
    """Other payloads leave the canonical order of rows that do not tie unchanged."""
    bound = bound_policy()
    rows, secret = window_rows(100, 2, bound), Secret(KEY)
    serial = rows.schema.get_field_index("serial")
    changed = rows.set_column(serial, rows.schema.field(serial), pa.array(np.arange(100)[::-1] + 500))
    assert np.array_equal(canonical_order(rows, bound, secret), canonical_order(changed, bound, secret))


def released(rows: pa.Table, bound: BoundPolicy, secret: Secret) -> bytes:
    """The Arrow bytes of a release made as the pipeline makes it, on a ring along the canonical order."""
    rows = rows.take(pa.array(canonical_order(rows, bound, secret)))
    members = ring(rows.num_rows, bound.policy.k)
    name = release_id(secret, bound.policy.name, ReleaseSlot(b"p", 86_400_000, 0))
    keystream = publish_keystream(secret, name, array_digest(members), content_digest(rows))
    table = publish(rows, GeneralizationGraph(members), bound, keystream, name, (0, 86_400_000)).rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def test_the_release_does_not_depend_on_arrival() -> None:
    """The same rows in any order and any chunks become byte-identical releases."""
    bound, secret = bound_policy(), Secret(KEY)
    rows = window_rows(120, 9, bound)
    expected = released(rows, bound, secret)
    for seed in range(3):
        shuffled = rows.take(pa.array(np.random.default_rng(seed).permutation(120)))
        assert (
            released(pa.concat_tables([shuffled.slice(0, 50), shuffled.slice(50)]), bound, secret) == expected
        )


def test_the_released_order_tells_nothing_about_the_records() -> None:
    """Rows whose published content is equal but for the payload leave in the payload's order, not in that of
    the records or slots."""
    rows, bound = small_window([f"s{number:03d}" for number in np.random.default_rng(4).permutation(50)])
    for key in range(3):
        table = publish(
            rows, GeneralizationGraph(ring(50, 2)), bound, Keystream(bytes([key]) * 32), "r", (None, None)
        )
        assert table.rows["shop"].to_pylist() == sorted(rows["shop"].to_pylist())
