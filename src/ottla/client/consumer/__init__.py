"""`Consumer`, its settings and plug-ins. See README.md."""

from ottla.client.consumer.assignors import GroupAssignor, MemberSubscription
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.decode import ConsumedBatch, ConsumedRecord
from ottla.client.consumer.interceptors import ConsumerInterceptor
from ottla.client.consumer.listeners import RebalanceListener
from ottla.client.consumer.settings import ConsumerSettings

__all__ = [
    "ConsumedBatch",
    "ConsumedRecord",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerSettings",
    "GroupAssignor",
    "MemberSubscription",
    "RebalanceListener",
]
