"""The incompatible changes of a JSON Schema: data that the old schema allows and the new one refuses.

The kinds of difference have the names that Confluent's registry uses. Only loosening changes are compatible. Whether a
property may be added or removed depends on the *content model* of the object: open (`additionalProperties` is true or
absent), closed (false), or partially open (a schema).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.serdes.formats.base import InvalidSchema

if TYPE_CHECKING:
    from ottla.serdes.formats.json_schema import JsonSchema

__all__ = ["differences"]

# Bounds whose growth loosens, and bounds whose growth tightens, with the names of the changes.
_MAXIMA = {
    "maxLength": "MAX_LENGTH",
    "maximum": "MAXIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "maxItems": "MAX_ITEMS",
    "maxProperties": "MAX_PROPERTIES",
    "maxContains": "MAX_CONTAINS",
}
_MINIMA = {
    "minLength": "MIN_LENGTH",
    "minimum": "MINIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "minItems": "MIN_ITEMS",
    "minProperties": "MIN_PROPERTIES",
    "minContains": "MIN_CONTAINS",
}
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_CONDITION = ("if", "then", "else")
_ALL_TYPES = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})
_DEPTH_MAX = 100
# Every old branch of a combination is compared with every new branch, recursively: small schemas can need any number of
# comparisons. This number takes a few seconds.
_COMPARISONS_MAX = 100_000


def differences(*, old: JsonSchema, new: JsonSchema, is_lenient: bool) -> list[str]:
    """Every incompatible difference, as a sentence with its path. Raises InvalidSchema for too many combinations."""
    comparison = _Comparison(old, new, is_lenient)
    comparison.compare(_Place(old.root, old.root), _Place(new.root, new.root), "#/")
    return comparison.problems


@dataclass(frozen=True, slots=True)
class _Place:
    schema: Any
    document: Any


class _Comparison:
    def __init__(self, old: JsonSchema, new: JsonSchema, is_lenient: bool, steps: Iterator[int] | None = None) -> None:
        # Counts comparisons, also those of inner comparisons.
        self._steps = itertools.count() if steps is None else steps
        self._old = old
        self._new = new
        self._is_lenient = is_lenient
        self._seen: set[tuple[int, int]] = set()
        self.problems: list[str] = []

    def compare(self, old: _Place, new: _Place, path: str, depth: int = 0) -> None:
        old, new = _followed(self._old, old), _followed(self._new, new)
        if _is_same(old.schema, new.schema) and _is_same(old.document, new.document):
            return
        key = (id(old.schema), id(new.schema))
        if key in self._seen or depth > _DEPTH_MAX or _allows_everything(new.schema) or old.schema is False:
            return
        self._seen.add(key)
        before = old.schema if isinstance(old.schema, dict) else {}
        after = new.schema if isinstance(new.schema, dict) else {"not": {}}
        if any(word in before or word in after for word in _COMBINATIONS):
            self._combinations(before, after, old, new, path, depth)
            return
        self._types(before, after, path)
        self._enums(before, after, path)
        self._bounds(before, after, path)
        self._words(before, after, path)
        if _is_kind("object", before, after):
            self._objects(before, after, old, new, path, depth)
        if _is_kind("array", before, after):
            self._arrays(before, after, old, new, path, depth)
        if "not" in before or "not" in after:
            self._negations(before, after, old, new, path, depth)
        if "if" in after:
            self._conditions(before, after, old, new, path, depth)

    def is_compatible(self, old: _Place, new: _Place, depth: int) -> bool:
        if next(self._steps) > _COMPARISONS_MAX:
            raise InvalidSchema("It has too many combinations (allOf, anyOf, oneOf) to be compared with a version.")
        inner = _Comparison(self._old, self._new, self._is_lenient, self._steps)
        inner._seen = set(self._seen)
        inner.compare(old, new, "", depth + 1)
        return not inner.problems

    def _add(self, kind: str, path: str) -> None:
        self.problems.append(
            f'{{errorType:"{kind}", description:"The new schema differs from the old schema at path \'{path}\' in '
            'a way that refuses data which the old schema allows"}'
        )

    def _types(self, before: dict[str, Any], after: dict[str, Any], path: str) -> None:
        was, now = _types_of(before), _types_of(after)
        if not was <= now and not (was - now == {"integer"} and "number" in now):
            self._add("TYPE_NARROWED" if was & now else "TYPE_CHANGED", path)

    def _enums(self, before: dict[str, Any], after: dict[str, Any], path: str) -> None:
        allowed = [after["const"]] if "const" in after else after.get("enum")
        if allowed is None:
            return
        values = [before["const"]] if "const" in before else before.get("enum")
        if values is None or any(not any(_is_same(value, candidate) for candidate in allowed) for value in values):
            self._add("CONST_CHANGED" if "const" in after else "ENUM_ARRAY_NARROWED", path)

    def _bounds(self, before: dict[str, Any], after: dict[str, Any], path: str) -> None:
        for words, sign, change in ((_MAXIMA, 1, "DECREASED"), (_MINIMA, -1, "INCREASED")):
            for word, name in words.items():
                new_bound = _number(after.get(word))
                if new_bound is None:
                    continue
                old_bound = _number(before.get(word))
                if old_bound is None:
                    # A lower bound of 0 for a length or a number of items refuses nothing.
                    if not (sign < 0 and new_bound <= 0 and word.startswith("min") and word != "minimum"):
                        self._add(f"{name}_ADDED", path + word)
                elif sign * new_bound < sign * old_bound:
                    self._add(f"{name}_{change}", path + word)

    def _words(self, before: dict[str, Any], after: dict[str, Any], path: str) -> None:
        if after.get("pattern") is not None and after["pattern"] != before.get("pattern"):
            self._add("PATTERN_CHANGED" if "pattern" in before else "PATTERN_ADDED", path + "pattern")
        multiple, earlier = _number(after.get("multipleOf")), _number(before.get("multipleOf"))
        if multiple and (earlier is None or earlier % multiple != 0):
            self._add("MULTIPLE_OF_ADDED" if earlier is None else "MULTIPLE_OF_CHANGED", path + "multipleOf")
        if after.get("uniqueItems") is True and before.get("uniqueItems") is not True:
            self._add("UNIQUE_ITEMS_ADDED", path + "uniqueItems")

    def _objects(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        was, now = _properties(before), _properties(after)
        for name in was.keys() & now.keys():
            self.compare(
                _Place(was[name], old.document), _Place(now[name], new.document), f"{path}properties/{name}/", depth + 1
            )
        for name in sorted(was.keys() - now.keys()):
            self._removed_property(name, was[name], old, after, new, path, depth)
        for name in sorted(now.keys() - was.keys()):
            self._added_property(name, now[name], new, before, old, path, depth)
        required = set(after.get("required") or ()) - set(before.get("required") or ())
        for name in sorted(required):
            if name not in now or not _has_default(now[name]):
                self._add("REQUIRED_ATTRIBUTE_ADDED", f"{path}required/{name}")
        self._dependencies(before, after, old, new, path, depth)
        self._names(before, after, old, new, path, depth)
        extra_before, extra_after = _additional(before), _additional(after)
        if extra_after is False and extra_before is not False:
            self._add("ADDITIONAL_PROPERTIES_REMOVED", path + "additionalProperties")
        elif extra_before is not False:
            self.compare(
                _Place(extra_before, old.document),
                _Place(extra_after, new.document),
                path + "additionalProperties/",
                depth + 1,
            )

    def _removed_property(
        self, name: str, schema: Any, old: _Place, after: dict[str, Any], new: _Place, path: str, depth: int
    ) -> None:
        extra = _additional(after)
        pattern = _pattern_schema(after, name)
        if pattern is not None:
            extra = pattern
        if extra is False:
            if not self._is_lenient and schema is not False:
                self._add("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", f"{path}properties/{name}")
        elif not self.is_compatible(_Place(schema, old.document), _Place(extra, new.document), depth):
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            self._add(kind, f"{path}properties/{name}")

    def _added_property(
        self, name: str, schema: Any, new: _Place, before: dict[str, Any], old: _Place, path: str, depth: int
    ) -> None:
        extra = _additional(before)
        pattern = _pattern_schema(before, name)
        if pattern is not None:
            extra = pattern
        if extra is False or _allows_everything(schema):
            return
        if _allows_everything(extra):
            if not self._is_lenient:
                self._add("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", f"{path}properties/{name}")
        elif not self.is_compatible(_Place(extra, old.document), _Place(schema, new.document), depth):
            kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            self._add(kind, f"{path}properties/{name}")

    def _names(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        """Compares `propertyNames` and `patternProperties`."""
        names = _Place(after.get("propertyNames", True), new.document)
        if not self.is_compatible(_Place(before.get("propertyNames", True), old.document), names, depth):
            self._add("PROPERTY_NAMES_CHANGED", path + "propertyNames")
        was, now = before.get("patternProperties") or {}, after.get("patternProperties") or {}
        for pattern in sorted(now):
            # A new pattern applies to properties that were additional properties before.
            earlier = _Place(was.get(pattern, _additional(before)), old.document)
            if not self.is_compatible(earlier, _Place(now[pattern], new.document), depth):
                kind = "PATTERN_PROPERTY_CHANGED" if pattern in was else "PATTERN_PROPERTY_ADDED"
                self._add(kind, f"{path}patternProperties/{pattern}")
        for pattern in sorted(was.keys() - now.keys()):
            earlier = _Place(was[pattern], old.document)
            if not self.is_compatible(earlier, _Place(_additional(after), new.document), depth):
                self._add("PATTERN_PROPERTY_REMOVED", f"{path}patternProperties/{pattern}")

    def _dependencies(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        for word in ("dependencies", "dependentRequired", "dependentSchemas"):
            was, now = before.get(word) or {}, after.get(word) or {}
            for name in sorted(now):
                if name not in was:
                    if now[name] != [] and not _allows_everything(now[name]):
                        self._add("DEPENDENCY_ADDED", f"{path}{word}/{name}")
                elif isinstance(now[name], list) and isinstance(was[name], list):
                    if set(now[name]) - set(was[name]):
                        self._add("DEPENDENCY_ARRAY_EXTENDED", f"{path}{word}/{name}")
                elif list in (type(now[name]), type(was[name])) or not self.is_compatible(
                    _Place(was[name], old.document), _Place(now[name], new.document), depth
                ):
                    self._add("DEPENDENCY_CHANGED", f"{path}{word}/{name}")

    def _arrays(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        was_first, was_rest = _items(before)
        now_first, now_rest = _items(after)
        for index in range(max(len(was_first), len(now_first))):
            was = was_first[index] if index < len(was_first) else was_rest
            now = now_first[index] if index < len(now_first) else now_rest
            self.compare(_Place(was, old.document), _Place(now, new.document), f"{path}items/{index}/", depth + 1)
        if now_rest is False and was_rest is not False:
            self._add("ADDITIONAL_ITEMS_REMOVED", path + "items")
        elif was_rest is not False:
            self.compare(_Place(was_rest, old.document), _Place(now_rest, new.document), path + "items/", depth + 1)
        if "contains" in after and after["contains"] != before.get("contains"):
            self._add("CONTAINS_CHANGED", path + "contains")

    def _negations(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        if "not" not in after:
            return
        if "not" not in before:
            self._add("NOT_TYPE_ADDED", path + "not")
        # The new schema may refuse only what the old one refused.
        elif not self.is_compatible(_Place(after["not"], new.document), _Place(before["not"], old.document), depth):
            self._add("NOT_TYPE_EXTENDED", path + "not")

    def _conditions(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        """`if`, `then` and `else`: with the same condition both branches may be loosened.

        If the condition has changed, both branches have to accept all data that the old schema allows.
        """
        is_same = before.get("if") == after["if"]
        everything = _Place({key: value for key, value in before.items() if key not in _CONDITION}, old.document)
        for word in ("then", "else"):
            branch = _Place(after.get(word, True), new.document)
            earlier = _Place(before.get(word, True), old.document) if is_same else everything
            if not self.is_compatible(earlier, branch, depth):
                self._add("CONDITION_CHANGED" if "if" in before else "CONDITION_ADDED", path + word)

    def _combinations(
        self, before: dict[str, Any], after: dict[str, Any], old: _Place, new: _Place, path: str, depth: int
    ) -> None:
        """Compares `allOf`, `anyOf` and `oneOf`. A schema without a combination counts as a combination of itself."""
        base_before, base_after = _without_combinations(before), _without_combinations(after)
        word_before, old_parts = _parts(before, old)
        word_after, new_parts = _parts(after, new)
        if not _allows_everything(base_after) and (word_before or word_after) and word_after:
            self.compare(_Place(base_before, old.document), _Place(base_after, new.document), path, depth + 1)
        if not word_after:
            new_parts = [_Place(base_after, new.document)]
        if not word_before:
            old_parts = [_Place(base_before, old.document)]
        is_product_before, is_product_after = word_before == "allOf", word_after == "allOf"
        pairs = self._matches(old_parts, new_parts, depth)
        if is_product_after:
            # Every new part has to accept what the old schema allows.
            if pairs_new(pairs) < len(new_parts) and not (is_product_before and not old_parts):
                self._add("PRODUCT_TYPE_EXTENDED" if is_product_before else "COMBINED_TYPE_CHANGED", path + "allOf")
        elif is_product_before:
            # One matching old part is enough, because the data satisfies all old parts.
            if not pairs:
                self._add("COMBINED_TYPE_CHANGED", path + "allOf")
        elif pairs_old(pairs) < len(old_parts):
            kind = "SUM_TYPE_NARROWED" if word_before else "TYPE_NARROWED"
            self._add(kind, path + (word_after or word_before or ""))

    def _matches(self, old: list[_Place], new: list[_Place], depth: int) -> list[tuple[int, int]]:
        """The largest set of pairs in which no part occurs twice, by augmenting paths."""
        edges = [[index for index, part in enumerate(new) if self.is_compatible(was, part, depth)] for was in old]
        if len(new) == 1 and len(old) > 1:
            # A single new schema may accept several old branches.
            return [(index, 0) for index, accepting in enumerate(edges) if accepting]
        if len(old) == 1 and len(new) > 1:
            return [(0, index) for index in edges[0]]
        owner: dict[int, int] = {}

        def augment(index: int, visited: set[int]) -> bool:
            for new_index in edges[index]:
                if new_index not in visited:
                    visited.add(new_index)
                    if new_index not in owner or augment(owner[new_index], visited):
                        owner[new_index] = index
                        return True
            return False

        for index in range(len(old)):
            augment(index, set())
        return [(index, new_index) for new_index, index in owner.items()]


def pairs_old(pairs: list[tuple[int, int]]) -> int:
    return len({index for index, _ in pairs})


def pairs_new(pairs: list[tuple[int, int]]) -> int:
    return len({new_index for _, new_index in pairs})


def _followed(schemas: JsonSchema, place: _Place) -> _Place:
    """The target of `$ref`. A circular or broken reference counts as a schema that allows everything."""
    for _ in range(_DEPTH_MAX):
        if not isinstance(place.schema, dict) or not isinstance(place.schema.get("$ref"), str):
            return place
        schema, document = schemas.resolve(place.schema["$ref"], place.document)
        if document is None:
            return _Place(True, place.document)
        place = _Place(schema, document)
    return _Place(True, place.document)


def _is_same(left: Any, right: Any) -> bool:
    """As `==`, but `true` is not 1, and `false` is not 0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if left != right:
        return False
    if isinstance(left, dict):
        return all(_is_same(value, right[key]) for key, value in left.items())
    return not isinstance(left, list) or all(map(_is_same, left, right))


