"""Generates the Python function that encodes one version of one message.

The function appends short pieces of bytes to a list, which the caller joins. Adjacent fixed-size fields, and the empty
section of tagged fields (a zero byte) that ends most structures, are written with one `pack`. The content of a records
field is not copied: the pieces so far are joined into one part, and the records become separate parts.

A field that the version does not have is left out. If such a field holds a value other than its default and is not
declared ignorable, the receiver would misunderstand the message, so `UnsupportedVersion` is raised.

For long messages, the same function exists as a generator that pauses: see `slicing`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ottla.model.ids import Uuid
from ottla.wire import primitives
from ottla.wire.message import Message, Structure
from ottla.wire.schema import FieldSpec, UnsupportedVersion, check_version, fields_at
from ottla.wire.slicing import write_end_of_element, write_start_of_generator
from ottla.wire.source import Source

__all__ = ["Encoder", "compile_elements_encoder", "compile_encoder", "encoder_source"]

Encoder = Callable[[Any, list[bytes], list[Any]], None]

_ARRAY_PACKERS: dict[str, Callable[[Sequence[Any]], bytes]] = {}


def compile_encoder(cls: type[Structure], version: int, *, in_slices: bool = False) -> Callable[..., Any]:
    """A function `encode(message, pieces, parts)`, or a generator.

    It appends to `pieces`. At a records field it joins the pieces into a part, appends the records to `parts` and
    continues with empty `pieces`. The pieces that remain at the end follow the last part.
    """
    writer = _EncoderWriter(check_version(cls, version), version, in_slices=in_slices)
    encode: Callable[..., Any] = writer.source.compile("encode", f"encode {cls.__name__} version {version}")
    return encode


def compile_elements_encoder(cls: type[Structure], version: int, array: str) -> Callable[..., Any]:
    """A generator `encode(elements, pieces, parts)` for elements of the field `array`, without their count."""
    writer = _EncoderWriter(check_version(cls, version), version, in_slices=True, elements_of=array)
    encode: Callable[..., Any] = writer.source.compile("encode", f"encode {cls.__name__}.{array} version {version}")
    return encode


def encoder_source(cls: type[Structure], version: int) -> str:
    """The source of the generated function, for debugging."""
    return _EncoderWriter(check_version(cls, version), version).source.text


class _EncoderWriter:
    def __init__(
        self, cls: type[Message], version: int, *, in_slices: bool = False, elements_of: str | None = None
    ) -> None:
        self.version = version
        self.flexible = version >= cls.FLEXIBLE_SINCE
        self.in_slices = in_slices
        self.source = source = Source()
        source.namespace.update(
            ONE_BYTE=primitives.ONE_BYTE,
            UnsupportedVersion=UnsupportedVersion,
            ZERO=Uuid.ZERO.bytes,
            unsigned_varint_bytes=primitives.unsigned_varint_bytes,
            join=b"".join,
            string_length_bytes=primitives.string_length_bytes,
        )
        # Fixed-size values that have not been written yet, as (struct code, expression).
        self.run: list[tuple[str, str]] = []
        # The method that appends a piece.
        self.append = "append"
        self.line = source.line
        self.line("def encode(m, pieces, parts):")
        source.indent()
        self.line("append = pieces.append")
        if in_slices:
            write_start_of_generator(source)
        if elements_of is None:
            self.structure(cls, "m")
        else:
            (field,) = [field for field in fields_at(cls, version) if field.name == elements_of]
            self.elements(field, "m")
        self.flush()

    # Runs of fixed-size values

    def flush(self) -> None:
        """Writes one call that appends all values of the run as one piece."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        values = [value for code, value in self.run if code != "x"]
        if not values:
            self.line(f"{self.append}({bytes(len(codes))!r})")
        else:
            pack = self.source.constant(("pack", codes), "pack", lambda: struct.Struct(">" + codes).pack)
            self.line(f"{self.append}({pack}({', '.join(values)}))")
        self.run = []

    def compact_length(self, name: str, *, string: bool = False) -> None:
        """Appends the variable `name`, which holds a length plus one, as a variable-length integer."""
        self.flush()
        slow = "string_length_bytes" if string else "unsigned_varint_bytes"
        self.line(f"{self.append}(ONE_BYTE[{name}] if {name} < 128 else {slow}({name}))")

    # Structures

    def structure(self, cls: type[Structure], variable: str) -> None:
        """Writes all fields; the last fields may remain in the run."""
        tagged = []
        for field in fields_at(cls, self.version):
            if not field.present:
                if not field.ignorable:
                    self.refuse(field, cls, f"{variable}.{field.name}")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(field, f"{variable}.{field.name}")
        if not self.flexible:
            assert not tagged
        elif tagged:
            self.tags(tagged, variable)
        else:
            self.run.append(("x", ""))

    def refuse(self, field: FieldSpec, cls: type[Structure], value: str) -> None:
        self.line(f"if {self.differs_from_default(field, value)}:")
        text = f"{field.name} of {cls.__name__} is set, but version {self.version} does not have it"
        self.line(f"    raise UnsupportedVersion({text!r})")

    def tags(self, fields: list[FieldSpec], variable: str) -> None:
        """All tagged fields are encoded first, because their count precedes them."""
        tags = self.source.variable("t")
        self.line(f"{tags} = ()")
        run, append = self.run, self.append
        for field in sorted(fields, key=lambda field: field.tag or 0):
            value = self.source.variable("v")
            self.line(f"{value} = {variable}.{field.name}")
            self.line(f"if {self.differs_from_default(field, value)}:")
            self.source.indent()
            pieces = self.source.variable("p")
            self.line(f"{pieces} = []")
            self.run, self.append = [], f"{pieces}.append"
            self.field(field, value)
            self.flush()
            body = self.source.variable("b")
            self.line(f"{body} = join({pieces})")
            tag = primitives.unsigned_varint_bytes(field.tag or 0)
            self.line(f"{tags} += ({tag!r}, unsigned_varint_bytes(len({body})), {body})")
            self.source.dedent()
        self.run, self.append = run, append
        # A tagged field is three pieces: tag, size, value.
        self.run.append(("B", f"len({tags}) // 3"))
        self.flush()
        self.line(f"for b in {tags}:")
        self.line(f"    {self.append}(b)")

    def differs_from_default(self, field: FieldSpec, value: str) -> str:
        structure = field.structure
        if structure is not None and not field.is_array:
            if field.default is None and field.nullable:
                return f"{value} is not None"
            null = "is None or" if field.nullable else "is not None and"
            plain = structure()
            if all(type(getattr(plain, name)) in (bool, int, str) for name in plain.__slots__):
                # The general comparison of structures would take longer than encoding a structure.
                differences = [f"{value}.{name} != {getattr(plain, name)!r}" for name in plain.__slots__]
                return f"{value} {null} ({' or '.join(differences)})"
            default = self.source.constant(("default", structure), "default", lambda: structure())
            return f"{value} {null} {value} != {default}"
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            # Null differs from the default, an empty array.
            return f"{value} is None or {value}" if field.nullable else value
        if field.kind == "bytes":
            return f"{value} is None or len({value})" if field.nullable else f"len({value})"
        if field.kind == "uuid":
            return f"{value}.bytes != ZERO"
        return f"{value} != {field.default!r}"

    # Fields

    def field(self, field: FieldSpec, value: str) -> None:
        if field.is_array:
            self.array(field, value)
        elif field.structure is not None:
            self.nested(field, field.structure, value)
        elif field.kind == "uuid":
            self.run.append(("16s", f"{value}.bytes"))
        elif field.code is not None:
            self.run.append((field.code, value))
        elif field.kind == "records":
            self.records(field, value)
        else:
            self.text_or_bytes(field, value)

    def text_or_bytes(self, field: FieldSpec, value: str) -> None:
        is_text = field.kind in ("string", "classic_string")
        compact = self.flexible and field.kind != "classic_string"
        content = self.source.variable("s")
        self.line(f"{content} = {value}")
        if field.nullable:
            self.null_branch(content, "B" if compact else "h" if is_text else "i")
        if is_text:
            self.line(f"{content} = {content}.encode()")
        if compact:
            length = self.source.variable("n")
            self.line(f"{length} = len({content}) + 1")
            self.compact_length(length, string=is_text)
        else:
            self.run.append(("h" if is_text else "i", f"len({content})"))
            self.flush()
        self.line(f"{self.append}({content})")
        if field.nullable:
            self.source.dedent()

    def null_branch(self, value: str, code: str) -> None:
        """Writes the branch for None, which appends null, and opens the branch for other values."""
        self.flush()
        null = {"B": b"\0", "h": b"\xff\xff", "i": b"\xff\xff\xff\xff"}[code]
        self.line(f"if {value} is None:")
        self.line(f"    {self.append}({null!r})")
        self.line("else:")
        self.source.indent()

    def records(self, field: FieldSpec, value: str) -> None:
        assert field.tag is None
        content, length = self.source.variable("s"), self.source.variable("n")
        self.line(f"{content} = {value}")
        self.null_branch(content, "B" if self.flexible else "i")
        self.line(f"if type({content}) is list or type({content}) is tuple:")
        self.line(f"    {length} = sum(map(len, {content}))")
        self.line("else:")
        self.line(f"    {length} = len({content})")
        self.line(f"    {content} = ({content},)")
        if self.flexible:
            self.line(f"{length} += 1")
            self.compact_length(length)
        else:
            self.run.append(("i", length))
            self.flush()
        self.line("parts.append(join(pieces))")
        self.line("pieces.clear()")
        self.line(f"parts.extend({content})")
        self.source.dedent()

    def nested(self, field: FieldSpec, structure: type[Structure], value: str) -> None:
        variable = self.source.variable("m")
        self.line(f"{variable} = {value}")
        if not field.nullable:
            self.structure(structure, variable)
            return
        self.flush()
        self.line(f"if {variable} is None:")
        # Null is -1 in place and 0 as a tagged field (KIP-893).
        null = b"\xff" if field.tag is None else b"\0"
        self.line(f"    {self.append}({null!r})")
        self.line("else:")
        self.source.indent()
        self.run.append(("b", "1"))
        self.structure(structure, variable)
        self.flush()
        self.source.dedent()

    def array(self, field: FieldSpec, value: str) -> None:
        items = self.source.variable("a")
        self.line(f"{items} = {value}")
        if field.nullable:
            self.null_branch(items, "B" if self.flexible else "i")
        if self.flexible:
            length = self.source.variable("n")
            self.line(f"{length} = len({items}) + 1")
            self.compact_length(length)
        else:
            self.run.append(("i", f"len({items})"))
            self.flush()
        if field.code is not None and field.kind != "uuid":
            code = field.code
            pack = self.source.constant(("array", code), "pack_array", lambda: _array_packer(code))
            self.line(f"{self.append}({pack}({items}))")
        else:
            self.elements(field, items)
        if field.nullable:
            self.source.dedent()

    def elements(self, field: FieldSpec, items: str) -> None:
        item = self.source.variable("m")
        self.line(f"for {item} in {items}:")
        self.source.indent()
        lines_before = self.source.line_count
        if field.structure is not None:
            self.structure(field.structure, item)
        elif field.kind == "uuid":
            self.line(f"{self.append}({item}.bytes)")
        else:
            self.text_or_bytes(field.element(), item)
        self.flush()
        if self.in_slices:
            write_end_of_element(self.source)
        if self.source.line_count == lines_before:
            self.line("pass")
        self.source.dedent()


def _array_packer(code: str) -> Callable[[Sequence[Any]], bytes]:
    packer = _ARRAY_PACKERS.get(code)
    if packer is None:
        packer = _ARRAY_PACKERS[code] = primitives.array_packer(code)
    return packer
