"""Generates the message classes of `ottla.wire` from the definitions.

    python tools/generate_messages.py            writes src/ottla/wire/messages/*.py and src/ottla/wire/api_keys.py
    python tools/generate_messages.py --check    writes nothing; fails when a file is not what would be written

`src/ottla/wire/README.md` explains the language. This program reads it in three steps: lines become `Statement`s and
`Field`s (`parse_file`), fields that open a structure of their own become `Class`es (`collect_classes`), and classes
become text (`render_module`).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["generate", "main"]

ROOT = Path(__file__).resolve().parent.parent
DEFINITIONS = ROOT / "src/ottla/wire/definitions"
WIRE = ROOT / "src/ottla/wire"

LAST_VERSION = 32767
PYTHON_TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int",
    "uint16": "int",
    "uint32": "int",
    "float64": "float",
    "string": "str",
    "classic_string": "str",
    "bytes": "Buffer",
    "uuid": "Uuid",
    "records": "Records",
}
ZERO_VALUES = {"bool": "False", "float64": "0.0", "string": '""', "classic_string": '""', "bytes": 'b""'}


class DefinitionError(Exception):
    """A definition is invalid; the message names file and line."""


@dataclass
class Field:
    name: str
    base: str
    is_array: bool
    versions: tuple[int, int]
    nullable: tuple[int, int] | None
    tag: int | None
    default: str | None
    ignorable: bool
    children: list[Field] = field(default_factory=list)

    @property
    def is_structure(self) -> bool:
        return self.base not in PYTHON_TYPES

    @property
    def absent_means_none(self) -> bool:
        """A tagged structure that was not sent is None, which saves building it for every message."""
        if not self.is_structure or self.is_array:
            return False
        return self.default == "null" or (self.tag is not None and self.nullable is None)

    @property
    def is_made_afresh(self) -> bool:
        """The default is a list or structure, which must not be shared between messages."""
        if self.is_array:
            return self.default != "null"
        return self.is_structure and not self.absent_means_none


@dataclass
class Statement:
    """A message (`request`, `response`, `record`, `key`, `value`, `data`) or a `struct` that several fields share."""

    kind: str
    name: str
    number: int
    versions: tuple[int, int]
    flexible_since: int
    comment: list[str]
    fields: list[Field] = field(default_factory=list)


@dataclass
class File:
    module: str
    source: str
    api_name: str | None = None
    api_key: int = -1
    listeners: tuple[str, ...] = ()
    advertised: tuple[int, int] | None = None
    comment: list[str] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


@dataclass
class Class:
    name: str
    kind: str
    statement: Statement | None
    documentation: list[str]
    fields: list[Field]


# Reading


def parse_versions(text: str) -> tuple[int, int]:
    """Parses `3` (one version), `3-9` (a range) or `3+` (version 3 and all later versions)."""
    if text.endswith("+"):
        return int(text[:-1]), LAST_VERSION
    first, _, last = text.partition("-")
    return int(first), int(last or first)


FIELD = re.compile(
    r"""(?P<indent>\ +)(?P<name>[a-z][a-z0-9_]*)\s+
        (?P<array>\[)?(?P<base>\w+)(?(array)\])(?P<nullable>\?(?P<nullable_versions>[\d+-]*))?
        (?:\s+(?P<versions>\d[\d+-]*))?
        (?:\s+tag\ (?P<tag>\d+))?
        (?:\s+=\ (?P<default>\S+))?
        (?P<ignorable>\s+ignorable)?$""",
    re.VERBOSE,
)
STATEMENT = re.compile(
    r"(?P<kind>request|response|record|key|value|data)(?: (?P<number>\d+))? (?P<name>\w+)"
    r"  versions (?P<versions>\d[\d-]*)(?:  flexible (?P<flexible>\d+)\+)?$"
)


def parse_field(match: re.Match[str]) -> Field:
    nullable = None
    if match["nullable"]:
        nullable = parse_versions(match["nullable_versions"] or "0+")
    return Field(
        name=match["name"],
        base=match["base"],
        is_array=match["array"] is not None,
        versions=parse_versions(match["versions"] or "0+"),
        nullable=nullable,
        tag=None if match["tag"] is None else int(match["tag"]),
        default=match["default"],
        ignorable=match["ignorable"] is not None,
    )


def parse_file(path: Path) -> File:
    file = File(module=re.sub(r"^\d+_", "", path.stem), source=path.name)
    comment: list[str] = []
    levels: list[list[Field]] = []
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        text, _, note = raw.partition("#")
        line = text.rstrip()
        if not line:
            if note:
                comment.append(note.strip())
            elif comment and not file.statements and not file.comment:
                file.comment, comment = comment, []
            continue
        if line.startswith(" "):
            match = FIELD.match(line)
            depth = len(line) - len(line.lstrip())
            if match is None or depth % 2 or not 0 < depth // 2 <= len(levels):
                raise DefinitionError(f"{path.name}:{number}: not a field: {raw}")
            parsed = parse_field(match)
            del levels[depth // 2 :]
            levels[-1].append(parsed)
            levels.append(parsed.children)
            comment = []
            continue
        statement = parse_statement(file, line, comment)
        if statement is not None:
            file.statements.append(statement)
            levels = [statement.fields]
            comment = []
        elif comment and not file.comment:
            file.comment, comment = comment, []
    if file.api_name is not None and [s.kind for s in file.statements if s.kind != "struct"] != ["request", "response"]:
        raise DefinitionError(f"{path.name}: an api has one request and one response")
    return file


def parse_statement(file: File, line: str, comment: list[str]) -> Statement | None:
    """Parses a line without indentation: a statement with fields, or None for a line about the whole file."""
    words = line.split()
    match words:
        case ["api", key, name]:
            file.api_key, file.api_name = int(key), name
            return None
        case ["listeners", *listeners]:
            file.listeners = tuple(listeners)
            return None
        case ["advertised", versions]:
            file.advertised = parse_versions(versions)
            return None
        case ["struct", name]:
            return Statement("struct", name, -1, (0, LAST_VERSION), LAST_VERSION, comment)
    match_ = STATEMENT.match(line)
    if match_ is None:
        raise DefinitionError(f"{file.source}: not a statement: {line}")
    number = file.api_key if match_["number"] is None else int(match_["number"])
    flexible = LAST_VERSION if match_["flexible"] is None else int(match_["flexible"])
    return Statement(match_["kind"], match_["name"], number, parse_versions(match_["versions"]), flexible, comment)


# From fields to classes


def collect_classes(file: File) -> list[Class]:
    """All classes of a module; a structure precedes the classes that use it."""
    classes: dict[str, Class] = {}

    def add_structures(owner: str, kind: str, fields: list[Field]) -> None:
        for item in fields:
            if item.children:
                add_structures(item.base, kind, item.children)
                subject = "An element" if item.is_array else "The value"
                add(Class(item.base, kind, None, [f"{subject} of `{owner}.{item.name}`."], item.children))

    def add(item: Class) -> None:
        if item.name in classes:
            raise DefinitionError(f"{file.source}: {item.name} is defined twice")
        classes[item.name] = item

    # Shared structures come first, because constructor defaults refer to their classes.
    for statement in sorted(file.statements, key=lambda s: s.kind != "struct"):
        kind = statement.kind
        if kind == "struct":
            users = {s.kind for s in file.statements if uses(s.fields, statement.name)}
            kind = "response" if users == {"response"} else "request" if users == {"request"} else "struct"
        add_structures(statement.name, kind, statement.fields)
        if statement.kind == "struct":
            add(Class(statement.name, kind, None, ["Shared by several fields.", *statement.comment], statement.fields))
        else:
            add(Class(statement.name, kind, statement, describe(statement), statement.fields))
    known = set(classes)
    for item in classes.values():
        for used in item.fields:
            if used.is_structure and used.base not in known:
                raise DefinitionError(f"{file.source}: {item.name}.{used.name} has an unknown type {used.base}")
    return list(classes.values())


def uses(fields: list[Field], name: str) -> bool:
    return any(item.base == name or uses(item.children, name) for item in fields)


def describe(statement: Statement) -> list[str]:
    first, last = statement.versions
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    flexible = ""
    if statement.flexible_since <= first:
        flexible = ", flexible"
    elif statement.flexible_since <= last:
        flexible = f", flexible since {statement.flexible_since}"
    title = {
        "request": "Request",
        "response": "Response",
        "record": f"Record type {statement.number}",
        "key": f"Key type {statement.number}",
        "value": f"Value of key type {statement.number}",
        "data": "Data",
    }[statement.kind]
    return [f"{title}, {versions}{flexible}.", *([""] if statement.comment else []), *statement.comment]


# From classes to text

HEAD = "# Written by tools/generate_messages.py from definitions/{source}: change the definition, not this file.\n"


def default_of(item: Field) -> str:
    """The default of the constructor's parameter."""
    if item.is_made_afresh:
        return "EMPTY"
    if item.is_array or item.is_structure or item.base == "records" or item.default == "null":
        return "None"
    if item.base == "uuid":
        return "Uuid.ZERO"
    if item.default is not None:
        return {"true": "True", "false": "False"}.get(item.default, item.default)
    return ZERO_VALUES.get(item.base, "0")


