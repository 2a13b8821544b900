"""JSON with a schema in a registry. Values are validated when they are written, and when they are read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from ottla.serdes.avro_classes import to_class
from ottla.serdes.json_fields import json_walk
from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.rules.contracts import FieldWalk
from ottla.serdes.schema_serde import SchemaDeserializer, SchemaSerializer, referenced_texts
from ottla.serdes.wire_format import SchemaTag

__all__ = ["JsonSchemaDeserializer", "JsonSchemaSerializer"]

# The address of documents that do not give themselves an address, and the name of a part to validate. No address is
# fetched.
_DOCUMENT, _PART = "file:///document", "__part"


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
        self._schema = schema_text(schema)
        self._to_dict = to_dict
        self._validates = validate
        self._validators: dict[SchemaText, Any] = {}
        self._walks: dict[SchemaText, FieldWalk] = {}
        super().__init__(client, config)

    def _schema_of(self, value: Any, topic: str) -> SchemaText:
        return self._schema

    def _record_name(self, value: Any, schema: SchemaText) -> str | None:
        return _title(schema)

    def _plain(self, value: Any) -> Any:
        if self._to_dict is not None:
            return self._to_dict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        return value

    def _walk(self, schema: SchemaText, value: Any) -> FieldWalk:
        return _walk(self._walks, self.client, schema)

    def _encode(self, value: Any, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        if self._validates:
            problem = misfit(_validator(self._validators, self.client, schema), value)
            if problem is not None:
                raise self._error(topic, problem[1], field=problem[0])
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(), None
        except (TypeError, ValueError, RecursionError) as error:
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
        self._walks: dict[SchemaText, FieldWalk] = {}
        super().__init__(client, config)

    def _writer_name(self, writer: SchemaText, tag: SchemaTag) -> str | None:
        return _title(writer)

    def _walk(self, schema: SchemaText, value: Any, tag: SchemaTag) -> FieldWalk:
        return _walk(self._walks, self.client, schema)

    def _decode(
        self, payload: memoryview, tag: SchemaTag, writer: SchemaText, reader: SchemaText | None, topic: str
    ) -> Any:
        try:
            return json.loads(bytes(payload))
        except (ValueError, RecursionError) as error:
            raise self._error(topic, f"the bytes are not JSON: {error}.") from error

    def _finished(self, value: Any, schema: SchemaText, topic: str) -> Any:
        if self._validates:
            problem = misfit(_validator(self._validators, self.client, schema), value)
            if problem is not None:
                raise self._error(topic, problem[1], field=problem[0])
        if self._to is None:
            return value
        return to_class(value, self._to) if isinstance(self._to, type) else self._to(value)


def schema_text(schema: str | Mapping[str, Any] | SchemaText) -> SchemaText:
    if isinstance(schema, SchemaText):
        return schema
    return SchemaText(schema if isinstance(schema, str) else json.dumps(schema), "JSON")


def misfit(validator: Any, value: Any) -> tuple[str | None, str] | None:
    """The field that does not fit the schema, and the reason."""
    error = next(iter(validator.iter_errors(value)), None)
    if error is None:
        return None
    field = ".".join(str(step) for step in error.instance_path) or None
    return field, f"{error.message}."


def _title(schema: SchemaText) -> str | None:
    root = json.loads(schema.text)
    return root.get("title") if isinstance(root, dict) else None


def _walk(walks: dict[SchemaText, FieldWalk], client: RegistryClient, schema: SchemaText) -> FieldWalk:
    walk = walks.get(schema)
    if walk is None:
        root = json.loads(schema.text)
        documents = _others(client, schema)
        if _own_address(root):
            documents[_own_address(root)] = root
        walk = walks[schema] = json_walk(root, documents, _PartValidators(documents).is_valid)
    return walk


class _PartValidators:
    """Validates values against parts of documents. A reference in a part begins in the part's document."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        # By the identity of the part, which lives as long as the walk's documents.
        self._validators: dict[int, Any] = {}

    def is_valid(self, part: Any, document: Any, value: Any) -> bool:
        if isinstance(part, bool) or part == {}:
            return part is not False
        validator = self._validators.get(id(part))
        if validator is None:
            validator = self._validators[id(part)] = self._validator_of(part, document)
        return bool(validator.is_valid(value))

    def _validator_of(self, part: Any, document: Mapping[str, Any]) -> Any:
        # In place of the document, a copy that has the part as one more definition.
        copied = {**document, _PART: part}
        documents = {name: copied if other is document else other for name, other in self._documents.items()}
        address = urljoin(_DOCUMENT, _own_address(document))
        reference = {"$ref": f"{address}#/{_PART}"}
        if "$schema" in document:
            reference["$schema"] = document["$schema"]
        return _built(reference, documents | {address: copied})


def _others(client: RegistryClient, schema: SchemaText) -> dict[str, Any]:
    """The documents that a schema refers to, by the names of the references and by their `$id`s."""
    others = {name: json.loads(referenced.text) for name, referenced in referenced_texts(client, schema).items()}
    return others | {_own_address(document): document for document in others.values() if _own_address(document)}


def _own_address(document: Any) -> str:
    """The address that a document gives itself; empty if it has none."""
    address = document.get("$id") if isinstance(document, dict) else None
    # A fragment is an anchor within the document (draft 7).
    return address.partition("#")[0] if isinstance(address, str) else ""


def _validator(validators: dict[SchemaText, Any], client: RegistryClient, schema: SchemaText) -> Any:
    validator = validators.get(schema)
    if validator is None:
        validator = validators[schema] = _built(json.loads(schema.text), _others(client, schema))
    return validator


def _built(schema: Any, documents: Mapping[str, Any]) -> Any:
    """A validator whose references lead to the documents. Raises ValueError."""
    import jsonschema_rs

    def retrieve(address: str) -> Any:
        for name, document in documents.items():
            if address == name or address.endswith("/" + name):
                return document
        raise ValueError(f"the reference {address} is unknown")

    try:
        return jsonschema_rs.validator_for(schema, retriever=retrieve)
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError) as error:
        raise ValueError(f"its JSON Schema is not valid: {error}") from error
