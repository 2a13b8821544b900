"""A client of a Schema Registry: blocking, with a cache, usable by several threads.

Schemas by id never change, so they are requested once. `latest` versions are requested again after a time.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from ottla.serdes.network import check_network
from ottla.serdes.subjects import context_prefix, in_context_of

__all__ = [
    "RegisteredSchema",
    "RegistryClient",
    "RegistryClientError",
    "SchemaText",
    "is_registry_failure",
    "quoted",
    "registry_client",
]

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_SECONDS = 30.0
_LATEST_SECONDS = 60.0
_REDIRECTION = 300
_TOO_MANY = 429
# Statuses after which the request goes to the next registry of the list.
_RETRIED = (_TOO_MANY, 502, 503, 504)
# If all registries have failed and one has asked to wait (429), the client waits and tries all of them again: together
# at most as long as for an answer. A registry that asks for a longer pause has failed.
_PAUSES_MAX = 3
_PAUSE_SECONDS_MAX = 10.0
# The pause if Retry-After is missing or a date.
_PAUSE_SECONDS = 1.0
# Asks for the full names of referenced subjects. Without it, and in the answers of registries that do not know it, a
# name without a context is in the context of the schema that refers to it.
_FULL_NAMES = ("referenceFormat", "qualified")


class RegistryClientError(Exception):
    """The registry's own code and message; code 0 if no registry answered."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        # After this pause the registry may answer; infinite if it has not asked to wait.
        self.pause_seconds = math.inf


def is_registry_failure(error: BaseException) -> bool:
    """True if an error follows from a request that the registry, or a key service, did not answer with a result.

    The record may be good then. With status 404 the record names a schema or a key that does not exist. Key services
    raise a ConnectionError or a TimeoutError during an outage (`ottla.encryption.KeyServiceUnavailable`).
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RegistryClientError):
            return cause.status != 404
        if isinstance(cause, ConnectionError | TimeoutError):
            return True
        cause = cause.__cause__
    return False


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema with its references, as (name, subject, version)."""

    text: str
    schema_type: str = "AVRO"
    references: tuple[tuple[str, str, int], ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"schema": self.text, "schemaType": self.schema_type}
        if self.references:
            names = ("name", "subject", "version")
            body["references"] = [dict(zip(names, reference, strict=True)) for reference in self.references]
        if self.metadata is not None:
            body["metadata"] = self.metadata
        if self.rule_set is not None:
            body["ruleSet"] = self.rule_set
        return body

    def of_subject(self, subject: str) -> SchemaText:
        """The same schema with the full names of the subjects that it refers to as a schema of the given subject."""
        references = tuple((name, in_context_of(subject, other), number) for name, other, number in self.references)
        return replace(self, references=references)


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    subject: str
    version: int
    id: int
    guid: str
    schema: SchemaText


