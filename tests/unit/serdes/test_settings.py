"""Settings of serializers are honoured, or refused with a sentence."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.serdes import SerializationError
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.protocol import Header
from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, SchemaText
from ottla.serdes.rules.contracts import RuleMode, refuse_rules

GUID = str(uuid.UUID(int=7))


class Registry(RegistryClient):
    def __init__(self, rule_set: dict[str, Any] | None = None, guid: str = GUID) -> None:
        super().__init__("http://localhost:1")
        self._schema_text = SchemaText('"string"', rule_set=rule_set)
        self._guid = guid

    def call(self, method: str, path: str, body: Any = None) -> Any:
        schema = {"schema": self._schema_text.text, "ruleSet": self._schema_text.rule_set}
        return schema | {"id": 5, "version": 1, "subject": "t-value", "guid": self._guid}

    def latest(self, *_: Any, **__: Any) -> RegisteredSchema:
        return RegisteredSchema("t-value", 1, 5, self._guid, self._schema_text)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"use.schema.guid": GUID}, "needs schema.id.serializer=header"),
        ({"use.schema.id": 5, "schema.id.serializer": "header"}, "set use.schema.guid instead"),
        ({"context.name.strategy": "x.Y"}, "a context is part of the subject"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "is not USER_INFO or URL"),
    ],
)
def test_settings_without_effect_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AvroSerializer(client=Registry(), config=config)


def test_a_schema_can_be_named_by_its_guid() -> None:
    headers: list[Header] = []
    writer = AvroSerializer(client=Registry(), config={"use.schema.guid": GUID, "schema.id.serializer": "header"})
    assert writer.serialize("t", "x", headers) == b"\x02x"
    assert headers == [("__value_schema_id", b"\1" + uuid.UUID(GUID).bytes)]


def test_a_registry_without_guids_is_told() -> None:
    writer = AvroSerializer(client=Registry(guid=""), config={"schema.id.serializer": "header"})
    with pytest.raises(SerializationError, match="gives no GUIDs"):
        writer.serialize("t", "x", [])


def test_code_that_cannot_carry_out_rules_refuses_them() -> None:
    rule = {"name": "secret", "type": "ENCRYPT", "mode": "WRITEREAD"}
    with pytest.raises(ValueError, match="rule secret of type ENCRYPT, which cannot be used here"):
        refuse_rules(SchemaText("", rule_set={"domainRules": [rule]}), RuleMode.WRITE)
    refuse_rules(SchemaText("", rule_set={"domainRules": [rule | {"mode": "READ"}]}), RuleMode.WRITE)


@pytest.mark.parametrize("config", [{}, {"use.latest.version": True}])
def test_rules_are_not_ignored(config: dict[str, Any]) -> None:
    rule = {"name": "secret", "type": "ENCRYPT", "mode": "WRITEREAD"}
    registry = Registry({"domainRules": [rule]})
    missing = r"the rule secret failed: encrypt\.kek\.name is missing"
    with pytest.raises(SerializationError, match=missing):
        AvroSerializer(client=registry, config=config).serialize("t", "x")
    with pytest.raises(SerializationError, match=missing):
        AvroDeserializer(client=registry, config=config).deserialize("t", b"\0\0\0\0\5\2x")
    registry = Registry({"domainRules": [rule | {"disabled": True}]})
    assert AvroSerializer(client=registry, config=config).serialize("t", "x") == b"\0\0\0\0\5\2x"
