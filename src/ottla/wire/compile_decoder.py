"""Generates the Python function that decodes one version of one message.

The function is straight-line code with a loop for every array. Structures are decoded inline, because a function call
costs more than decoding most of them. Adjacent fixed-size fields, and the length that usually follows them, are read
with one `unpack_from`. The generated code for a part of ProduceRequest version 9:

    m.acks, m.timeout_ms, n1 = unpack0(buffer, position)
    position += 7
    if n1 > 127:
        n1, position = rest_of_unsigned_varint(buffer, position, n1)
    ...

Lengths are checked before anything is allocated: a string or array must fit into the remaining bytes, an array has at
most `ARRAY_LENGTH_MAX` elements, and the estimated memory of all array elements is limited. Reads beyond the end raise
IndexError or struct.error, which one `except` around the whole function converts into MalformedMessage.

For long messages, the same function exists as a generator that pauses: see `slicing`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.model.ids import Uuid
from ottla.wire import primitives
from ottla.wire.message import Message, Structure
from ottla.wire.primitives import ARRAY_LENGTH_MAX
from ottla.wire.schema import FieldSpec, check_version, element_cost, fields_at, minimum_size
from ottla.wire.slicing import write_end_of_element, write_start_of_generator
from ottla.wire.source import Source
from ottla.wire.uniform import UNIFORM_COUNT_MIN, UniformReader

__all__ = ["Decoder", "compile_decoder", "decoder_source"]

Decoder = Callable[..., tuple[Any, int]]

# An element of a few bytes becomes an object of a few hundred bytes, so decoding a frame of maximum size could exhaust
# the machine's memory. The estimated memory of all array elements is charged against this budget. It equals the default
# of socket.request.max.bytes and suffices for the metadata of about 200,000 partitions.
DECODED_BYTES_MAX = 100 * 1024 * 1024
# The size of these requests says nothing about the time that they take: it is mostly that of records, or of elements
# that are handled together. Beyond this budget they raise LongMessage, and are decoded in slices: from 450 to 850
# partitions to produce to, and from 2,000 to 3,700 partitions to commit, depending on the number of topics.
_DECODED_AT_ONCE_BYTES_MAX = {"ProduceRequest": 256 * 1024, "OffsetCommitRequest": 1024 * 1024}

# Structures that usually occur in long arrays of elements of equal size: see `uniform`.
_OFTEN_UNIFORM = frozenset({"OffsetCommitRequestPartition"})

_ARRAY_UNPACKERS: dict[str, Callable[[memoryview, int, int], list[Any]]] = {}


def compile_decoder(cls: type[Structure], version: int, *, in_slices: bool = False) -> Callable[..., Any]:
    """A function `decode(buffer, position=0) -> (message, end_position)`, or a generator that returns this pair."""
    writer = _DecoderWriter(check_version(cls, version), version, in_slices=in_slices)
    decode: Callable[..., Any] = writer.source.compile("decode", f"decode {cls.__name__} version {version}")
    return decode


def decoder_source(cls: type[Structure], version: int) -> str:
    """The source of the generated function, for debugging."""
    return _DecoderWriter(check_version(cls, version), version).source.text


class _DecoderWriter:
    def __init__(self, cls: type[Message], version: int, *, in_slices: bool = False) -> None:
        self.version = version
        self.flexible = version >= cls.FLEXIBLE_SINCE
        self.in_slices = in_slices
        # The smaller budget of a message that is decoded in slices beyond it.
        self.at_once_bytes_max = None if in_slices else _DECODED_AT_ONCE_BYTES_MAX.get(cls.__name__)
        self.source = source = Source()
        source.namespace.update(
            LongMessage=primitives.LongMessage,
            MalformedMessage=primitives.MalformedMessage,
            Uuid=Uuid,
            ZERO=Uuid.ZERO,
            new=object.__new__,
            read_string_length=primitives.read_string_length,
            read_tag=primitives.read_tag,
            read_tag_count=primitives.read_tag_count,
            rest_of_unsigned_varint=primitives.rest_of_unsigned_varint,
            skip_tags=primitives.skip_tags,
            READ_ERRORS=(IndexError, struct.error),
        )
        # Fixed-size values that have not been read yet, as (struct code, target).
        self.run: list[tuple[str, str]] = []
        # Lines to be written after the run has been read.
        self.after_run: list[str] = []
        self.line = source.line
        self.line("def decode(buffer, position=0):")
        source.indent()
        self.line("end = len(buffer)")
        self.line(f"budget = {self.at_once_bytes_max or DECODED_BYTES_MAX}")
        if in_slices:
            write_start_of_generator(source)
        self.line("try:")
        source.indent()
        self.structure(cls, "m")
        self.flush()
        source.dedent()
        self.line("except READ_ERRORS as error:")
        self.line(f"    raise MalformedMessage('{cls.__name__} version {version} ends early') from error")
        self.line("return m, position")

    # Runs of fixed-size values

    def flush(self) -> None:
        """Writes one call that reads all values of the run."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = [target for _, target in self.run]
        if codes == "B":
            self.line(f"{targets[0]} = buffer[position]")
        else:
            unpack = self.source.constant(("unpack", codes), "unpack", lambda: struct.Struct(">" + codes).unpack_from)
            self.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(buffer, position)")
        self.line(f"position += {struct.calcsize('>' + codes)}")
        for text in self.after_run:
            self.line(text)
        self.run = []
        self.after_run = []

    def length(self, code: str, *, string: bool = False) -> str:
        """Reads a length at the end of the run; code "B" is the first byte of a variable-length integer."""
        name = self.source.variable("n")
        self.run.append((code, name))
        self.flush()
        if code == "B":
            self.line(f"if {name} > 127:")
            reader = "read_string_length" if string else "rest_of_unsigned_varint"
            self.line(f"    {name}, position = {reader}(buffer, position, {name})")
        return name

    # Structures

    def structure(self, cls: type[Structure], variable: str) -> None:
        """Creates the structure and reads its fields; the last fields may remain in the run."""
        name = self.source.constant(cls, cls.__name__, lambda: cls)
        self.line(f"{variable} = new({name})")
        fields = fields_at(cls, self.version)
        tagged = []
        for field in fields:
            if not field.present or field.tag is not None:
                self.line(f"{variable}.{field.name} = {self.default(field)}")
            if field.present and field.tag is not None:
                tagged.append(field)
            elif field.present:
                self.field(field, f"{variable}.{field.name}")
        if self.flexible:
            self.tags(tagged, variable)
        assert self.flexible or not tagged

    def tags(self, fields: list[FieldSpec], variable: str) -> None:
        count = self.source.variable("t")
        self.run.append(("B", count))
        self.flush()
        self.line(f"if {count}:")
        self.source.indent()
        if not fields:
            self.line(f"position = skip_tags(buffer, position, {count}, end)")
            self.source.dedent()
            return
        tag, stop = self.source.variable("g"), self.source.variable("e")
        self.line(f"if {count} > 127:")
        self.line(f"    {count}, position = read_tag_count(buffer, position, {count}, end)")
        self.line(f"for _ in range({count}):")
        self.source.indent()
        self.line(f"{tag}, position, {stop} = read_tag(buffer, position, end)")
        keyword = "if"
        for field in fields:
            self.line(f"{keyword} {tag} == {field.tag}:")
            self.source.indent()
            self.field(field, f"{variable}.{field.name}")
            self.flush()
            self.source.dedent()
            keyword = "elif"
        self.line("else:")
        self.line(f"    position = {stop}")
        self.line(f"if position != {stop}:")
        self.line("    raise MalformedMessage(f'a tagged field ends at {position}, but its size says {" + stop + "}')")
        self.source.dedent()
        self.source.dedent()

    def default(self, field: FieldSpec) -> str:
        if field.default == () and field.is_array:
            return "[]"
        if field.default == () and field.structure is not None:
            structure = field.structure
            return self.source.constant(structure, structure.__name__, lambda: structure) + "()"
        return "ZERO" if field.kind == "uuid" and not field.is_array else repr(field.default)

    # Fields

    def field(self, field: FieldSpec, target: str) -> None:
        if field.is_array:
            self.array(field, target)
        elif field.structure is not None:
            self.nested(field, field.structure, target)
        elif field.kind == "uuid":
            value = self.source.variable("u")
            self.run.append(("16s", value))
            self.after_run += self.uuid_lines(value, target)
        elif field.code is not None:
            self.run.append((field.code, target))
        else:
            self.text_or_bytes(field, target)

    def uuid_lines(self, value: str, target: str) -> list[str]:
        # The constructor would check and copy the bytes, which is not needed for the result of `unpack_from`.
        uuid = self.source.variable("uuid")
        return [f"{uuid} = new(Uuid)", f"{uuid}.bytes = {value}", f"{target} = {uuid}"]

    def text_or_bytes(self, field: FieldSpec, target: str) -> None:
        is_text = field.kind in ("string", "classic_string")
        compact = self.flexible and field.kind != "classic_string"
        code = "B" if compact else "h" if is_text else "i"
        length = self.length(code, string=is_text)
        value = "str(buffer[position:{0}], 'utf-8', 'replace')" if is_text else "buffer[position:{0}]"
        stop = self.source.variable("e")
        self.line(f"if {length} {'== 0' if compact else '< 0'}:")
        self.null(field, target)
        self.line("else:")
        self.source.indent()
        self.line(f"{stop} = position + {length}{' - 1' if compact else ''}")
        self.too_long(f"{stop} > end", field)
        self.line(f"{target} = {value.format(stop)}")
        self.line(f"position = {stop}")
        self.source.dedent()

    def null(self, field: FieldSpec, target: str) -> None:
        if field.nullable:
            self.line(f"    {target} = None")
        else:
            self.line(f"    raise MalformedMessage('{field.name} must not be null')")

    def too_long(self, condition: str, field: FieldSpec) -> None:
        self.line(f"if {condition}:")
        self.line(f"    raise MalformedMessage('{field.name} exceeds the remaining bytes or a limit')")

    def nested(self, field: FieldSpec, structure: type[Structure], target: str) -> None:
        variable = self.source.variable("m")
        if not field.nullable:
            self.structure(structure, variable)
            self.line(f"{target} = {variable}")
            return
        # Null is -1 in place and 0 as a tagged field (KIP-893).
        marker = self.length("b" if field.tag is None else "B")
        self.line(f"if {marker} {'< 0' if field.tag is None else '== 0'}:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.source.indent()
        self.structure(structure, variable)
        self.flush()
        self.line(f"{target} = {variable}")
        self.source.dedent()

    def array(self, field: FieldSpec, target: str) -> None:
        count = self.length("B" if self.flexible else "i")
        self.line(f"if {count} {'== 0' if self.flexible else '< 0'}:")
        self.null(field, target)
        self.line("else:")
        self.source.indent()
        if self.flexible:
            self.line(f"{count} -= 1")
        size, cost = self.element_size(field), element_cost(field, self.version)
        self.line(f"budget -= {count} * {cost}")
        is_too_long = f"{count}{f' * {size}' if size > 1 else ''} > end - position"
        if self.at_once_bytes_max is None:
            is_too_long += " or budget < 0"
        if cost * ARRAY_LENGTH_MAX <= DECODED_BYTES_MAX:
            # The budget itself limits the number of more expensive elements.
            is_too_long += f" or {count} > {ARRAY_LENGTH_MAX}"
        self.too_long(is_too_long, field)
        if self.at_once_bytes_max is not None:
            self.line("if budget < 0:")
            self.line(f"    raise LongMessage('{field.name} exceeds what is decoded at once')")
        if field.code is not None and field.kind != "uuid":
            code = field.code
            unpack = self.source.constant(("array", code), "unpack_array", lambda: _array_unpacker(code))
            self.line(f"{target} = {unpack}(buffer, position, {count})")
            self.line(f"position += {count}{f' * {size}' if size > 1 else ''}")
        else:
            self.elements(field, target, count)
        self.source.dedent()

    def elements(self, field: FieldSpec, target: str, count: str) -> None:
        structure = field.structure
        is_often_uniform = structure is not None and structure.__name__ in _OFTEN_UNIFORM
        if structure is not None and is_often_uniform:
            reader = UniformReader(structure, self.version, is_flexible=self.flexible)
            read = self.source.constant(("uniform", structure), "read_uniform", lambda: reader)
            uniform = self.source.variable("a")
            self.line(f"{uniform} = {read}(buffer, position, {count}) if {count} >= {UNIFORM_COUNT_MIN} else None")
            self.line(f"if {uniform} is not None:")
            self.line(f"    {target} = {uniform}")
            self.line(f"    position += {count} * {reader.size}")
            self.line("else:")
            self.source.indent()
        self.elements_one_by_one(field, target, count)
        if is_often_uniform:
            self.source.dedent()

    def elements_one_by_one(self, field: FieldSpec, target: str, count: str) -> None:
        items = self.source.variable("a")
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({count}):")
        self.source.indent()
        item = self.source.variable("m")
        if field.structure is not None:
            self.structure(field.structure, item)
        else:
            self.field(field.element(), item)
        self.flush()
        self.line(f"{items}.append({item})")
        if self.in_slices:
            write_end_of_element(self.source)
        self.source.dedent()

    def element_size(self, field: FieldSpec) -> int:
        """The smallest encoded size of an element, at least 1: a count never exceeds the number of remaining bytes."""
        if field.structure is not None:
            return max(1, minimum_size(field.structure, self.version, flexible=self.flexible))
        if field.code is not None:
            return struct.calcsize(">" + field.code)
        return 1 if self.flexible else 2 if field.kind == "string" else 4


def _array_unpacker(code: str) -> Callable[[memoryview, int, int], list[Any]]:
    unpacker = _ARRAY_UNPACKERS.get(code)
    if unpacker is None:
        unpacker = _ARRAY_UNPACKERS[code] = primitives.array_unpacker(code)
    return unpacker
