"""What an application does about an error of its transaction: the classes of KIP-1050.

| class | what to do |
|---|---|
| retriable | nothing: the producer has retried, and the time-out of the call is over; the call may be repeated |
| `TransactionAbortable` | `abort_transaction`, and begin again |
| `ApplicationRecoverable` | close the producer, make a new one, and continue from the committed offsets |
| `InvalidConfiguration` | stop: rights or settings are wrong, and no retry helps |
| others | stop and look at the message |

Every class is a `KafkaError` with its code. `error_class` returns the class of any error, also of a failed delivery.
"""

from __future__ import annotations

from enum import Enum

from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError

__all__ = [
    "ApplicationRecoverable",
    "ErrorClass",
    "InvalidConfiguration",
    "TransactionAbortable",
    "classified",
    "error_class",
]


class ErrorClass(Enum):
    RETRIABLE = "retriable"
    ABORTABLE = "abortable"
    APPLICATION_RECOVERABLE = "application-recoverable"
    INVALID_CONFIGURATION = "invalid-configuration"
    OTHER = "other"


class TransactionAbortable(KafkaError, ClientError):
    """The transaction must be aborted; the producer can be used on."""


class ApplicationRecoverable(KafkaError, ClientError):
    """The producer, or the member of the group, was replaced. A new one continues from the committed offsets."""


class InvalidConfiguration(KafkaError, ClientError):
    """The cluster refuses the producer: its rights or settings are wrong."""


_RECOVERABLE = frozenset(
    (
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
)
_INVALID_CONFIGURATION = frozenset(
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
_TYPES: dict[ErrorClass, type[KafkaError]] = {
    ErrorClass.ABORTABLE: TransactionAbortable,
    ErrorClass.APPLICATION_RECOVERABLE: ApplicationRecoverable,
    ErrorClass.INVALID_CONFIGURATION: InvalidConfiguration,
}


def error_class(error: KafkaError) -> ErrorClass:
    code = error.code
    if code == ErrorCode.TRANSACTION_ABORTABLE:
        return ErrorClass.ABORTABLE
    if code in _RECOVERABLE:
        return ErrorClass.APPLICATION_RECOVERABLE
    if code in _INVALID_CONFIGURATION:
        return ErrorClass.INVALID_CONFIGURATION
    return ErrorClass.RETRIABLE if code.retriable else ErrorClass.OTHER


def classified(error: KafkaError) -> KafkaError:
    """The error as an exception of its class."""
    kind = _TYPES.get(error_class(error))
    return error if kind is None or isinstance(error, kind) else kind(error.code, error.message)