def _allows_everything(schema: Any) -> bool:
    words = ("title", "description", "default", "examples", "$schema", "$id", "$comment", "definitions", "$defs")
    return schema is True or (isinstance(schema, dict) and all(key in words for key in schema))


def _types_of(schema: dict[str, Any]) -> frozenset[str]:
    declared = schema.get("type")
    if declared is None:
        return _ALL_TYPES
    types = frozenset(declared if isinstance(declared, list) else [declared])
    return types | {"integer"} if "number" in types else types


def _is_kind(kind: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    return kind in _types_of(before) and kind in _types_of(after)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _pattern_schema(schema: dict[str, Any], name: str) -> Any:
    """The schema of the first pattern that matches a name. The library, unlike `re`, bounds the time of a match."""
    import jsonschema_rs

    for pattern, subschema in (schema.get("patternProperties") or {}).items():
        try:
            if jsonschema_rs.is_valid({"pattern": pattern}, name):
                return subschema
        except (ValueError, jsonschema_rs.ValidationError):
            continue
    return None


def _additional(schema: dict[str, Any]) -> Any:
    """The schema of additional properties. Without combinations, unevaluated properties are additional properties."""
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def _items(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """The schemas of the first items, and the schema of all further items."""
    unevaluated = schema.get("unevaluatedItems", True)
    if isinstance(schema.get("prefixItems"), list):
        return schema["prefixItems"], schema.get("items", unevaluated)
    if isinstance(schema.get("items"), list):
        return schema["items"], schema.get("additionalItems", unevaluated)
    return [], schema.get("items", unevaluated)


def _without_combinations(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _COMBINATIONS}


def _parts(schema: dict[str, Any], place: _Place) -> tuple[str, list[_Place]]:
    """The first combination of a schema, and its parts."""
    word = next((word for word in _COMBINATIONS if isinstance(schema.get(word), list)), "")
    parts = [_Place(part, place.document) for part in schema.get(word, [])]
    # Equal parts count once.
    unique = {json.dumps(part.schema, sort_keys=True): part for part in parts}
    return word, list(unique.values())