def default_in_table(item: Field) -> str:
    """The default in the field table: () stands for a new list or structure, 0 for the zero uuid."""
    if item.is_made_afresh:
        return "()"
    return "0" if item.base == "uuid" and not item.is_array else default_of(item)


def type_of(item: Field, kind: str) -> str:
    """The type of the constructor's parameter, from which the type of the attribute is inferred."""
    if item.base == "records":
        return "memoryview | None" if kind == "request" else "Records"
    base = PYTHON_TYPES.get(item.base, item.base)
    if item.is_array:
        base = f"list[{base}]"
    optional = item.nullable is not None or item.absent_means_none
    return f"{base} | None" if optional else base


def render_table(fields: list[Field]) -> list[str]:
    lines = ["    FIELDS = ("]
    for item in fields:
        type_text = f"[{item.base}]" if item.is_array else item.base
        row = (
            f'("{item.name}", "{type_text}", {item.versions}, {item.nullable}, {item.tag}, '
            f"{default_in_table(item)}, {item.ignorable})"
        )
        lines.append(f"        {row},")
    if len(fields) == 1 and len(lines[0]) + len(lines[1].strip()) + 1 <= 120:
        return [f"    FIELDS = ({lines[1].strip()})"]
    return [*lines, "    )"]


def render_slots(fields: list[Field]) -> list[str]:
    names = [f'"{item.name}"' for item in fields]
    text = f"    __slots__ = ({', '.join(names)}{',' if len(names) == 1 else ''})"
    if len(text) <= 120:
        return [text]
    return ["    __slots__ = (", *(f"        {name}," for name in names), "    )"]


