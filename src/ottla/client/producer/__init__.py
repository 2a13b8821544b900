"""`Producer`, its settings and plug-ins. See README.md."""

from ottla.client.producer.batch import Delivery, EncodedRecords, OnDelivery
from ottla.client.producer.interceptors import OutgoingRecord, ProducerInterceptor, RecordMetadata
from ottla.client.producer.partitioner import RoundRobinPartitioner, StickyPartitioner, TopicPartitioner
from ottla.client.producer.producer import Producer
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transaction_errors import (
    ApplicationRecoverable,
    ErrorClass,
    InvalidConfiguration,
    TransactionAbortable,
    error_class,
)
from ottla.client.producer.transactions import PreparedTransaction

__all__ = [
    "PreparedTransaction",
    "ApplicationRecoverable",
    "Delivery",
    "EncodedRecords",
    "ErrorClass",
    "InvalidConfiguration",
    "OnDelivery",
    "OutgoingRecord",
    "Producer",
    "ProducerInterceptor",
    "ProducerSettings",
    "RecordMetadata",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "TopicPartitioner",
    "TransactionAbortable",
    "error_class",
]
