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
    """A list of a rule set; the value is the name of the list."""

    MIGRATION = "migrationRules"
    DOMAIN = "domainRules"
    ENCODING = "encodingRules"


class FieldKind(enum.StrEnum):
    """The types of fields, by their names in the variable `typeName` of CEL expressions."""

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
    def of(cls, definition: Mapping[str, Any]) -> Rule:
        return cls(
            name=str(definition.get("name") or ""),
            type=str(definition.get("type") or "").upper(),
            mode=str(definition.get("mode") or "WRITEREAD").upper(),
            is_condition=str(definition.get("kind") or "").upper() == "CONDITION",
            doc=str(definition.get("doc") or ""),
            expr=str(definition.get("expr") or ""),
            tags=frozenset(definition.get("tags") or ()),
            params=dict(definition.get("params") or {}),
            on_success=str(definition.get("onSuccess") or ""),
            on_failure=str(definition.get("onFailure") or ""),
            is_disabled=bool(definition.get("disabled")),
        )

    def applies_to(self, mode: RuleMode) -> bool:
        return not self.is_disabled and mode in _BOTH.get(self.mode, (self.mode,))

    def action(self, mode: RuleMode, *, succeeded: bool) -> str:
        """The name of the action. Rules of `WRITEREAD` and `UPDOWN` may have two, separated by a comma."""
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
    """A field that a rule is applied to. `message` is the record that contains the field."""

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
        parameter = rule.params.get(name)
        if parameter is None:
            parameter = ((self.schema.metadata or {}).get("properties") or {}).get(name)
        return None if parameter is None else str(parameter)

    def tags_of(self, full_name: str) -> frozenset[str]:
        """Tags that the metadata gives to a field, by patterns of its name."""
        tags = (self.schema.metadata or {}).get("tags") or {}
        return frozenset(tag for pattern, names in tags.items() if _matches(full_name, pattern) for tag in names)


def rules_of(schema: SchemaText | None, phase: RulePhase) -> list[Rule]:
    """The rules of a list; empty if the rule set is for servers alone (`enableAt`)."""
    rule_set = None if schema is None else schema.rule_set
    if not rule_set or (rule_set.get("enableAt") or "ALL") not in ("ALL", "CLIENT"):
        return []
    return [Rule.of(definition) for definition in rule_set.get(phase) or ()]


def refuse_rules(schema: SchemaText, mode: RuleMode) -> None:
    """Raises ValueError if rules apply, for code that has no rules: an encrypting rule must not be ignored."""
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
    """Restores the recursion limit of the process, on which an application may rely: libraries of rules raise it."""
    before = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@lru_cache(maxsize=10_000)
def _matches(name: str, pattern: str) -> bool:
    """`?` is a character except a dot, `*` any characters except a dot, `**` any characters.

    All possible matches advance together: a regular expression for `**a**a**a` could run almost without end.
    """
    pieces = _PIECES.findall(pattern)
    positions = _behind_stars(pieces, {0})
    for letter in name:
        following: set[int] = set()
        for position in positions:
            piece = pieces[position] if position < len(pieces) else ""
            if piece == "**" or (piece == "*" and letter != "."):
                following.add(position)
            elif piece == letter or (piece == "?" and letter != "."):
                following.add(position + 1)
        positions = _behind_stars(pieces, following)
    return len(pieces) in positions


def _behind_stars(pieces: Sequence[str], positions: set[int]) -> set[int]:
    """The positions, and the positions behind stars at them: a star may match nothing."""
    reachable = set(positions)
    for position in positions:
        while position < len(pieces) and pieces[position].startswith("*"):
            position += 1
            reachable.add(position)
    return reachable
