"""Records of a topic: pages, a single value, a new record, and the check of a filter."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import shlex
from typing import Any
from urllib.parse import quote

from aiohttp import web

from ottla.client.consumer import ConsumedRecord
from ottla.client.producer import Producer
from ottla.console.answers import ApiError, invalid, to_json
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.filters import FilterError, make_message_filter
from ottla.console.masking import Masker
from ottla.console.record_scan import Scan, ScanRequest, opened_consumer, range_of, scan_request
from ottla.console.routes.topics import topic_of

__all__ = ["MESSAGE_ROUTES"]

DOWNLOAD_MAX = 10_000
COMMAND_MAX = 2_000
ANSWER_BYTES_MAX = 16 * 1024 * 1024


async def _messages(call: Call) -> dict[str, Any]:
    request = await scan_request(call)
    scan, messages = await _read(call, request)
    return {
        "items": messages,
        "next": {str(partition.partition): offset for partition, offset in sorted(scan.next.items())},
        "previous": {str(partition.partition): offset for partition, offset in sorted(scan.range.begins.items())},
        "scanned": scan.scanned,
        "is_complete": scan.is_complete,
    }


async def _read(call: Call, request: ScanRequest) -> tuple[Scan, list[dict[str, Any]]]:
    deadline = asyncio.get_running_loop().time() + request.timeout_ms / 1000
    scan = Scan(request, await range_of(call, request))
    messages: list[dict[str, Any]] = []
    size, is_newest = 0, request.start in ("latest", "before")
    async with (
        call.services.scans.turn(call.owner),
        opened_consumer(call, is_committed=request.is_committed) as consumer,
    ):
        async for message in scan.run(consumer, deadline=deadline):
            if message is None:
                continue
            messages.append(message)
            size += message["size"]
            while is_newest and size > ANSWER_BYTES_MAX and len(messages) > 1:
                oldest = min(messages, key=_age)
                messages.remove(oldest)
                size -= oldest["size"]
                scan.leave_out(oldest)
            if not is_newest and size > ANSWER_BYTES_MAX:
                scan.is_complete = False
                break
    # Of all partitions together, the newest first if the newest were asked for.
    messages.sort(key=_age, reverse=is_newest)
    if is_newest:
        for message in messages[request.limit :]:
            scan.leave_out(message)
        del messages[request.limit :]
    return scan, messages


def _age(message: dict[str, Any]) -> tuple[int, int, int]:
    return message["timestamp"], message["partition"], message["offset"]


async def _download(call: Call) -> web.Response:
    form = call.query.get("format", "json")
    if form == "value":
        return await _value(call)
    if form != "json":
        raise invalid("format is json or value.")
    request = await scan_request(call, limit_max=DOWNLOAD_MAX)
    _, messages = await _read(call, request)
    lines = b"".join(to_json(message) + b"\n" for message in messages)
    return _file(lines, f"{request.topic}.ndjson", "application/x-ndjson")


async def _value(call: Call) -> web.Response:
    """The bytes of a value, without decoding. A role with masks cannot have them."""
    request = await scan_request(call)
    if not Masker(call.account.role.masks, request.topic).is_idle:
        raise ApiError(403, "NOT_ALLOWED", "Values of this topic are masked for your role.")
    if len(request.partitions) != 1 or "offset" not in call.query:
        raise invalid("format=value needs partition and offset.")
    record = await _record(call, request)
    name = f"{request.topic}-{record.partition}-{record.offset}.bin"
    return _file(record.value or b"", name, "application/octet-stream")


async def _record(call: Call, request: ScanRequest) -> ConsumedRecord:
    (partition,) = request.partitions
    async with call.services.scans.turn(call.owner), opened_consumer(call, is_committed=False) as consumer:
        await consumer.assign([partition])
        consumer.seek(partition, request.offset)
        for record in await consumer.poll(request.timeout_ms, max_records=1):
            if record.offset == request.offset:
                return record
    raise ApiError(404, "NOT_FOUND", f"{partition} has no record at offset {request.offset}.")


def _file(content: bytes, name: str, content_type: str) -> web.Response:
    return web.Response(
        body=content,
        headers={
            "Content-Type": content_type,
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
            "Cache-Control": "no-store",
        },
    )


async def _produce(call: Call) -> Change:
    info = await topic_of(call, call.part("name"))
    encoding = call.text("encoding", "text")
    key = _content(call.body.get("key"), encoding, "key")
    value = _content(call.body.get("value"), encoding, "value")
    headers = _headers(call.body.get("headers") or [], encoding)
    partition = call.body.get("partition")
    if partition is not None and partition not in info.partitions:
        raise invalid(f"{info.name} has no partition {partition!r}.")

    async def apply() -> dict[str, Any]:
        async with Producer(call.account.settings) as producer:
            sent = await producer.send_and_wait(info.name, value, key, headers=headers, partition=partition)
        return {"partition": sent.partition, "offset": sent.offset}

    size = len(key or b"") + len(value or b"")
    where = "the partition of its key" if partition is None and key is not None else "a partition"
    target = where if partition is None else f"partition {partition}"
    return Change(
        plan=[f"Writes a record of {size} bytes to {target} of {info.name}."],
        command=_pipe(info.name, key, value, headers, partition),
        apply=apply,
        warnings=["A record cannot be changed or taken back."],
        # Contents of records do not belong in a log.
        logged=command_line("produce", info.name, options=[("--partition", partition)]),
    )


def _content(value: object, encoding: str, label: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"The {label} must be a text or null.")
    try:
        if encoding == "text":
            return value.encode()
        if encoding == "hex":
            return bytes.fromhex(value)
        if encoding == "base64":
            return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise invalid(f"The {label} is not {encoding}.") from None
    raise invalid("encoding is text, hex or base64.")


def _headers(value: object, encoding: str) -> list[tuple[str, bytes | None]]:
    if not isinstance(value, list):
        raise invalid('headers must be a list like [{"name": "a", "value": "b"}].')
    headers = []
    for header in value:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str):
            raise invalid('A header must look like {"name": "a", "value": "b"}.')
        headers.append((header["name"], _content(header.get("value"), encoding, f"header {header['name']!r}")))
    return headers


def _pipe(
    topic: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], partition: int | None
) -> str:
    """`echo '{"key": ...}' | ottla produce orders --input json`."""

    def content_json(content: bytes | None) -> object:
        if content is None:
            return None
        try:
            return content.decode()
        except UnicodeDecodeError:
            return {"hex": content.hex()}

    record: dict[str, object] = {"key": content_json(key), "value": content_json(value)}
    if headers:
        record["headers"] = [[name, content_json(content)] for name, content in headers]
    if partition is not None:
        record["partition"] = partition
    line = command_line("produce", topic, options=[("--input", "json")])
    text = json.dumps(record, ensure_ascii=False)
    return f"{line} < record.json" if len(text) > COMMAND_MAX else f"echo {shlex.quote(text)} | {line}"


async def _check_filter(call: Call) -> dict[str, Any]:
    try:
        make_message_filter(call.text("filter", ""))
    except FilterError as error:
        return {"ok": False, "message": str(error), "position": error.position}
    return {"ok": True, "message": None, "position": None}


MESSAGE_ROUTES = (
    Route("GET", "/api/topics/{name}/messages", _messages, Need.MESSAGES),
    Route("GET", "/api/topics/{name}/download", _download, Need.MESSAGES, patience_ms=None),
    Route("POST", "/api/topics/{name}/messages", _produce, Need.WRITE),
    Route("POST", "/api/filter", _check_filter),
)
