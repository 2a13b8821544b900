"""The common part of serializers with a registry: the choice of subject and schema, and the place of the schema id.

Settings have the names of Confluent's serializers. A serializer registers its schema (`auto.register.schemas`), looks
it up, or takes the latest version of the subject (`use.latest.version`) or one with certain metadata. Rules of the
schema are carried out around the conversion (`rules`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from ottla.serdes.protocol import Configurable, Deserializer, Header, SerializationError, Serializer
from ottla.serdes.registry_client import (
    RegisteredSchema,
    RegistryClient,
    RegistryClientError,
    SchemaText,
    registry_client,
)
from ottla.serdes.rules.contracts import FieldWalk, RuleCall, RuleMode, RulePhase
from ottla.serdes.rules.engine import RuleEngine
from ottla.serdes.rules.migrations import migrations
from ottla.serdes.strict import check_latest
from ottla.serdes.subjects import (
    AssociatedNames,
    SubjectStrategy,
    associated_name,
    context_prefix,
    record_name,
    subject_strategy,
    topic_name,
    topic_record_name,
)
from ottla.serdes.wire_format import SchemaTag, header_name, read_tag, tagged_header, tagged_value

__all__ = ["SchemaDeserializer", "SchemaSerializer", "referenced_texts"]

T = TypeVar("T")

_TRUE = ("true", "1", "yes")
_COMPARED_MAX = 1_000
# The key of the record whose value is converted next, for dead letters: producers convert the key first. A key with an
# encrypted part is kept as its encrypted bytes.
_last_key: ContextVar[Any] = ContextVar("last_key", default=None)
# Settings of Confluent's serializers that are not supported, with the alternative.
_REFUSED = {
    "context.name.strategy": "a context is part of the subject, so a function as subject.name.strategy can add it",
    "reference.subject.name.strategy": "references are registered under the names of their files",
    "schema.registry.ssl.keystore.location": "use schema.registry.ssl.certificate.location with a PEM file",
    "schema.registry.ssl.truststore.location": "use schema.registry.ssl.ca.location with a PEM file",
    "schema.registry.ssl.key.password": "use a key without a password",
}


class _Settings:
    """The settings of serializers and deserializers."""

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
        self.is_strict = False

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
        self.is_strict = _flag(config, "latest.compatibility.strict", default=False)
        schema_id = config.get("use.schema.id")
        self.schema_id = None if schema_id in (None, "", -1, "-1") else int(str(schema_id))
        location = str(config.get(f"{side}.schema.id.serializer") or config.get("schema.id.serializer") or "prefix")
        self.in_header = location.rpartition(".")[2].lower().startswith("header")
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
        if self.schema_id is not None and self.in_header:
            raise ValueError("use.schema.id names an id, but headers have GUIDs: set use.schema.guid instead.")
        if self.schema_guid is not None and not self.in_header:
            raise ValueError("use.schema.guid needs schema.id.serializer=header: the prefix of a value has an id.")


class _RegistryUser(Configurable):
    """The base of serializers and deserializers: settings, and the client of the registry."""

    uses_network = True

    def __init__(self, client: RegistryClient | None = None, config: Mapping[str, Any] | None = None) -> None:
        self._client = client
        self._settings = _Settings()
        self._rules = RuleEngine({})
        if config is not None:
            self.configure(config, is_key=False)

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        if self._client is None:
            self._client = registry_client(config)
        self._settings.read(config, is_key=is_key)
        if self._settings.strategy is associated_name:
            self._settings.strategy = AssociatedNames(self._answer, config)
        self._rules = RuleEngine(config)

    def _answer(self, path: str) -> Any:
        """The registry's answer to a path; None for 404."""
        try:
            return self.client.call("GET", path)
        except RegistryClientError as error:
            if error.status != 404:
                raise
            return None

    def _call(
        self, topic: str, subject: str, mode: RuleMode, schema: SchemaText, headers: Sequence[Header], original: Any
    ) -> RuleCall:
        return RuleCall(
            topic=topic,
            is_key=self.is_key,
            subject=subject,
            mode=mode,
            schema=schema,
            headers=headers,
            key=original if self.is_key else _last_key.get(),
            value=None if self.is_key else original,
        )

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
    """A schema language implements `_schema_of`, `_plain`, `_encode`, `_record_name` and `_walk`."""

    schema_type = ""
    # The form in which the language takes its schemas from the registry.
    schema_form = ""

    def __init__(self, client: RegistryClient | None = None, config: Mapping[str, Any] | None = None) -> None:
        # By schema and id of the latest version: why they are not compatible; None if they are.
        self._compared: dict[tuple[SchemaText, int], str | None] = {}
        super().__init__(client, config)

    def serialize(self, topic: str, value: T | None, headers: list[Header] | None = None) -> bytes | None:
        visible_key: Any = value
        try:
            if value is None:
                return None
            data, schema = self._serialize(topic, value, headers)
            if self.is_key and self._rules.encrypts(schema):
                visible_key = data
            return data
        except RegistryClientError as error:
            failure = "the registry refused its schema" if error.status else "its schema could not be looked up"
            raise self._error(topic, f"{failure}: {error}") from error
        except ModuleNotFoundError as error:
            raise self._error(topic, _missing(error)) from error
        except (ValueError, RecursionError) as error:
            raise self._error(topic, f"{error}.") from error
        finally:
            _last_key.set(visible_key if self.is_key else None)

    def _serialize(self, topic: str, value: T, headers: list[Header] | None) -> tuple[bytes, SchemaText]:
        schema = self._schema_of(value, topic)
        subject = self._settings.strategy(topic, self.is_key, self._record_name(value, schema))
        registered = self._registered(subject, schema)
        if self._settings.in_header and not registered.guid:
            raise ValueError("the registry gives no GUIDs, which schema.id.serializer=header needs")
        plain = self._plain(value)
        if not registered.schema.rule_set:
            payload, indexes = self._encode(plain, registered.schema, topic)
        else:
            call = self._call(topic, subject, RuleMode.WRITE, registered.schema, headers or (), plain)
            call.walk = self._walk(registered.schema, plain)
            plain = self._rules.run(RulePhase.DOMAIN, self.client, call, plain)
            payload, indexes = self._encode(plain, registered.schema, topic)
            payload = self._rules.run(RulePhase.ENCODING, self.client, call, payload)
        if self._settings.in_header and headers is not None:
            name = header_name(is_key=self.is_key)
            headers[:] = [header for header in headers if header[0] != name]
            headers.append((name, tagged_header(registered.guid, indexes)))
            return payload, registered.schema
        return tagged_value(registered.id, payload, indexes), registered.schema

    def _registered(self, subject: str, schema: SchemaText) -> RegisteredSchema:
        settings = self._settings
        if settings.schema_id is not None:
            pinned = self.client.schema_by_id(settings.schema_id, subject, form=self.schema_form)
            return RegisteredSchema(subject, 0, settings.schema_id, "", pinned)
        if settings.schema_guid is not None:
            pinned = self.client.schema_by_guid(settings.schema_guid, form=self.schema_form)
            return RegisteredSchema(subject, 0, 0, settings.schema_guid, pinned)
        if settings.latest_metadata is not None or settings.uses_latest:
            latest = self.client.latest(
                subject, form=self.schema_form, seconds=settings.latest_seconds, metadata=settings.latest_metadata
            )
            if settings.is_strict:
                self._check_latest(schema, latest)
            return latest
        if settings.auto_register:
            return self.client.register(subject, schema, normalize=settings.normalize)
        return self.client.lookup(subject, schema, normalize=settings.normalize)

    def _check_latest(self, schema: SchemaText, latest: RegisteredSchema) -> None:
        """Raises ValueError if the schema is not compatible with the latest version. The outcome is cached."""
        cache_key = (schema, latest.id)
        if cache_key not in self._compared:
            if len(self._compared) >= _COMPARED_MAX:
                self._compared.clear()
            try:
                check_latest(self.client, schema, latest, self.schema_form)
                self._compared[cache_key] = None
            except ValueError as error:
                self._compared[cache_key] = str(error)
        problem = self._compared[cache_key]
        if problem is not None:
            raise ValueError(problem)

    def _schema_of(self, value: T, topic: str) -> SchemaText:
        raise NotImplementedError

    def _record_name(self, value: T, schema: SchemaText) -> str | None:
        raise NotImplementedError

    def _plain(self, value: T) -> Any:
        """The value as rules take it, for example a dictionary for a dataclass."""
        return value

    def _walk(self, schema: SchemaText, value: Any) -> FieldWalk:
        """The walk over the fields of the value."""
        raise NotImplementedError

    def _encode(self, value: Any, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        """The payload, and for Protobuf the path of the message. Raises SerializationError or ValueError."""
        raise NotImplementedError


class SchemaDeserializer(_RegistryUser, Deserializer[T]):
    """A schema language implements `_decode`, `_finished`, `_writer_name` and `_walk`."""

    has_indexes = False
    # The form in which the language takes its schemas from the registry.
    schema_form = ""

    def __init__(self, client: RegistryClient | None = None, config: Mapping[str, Any] | None = None) -> None:
        # By topic, for subject name strategies that may give contexts.
        self._contexts: dict[str, str] = {}
        super().__init__(client, config)

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> T | None:
        try:
            return None if data is None else self._deserialize(topic, memoryview(data), headers)
        except SerializationError:
            raise
        except RegistryClientError as error:
            raise self._error(topic, f"the registry did not give its schema: {error}") from error
        except ModuleNotFoundError as error:
            raise self._error(topic, _missing(error)) from error
        except (ValueError, RecursionError) as error:
            raise self._error(topic, f"{error}.") from error
        finally:
            _last_key.set(data if self.is_key else None)

    def _deserialize(self, topic: str, data: memoryview, headers: Sequence[Header] | None) -> T:
        tag, payload = read_tag(data, headers, is_key=self.is_key, has_indexes=self.has_indexes)
        writer = self._writer(tag, topic)
        latest = self._latest(topic, writer, tag)
        reader = self._own_reader() if latest is None else latest.schema
        is_current = latest is None or tag.id == latest.id or (tag.guid is not None and tag.guid == latest.guid)
        if is_current and not writer.rule_set and (reader is None or not reader.rule_set):
            return self._finished(self._decode(payload, tag, writer, reader, topic), reader or writer, topic)
        subject = self._settings.strategy(topic, self.is_key, self._writer_name(writer, tag))
        call = self._call(topic, subject, RuleMode.READ, writer, headers or (), bytes(data))
        payload = memoryview(self._rules.run(RulePhase.ENCODING, self.client, call, payload))
        steps: list[tuple[RuleMode, SchemaText]] = []
        if latest is not None and not is_current:
            steps = migrations(self.client, subject, tag, writer, latest, self.schema_form)
        if steps:
            value = self._migrated(self._decode(payload, tag, writer, None, topic), call, steps, reader or writer, tag)
        else:
            value = self._decode(payload, tag, writer, reader, topic)
        # A reader's schema without rules must not hide that the writer encrypted a field.
        call.schema = reader if reader is not None and reader.rule_set else writer
        call.walk = self._walk(call.schema, value, tag)
        value = self._rules.run(RulePhase.DOMAIN, self.client, call, value)
        return self._finished(value, reader or writer, topic)

    def _migrated(
        self,
        value: Any,
        call: RuleCall,
        steps: Sequence[tuple[RuleMode, SchemaText]],
        reader: SchemaText,
        tag: SchemaTag,
    ) -> Any:
        """The value after the rules of the versions between writer and reader."""
        for call.mode, call.schema in steps:
            value = self._rules.run(RulePhase.MIGRATION, self.client, call, value)
        call.mode = RuleMode.READ
        return value

    def _writer(self, tag: SchemaTag, topic: str) -> SchemaText:
        if tag.guid is not None:
            return self.client.schema_by_guid(tag.guid, form=self.schema_form)
        assert tag.id is not None
        return self.client.schema_by_id(tag.id, self._id_owner(topic), form=self.schema_form)

    def _id_owner(self, topic: str) -> str:
        """The subject, or the context, that a schema id belongs to: every context has ids of its own."""
        strategy = self._settings.strategy
        if strategy is topic_name:
            return strategy(topic, self.is_key, None)
        if strategy in (record_name, topic_record_name):
            return ""
        if topic not in self._contexts:
            try:
                self._contexts[topic] = context_prefix(strategy(topic, self.is_key, None))
            except RegistryClientError:
                raise
            except Exception:  # noqa: BLE001
                # A function may need the name of the record, which is in the schema. It has no context then.
                self._contexts[topic] = ""
        return self._contexts[topic]

    def _latest(self, topic: str, writer: SchemaText, tag: SchemaTag) -> RegisteredSchema | None:
        """The schema for readers, if `use.latest.version` or `use.latest.with.metadata` is set."""
        settings = self._settings
        if not settings.uses_latest and settings.latest_metadata is None:
            return None
        subject = settings.strategy(topic, self.is_key, self._writer_name(writer, tag))
        return self.client.latest(
            subject, form=self.schema_form, seconds=settings.latest_seconds, metadata=settings.latest_metadata
        )

    def _own_reader(self) -> SchemaText | None:
        """The reader's schema of the application; None if it has set none."""
        return None

    def _writer_name(self, writer: SchemaText, tag: SchemaTag) -> str | None:
        """The name of the record, for subject name strategies."""
        raise NotImplementedError

    def _walk(self, schema: SchemaText, value: Any, tag: SchemaTag) -> FieldWalk:
        raise NotImplementedError

    def _decode(
        self, payload: memoryview, tag: SchemaTag, writer: SchemaText, reader: SchemaText | None, topic: str
    ) -> Any:
        """Raises SerializationError or ValueError."""
        raise NotImplementedError

    def _finished(self, value: Any, schema: SchemaText, topic: str) -> T:
        """The value for the application, after all rules."""
        result: T = value
        return result


def referenced_texts(client: RegistryClient, schema: SchemaText, form: str = "") -> dict[str, SchemaText]:
    """All direct and indirect references of a schema, by name. A referenced schema comes before its referrer."""
    texts: dict[str, SchemaText] = {}

    def collect(referrer: SchemaText) -> None:
        for name, subject, version in referrer.references:
            if name not in texts:
                inner = client.version(subject, version, form=form)
                collect(inner)
                texts[name] = inner

    collect(schema)
    return texts


def _missing(error: ModuleNotFoundError) -> str:
    """The error for a missing library. Libraries of schema languages are imported with the first value."""
    return f"schemas need {error.name}, which is not installed: pip install 'ottla[registry]'."


def _flag(config: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = config.get(name)
    if value is None:
        return default
    return value if isinstance(value, bool) else str(value).lower() in _TRUE
