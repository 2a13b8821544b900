"""Avro schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ottla.serdes.formats.avro_reading import default_problem, reading_problems
from ottla.serdes.formats.avro_types import AvroType, build, printed
from ottla.serdes.formats.base import AVRO, Entity, InvalidSchema, ParsedSchema, SchemaSource, Tags
from ottla.serdes.formats.tags import avro_entities, tag_entities, tagged_entities

__all__ = ["AvroSchema", "parse_avro"]


class AvroSchema(ParsedSchema):
    schema_type = AVRO

    def __init__(self, root: AvroType, own: dict[str, AvroType], referenced: set[str]) -> None:
        self.root = root
        self._own = own
        self._referenced = referenced
        self._canonical = printed(root, referenced)

    @property
    def canonical(self) -> str:
        return self._canonical

    def formatted(self, form: str) -> str:
        """`resolved` prints referenced types where they are first used."""
        return printed(self.root) if form == "resolved" else super().formatted(form)

    def problems_reading(self, writer: AvroSchema) -> list[str]:
        return reading_problems(self.root, writer.root)

    def check_new(self) -> None:
        for owner in self._own.values():
            for field in owner.fields:
                if field.has_default and (problem := default_problem(field.type, field.default)) is not None:
                    raise InvalidSchema(f"The default of the field {field.name} of {owner.name} is wrong: {problem}.")

    def tagged(self) -> dict[Entity, tuple[str, ...]]:
        return tagged_entities(avro_entities(json.loads(self._canonical)))

    def with_tags(self, add: Tags, remove: Tags) -> str:
        root = json.loads(self._canonical)
        tag_entities(avro_entities(root), add=add, remove=remove)
        return json.dumps(root, ensure_ascii=False, separators=(",", ":"))

    def names(self) -> Sequence[str]:
        return [self.root.name, *(name for name in self._own if name != self.root.name)] if self.root.name else []


def parse_avro(source: SchemaSource) -> AvroSchema:
    """Raises InvalidSchema."""
    named: dict[str, AvroType] = {}
    for name, text in source.references:
        try:
            build(_json(text), named)
        except InvalidSchema as error:
            raise InvalidSchema(f"The reference {name}: {error}") from error
    referenced = set(named)
    root = build(_json(source.text), named)
    own = {name: avro_type for name, avro_type in named.items() if name not in referenced}
    return AvroSchema(root, own, referenced)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"It is not JSON: {error}.") from error
