"""Replicas of a partition hold the same bytes below the high watermark."""

from __future__ import annotations

from ottla.sim.checkers.checker import Checker, batches_of
from ottla.storage.log import PartitionLog

__all__ = ["EqualReplicas"]


class EqualReplicas(Checker):
    """Compares replicas batch by batch up to their lowest high watermark."""

    rule = "committed prefixes are equal"

    def finish(self) -> None:
        logs: dict[str, list[tuple[int, PartitionLog]]] = {}
        for node in self.cluster.nodes.values():
            broker = node.broker
            if broker is None or not node.is_serving:
                continue
            image = broker.metadata.image
            for partition in broker.replicas.partitions():
                topic = image.topics.by_name.get(partition.topic)
                if topic is not None and topic.topic_id == partition.topic_id:
                    logs.setdefault(str(partition), []).append((node.node_id, partition.log))
        for name, replicas in logs.items():
            self._compare(name, replicas)

    def _compare(self, name: str, replicas: list[tuple[int, PartitionLog]]) -> None:
        start = max(log.log_start_offset for _, log in replicas)
        end = min(log.high_watermark for _, log in replicas)
        first_id, first = replicas[0]
        expected = {batch.header.base_offset: bytes(batch.view) for batch in batches_of(first, start=start, end=end)}
        for node_id, log in replicas[1:]:
            held = {batch.header.base_offset: bytes(batch.view) for batch in batches_of(log, start=start, end=end)}
            if held != expected:
                offsets = [
                    offset
                    for offset in sorted(expected.keys() | held.keys())
                    if held.get(offset) != expected.get(offset)
                ]
                self.report(
                    f"{name} differs between node {first_id} and node {node_id} "
                    f"below {end}, at offsets {offsets[:5]} ({len(expected)} and {len(held)} batches)"
                )
