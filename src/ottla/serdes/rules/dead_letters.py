"""The action DLQ: a record that a rule stops is sent to a dead-letter topic, with Confluent's headers.

Serializers have no producer of their own: `dlq.sender` is a function that takes a `DeadLetter`, for example
`lambda letter: producer.send(letter.topic, letter.value, letter.key, headers=letter.headers)` with a blocking producer.
Fields that another rule encrypts are redacted, because a record may fail before it is encrypted.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.serdes.protocol import Header
from ottla.serdes.rules.contracts import Field, FieldKind, Rule, RuleCall, transform_fields

__all__ = ["RULE_NAME", "DeadLetter", "DeadLetters"]

RULE_NAME = "__rule.name"
_REDACTED = "<REDACTED>"
_REDACTED_TYPES = "ENCRYPT,ENCRYPT_PAYLOAD"


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
        self._redacted_types = {each.strip().upper() for each in types.split(",")}

    def send(self, rule: Rule, call: RuleCall, error: Exception | None) -> str:
        """Sends the record of a failed rule; returns what became of it, for the message of the error."""
        topic = self._topic or call.parameter(rule, "dlq.topic") or ""
        if not topic:
            return "it was not sent to a dead-letter topic: set dlq.topic"
        if self._sender is None:
            return f"it was not sent to {topic}: set dlq.sender"
        try:
            key, value = self._bytes(call, call.key), self._bytes(call, call.value)
            self._sender(DeadLetter(topic, key, value, _headers(rule, call, error)))
        except Exception as failure:  # noqa: BLE001 - a sender may raise anything, and the record is refused in any case
            return f"it could not be sent to {topic}: {failure}"
        return f"it was sent to {topic}"

    def _bytes(self, call: RuleCall, content: Any) -> bytes | None:
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
        content = self._redacted(call, content)
        if hasattr(content, "DESCRIPTOR"):
            from google.protobuf import json_format

            return json_format.MessageToJson(content).encode()
        return json.dumps(content, default=_plain).encode()

    def _redacted(self, call: RuleCall, content: Any) -> Any:
        tags = frozenset(tag for each in call.rules if each.type in self._redacted_types for tag in each.tags)
        if not tags or call.walk is None:
            return content
        return transform_fields(Rule("redact", "REDACT", call.mode, tags=tags), call, content, _redact)


def _redact(field: Field, content: Any) -> Any:
    if content is None or field.kind not in (FieldKind.STRING, FieldKind.BYTES):
        return content
    return _REDACTED if field.kind is FieldKind.STRING else _REDACTED.encode()


def _headers(rule: Rule, call: RuleCall, error: Exception | None) -> list[Header]:
    found = {"name": rule.name, "mode": str(call.mode), "subject": call.subject, "topic": call.topic}
    if error is not None:
        found["exception"] = str(error)
    return [*call.headers, *((f"__rule.{name}", text.encode()) for name, text in found.items())]


def _plain(content: Any) -> str:
    return bytes(content).decode("latin-1") if isinstance(content, bytes | bytearray) else str(content)
