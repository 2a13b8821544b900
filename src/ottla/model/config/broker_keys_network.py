"""Broker keys: listeners, connections, sockets, requests."""

from __future__ import annotations

from typing import Final

from ottla.model.config.columns import (
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
)
from ottla.model.config.keys import HONOURED, ConfigKey
from ottla.model.config.statuses import (
    LISTENERS_TOGETHER,
    ONE_LOOP,
    PARKED,
)
from ottla.model.config.validators import AnyList, OneOf, at_least

__all__ = ["NETWORK_KEYS"]

# Columns: name, type, default, validator, importance, update mode, status, documentation.
# fmt: off
NETWORK_KEYS: Final = (
    ConfigKey("listeners", LIST, ("PLAINTEXT://:9092",), AnyList(may_be_empty=False), HIGH, PER_BROKER, HONOURED,
              "Addresses the node listens on, as NAME://host:port entries."),
    ConfigKey("advertised.listeners", LIST, None, AnyList(may_be_empty=False), HIGH, READ_ONLY, HONOURED,
              "Addresses that clients connect to; those of listeners when not set."),
    ConfigKey("listener.security.protocol.map", STRING,
              "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None,
              LOW, PER_BROKER, HONOURED,
              "The security protocol of each listener name."),
    ConfigKey("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY, HONOURED,
              "Listener for connections between brokers."),
    ConfigKey("security.inter.broker.protocol", STRING,
              "PLAINTEXT", OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY, HONOURED,
              "Security protocol between brokers, when inter.broker.listener.name is not set."),
    ConfigKey("early.start.listeners", LIST, None, AnyList(), HIGH, READ_ONLY, LISTENERS_TOGETHER,
              "Listeners that open before the node has its metadata."),
    ConfigKey("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY, HONOURED,
              "Size of a socket's send buffer; -1 leaves it to the operating system."),
    ConfigKey("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY, HONOURED,
              "Size of a socket's receive buffer; -1 leaves it to the operating system."),
    ConfigKey("socket.request.max.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Largest request; a connection that announces a larger one is closed."),
    ConfigKey("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY, HONOURED,
              "Connections the operating system may hold until they are accepted."),
    ConfigKey("socket.connection.setup.timeout.ms", LONG, 10_000, None, MEDIUM, READ_ONLY, HONOURED,
              "Time the first attempt to connect to another node may take."),
    ConfigKey("socket.connection.setup.timeout.max.ms", LONG, 30_000, None, MEDIUM, READ_ONLY, HONOURED,
              "Upper bound of the connection setup timeout, which doubles with each failed attempt."),
    ConfigKey("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY, HONOURED,
              "Idle time after which a connection is closed."),
    ConfigKey("connections.max.reauth.ms", LONG, 0, None, MEDIUM, READ_ONLY, HONOURED,
              "Time after which an authenticated client must authenticate again; 0 for never."),
    ConfigKey("connection.failed.authentication.delay.ms", INT, 100, at_least(0), LOW, READ_ONLY, HONOURED,
              "Pause before a connection that failed to authenticate is closed."),
    ConfigKey("max.connections", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE, HONOURED,
              "Most connections the node accepts."),
    ConfigKey("max.connections.per.ip", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE, HONOURED,
              "Most connections from one address."),
    ConfigKey("max.connections.per.ip.overrides", STRING, "", None, MEDIUM, CLUSTER_WIDE, HONOURED,
              "Other limits for single addresses, as host:limit entries."),
    ConfigKey("max.connection.creation.rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE, HONOURED,
              "Most connections the node accepts in a second."),
    ConfigKey("num.network.threads", INT, 3, at_least(1), HIGH, CLUSTER_WIDE, ONE_LOOP,
              "Threads that read requests from and write answers to sockets."),
    ConfigKey("num.io.threads", INT, 8, at_least(1), HIGH, CLUSTER_WIDE, HONOURED,
              "Most threads for each kind of work that would stall the node: flushes, cold reads, compaction."),
    ConfigKey("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Requests of one connection that may wait for their answers before reading stops."),
    ConfigKey("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY, HONOURED,
              "Memory for requests over 64 KiB that are not complete or wait for an earlier one of their connection; "
              "-1 is twice socket.request.max.bytes, and at least 256 MiB."),
    ConfigKey("request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY, HONOURED,
              "Longest time the node waits for another node's answer to a request."),
    ConfigKey("fetch.max.bytes", INT, 55 << 20, at_least(1024), MEDIUM, READ_ONLY, HONOURED,
              "Most bytes in the answer to one fetch."),
    ConfigKey("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), MEDIUM, READ_ONLY, HONOURED,
              "Most incremental fetch sessions the node keeps."),
    ConfigKey("max.request.partition.size.limit", INT, 2000, at_least(1), MEDIUM, READ_ONLY, HONOURED,
              "Most partitions in the answer to one request for topic partitions."),
    ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY, PARKED,
              "Finished fetches after which the list of waiting ones is tidied."),
    ConfigKey("producer.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY, PARKED,
              "Finished produce requests after which the list of waiting ones is tidied."),
    ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, READ_ONLY, PARKED,
              "Finished deletions after which the list of waiting ones is tidied."),
    ConfigKey("share.fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, READ_ONLY, PARKED,
              "Finished share fetches after which the list of waiting ones is tidied."),
)
# fmt: on
