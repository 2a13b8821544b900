"""A sink that sends records to a web service, by HTTP requests with one or many records.

Delivery is at least once: without a response it is unknown whether a request was processed. Every request has an
idempotency key, which is the same when the same records are sent again, so that the service can detect repetitions.
"""

from __future__ import annotations

import http.client
import json
import logging
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    Batch,
    ConfigDefinitions,
    ConfigType,
    ConfigValue,
    ConnectError,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    RetriableError,
    Settings,
    SinkConnector,
    SinkWriter,
    Task,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["HttpSinkConnector", "HttpWriter"]

log = logging.getLogger(__name__)

HEADERS_PREFIX = "http.headers."
ANSWER_SHOWN_MAX = 200
# The longest pause before a repetition, whatever the service asks for: a task cannot be stopped during a pause.
PAUSE_SECONDS_MAX = 60.0


class HttpSinkConnector(SinkConnector):
    """Sends records to a web service."""

    claim = DeliveryClaim(Delivery.AT_LEAST_ONCE, "the service can detect repetitions by their idempotency key")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("http.url", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="Where to send; ${topic} stands for the topic of the records.")
            .define("http.method", ConfigType.STRING, default="POST", validator=OneOf("POST", "PUT", "PATCH"),
                    documentation="The method of requests.")
            .define("http.authorization", ConfigType.PASSWORD, default=None, importance=Importance.HIGH,
                    documentation="The header Authorization, such as `Bearer ...`.")
            .define("http.body", ConfigType.STRING, default="json-array", importance=Importance.HIGH,
                    validator=OneOf("json-array", "json-lines", "single"),
                    documentation="A JSON list of values, one JSON value per line, or one record in each request.")
            .define("http.batch.records", ConfigType.INT, default=500, validator=Range(minimum=1),
                    documentation="How many records a request has at most.")
            .define("http.timeout.ms", ConfigType.INT, default=30_000, validator=Range(minimum=1),
                    documentation="How long to wait for an answer.")
            .define("http.retries", ConfigType.INT, default=5, validator=Range(minimum=0),
                    documentation="How often a request is sent again before the batch fails.")
            .define("http.retry.backoff.ms", ConfigType.INT, default=200, validator=Range(minimum=0),
                    documentation="The pause before the first repetition; each further one is twice as long.")
            .define("http.retry.status", ConfigType.LIST, default=("408", "425", "429", "500-599"),
                    documentation="Answers after which a request is sent again.")
            .define("http.on.error", ConfigType.STRING, default="fail", validator=OneOf("fail", "skip"),
                    documentation="What to do when the service refuses records: fail the task, or skip them.")
            .define("http.idempotency.header", ConfigType.STRING, default="Idempotency-Key",
                    documentation="The header for the idempotency key; none when it is empty.")
        )  # fmt: skip

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        url = urllib.parse.urlsplit(config.get("http.url", ""))
        if url.scheme not in ("http", "https") or not url.netloc:
            values["http.url"].errors.append("http.url must begin with http:// or https:// and name a host.")

    def writer(self, task: Task) -> SinkWriter:
        return HttpWriter(self.config_definitions().parse(task.config))


@dataclass(frozen=True, slots=True)
class _Request:
    url: str
    body: bytes
    key: str
    records: int


