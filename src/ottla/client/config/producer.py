"""The configuration keys of Kafka's producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.config.kinds import ClientKind
from ottla.client.config.reading import (
    ConfigurationError,
    Key,
    configure_plugins,
    converter,
    flag,
    number,
    objects,
    text,
)
from ottla.client.producer.partitioner import Partitioner, RoundRobinPartitioner, StickyPartitioner
from ottla.client.producer.settings import ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.records.compression import Codec

__all__ = ["PRODUCER", "PRODUCER_KEYS", "read_producer"]

LONG_MAX = (1 << 63) - 1

_CODECS = {codec.name.lower(): codec for codec in Codec}
_PARTITIONERS: Mapping[str, Callable[[], Partitioner]] = {
    "RoundRobinPartitioner": RoundRobinPartitioner,
    "DefaultPartitioner": StickyPartitioner,
    "UniformStickyPartitioner": lambda: StickyPartitioner(ignores_keys=True),
}
_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")


def _acks(name: str, value: Any) -> int:
    acks = str(value).strip().lower()
    if acks not in ("all", "-1", "0", "1"):
        raise ConfigurationError(f"{name}={value!r} must be all, 1 or 0.")
    return -1 if acks == "all" else int(acks)


def _codec(name: str, value: Any) -> Codec:
    if isinstance(value, Codec):
        return value
    codec = _CODECS.get(str(value).strip().lower())
    if codec is None:
        raise ConfigurationError(f"{name}={value!r}: there is no such compression; there are {', '.join(_CODECS)}.")
    return codec


def _partitioner(name: str, value: Any) -> Partitioner:
    if isinstance(value, str):
        known = _PARTITIONERS.get(value.strip().rpartition(".")[2])
        if known is not None:
            return known()
    (partitioner,) = objects(name, value)
    if not callable(partitioner) and not hasattr(partitioner, "partition"):
        raise ConfigurationError(
            f"{name}={value!r} is not a partitioner: it needs a method partition, or to be callable."
        )
    return partitioner  # type: ignore[no-any-return]


# max.block.ms bounds every call of a producer, as default.api.timeout.ms does for other clients.
_CONNECTION_KEYS: Mapping[str, Key] = {
    "max.block.ms": Key(number(), "api_timeout_ms"),
    "enable.metrics.push": Key(flag, "pushes_metrics"),
}
_OWN_KEYS: Mapping[str, Key] = {
    "acks": Key(_acks, "acks"),
    "linger.ms": Key(number(), "linger_ms"),
    "batch.size": Key(number(), "batch_size"),
    "buffer.memory": Key(number(at_most=LONG_MAX), "buffer_bytes"),
    "compression.type": Key(_codec, "compression"),
    "compression.gzip.level": Key(number(at_least=-1, at_most=9)),
    "compression.lz4.level": Key(number(at_least=1, at_most=17)),
    "compression.zstd.level": Key(number(at_least=-131072, at_most=22)),
    "delivery.timeout.ms": Key(number(), "delivery_timeout_ms"),
    "enable.idempotence": Key(flag, "idempotent"),
    "interceptor.classes": Key(objects, "interceptors"),
    "max.block.ms": Key(number(), "max_block_ms"),
    "max.in.flight.requests.per.connection": Key(number(at_least=1), "in_flight_max"),
    "max.request.size": Key(number(), "request_bytes_max"),
    "metadata.max.idle.ms": Key(number(at_least=5_000), "metadata_idle_max_ms"),
    "partitioner.class": Key(_partitioner, "partitioner"),
    "partitioner.ignore.keys": Key(flag),
    "partitioner.adaptive.partitioning.enable": Key(flag),
    "partitioner.availability.timeout.ms": Key(number()),
    "request.timeout.ms": Key(number(), "request_timeout_ms"),
    "retries": Key(number(), "retries"),
    "transaction.timeout.ms": Key(number(), "transaction_timeout_ms"),
    "transactional.id": Key(text, "transactional_id"),
    "transaction.two.phase.commit.enable": Key(flag, "two_phase_commit"),
    "enable.metrics.push": Key(flag),
    "key.serializer": Key(converter("serializer"), "key_serializer"),
    "value.serializer": Key(converter("serializer"), "value_serializer"),
}


def _complete(config: Mapping[str, Any], fields: dict[str, Any]) -> None:
    codec = fields.get("compression", Codec.NONE)
    level = f"compression.{codec.name.lower()}.level"
    if level in config:
        # Every codec has its own key, and only the key of the codec in use counts.
        fields["compression_level"] = _OWN_KEYS[level].read(level, config[level])
    if "partitioner" not in fields:
        sticky = {
            "partitioner.ignore.keys": "ignores_keys",
            "partitioner.adaptive.partitioning.enable": "adaptive",
            "partitioner.availability.timeout.ms": "availability_timeout_ms",
        }
        options = {field: _OWN_KEYS[name].read(name, config[name]) for name, field in sticky.items() if name in config}
        if options:
            fields["partitioner"] = StickyPartitioner(**options)
    _fit_delivery_timeout(config, fields)
    if fields.get("two_phase_commit") and "transaction.timeout.ms" in config:
        raise ConfigurationError(
            "transaction.timeout.ms has no meaning with transaction.two.phase.commit.enable: a transaction that may be "
            "prepared does not time out. Remove it."
        )


def _fit_delivery_timeout(config: Mapping[str, Any], fields: dict[str, Any]) -> None:
    """As in Kafka: only a time-out that is given explicitly can be too short; the default grows."""
    default = ProducerSettings()
    shortest = fields.get("linger_ms", default.linger_ms) + fields.get("request_timeout_ms", default.request_timeout_ms)
    if "delivery.timeout.ms" not in config and shortest > default.delivery_timeout_ms:
        fields["delivery_timeout_ms"] = shortest


PRODUCER: ClientKind[ProducerSettings] = ClientKind(
    "producer", ProducerSettings, _OWN_KEYS, _CONNECTION_KEYS, _complete
)
PRODUCER_KEYS = PRODUCER.keys


def read_producer(config: Mapping[str, Any]) -> tuple[ClientSettings, ProducerSettings]:
    """The settings of a producer and of its connections; plug-ins get the whole configuration.

    Raises ConfigurationError.
    """
    connections, settings = PRODUCER.read(config)
    configure_plugins((settings.partitioner, *settings.interceptors), config)
    return connections, settings
