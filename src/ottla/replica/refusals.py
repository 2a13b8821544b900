"""The errors with which a partition refuses a request, and the hint that comes with some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.replica.partition import Partition
    from ottla.replica.views import ClusterView

__all__ = [
    "LeaderEndpoint",
    "compacted_only",
    "former_replica_epoch",
    "leader_hint",
    "no_replica",
    "not_deletable_to",
    "not_enough_replicas",
    "wrong_leader_epoch",
]

_NO_LEADER = -1


class LeaderEndpoint(NamedTuple):
    """The address of a leader on one listener."""

    host: str
    port: int
    rack: str | None


def leader_hint(
    image: ClusterView | None, topic: str, index: int, listener_name: str
) -> tuple[int, int, LeaderEndpoint | None]:
    """Leader, leader epoch and address for a client that asked the wrong broker (KIP-951)."""
    partition = None if image is None else image.topics.partition(topic, index)
    if image is None or partition is None:
        return _NO_LEADER, -1, None
    broker = image.brokers.get(partition.leader)
    endpoint = None if broker is None else broker.endpoints.get(listener_name)
    if broker is None or endpoint is None:
        return partition.leader, partition.leader_epoch, None
    return partition.leader, partition.leader_epoch, LeaderEndpoint(endpoint.host, endpoint.port, broker.rack)


def wrong_leader_epoch(partition: Partition, current_leader_epoch: int) -> KafkaError:
    """The client's leader epoch is older or newer than the partition's (KIP-320)."""
    epoch = partition.leader_epoch
    if current_leader_epoch < epoch:
        return KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"The leader epoch of {partition} is {epoch}, not {current_leader_epoch} any more.",
        )
    return KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"The leader epoch of {partition} is {epoch} here, not yet {current_leader_epoch}.",
    )


def no_replica(partition: Partition, node_id: int) -> KafkaError:
    """The error for a broker without a replica. It makes the broker retry, because its assignment may be newer."""
    return KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"Broker {node_id} holds no replica of {partition}.")


def former_replica_epoch(node_id: int, *, replica_epoch: int, known_epoch: int) -> KafkaError:
    """The fetch comes from a process that has been replaced (KIP-903)."""
    return KafkaError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"Broker {node_id} fetches with epoch {replica_epoch} after it did with {known_epoch}.",
    )


def not_enough_replicas(partition: Partition, *, in_sync: int, needed: int) -> KafkaError:
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"{partition} has {in_sync} in-sync replicas, and acks=all needs {needed}.",
    )


def gap_of_mirror(partition: Partition, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{partition} ends at {partition.log.log_end_offset}: batches of its mirror continue there, not at {offset}.",
    )


def compacted_only(partition: Partition) -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION,
        f"Records of {partition.topic} cannot be deleted: its cleanup.policy does not contain 'delete'.",
    )


def not_deletable_to(partition: Partition, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Records of {partition} can be deleted up to its high watermark {partition.high_watermark}, not to {offset}.",
    )
