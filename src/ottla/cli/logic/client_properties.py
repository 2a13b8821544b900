"""Java clients' properties as our settings: the usual ones are translated, all others are refused."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.consumer import ConsumerSettings
from ottla.client.producer import ProducerSettings
from ottla.client.producer.partitioner import StickyPartitioner, round_robin
from ottla.records.compression import Codec

__all__ = ["consumer_settings", "known_to_consumers", "known_to_producers", "producer_settings"]

_CODECS = {codec.name.lower(): codec for codec in Codec}
# Understood by `settings_from_properties`, or without a meaning here.
_SHARED = (
    "bootstrap.servers",
    "client.id",
    "client.dns.lookup",
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "metadata.max.age.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "send.buffer.bytes",
    "receive.buffer.bytes",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "metric.reporters",
    "max.block.ms",
)


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    given: dict[str, object] = {}
    for name, text in properties.items():
        value = text.strip()
        if name == "acks":
            given["acks"] = _acks(value)
        elif name == "compression.type":
            given["compression"] = _codec(value)
        elif name == "enable.idempotence":
            given["idempotent"] = value.lower() == "true"
        elif name == "transactional.id":
            given["transactional_id"] = value
        elif name == "partitioner.class" and value.endswith("RoundRobinPartitioner"):
            given["partitioner"] = round_robin()
        elif name == "partitioner.ignore.keys":
            # Formerly UniformStickyPartitioner (KIP-794).
            given.setdefault("partitioner", StickyPartitioner(ignores_keys=value.lower() == "true"))
        elif name in _PRODUCER_NUMBERS:
            given[_PRODUCER_NUMBERS[name]] = _number(name, value)
        elif name not in _SHARED:
            raise ValueError(_unknown("producer", name))
    return ProducerSettings(**given)  # type: ignore[arg-type]


_PRODUCER_NUMBERS = {
    "linger.ms": "linger_ms",
    "batch.size": "batch_size",
    "retries": "retries",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "buffer.memory": "buffer_bytes",
    "max.request.size": "request_bytes_max",
    "max.in.flight.requests.per.connection": "in_flight_max",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "compression.gzip.level": "compression_level",
    "compression.lz4.level": "compression_level",
    "compression.zstd.level": "compression_level",
}
_PRODUCER_NAMES = {
    "acks",
    "compression.type",
    "enable.idempotence",
    "transactional.id",
    "partitioner.class",
    *_PRODUCER_NUMBERS,
}
_CONSUMER_NUMBERS = {
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "fetch.min.bytes": "fetch_min_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "fetch.max.bytes": "fetch_max_bytes",
    "max.partition.fetch.bytes": "partition_fetch_bytes",
    "max.poll.records": "max_poll_records",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
}
_CONSUMER_WORDS = {
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "group.remote.assignor": "remote_assignor",
    "client.rack": "rack",
}
_CONSUMER_FLAGS = {
    "enable.auto.commit": "auto_commit",
    "check.crcs": "check_crcs",
    "allow.auto.create.topics": "allow_auto_create",
}
_CONSUMER_NAMES = {
    "group.protocol",
    "auto.offset.reset",
    "isolation.level",
    "partition.assignment.strategy",
    *_CONSUMER_NUMBERS,
    *_CONSUMER_WORDS,
    *_CONSUMER_FLAGS,
}
_JAVA_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "cooperative-sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def consumer_settings(properties: Mapping[str, str]) -> ConsumerSettings:
    given: dict[str, object] = {}
    for name, text in properties.items():
        value = text.strip()
        if name in _CONSUMER_NUMBERS:
            given[_CONSUMER_NUMBERS[name]] = _number(name, value)
        elif name in _CONSUMER_WORDS:
            given[_CONSUMER_WORDS[name]] = value
        elif name in _CONSUMER_FLAGS:
            given[_CONSUMER_FLAGS[name]] = value.lower() == "true"
        elif name == "group.protocol":
            given["group_protocol"] = value.lower()
        elif name == "auto.offset.reset":
            given["auto_offset_reset"] = _one_of(name, value.lower(), ("earliest", "latest", "none"))
        elif name == "isolation.level":
            level = _one_of(name, value.lower(), ("read_committed", "read_uncommitted"))
            given["read_committed"] = level == "read_committed"
        elif name == "partition.assignment.strategy":
            classes = [word.strip().rpartition(".")[2] for word in value.split(",")]
            given["assignors"] = tuple(_JAVA_ASSIGNORS.get(word, word) for word in classes)
        elif name not in _SHARED:
            raise ValueError(_unknown("consumer", name))
    return ConsumerSettings(**given)  # type: ignore[arg-type]


def _unknown(kind: str, name: str) -> str:
    if name.startswith(("sasl.", "ssl.", "security.")):
        return f"{name} belongs to a part of TLS and SASL that does not exist yet; remove it and use another listener."
    return f"The {kind} property {name!r} is not known here."


def known_to_producers(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a file for several clients that apply to a producer."""
    return {name: value for name, value in properties.items() if name in _SHARED or name in _PRODUCER_NAMES}


def known_to_consumers(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name in _SHARED or name in _CONSUMER_NAMES}


def _acks(text: str) -> int:
    if text.lower() == "all":
        return -1
    if text not in ("-1", "0", "1"):
        raise ValueError(f"acks={text!r} must be all, 1 or 0.")
    return int(text)


def _codec(text: str) -> Codec:
    codec = _CODECS.get(text.lower())
    if codec is None:
        raise ValueError(f"There is no compression {text!r}; there are {', '.join(_CODECS)}.")
    return codec


def _number(name: str, text: str) -> int:
    if not text.lstrip("-").isdecimal():
        raise ValueError(f"{name}={text!r} is not a number.")
    return int(text)


def _one_of(name: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ValueError(f"{name}={text!r} must be one of {', '.join(allowed)}.")
    return text
