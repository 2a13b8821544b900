"""`Producer` and its settings. See README.md."""

from ottla.client.producer.batch import Delivery, EncodedRecords, RecordMetadata
from ottla.client.producer.producer import Producer
from ottla.client.producer.settings import ProducerSettings

__all__ = ["Delivery", "EncodedRecords", "Producer", "ProducerSettings", "RecordMetadata"]
