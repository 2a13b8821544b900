"""Regular expressions over topic names, in time linear to the name.

Clients choose these expressions, and one that makes a backtracking matcher run for years must do no harm: Python's own
`re` would block the whole node. The syntax is that of RE2, which Apache Kafka uses: no back references and no
lookaround. An expression becomes a nondeterministic automaton whose states are followed in parallel. Sets of states are
cached, so that the automaton becomes deterministic over time.

A character class is a set of the characters that topic names may have, which are few. Where names may have any
character (`any_name`), all characters that are neither ASCII nor in the expression count as the same character.

Linear is not enough: an expression may have ten thousand states, and a name 249 characters. `TopicPattern.work` counts
the visited states, so that callers can pause (`matching`) and give up. Building and caching have bounds, too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import NamedTuple

__all__ = ["InvalidPattern", "TopicPattern", "any_name"]

_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_WORD = _DIGITS | _LOWER | _UPPER | {"_"}
_ALL = _WORD | {".", "-"}
_SPACES = frozenset("\t\n\f\r ")
_ASCII = frozenset(map(chr, range(128)))
_PRINTED = frozenset(map(chr, range(33, 127)))
_POSIX = {
    "alnum": _WORD - {"_"},
    "alpha": _LOWER | _UPPER,
    "ascii": _ASCII,
    "blank": frozenset("\t "),
    "cntrl": _ASCII - _PRINTED - {" "},
    "digit": _DIGITS,
    "graph": _PRINTED,
    "lower": _LOWER,
    "print": _PRINTED | {" "},
    "punct": _PRINTED - _WORD | {"_"},
    "space": _SPACES | {"\v"},
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
# Stands for all characters that the expression treats alike.
_OTHER = "\uffff"
_ESCAPED_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}

# RE2's own bound for counted repetition; the other bounds limit the size of an expression.
_REPEAT_MAX = 1000
_STATES_MAX = 10_000
_DEPTH_MAX = 100
# A literal character takes two states, so a longer expression would have too many states anyway.
_LENGTH_MAX = 5_000
# The parts that are built, repetitions counted. A part need not have states: `(){1000}` has one.
_PARTS_MAX = 20_000
# Characters that are neither ASCII nor alike; each class may hold all of them.
_FOREIGN_CHARACTERS_MAX = 100

# The sets of states in the cache, and the sum of their sizes.
_CACHE_MAX = 1000
_CACHED_STATES_MAX = 200_000

# For matches that nothing interrupts: about 50 ms. Usual expressions take some hundred in their whole life.
_WORK_MAX = 200_000


class InvalidPattern(Exception):
    """The expression is malformed, or cannot be matched in linear time."""


def any_name(text: str) -> Callable[[str], bool]:
    """True if the whole name matches; it may have any characters.

    Raises InvalidPattern, also when the work for all names together is too much.
    """
    foreign = frozenset(text[: _LENGTH_MAX + 1]) - _ASCII
    if len(foreign) > _FOREIGN_CHARACTERS_MAX:
        raise InvalidPattern("it has too many different characters")
    alphabet = _ASCII | foreign | {_OTHER}
    pattern = TopicPattern(text, alphabet)

    def matches(name: str) -> bool:
        known = name if name.isascii() else "".join(c if c in alphabet else _OTHER for c in name)
        return pattern.matches(known, work_max=_WORK_MAX)

    return matches


class _At(Enum):
    START = "start"
    END = "end"
    BOUNDARY = "boundary"
    NO_BOUNDARY = "no boundary"


class _Chars(NamedTuple):
    chars: frozenset[str]


class _Place(NamedTuple):
    at: _At


class _Sequence(NamedTuple):
    parts: list[_Node]


class _Choice(NamedTuple):
    parts: list[_Node]


class _Repeat(NamedTuple):
    part: _Node
    low: int
    # None: unbounded.
    high: int | None


_Node = _Chars | _Place | _Sequence | _Choice | _Repeat


class _Context(NamedTuple):
    """Assertions about the place between two characters."""

    is_start: bool
    is_end: bool
    is_boundary: bool


class TopicPattern:
    """Raises InvalidPattern."""

    __slots__ = ("_accept", "_arcs", "_cached_states", "_first", "_jumps", "_known", "_parts", "_start", "work")

    def __init__(self, text: str, alphabet: frozenset[str] = _ALL) -> None:
        if len(text) > _LENGTH_MAX:
            raise InvalidPattern("it is too large")
        tree = _Parser(text, alphabet).parse()
        # The states that all matches so far have visited; the time of a match is in proportion to them.
        self.work = 0
        self._parts = 0
        # By state: the next state for a character of the set, and the next states without a character (with an
        # assertion).
        self._arcs: list[tuple[frozenset[str], int] | None] = []
        self._jumps: list[list[tuple[_At | None, int]]] = []
        self._start = self._new_state()
        self._accept = self._build(tree, self._start)
        self._forget()

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self._arcs)

    def matches(self, name: str, *, work_max: int | None = None) -> bool:
        """True if the whole name matches. Raises InvalidPattern when all matches together are more work than that."""
        matching = self.matching(name)
        while True:
            try:
                next(matching)
            except StopIteration as end:
                is_match: bool = end.value
                return is_match
            if work_max is not None and self.work > work_max:
                raise InvalidPattern("it takes too much time to match")

    def matching(self, name: str) -> Generator[None, None, bool]:
        """True if the whole name matches. Yields where the work of the next step depends on the expression's size."""
        if len(self._known) >= _CACHE_MAX:
            self._forget()
        place = self._first
        for character in name:
            following = place.following.get(character)
            if following is None:
                yield
                following = self._follow(place, character)
            if not following.states:
                return False
            place = following
        if place.is_accepted is None:
            yield
            place.is_accepted = self._accept in self._close(place, is_end=True, is_word=False)
        return place.is_accepted

    # Building.

    def _new_state(self) -> int:
        if len(self._arcs) >= _STATES_MAX:
            raise InvalidPattern("it is too large")
        self._arcs.append(None)
        self._jumps.append([])
        return len(self._arcs) - 1

    def _build(self, node: _Node, start: int) -> int:
        """Adds states for the node from `start` on; returns the state after it."""
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise InvalidPattern("it is too large")
        if isinstance(node, _Chars):
            end = self._new_state()
            before = self._new_state()
            self._jumps[start].append((None, before))
            self._arcs[before] = node.chars, end
            return end
        if isinstance(node, _Place):
            end = self._new_state()
            self._jumps[start].append((node.at, end))
            return end
        if isinstance(node, _Sequence):
            for part in node.parts:
                start = self._build(part, start)
            return start
        if isinstance(node, _Choice):
            end = self._new_state()
            for part in node.parts:
                self._jumps[self._build(part, self._fork(start))].append((None, end))
            return end
        return self._build_repeat(node, start)

    def _fork(self, start: int) -> int:
        begin = self._new_state()
        self._jumps[start].append((None, begin))
        return begin

    def _build_repeat(self, node: _Repeat, start: int) -> int:
        for _ in range(node.low):
            start = self._build(node.part, start)
        end = self._new_state()
        if node.high is None:
            loop = self._fork(start)
            self._jumps[self._build(node.part, loop)].append((None, loop))
            self._jumps[loop].append((None, end))
            return end
        for _ in range(node.high - node.low):
            self._jumps[start].append((None, end))
            start = self._build(node.part, self._fork(start))
        self._jumps[start].append((None, end))
        return end

    # Matching.

    def _forget(self) -> None:
        self._first = _Stop(frozenset((self._start,)), is_start=True, was_word=False)
        self._known: dict[tuple[frozenset[int], bool], _Stop] = {}
        self._cached_states = 0

    def _follow(self, place: _Stop, character: str) -> _Stop:
        is_word = character in _WORD
        arcs = (self._arcs[state] for state in self._close(place, is_end=False, is_word=is_word))
        states = frozenset(arc[1] for arc in arcs if arc is not None and character in arc[0])
        key = states, is_word
        following = self._known.get(key)
        if following is None:
            if self._cached_states > _CACHED_STATES_MAX:
                self._forget()
            following = self._known[key] = _Stop(states, is_start=False, was_word=is_word)
            self._cached_states += len(states)
        place.following[character] = following
        return following

    def _close(self, place: _Stop, *, is_end: bool, is_word: bool) -> set[int]:
        """All states that can be reached without a character, before a character of that kind."""
        context = _Context(place.is_start, is_end, place.was_word is not is_word)
        reached = set(place.states)
        waiting = list(place.states)
        while waiting:
            for at, target in self._jumps[waiting.pop()]:
                if target not in reached and (at is None or _holds(at, context)):
                    reached.add(target)
                    waiting.append(target)
        self.work += len(reached)
        return reached


