"""A log on a real file system, a world whose time and workers the test moves, and a cleaner beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.model.config import BrokerConfig, LogConfig
from ottla.model.ids import TopicPartition
from ottla.model.ports import Files
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.control import build_end_transaction_marker
from ottla.records.iterate import Batch, iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.records.validate import AppendOrigin
from ottla.storage.cleaner.cleaner import CleanerSettings, LogCleaner
from ottla.storage.log import PartitionLog
from ottla.storage.open_files import OpenFiles
from ottla.storage.recovery import open_log
from tests.support.virtual_world import VirtualWorld

BROKER_CONFIG = BrokerConfig.embedded()
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "1000"}


class Bench:
    """One log directory with logs that a test writes, and one cleaner."""

    def __init__(self, root: Path, *, files: Files | None = None, immediate: bool = True) -> None:
        self.root = root
        self.world = VirtualWorld(immediate_workers=immediate, files=files)
        self.pool = OpenFiles(self.world.files, limit=100)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.cleaner = self.new_cleaner()

    def new_cleaner(self, **settings: object) -> LogCleaner:
        return LogCleaner(
            self.world.world,
            self.pool,
            settings=CleanerSettings(**settings),  # type: ignore[arg-type]
            logs=lambda: list(self.logs.values()),
        )

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def log(self, name: str = "t", *, clean_shutdown: bool = False, **overrides: str) -> PartitionLog:
        """Opens the log of a topic's partition 0, by default as after a crash."""
        partition = TopicPartition(name, 0)
        keys = {key.replace("_", "."): value for key, value in overrides.items()}
        opened = open_log(
            self.world.world,
            self.pool,
            topic_partition=partition,
            directory=f"{self.root}/{name}-0",
            config=LogConfig.from_overrides(BROKER_CONFIG, COMPACTED | keys),
            clean_shutdown=clean_shutdown,
        ).log
        opened.update_high_watermark(opened.log_end_offset)
        self.logs[partition] = opened
        return opened

    def clean(self, *, seconds: int = 1) -> None:
        """Makes the cleaner look for work now and finish all of it."""
        self.cleaner.start()
        self.cleaner.wake()
        self.world.scheduler.advance(seconds * 1000)

    def put(
        self,
        log: PartitionLog,
        pairs: Sequence[tuple[str | None, str | None]],
        *,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        timestamp: int | None = None,
    ) -> int:
        """Appends one batch of keys and values and returns its first offset."""
        records = [
            Record(
                key=None if key is None else key.encode(),
                value=None if value is None else value.encode(),
                timestamp=self.now_ms if timestamp is None else timestamp,
            )
            for key, value in pairs
        ]
        batch = build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        return self.append(log, batch, AppendOrigin.CLIENT)

    def end_transaction(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> int:
        marker = build_end_transaction_marker(
            is_commit=is_commit,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=self.now_ms,
        )
        return self.append(log, marker, AppendOrigin.COORDINATOR)

    def append(self, log: PartitionLog, batch: bytearray, origin: AppendOrigin) -> int:
        result = log.append_built(batch, leader_epoch=0, now_ms=self.now_ms, origin=origin)
        log.update_high_watermark(log.log_end_offset)
        return result.first_offset


def batches_of(log: PartitionLog) -> list[Batch]:
    """Every batch a consumer would get that reads the log from its beginning."""
    log_batches: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset).region
        if region is None:
            break
        batches = list(iterate_batches(region.read()))
        log_batches += batches
        offset = batches[-1].header.next_offset
    return log_batches


def records_of(log: PartitionLog) -> list[Record]:
    return [record for batch in batches_of(log) if not batch.header.is_control for record in iterate_records(batch)]


def content_of(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    return [(record.offset, text(record.key), text(record.value)) for record in records_of(log)]


def text(data: bytes | bytearray | memoryview | None) -> str | None:
    return None if data is None else bytes(data).decode()
