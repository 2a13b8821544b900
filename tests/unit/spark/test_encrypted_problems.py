"""Columns of encrypted values: problems of records, and outages of the key service."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.encryption import KeyServiceError, KeyServiceUnavailable
from ottla.serdes.protocol import SerializationError
from ottla.spark import encryption


def converted(error: KeyServiceError) -> list[object]:
    """The rows of one value, for which the key service has this answer."""

    def convert(topic: str, _value: bytes) -> bytes:
        raise SerializationError("it cannot be decrypted", topic=topic) from error

    rows: list[object] = encryption._converted(convert, pa.array([b"x"]), pa.array(["orders"]), tries=True).to_pylist()
    return rows


def test_a_key_that_does_not_exist_is_a_problem_of_its_record() -> None:
    assert converted(KeyServiceError("no such key")) == [{"data": None, "error": "it cannot be decrypted"}]


def test_an_outage_of_the_key_service_is_not_a_problem_of_a_record() -> None:
    """The task fails and is repeated."""
    with pytest.raises(SerializationError, match="cannot be decrypted"):
        converted(KeyServiceUnavailable("Vault is sealed"))
