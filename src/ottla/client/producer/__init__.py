"""`Producer` and what it is told. See README.md."""

from ottla.client.producer.batch import Delivery, RecordMetadata
from ottla.client.producer.producer import Producer
from ottla.client.producer.settings import ProducerSettings

__all__ = ["Delivery", "Producer", "ProducerSettings", "RecordMetadata"]
