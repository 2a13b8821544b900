"""Immutable classes of named fields that compare by value.

They behave like `dataclass(frozen=True, slots=True, kw_only=True)`, and type checkers treat them as such. A dataclass
generates and compiles several methods and creates its class twice, which takes half a millisecond per class at every
start of a node. The classes here share the methods of one base class instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, dataclass_transform

__all__ = ["Value"]

_set_field = object.__setattr__


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _ValueClass(type):
    """Turns the annotations of a class into slots and collects their defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _ValueClass:
        if not bases:
            return super().__new__(cls, name, bases, namespace)
        assert bases == (Value,), "a value class must derive directly from Value"
        fields = tuple(namespace.get("__annotations__", ()))
        namespace["_defaults"] = {field: namespace.pop(field) for field in fields if field in namespace}
        namespace["_fields"] = dict.fromkeys(fields)
        namespace["__slots__"] = fields
        return super().__new__(cls, name, bases, namespace)


class Value(metaclass=_ValueClass):
    """The base class. Fields are annotations, with optional defaults."""

    __slots__ = ()
    _fields: ClassVar[Mapping[str, None]] = {}
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        if self._defaults:
            values = {**self._defaults, **values}
        if values.keys() != self._fields.keys():
            raise TypeError(_field_mismatch(type(self), values))
        for field, value in values.items():
            _set_field(self, field, value)

    def replaced(self, **changes: Any) -> Self:
        """A copy with other values in some fields."""
        return type(self)(**{**{field: getattr(self, field) for field in self._fields}, **changes})

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {field} cannot be set")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {field} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field) for field in self._fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{field}={getattr(self, field)!r}' for field in self._fields)})"


def _field_mismatch(kind: type[Value], values: Mapping[str, Any]) -> str:
    missing = ", ".join(field for field in kind._fields if field not in values)
    unknown = ", ".join(field for field in values if field not in kind._fields)
    return f"{kind.__name__}: missing: {missing or 'nothing'}; unknown: {unknown or 'nothing'}"
