"""The records of `__consumer_offsets` and `__transaction_state`, as plain values.

A key begins with two bytes for the kind of record, a value with two bytes for its version; a protocol message follows.
Records of an unknown kind or version are skipped.
"""

from __future__ import annotations

from typing import Any

from ottla.model.ids import Uuid
from ottla.wire.codec import MalformedMessage, UnsupportedVersion, decode
from ottla.wire.message import Message, Structure
from ottla.wire.messages import group_records, transaction_records

__all__ = ["describe_group_record", "describe_transaction_record", "plain"]


def describe_group_record(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """`{"type", "key", "value"}` of a record of `__consumer_offsets`; None where it cannot be read."""
    return _describe(_GROUP_CLASSES, key, value)


def describe_transaction_record(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    return _describe(_TRANSACTION_CLASSES, key, value)


def plain(value: Any) -> Any:
    """A message as dictionaries, lists, numbers and strings."""
    if isinstance(value, Structure):
        return {_camel(name): plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _classes(module: Any) -> dict[int, tuple[str, type[Message], type[Message]]]:
    """Kind -> (name, class of keys, class of values)."""
    by_kind = {}
    for name in module.__all__:
        key_class = getattr(module, name)
        if name.endswith("Key") and isinstance(key_class, type) and issubclass(key_class, Message):
            other = getattr(module, f"{name.removesuffix('Key')}Value", None)
            if other is not None:
                by_kind[key_class.API_KEY] = (name.removesuffix("Key"), key_class, other)
    return by_kind


_GROUP_CLASSES = _classes(group_records)
_TRANSACTION_CLASSES = _classes(transaction_records)


def _describe(
    classes: dict[int, tuple[str, type[Message], type[Message]]], key: bytes | None, value: bytes | None
) -> dict[str, Any] | None:
    if key is None or len(key) < 2:
        return None
    schema = classes.get(int.from_bytes(key[:2], "big"))
    if schema is None:
        return None
    name, key_class, value_class = schema
    try:
        decoded, _ = decode(key_class, memoryview(key), 0, 2)
        content = None
        if value is not None:
            content, _ = decode(value_class, memoryview(value), int.from_bytes(value[:2], "big"), 2)
    except (MalformedMessage, UnsupportedVersion):
        return None
    return {
        "type": name.removeprefix("Legacy"),
        "key": plain(decoded),
        "version": None if value is None else int.from_bytes(value[:2], "big"),
        "value": plain(content),
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
