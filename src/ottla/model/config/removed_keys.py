"""Broker keys of older releases that Apache Kafka 4.3 no longer has.

Most of them are accepted with a warning, so that a node starts with an old server.properties. Keys are refused if
ignoring them would do harm without being noticed: an address to listen on, or a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["IGNORED_BROKER_KEYS", "REMOVED_BROKER_KEYS", "ZOOKEEPER_PREFIX"]

# The prefix of keys for ZooKeeper, which 4.0 removed (KIP-500).
ZOOKEEPER_PREFIX: Final = "zookeeper."

# The end of the warning "<key> is ignored ...".
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
    "log.cleaner.enabled": "because its name is log.cleaner.enable",
    "max.message.size": "because its name is message.max.bytes",
    "log.cleaner.delete.retention.minutes": "because its name is log.cleaner.delete.retention.ms",
    "replica.lag.max.messages": "since 0.9: only replica.lag.time.max.ms determines the in-sync replicas (KIP-16)",
    "leader.imbalance.per.broker.percentage": "since 4.0: every imbalance is repaired",
    "password.encoder.secret": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.old.secret": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.keyfactory.algorithm": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.cipher.algorithm": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.key.length": "since 4.0: dynamic secrets are kept by the quorum",
    "password.encoder.iterations": "since 4.0: dynamic secrets are kept by the quorum",
    "group.coordinator.new.enable": "since 4.0: there is one group coordinator for all protocols",
    "auto.include.jmx.reporter": "since 4.0: metric.reporters names the reporters",
    "metadata.log.max.record.age": "because its name is metadata.max.retention.ms",
    "offsets.commit.required.acks": "since 4.0: a commit always waits for all in-sync replicas",
    "transaction.state.log.min.insync.replicas": "because its name is transaction.state.log.min.isr",
    "eligible.leader.replicas.enable": "since 4.0: the feature eligible.leader.replicas.version decides",
    "log.dir.failure.timeout": "because its name is log.dir.failure.timeout.ms",
}

# The end of the error "<key> cannot be used: ...".
REMOVED_BROKER_KEYS: Final[Mapping[str, str]] = {
    "host.name": "removed in 3.0; write the address into listeners, as in listeners=PLAINTEXT://host:9092",
    "port": "removed in 3.0; write the port into listeners, as in listeners=PLAINTEXT://host:9092",
    "advertised.host.name": "removed in 3.0; write the address into advertised.listeners",
    "advertised.port": "removed in 3.0; write the port into advertised.listeners",
    "quota.producer.default": "removed in 3.0; set producer_byte_rate as a default client quota instead",
    "quota.consumer.default": "removed in 3.0; set consumer_byte_rate as a default client quota instead",
    "quota.producer.override": "removed in 0.9; set producer_byte_rate as a client quota instead",
    "quota.consumer.override": "removed in 0.9; set consumer_byte_rate as a client quota instead",
    "quota.producer.bytes.per.second.default": "removed in 0.9; set producer_byte_rate as a client quota instead",
    "quota.consumer.bytes.per.second.default": "removed in 0.9; set consumer_byte_rate as a client quota instead",
}
