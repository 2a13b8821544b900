"""How the tests' readers decode records, and which errors they report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.support.reading import records_of


def message(code: int | None = None) -> Any:
    return SimpleNamespace(error=lambda: None if code is None else KafkaError(code))


def test_errors_that_pass_by_themselves_are_left_out() -> None:
    records = [message(), message()]
    passing = [message(code) for code in (KafkaError._TRANSPORT, KafkaError._PARTITION_EOF)]
    assert records_of([records[0], *passing, records[1]]) == records


@pytest.mark.parametrize("code", [KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._BAD_MSG, KafkaError._AUTO_OFFSET_RESET])
def test_errors_that_lose_records_are_not(code: int) -> None:
    with pytest.raises(KafkaException):
        records_of([message(), message(code), message()])
