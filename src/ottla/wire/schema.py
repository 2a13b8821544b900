"""The fields of one version of a message, in the form that both compilers use."""

from __future__ import annotations

import sys
from struct import calcsize
from typing import Any

from ottla.wire.message import Message, Structure

__all__ = [
    "FIXED_CODES",
    "FieldSpec",
    "UnsupportedVersion",
    "check_version",
    "element_cost",
    "fields_at",
    "minimum_size",
]

# The struct code of every type whose size does not depend on its value.
FIXED_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}


class UnsupportedVersion(ValueError):
    """The message, or a value in it, cannot be encoded in the requested version."""


class FieldSpec:
    """A field of a structure in one version."""

    __slots__ = ("code", "default", "ignorable", "is_array", "kind", "name", "nullable", "present", "structure", "tag")

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        is_array: bool,
        structure: type[Structure] | None,
        present: bool,
        nullable: bool,
        tag: int | None,
        default: Any,
        ignorable: bool,
    ) -> None:
        self.name = name
        self.kind = kind
        self.is_array = is_array
        self.structure = structure
        self.present = present
        self.nullable = nullable
        self.tag = tag
        self.default = default
        self.ignorable = ignorable
        # The struct code of the value, or of an element of the array.
        self.code = FIXED_CODES.get(kind)

    def element(self) -> FieldSpec:
        """A field with the type of this array's elements."""
        return FieldSpec(
            name=self.name,
            kind=self.kind,
            is_array=False,
            structure=self.structure,
            present=True,
            nullable=False,
            tag=None,
            default=None,
            ignorable=False,
        )

    def __repr__(self) -> str:
        return f"FieldSpec({self.name}: {self.kind})"


def check_version(cls: type[Structure], version: int) -> type[Message]:
    if not issubclass(cls, Message):
        raise TypeError(f"{cls.__name__} is part of a message and cannot be encoded by itself")
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise UnsupportedVersion(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return cls


def fields_at(cls: type[Structure], version: int) -> list[FieldSpec]:
    """All fields in order, including fields that this version does not have (`present` is false)."""
    module = sys.modules[cls.__module__]
    specs = []
    for name, type_text, versions, nullable, tag, default, ignorable in cls.FIELDS:
        kind = type_text.strip("[]")
        specs.append(
            FieldSpec(
                name=name,
                kind=kind,
                is_array=type_text[0] == "[",
                structure=getattr(module, kind) if kind[0].isupper() else None,
                present=versions[0] <= version <= versions[1],
                nullable=nullable is not None and nullable[0] <= version <= nullable[1],
                tag=tag,
                default=default,
                ignorable=ignorable,
            )
        )
    return specs


def minimum_size(cls: type[Structure], version: int, *, flexible: bool) -> int:
    """The smallest encoded size of a structure: it limits how many elements the remaining bytes can hold."""
    return sum(field_minimum_size(f, version, flexible=flexible) for f in fields_at(cls, version)) + flexible


def field_minimum_size(field: FieldSpec, version: int, *, flexible: bool) -> int:
    if not field.present or field.tag is not None:
        return 0
    if field.is_array:
        return 1 if flexible else 4
    if field.code is not None:
        return calcsize(">" + field.code)
    if field.structure is not None:
        return 1 if field.nullable else minimum_size(field.structure, version, flexible=flexible)
    if field.kind == "classic_string":
        return 2
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


# Upper estimates of the memory that a decoded value takes: the object, its content and the reference to it.
_VALUE_COSTS = {"uuid": 120, "string": 72, "classic_string": 72, "bytes": 200, "records": 200}
_NUMBER_COST = 40
_LIST_COST = 64


def element_cost(field: FieldSpec, version: int) -> int:
    """The estimated memory of an array element in bytes, without the elements of its own arrays."""
    if field.structure is None:
        return _VALUE_COSTS.get(field.kind, _NUMBER_COST)
    cost = 48
    for inner in fields_at(field.structure, version):
        cost += 8
        if inner.present and inner.is_array:
            cost += _LIST_COST
        elif inner.present:
            cost += element_cost(inner, version)
    return cost
