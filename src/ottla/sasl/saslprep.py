"""SASLprep (RFC 4013): one spelling for strings that look the same.

Kafka normalizes user names and passwords of SCRAM in this way.
"""

from __future__ import annotations

import stringprep
import unicodedata

__all__ = ["saslprep"]

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    """The normalized string; raises ValueError for a string with prohibited characters."""
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    for character in normal:
        if any(is_prohibited(character) for is_prohibited in _PROHIBITED):
            raise ValueError(f"the character U+{ord(character):04X} is not allowed here")
    _check_direction(normal)
    return normal


def _check_direction(text: str) -> None:
    """Raises ValueError if right-to-left characters are mixed with left-to-right ones, or are not first and last."""
    is_right_to_left = [stringprep.in_table_d1(character) for character in text]
    if not any(is_right_to_left):
        return
    if any(map(stringprep.in_table_d2, text)) or not is_right_to_left[0] or not is_right_to_left[-1]:
        raise ValueError("characters of both writing directions are mixed")
