"""A cache of parsed schemas, by their content and the texts of their references."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.state import RegistryState
from ottla.registry.core.values import Reference, SchemaContent
from ottla.serdes.formats import PROTOBUF, InvalidSchema, ParsedSchema, SchemaSource, parse

__all__ = ["SchemaCache"]

# Parsed schemas are large, and few subjects change.
_CACHED_MAX = 1_000
_DEPTH_MAX = 50
# In characters. The Protobuf parser takes about 100 ms for a text of this length.
_LONG_TEXT = 8_000


class SchemaCache:
    """Parses a schema at most once while it is in use. The cached results are pure, so the cache is not state."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._parsed: OrderedDict[SchemaSource, ParsedSchema] = OrderedDict()

    def parsed(self, content: SchemaContent) -> ParsedSchema:
        """Raises InvalidSchema, also for a reference that does not exist."""
        source = SchemaSource(content.schema_type, content.text, self._texts(content.references))
        parsed = self._parsed.get(source)
        if parsed is None:
            try:
                parsed = parse(source)
            except RecursionError:
                raise InvalidSchema("It is nested too deeply.") from None
            self._parsed[source] = parsed
            if len(self._parsed) > _CACHED_MAX:
                self._parsed.popitem(last=False)
        else:
            self._parsed.move_to_end(source)
        return parsed

    def unparsed(self, subject: str | None, content: SchemaContent) -> list[SchemaSource]:
        """The long texts that a decision about this content would parse first: its own, and those of the subject."""
        sources: list[SchemaSource] = []
        versions = [] if subject is None else self._state.versions(subject, with_deleted=True)
        for candidate in (content, *(version.content for version in versions)):
            if candidate.schema_type == PROTOBUF and len(candidate.text) > _LONG_TEXT:
                source = SchemaSource(
                    candidate.schema_type, candidate.text, self._texts(self.fixed(candidate.references))
                )
                if source not in self._parsed and source not in sources:
                    sources.append(source)
        return sources

    def keep(self, source: SchemaSource, parsed: ParsedSchema) -> None:
        """Stores a schema that the caller has parsed."""
        self._parsed[source] = parsed
        if len(self._parsed) > _CACHED_MAX:
            self._parsed.popitem(last=False)

    def _texts(self, references: Iterable[Reference]) -> tuple[tuple[str, str], ...]:
        texts: dict[str, str] = {}
        self._collect(references, texts, 0)
        return tuple(texts.items())

    def _collect(self, references: Iterable[Reference], texts: dict[str, str], depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise InvalidSchema(f"References are nested more than {_DEPTH_MAX} levels deep.")
        for reference in references:
            if reference.name in texts:
                continue
            content = self.referenced(reference)
            self._collect(content.references, texts, depth + 1)
            texts[reference.name] = content.text

    def referenced(self, reference: Reference) -> SchemaContent:
        """The content of a referenced version; -1 is the latest. Deleted versions can still be referred to."""
        subject, number = reference.place
        if number == -1:
            versions = self._state.versions(subject)[-1:]
        else:
            versions = self._state.versions(subject, with_deleted=True)
            versions = [version for version in versions if version.version == number]
        if not versions:
            raise InvalidSchema(f'No schema reference found for subject "{subject}" and version {number}')
        return versions[0].content

    def fixed(self, references: Iterable[Reference]) -> tuple[Reference, ...]:
        """The references with the number of the latest version instead of -1."""
        resolved = []
        for reference in references:
            subject, number = reference.place
            if number == -1:
                latest = self._state.versions(subject)
                if not latest:
                    raise RegistryError.invalid_schema(f'No schema reference found for subject "{subject}"')
                number = latest[-1].version
            resolved.append(replace(reference, version=number))
        return tuple(resolved)
