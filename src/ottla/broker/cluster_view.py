"""The image as a client of one listener sees it: reachable brokers, and the state of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionImage
from ottla.metadata.topic_names import check_topic_name
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

__all__ = [
    "NO_ID",
    "alive_brokers",
    "any_alive_broker",
    "endpoint_of",
    "missing_topic_code",
    "offline_replicas",
    "reachable",
]

NO_ID = -1


def endpoint_of(image: MetadataImage, broker_id: int, listener_name: str) -> Endpoint | None:
    """The endpoint of a registered broker, fenced or not, on this listener."""
    broker = image.brokers.get(broker_id)
    return None if broker is None else broker.endpoints.get(listener_name)


def alive_brokers(image: MetadataImage, listener_name: str) -> list[BrokerImage]:
    """The brokers that clients of this listener can use, in the order of their ids."""
    return [
        broker for _, broker in sorted(image.brokers.items()) if not broker.fenced and listener_name in broker.endpoints
    ]


def any_alive_broker(alive: list[BrokerImage], random: Random) -> int:
    """A random broker as "controller": clients send administrative requests to it, and every broker answers them."""
    return random.choice(alive).broker_id if alive else NO_ID


def reachable(image: MetadataImage, replicas: Iterable[int], listener_name: str) -> list[int]:
    return [
        replica
        for replica in replicas
        if (broker := image.brokers.get(replica)) is not None
        and not broker.fenced
        and listener_name in broker.endpoints
    ]


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener_name: str) -> list[int]:
    """Replicas on a broker that is missing, fenced or not on this listener, or in an offline directory (KIP-858)."""
    offline = []
    for replica in partition.replicas:
        broker = image.brokers.get(replica)
        if broker is None or broker.fenced or listener_name not in broker.endpoints:
            offline.append(replica)
            continue
        directory = partition.directory(replica)
        if directory and broker.directories and directory not in broker.directories:
            offline.append(replica)
    return offline


def missing_topic_code(name: str) -> ErrorCode:
    """The error for a topic that does not exist: INVALID_TOPIC_EXCEPTION if its name is invalid."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