class RegistryClient:
    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        user: str | None = None,
        password: str = "",
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._urls = [url.strip().rstrip("/") for url in (urls.split(",") if isinstance(urls, str) else urls)]
        if not any(self._urls):
            raise ValueError("The address of the registry is missing, for example http://localhost:8081.")
        for url in self._urls:
            if urlsplit(url).scheme not in ("http", "https"):
                raise ValueError(f"{_redacted(url)!r} is not an address like http://localhost:8081.")
        self._headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE}
        first = urlsplit(self._urls[0])
        if user is None and first.username is not None:
            user, password = unquote(first.username), unquote(first.password or "")
        if user is not None:
            secret = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {secret}"
        elif token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = tls
        self._sleep = sleep
        self._local = threading.local()
        # Registrations and lookups have separate entries: an older registry answers a registration without a version.
        self._ids: dict[tuple[str, SchemaText, bool, str], RegisteredSchema] = {}
        self._schemas: dict[tuple[str, str, str], SchemaText] = {}
        self._versions: dict[tuple[int, str], list[int]] = {}
        self._latest: dict[tuple[Any, ...], tuple[float, RegisteredSchema]] = {}

    # Cached requests of serializers.

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> RegisteredSchema:
        return self._identified(subject, schema, normalize=normalize, path="/versions")

    def lookup(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> RegisteredSchema:
        return self._identified(subject, schema, normalize=normalize, path="")

    def schema_by_id(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaText:
        return self._schema(f"/schemas/ids/{schema_id}", [("subject", subject)], form, subject)

    def schema_by_guid(self, guid: str, *, form: str = "") -> SchemaText:
        return self._schema(f"/schemas/guids/{guid}", [], form, "")

    def versions_of_id(self, schema_id: int, subject: str) -> list[int]:
        """The version numbers of a schema within a subject, including deleted versions."""
        versions = self._versions.get((schema_id, subject))
        if versions is None:
            path = f"/schemas/ids/{schema_id}/versions?deleted=true&{urlencode([('subject', subject)])}"
            versions = [int(pair["version"]) for pair in self.call("GET", path) if _is_named(pair["subject"], subject)]
            self._versions[schema_id, subject] = versions
        return versions

    def version(self, subject: str, version: int, *, form: str = "") -> SchemaText:
        """A version, which may be deleted: schemas refer to deleted versions, too."""
        return self._schema(f"/subjects/{quoted(subject)}/versions/{version}", [("deleted", "true")], form, subject)

    def latest(
        self,
        subject: str,
        *,
        form: str = "",
        seconds: float = _LATEST_SECONDS,
        metadata: Mapping[str, str] | None = None,
    ) -> RegisteredSchema:
        """The latest version, or the latest with these metadata properties, at most `seconds` old."""
        key = (subject, form, tuple(sorted((metadata or {}).items())))
        cached = self._latest.get(key)
        now = time.monotonic()
        if cached is None or (seconds >= 0 and now - cached[0] > seconds):
            query = [("format", form), _FULL_NAMES] if form else [_FULL_NAMES]
            path = f"/subjects/{quoted(subject)}"
            if metadata is None:
                path += "/versions/latest"
            else:
                path += "/metadata"
                query += [pair for name, value in metadata.items() for pair in (("key", name), ("value", value))]
            cached = self._latest[key] = (now, _registered(self.call("GET", f"{path}?{urlencode(query)}")))
        return cached[1]

    # Any request.

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as JSON. Tries the next registry of the list if one cannot answer, and waits for registries that
        ask for a short pause. Raises RegistryClientError.
        """
        check_network()
        data = None if body is None else json.dumps(body).encode()
        for _ in range(_PAUSES_MAX):
            try:
                return self._call_any(method, path, data)
            except RegistryClientError as error:
                if error.pause_seconds > _PAUSE_SECONDS_MAX:
                    raise
                self._sleep(error.pause_seconds)
        return self._call_any(method, path, data)

    def _call_any(self, method: str, path: str, data: bytes | None) -> Any:
        """The answer of the first registry that gives one. Else raises the error with the shortest pause."""
        failures: list[RegistryClientError] = []
        for url in self._urls:
            try:
                status, answer, retry_after = self._exchange(url, method, path, data)
            except (OSError, http.client.HTTPException) as error:
                reason = f"The registry {_redacted(url)} cannot be reached: {error or type(error)}"
                failures.append(RegistryClientError(0, 0, reason))
                continue
            if status < _REDIRECTION:
                return None if not answer else _decoded(url, status, answer)
            failure = _failure(url, status, answer)
            if status not in _RETRIED:
                raise failure
            if status == _TOO_MANY:
                failure.pause_seconds = float(retry_after) if retry_after.isdecimal() else _PAUSE_SECONDS
            failures.append(failure)
        raise min(reversed(failures), key=lambda failure: failure.pause_seconds)

    def close(self) -> None:
        """Closes the connections of this thread."""
        for connection in self._connections().values():
            connection.close()
        self._connections().clear()

    def _connections(self) -> dict[str, http.client.HTTPConnection]:
        if not hasattr(self._local, "connections"):
            self._local.connections = {}
        connections: dict[str, http.client.HTTPConnection] = self._local.connections
        return connections

    def _exchange(self, url: str, method: str, path: str, data: bytes | None) -> tuple[int, bytes, str]:
        """Sends a request; returns status, body and Retry-After. A kept connection that the server has closed meanwhile
        is opened again.
        """
        parts = urlsplit(url)
        for attempt in range(2):
            connection = self._connections().get(url)
            is_new = connection is None
            if connection is None:
                connection = self._opened(parts.scheme, parts.hostname or "", parts.port)
                self._connections()[url] = connection
            try:
                connection.request(method, parts.path + path, data, self._headers)
                response = connection.getresponse()
                return response.status, response.read(), response.getheader("Retry-After", "")
            except (OSError, http.client.HTTPException):
                connection.close()
                self._connections().pop(url, None)
                if is_new or attempt:
                    raise
        raise AssertionError("unreachable")

    def _opened(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)

    def _identified(self, subject: str, schema: SchemaText, *, normalize: bool, path: str) -> RegisteredSchema:
        key = (subject, schema, normalize, path)
        identified = self._ids.get(key)
        if identified is None:
            query = "?normalize=true" if normalize else ""
            answer = self.call("POST", f"/subjects/{quoted(subject)}{path}{query}", schema.body())
            if "guid" not in answer:
                # Older registries answer a registration with the id alone.
                answer |= {"guid": ""}
            own_fields = {"subject": subject, "version": answer.get("version", 0), "schema": schema.text}
            registered = _registered({**answer, **own_fields})
            # Metadata and rules may come from the last version or the configuration of the subject.
            contract = registered.schema
            # An answer without them must not switch off the rules of the schema itself.
            ruled = replace(
                # A lookup without a context may have found a subject in a context.
                schema.of_subject(str(answer.get("subject") or subject)),
                metadata=contract.metadata or schema.metadata,
                rule_set=contract.rule_set or schema.rule_set,
            )
            identified = RegisteredSchema(subject, registered.version, registered.id, registered.guid, ruled)
            self._ids[key] = identified
        return identified

    def _schema(self, path: str, parameters: Sequence[tuple[str, str]], form: str, subject: str) -> SchemaText:
        key = (path, subject, form)
        schema = self._schemas.get(key)
        if schema is None:
            query = [(name, value) for name, value in (*parameters, ("format", form), _FULL_NAMES) if value]
            schema = self._schemas[key] = _text(self.call("GET", f"{path}?{urlencode(query)}"), subject)
        return schema


def quoted(text: str) -> str:
    """A subject as a segment of a path."""
    return quote(text, safe="")


def registry_client(config: Mapping[str, Any]) -> RegistryClient:
    """A client from the settings of Confluent's serializers: `schema.registry.url`, `basic.auth.*`, `bearer.auth.*`."""
    url = config.get("schema.registry.url")
    if not url:
        raise ValueError("schema.registry.url is missing, for example http://localhost:8081.")
    # Java's serializers accept both names.
    login = config.get("basic.auth.user.info") or config.get("schema.registry.basic.auth.user.info")
    user, separator, password = str(login or "").partition(":")
    tls = None
    authority = config.get("schema.registry.ssl.ca.location")
    certificate = config.get("schema.registry.ssl.certificate.location")
    if authority or certificate:
        tls = ssl.create_default_context(cafile=authority)
        if certificate:
            tls.load_cert_chain(certificate, config.get("schema.registry.ssl.key.location"))
    return RegistryClient(
        str(url),
        user=user if separator else None,
        password=password,
        token=config.get("bearer.auth.token"),
        tls=tls,
    )


def _is_named(full_name: str, subject: str) -> bool:
    """True if an answer means the subject: answers have the context, also if it is in the address of the registry."""
    return subject in (full_name, full_name.removeprefix(context_prefix(full_name)))


def _failure(url: str, status: int, answer: bytes) -> RegistryClientError:
    try:
        body = json.loads(answer)
        return RegistryClientError(status, int(body["error_code"]), str(body["message"]))
    except (ValueError, KeyError, TypeError):
        return RegistryClientError(status, status, f"The registry {_redacted(url)} answered with {status}.")


def _decoded(url: str, status: int, answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        raise RegistryClientError(status, status, f"The answer of the registry {_redacted(url)} is not JSON.") from None


def _redacted(url: str) -> str:
    """The address without user and password, for errors, which go to logs, headers and columns."""
    before, separator, after = url.rpartition("@")
    scheme, slashes, _ = before.partition("://")
    return (f"{scheme}{slashes}{after}" if slashes else after) if separator else url


def _text(answer: Mapping[str, Any], subject: str = "") -> SchemaText:
    """The schema of an answer, which may name its subject, else of the subject that was asked for."""
    references = tuple(
        (str(reference["name"]), str(reference["subject"]), int(reference["version"]))
        for reference in _references(answer)
    )
    return SchemaText(
        text=answer["schema"],
        schema_type=answer.get("schemaType") or "AVRO",
        references=references,
        metadata=answer.get("metadata"),
        rule_set=answer.get("ruleSet"),
    ).of_subject(str(answer.get("subject") or subject))


def _references(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return answer.get("references") or ()


def _registered(answer: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(
        subject=str(answer["subject"]),
        version=int(answer["version"]),
        id=int(answer["id"]),
        guid=str(answer.get("guid") or ""),
        schema=_text(answer),
    )
