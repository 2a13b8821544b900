"""Parses regular expressions over names, in RE2's syntax without classes of Unicode, into a tree of nodes."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = [
    "ASCII",
    "LENGTH_MAX",
    "TOPIC_CHARACTERS",
    "WORD",
    "At",
    "Chars",
    "Choice",
    "InvalidPattern",
    "Node",
    "Parser",
    "Place",
    "Repeat",
    "Sequence",
]

_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
WORD = _DIGITS | _LOWER | _UPPER | {"_"}
TOPIC_CHARACTERS = WORD | {".", "-"}
_SPACES = frozenset("\t\n\f\r ")
ASCII = frozenset(map(chr, range(128)))
_PRINTED = frozenset(map(chr, range(33, 127)))
_POSIX = {
    "alnum": WORD - {"_"},
    "alpha": _LOWER | _UPPER,
    "ascii": ASCII,
    "blank": frozenset("\t "),
    "cntrl": ASCII - _PRINTED - {" "},
    "digit": _DIGITS,
    "graph": _PRINTED,
    "lower": _LOWER,
    "print": _PRINTED | {" "},
    "punct": _PRINTED - WORD | {"_"},
    "space": _SPACES | {"\v"},
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
_ESCAPED_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}

# RE2's own bound for counted repetition; the other bounds limit the size of an expression.
_REPEAT_MAX = 1000
_DEPTH_MAX = 100
# A literal character takes two states, so a longer expression would have too many states anyway.
LENGTH_MAX = 5_000


class InvalidPattern(Exception):
    """The expression is malformed, or cannot be matched in linear time."""


class At(Enum):
    START = "start"
    END = "end"
    BOUNDARY = "boundary"
    NO_BOUNDARY = "no boundary"


class Chars(NamedTuple):
    chars: frozenset[str]


class Place(NamedTuple):
    at: At


class Sequence(NamedTuple):
    parts: list[Node]


class Choice(NamedTuple):
    parts: list[Node]


class Repeat(NamedTuple):
    part: Node
    low: int
    # None: unbounded.
    high: int | None


Node = Chars | Place | Sequence | Choice | Repeat


class Parser:
    """Recursive descent over one expression."""

    __slots__ = ("_alphabet", "_any", "_classes", "_depth", "_ignores_case", "_position", "_text")

    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        self._text = text
        self._alphabet = alphabet
        self._any = alphabet - {"\n"}
        self._classes = {
            "d": _DIGITS,
            "w": WORD,
            "s": _SPACES & alphabet,
            "D": alphabet - _DIGITS,
            "W": alphabet - WORD,
            "S": alphabet - _SPACES,
        }
        self._position = 0
        self._depth = 0
        self._ignores_case = False

    def parse(self) -> Node:
        node = self._choice()
        if self._position < len(self._text):
            raise InvalidPattern("a ) without its (")
        return node

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._position):
            self._position += len(expected)
            return True
        return False

    def _next(self, otherwise: str) -> str:
        character = self._peek()
        if not character:
            raise InvalidPattern(otherwise)
        self._position += 1
        return character

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(parts)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        # Lazy repetition matches the same names.
        self._take("?")
        if self._peek() in ("*", "+", "?"):
            raise InvalidPattern("a repetition of a repetition")
        return Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return bounds
        end = self._text.find("}", self._position)
        if self._peek() != "{" or end < 0:
            return None
        low_text, comma, high_text = self._text[self._position + 1 : end].partition(",")
        if not low_text.isdecimal() or (high_text and not high_text.isdecimal()):
            # The brace is a literal and not a count.
            return None
        low = int(low_text[:5])
        high = low if not comma else int(high_text[:5]) if high_text else None
        if low > _REPEAT_MAX or (high is not None and (high > _REPEAT_MAX or high < low)):
            raise InvalidPattern("a count that is too large, or bounds in the wrong order")
        self._position = end + 1
        return low, high

    def _atom(self) -> Node | None:
        character = self._next("it ends too early")
        if character == "(":
            return self._group()
        if character == "[":
            return Chars(self._class())
        if character == ".":
            return Chars(self._any)
        if character == "^":
            return Place(At.START)
        if character == "$":
            return Place(At.END)
        if character in ("*", "+", "?"):
            raise InvalidPattern(f"nothing before {character} to be repeated")
        if character == "\\":
            return self._escape()
        return self._literal(character)

    def _literal(self, character: str) -> Chars:
        cases = {character, character.lower(), character.upper()} if self._ignores_case else {character}
        return Chars(self._alphabet & cases)

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidPattern("it nests too deeply")
        outer_ignores_case = self._ignores_case
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                if self._peek() in ("=", "!"):
                    raise InvalidPattern("lookaround or an unknown flag")
                end = self._text.find(">", self._position)
                if end < 0 or not self._text[self._position : end].replace("_", "a").isalnum():
                    raise InvalidPattern("a group without a proper name")
                self._position = end + 1
            elif self._flags():
                # Flags without an expression apply until the end of their group.
                self._depth -= 1
                return None
        node = self._choice()
        if not self._take(")"):
            raise InvalidPattern("a ( without its )")
        self._ignores_case = outer_ignores_case
        self._depth -= 1
        return node

    def _flags(self) -> bool:
        """True if the group ends after its flags. Of the flags only `i` matters for topic names."""
        value = True
        while True:
            character = self._next("a ( without its )")
            if character == "-":
                value = False
            elif character == "i":
                self._ignores_case = value
            elif character in (":", ")"):
                return character == ")"
            elif character not in "msU":
                raise InvalidPattern("lookaround or an unknown flag")

    def _escape(self) -> Node:
        character = self._next("a backslash at the end")
        if character in self._classes:
            return Chars(self._classes[character])
        if character == "A":
            return Place(At.START)
        if character == "z":
            return Place(At.END)
        if character == "b":
            return Place(At.BOUNDARY)
        if character == "B":
            return Place(At.NO_BOUNDARY)
        if character == "Q":
            end = self._text.find("\\E", self._position)
            quoted = self._text[self._position :] if end < 0 else self._text[self._position : end]
            self._position = len(self._text) if end < 0 else end + 2
            return Sequence([self._literal(character) for character in quoted])
        return self._literal(self._escaped_character(character))

    def _escaped_character(self, character: str) -> str:
        if character in _ESCAPED_CONTROLS:
            return _ESCAPED_CONTROLS[character]
        if character == "x":
            return self._hexadecimal()
        if character.isascii() and not character.isalnum():
            return character
        raise InvalidPattern(f"unknown escape \\{character}")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            end = self._text.find("}", self._position)
            digits = "" if end < 0 else self._text[self._position : end]
            self._position = end + 1
        else:
            digits = self._text[self._position : self._position + 2]
            self._position += 2
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError) as error:
            raise InvalidPattern("no character has that number") from error

    def _class(self) -> frozenset[str]:
        is_negated = self._take("^")
        chars: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            self._class_item(chars)
        self._position += 1
        if self._ignores_case:
            chars |= {other for character in chars for other in (character.lower(), character.upper())}
        return frozenset(self._alphabet - chars if is_negated else self._alphabet & chars)

    def _class_item(self, chars: set[str]) -> None:
        if self._take("[:"):
            end = self._text.find(":]", self._position)
            name = self._text[self._position : max(end, self._position)]
            is_negated = name.startswith("^")
            posix_class = _POSIX.get(name.removeprefix("^"))
            if posix_class is None:
                raise InvalidPattern("a range in the wrong order, or an unknown class")
            self._position = end + 2
            chars |= self._alphabet - posix_class if is_negated else self._alphabet & posix_class
            return
        low = self._next("a [ without its ]")
        if low == "\\":
            escaped = self._next("a backslash at the end")
            if escaped in self._classes:
                chars |= self._classes[escaped]
                return
            low = self._escaped_character(escaped)
        has_range = self._peek() == "-" and self._text[self._position + 1 : self._position + 2] not in ("", "]")
        if not has_range:
            chars.add(low)
            return
        self._position += 1
        high = self._next("a [ without its ]")
        if high == "\\":
            high = self._escaped_character(self._next("a backslash at the end"))
        if high < low:
            raise InvalidPattern("a range in the wrong order, or an unknown class")
        chars |= {character for character in self._alphabet if low <= character <= high}
