"""Who is told when the metadata changes.

After a commit every publisher is called with what changed and the image that came of it, in the order in which they
were added, on the node's one thread. A publisher must not raise for anything but a programmer's error: the change is
committed, there is nobody to refuse it to. One that does is logged and counted, and the others are told all the same,
of this change and of every later one: a node that stays at old metadata in silence is the worst of all outcomes.
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
    """The newest committed image and everybody who follows it; `.image` makes it the broker's image holder."""

    __slots__ = ("_publishers", "failures", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._publishers: list[MetadataPublisher] = []
        # How often one of them could not follow.
        self.failures = 0

    def add(self, publisher: MetadataPublisher) -> None:
        """Follows from now on. What is already in `image` is not told again: read it first."""
        self._publishers.append(publisher)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        assert image.offset >= self.image.offset, "metadata never goes backwards"
        self.image = image
        # Whoever is added by one of them has read this image already.
        for publisher in tuple(self._publishers):
            try:
                publisher.publish(delta, image)
            except Exception:
                self.failures += 1
                logger.exception(
                    "%s could not follow the metadata at offset %d", type(publisher).__name__, image.offset
                )