def render_constructor(item: Class) -> list[str]:
    lines = ["    def __init__(", "        self,", "        *,"]
    lines += [f"        {f.name}: {type_of(f, item.kind)} = {default_of(f)}," for f in item.fields]
    lines.append("    ) -> None:")
    for f in item.fields:
        if f.is_made_afresh:
            fresh = "[]" if f.is_array else f"{f.base}()"
            lines += assignment(f.name, f"{fresh} if {f.name} is EMPTY else {f.name}")
        else:
            lines.append(f"        self.{f.name} = {f.name}")
    return lines


def assignment(name: str, value: str) -> list[str]:
    line = f"        self.{name} = {value}"
    return [line] if len(line) <= 120 else [f"        self.{name} = (", f"            {value}", "        )"]


def render_class(item: Class) -> list[str]:
    base = "Message" if item.statement else "Structure"
    if item.statement and item.kind == "request":
        # The response follows in the same module, hence the quotes.
        base = f'Request["{item.name.removesuffix("Request")}Response"]'
    lines = [f"class {item.name}({base}):"]
    if len(item.documentation) == 1:
        lines.append(f'    """{item.documentation[0]}"""')
    else:
        lines += [f'    """{item.documentation[0]}', *(f"    {line}".rstrip() for line in item.documentation[1:])]
        lines.append('    """')
    lines += ["", *render_slots(item.fields)]
    statement = item.statement
    if statement:
        lines.append("")
        if statement.number >= 0:
            lines.append(f"    API_KEY = {statement.number}")
        lines.append(f"    VERSIONS = {statement.versions}")
        if statement.flexible_since != LAST_VERSION:
            lines.append(f"    FLEXIBLE_SINCE = {statement.flexible_since}")
    if item.fields:
        lines += ([] if statement else [""]) + render_table(item.fields)
        lines += ["", *render_constructor(item)]
    return lines


