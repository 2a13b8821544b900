"""`ShareConsumer`, its settings and its records. See README.md."""

from ottla.client.share.acknowledgements import Acknowledge
from ottla.client.share.consumer import ShareConsumer
from ottla.client.share.held import OnAcknowledged
from ottla.client.share.records import SharedRecord
from ottla.client.share.settings import ShareSettings

__all__ = ["Acknowledge", "OnAcknowledged", "ShareConsumer", "ShareSettings", "SharedRecord"]
