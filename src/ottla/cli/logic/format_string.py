r"""The format strings of `consume --format`, with kcat's tokens.

| token | what |
|---|---|
| `%s` `%S` `%R` | the value; its length, -1 for null; its length as four bytes |
| `%k` `%K` | the key; its length, -1 for null |
| `%h` | the headers, `name=value` separated by commas |
| `%T` `%D` | the timestamp in milliseconds; as a date and time in UTC |
| `%t` `%p` `%o` | topic, partition, offset |
| `%%` `\n` `\r` `\t` `\\` `\xHH` | a percent sign, control characters, a backslash, any byte |
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime

from ottla.cli.logic.deserializers import Deserializer
from ottla.client.consumer import ConsumedRecord

__all__ = ["format_string"]

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}
_PIECE = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)

Piece = Callable[[ConsumedRecord], bytes]


def format_string(
    text: str, *, show: Deserializer | None = None, null: bytes = b""
) -> Callable[[ConsumedRecord], bytes]:
    """A formatter; `show` encodes keys, values and header values, `null` stands for a missing key or value."""

    def shown(content: bytes | None) -> bytes:
        if content is None:
            return null
        return content if show is None else show(content)

    tokens: dict[str, Piece] = {
        "s": lambda record: shown(record.value),
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: struct.pack(">i", _length(record.value)),
        "k": lambda record: shown(record.key),
        "K": lambda record: b"%d" % _length(record.key),
        "h": lambda record: b",".join(name.encode() + b"=" + shown(value) for name, value in record.headers),
        "T": lambda record: b"%d" % record.timestamp,
        "D": _date,
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
    }
    pieces: list[bytes | Piece] = []
    for token, byte, escape, plain, end in _PIECE.findall(text):
        if token == "%":
            pieces.append(b"%")
        elif token:
            if token not in tokens:
                raise ValueError(f"--format has no token %{token}; it has {', '.join(f'%{name}' for name in tokens)}.")
            pieces.append(tokens[token])
        elif byte:
            pieces.append(bytes.fromhex(byte))
        elif escape:
            if escape not in _ESCAPES:
                raise ValueError(f"--format has no escape \\{escape}; it has \\n, \\r, \\t, \\0, \\\\ and \\xHH.")
            pieces.append(_ESCAPES[escape])
        elif end:
            raise ValueError(f"--format {text!r} ends with a single {end!r}; write it twice for the character itself.")
        else:
            pieces.append(plain.encode())
    return lambda record: b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)


def _length(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _date(record: ConsumedRecord) -> bytes:
    if record.timestamp < 0:
        return b"-"
    moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
