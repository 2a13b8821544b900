"""What serializers with a registry share: which schema of which subject, and where its id is written.

Settings have the names of Confluent's serializers. A serializer registers its schema (`auto.register.schemas`), looks
it up, or takes the latest version of the subject (`use.latest.version`) or one with certain metadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ottla.serdes.protocol import Configurable, Deserializer, Header, SerializationError, Serializer
from ottla.serdes.registry_client import (
    RegisteredSchema,
    RegistryClient,
    RegistryClientError,
    SchemaText,
    registry_client,
)
from ottla.serdes.subjects import SubjectStrategy, subject_strategy, topic_name
from ottla.serdes.wire_format import SchemaTag, header_name, read_tag, tagged_header, tagged_value

__all__ = ["SchemaDeserializer", "SchemaSerializer", "referenced_texts"]

T = TypeVar("T")

_TRUE = ("true", "1", "yes")
# Settings of Confluent's serializers that have no effect here, and what to do instead.
_REFUSED = {
    "context.name.strategy": "a context is part of the subject, so a function as subject.name.strategy can add it",
    "rule.executors": "rules of schemas are not carried out",
    "reference.subject.name.strategy": "references are registered under the names of their files",
    "schema.registry.ssl.keystore.location": "use schema.registry.ssl.certificate.location with a PEM file",
    "schema.registry.ssl.truststore.location": "use schema.registry.ssl.ca.location with a PEM file",
    "schema.registry.ssl.key.password": "use a key without a password",
}


class _Settings:
    """The settings of both directions."""

    def __init__(self) -> None:
        self.strategy: SubjectStrategy = topic_name
        self.auto_register = True
        self.normalize = False
        self.uses_latest = False
        self.latest_metadata: Mapping[str, str] | None = None
        self.schema_id: int | None = None
        self.schema_guid: str | None = None
        self.latest_seconds = 60.0
        self.in_header = False

    def read(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        side = "key" if is_key else "value"
        self.strategy = subject_strategy(
            config.get(f"{side}.subject.name.strategy") or config.get("subject.name.strategy")
        )
        self.auto_register = _flag(config, "auto.register.schemas", default=True)
        self.normalize = _flag(config, "normalize.schemas", default=False)
        self.uses_latest = _flag(config, "use.latest.version", default=False)
        self.latest_metadata = config.get("use.latest.with.metadata")
        self.latest_seconds = float(config.get("latest.cache.ttl.sec", self.latest_seconds))
        schema_id = config.get("use.schema.id")
        self.schema_id = None if schema_id in (None, "", -1, "-1") else int(str(schema_id))
        where = str(config.get(f"{side}.schema.id.serializer") or config.get("schema.id.serializer") or "prefix")
        self.in_header = where.rpartition(".")[2].lower().startswith("header")
        guid = config.get("use.schema.guid")
        self.schema_guid = None if not guid else str(uuid.UUID(str(guid)))
        self._refuse(config)

    def _refuse(self, config: Mapping[str, Any]) -> None:
        """Raises ValueError for settings that would be ignored."""
        for name, reason in _REFUSED.items():
            if config.get(name):
                raise ValueError(f"{name} is not supported: {reason}.")
        for name, supported in (("basic", ("USER_INFO", "URL")), ("bearer", ("STATIC_TOKEN",))):
            source = config.get(f"{name}.auth.credentials.source")
            if source and str(source) not in supported:
                raise ValueError(f"{name}.auth.credentials.source={source} is not {' or '.join(supported)}.")
        if _flag(config, "latest.compatibility.strict", default=False):
            raise ValueError(
                "latest.compatibility.strict=true is not supported: values are written with the latest schema, and one "
                "that does not fit it is refused. Remove the setting."
            )
        if self.schema_id is not None and self.in_header:
            raise ValueError("use.schema.id names an id, but headers have GUIDs: set use.schema.guid instead.")
        if self.schema_guid is not None and not self.in_header:
            raise ValueError("use.schema.guid needs schema.id.serializer=header: the prefix of a value has an id.")


class _RegistryUser(Configurable):
    """What serializers and deserializers share: settings, and the client of the registry."""

    def __init__(self, client: RegistryClient | None = None, config: Mapping[str, Any] | None = None) -> None:
        self._client = client
        self._settings = _Settings()
        if config is not None:
            self.configure(config, is_key=False)

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        if self._client is None:
            self._client = registry_client(config)
        self._settings.read(config, is_key=is_key)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    @property
    def client(self) -> RegistryClient:
        if self._client is None:
            name = type(self).__name__
            raise ValueError(f"{name} has no registry: pass a client, or configure schema.registry.url")
        return self._client


class SchemaSerializer(_RegistryUser, Serializer[T]):
    """`_schema_of`, `_encode` and `_record_name` are the language's part."""

    schema_type = ""

    def serialize(self, topic: str, value: T | None, headers: list[Header] | None = None) -> bytes | None:
        if value is None:
            return None
        try:
            schema = self._schema_of(value, topic)
            subject = self._settings.strategy(topic, self.is_key, self._record_name(value, schema))
            registered = self._registered(subject, schema)
            _refuse_rules(registered.schema, ("WRITE", "WRITEREAD"))
            if self._settings.in_header and not registered.guid:
                raise ValueError("the registry gives no GUIDs, which schema.id.serializer=header needs")
            payload, indexes = self._encode(value, registered.schema, topic)
        except RegistryClientError as error:
            raise self._error(topic, f"the registry refused its schema: {error}") from error
        except ValueError as error:
            raise self._error(topic, f"{error}.") from error
        if self._settings.in_header and headers is not None:
            name = header_name(is_key=self.is_key)
            headers[:] = [header for header in headers if header[0] != name]
            headers.append((name, tagged_header(registered.guid, indexes)))
            return payload
        return tagged_value(registered.id, payload, indexes)

    def _registered(self, subject: str, schema: SchemaText) -> RegisteredSchema:
        settings = self._settings
        if settings.schema_id is not None:
            found = self.client.schema_by_id(settings.schema_id, subject)
            return RegisteredSchema(subject, 0, settings.schema_id, "", found)
        if settings.schema_guid is not None:
            found = self.client.schema_by_guid(settings.schema_guid)
            return RegisteredSchema(subject, 0, 0, settings.schema_guid, found)
        if settings.latest_metadata is not None or settings.uses_latest:
            return self.client.latest(subject, seconds=settings.latest_seconds, metadata=settings.latest_metadata)
        if settings.auto_register:
            return self.client.register(subject, schema, normalize=settings.normalize)
        return self.client.lookup(subject, schema, normalize=settings.normalize)

    def _schema_of(self, value: T, topic: str) -> SchemaText:
        raise NotImplementedError

    def _record_name(self, value: T, schema: SchemaText) -> str | None:
        raise NotImplementedError

    def _encode(self, value: T, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        """The payload, and for Protobuf the path of the message. Raises SerializationError or ValueError."""
        raise NotImplementedError


class SchemaDeserializer(_RegistryUser, Deserializer[T]):
    """`_decode` is the language's part."""

    has_indexes = False
    # The form in which the language wants its schemas from the registry.
    schema_form = ""

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> T | None:
        if data is None:
            return None
        try:
            tag, payload = read_tag(memoryview(data), headers, is_key=self.is_key, has_indexes=self.has_indexes)
            writer = self._writer(tag, topic)
            _refuse_rules(writer, ("READ", "WRITEREAD"))
            return self._decode(payload, tag, writer, topic)
        except SerializationError:
            raise
        except RegistryClientError as error:
            raise self._error(topic, f"the registry did not give its schema: {error}") from error
        except ValueError as error:
            raise self._error(topic, f"{error}.") from error

    def _writer(self, tag: SchemaTag, topic: str) -> SchemaText:
        if tag.guid is not None:
            return self.client.schema_by_guid(tag.guid, form=self.schema_form)
        assert tag.id is not None
        subject = self._settings.strategy(topic, self.is_key, None) if self._settings.strategy is topic_name else ""
        return self.client.schema_by_id(tag.id, subject, form=self.schema_form)

    def _latest(self, topic: str) -> SchemaText | None:
        """The schema for readers, if `use.latest.version` or `use.latest.with.metadata` is set."""
        settings = self._settings
        if not settings.uses_latest and settings.latest_metadata is None:
            return None
        subject = settings.strategy(topic, self.is_key, None)
        return self.client.latest(
            subject, form=self.schema_form, seconds=settings.latest_seconds, metadata=settings.latest_metadata
        ).schema

    def _decode(self, payload: memoryview, tag: SchemaTag, schema: SchemaText, topic: str) -> T:
        """Raises SerializationError or ValueError."""
        raise NotImplementedError


def referenced_texts(client: RegistryClient, schema: SchemaText, form: str = "") -> dict[str, SchemaText]:
    """Everything that a schema refers to, by name; a referenced schema before the one that refers to it."""
    found: dict[str, SchemaText] = {}

    def collect(each: SchemaText) -> None:
        for name, subject, version in each.references:
            if name not in found:
                inner = client.version(subject, version, form=form)
                collect(inner)
                found[name] = inner

    collect(schema)
    return found


def _refuse_rules(schema: SchemaText, modes: Sequence[str]) -> None:
    """Raises ValueError for rules that would have to be carried out: ignored, one that encrypts would leak a field."""
    for kind in ("domainRules", "encodingRules"):
        for rule in (schema.rule_set or {}).get(kind) or ():
            if not rule.get("disabled") and rule.get("mode") in (None, *modes):
                raise ValueError(
                    f"its schema has the rule {rule.get('name')} of type {rule.get('type')}, which is not supported"
                )


def _flag(config: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = config.get(name)
    if value is None:
        return default
    return value if isinstance(value, bool) else str(value).lower() in _TRUE
