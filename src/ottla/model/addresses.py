"""Converts IP addresses from text to bytes, without importing the much larger `ipaddress` module."""

from __future__ import annotations

__all__ = ["address_bytes"]

_GROUPS = 8
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


def address_bytes(text: str) -> bytes | None:
    """The 4 or 16 bytes of an address in network order, or None if the text is no address. Ignores a zone (%eth0)."""
    numbers = text.split(".")
    if len(numbers) == 4:
        return _dotted(numbers)
    head, gap, tail = text.partition("%")[0].partition("::")
    before, after = _groups(head), _groups(tail)
    if before is None or after is None:
        return None
    missing = _GROUPS - len(before) - len(after)
    if missing < 1 if gap else missing:
        return None
    return b"".join(group.to_bytes(2, "big") for group in (*before, *([0] * missing), *after))


def _dotted(numbers: list[str]) -> bytes | None:
    return bytes(map(int, numbers)) if all(map(_is_octet, numbers)) else None


def _is_octet(number: str) -> bool:
    return len(number) <= 3 and number.isascii() and number.isdecimal() and int(number) < 256


def _groups(text: str) -> list[int] | None:
    """The hexadecimal groups between colons; None if the text is not made of such groups."""
    if not text:
        return []
    groups = text.split(":")
    if not all(1 <= len(group) <= 4 and _HEXADECIMAL.issuperset(group) for group in groups):
        return None
    return [int(group, 16) for group in groups]