class HttpWriter(SinkWriter):
    """Sends batches, one request at a time, on one connection for each host."""

    def __init__(self, settings: Settings, *, wait: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._wait = wait
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}
        self._retried = [_status_range(text) for text in settings.texts("http.retry.status")]
        self._headers = {
            name.removeprefix(HEADERS_PREFIX): text
            for name, text in settings.original.items()
            if name.startswith(HEADERS_PREFIX)
        }
        authorization = settings.text_or_none("http.authorization")
        if authorization:
            self._headers["Authorization"] = authorization

    def write(self, frame: DataFrame, batch: Batch) -> None:
        from ottla.connect.api import schema
        from ottla.connect.api.spark_functions import sql
        from ottla.connect.plugins.converters.json_expressions import json_text

        given = schema.schema_of(frame, "value") or schema.schema_from_spark(frame.schema["value"].dataType)
        text = sql.coalesce(json_text(sql.col("value"), given, numeric_decimals=True), sql.lit("null"))
        rows = frame.select(sql.col("topic"), text.alias("value")).toLocalIterator()
        for request in self.requests(((row["topic"], row["value"]) for row in rows), batch.identity):
            self.send(request)

    def requests(self, records: Iterable[tuple[str, str]], identity: str) -> Iterator[_Request]:
        """Requests for records in their order; a new address begins a new request."""
        body = self._settings.text("http.body")
        most = 1 if body == "single" else self._settings.integer("http.batch.records")
        gathered: list[str] = []
        current, number = "", 0
        for topic, value in records:
            url = self._settings.text("http.url").replace("${topic}", urllib.parse.quote(topic, safe=""))
            if gathered and (url != current or len(gathered) >= most):
                yield _Request(current, _body(gathered, body), f"{identity}-{number}", len(gathered))
                gathered, number = [], number + 1
            current = url
            gathered.append(value)
        if gathered:
            yield _Request(current, _body(gathered, body), f"{identity}-{number}", len(gathered))

    def send(self, request: _Request) -> None:
        """Sends a request, with retries. Raises RetriableError after too many attempts."""
        attempts = self._settings.integer("http.retries") + 1
        backoff_ms = float(self._settings.integer("http.retry.backoff.ms"))
        problem = ""
        for attempt in range(attempts):
            if attempt:
                self._wait(min(backoff_ms / 1000, PAUSE_SECONDS_MAX))
                backoff_ms *= 2
            try:
                status, answer, pause = self._sent(request)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if 200 <= status < 300:
                return
            problem = f"status {status}: {answer}"
            if not any(low <= status <= high for low, high in self._retried):
                self._refused(request, problem)
                return
            backoff_ms = max(backoff_ms, pause * 1000)
        raise RetriableError(f"{_shown(request.url)} did not accept {request.records} records: {problem}")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _refused(self, request: _Request, problem: str) -> None:
        sentence = f"{_shown(request.url)} refused {request.records} records: {problem}"
        if self._settings.text("http.on.error") == "fail":
            raise ConnectError(sentence)
        log.error("%s; they are skipped", sentence)

    def _sent(self, request: _Request) -> tuple[int, str, float]:
        """The status, the beginning of the response body, and the seconds of Retry-After."""
        url = urllib.parse.urlsplit(request.url)
        connection = self._connection(url.scheme, url.netloc)
        content = "application/x-ndjson" if self._settings.text("http.body") == "json-lines" else "application/json"
        headers = {"Content-Type": content, **self._headers}
        name = self._settings.text("http.idempotency.header")
        if name:
            headers[name] = request.key
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        try:
            connection.request(self._settings.text("http.method"), path, body=request.body, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            connection.close()
            self._connections.pop((url.scheme, url.netloc), None)
            raise
        pause = answer.getheader("Retry-After", "0")
        return answer.status, text[:ANSWER_SHOWN_MAX], float(pause) if pause.isdecimal() else 0.0

    def _connection(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        connection = self._connections.get((scheme, netloc))
        if connection is None:
            kind: Any = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            host = netloc.rpartition("@")[2]
            connection = kind(host, timeout=self._settings.integer("http.timeout.ms") / 1000)
            self._connections[(scheme, netloc)] = connection
        return connection


def _body(values: list[str], kind: str) -> bytes:
    if kind == "json-array":
        return ("[" + ",".join(values) + "]").encode()
    if kind == "json-lines":
        return "".join(value + "\n" for value in values).encode()
    return values[0].encode()


def _status_range(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    return int(low), int(high if dash else low)


def _shown(url: str) -> str:
    """An address without parts that may be secret."""
    parts = urllib.parse.urlsplit(url)
    return json.dumps(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
