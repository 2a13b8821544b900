"""What can go wrong for a client, in sentences a person can act on.

A broker's answer with an error code is a `KafkaError` of `ottla.model`; what never got an answer is one of these. All
of them say what to look at next, because the command line prints them as they are.
"""

from __future__ import annotations

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = [
    "ClientClosed",
    "ClientError",
    "ClusterUnreachable",
    "ConnectionLost",
    "LogTruncated",
    "RequestUnsupported",
    "TimedOut",
    "check",
    "error_of",
]


class ClientError(Exception):
    """No answer, or none that could be used."""


class ClusterUnreachable(ClientError):
    """Not one of the known addresses answers."""


class ConnectionLost(ClientError):
    """The connection to a node could not be made, broke or stayed silent. May be tried again."""


class TimedOut(ClientError):
    """The work was not finished in the time it was given."""


class RequestUnsupported(ClientError):
    """The node does not know the request, or no version of it that we speak."""


class ClientClosed(ClientError):
    """The client was closed while, or before, it was used."""


class LogTruncated(KafkaError):
    """Records that were read are not in the log any more, and nothing says where to go on.

    `end` is the newest leader epoch that the log has of those up to the position's, and the offset where it ends: from
    there on, the log is another one than the one that was read. None where its leader knows of no such epoch.
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


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """The exception of an error code, or None for no error; codes newer than this code are unknown server errors."""
    if code == 0:
        return None
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message or f"The broker answered with the new error {code}.")
    return KafkaError(known, message or known.message)


def check(code: int, message: str | None = None) -> None:
    """Raises what `error_of` finds."""
    error = error_of(code, message)
    if error is not None:
        raise error
