"""Keys, values and headers of records for people: by a registry, as JSON, as text or as hexadecimal digits.

A record value is data: it leaves the server as JSON only, with a content type that no browser runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ottla.client.consumer import ConsumedRecord
from ottla.console.answers import invalid
from ottla.console.masking import MASK, Masker

__all__ = ["DECODINGS", "Field", "FieldReader", "text_of"]

DECODINGS = ("auto", "json", "avro", "text", "hex")
# Longer values are cut; the download of a value is complete.
SHOWN_BYTES_MAX = 64 * 1024
# Longer JSON is shown as text, because parsing it would stop all other requests.
JSON_BYTES_MAX = 1024 * 1024
_MAGIC = 0
_TAG_BYTES = 5
_TYPES = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json-schema"}

Field = dict[str, Any]
Header = tuple[str, bytes | None]


class FieldReader:
    """Reads the records of a topic for a role."""

    def __init__(self, topic: str, decoding: str, masker: Masker, registry_url: str | None) -> None:
        if decoding not in DECODINGS:
            raise invalid(f"decode is one of {', '.join(DECODINGS)}.")
        self._topic = topic
        self._decoding = decoding
        self._masker = masker
        self._registry_url = registry_url
        self._client: Any = None
        self._deserializers: dict[tuple[str, bool], Any] = {}

    async def message(self, record: ConsumedRecord) -> dict[str, Any]:
        """The JSON of a record in the API."""
        key = await self._field("key", record.key, record.headers)
        value = await self._field("value", record.value, record.headers)
        headers: list[dict[str, Any]] = [await self._header(name, content) for name, content in record.headers]
        size = len(record.key or b"") + len(record.value or b"")
        hidden = [part.pop("masked", False) for part in (key, value, *headers)]
        return {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": "append" if record.timestamp_type == 1 else "create",
            "key": key,
            "value": value,
            "headers": headers,
            "size": size + sum(len(name) + len(content or b"") for name, content in record.headers),
            "masked": any(hidden),
        }

    async def _header(self, name: str, data: bytes | None) -> dict[str, Any]:
        field = await self._decoded("headers", data, ())
        shown, is_masked = self._masker.masked_name(name)
        if self._masker.hides("headers"):
            is_masked |= _mask(field, partial(self._masker.masked_header, name))
        return {"name": shown, "value": _cut(field), "masked": is_masked}

    async def _field(self, part: str, data: bytes | None, headers: Sequence[Header]) -> Field:
        field = await self._decoded(part, data, headers)
        if self._masker.hides(part):
            # Bytes of a field with a schema can be hidden already.
            field["masked"] = _mask(field, partial(self._masker.masked, part)) or field.get("masked", False)
        return _cut(field)

    async def _decoded(self, part: str, data: bytes | None, headers: Sequence[Header]) -> Field:
        if data is None:
            return {"type": "null", "value": None, "schema_id": None, "error": None}
        error = None
        # A mask applies to fields, so a masked part is read as fields, independent of the requested decoding.
        is_hidden = self._masker.hides(part)
        wants_schema = self._decoding in ("auto", "avro") or is_hidden
        if wants_schema and part != "headers" and self._registry_url is not None and _has_tag(data):
            try:
                return await asyncio.to_thread(self._by_schema, part, data, headers)
            except Exception as failure:  # noqa: BLE001
                # A library may fail in any way on foreign bytes. The record is then shown without its schema.
                error = str(failure)
        if self._decoding in ("auto", "json", "avro") or is_hidden:
            parsed = _json(data)
            if parsed is not None:
                return {"type": "json", "value": parsed[0], "schema_id": None, "error": error}
        text = _text(data) if self._decoding != "hex" or is_hidden else None
        if is_hidden and (len(data) > JSON_BYTES_MAX or not _is_readable(text or "", whole=True)):
            # In long JSON and in binary numbers, an expression does not find the text that it should hide.
            text = None
        if text is not None and (self._decoding != "auto" or _is_readable(text)):
            return {"type": "text", "value": text, "schema_id": None, "error": error}
        return {"type": "hex", "value": data.hex(), "schema_id": None, "error": error}

    def _by_schema(self, part: str, data: bytes, headers: Sequence[Header]) -> Field:
        from ottla.serdes.registry_client import RegistryClient

        if self._client is None:
            assert self._registry_url is not None
            self._client = RegistryClient(self._registry_url)
        schema_id = int.from_bytes(data[1:_TAG_BYTES], "big")
        schema = self._client.schema_by_id(schema_id)
        is_key = part == "key"
        value = self._deserializer(schema.schema_type, is_key=is_key).deserialize(self._topic, data, headers)
        is_hidden = self._masker.hides(part)
        plain = json.loads(json.dumps(_plain(value, is_hidden=is_hidden), default=str))
        field = {"type": _TYPES[schema.schema_type], "value": plain, "schema_id": schema_id, "error": None}
        return {**field, "masked": True} if is_hidden and _has_mask(plain) else field

    def _deserializer(self, schema_type: str, *, is_key: bool) -> Any:
        deserializer = self._deserializers.get((schema_type, is_key))
        if deserializer is None:
            deserializer = _new_deserializer(schema_type, self._client)
            deserializer.configure({}, is_key=is_key)
            self._deserializers[schema_type, is_key] = deserializer
        return deserializer


def _new_deserializer(schema_type: str, client: Any) -> Any:
    if schema_type == "AVRO":
        from ottla.serdes.avro import AvroDeserializer

        return AvroDeserializer(client=client)
    if schema_type == "PROTOBUF":
        from ottla.serdes.protobuf import ProtobufDeserializer

        return ProtobufDeserializer(client=client)
    from ottla.serdes.json_schema import JsonSchemaDeserializer

    return JsonSchemaDeserializer(client=client)


def _plain(value: Any, *, is_hidden: bool) -> Any:
    """The value in types of JSON: messages of Protobuf as objects, bytes as text or digits.

    If masks apply, bytes are text or hidden: no mask finds the content of digits and of base64.
    """
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        shown = MessageToDict(value, preserving_proto_field_name=True)
        return _with_texts(shown, value) if is_hidden else shown
    if isinstance(value, dict):
        return {str(name): _plain(content, is_hidden=is_hidden) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element, is_hidden=is_hidden) for element in value]
    if isinstance(value, bytes):
        text = _text(value)
        if is_hidden and (text is None or not _is_readable(text, whole=True)):
            return MASK
        return text or value.hex()
    return value


def _with_texts(shown: Any, content: Any) -> Any:
    """The JSON of a message, or of a field of it, with bytes as text in place of base64."""
    if isinstance(content, bytes):
        return _plain(content, is_hidden=True)
    if not hasattr(content, "DESCRIPTOR"):
        if isinstance(shown, list):
            return [_with_texts(element, inner) for element, inner in zip(shown, content, strict=True)]
        if isinstance(shown, dict):
            # A map. Its keys are texts in JSON.
            texts = {str(key).lower() if isinstance(key, bool) else str(key): inner for key, inner in content.items()}
            return {name: _with_texts(element, texts[name]) for name, element in shown.items()}
        return shown
    kind = content.DESCRIPTOR.full_name
    if kind == "google.protobuf.Any":
        # The fields of the message inside are not known here.
        return MASK
    if kind == "google.protobuf.BytesValue":
        return _plain(content.value, is_hidden=True)
    if not isinstance(shown, dict) or kind == "google.protobuf.Struct":
        return shown
    inner_by_name = {
        f"[{field.full_name}]" if field.is_extension else field.name: inner for field, inner in content.ListFields()
    }
    return {
        name: _with_texts(element, inner_by_name[name]) if name in inner_by_name else element
        for name, element in shown.items()
    }


def _has_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_mask, value.values()))
    if isinstance(value, list):
        return any(map(_has_mask, value))
    return bool(value == MASK)


def _has_tag(data: bytes) -> bool:
    return len(data) >= _TAG_BYTES and data[0] == _MAGIC


def _json(data: bytes) -> tuple[Any] | None:
    """A number alone is text: most programs mean one."""
    if not data or len(data) > JSON_BYTES_MAX or data[:1] not in b'{["tfn -0123456789\t\r\n':
        return None
    try:
        return (json.loads(data, parse_constant=str),)
    except (ValueError, RecursionError):
        return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_readable(text: str, *, whole: bool = False) -> bool:
    return all(letter.isprintable() or letter in "\t\r\n" for letter in (text if whole else text[:1024]))


def _mask(field: Field, mask: Callable[..., tuple[Any, bool]]) -> bool:
    """Hides the content that the role must not see. Returns True if something was hidden."""
    if field["error"] is not None:
        # The error of a library may quote the value.
        field["error"] = "The value does not fit its schema."
    if field["type"] == "hex":
        # Hexadecimal digits would reveal the masked text.
        field["value"] = ""
        return True
    try:
        field["value"], is_masked = mask(field["value"], is_structured=field["type"] != "text")
    except RecursionError:
        field["value"], is_masked = MASK, True
    return is_masked


def _cut(field: Field) -> Field:
    value = field["value"]
    if isinstance(value, str):
        if len(value) > SHOWN_BYTES_MAX:
            return {**field, "value": value[:SHOWN_BYTES_MAX], "truncated": True}
    elif isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > SHOWN_BYTES_MAX:
            return {**field, "type": "text", "value": text[:SHOWN_BYTES_MAX], "truncated": True}
    return field


def text_of(field: Field) -> str:
    """The text that a plain filter searches."""
    value = field["value"]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
