"""Data contracts for tests, and the rules of confluent-kafka's serializers."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import types
from typing import Any

from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.registries import RegistryProcess

AVRO = {
    "type": "record",
    "name": "Person",
    "namespace": "x",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "ssn", "type": ["null", "string"], "default": None, "confluent:tags": ["PII"]},
        {"name": "photo", "type": ["null", "bytes"], "default": None, "confluent:tags": ["PII"]},
        {"name": "phones", "type": {"type": "array", "items": "string"}, "default": [], "confluent:tags": ["PII"]},
        {
            "name": "home",
            "default": None,
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Address",
                    "fields": [{"name": "street", "type": "string", "confluent:tags": ["PII"]}],
                },
            ],
        },
        {"name": "age", "type": "int", "default": 0},
    ],
}
ADA = {
    "name": "Ada",
    "ssn": "123-45-6789",
    "photo": b"\xff\x00",
    "phones": ["1", "2"],
    "home": {"street": "Main"},
    "age": 36,
}
LATEST = {"auto.register.schemas": False, "use.latest.version": True}
SECRET = {"secret": "open sesame"}
KEYS = {"encrypt.kms.type": "local-kms", "encrypt.kms.key.id": "mykey"}


def hkdf_module() -> types.ModuleType:
    """Replaces a package without a wheel, which Confluent's local key service needs: two functions of RFC 5869."""
    module = types.ModuleType("hkdf")

    def extract(salt: bytes | None, key: bytes, hash: Any = hashlib.sha512) -> bytes:
        return hmac.digest(salt or bytes(hash().digest_size), key, hash)

    def expand(key: bytes, info: bytes = b"", length: int = 32, hash: Any = hashlib.sha512) -> bytes:
        blocks, last = b"", b""
        while len(blocks) < length:
            last = hmac.digest(key, last + info + bytes([len(blocks) // hash().digest_size + 1]), hash)
            blocks += last
        return blocks[:length]

    module.hkdf_extract, module.hkdf_expand = extract, expand  # type: ignore[attr-defined]
    return module


def register_their_rules() -> None:
    """Registers the rule executors of confluent-kafka for all its serializers."""
    sys.modules.setdefault("hkdf", hkdf_module())
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
    from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
    from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver
    from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor

    kinds: list[Any] = [CelExecutor, CelFieldExecutor, JsonataExecutor, LocalKmsDriver]
    for kind in kinds:
        kind.register()


def their_registry() -> RuleRegistry:
    registry_class: Any = RuleRegistry
    registry: RuleRegistry = registry_class()
    return registry


def registered(registry: RegistryProcess, topic: str, schema: Any, *rules: dict[str, Any], **fields: Any) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    phase = fields.pop("phase", "domainRules")
    registry.register(f"{topic}-value", text, ruleSet={phase: list(rules)}, **fields)


def condition(expr: str, **fields: Any) -> dict[str, Any]:
    return {"name": "checked", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": expr, **fields}


def encrypting(topic: str, **fields: Any) -> dict[str, Any]:
    params = {"encrypt.kek.name": f"kek-{topic}", **KEYS, **fields.pop("params", {})}
    rule = {"name": "secret", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}
    return rule | {"params": params} | fields


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)
