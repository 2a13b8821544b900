"""The subscribers of the cluster metadata.

After a commit every publisher is called with the delta and the new image, in the order in which the publishers were
added, on the node's one thread. The change is committed, so a publisher cannot refuse it and must raise only for a
programmer's error. Such an error is logged and counted. All publishers are still called, for this change and for every
later change: a node that silently stays at old metadata is the worst outcome.
"""

from __future__ import annotations

import logging
from typing import Protocol

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

__all__ = ["MetadataPublisher", "Publishers"]

logger = logging.getLogger("ottla.metadata.publishers")


class MetadataPublisher(Protocol):
    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None: ...


class Publishers:
    """The newest committed image and its publishers. `.image` makes it the broker's image holder."""

    __slots__ = ("_publishers", "failures", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._publishers: list[MetadataPublisher] = []
        # The number of calls that raised.
        self.failures = 0

    def add(self, publisher: MetadataPublisher) -> None:
        """Calls the publisher for every later image. The current image is not published to it again."""
        self._publishers.append(publisher)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        assert image.offset >= self.image.offset, "metadata never goes backwards"
        self.image = image
        # A publisher that is added during these calls has already read this image.
        for publisher in tuple(self._publishers):
            try:
                publisher.publish(delta, image)
            except Exception:
                self.failures += 1
                logger.exception("%s failed to apply the metadata at offset %d", type(publisher).__name__, image.offset)
