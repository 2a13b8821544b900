"""Incompatible changes of a Protobuf schema for readers of the new schema, named as in Confluent's registry.

Fields are compared by number, not by name. Scalar types with the same encoding may replace each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf import descriptor_pb2 as pb

__all__ = ["proto_differences"]

Kind = pb.FieldDescriptorProto
_GROUPS = (
    (Kind.TYPE_INT32, Kind.TYPE_INT64, Kind.TYPE_UINT32, Kind.TYPE_UINT64, Kind.TYPE_BOOL, Kind.TYPE_ENUM),
    (Kind.TYPE_SINT32, Kind.TYPE_SINT64),
    (Kind.TYPE_STRING, Kind.TYPE_BYTES),
    (Kind.TYPE_FIXED32, Kind.TYPE_SFIXED32),
    (Kind.TYPE_FIXED64, Kind.TYPE_SFIXED64),
    (Kind.TYPE_FLOAT,),
    (Kind.TYPE_DOUBLE,),
)
_GROUP_OF = {kind: index for index, group in enumerate(_GROUPS) for kind in group}
_LENGTH_DELIMITED = (Kind.TYPE_STRING, Kind.TYPE_BYTES, Kind.TYPE_MESSAGE)


def proto_differences(*, old: pb.FileDescriptorProto, new: pb.FileDescriptorProto) -> list[str]:
    """The incompatible changes between two linked files."""
    comparison = _Comparison()
    if old.package != new.package:
        comparison.add("PACKAGE_CHANGED", "#/")
    comparison.messages(old.message_type, new.message_type, "#/", f".{old.package}", f".{new.package}")
    return comparison.problems


class _Comparison:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def add(self, kind: str, path: str) -> None:
        self.problems.append(
            f'{{errorType:"{kind}", description:"The new schema differs from the old schema at path \'{path}\' in '
            'a way that its readers cannot bear"}'
        )

    def messages(
        self,
        old: Iterable[pb.DescriptorProto],
        new: Iterable[pb.DescriptorProto],
        path: str,
        old_scope: str,
        new_scope: str,
    ) -> None:
        now = {message.name: message for message in new}
        for message in old:
            if message.options.map_entry:
                continue
            message_path = f"{path}{message.name}"
            if message.name not in now:
                self.add("MESSAGE_REMOVED", message_path)
                continue
            self.message(message, now[message.name], message_path, old_scope, new_scope)

    def message(
        self, old: pb.DescriptorProto, new: pb.DescriptorProto, path: str, old_scope: str, new_scope: str
    ) -> None:
        was = {field.number: field for field in old.field}
        now = {field.number: field for field in new.field}
        for number, field in was.items():
            field_path = f"{path}/{number}"
            if number in now:
                self.field(field, now[number], field_path, old_scope, new_scope, (old, new))
            elif _oneof(field, old) is not None and _oneof_stays(field, old, new):
                self.add("ONEOF_FIELD_REMOVED", field_path)
            elif field.label == Kind.LABEL_REQUIRED:
                self.add("REQUIRED_FIELD_REMOVED", field_path)
        for number, field in now.items():
            if number not in was and field.label == Kind.LABEL_REQUIRED:
                self.add("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        self._oneofs(old, new, path)
        inner_old, inner_new = f"{old_scope}.{old.name}", f"{new_scope}.{new.name}"
        self.messages(old.nested_type, new.nested_type, f"{path}/", inner_old, inner_new)

    def field(
        self,
        old: pb.FieldDescriptorProto,
        new: pb.FieldDescriptorProto,
        path: str,
        old_scope: str,
        new_scope: str,
        owners: tuple[pb.DescriptorProto, pb.DescriptorProto],
    ) -> None:
        old_entry, new_entry = _map_entry(old, owners[0]), _map_entry(new, owners[1])
        if (old_entry is None) != (new_entry is None):
            self.add("FIELD_KIND_CHANGED", path)
            return
        if old_entry is not None and new_entry is not None:
            for index in (0, 1):
                self._types(old_entry.field[index], new_entry.field[index], f"{path}/{index}", old_scope, new_scope)
            return
        before = len(self.problems)
        self._types(old, new, path, old_scope, new_scope)
        was_repeated, is_repeated = old.label == Kind.LABEL_REPEATED, new.label == Kind.LABEL_REPEATED
        if before == len(self.problems) and was_repeated != is_repeated and new.type not in _LENGTH_DELIMITED:
            self.add("FIELD_NUMERIC_LABEL_CHANGED", path)
        if (old.label == Kind.LABEL_REQUIRED) != (new.label == Kind.LABEL_REQUIRED):
            is_required = new.label == Kind.LABEL_REQUIRED
            self.add("REQUIRED_FIELD_ADDED" if is_required else "REQUIRED_FIELD_REMOVED", path)

    def _types(
        self, old: pb.FieldDescriptorProto, new: pb.FieldDescriptorProto, path: str, old_scope: str, new_scope: str
    ) -> None:
        old_is_message = old.type in (Kind.TYPE_MESSAGE, Kind.TYPE_GROUP)
        new_is_message = new.type in (Kind.TYPE_MESSAGE, Kind.TYPE_GROUP)
        if old_is_message != new_is_message:
            self.add("FIELD_KIND_CHANGED", path)
        elif old_is_message:
            # Names are compared without the package. A change of the package is a separate difference.
            if old.type_name.removeprefix(old_scope) != new.type_name.removeprefix(new_scope):
                self.add("FIELD_NAMED_TYPE_CHANGED", path)
        elif _GROUP_OF[old.type] != _GROUP_OF[new.type]:
            self.add("FIELD_SCALAR_KIND_CHANGED", path)

    def _oneofs(self, old: pb.DescriptorProto, new: pb.DescriptorProto, path: str) -> None:
        was = {field.number: _oneof(field, old) for field in old.field}
        for name, numbers in _members(new).items():
            moved = [number for number in numbers if number in was and was[number] is None]
            is_new = name not in _members(old)
            if is_new and len(moved) > 1:
                self.add("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}")
            elif not is_new and moved:
                self.add("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{name}")


def _map_entry(field: pb.FieldDescriptorProto, owner: pb.DescriptorProto) -> pb.DescriptorProto | None:
    if field.type != Kind.TYPE_MESSAGE or field.label != Kind.LABEL_REPEATED:
        return None
    name = field.type_name.rpartition(".")[2]
    return next((nested for nested in owner.nested_type if nested.name == name and nested.options.map_entry), None)


def _oneof(field: pb.FieldDescriptorProto, owner: pb.DescriptorProto) -> str | None:
    """The oneof of a field. The synthetic oneof of a field with presence does not count."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return owner.oneof_decl[field.oneof_index].name


def _oneof_stays(field: pb.FieldDescriptorProto, old: pb.DescriptorProto, new: pb.DescriptorProto) -> bool:
    return _oneof(field, old) in _members(new)


def _members(message: pb.DescriptorProto) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for field in message.field:
        name = _oneof(field, message)
        if name is not None:
            members.setdefault(name, []).append(field.number)
    return members
