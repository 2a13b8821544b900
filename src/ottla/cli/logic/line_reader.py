"""From lines to records, by the reader properties of the console producer.

The whole line is the value, unless `parse.key` or `parse.headers` cut something off the front: headers first, then the
key, then the value. A line is bytes in any encoding; only the separators and the names of headers are text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LineFormat", "LineRecord", "line_format", "parse_line"]

# How much of a bad line an error message shows.
_SHOWN_BYTES = 60


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    # None: chosen by the producer.
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    parse_key: bool = False
    parse_headers: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None
    ignore_error: bool = False


def line_format(properties: Mapping[str, str]) -> LineFormat:
    """The format that reader properties describe; an unknown property is an error."""
    known = {
        "parse.key": "parse_key",
        "parse.headers": "parse_headers",
        "key.separator": "key_separator",
        "headers.delimiter": "headers_delimiter",
        "headers.separator": "headers_separator",
        "headers.key.separator": "headers_key_separator",
        "null.marker": "null_marker",
        "ignore.error": "ignore_error",
    }
    fields: dict[str, object] = {}
    for name, value in properties.items():
        if name not in known:
            raise ValueError(f"There is no reader property {name!r}; there are {', '.join(sorted(known))}.")
        flag = name in ("parse.key", "parse.headers", "ignore.error")
        fields[known[name]] = value.strip().lower() == "true" if flag else _unescaped(value)
    line_format = LineFormat(**fields)  # type: ignore[arg-type]
    if line_format.parse_headers and line_format.headers_delimiter == line_format.headers_separator:
        raise ValueError("headers.delimiter and headers.separator must differ.")
    if line_format.parse_headers and line_format.headers_separator == line_format.headers_key_separator:
        raise ValueError("headers.separator and headers.key.separator must differ.")
    return line_format


def parse_line(line: bytes, how: LineFormat, *, number: int) -> LineRecord:
    """The record of one line without its end; the number is for error messages."""
    headers: list[tuple[str, bytes | None]] = []
    key = None
    rest = line
    null = None if how.null_marker is None else how.null_marker.encode()
    if how.parse_headers:
        front, rest = _cut(rest, how.headers_delimiter, "headers.delimiter", how, number)
        headers = _headers(front, how, number) if front is not None and front != null else []
    if how.parse_key:
        front, rest = _cut(rest, how.key_separator, "key.separator", how, number)
        key = None if front == null else front
    return LineRecord(key, None if rest == null else rest, headers)


def _cut(line: bytes, separator: str, name: str, how: LineFormat, number: int) -> tuple[bytes | None, bytes]:
    front, separated, rest = line.partition(separator.encode())
    if separated:
        return front, rest
    if how.ignore_error:
        return None, line
    raise ValueError(f"Line {number} has no {name} {separator!r}: {_shown(line)}.")


def _headers(front: bytes, how: LineFormat, number: int) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    null = None if how.null_marker is None else how.null_marker.encode()
    for part in front.split(how.headers_separator.encode()):
        name, separator, value = part.partition(how.headers_key_separator.encode())
        if not separator and not how.ignore_error:
            raise ValueError(f"Line {number} has a header without {how.headers_key_separator!r}: {_shown(part)}.")
        try:
            headers.append((name.decode(), None if not separator or value == null else value))
        except UnicodeDecodeError:
            raise ValueError(f"Line {number} has a header whose name is not UTF-8: {_shown(name)}.") from None
    return headers


def _shown(line: bytes) -> str:
    """The beginning of a line, as text where it is UTF-8."""
    text = repr(line[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"))
    return f"{text} ..." if len(line) > _SHOWN_BYTES else text


def _unescaped(text: str) -> str:
    """Replaces escape sequences: a shell passes a backslash and t as two characters for a tab."""
    return text.replace("\\t", "\t").replace("\\n", "\n")
