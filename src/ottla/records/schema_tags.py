"""The schemas that the records of a batch name: by a prefix of key or value, or by a header.

A prefix is a zero byte and the id of a schema, four bytes. The headers `__key_schema_id` and `__value_schema_id` have
the same bytes, or a byte 1 and the GUID of a schema. The functions run once per record.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.records.varint import read_varint

__all__ = ["SchemaRules", "SchemaTags", "Tag", "collect_tags"]

# The id or the GUID of a schema; None for bytes that name none.
Tag = int | bytes | None
# (is a key, tag) -> indexes of the records with the tag.
SchemaTags = dict[tuple[bool, Tag], list[int]]

_PREFIX_SIZE = 5
_GUID_SIZE = 17
_HEADER_NAMES = (b"__value_schema_id", b"__key_schema_id")


class SchemaRules(NamedTuple):
    """The checks of a topic: the subject name strategies of keys and values; empty if they are not checked."""

    key_strategy: str
    value_strategy: str


def collect_tags(
    tags: SchemaTags,
    rules: SchemaRules,
    payload: memoryview,
    index: int,
    key_start: int,
    key_length: int,
    end: int,
) -> None:
    """Adds the tags of one record. A key or value of null names no schema and needs none."""
    position = key_start + key_length if key_length > 0 else key_start
    value_length, value_start = read_varint(payload, position)
    position = value_start + value_length if value_length > 0 else value_start
    in_headers = _header_tags(payload, position, end) if payload[position] else None
    if rules.value_strategy and value_length >= 0:
        tag = None if in_headers is None else in_headers.get(False)
        if tag is None:
            tag = _prefix_tag(payload, value_start, value_length)
        tags.setdefault((False, tag), []).append(index)
    if rules.key_strategy and key_length >= 0:
        tag = None if in_headers is None else in_headers.get(True)
        if tag is None:
            tag = _prefix_tag(payload, key_start, key_length)
        tags.setdefault((True, tag), []).append(index)


def _prefix_tag(payload: memoryview, start: int, length: int) -> Tag:
    if length < _PREFIX_SIZE or payload[start]:
        return None
    return int.from_bytes(payload[start + 1 : start + _PREFIX_SIZE], "big")


def _header_tags(payload: memoryview, position: int, end: int) -> dict[bool, Tag] | None:
    """The tags in the headers of a record, whose lengths have been checked."""
    tags: dict[bool, Tag] | None = None
    count, position = read_varint(payload, position)
    for _ in range(count):
        name_length, position = read_varint(payload, position)
        name = payload[position : position + name_length]
        length, position = read_varint(payload, position + name_length)
        if length > 0:
            if name in _HEADER_NAMES:
                tag = _prefix_tag(payload, position, length)
                if tag is None and length >= _GUID_SIZE and payload[position] == 1:
                    tag = bytes(payload[position + 1 : position + _GUID_SIZE])
                tags = {} if tags is None else tags
                tags[name == _HEADER_NAMES[1]] = tag
            position += length
        if position >= end:
            break
    return tags
