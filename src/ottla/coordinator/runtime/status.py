"""The states of a shard, and the errors that clients get from it."""

from __future__ import annotations

from enum import Enum

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["REFUSALS", "TRANSITIONS", "ShardStatus", "client_error"]


class ShardStatus(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    # The log could not be read or replayed.
    FAILED = "failed"
    CLOSED = "closed"


TRANSITIONS: dict[ShardStatus, frozenset[ShardStatus]] = {
    ShardStatus.LOADING: frozenset({ShardStatus.ACTIVE, ShardStatus.FAILED, ShardStatus.CLOSED}),
    ShardStatus.ACTIVE: frozenset({ShardStatus.LOADING, ShardStatus.CLOSED}),
    ShardStatus.FAILED: frozenset({ShardStatus.LOADING, ShardStatus.CLOSED}),
    ShardStatus.CLOSED: frozenset(),
}

REFUSALS = {
    ShardStatus.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardStatus.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardStatus.CLOSED: ErrorCode.NOT_COORDINATOR,
}

# Error of the partition -> error for a client of the coordinator.
_CLIENT_ERRORS = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def client_error(error: KafkaError) -> KafkaError:
    failure = _CLIENT_ERRORS.get(error.code)
    return error if failure is None else KafkaError(failure, error.message)
