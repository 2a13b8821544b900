"""Java clients' properties as our settings of producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.config.consumer import CONSUMER, CONSUMER_KEYS
from ottla.client.config.producer import PRODUCER, PRODUCER_KEYS
from ottla.client.consumer import ConsumerSettings
from ottla.client.producer import ProducerSettings

__all__ = ["consumer_settings", "known_to_consumers", "known_to_producers", "producer_settings"]


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    return ProducerSettings(**PRODUCER.fields(_without_converters(properties)))


def consumer_settings(properties: Mapping[str, str]) -> ConsumerSettings:
    return ConsumerSettings(**CONSUMER.fields(_without_converters(properties)))


def _without_converters(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without Java serializers: the commands have own options for the format of keys and values."""
    return {name: value for name, value in properties.items() if not name.endswith("serializer")}


def known_to_producers(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a file for several clients that apply to a producer."""
    return {name: value for name, value in properties.items() if name in PRODUCER_KEYS}


def known_to_consumers(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name in CONSUMER_KEYS}
