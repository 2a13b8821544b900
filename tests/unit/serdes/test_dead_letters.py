"""A dead letter contains no plaintext of encrypted fields, whichever rule failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.serdes.avro import AvroSerializer
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, SchemaText
from ottla.serdes.rules import DeadLetter

pytest.importorskip("fastavro")

PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "ssn", "type": "string", "confluent:tags": ["PII"]},
            {"name": "salary", "type": "long", "confluent:tags": ["PII"]},
        ],
    }
)
ADA = {"name": "Ada", "ssn": "123-45", "salary": 77_777}
SECRETS = ("123-45", "77777")


def rule(kind: str, **rest: Any) -> dict[str, Any]:
    return {"name": kind.lower(), "kind": "TRANSFORM", "type": kind, "mode": "WRITEREAD", "onFailure": "DLQ", **rest}


def fails(rule: Any, call: Any, value: Any) -> Any:
    del rule, call
    raise ValueError(f"no good: {value}")


class OneSchema(RegistryClient):
    def __init__(self, text: str, rule_set: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._only_schema = SchemaText(text, rule_set=rule_set)

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> RegisteredSchema:
        del schema, normalize
        return RegisteredSchema(subject, 1, 1, "", self._only_schema)


def letter_of(text: str, value: Any, **rule_set: Any) -> DeadLetter:
    letters: list[DeadLetter] = []
    config = {"dlq.topic": "dead", "dlq.sender": letters.append, "rule.executors": {"FAILS": fails}}
    serializer = AvroSerializer(text, client=OneSchema(text, rule_set), config=config)
    with pytest.raises(SerializationError, match="it was sent to dead"):
        serializer.serialize("people", value)
    (letter,) = letters
    return letter


# Without a key service, rules that encrypt fail themselves.
@pytest.mark.parametrize(
    "rule_set",
    [
        {"domainRules": [rule("FAILS")], "encodingRules": [rule("ENCRYPT_PAYLOAD")]},
        {"encodingRules": [rule("ENCRYPT_PAYLOAD")]},
        {"domainRules": [rule("FAILS"), rule("ENCRYPT", tags=["PII"])], "encodingRules": [rule("ENCRYPT_PAYLOAD")]},
        {"domainRules": [rule("FAILS"), rule("ENCRYPT")]},
        {"domainRules": [rule("ENCRYPT")]},
        {"domainRules": [rule("FAILS"), rule("ENCRYPT", tags=["PII"])]},
    ],
)
def test_a_dead_letter_has_no_plain_text_of_what_is_encrypted(rule_set: dict[str, Any]) -> None:
    letter = letter_of(PERSON, ADA, **rule_set)
    shown = repr(letter)
    assert not [secret for secret in SECRETS if secret in shown]
    assert b"<REDACTED>" in (letter.value or b"")


@pytest.mark.parametrize(("text", "value"), [('"string"', "123-45"), ('"bytes"', b"123-45"), ('"long"', 77_777)])
def test_a_value_without_fields_is_redacted_as_a_whole(text: str, value: Any) -> None:
    assert letter_of(text, value, domainRules=[rule("FAILS")], encodingRules=[rule("ENCRYPT_PAYLOAD")]).value == (
        b"<REDACTED>"
    )


def test_a_dead_letter_without_encryption_shows_the_record_and_the_reason() -> None:
    letter = letter_of(PERSON, ADA, domainRules=[rule("FAILS")])
    assert json.loads(letter.value or b"") == ADA
    assert dict(letter.headers)["__rule.exception"] == f"no good: {ADA}".encode()


def test_a_dead_letter_has_the_encrypted_key() -> None:
    encrypts = {"domainRules": [rule("ENCRYPT", tags=["PII"])]}
    key = AvroSerializer(PERSON, client=OneSchema(PERSON, encrypts))
    key.configure({"rule.executors": {"ENCRYPT": lambda rule, call, value: {**value, "ssn": "?"}}}, is_key=True)
    data = key.serialize("people", ADA)
    assert letter_of('"string"', "x", domainRules=[rule("FAILS")]).key == data
