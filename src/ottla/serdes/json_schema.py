"""JSON with a schema in a registry. Values are validated when they are written, and when they are read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.serdes.avro_classes import to_class
from ottla.serdes.json_fields import json_walk
from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.rules.contracts import FieldWalk
from ottla.serdes.schema_serde import SchemaDeserializer, SchemaSerializer, referenced_texts
from ottla.serdes.wire_format import SchemaTag

__all__ = ["JsonSchemaDeserializer", "JsonSchemaSerializer"]


class JsonSchemaSerializer(SchemaSerializer[Any]):
    schema_type = "JSON"

    def __init__(
        self,
        schema: str | Mapping[str, Any] | SchemaText,
        *,
        client: RegistryClient | None = None,
        config: Mapping[str, Any] | None = None,
        to_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
    ) -> None:
        self._given = schema_text(schema)
        self._to_dict = to_dict
        self._validates = validate
        self._validators: dict[SchemaText, Any] = {}
        super().__init__(client, config)

    def _schema_of(self, value: Any, topic: str) -> SchemaText:
        return self._given

    def _record_name(self, value: Any, schema: SchemaText) -> str | None:
        return _title(schema)

    def _plain(self, value: Any) -> Any:
        if self._to_dict is not None:
            return self._to_dict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        return value

    def _walk(self, schema: SchemaText, value: Any) -> FieldWalk:
        return _walk(self.client, schema)

    def _encode(self, value: Any, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        if self._validates:
            problem = misfit(_validator(self._validators, self.client, schema), value)
            if problem is not None:
                raise self._error(topic, problem[1], field=problem[0])
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(), None
        except (TypeError, ValueError) as error:
            raise self._error(topic, f"it cannot be written as JSON: {error}.") from error


class JsonSchemaDeserializer(SchemaDeserializer[Any]):
    def __init__(
        self,
        *,
        client: RegistryClient | None = None,
        config: Mapping[str, Any] | None = None,
        to: type | Callable[[Any], Any] | None = None,
        validate: bool = True,
    ) -> None:
        self._to = to
        self._validates = validate
        self._validators: dict[SchemaText, Any] = {}
        super().__init__(client, config)

    def _writer_name(self, writer: SchemaText, tag: SchemaTag) -> str | None:
        return _title(writer)

    def _walk(self, schema: SchemaText, value: Any, tag: SchemaTag) -> FieldWalk:
        return _walk(self.client, schema)

    def _decode(
        self, payload: memoryview, tag: SchemaTag, writer: SchemaText, reader: SchemaText | None, topic: str
    ) -> Any:
        try:
            return json.loads(bytes(payload))
        except ValueError as error:
            raise self._error(topic, f"the bytes are not JSON: {error}.") from error

    def _finished(self, value: Any, schema: SchemaText, topic: str) -> Any:
        if self._validates:
            problem = misfit(_validator(self._validators, self.client, schema), value)
            if problem is not None:
                raise self._error(topic, problem[1], field=problem[0])
        if self._to is None:
            return value
        return to_class(value, self._to) if isinstance(self._to, type) else self._to(value)


def schema_text(given: str | Mapping[str, Any] | SchemaText) -> SchemaText:
    if isinstance(given, SchemaText):
        return given
    return SchemaText(given if isinstance(given, str) else json.dumps(given), "JSON")


def misfit(validator: Any, value: Any) -> tuple[str | None, str] | None:
    """The field that does not fit the schema, and why."""
    error = next(iter(validator.iter_errors(value)), None)
    if error is None:
        return None
    field = ".".join(str(step) for step in error.instance_path) or None
    return field, f"{error.message}."


def _title(schema: SchemaText) -> str | None:
    root = json.loads(schema.text)
    return root.get("title") if isinstance(root, dict) else None


def _walk(client: RegistryClient, schema: SchemaText) -> FieldWalk:
    import jsonschema_rs

    return json_walk(json.loads(schema.text), _others(client, schema), jsonschema_rs.is_valid)


def _others(client: RegistryClient, schema: SchemaText) -> dict[str, Any]:
    """The documents that a schema refers to, by the names of the references and by their own."""
    others = {name: json.loads(each.text) for name, each in referenced_texts(client, schema).items()}
    for document in list(others.values()):
        if isinstance(document, dict) and isinstance(document.get("$id"), str):
            others[document["$id"]] = document
    return others


def _validator(known: dict[SchemaText, Any], client: RegistryClient, schema: SchemaText) -> Any:
    found = known.get(schema)
    if found is None:
        import jsonschema_rs

        others = _others(client, schema)

        def retrieve(address: str) -> Any:
            for name, document in others.items():
                if address == name or address.endswith("/" + name):
                    return document
            raise ValueError(f"the reference {address} is unknown")

        try:
            found = jsonschema_rs.validator_for(json.loads(schema.text), retriever=retrieve)
        except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError) as error:
            raise ValueError(f"its JSON Schema is not valid: {error}") from error
        known[schema] = found
    return found
