"""The lines of `dump-log` for a file, each as text in Kafka's format and as fields."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from ottla.cli.logic.coordinator_records import describe_group_record, describe_transaction_record, plain
from ottla.model.config.effective import is_secret_of_broker
from ottla.model.ids import Uuid
from ottla.records.control import ControlType, read_control_type, read_end_transaction_marker
from ottla.records.errors import CorruptRecords
from ottla.records.header import BatchHeader
from ottla.records.iterate import Batch, iterate_batches, iterate_records, verify_checksum
from ottla.records.record import Record
from ottla.storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.message import Message
from ottla.wire.messages import control_records
from ottla.wire.messages.metadata_records import ConfigRecord, UserScramCredentialRecord
from ottla.wire.metadata_codec import decode_record

__all__ = ["DumpOptions", "Line", "dump_file"]

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")
# The type of a resource in a ConfigRecord.
_BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    records: bool = False
    payloads: bool = False
    record_metadata: bool = True
    # metadata, offsets or transactions
    decoder: str | None = None
    check_only: bool = False
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    is_complaint: bool = False


def dump_file(path: str, options: DumpOptions) -> Iterator[Line]:
    """By the file's name, as Kafka's tool does."""
    name = os.path.basename(path)
    suffix = name.rpartition(".")[2]
    if suffix in ("log", "checkpoint"):
        return _dump_segment(path, options)
    if suffix == "index":
        return _dump_offset_index(path, options)
    if suffix == "timeindex":
        return _dump_time_index(path, options)
    if suffix == "txnindex":
        return _dump_transaction_index(path)
    if suffix == "snapshot":
        return _dump_producers(path)
    os.stat(path)
    return iter([Line(f"Ignoring unknown file {path}", {"ignored": path})])


def _dump_segment(path: str, options: DumpOptions) -> Iterator[Line]:
    name = os.path.basename(path)
    if name.endswith(".checkpoint"):
        end, _, epoch = name.removesuffix(".checkpoint").partition("-")
        if end.isdecimal():
            yield Line(f"Snapshot end offset: {int(end)}, epoch: {int(epoch or 0)}", {"snapshotEndOffset": int(end)})
    else:
        yield Line(f"Log starting offset: {_base_offset(path)}", {"logStartingOffset": name.partition(".")[0]})
    with open(path, "rb") as file:
        content = file.read(-1 if options.bytes_max is None else options.bytes_max)
    size = os.path.getsize(path)
    last = -1
    end_position = 0
    try:
        for batch in iterate_batches(content):
            header = batch.header
            if last >= 0 and header.base_offset <= last:
                yield Line(f"Out of order: offset {header.base_offset} comes after {last}", {}, True)
            last = header.last_offset
            end_position = batch.position + header.size
            yield _batch_line(batch)
            if options.records:
                yield from _record_lines(batch, options)
    except CorruptRecords as error:
        yield Line(f"At position {end_position}: {error}", {"error": str(error)}, True)
        return
    if options.bytes_max is None and end_position < size:
        yield Line(f"Found {size - end_position} invalid bytes at the end of {name}", {}, True)


def _batch_line(batch: Batch) -> Line:
    header = batch.header
    valid = verify_checksum(batch.view, header)
    horizon = header.delete_horizon_ms
    fields: dict[str, Any] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": batch.position,
        _time_name(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": header.codec.name.lower(),
        "crc": header.crc,
        "isvalid": valid,
    }
    return Line(_text(fields), fields, is_complaint=not valid)


def _record_lines(batch: Batch, options: DumpOptions) -> Iterator[Line]:
    header = batch.header
    for record in iterate_records(batch):
        fields: dict[str, Any] = {}
        if options.record_metadata:
            sequence = -1
            if header.base_sequence >= 0:
                sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
            fields = {
                "offset": record.offset,
                _time_name(header): record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
                "sequence": sequence,
                "headerKeys": "[" + ",".join(name for name, _ in record.headers) + "]",
            }
        if header.is_control:
            fields |= _control(record)
        elif options.payloads:
            fields |= _payload(record, options.decoder)
        yield Line("| " + _text(fields), {"record": fields})


def _payload(record: Record, decoder: str | None) -> dict[str, Any]:
    key = None if record.key is None else bytes(record.key)
    value = None if record.value is None else bytes(record.value)
    if decoder == "metadata" and value is not None:
        try:
            message = decode_record(memoryview(value))
        except MalformedMessage as error:
            return {"payload": f"(cannot be decoded: {error})"}
        name = "".join(("_" + c if c.isupper() else c.upper()) for c in type(message).__name__).lstrip("_")
        return {"payload": {"type": name, "data": _without_secrets(message)}}
    if decoder in ("offsets", "transactions"):
        describe = describe_group_record if decoder == "offsets" else describe_transaction_record
        described = describe(key, value)
        if described is not None:
            return {"key": {"type": described["type"], "data": described["key"]}, "payload": described["value"]}
    values: dict[str, Any] = {}
    if key is not None:
        values["key"] = key.decode("utf-8", "replace")
    if value is not None:
        values["payload"] = value.decode("utf-8", "replace")
    return values


def _without_secrets(message: Message) -> dict[str, Any]:
    """The fields of a record without secrets, because a dump is shared more easily than its file."""
    shown: dict[str, Any] = plain(message)
    hidden: tuple[str, ...] = ()
    if isinstance(message, UserScramCredentialRecord):
        hidden = ("salt", "storedKey", "serverKey")
    elif isinstance(message, ConfigRecord) and message.resource_type == _BROKER:
        hidden = ("value",) if is_secret_of_broker(message.name) else ()
    return {name: "[hidden]" if name in hidden else value for name, value in shown.items()}


_QUORUM_BODIES: dict[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: control_records.LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: control_records.SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: control_records.SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: control_records.KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: control_records.VotersRecord,
}


def _control(record: Record) -> dict[str, Any]:
    marker = read_end_transaction_marker(record)
    if marker is not None:
        return {
            "endTxnMarker": "COMMIT" if marker.is_commit else "ABORT",
            "coordinatorEpoch": marker.coordinator_epoch,
        }
    kind = read_control_type(record.key)
    body = _QUORUM_BODIES.get(kind)
    if body is None or record.value is None:
        return {"controlType": f"{kind.name}({int(kind)})"}
    value = memoryview(bytes(record.value))
    try:
        message, _ = decode(body, value, min(int.from_bytes(value[:2], "big"), body.VERSIONS[1]))
    except MalformedMessage as error:
        return {kind.name: f"(cannot be decoded: {error})"}
    return {_KIND_NAMES[kind]: plain(message)}


_KIND_NAMES = {
    ControlType.LEADER_CHANGE: "LeaderChange",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def _dump_offset_index(path: str, options: DumpOptions) -> Iterator[Line]:
    base = _base_offset(path)
    segment = _positions(path.removesuffix(".index") + ".log")
    last = base - 1
    is_sane = True
    for relative, position in _entries(path, _OFFSET_ENTRY):
        offset = base + relative
        if (relative, position) == (0, 0) and last >= base:
            # The rest of the file was allocated in advance.
            break
        if offset <= last:
            is_sane = False
            yield Line(f"Index offset {offset} is not greater than {last}", {}, True)
        elif segment is not None and not (
            segment.get(position, (1, 0))[0] <= offset <= segment.get(position, (1, 0))[1]
        ):
            is_sane = False
            yield Line(f"Mismatch: index has offset {offset} at {position}, the segment does not", {}, True)
        if not options.check_only:
            yield Line(f"offset: {offset} position: {position}", {"offset": offset, "position": position})
        last = offset
    if options.check_only and is_sane:
        yield Line(f"{path} passed sanity check.", {"passed": True})


def _dump_time_index(path: str, options: DumpOptions) -> Iterator[Line]:
    base = _base_offset(path)
    last = -1
    is_sane = True
    for number, (timestamp, relative) in enumerate(_entries(path, _TIME_ENTRY)):
        if number and (timestamp, relative) == (0, 0):
            break
        if timestamp < last:
            is_sane = False
            yield Line(f"Index timestamp {timestamp} is smaller than {last}", {}, True)
        if not options.check_only:
            fields = {"timestamp": timestamp, "offset": base + relative}
            yield Line(_text(fields), fields)
        last = timestamp
    if options.check_only and is_sane:
        yield Line(f"{path} passed sanity check.", {"passed": True})


def _dump_transaction_index(path: str) -> Iterator[Line]:
    for version, producer_id, first, last, stable in _entries(path, _TRANSACTION_ENTRY):
        fields = {
            "version": version,
            "producerId": producer_id,
            "firstOffset": first,
            "lastOffset": last,
            "lastStableOffset": stable,
        }
        yield Line(_text(fields), fields)


def _dump_producers(path: str) -> Iterator[Line]:
    with open(path, "rb") as file:
        content = file.read()
    try:
        entries = decode_snapshot(content)
    except CorruptSnapshot as error:
        yield Line(f"The snapshot is damaged: {error}", {}, True)
        return
    for entry in entries:
        fields = {name: getattr(entry, name, None) for name in _slots(entry) if not name.startswith("_")}
        shown = {name: value for name, value in fields.items() if isinstance(value, int | str | bool | None)}
        yield Line(_text(shown), shown)


def _slots(entry: object) -> list[str]:
    return [name for base in type(entry).__mro__ for name in getattr(base, "__slots__", ())] or list(vars(entry))


def _base_offset(path: str) -> int:
    text = os.path.basename(path).partition(".")[0]
    if not text.isdecimal():
        raise ValueError(f"{path} is not named by its first offset, as the files of a log are.")
    return int(text)


def _entries(path: str, entry: Struct) -> Iterator[tuple[Any, ...]]:
    with open(path, "rb") as file:
        content = file.read()
    return entry.iter_unpack(content[: len(content) - len(content) % entry.size])


def _positions(path: str) -> dict[int, tuple[int, int]] | None:
    """Position -> (first, last offset) of a segment's batches; None without the segment."""
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        content = file.read()
    try:
        return {
            batch.position: (batch.header.base_offset, batch.header.last_offset) for batch in iterate_batches(content)
        }
    except CorruptRecords:
        return None


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.uses_append_time else "CreateTime"


def _text(fields: dict[str, Any]) -> str:
    import json

    parts = []
    for name, value in fields.items():
        if isinstance(value, bool):
            shown = str(value).lower()
        elif isinstance(value, dict | list):
            shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        elif isinstance(value, Uuid):
            shown = str(value)
        else:
            shown = str(value)
        parts.append(f"{name}: {shown}")
    return " ".join(parts)
