"""Values: classes of named fields that never change, compare by what they hold, and cost nothing to define.

They are what `dataclass(frozen=True, slots=True, kw_only=True)` makes, and type checkers see them so. But a dataclass
writes the source of half a dozen methods and compiles it, and makes its class twice: half a millisecond each, which a
node with dozens of them would pay at every start. Here all values share the same few methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, dataclass_transform

__all__ = ["Value"]

_set_field = object.__setattr__


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _ValueClass(type):
    """Makes slots of a class's annotations, and keeps its defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _ValueClass:
        if not bases:
            return super().__new__(cls, name, bases, namespace)
        assert bases == (Value,), "a value is not derived from other values"
        fields = tuple(namespace.get("__annotations__", ()))
        namespace["_defaults"] = {field: namespace.pop(field) for field in fields if field in namespace}
        namespace["_fields"] = dict.fromkeys(fields)
        namespace["__slots__"] = fields
        return super().__new__(cls, name, bases, namespace)


class Value(metaclass=_ValueClass):
    """A base class: fields are annotated, with defaults behind them if they have any."""

    __slots__ = ()
    _fields: ClassVar[Mapping[str, None]] = {}
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        if self._defaults:
            values = {**self._defaults, **values}
        if values.keys() != self._fields.keys():
            raise TypeError(_what_is_wrong(type(self), values))
        for field, value in values.items():
            _set_field(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} does not change: {field} is what it is")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"a {type(self).__name__} does not change: {field} stays")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field) for field in self._fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{field}={getattr(self, field)!r}' for field in self._fields)})"


def _what_is_wrong(kind: type[Value], values: Mapping[str, Any]) -> str:
    missing = ", ".join(field for field in kind._fields if field not in values)
    unknown = ", ".join(field for field in values if field not in kind._fields)
    return f"{kind.__name__}: missing: {missing or 'nothing'}; unknown: {unknown or 'nothing'}"
