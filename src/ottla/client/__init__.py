"""Clients of a cluster. See README.md.

The names below are imported when they are first used, so that a command of `ottla` loads only what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
    from ottla.client.consumer import Consumer
    from ottla.client.parallel import ParallelConsumer
    from ottla.client.producer import Producer
    from ottla.client.retries import RetryingConsumer
    from ottla.client.share import ShareConsumer

__all__ = [
    "AdminClient",
    "BlockingAdmin",
    "BlockingConsumer",
    "BlockingProducer",
    "Consumer",
    "ParallelConsumer",
    "Producer",
    "RetryingConsumer",
    "ShareConsumer",
]

_MODULES = {
    "AdminClient": "admin",
    "BlockingAdmin": "blocking",
    "BlockingConsumer": "blocking",
    "BlockingProducer": "blocking",
    "Consumer": "consumer",
    "ParallelConsumer": "parallel",
    "Producer": "producer",
    "RetryingConsumer": "retries",
    "ShareConsumer": "share",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ottla.client' has no attribute {name!r}")
    return getattr(import_module(f"ottla.client.{module}"), name)
