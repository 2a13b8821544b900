r"""How `consume` prints a record: default, logging, checksum, no-op, JSON, and the coordinators' own topics.

A formatter is a function from a record to bytes, made from properties with Kafka's names. The default one prints what
`print.*` asks for, in Kafka's order: time, partition, offset, epoch, headers, key, value.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping

from ottla.cli.logic.coordinator_records import describe_group_record, describe_transaction_record
from ottla.cli.logic.deserializers import Deserializer, deserializer
from ottla.cli.logic.record_json import record_object
from ottla.client.consumer import ConsumedRecord

__all__ = ["FORMATTERS", "Formatter", "make_formatter"]

Formatter = Callable[[ConsumedRecord], bytes]

_JAVA_NAMES = {
    "DefaultMessageFormatter": "default",
    "LoggingMessageFormatter": "logging",
    "NoOpMessageFormatter": "noop",
    "ChecksumMessageFormatter": "checksum",
    "OffsetsMessageFormatter": "offsets",
    "GroupMetadataMessageFormatter": "groups",
    "TransactionLogMessageFormatter": "transactions",
}


def make_formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """By a short name, or by the name of Kafka's Java class."""
    short = _JAVA_NAMES.get(name.rpartition(".")[2], name.lower())
    maker = FORMATTERS.get(short)
    if maker is None:
        raise ValueError(f"There is no formatter {name!r}; there are {', '.join(FORMATTERS)}.")
    return maker(properties)


def _default(properties: Mapping[str, str]) -> Formatter:
    defaults = {
        "print.timestamp": "false",
        "print.partition": "false",
        "print.offset": "false",
        "print.delivery": "false",
        "print.epoch": "false",
        "print.headers": "false",
        "print.key": "false",
        "print.value": "true",
        "key.separator": "\t",
        "line.separator": "\n",
        "headers.separator": ",",
        "null.literal": "null",
        "key.deserializer": "",
        "value.deserializer": "",
        "headers.deserializer": "",
    }
    for name in properties:
        if name not in defaults:
            raise ValueError(f"There is no formatter property {name!r}; there are {', '.join(defaults)}.")
    settings = {**defaults, **properties}
    printed = {name: settings[name].strip().lower() == "true" for name in defaults if name.startswith("print.")}
    separator = settings["key.separator"].replace("\\t", "\t").encode()
    end = settings["line.separator"].replace("\\n", "\n").encode()
    between = settings["headers.separator"].encode()
    null = settings["null.literal"].encode()
    read_key, read_value, read_header = (
        deserializer(settings[f"{part}.deserializer"]) for part in ("key", "value", "headers")
    )

    def shown(content: bytes | None, read: Deserializer | None) -> bytes:
        if content is None:
            return null
        return content if read is None else read(content)

    def write(record: ConsumedRecord) -> bytes:
        pieces: list[bytes] = []
        if printed["print.timestamp"]:
            pieces.append(_timestamp(record))
        if printed["print.partition"]:
            pieces.append(b"Partition:%d" % record.partition)
        if printed["print.offset"]:
            pieces.append(b"Offset:%d" % record.offset)
        if printed["print.epoch"]:
            pieces.append(b"Epoch:%d" % record.leader_epoch)
        if printed["print.headers"]:
            pieces.append(
                between.join(name.encode() + b":" + shown(content, read_header) for name, content in record.headers)
                or b"NO_HEADERS"
            )
        if printed["print.key"]:
            pieces.append(shown(record.key, read_key))
        if printed["print.value"]:
            pieces.append(shown(record.value, read_value))
        return separator.join(pieces) + end

    return write


def _timestamp(record: ConsumedRecord) -> bytes:
    if record.timestamp < 0:
        return b"NO_TIMESTAMP"
    return b"%s:%d" % (b"LogAppendTime" if record.timestamp_type else b"CreateTime", record.timestamp)


def _logging(properties: Mapping[str, str]) -> Formatter:
    """The line of the default formatter with a log prefix."""
    default = _default(properties)

    def write(record: ConsumedRecord) -> bytes:
        stamp = b"" if record.timestamp < 0 else _timestamp(record) + b", "
        key = b"null" if record.key is None else record.key
        value = b"null" if record.value is None else record.value
        return default(record) + b"INFO %skey:%s, value:%s\n" % (stamp, key, value)

    return write


def _checksum(properties: Mapping[str, str]) -> Formatter:
    """A CRC of key and value for each record, to compare what two readers saw."""
    _refuse(properties)

    def write(record: ConsumedRecord) -> bytes:
        checksum = zlib.crc32(record.value or b"", zlib.crc32(record.key or b""))
        return b"%schecksum:%d\n" % (b"" if record.timestamp < 0 else _timestamp(record) + b", ", checksum)

    return write


def _noop(properties: Mapping[str, str]) -> Formatter:
    _refuse(properties)
    return lambda _record: b""


def _json(properties: Mapping[str, str]) -> Formatter:
    """One JSON object for each record, in a line of its own."""
    encoding = properties.get("encoding", "text")
    _refuse({name: value for name, value in properties.items() if name != "encoding"})

    def write(record: ConsumedRecord) -> bytes:
        return json.dumps(record_object(record, encoding=encoding), ensure_ascii=False).encode() + b"\n"

    return write


def _offsets(properties: Mapping[str, str]) -> Formatter:
    return _group_records(properties, {"OffsetCommit"})


def _groups(properties: Mapping[str, str]) -> Formatter:
    return _group_records(properties, None)


def _group_records(properties: Mapping[str, str], kinds: set[str] | None) -> Formatter:
    _refuse(properties)

    def write(record: ConsumedRecord) -> bytes:
        described = describe_group_record(record.key, record.value)
        if described is None or (kinds is not None and described["type"] not in kinds):
            return b""
        return json.dumps(described, ensure_ascii=False).encode() + b"\n"

    return write


def _transactions(properties: Mapping[str, str]) -> Formatter:
    _refuse(properties)

    def write(record: ConsumedRecord) -> bytes:
        described = describe_transaction_record(record.key, record.value)
        return b"" if described is None else json.dumps(described, ensure_ascii=False).encode() + b"\n"

    return write


FORMATTERS: Mapping[str, Callable[[Mapping[str, str]], Formatter]] = {
    "default": _default,
    "logging": _logging,
    "checksum": _checksum,
    "noop": _noop,
    "json": _json,
    "offsets": _offsets,
    "groups": _groups,
    "transactions": _transactions,
}


def _refuse(properties: Mapping[str, str]) -> None:
    if properties:
        raise ValueError(f"This formatter has no property {next(iter(properties))!r}.")
