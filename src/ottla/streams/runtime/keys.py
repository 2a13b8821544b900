"""Every configuration key of Kafka Streams: the honoured keys, and the reasons why other keys are refused.

A key that has no meaning here is accepted with Kafka's default value, so that files can be shared, and refused with a
reason otherwise. Keys of consumers and producers are honoured with and without Kafka Streams' prefixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ottla.client.config.consumer import CONSUMER_KEYS
from ottla.client.config.producer import PRODUCER_KEYS
from ottla.streams.errors import StreamsError
from ottla.streams.runtime.query_access import PREFIX

__all__ = ["HONOURED", "INERT", "ClientProperties", "sort_keys"]

# Read by tasks, by the topology, or by the application.
HONOURED = frozenset(
    {
        "application.id",
        "application.server",
        "application.server.basic.auth.user.info",
        "application.server.insecure",
        "auto.offset.reset",
        "bootstrap.servers",
        "client.id",
        "commit.interval.min.ms",
        "commit.interval.ms",
        "default.deserialization.exception.handler",
        "default.dsl.store",
        "default.key.serde",
        "default.production.exception.handler",
        "default.value.serde",
        "deserialization.exception.handler",
        "errors.dead.letter.queue.topic.name",
        "group.instance.id",
        "max.task.idle.ms",
        "num.standby.replicas",
        "num.stream.threads",
        "poll.ms",
        "processing.exception.handler",
        "processing.exception.handler.global.enabled",
        "processing.guarantee",
        "production.exception.handler",
        "repartition.purge.interval.ms",
        "replication.factor",
        "state.cleanup.delay.ms",
        "state.dir",
        "state.memory.max.bytes",
        "statestore.cache.max.bytes",
        "task.timeout.ms",
        "topology.change",
        "topology.optimization",
        "transaction.timeout.ms",
        "windowstore.changelog.additional.retention.ms",
        "__emit.interval.ms.kstreams.windowed.aggregation__",
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
    }
)

_SERDES = "give serdes where they are used, for instance in Consumed.with_(...)"
_RACKS = "tasks are assigned without regard to racks"
_NO_JVM = "it belongs to Kafka Streams' implementation in Java"
_METRICS = "metrics are exported by ottla, see docs/streams.md"
_WARM_UP = "a task moves at once, and its state is restored at its new worker while the others run on"

# Key -> (Kafka's default, why there is nothing to set).
INERT: Mapping[str, tuple[str, str]] = {
    "acceptable.recovery.lag": ("10000", _WARM_UP),
    "allow.os.group.write.access": ("false", "set the permissions of state.dir with the umask of the process"),
    "buffered.records.per.partition": ("1000", "consumers bound their buffers in bytes (fetch.max.bytes)"),
    "built.in.metrics.version": ("latest", _METRICS),
    "cache.max.bytes.buffering": ("0", "use statestore.cache.max.bytes"),
    "config.providers": ("", "resolve values before the application is created"),
    "default.client.supplier": (
        "org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier",
        _NO_JVM,
    ),
    "default.list.key.serde.inner": ("", _SERDES),
    "default.list.key.serde.type": ("", _SERDES),
    "default.list.value.serde.inner": ("", _SERDES),
    "default.list.value.serde.type": ("", _SERDES),
    "default.timestamp.extractor": (
        "org.apache.kafka.streams.processor.FailOnInvalidTimestamp",
        "give an extractor with Consumed.with_timestamp_extractor",
    ),
    "dsl.store.format": ("DEFAULT", "stores have one format"),
    "dsl.store.suppliers.class": ("", "choose stores with Materialized and Stores"),
    "ensure.explicit.internal.resource.naming": ("false", "name operators with Named and Materialized"),
    "group.protocol": ("classic", "streams groups of brokers (KIP-1071) are not used"),
    "log.summary.interval.ms": ("120000", "applications report with Application.statistics()"),
    "max.warmup.replicas": ("2", _WARM_UP),
    "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter", _METRICS),
    "metrics.num.samples": ("2", _METRICS),
    "metrics.recording.level": ("INFO", _METRICS),
    "probing.rebalance.interval.ms": ("600000", _WARM_UP),
    "processor.wrapper.class": ("", "wrap suppliers where they are given to the topology"),
    "rack.aware.assignment.non_overlap_cost": ("", _RACKS),
    "rack.aware.assignment.strategy": ("none", _RACKS),
    "rack.aware.assignment.tags": ("", _RACKS),
    "rack.aware.assignment.traffic_cost": ("", _RACKS),
    "rocksdb.config.setter": ("", "stores do not use RocksDB"),
    "state.cleanup.dir.max.age.ms": ("-1", "use state.cleanup.delay.ms"),
    "task.assignor.class": ("", "tasks are assigned by ottla's own assignor"),
    "upgrade.from": ("", "there is no older version to upgrade from"),
    "window.size.ms": ("", _SERDES),
    "windowed.inner.class.serde": ("", _SERDES),
}

# Of the server of interactive queries, beside those that clients have.
SERVER_TLS_KEYS = frozenset({"ssl.client.auth"})

# The application sets these itself.
_OWN_CONSUMER_KEYS = frozenset(
    {
        "allow.auto.create.topics",
        "enable.auto.commit",
        "group.id",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "max.poll.records",
        "partition.assignment.strategy",
        "value.deserializer",
    }
)
_OWN_PRODUCER_KEYS = frozenset(
    {
        "acks",
        "enable.idempotence",
        "interceptor.classes",
        "key.serializer",
        "partitioner.class",
        "transactional.id",
        "value.serializer",
    }
)
_OTHER_PREFIXES = {
    "restore.consumer.": "consumers that restore stores take the settings with the prefix consumer.",
    "global.consumer.": "consumers of global tables take the settings with the prefix consumer.",
    "admin.": "administrative requests use the connection settings without a prefix.",
}


class ClientProperties:
    """The keys of an application for its clients and its internal topics."""

    def __init__(self) -> None:
        self.consumer: dict[str, Any] = {}
        self.producer: dict[str, Any] = {}
        self.topic: dict[str, str] = {}


def sort_keys(properties: Mapping[str, Any]) -> ClientProperties:
    """Finds the client or the topic of every key. Raises StreamsError for keys that cannot be honoured."""
    clients = ClientProperties()
    by_prefix = (
        ("main.consumer.", clients.consumer, CONSUMER_KEYS, _OWN_CONSUMER_KEYS),
        ("consumer.", clients.consumer, CONSUMER_KEYS, _OWN_CONSUMER_KEYS),
        ("producer.", clients.producer, PRODUCER_KEYS, _OWN_PRODUCER_KEYS),
    )
    # Keys with the longer prefix win, so they come last.
    for key in sorted(properties, key=_weight):
        value = properties[key]
        match = next((entry for entry in by_prefix if key.startswith(entry[0])), None)
        if match is not None:
            prefix, target, known, own = match
            name = key.removeprefix(prefix)
            if name not in known or name in own:
                raise StreamsError(_refusal(key, name, own))
            target[name] = value
        elif key.startswith("topic."):
            clients.topic[key.removeprefix("topic.")] = str(value)
        elif key in INERT:
            _check_inert(key, value)
        elif key.startswith(f"{PREFIX}ssl.") and key.removeprefix(PREFIX) in {*CONSUMER_KEYS, *SERVER_TLS_KEYS}:
            # Read by `QueryAccess`.
            continue
        elif key in HONOURED or key in CONSUMER_KEYS or key in PRODUCER_KEYS:
            _add_plain(clients, key, value)
        else:
            raise StreamsError(_refusal(key, key, frozenset()))
    return clients


def _weight(key: str) -> int:
    return 2 if key.startswith("main.consumer.") else 1 if key.startswith(("consumer.", "producer.")) else 0


def _add_plain(clients: ClientProperties, key: str, value: Any) -> None:
    own = _OWN_CONSUMER_KEYS | _OWN_PRODUCER_KEYS
    if key in own and key not in HONOURED:
        raise StreamsError(_refusal(key, key, own))
    if key in CONSUMER_KEYS:
        clients.consumer[key] = value
    if key in PRODUCER_KEYS:
        clients.producer[key] = value


def _check_inert(key: str, value: Any) -> None:
    default, reason = INERT[key]
    text = "" if value is None else str(value)
    if text.lower() != default.lower():
        raise StreamsError(f"{key}={value} has no effect: {reason}. Remove it, or leave it at {default or 'nothing'}.")


def _refusal(key: str, name: str, own: frozenset[str]) -> str:
    if name in own:
        return f"{key} cannot be set: the application sets {name} of its clients itself."
    for prefix, reason in _OTHER_PREFIXES.items():
        if key.startswith(prefix):
            return f"{key} is not supported: {reason}"
    known = [*HONOURED, *INERT, *CONSUMER_KEYS, *PRODUCER_KEYS]
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    hint = f"did you mean {close[0]}?" if close else "remove it, or see docs/streams.md for what is."
    return f"{key} is no key of Kafka Streams or its clients; {hint}"
