"""`Producer`, its settings and plug-ins. See README.md."""

from ottla.client.producer.batch import Delivery, EncodedRecords, OnDelivery
from ottla.client.producer.interceptors import OutgoingRecord, ProducerInterceptor, RecordMetadata
from ottla.client.producer.partitioner import RoundRobinPartitioner, StickyPartitioner, TopicPartitioner
from ottla.client.producer.producer import Producer
from ottla.client.producer.settings import ProducerSettings

__all__ = [
    "Delivery",
    "EncodedRecords",
    "OnDelivery",
    "OutgoingRecord",
    "Producer",
    "ProducerInterceptor",
    "ProducerSettings",
    "RecordMetadata",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "TopicPartitioner",
]
