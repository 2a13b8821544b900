"""The action DLQ: a record that a rule stops is sent to a dead-letter topic, with Confluent's headers.

Serializers have no producer of their own: `dlq.sender` is a function that takes a `DeadLetter`, for example
`lambda letter: producer.send(letter.topic, letter.value, letter.key, headers=letter.headers)` with a blocking producer.
Data that a rule of the schema encrypts is redacted, because a record may fail before its encryption: fields by their
tags, or the whole value for ENCRYPT_PAYLOAD.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.serdes.protocol import Header
from ottla.serdes.registry_client import SchemaText
from ottla.serdes.rules.contracts import Field, Rule, RuleCall, RuleMode, RulePhase, rules_of, transform_fields

__all__ = ["RULE_NAME", "DeadLetter", "DeadLetters"]

RULE_NAME = "__rule.name"
_REDACTED = "<REDACTED>"
_WHOLE_VALUE = "ENCRYPT_PAYLOAD"
_REDACTED_TYPES = f"ENCRYPT,{_WHOLE_VALUE}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class DeadLetters:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self._topic = str(config.get("dlq.topic") or "")
        self._sender: Callable[[DeadLetter], object] | None = config.get("dlq.sender")
        if self._sender is not None and not callable(self._sender):
            raise ValueError("dlq.sender is a function that takes a DeadLetter.")
        types = str(config.get("dlq.redact.rule.types") or _REDACTED_TYPES)
        self._redacted_types = {rule_type.strip().upper() for rule_type in types.split(",")}

    def send(self, rule: Rule, call: RuleCall, error: Exception | None) -> str:
        """Sends the record of a failed rule. Returns the outcome, for the message of the error."""
        topic = self._topic or call.parameter(rule, "dlq.topic") or ""
        if not topic:
            return "it was not sent to a dead-letter topic: set dlq.topic"
        if self._sender is None:
            return f"it was not sent to {topic}: set dlq.sender"
        encrypting = self.encrypting(call.schema)
        # The message of an error may quote a field.
        reason = None if error is None else rule.failure if encrypting else str(error)
        try:
            # The other half of the record has its own schema. Its serializer has already hidden what it encrypts.
            key = _bytes(call, call.key, encrypting if call.is_key else [])
            value = _bytes(call, call.value, [] if call.is_key else encrypting)
            self._sender(DeadLetter(topic, key, value, _headers(rule, call, reason)))
        except Exception as failure:  # noqa: BLE001 - a sender may raise anything, and the record is refused in any case
            return f"it could not be sent to {topic}: {failure}"
        return f"it was sent to {topic}"

    def encrypting(self, schema: SchemaText) -> list[Rule]:
        """The encrypting rules of the schema, of all phases: a record may fail before any of them has run."""
        rules = [rule for phase in (RulePhase.DOMAIN, RulePhase.ENCODING) for rule in rules_of(schema, phase)]
        return [rule for rule in rules if rule.type in self._redacted_types]


def _bytes(call: RuleCall, content: Any, encrypting: list[Rule]) -> bytes | None:
    # Content that was read is still encrypted.
    if encrypting and content is not None and call.mode is RuleMode.WRITE:
        content = _redacted(call, content, encrypting)
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    if isinstance(content, str | uuid.UUID):
        return str(content).encode()
    if isinstance(content, int) and not isinstance(content, bool) and -(2**63) <= content < 2**63:
        return struct.pack(">q", content)
    if isinstance(content, float):
        return struct.pack(">d", content)
    if hasattr(content, "DESCRIPTOR"):
        from google.protobuf import json_format

        return json_format.MessageToJson(content).encode()
    return json.dumps(content, default=_plain).encode()


def _redacted(call: RuleCall, content: Any, encrypting: list[Rule]) -> Any:
    """The value without the fields that have a tag of these rules. A value without fields is redacted as a whole."""
    has_fields = isinstance(content, dict | list) or hasattr(content, "DESCRIPTOR")
    if not has_fields or call.walk is None or any(rule.type == _WHOLE_VALUE for rule in encrypting):
        return _REDACTED
    # A rule without tags applies to all fields.
    is_total = any(not rule.tags for rule in encrypting)
    tags = frozenset[str]() if is_total else frozenset(tag for rule in encrypting for tag in rule.tags)
    return transform_fields(Rule("redact", "REDACT", call.mode, tags=tags), call, content, _redact)


def _redact(field: Field, content: Any) -> Any:
    del field
    if isinstance(content, str):
        return _REDACTED
    if isinstance(content, bytes):
        return _REDACTED.encode()
    # A number cannot be encrypted, so its rule fails. The dead letter must not contain the number either.
    return None if content is None else type(content)()


def _headers(rule: Rule, call: RuleCall, reason: str | None) -> list[Header]:
    fields = {"name": rule.name, "mode": str(call.mode), "subject": call.subject, "topic": call.topic}
    if reason is not None:
        fields["exception"] = reason
    return [*call.headers, *((f"__rule.{name}", text.encode()) for name, text in fields.items())]


def _plain(content: Any) -> str:
    return bytes(content).decode("latin-1") if isinstance(content, bytes | bytearray) else str(content)
