"""Every operator against Kafka Streams: results, names, repartition topics and changelog bytes are equal.

A few seeds here; `python -m tests.streams.compare 200` runs more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.streams.compare import difference, smallest
from tests.streams.generate import OPERATORS, make_case
from tests.streams.oracle.java import StreamsOracle, reason

pytestmark = pytest.mark.java

SEEDS = 2


@pytest.fixture(scope="module")
def oracle() -> Iterator[StreamsOracle]:
    why = reason()
    if why is not None:
        pytest.skip(why)
    with StreamsOracle() as streams_oracle:
        yield streams_oracle


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_emits_what_kafka_streams_emits(oracle: StreamsOracle, operator: str) -> None:
    for seed in range(SEEDS):
        case = make_case(operator, seed)
        if difference(oracle, case) is not None:
            case = smallest(oracle, case)
            pytest.fail(f"seed {seed}: {difference(oracle, case)}\n{json.dumps(case)}")
