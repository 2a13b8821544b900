"""The values of data contracts: rules, the record that they are applied to, and its fields."""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ottla.serdes.protocol import Header
from ottla.serdes.registry_client import SchemaText

__all__ = [
    "Field",
    "FieldKind",
    "FieldTransform",
    "FieldWalk",
    "Rule",
    "RuleCall",
    "RuleFailed",
    "RuleMode",
    "RulePhase",
    "kept_recursion_limit",
    "refuse_rules",
    "rules_of",
    "transform_fields",
]


_PIECES = re.compile(r"\*\*|.", re.DOTALL)


class RuleMode(enum.StrEnum):
    WRITE = "WRITE"
    READ = "READ"
    UPGRADE = "UPGRADE"
    DOWNGRADE = "DOWNGRADE"


class RulePhase(enum.StrEnum):
    """Which list of a rule set; the value is the name of the list."""

    MIGRATION = "migrationRules"
    DOMAIN = "domainRules"
    ENCODING = "encodingRules"


class FieldKind(enum.StrEnum):
    """The types of fields, under the names that CEL expressions see as `typeName`."""

    STRING = "STRING"
    BYTES = "BYTES"
    INT = "INT"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    NULL = "NULL"
    ENUM = "ENUM"
    FIXED = "FIXED"


_BOTH = {
    "WRITEREAD": (RuleMode.WRITE, RuleMode.READ),
    "UPDOWN": (RuleMode.UPGRADE, RuleMode.DOWNGRADE),
}


class RuleFailed(Exception):
    """A condition is false, or a rule cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    type: str
    mode: str
    is_condition: bool = False
    doc: str = ""
    expr: str = ""
    tags: frozenset[str] = frozenset()
    params: Mapping[str, str] = field(default_factory=dict, hash=False)
    on_success: str = ""
    on_failure: str = ""
    is_disabled: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Rule:
        return cls(
            name=str(given.get("name") or ""),
            type=str(given.get("type") or "").upper(),
            mode=str(given.get("mode") or "WRITEREAD").upper(),
            is_condition=str(given.get("kind") or "").upper() == "CONDITION",
            doc=str(given.get("doc") or ""),
            expr=str(given.get("expr") or ""),
            tags=frozenset(given.get("tags") or ()),
            params=dict(given.get("params") or {}),
            on_success=str(given.get("onSuccess") or ""),
            on_failure=str(given.get("onFailure") or ""),
            is_disabled=bool(given.get("disabled")),
        )

    def applies_to(self, mode: RuleMode) -> bool:
        return not self.is_disabled and mode in _BOTH.get(self.mode, (self.mode,))

    def action(self, mode: RuleMode, *, succeeded: bool) -> str:
        """The name of the action; `WRITEREAD` and `UPDOWN` may name one for each direction, separated by a comma."""
        named = self.on_success if succeeded else self.on_failure
        first, comma, second = named.partition(",")
        if comma and self.mode in _BOTH:
            named = first if mode is _BOTH[self.mode][0] else second
        return named.strip().upper() or ("NONE" if succeeded else "ERROR")

    @property
    def failure(self) -> str:
        return self.doc or (f"the expression {self.expr} is false" if self.expr else f"the rule {self.name} failed")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record while a rule looks at it. `message` is the record that contains it."""

    full_name: str
    name: str
    kind: FieldKind
    tags: frozenset[str]
    message: Any


FieldTransform = Callable[[Field, Any], Any]
# Calls the transform for every field without fields of its own, and returns a value with the results.
FieldWalk = Callable[[Any, FieldTransform], Any]


@dataclass(slots=True, kw_only=True)
class RuleCall:
    """One record on its way through the rules of a schema."""

    topic: str
    is_key: bool
    subject: str
    mode: RuleMode
    schema: SchemaText
    headers: Sequence[Header]
    # The key and value of the record before any rule: objects when writing, bytes when reading.
    key: Any
    value: Any
    walk: FieldWalk | None = None

    def parameter(self, rule: Rule, name: str) -> str | None:
        """A parameter of the rule, else a property of the schema's metadata."""
        found = rule.params.get(name)
        if found is None:
            found = ((self.schema.metadata or {}).get("properties") or {}).get(name)
        return None if found is None else str(found)

    def tags_of(self, full_name: str) -> frozenset[str]:
        """Tags that the metadata gives to a field, by patterns of its name."""
        tags = (self.schema.metadata or {}).get("tags") or {}
        return frozenset(tag for pattern, names in tags.items() if _matches(full_name, pattern) for tag in names)


def rules_of(schema: SchemaText | None, phase: RulePhase) -> list[Rule]:
    """The rules of one list. A rule set may be meant for servers alone (`enableAt`)."""
    rule_set = None if schema is None else schema.rule_set
    if not rule_set or (rule_set.get("enableAt") or "ALL") not in ("ALL", "CLIENT"):
        return []
    return [Rule.of(each) for each in rule_set.get(phase) or ()]


def refuse_rules(schema: SchemaText, mode: RuleMode) -> None:
    """For code that cannot carry out rules: a rule that encrypts a field must not be ignored. Raises ValueError."""
    for phase in (RulePhase.DOMAIN, RulePhase.ENCODING):
        for rule in rules_of(schema, phase):
            if rule.applies_to(mode):
                raise ValueError(f"Its schema has the rule {rule.name} of type {rule.type}, which cannot be used here.")


def transform_fields(rule: Rule, call: RuleCall, value: Any, transform: FieldTransform) -> Any:
    """Applies a transform to the fields with a tag of the rule, or to all fields if the rule has no tags."""
    if call.walk is None:
        raise RuleFailed(f"the rule {rule.name} needs fields, which its schema does not have")
    known: dict[str, frozenset[str]] = {}

    def visit(field: Field, content: Any) -> Any:
        tags = known.get(field.full_name)
        if tags is None:
            tags = known[field.full_name] = field.tags | call.tags_of(field.full_name)
        if rule.tags and not rule.tags & tags:
            return content
        result = transform(replace(field, tags=tags), content)
        if not rule.is_condition:
            return result
        if result is False:
            raise RuleFailed(f"{rule.failure} (field {field.full_name})")
        return content

    return call.walk(value, visit)


@contextmanager
def kept_recursion_limit() -> Iterator[None]:
    """The libraries of rules raise the limit of the whole process, on which an application may rely."""
    before = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@lru_cache(maxsize=10_000)
def _matches(name: str, pattern: str) -> bool:
    """`?` is a letter, `*` some letters without a dot, `**` some letters.

    All readings are followed at once: with a regular expression, the author of `**a**a**a` could stop a reader.
    """
    pieces = _PIECES.findall(pattern)
    places = _behind_stars(pieces, {0})
    for letter in name:
        following: set[int] = set()
        for place in places:
            piece = pieces[place] if place < len(pieces) else ""
            if piece == "**" or (piece == "*" and letter != "."):
                following.add(place)
            elif piece == letter or (piece == "?" and letter != "."):
                following.add(place + 1)
        places = _behind_stars(pieces, following)
    return len(pieces) in places


def _behind_stars(pieces: Sequence[str], places: set[int]) -> set[int]:
    """The places, and those that follow because a star may stand for nothing."""
    found = set(places)
    for place in places:
        while place < len(pieces) and pieces[place].startswith("*"):
            place += 1
            found.add(place)
    return found
