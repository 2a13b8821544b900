"""The metadata of all nodes are prefixes of one log, and every image satisfies `metadata/invariants`."""

from __future__ import annotations

from collections.abc import Callable

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.invariants import check_image, check_step
from ottla.sim.checkers.checker import Checker
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.sim.node import SimNode

__all__ = ["MetadataInvariants", "OneMetadataHistory", "fingerprint"]


class OneMetadataHistory(Checker):
    """Compares every image that a node publishes with the first image published at the same offset."""

    rule = "one metadata history"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        self._prints: dict[int, tuple[int, str]] = {}
        cluster.on_ready.append(self._follow)

    def _follow(self, node: SimNode) -> None:
        broker = node.broker
        assert broker is not None
        self._note(node, broker.metadata.image)
        broker.metadata.add(_Publisher(lambda image: self._note(node, image)))

    def _note(self, node: SimNode, image: MetadataImage) -> None:
        print_of_image = fingerprint(image)
        first, name = self._prints.setdefault(image.offset, (print_of_image, f"node {node.node_id}"))
        if first != print_of_image:
            self.report(f"the images at offset {image.offset} differ between {name} and node {node.node_id}")


class MetadataInvariants(Checker):
    """Checks every published image, its change from the previous image, and every controller."""

    rule = "metadata invariants"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        self._checked_offset = -1
        cluster.on_ready.append(self._follow)

    def sample(self) -> None:
        for node in self.cluster.nodes.values():
            controller = None if node.broker is None else node.broker.local_controller
            if controller is not None:
                self._assert(node, controller.invariants)

    def _follow(self, node: SimNode) -> None:
        broker = node.broker
        assert broker is not None
        previous_image = broker.metadata.image

        def check(image: MetadataImage) -> None:
            nonlocal previous_image
            # One check per offset is enough: OneMetadataHistory shows that the images of all nodes are equal.
            if image.offset > self._checked_offset:
                self._checked_offset = image.offset
                self._assert(node, lambda: check_image(image))
            self._assert(node, lambda: check_step(previous_image, image))
            previous_image = image

        broker.metadata.add(_Publisher(check))

    def _assert(self, node: SimNode, check: Callable[[], object]) -> None:
        try:
            check()
        except AssertionError as error:
            self.report(f"node {node.node_id}: {error}")


class _Publisher:
    def __init__(self, note: Callable[[MetadataImage], object]) -> None:
        self._note = note

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        del delta
        self._note(image)


def fingerprint(image: MetadataImage) -> int:
    """A hash of the image's partitions, brokers and rights; equal images have equal fingerprints."""
    topics = tuple(
        sorted(
            (topic.topic_id.bytes, tuple(sorted((index, tuple(row)) for index, row in topic.partitions.items())))
            for topic in image.topics.by_id.values()
        )
    )
    brokers = tuple(
        (broker_id, broker.broker_epoch, broker.fenced, broker.in_controlled_shutdown)
        for broker_id, broker in sorted(image.brokers.items())
    )
    rights = (tuple(sorted(image.acls.ids)), tuple(sorted(image.scram)))
    return hash((image.epoch, topics, brokers, rights, image.producer_ids.next_producer_id))
