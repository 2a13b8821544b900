"""Masking: record content that a role must not see is replaced before any other code reads the record.

A rule applies to topics whose whole name matches its pattern. A rule with a path hides fields of JSON, Avro, Protobuf
and JSON Schema alike: `customer.card`, `items[*].price`, `*` for any name. In headers a path may begin with the name of
the header. A rule with a regular expression replaces matches in all texts, in names of fields and of headers, too.
Paths go first, because expressions rename fields. Filters see masked records, so a search cannot guess what is hidden.
Content that cannot be read as fields is hidden as a whole if a rule with a path applies to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MASK", "MaskRule", "Masker", "parse_mask_rules"]

MASK = "•••"
_PARTS = ("key", "value", "headers")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\*)\]")


@dataclass(frozen=True, slots=True)
class MaskRule:
    topics: re.Pattern[str]
    # Steps to a field; empty for a rule with an expression.
    path: tuple[str, ...]
    expression: re.Pattern[str] | None
    parts: tuple[str, ...]
    replacement: str


def parse_mask_rules(rules: object) -> tuple[MaskRule, ...]:
    """Raises ValueError with a sentence."""
    if not isinstance(rules, list):
        raise ValueError("'mask' must be a list of rules.")
    return tuple(_rule(rule) for rule in rules)


def _rule(rule: object) -> MaskRule:
    if not isinstance(rule, dict):
        raise ValueError('A rule of \'mask\' must be an object like {"topics": "orders", "path": "card"}.')
    unknown = set(rule) - {"topics", "path", "regex", "in", "with"}
    if unknown:
        raise ValueError(f"A rule of 'mask' has the unknown field {min(unknown)!r}.")
    if ("path" in rule) == ("regex" in rule):
        raise ValueError("A rule of 'mask' needs either 'path' or 'regex'.")
    parts = rule.get("in", ["value"])
    if not isinstance(parts, list) or not parts or any(part not in _PARTS for part in parts):
        raise ValueError(f"'in' of a rule of 'mask' must be a list of {', '.join(_PARTS)}.")
    try:
        topics = re.compile(str(rule.get("topics", ".*")))
        expression = re.compile(str(rule["regex"])) if "regex" in rule else None
    except re.error as error:
        raise ValueError(f"A rule of 'mask' has an expression that makes no sense: {error}.") from None
    path = _path(str(rule["path"])) if "path" in rule else ()
    return MaskRule(topics, path, expression, tuple(parts), str(rule.get("with", MASK)))


def _path(text: str) -> tuple[str, ...]:
    steps, position = [], 0
    body = text.removeprefix("$").removeprefix(".")
    while position < len(body):
        match = _STEP.match(body, position)
        if match is None:
            raise ValueError(f"The path {text!r} makes no sense; it looks like customer.card or items[*].price.")
        steps.append(match[1] or f"[{match[2]}]")
        position = match.end()
    if not steps:
        raise ValueError("A path must name a field.")
    return tuple(steps)


class Masker:
    """The rules of a role for a topic."""

    def __init__(self, rules: Sequence[MaskRule], topic: str) -> None:
        own = [rule for rule in rules if rule.topics.fullmatch(topic)]
        self._rules = {part: [rule for rule in own if part in rule.parts] for part in _PARTS}

    @property
    def is_idle(self) -> bool:
        return not any(self._rules.values())

    def hides(self, part: str) -> bool:
        return bool(self._rules[part])

    def masked(self, part: str, value: Any, *, is_structured: bool) -> tuple[Any, bool]:
        """The value that the role may see, and whether something was hidden."""
        shown, is_field_hidden = self._without_fields(part, value, is_structured=is_structured)
        shown, is_match_hidden = self._without_matches(part, shown)
        return shown, is_field_hidden or is_match_hidden

    def masked_header(self, name: str, value: Any, *, is_structured: bool) -> tuple[Any, bool]:
        """The value of a header: a path may begin with the name of the header."""
        shown, hidden = self._without_fields("headers", value, is_structured=is_structured)
        for rule in self._rules["headers"]:
            if rule.path and rule.path[0] in ("*", name):
                shown, is_replaced = _without(shown, rule.path[1:], rule.replacement)
                hidden |= is_replaced
        shown, is_replaced = self._without_matches("headers", shown)
        return shown, hidden or is_replaced

    def _without_fields(self, part: str, value: Any, *, is_structured: bool) -> tuple[Any, bool]:
        shown, hidden = value, False
        for rule in self._rules[part]:
            if rule.expression is not None:
                continue
            if is_structured and isinstance(shown, dict | list):
                shown, is_replaced = _without(shown, rule.path, rule.replacement)
            else:
                # It is unknown whether the content has the field, so all of it is hidden.
                shown, is_replaced = (rule.replacement, True) if shown is not None else (None, False)
            hidden |= is_replaced
        return shown, hidden

    def _without_matches(self, part: str, value: Any) -> tuple[Any, bool]:
        shown, hidden = value, False
        for rule in self._rules[part]:
            if rule.expression is not None:
                shown, is_replaced = _replaced(shown, rule.expression, rule.replacement)
                hidden |= is_replaced
        return shown, hidden

    def masked_name(self, name: str) -> tuple[str, bool]:
        """The name of a header."""
        return self._without_matches("headers", name)


def _replaced(value: Any, expression: re.Pattern[str], replacement: str) -> tuple[Any, bool]:
    if isinstance(value, str):
        shown, count = expression.subn(lambda _: replacement, value)
        return shown, count > 0
    if isinstance(value, dict):
        return _replaced_object(value, expression, replacement)
    if isinstance(value, list):
        items = [_replaced(element, expression, replacement) for element in value]
        return [shown for shown, _ in items], any(is_replaced for _, is_replaced in items)
    if isinstance(value, int | float) and not isinstance(value, bool):
        # The text of a large float has an exponent; only the form without the exponent has all digits.
        for text in (str(value), f"{value:f}") if isinstance(value, float) else (str(value),):
            shown, is_replaced = _replaced(text, expression, replacement)
            if is_replaced:
                return shown, True
    return value, False


def _replaced_object(
    value: dict[str, Any], expression: re.Pattern[str], replacement: str
) -> tuple[dict[str, Any], bool]:
    """Names that are the same after the replacement get a number, so that no field is lost."""
    shown: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    hidden = False
    for name, content in value.items():
        new_name, is_renamed = _replaced(name, expression, replacement)
        new_content, is_replaced = _replaced(content, expression, replacement)
        unique_name = new_name
        while is_renamed and (unique_name in shown or unique_name in value):
            numbers[new_name] = numbers.get(new_name, 1) + 1
            unique_name = f"{new_name} ({numbers[new_name]})"
        shown[unique_name] = new_content
        hidden |= is_replaced or is_renamed
    return shown, hidden


def _without(value: Any, path: tuple[str, ...], replacement: str) -> tuple[Any, bool]:
    if not path:
        return (replacement, True) if value is not None else (None, False)
    step, rest = path[0], path[1:]
    if isinstance(value, str):
        return _without_in_text(value, path, replacement)
    if isinstance(value, dict) and step.startswith("["):
        # A single object where other records have a list.
        return _without(value, rest, replacement)
    if isinstance(value, dict):
        pairs = {
            name: _without(content, rest, replacement) if step in ("*", name) else (content, False)
            for name, content in value.items()
        }
        return {name: shown for name, (shown, _) in pairs.items()}, any(
            is_replaced for _, is_replaced in pairs.values()
        )
    if isinstance(value, list):
        # A path without an index applies to every element.
        is_index = step.startswith("[")
        items = [
            (
                _without(element, rest if is_index else path, replacement)
                if step in ("[*]", f"[{number}]") or not is_index
                else (element, False)
            )
            for number, element in enumerate(value)
        ]
        return [shown for shown, _ in items], any(is_replaced for _, is_replaced in items)
    return value, False


def _without_in_text(text: str, path: tuple[str, ...], replacement: str) -> tuple[str, bool]:
    """Hides fields of JSON that is inside a text, even if it was encoded twice."""
    bare = text.strip().lstrip("\ufeff").lstrip()
    is_text_of_json = bare.startswith('"') and ("{" in bare or "[" in bare)
    if not bare.startswith(("{", "[")) and not is_text_of_json:
        return text, False
    try:
        content = json.loads(bare, object_pairs_hook=_object, parse_float=_number)
    except (ValueError, RecursionError):
        # It is unknown whether the content has the field, so all of it is hidden.
        return replacement, True
    shown, is_replaced = _without(content, path, replacement)
    return (json.dumps(shown, ensure_ascii=False), True) if is_replaced else (text, False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError if a name occurs twice: the text shows fields that the object does not have."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("A name occurs twice.")
    return fields


def _number(text: str) -> float | str:
    """A number that Python writes differently stays a text: an expression may look for its digits."""
    number = float(text)
    return number if repr(number) == text else text
