"""Broker keys of older releases that Apache Kafka 4.3 does not have any more.

Most are accepted with a warning, so that an old server.properties still starts a node. Refused are those whose loss
would go unnoticed and hurt: an address to listen on, or a limit that would silently not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["IGNORED_BROKER_KEYS", "REMOVED_BROKER_KEYS", "ZOOKEEPER_PREFIX"]

# Every key that begins so belonged to ZooKeeper, which metadata left with 4.0 (KIP-500).
ZOOKEEPER_PREFIX: Final = "zookeeper."

# "<key> is ignored <...>": what the warning says.
IGNORED_BROKER_KEYS: Final[Mapping[str, str]] = {
    "broker.id.generation.enable": "since 4.0: node.id is always given",
    "reserved.broker.max.id": "since 4.0: no range of ids is reserved",
    "control.plane.listener.name": "since 4.0: controllers have listeners of their own, controller.listener.names",
    "controlled.shutdown.max.retries": "since 4.0: a broker that stops asks the controller in its heartbeats",
    "controlled.shutdown.retry.backoff.ms": "since 4.0: a broker that stops asks the controller in its heartbeats",
    "inter.broker.protocol.version": "since 4.0: the feature metadata.version decides",
    "log.message.format.version": "since 4.0: every batch is stored in format v2",
    "message.format.version": "since 4.0: every batch is stored in format v2",
    "log.message.downconversion.enable": "since 4.0: old fetches that would need another format are not served",
    "log.message.timestamp.difference.max.ms": (
        "since 4.0: use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "log.cleaner.enabled": "because it is written log.cleaner.enable",
    "max.message.size": "because it is written message.max.bytes",
    "log.cleaner.delete.retention.minutes": "because it is written log.cleaner.delete.retention.ms",
    "replica.lag.max.messages": "since 0.9: only replica.lag.time.max.ms decides who is in sync (KIP-16)",
    "leader.imbalance.per.broker.percentage": "since 4.0: every imbalance is repaired",
    "password.encoder.secret": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.old.secret": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.keyfactory.algorithm": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.cipher.algorithm": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.key.length": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.iterations": "since 4.0: dynamic secrets are kept by the quorum",
    "group.coordinator.new.enable": "since 4.0: there is one group coordinator, which speaks every protocol",
    "auto.include.jmx.reporter": "since 4.0: metric.reporters says which reporters there are",
    "metadata.log.max.record.age": "because it is written metadata.max.retention.ms",
    "offsets.commit.required.acks": "since 4.0: a commit always waits for all in-sync replicas",
    "transaction.state.log.min.insync.replicas": "because it is written transaction.state.log.min.isr",
    "eligible.leader.replicas.enable": "since 4.0: the feature eligible.leader.replicas.version decides",
    "log.dir.failure.timeout": "because it is written log.dir.failure.timeout.ms",
}

# "<key> cannot be used: <...>": what the refusal says.
REMOVED_BROKER_KEYS: Final[Mapping[str, str]] = {
    "host.name": "it went with 3.0; write the address into listeners, as in listeners=PLAINTEXT://host:9092",
    "port": "it went with 3.0; write the port into listeners, as in listeners=PLAINTEXT://host:9092",
    "advertised.host.name": "it went with 3.0; write the address into advertised.listeners",
    "advertised.port": "it went with 3.0; write the port into advertised.listeners",
    "quota.producer.default": "it went with 3.0; set producer_byte_rate as a default client quota instead",
    "quota.consumer.default": "it went with 3.0; set consumer_byte_rate as a default client quota instead",
    "quota.producer.override": "it went with 0.9; set producer_byte_rate as a client quota instead",
    "quota.consumer.override": "it went with 0.9; set consumer_byte_rate as a client quota instead",
    "quota.producer.bytes.per.second.default": "it went with 0.9; set producer_byte_rate as a client quota instead",
    "quota.consumer.bytes.per.second.default": "it went with 0.9; set consumer_byte_rate as a client quota instead",
}
