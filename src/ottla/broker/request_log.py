"""The request log: one line per request, under the name that Kafka has for it.

`kafka.request.logger` is silent by default. At level DEBUG (`kafka-configs --entity-type broker-loggers`) it writes a
line for every request when it is answered. Lines are key=value pairs whatever `ottla.log.format` is, because programs
read them more often than people do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext
    from ottla.broker.pending import Part

__all__ = ["DEBUG", "REQUEST_LOGGER", "REQUEST_LOGGER_NAME", "log_request"]

DEBUG = logging.DEBUG
REQUEST_LOGGER_NAME = "kafka.request.logger"
# The logger has a level of its own from the start, so that one comparison shows whether lines are wanted.
REQUEST_LOGGER = logging.getLogger(REQUEST_LOGGER_NAME)
REQUEST_LOGGER.setLevel(logging.WARNING)


def log_request(
    api_name: str,
    context: RequestContext,
    parts: Sequence[Part] | None,
    *,
    request_bytes: int,
    handled_seconds: float,
    waited_seconds: float = 0.0,
) -> None:
    """Writes the line of a request. `parts` are those of its answer, or None without an answer."""
    connection = context.connection
    REQUEST_LOGGER.debug(
        "request=%s version=%d correlation=%d client=%s connection=%s listener=%s principal=%s "
        "request_bytes=%d response_bytes=%d handled_ms=%.3f waited_ms=%.3f software=%s/%s",
        api_name,
        context.api_version,
        context.correlation_id,
        _quoted(context.client_id or ""),
        connection.connection_id,
        connection.listener.name,
        connection.principal,
        request_bytes,
        sum(map(len, parts)) if parts else 0,
        handled_seconds * 1000,
        waited_seconds * 1000,
        _quoted(connection.client_software_name),
        _quoted(connection.client_software_version),
    )


def _quoted(text: str) -> str:
    """Text of a client's choice. It is quoted where it could be mistaken for other parts of the line."""
    if text and text.isprintable() and not any(mark in text for mark in ' ="'):
        return text
    return (
        '"'
        + "".join(character if character.isprintable() and character not in '"\\' else "?" for character in text)
        + '"'
    )
