"""Parses and formats Java's .properties syntax, in which Kafka's server.properties files are written.

A logical line is a key, a separator (`=`, `:` or blanks, with blanks around it) and a value. A line that ends in an
odd number of backslashes continues in the next line, whose leading blanks are dropped. A line is a comment if its first
non-blank character is `#` or `!`. A backslash makes the next character literal, except in `\\t \\n \\r \\f` and
`\\uXXXX`. If a key occurs twice, its last value counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["decode_properties", "format_properties", "parse_properties"]

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def decode_properties(content: bytes) -> str:
    """Decodes a properties file as UTF-8, or as ISO 8859-1, Java's encoding, if it is not valid UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def parse_properties(text: str) -> dict[str, str]:
    """Raises ValueError with the line number if a `\\u` escape is not followed by four hexadecimal digits."""
    properties = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """The inverse of `parse_properties`: one line per key, in the given order."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending: str | None = None
    first_number = 0
    # str.splitlines would also split at form feeds and at Unicode line separators, which Java does not do.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    for number, raw in enumerate(lines, start=1):
        line = raw.lstrip(_BLANKS)
        # After a line with only a backslash, the next line may still be blank or a comment.
        if not pending:
            if not line or line[0] in "#!":
                pending = None
                continue
            first_number = number
        else:
            line = pending + line
        if _ends_in_odd_backslashes(line):
            pending = line[:-1]
        else:
            pending = None
            yield first_number, line
    if pending is not None:
        yield first_number, pending


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key = line[:position]
    rest = line[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
        elif position < len(text):
            escaped = text[position]
            position += 1
            if escaped == "u":
                parts.append(_hexadecimal(text[position : position + 4]))
                position += 4
            else:
                parts.append(_ESCAPES.get(escaped, escaped))
    joined = "".join(parts)
    # Characters outside the basic multilingual plane are written as two escapes, a surrogate pair.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _hexadecimal(digits: str) -> str:
    if len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return chr(int(digits, 16))
    raise ValueError(f"\\u must be followed by four hexadecimal digits, not by {digits!r}")


def _escape(text: str, *, is_key: bool) -> str:
    escaped = "".join(_UNESCAPES.get(character, character) for character in text)
    if is_key:
        return "".join("\\" + character if character in "=: #!" else character for character in escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped
