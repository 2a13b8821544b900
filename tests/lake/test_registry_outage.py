"""A registry that does not answer makes no dead letters."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.lake import shapes
from ottla.lake.columns import META_SCHEMA
from ottla.lake.shapes import TypedShape
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegistryClient, RegistryClientError, SchemaText
from ottla.serdes.rules.contracts import RuleFailed
from ottla.serdes.rules.data_keys import DataKeyRegistry, KeyRequest


class FailingRegistry(RegistryClient):
    """A registry that answers every request with this status; 0 is no answer."""

    def __init__(self, status: int) -> None:
        super().__init__("http://localhost:1")
        self.status = status

    def call(self, method: str, path: str, body: Any = None) -> Any:
        raise RegistryClientError(self.status, self.status, f"{method} {path} is answered with {self.status}")


def shape_with_encrypted_field(status: int, monkeypatch: pytest.MonkeyPatch) -> TypedShape:
    """A shape whose records need a data key of the registry."""
    keys = DataKeyRegistry(FailingRegistry(status), {})

    def decode(topic: str, _data: bytes) -> Any:
        request = KeyRequest(
            kek="kek",
            subject=f"{topic}-value",
            algorithm="AES256_GCM",
            expiry_days=0,
            kms_type="",
            kms_key_id="",
            is_reading=True,
        )
        try:
            return keys.for_reading(request, 1)
        except RuleFailed as error:
            raise SerializationError(f"the rule failed: {error}", topic=topic) from error

    monkeypatch.setattr(shapes, "_decoder", lambda *_: decode)
    columns = pa.schema([*META_SCHEMA, pa.field("name", pa.string())])
    return TypedShape("orders", columns, SchemaText("{}"), (), True)


def one_record() -> pa.RecordBatch:
    row = {"value": b"x", "topic": "orders", "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0}
    return pa.RecordBatch.from_pylist([row | {"headers": []}], schema=arrow_schema(True))


@pytest.mark.parametrize("status", [0, 503])
def test_a_data_key_that_the_registry_does_not_give_now_is_waited_for(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = shape_with_encrypted_field(status, monkeypatch)
    with pytest.raises(SerializationError, match="did not answer about keys"):
        shape.split(one_record())


def test_a_data_key_that_does_not_exist_makes_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, dead = shape_with_encrypted_field(404, monkeypatch).split(one_record())
    assert rows.num_rows == 0
    assert dead is not None
    assert dead.column("problem").to_pylist() == ["The value of orders: the rule failed: the registry has no key kek"]
