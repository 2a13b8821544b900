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
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Line {number} is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ValueError(f'Line {number} is not a JSON object like {{"key": "k", "value": "v"}}.')
    for name in found:
        if name not in _FIELDS:
            hint = suggestion(name, _FIELDS) or f" The fields are {', '.join(_FIELDS)}."
            raise ValueError(f"Line {number} has the unknown field {name!r}.{hint}")
    return LineRecord(
        _read(found.get("key"), "key", number),
        _read(found.get("value"), "value", number),
        _headers(found.get("headers") or [], number),
        timestamp_ms=_number(found.get("timestamp"), "timestamp", number),
        partition=_number(found.get("partition"), "partition", number),
    )


def _headers(found: Any, number: int) -> list[tuple[str, bytes | None]]:
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError(f'Line {number}: headers must be an object, or a list of pairs like [["name", "value"]].')
    return [(name, _read(value, f"header {name!r}", number)) for name, value in pairs]


def _read(found: Any, what: str, number: int) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str):
        try:
            return found.encode()
        except UnicodeEncodeError:
            raise ValueError(f"Line {number}: the {what} has half of a surrogate pair, which is no text.") from None
    if isinstance(found, dict) and len(found) == 1:
        (encoding, content), *_ = found.items()
        if encoding in ("base64", "hex") and isinstance(content, str):
            try:
                return base64.b64decode(content, validate=True) if encoding == "base64" else bytes.fromhex(content)
            except (binascii.Error, ValueError) as error:
                raise ValueError(f"Line {number}: the {what} is not {encoding}: {error}.") from None
    # Any other JSON is the content itself, in its shortest form.
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _number(found: Any, what: str, number: int) -> int | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"Line {number}: the {what} must be a whole number, not {found!r}.")
    # -1 is the timestamp of a record without one.
    return None if found == -1 else found
