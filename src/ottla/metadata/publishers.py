"""Who is told when the metadata changes.

After a commit every publisher is called with what changed and the image that came of it, in the order in which they
were added, on the node's one thread. A publisher must not raise for anything but a programmer's error: the change is
committed, there is nobody to refuse it to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

__all__ = ["MetadataPublisher", "Publishers"]


class MetadataPublisher(Protocol):
    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None: ...


class Publishers:
    """The newest committed image and everybody who follows it; `.image` makes it the broker's image holder."""

    __slots__ = ("_publish", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._publish: list[Callable[[MetadataDelta, MetadataImage], object]] = []

    def add(self, publisher: MetadataPublisher) -> None:
        """Follows from now on. What is already in `image` is not told again: read it first."""
        self._publish.append(publisher.publish)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        assert image.offset >= self.image.offset, "metadata never goes backwards"
        self.image = image
        # Whoever is added by one of them has read this image already.
        for publish in tuple(self._publish):
            publish(delta, image)
