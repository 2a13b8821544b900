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
from typing import NamedTuple

from ottla.coordinator.group.consumer.pattern_parser import (
    ASCII,
    LENGTH_MAX,
    TOPIC_CHARACTERS,
    WORD,
    At,
    Chars,
    Choice,
    InvalidPattern,
    Node,
    Parser,
    Place,
    Repeat,
    Sequence,
)

__all__ = ["InvalidPattern", "TopicPattern", "any_name"]

# Represents all characters that the expression treats alike.
_OTHER = "\uffff"

# The bounds of an automaton.
_STATES_MAX = 10_000
# The parts that are built, repetitions counted. A part need not have states: `(){1000}` has one.
_PARTS_MAX = 20_000
# Characters that are neither ASCII nor alike; each class may hold all of them.
_FOREIGN_CHARACTERS_MAX = 100

# The sets of states in the cache, and the sum of their sizes.
_CACHE_MAX = 1000
_CACHED_STATES_MAX = 200_000

# For matches that nothing interrupts: about 50 ms. Usual expressions take some hundred in their whole life.
_WORK_MAX = 200_000


def any_name(text: str) -> Callable[[str], bool]:
    """True if the whole name matches; it may have any characters.

    Raises InvalidPattern, also when the work for all names together is too much.
    """
    foreign = frozenset(text[: LENGTH_MAX + 1]) - ASCII
    if len(foreign) > _FOREIGN_CHARACTERS_MAX:
        raise InvalidPattern("it has too many different characters")
    alphabet = ASCII | foreign | {_OTHER}
    pattern = TopicPattern(text, alphabet)

    def matches(name: str) -> bool:
        mapped = name if name.isascii() else "".join(c if c in alphabet else _OTHER for c in name)
        return pattern.matches(mapped, work_max=_WORK_MAX)

    return matches


class _Context(NamedTuple):
    """Assertions about the place between two characters."""

    is_start: bool
    is_end: bool
    is_boundary: bool


class TopicPattern:
    """Raises InvalidPattern."""

    __slots__ = ("_accept", "_arcs", "_cached_states", "_first", "_jumps", "_parts", "_start", "_stops", "work")

    def __init__(self, text: str, alphabet: frozenset[str] = TOPIC_CHARACTERS) -> None:
        if len(text) > LENGTH_MAX:
            raise InvalidPattern("it is too large")
        tree = Parser(text, alphabet).parse()
        # The states that all matches so far have visited; the time of a match is in proportion to them.
        self.work = 0
        self._parts = 0
        # By state: the next state for a character of the set, and the next states without a character (with an
        # assertion).
        self._arcs: list[tuple[frozenset[str], int] | None] = []
        self._jumps: list[list[tuple[At | None, int]]] = []
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
        if len(self._stops) >= _CACHE_MAX:
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

    def _build(self, node: Node, start: int) -> int:
        """Adds states for the node from `start` on; returns the state after it."""
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise InvalidPattern("it is too large")
        if isinstance(node, Chars):
            end = self._new_state()
            before = self._new_state()
            self._jumps[start].append((None, before))
            self._arcs[before] = node.chars, end
            return end
        if isinstance(node, Place):
            end = self._new_state()
            self._jumps[start].append((node.at, end))
            return end
        if isinstance(node, Sequence):
            for part in node.parts:
                start = self._build(part, start)
            return start
        if isinstance(node, Choice):
            end = self._new_state()
            for part in node.parts:
                self._jumps[self._build(part, self._fork(start))].append((None, end))
            return end
        return self._build_repeat(node, start)

    def _fork(self, start: int) -> int:
        begin = self._new_state()
        self._jumps[start].append((None, begin))
        return begin

    def _build_repeat(self, node: Repeat, start: int) -> int:
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
        self._stops: dict[tuple[frozenset[int], bool], _Stop] = {}
        self._cached_states = 0

    def _follow(self, place: _Stop, character: str) -> _Stop:
        is_word = character in WORD
        arcs = (self._arcs[state] for state in self._close(place, is_end=False, is_word=is_word))
        states = frozenset(arc[1] for arc in arcs if arc is not None and character in arc[0])
        key = states, is_word
        following = self._stops.get(key)
        if following is None:
            if self._cached_states > _CACHED_STATES_MAX:
                self._forget()
            following = self._stops[key] = _Stop(states, is_start=False, was_word=is_word)
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


def _holds(at: At, context: _Context) -> bool:
    if at is At.START:
        return context.is_start
    if at is At.END:
        return context.is_end
    return context.is_boundary is (at is At.BOUNDARY)
