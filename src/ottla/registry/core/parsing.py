"""Parsed schemas by their content, with the texts of what they refer to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.state import RegistryState
from ottla.registry.core.values import Reference, SchemaContent
from ottla.serdes.formats import PROTOBUF, InvalidSchema, ParsedSchema, SchemaSource, parse

__all__ = ["SchemaCache"]

# Parsed schemas are large; those of subjects that change are few.
_CACHED_MAX = 1_000
_DEPTH_MAX = 50
# The parser of Protobuf takes some 100 ms for such a text.
_LONG_TEXT = 8_000


class SchemaCache:
    """Parses at most once while a schema is in use. A cache of pure results is no state."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._parsed: OrderedDict[SchemaSource, ParsedSchema] = OrderedDict()

    def parsed(self, content: SchemaContent) -> ParsedSchema:
        """Raises InvalidSchema, also for a reference that does not exist."""
        source = SchemaSource(content.schema_type, content.text, self._texts(content.references))
        found = self._parsed.get(source)
        if found is None:
            try:
                found = parse(source)
            except RecursionError:
                raise InvalidSchema("It is nested too deeply.") from None
            self._parsed[source] = found
            if len(self._parsed) > _CACHED_MAX:
                self._parsed.popitem(last=False)
        else:
            self._parsed.move_to_end(source)
        return found

    def unparsed(self, subject: str | None, content: SchemaContent) -> list[SchemaSource]:
        """The long texts that a decision about this content would parse first: its own, and those of the subject."""
        found: list[SchemaSource] = []
        versions = [] if subject is None else self._state.versions(subject, with_deleted=True)
        for each in (content, *(version.content for version in versions)):
            if each.schema_type == PROTOBUF and len(each.text) > _LONG_TEXT:
                source = SchemaSource(each.schema_type, each.text, self._texts(self.fixed(each.references)))
                if source not in self._parsed and source not in found:
                    found.append(source)
        return found

    def keep(self, source: SchemaSource, parsed: ParsedSchema) -> None:
        """Takes over what was parsed elsewhere."""
        self._parsed[source] = parsed
        if len(self._parsed) > _CACHED_MAX:
            self._parsed.popitem(last=False)

    def _texts(self, references: Iterable[Reference]) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        self._collect(references, found, 0)
        return tuple(found.items())

    def _collect(self, references: Iterable[Reference], found: dict[str, str], depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise InvalidSchema(f"References are nested more than {_DEPTH_MAX} levels deep.")
        for reference in references:
            if reference.name in found:
                continue
            content = self.referenced(reference)
            self._collect(content.references, found, depth + 1)
            found[reference.name] = content.text

    def referenced(self, reference: Reference) -> SchemaContent:
        """The content of a referenced version; -1 is the latest. Deleted versions can still be referred to."""
        versions = self._state.versions(reference.subject, with_deleted=True)
        if reference.version == -1:
            versions = self._state.versions(reference.subject)[-1:]
        else:
            versions = [version for version in versions if version.version == reference.version]
        if not versions:
            raise InvalidSchema(
                f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
            )
        return versions[0].content

    def fixed(self, references: Iterable[Reference]) -> tuple[Reference, ...]:
        """The references with the number of the latest version instead of -1."""
        found = []
        for reference in references:
            number = reference.version
            if number == -1:
                latest = self._state.versions(reference.subject)
                if not latest:
                    raise RegistryError.invalid_schema(f'No schema reference found for subject "{reference.subject}"')
                number = latest[-1].version
            found.append(Reference(reference.name, reference.subject, number))
        return tuple(found)
