"""The example policies are valid and fit the data that they are for."""

from __future__ import annotations

import csv
import gzip
import os
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pytest

from kanonflow.schemas.avro_schema import avro_to_arrow, transaction_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.schemas.policy_file import load_policy, parse_policy, policy_from_avro_schema, to_mapping

EXAMPLES = ("adult", "complete_journey", "sparkov", "sparkov_rows", "transactions")
FILES = {
    "adult": ("adult/adult.csv", ";"),
    "complete_journey": ("complete_journey/transactions_with_demographics.csv", ","),
    "sparkov": ("sparkov/transactions_2020q1.csv.gz", ","),
    "sparkov_rows": ("sparkov/transactions_2020q1.csv.gz", ","),
}


def example(name: str) -> Policy:
    """A packaged example policy."""
    with resources.as_file(resources.files("kanonflow.policies").joinpath(f"{name}.yaml")) as path:
        return load_policy(path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid(name: str) -> None:
    """Each example loads from the package under the name of its file, and survives being spelled out."""
    policy = example(name)
    assert policy.name == name
    assert parse_policy(to_mapping(policy), "", "") == policy


def test_the_transaction_schema_holds_the_same_policy_as_its_file() -> None:
    """transaction.avsc and transactions.yaml are one policy in two forms, and it fits the schema."""
    schema = transaction_schema()
    policy = policy_from_avro_schema(schema, "transaction.avsc")
    assert policy == example("transactions")
    bound = bind(policy, avro_to_arrow(schema), text=False, source="transaction.avsc")
    text = bind(policy, avro_to_arrow(schema), text=True, source="transactions.csv")
    assert [column.in_ranges and column.values.grid for column in bound.quasis] == [
        "date",
        False,
        "float",
        "float",
        False,
        "decimal(2)",
    ]
    # Text and typed input lead to the same release; instants of the payload there are none.
    assert bound.canonical_schema == text.canonical_schema


def test_rows_and_individuals_of_sparkov_differ_in_the_promise_only() -> None:
    """sparkov_rows is sparkov with the weaker promise."""
    individuals, rows = example("sparkov"), example("sparkov_rows")
    assert (individuals.protect, rows.protect) == (Protection.INDIVIDUAL, Protection.ROW)
    assert individuals.fields == rows.fields


@pytest.mark.data
@pytest.mark.skipif("KANONFLOW_DATA" not in os.environ, reason="needs KANONFLOW_DATA")
@pytest.mark.parametrize("name", FILES)
def test_examples_fit_their_data(name: str) -> None:
    """Each example names the columns of its file."""
    file, delimiter = FILES[name]
    path = Path(os.environ["KANONFLOW_DATA"]) / file
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        names = next(csv.reader(lines, delimiter=delimiter))
    bind(example(name), pa.schema([(name, pa.string()) for name in names]), text=True, source=file)