class _Stop:
    """A set of states, and the sets that follow it by character."""

    __slots__ = ("following", "is_accepted", "is_start", "states", "was_word")

    def __init__(self, states: frozenset[int], *, is_start: bool, was_word: bool) -> None:
        self.states = states
        self.is_start = is_start
        self.was_word = was_word
        self.following: dict[str, _Stop] = {}
        # True if a name may end here; None until it is computed.
        self.is_accepted: bool | None = None


def _holds(at: _At, context: _Context) -> bool:
    if at is _At.START:
        return context.is_start
    if at is _At.END:
        return context.is_end
    return context.is_boundary is (at is _At.BOUNDARY)


class _Parser:
    """Recursive descent over one expression."""

    __slots__ = ("_alphabet", "_any", "_classes", "_depth", "_ignores_case", "_position", "_text")

    def __init__(self, text: str, alphabet: frozenset[str]) -> None:
        self._text = text
        self._alphabet = alphabet
        self._any = alphabet - {"\n"}
        self._classes = {
            "d": _DIGITS,
            "w": _WORD,
            "s": _SPACES & alphabet,
            "D": alphabet - _DIGITS,
            "W": alphabet - _WORD,
            "S": alphabet - _SPACES,
        }
        self._position = 0
        self._depth = 0
        self._ignores_case = False

    def parse(self) -> _Node:
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

    def _choice(self) -> _Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Choice(parts)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else _Sequence(parts)

    def _repeated(self, part: _Node) -> _Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        # Lazy repetition matches the same names.
        self._take("?")
        if self._peek() in ("*", "+", "?"):
            raise InvalidPattern("a repetition of a repetition")
        return _Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for operator, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return bounds
        end = self._text.find("}", self._position)
        if self._peek() != "{" or end < 0:
            return None
        low_text, comma, high_text = self._text[self._position + 1 : end].partition(",")
        if not low_text.isdecimal() or (high_text and not high_text.isdecimal()):
            # Not a count: the brace is a literal.
            return None
        low = int(low_text[:5])
        high = low if not comma else int(high_text[:5]) if high_text else None
        if low > _REPEAT_MAX or (high is not None and (high > _REPEAT_MAX or high < low)):
            raise InvalidPattern("a count that is too large, or bounds in the wrong order")
        self._position = end + 1
        return low, high

    def _atom(self) -> _Node | None:
        character = self._next("it ends too early")
        if character == "(":
            return self._group()
        if character == "[":
            return _Chars(self._class())
        if character == ".":
            return _Chars(self._any)
        if character == "^":
            return _Place(_At.START)
        if character == "$":
            return _Place(_At.END)
        if character in ("*", "+", "?"):
            raise InvalidPattern(f"nothing before {character} to be repeated")
        if character == "\\":
            return self._escape()
        return self._literal(character)

    def _literal(self, character: str) -> _Chars:
        both = {character, character.lower(), character.upper()} if self._ignores_case else {character}
        return _Chars(self._alphabet & both)

    def _group(self) -> _Node | None:
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

    def _escape(self) -> _Node:
        character = self._next("a backslash at the end")
        if character in self._classes:
            return _Chars(self._classes[character])
        if character == "A":
            return _Place(_At.START)
        if character == "z":
            return _Place(_At.END)
        if character == "b":
            return _Place(_At.BOUNDARY)
        if character == "B":
            return _Place(_At.NO_BOUNDARY)
        if character == "Q":
            end = self._text.find("\\E", self._position)
            quoted = self._text[self._position :] if end < 0 else self._text[self._position : end]
            self._position = len(self._text) if end < 0 else end + 2
            return _Sequence([self._literal(character) for character in quoted])
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
            known = _POSIX.get(name.removeprefix("^"))
            if known is None:
                raise InvalidPattern("a range in the wrong order, or an unknown class")
            self._position = end + 2
            chars |= self._alphabet - known if is_negated else self._alphabet & known
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
