"""Reads the few fields of an X.509 certificate that a node needs: its names, and when it expires.

The certificate has been verified, or is the node's own, so this small reader is enough and a node imports no library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Attribute", "Certificate", "DerError", "parse_certificate"]

_SEQUENCE: Final = 0x30
_OID: Final = 0x06
_EXTENSIONS: Final = 0xA3
_VERSION: Final = 0xA0
_GENERALIZED_TIME: Final = 0x18
_ALTERNATIVE_NAMES: Final = "2.5.29.17"


class DerError(ValueError):
    """The bytes are not a certificate."""


class Attribute(NamedTuple):
    """A part of a distinguished name. `encoded` is the value with its tag and length."""

    oid: str
    tag: int
    value: bytes
    encoded: bytes


class Certificate(NamedTuple):
    # The relative names, each of one or more attributes, in the order of the certificate.
    subject: tuple[tuple[Attribute, ...], ...]
    # Tag and bytes of each name: 0x82 is a host name, 0x87 an address.
    alternative_names: frozenset[tuple[int, bytes]]
    # The expiry as GeneralizedTime: 20261231235959Z.
    not_after: str


def parse_certificate(data: bytes) -> Certificate:
    """Raises DerError."""
    try:
        return _parse(data)
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise DerError(f"not a certificate: {error}") from None


def _parse(data: bytes) -> Certificate:
    ((_, certificate, _),) = _items(data)
    fields = list(_items(next(_items(certificate))[1]))
    if fields[0][0] == _VERSION:
        del fields[0]
    # Serial number, algorithm, issuer, validity, subject, key, and optional fields.
    validity, subject = fields[3][1], fields[4][1]
    names: frozenset[tuple[int, bytes]] = frozenset()
    for tag, value, _ in fields[6:]:
        if tag == _EXTENSIONS:
            names = _alternative_names(value)
    return Certificate(tuple(_relative_names(subject)), names, _time(list(_items(validity))[1]))


def _relative_names(subject: bytes) -> Iterator[tuple[Attribute, ...]]:
    for _, relative, _ in _items(subject):
        yield tuple(_attribute(pair) for _, pair, _ in _items(relative))


def _attribute(pair: bytes) -> Attribute:
    (_, oid, _), (tag, value, encoded) = _items(pair)
    return Attribute(_dotted(oid), tag, value, encoded)


def _alternative_names(extensions: bytes) -> frozenset[tuple[int, bytes]]:
    ((_, listed, _),) = _items(extensions)
    for _, extension, _ in _items(listed):
        parts = list(_items(extension))
        if parts[0][0] == _OID and _dotted(parts[0][1]) == _ALTERNATIVE_NAMES:
            ((_, names, _),) = _items(parts[-1][1])
            return frozenset((tag, value) for tag, value, _ in _items(names))
    return frozenset()


def _time(item: tuple[int, bytes, bytes]) -> str:
    tag, value, _ = item
    text = value.decode("ascii")
    if tag == _GENERALIZED_TIME:
        return text
    # UTCTime has two digits of the year (RFC 5280, 4.1.2.5.1).
    return ("19" if text >= "50" else "20") + text


def _items(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, content and whole encoding of consecutive values."""
    at = 0
    while at < len(data):
        tag, length, start = data[at], data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise DerError("a length is not valid")
            length = int.from_bytes(data[start : start + size], "big")
            start += size
        if start + length > len(data):
            raise DerError("a value ends too early")
        yield tag, data[start : start + length], data[at : start + length]
        at = start + length


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
