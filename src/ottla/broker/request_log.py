"""The request log: one line per request, under the name that Kafka has for it.

`kafka.request.logger` says nothing by default. Set to DEBUG (`kafka-configs --entity-type broker-loggers`), it has a
line for each request when it is answered. Lines are written as key=value pairs whatever `ottla.log.format` is, because
they are read by programs more often than by people.
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
# It has a level of its own from the start, so that a request finds out by one comparison that nobody wants to know.
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
    """`parts` are the answer's; None when the request has none."""
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
    """What a client has chosen may hold anything; where it could be taken for something else, it stands in quotes."""
    if text and text.isprintable() and not any(mark in text for mark in ' ="'):
        return text
    return '"' + "".join(each if each.isprintable() and each not in '"\\' else "?" for each in text) + '"'
