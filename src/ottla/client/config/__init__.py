"""Kafka's configuration keys as typed settings of clients. See README.md."""

from ottla.client.config.admin import ADMIN_KEYS, read_admin
from ottla.client.config.consumer import CONSUMER_KEYS, read_consumer
from ottla.client.config.producer import PRODUCER_KEYS, read_producer
from ottla.client.config.reading import ConfigurationError
from ottla.client.config.share import SHARE_KEYS, read_share

__all__ = [
    "ADMIN_KEYS",
    "CONSUMER_KEYS",
    "PRODUCER_KEYS",
    "SHARE_KEYS",
    "ConfigurationError",
    "read_admin",
    "read_consumer",
    "read_producer",
    "read_share",
]
