"""The interface of a schema language for the registry: canonical text, compatibility and tags.

A `ParsedSchema` is made by `formats.parse`. All results depend on the arguments alone: schemas that a schema refers to
are passed in as texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "AVRO",
    "FIELD",
    "JSON",
    "PROTOBUF",
    "RECORD",
    "Entity",
    "InvalidSchema",
    "ParsedSchema",
    "SchemaSource",
    "Tags",
]

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
# The kinds of entities that can have tags.
RECORD, FIELD = "SR_RECORD", "SR_FIELD"


class Entity(NamedTuple):
    """A record or a field of a schema."""

    path: str
    kind: str


Tags = Mapping[Entity, tuple[str, ...]]


class InvalidSchema(Exception):
    """The text is not a schema of its language. The message has the reason."""


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A schema as it was sent or stored, with the texts of all its direct and indirect references."""

    schema_type: str
    text: str
    # In the order in which they can be parsed: a referenced schema before the schema that refers to it.
    references: tuple[tuple[str, str], ...] = field(default=())


class ParsedSchema:
    schema_type = ""

    @property
    def canonical(self) -> str:
        """The text that is stored and compared."""
        raise NotImplementedError

    @property
    def normalized(self) -> str:
        """A text that is equal for schemas that differ in the order of unordered parts."""
        return self.canonical

    def formatted(self, form: str) -> str:
        """The text in a form that a client asked for by `?format=`. Raises InvalidSchema for an unknown form."""
        if form:
            raise InvalidSchema(f"{form!r} is not a format of {self.schema_type} schemas.")
        return self.canonical

    def problems_reading(self, writer: Any) -> list[str]:
        """Why readers of this schema cannot read data of the writer's schema, which has the same type."""
        raise NotImplementedError

    def problems_reading_lenient(self, writer: Any) -> list[str]:
        """As `problems_reading`, with the policy LENIENT where the language has one."""
        return self.problems_reading(writer)

    def check_new(self) -> None:
        """Checks that stored schemas may fail but new ones may not. Raises InvalidSchema."""

    def tagged(self) -> dict[Entity, tuple[str, ...]]:
        """The records and fields that have tags in the text."""
        raise NotImplementedError

    def with_tags(self, add: Tags, remove: Tags) -> str:
        """The text with other tags. Raises InvalidSchema for a path that does not exist."""
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        """The names of the types of the schema; the first is the name of the record."""
        return ()