def render_module(file: File) -> str:
    classes = collect_classes(file)
    body: list[str] = []
    for item in classes:
        body += ["", "", *render_class(item)]
    for name, kind in (("RECORD_CLASSES", "record"), ("KEY_CLASSES", "key"), ("VALUE_CLASSES", "value")):
        members = [s for s in file.statements if s.kind == kind]
        if members:
            body += ["", "", f"{name}: dict[int, type[Message]] = {{"]
            body += [f"    {s.number}: {s.name}," for s in members] + ["}"]
    text = "\n".join(body)
    imports = []
    typing_names = [name for name in ("Buffer", "Records") if re.search(rf"\b{name}\b", text)]
    if typing_names:
        imports += ["from typing import TYPE_CHECKING", ""]
    if "Uuid" in text:
        imports.append("from ottla.model.ids import Uuid")
    names = [name for name in ("EMPTY", "Message", "Request", "Structure") if re.search(rf"\b{name}\b", text)]
    imports.append(f"from ottla.wire.message import {', '.join(names)}")
    if typing_names:
        imports += ["", "if TYPE_CHECKING:", f"    from ottla.wire.message import {', '.join(typing_names)}"]
    exported = sorted([item.name for item in classes] + re.findall(r"^([A-Z]+_CLASSES):", text, re.MULTILINE))
    title = f"{file.api_name}, API key {file.api_key}." if file.api_name else f"{file.module.replace('_', ' ')}."
    documentation = [f'"""{title[0].upper()}{title[1:]}']
    if file.comment:
        documentation += ["", *file.comment, '"""']
    else:
        documentation[0] += '"""'
    lines = [HEAD.format(source=file.source) + "\n".join(documentation), "", "from __future__ import annotations", ""]
    lines += [*imports, "", "__all__ = [", *(f'    "{name}",' for name in exported), "]"]
    return "\n".join(lines) + "\n" + text + "\n"


def render_api_keys(files: list[File]) -> str:
    apis = sorted((file for file in files if file.api_name), key=lambda file: file.api_key)
    lines = [
        HEAD.format(source="*.txt") + '"""The keys, versions and listeners of all APIs."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        '__all__ = ["API_TABLE", "ApiKey"]',
        "",
        "",
        "class ApiKey(IntEnum):",
        *(f"    {file.module.upper()} = {file.api_key}" for file in apis),
        "",
        "",
        "# (key, name, module, advertised versions, versions that can be read, first flexible version, listeners)",
        "API_TABLE: tuple[tuple[int, str, str, tuple[int, int], tuple[int, int], int, tuple[str, ...]], ...] = (",
    ]
    for file in apis:
        request = next(s for s in file.statements if s.kind == "request")
        listeners = ", ".join(f'"{name}"' for name in file.listeners) + ("," if len(file.listeners) == 1 else "")
        cells = [
            str(file.api_key),
            f'"{file.api_name}"',
            f'"{file.module}"',
            str(file.advertised or request.versions),
            str(request.versions),
            str(request.flexible_since),
            f"({listeners})",
        ]
        row = f"    ({', '.join(cells)}),"
        lines += [row] if len(row) <= 120 else ["    (", *(f"        {cell}," for cell in cells), "    ),"]
    return "\n".join([*lines, ")", ""])


def generate() -> dict[Path, str]:
    """All generated files with their text."""
    files = [parse_file(path) for path in sorted(DEFINITIONS.glob("*.txt"))]
    output = {WIRE / "messages" / f"{file.module}.py": render_module(file) for file in files}
    output[WIRE / "api_keys.py"] = render_api_keys(files)
    return output


def main(arguments: list[str]) -> int:
    output = generate()
    stale = [path for path, text in output.items() if not path.exists() or path.read_text() != text]
    left_over = [p for p in sorted((WIRE / "messages").glob("*.py")) if p.name != "__init__.py" and p not in output]
    if "--check" in arguments:
        for path in stale + left_over:
            print(f"{path.relative_to(ROOT)} is not what its definition says: run tools/generate_messages.py")
        return 1 if stale or left_over else 0
    for path in left_over:
        path.unlink()
    for path in stale:
        path.write_text(output[path])
    print(f"{len(output)} files, {len(stale)} changed, {len(left_over)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
