"""`Consumer` and what it hands out. See README.md."""

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.decode import ConsumedBatch, ConsumedRecord
from ottla.client.consumer.settings import ConsumerSettings

__all__ = ["ConsumedBatch", "ConsumedRecord", "Consumer", "ConsumerSettings"]
