"""Errors of clients, with messages that contain the remedy.

A response with an error code becomes a `KafkaError` of `ottla.model`; a request without a response fails with one of
these errors. The command line prints their messages as they are.
"""

from __future__ import annotations

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = [
    "AuthenticationFailed",
    "BufferExhausted",
    "ClientClosed",
    "ClientError",
    "ClusterUnreachable",
    "ConnectionLost",
    "LogTruncated",
    "MissingLibrary",
    "RequestUnsupported",
    "TimedOut",
    "WokenUp",
    "check",
    "error_of",
    "is_temporary",
]


class ClientError(Exception):
    """No usable response."""


class AuthenticationFailed(ClientError):
    """A node refused the login. A retry with the same credentials would fail as well."""


class ClusterUnreachable(ClientError):
    """No known address answers."""


class ConnectionLost(ClientError):
    """The connection to a node failed, broke or timed out. The request may be retried."""


class MissingLibrary(ClientError, ImportError):
    """A call needs a library that is not installed."""


class TimedOut(ClientError):
    """The call exceeded its time-out."""


class WokenUp(ClientError):
    """`Consumer.wakeup` interrupted a poll."""


class BufferExhausted(TimedOut):
    """The producer's buffer stayed full for `max.block.ms`."""


class RequestUnsupported(ClientError):
    """The node does not support the request, or no common version of it."""


class ClientClosed(ClientError):
    """The client was closed before or during the call."""


class LogTruncated(KafkaError):
    """The log was truncated before the position, and there is no reset policy.

    `end` is the largest leader epoch in the log up to the position's epoch, and its end offset: from there on the log
    differs from the records that were read. None if the log has no such epoch.
    """

    def __init__(
        self, partition: TopicPartition, *, position: int, leader_epoch: int, end: tuple[int, int] | None
    ) -> None:
        self.partition = partition
        self.position = position
        self.leader_epoch = leader_epoch
        self.end = end
        has = "has nothing of it" if end is None else f"has epoch {end[0]}, up to offset {end[1]}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: records before offset {position}, of leader epoch {leader_epoch}, were read and are gone; "
            f"the log {has}. Begin elsewhere, as with --from-beginning.",
        )


def is_temporary(error: ClientError) -> bool:
    """False if a retry fails as well, such as after a refused login."""
    return isinstance(error, ClusterUnreachable | ConnectionLost | TimedOut)


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """The exception of an error code; None for NONE. Unknown codes become UNKNOWN_SERVER_ERROR."""
    if code == 0:
        return None
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message or f"The broker answered with the new error {code}.")
    return KafkaError(known, message or known.message)


def check(code: int, message: str | None = None) -> None:
    """Raises the exception of an error code, unless it is NONE."""
    error = error_of(code, message)
    if error is not None:
        raise error
