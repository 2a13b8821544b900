"""A node's logs for tests: started, stopped and killed on files in memory."""

from __future__ import annotations

from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.log import PartitionLog
from ottla.storage.manager import LogManager
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld
from tests.unit.storage.helpers import log_config

__all__ = ["TOPIC_ID", "Node"]

TOPIC_ID = Uuid(b"0123456789abcdef")


class Node:
    """A node's logs on files in memory, started, stopped and killed."""

    def __init__(self, *paths: str, files: MemoryFiles | None = None, **properties: str) -> None:
        self.files = files or MemoryFiles()
        self.paths = paths or ("/d1",)
        self.properties = {name.replace("_", "."): value for name, value in properties.items()}
        self.world = VirtualWorld(immediate_workers=True, files=self.files)
        self.files.now_ms = self.world.clock.now_ms

    def start(self, *, cluster_id: str = "c1", node_id: int = 1) -> LogManager:
        config = BrokerConfig.embedded({"log.dirs": ",".join(self.paths), **self.properties})
        self.logs = LogManager(self.world.world, config, cluster_id=cluster_id, node_id=node_id)
        self.logs.open().result()
        return self.logs

    def create(self, topic: str, partition: int = 0, **overrides: object) -> PartitionLog:
        return self.logs.get_or_create(TopicPartition(topic, partition), TOPIC_ID, log_config(**overrides))

    def log_of(self, topic: str = "t") -> PartitionLog:
        """The open log of the topic's first partition. All its records are committed."""
        log = self.logs.get(TopicPartition(topic, 0))
        assert log is not None
        log.update_high_watermark(log.log_end_offset)
        return log

    def append(self, log: PartitionLog, *values: bytes, timestamp: int = 1000) -> None:
        built = build_batch([Record(key=None, value=value, timestamp=timestamp) for value in values])
        log.append_built(built, leader_epoch=0, now_ms=self.world.clock.now_ms())
        self.world.scheduler.run()

    def stop(self) -> None:
        self.logs.close(broker_epoch=5).result()
        self.world.scheduler.run()

    def kill(self) -> None:
        self.files.locks.clear()
        self.world = VirtualWorld(immediate_workers=True, files=self.files)
