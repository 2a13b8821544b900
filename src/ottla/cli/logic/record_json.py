"""Records as JSON objects: `consume --json` writes them, `produce --input json` reads them.

Bytes that are UTF-8 are a JSON string. Other bytes are `{"base64": "..."}`, so that no byte is lost; `{"hex": "..."}`
is read as well. A null key, value or header is null.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from ottla.cli.failures import suggestion
from ottla.cli.logic.line_reader import LineRecord
from ottla.client.consumer import ConsumedRecord

__all__ = ["ENCODINGS", "parse_record", "record_object"]

ENCODINGS = ("text", "base64", "hex")

# Fields of `consume --json` that a producer cannot choose; `topic` is chosen on the command line.
_IGNORED = ("topic", "offset")
_FIELDS = ("key", "value", "headers", "timestamp", "partition", *_IGNORED)


def record_object(record: ConsumedRecord, *, encoding: str = "text") -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _written(record.key, encoding),
        "value": _written(record.value, encoding),
        "headers": [[name, _written(value, encoding)] for name, value in record.headers],
    }


def _written(content: bytes | None, encoding: str) -> str | dict[str, str] | None:
    if content is None:
        return None
    if encoding == "hex":
        return {"hex": content.hex()}
    if encoding == "text":
        try:
            return content.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(content).decode()}


def parse_record(line: bytes, *, number: int) -> LineRecord:
    """The record of one JSON object; the number of the line is for error messages."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Line {number} is not JSON: {error}.") from None
    if not isinstance(document, dict):
        raise ValueError(f'Line {number} is not a JSON object like {{"key": "k", "value": "v"}}.')
    for name in document:
        if name not in _FIELDS:
            hint = suggestion(name, _FIELDS) or f" The fields are {', '.join(_FIELDS)}."
            raise ValueError(f"Line {number} has the unknown field {name!r}.{hint}")
    return LineRecord(
        _read(document.get("key"), "key", number),
        _read(document.get("value"), "value", number),
        _headers(document.get("headers") or [], number),
        timestamp_ms=_number(document.get("timestamp"), "timestamp", number),
        partition=_number(document.get("partition"), "partition", number),
    )


def _headers(headers: Any, number: int) -> list[tuple[str, bytes | None]]:
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError(f'Line {number}: headers must be an object, or a list of pairs like [["name", "value"]].')
    return [(name, _read(value, f"header {name!r}", number)) for name, value in pairs]


def _read(value: Any, name: str, number: int) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"Line {number}: the {name} has half of a surrogate pair, which is no text.") from None
    if isinstance(value, dict) and len(value) == 1:
        (encoding, content), *_ = value.items()
        if encoding in ("base64", "hex") and isinstance(content, str):
            try:
                return base64.b64decode(content, validate=True) if encoding == "base64" else bytes.fromhex(content)
            except (binascii.Error, ValueError) as error:
                raise ValueError(f"Line {number}: the {name} is not {encoding}: {error}.") from None
    # Any other JSON is the content itself, in its shortest form.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _number(value: Any, name: str, number: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"Line {number}: the {name} must be a whole number, not {value!r}.")
    # -1 is the timestamp of a record without one.
    return None if value == -1 else value
