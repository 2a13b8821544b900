"""From lines to records, by the reader properties of the console producer.

The whole line is the value, unless `parse.key` or `parse.headers` cut something off the front: headers first, then the
key, then the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LineFormat", "LineRecord", "line_format", "parse_line"]


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


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
    given: dict[str, object] = {}
    for name, value in properties.items():
        if name not in known:
            raise ValueError(f"There is no reader property {name!r}; there are {', '.join(sorted(known))}.")
        flag = name in ("parse.key", "parse.headers", "ignore.error")
        given[known[name]] = value.strip().lower() == "true" if flag else _unescaped(value)
    line_format = LineFormat(**given)  # type: ignore[arg-type]
    if line_format.parse_headers and line_format.headers_delimiter == line_format.headers_separator:
        raise ValueError("headers.delimiter and headers.separator must differ.")
    if line_format.parse_headers and line_format.headers_separator == line_format.headers_key_separator:
        raise ValueError("headers.separator and headers.key.separator must differ.")
    return line_format


def parse_line(line: str, how: LineFormat, *, number: int) -> LineRecord:
    """The record of one line without its end; the number is for error messages."""
    headers: list[tuple[str, bytes | None]] = []
    key = None
    rest = line
    if how.parse_headers:
        text, rest = _cut(rest, how.headers_delimiter, "headers.delimiter", how, number)
        headers = _headers(text, how, number) if text is not None else []
    if how.parse_key:
        text, rest = _cut(rest, how.key_separator, "key.separator", how, number)
        key = None if text is None or text == how.null_marker else text.encode()
    value = None if rest == how.null_marker else rest.encode()
    return LineRecord(key, value, headers)


def _cut(text: str, separator: str, name: str, how: LineFormat, number: int) -> tuple[str | None, str]:
    front, separated, rest = text.partition(separator)
    if separated:
        return (None if front == how.null_marker and name == "headers.delimiter" else front), rest
    if how.ignore_error:
        return None, text
    raise ValueError(f"Line {number} has no {name} {separator!r}: {text!r}.")


def _headers(text: str, how: LineFormat, number: int) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for part in text.split(how.headers_separator):
        name, separator, value = part.partition(how.headers_key_separator)
        if not separator and not how.ignore_error:
            raise ValueError(f"Line {number} has a header without {how.headers_key_separator!r}: {part!r}.")
        content = None if not separator or value == how.null_marker else value.encode()
        headers.append((name, content))
    return headers


def _unescaped(text: str) -> str:
    """Replaces escape sequences: a shell passes a backslash and t as two characters for a tab."""
    return text.replace("\\t", "\t").replace("\\n", "\n")
