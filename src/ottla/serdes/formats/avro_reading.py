"""Whether Avro data of a writer's schema can be read with a reader's schema, by the rules of Java's library.

The names of records, enums and fixed types are compared without their namespaces, or through an alias of the reader.
A writer's union needs a reader for every branch; a reader's union needs one branch.
"""

from __future__ import annotations

from typing import Any

from ottla.serdes.formats.avro_types import AvroField, AvroType

__all__ = ["default_problem", "reading_problems"]

# Reader kinds to the writer kinds that they read besides their own.
_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
_RANGES = {"int": 2**31, "long": 2**63}


def reading_problems(reader: AvroType, writer: AvroType) -> list[str]:
    """Empty if every datum of the writer can be read."""
    return _Comparison().compare(reader, writer, "")


class _Comparison:
    def __init__(self) -> None:
        # Problems by pair of types. A pair has none during its comparison, so recursive types are compatible unless
        # another part differs.
        self._seen: dict[tuple[int, int], list[str]] = {}
        # Indexes of branches and fields: unions and records may have thousands of them.
        self._branches: dict[int, dict[tuple[str, str], list[AvroType]]] = {}
        self._fields: dict[int, dict[str, AvroField]] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        key = (id(reader), id(writer))
        if key in self._seen:
            return self._seen[key]
        self._seen[key] = []
        problems = self._compare(reader, writer, path)
        self._seen[key] = problems
        return problems

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        if writer.kind == "union":
            return self._writer_union(reader, writer, path)
        if reader.kind == "union":
            if any(not self.compare(branch, writer, path) for branch in self._candidates(reader, writer)):
                return []
            return [
                _problem(
                    "MISSING_UNION_BRANCH",
                    f"The new schema is missing a type inside a union field at path '{path or '/'}' in the old schema",
                    f"reader union lacking writer type: {writer.kind.upper()}",
                )
            ]
        if reader.kind == writer.kind:
            return self._same_kind(reader, writer, path)
        if writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return []
        return [
            _problem(
                "TYPE_MISMATCH",
                f"The type (path '{path or '/'}') of a field in the new schema does not match with the old schema",
                f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}",
            )
        ]

    def _writer_union(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        problems: list[str] = []
        for index, branch in enumerate(writer.branches):
            branch_problems = self.compare(reader, branch, f"{path}/{index}")
            if branch_problems and reader.kind == "union":
                branch_problems = [
                    _problem(
                        "MISSING_UNION_BRANCH",
                        f"The new schema is missing a type inside a union field at path '{path}/{index}' in the old "
                        "schema",
                        f"reader union lacking writer type: {branch.kind.upper()}",
                    )
                ]
            problems += branch_problems
        return problems

    def _candidates(self, union: AvroType, writer: AvroType) -> list[AvroType]:
        """The branches whose kind and name do not already exclude the writer's type."""
        known = self._branches.get(id(union))
        if known is None:
            known = self._branches[id(union)] = {}
            for branch in union.branches:
                for name in dict.fromkeys((branch.short_name, *branch.aliases)):
                    known.setdefault((branch.kind, name), []).append(branch)
        if writer.name:
            names = dict.fromkeys((writer.short_name, writer.name))
            return [branch for name in names for branch in known.get((writer.kind, name), ())]
        return [branch for branch in union.branches if not branch.name]

    def _written(self, field: AvroField, writer: AvroType) -> AvroField | None:
        """The writer's field with the name of the field, or with its first alias that the writer has."""
        known = self._fields.get(id(writer))
        if known is None:
            known = self._fields[id(writer)] = {written.name: written for written in writer.fields}
        return next((known[name] for name in (field.name, *field.aliases) if name in known), None)

    def _same_kind(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        if reader.kind in ("array", "map"):
            assert reader.inner is not None
            assert writer.inner is not None
            return self.compare(reader.inner, writer.inner, f"{path}/{'items' if reader.kind == 'array' else 'values'}")
        if not reader.name:
            return []
        problems = _name_problems(reader, writer, path)
        if reader.kind == "fixed":
            if reader.size != writer.size:
                problems.append(
                    _problem(
                        "FIXED_SIZE_MISMATCH",
                        f"The size of FIXED type field at path '{path}/size' in the new schema does not match with the "
                        "old schema",
                        f"expected: {writer.size}, found: {reader.size}",
                    )
                )
        elif reader.kind == "enum":
            known = frozenset(reader.symbols)
            missing = [symbol for symbol in writer.symbols if symbol not in known]
            if missing and reader.default_symbol is None:
                problems.append(
                    _problem(
                        "MISSING_ENUM_SYMBOLS",
                        f"The new schema is missing enum symbols '[{', '.join(missing)}]' at path '{path}/symbols' in "
                        "the old schema",
                        f"[{', '.join(missing)}]",
                    )
                )
        else:
            problems += self._records(reader, writer, path)
        return problems

    def _records(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        problems: list[str] = []
        for index, field in enumerate(reader.fields):
            written = self._written(field, writer)
            if written is not None:
                problems += self.compare(field.type, written.type, f"{path}/fields/{index}/type")
            elif not field.has_default:
                problems.append(
                    _problem(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        f"The field '{field.name}' at path '{path}/fields/{index}' in the new schema has no default "
                        "value and is missing in the old schema",
                        field.name,
                    )
                )
        return problems


def default_problem(avro_type: AvroType, value: Any) -> str | None:
    """Why a default does not fit its type, or None. The default of a union belongs to its first branch."""
    kind = avro_type.kind
    if kind == "union":
        return default_problem(avro_type.branches[0], value) if avro_type.branches else "the union is empty"
    if kind in _RANGES:
        limit = _RANGES[kind]
        fits = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    elif kind in ("float", "double"):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind == "array":
        return _inner_problem(avro_type, value if isinstance(value, list) else None)
    elif kind == "map":
        return _inner_problem(avro_type, list(value.values()) if isinstance(value, dict) else None)
    elif kind in ("record", "error"):
        return _record_problem(avro_type, value)
    elif kind == "enum":
        fits = value in avro_type.symbols
    elif kind == "fixed":
        fits = isinstance(value, str) and len(value) == avro_type.size
    else:
        fits = {"null": value is None, "boolean": isinstance(value, bool)}.get(kind, isinstance(value, str))
    return None if fits else f"{value!r} is not of type {avro_type.label}"


def _inner_problem(avro_type: AvroType, values: list[Any] | None) -> str | None:
    assert avro_type.inner is not None
    if values is None:
        return f"it is not of type {avro_type.kind}"
    return next((problem for value in values if (problem := default_problem(avro_type.inner, value)) is not None), None)


def _record_problem(avro_type: AvroType, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"{value!r} is not of type {avro_type.name}"
    for field in avro_type.fields:
        if field.name not in value:
            if not field.has_default:
                return f"the field {field.name} of {avro_type.name} is missing"
        elif (problem := default_problem(field.type, value[field.name])) is not None:
            return problem
    return None


def _name_problems(reader: AvroType, writer: AvroType, path: str) -> list[str]:
    if reader.short_name == writer.short_name or writer.name in reader.aliases:
        return []
    return [
        _problem(
            "NAME_MISMATCH", f"The name of the schema has changed (path '{path}/name')", f"expected: {writer.name}"
        )
    ]


def _problem(kind: str, description: str, details: str) -> str:
    return f"{{errorType:'{kind}', description:'{description}', additionalInfo:'{details}'}}"
