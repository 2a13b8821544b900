"""A registry or a key service that does not answer makes no dead letters."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.encryption import KeyServiceError, KeyServiceUnavailable
from ottla.lake import shapes
from ottla.lake.columns import META_SCHEMA
from ottla.lake.shapes import TypedShape
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegistryClient, RegistryClientError, SchemaText
from ottla.serdes.rules import RuleCall, RuleEngine, RuleFailed, RuleMode, RulePhase
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


class KeyRegistry(RegistryClient):
    """A registry whose keys are in the key service `test`."""

    def __init__(self) -> None:
        super().__init__("http://localhost:1")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if path.count("/") == 4:
            return {"name": "kek", "kmsType": "test", "kmsKeyId": "orders"}
        return {"version": 1, "encryptedKeyMaterial": "AAAA"}


class FailingKeyService:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        raise self.error

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        raise self.error


def shape_with_key_service(error: Exception, monkeypatch: pytest.MonkeyPatch) -> TypedShape:
    """A shape whose records have a rule that encrypts."""
    rules = RuleEngine({"key.services": {"test": FailingKeyService(error)}})
    params = {"encrypt.kek.name": "kek"}
    schema = SchemaText(
        "{}",
        rule_set={"encodingRules": [{"name": "hide", "type": "ENCRYPT_PAYLOAD", "params": params}]},
    )

    def decode(topic: str, data: bytes) -> Any:
        call = RuleCall(
            topic=topic,
            is_key=False,
            subject=f"{topic}-value",
            mode=RuleMode.READ,
            schema=schema,
            headers=[],
            key=None,
            value=data,
        )
        return rules.run(RulePhase.ENCODING, KeyRegistry(), call, data)

    monkeypatch.setattr(shapes, "_decoder", lambda *_: decode)
    columns = pa.schema([*META_SCHEMA, pa.field("name", pa.string())])
    return TypedShape("orders", columns, SchemaText("{}"), (), True)


@pytest.mark.parametrize("error", [KeyServiceUnavailable("sealed"), ConnectionRefusedError("down"), TimeoutError()])
def test_a_key_service_that_does_not_answer_is_waited_for(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SerializationError, match="the rule hide failed"):
        shape_with_key_service(error, monkeypatch).split(one_record())


def test_a_key_that_is_not_permitted_makes_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    _, dead = shape_with_key_service(KeyServiceError("permission denied"), monkeypatch).split(one_record())
    assert dead is not None
    assert dead.column("problem").to_pylist() == ["The value of orders: the rule hide failed: permission denied."]
