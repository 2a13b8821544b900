"""What the storage tests share: a log on files in memory, opened, filled, closed or crashed at will."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ottla.model.config import BrokerConfig, LogConfig
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.control import build_end_transaction_marker
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.records.validate import AppendOrigin
from ottla.storage.log import AppendResult, PartitionLog
from ottla.storage.open_files import OpenFiles
from ottla.storage.recovery import RecoveryReport, open_log
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld

__all__ = ["DIRECTORY", "PARTITION", "LogBench", "batch", "log_config", "offsets_of", "read_all", "values_of"]

PARTITION = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"

_BROKER = BrokerConfig(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
    }
)


@cache
def log_config(**overrides: object) -> LogConfig:
    """Topic settings; names with underscores. Segments may be as small as a test likes."""
    texts = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    if "segment.bytes" in texts:
        texts["internal.segment.bytes"] = texts.pop("segment.bytes")
    return LogConfig.from_overrides(_BROKER, texts)


def batch(
    *values: bytes,
    timestamp: int = 1000,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytearray:
    return build_batch(
        [Record(key=None, value=value, timestamp=timestamp) for value in values or (b"v",)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
        codec=codec,
    )


class LogBench:
    """One partition's log and the world it lives in."""

    def __init__(self, files: MemoryFiles | None = None, **overrides: object) -> None:
        self.files = MemoryFiles() if files is None else files
        self.world = VirtualWorld(immediate_workers=True, files=self.files)
        self.files.now_ms = self.world.clock.now_ms
        self.pool = OpenFiles(self.files, limit=100)
        self.config = log_config(**overrides)
        self.failures: list[OSError] = []
        self.report = RecoveryReport()
        self._log: PartitionLog | None = None

    @property
    def log(self) -> PartitionLog:
        return self.open() if self._log is None else self._log

    def configure(self, **overrides: object) -> None:
        self.config = log_config(**overrides)
        if self._log is not None:
            self._log.configure(self.config)

    def open(
        self,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_to: int | None = None,
    ) -> PartitionLog:
        opened = open_log(
            self.world.world,
            self.pool,
            topic_partition=PARTITION,
            directory=DIRECTORY,
            config=self.config,
            clean_shutdown=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
            on_failure=self.failures.append,
        )
        self._log, self.report = opened
        return self._log

    def append(
        self,
        *values: bytes,
        leader_epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        **fields: object,
    ) -> AppendResult:
        built = batch(*values, **fields)  # type: ignore[arg-type]
        return self.append_bytes(built, leader_epoch=leader_epoch, origin=origin)

    def append_bytes(
        self, built: bytearray, *, leader_epoch: int = 0, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        result = self.log.append_built(
            built, leader_epoch=leader_epoch, now_ms=self.world.clock.now_ms(), origin=origin
        )
        self.world.scheduler.run()
        return result

    def end_transaction(
        self, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, leader_epoch: int = 0
    ) -> AppendResult:
        marker = build_end_transaction_marker(
            is_commit=commit,
            coordinator_epoch=coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=1000,
        )
        return self.append_bytes(marker, origin=AppendOrigin.COORDINATOR, leader_epoch=leader_epoch)

    def advance_high_watermark(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)

    def restart(self, *, clean: bool, recovery_point: int | None = None, cleaned_to: int | None = None) -> PartitionLog:
        """Closes or crashes, and opens again with the checkpoints as they were."""
        log = self.log
        if clean:
            log.flush()
            log.close()
        point = log.recovery_point if recovery_point is None else recovery_point
        self.pool = OpenFiles(self.files, limit=100)
        return self.open(
            clean=clean, recovery_point=point, log_start_offset=log.log_start_offset, cleaned_to=cleaned_to
        )

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self.files.list_directory(DIRECTORY) if name.endswith(suffix)]

    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]


def read_all(log: PartitionLog, *, start: int | None = None, max_bytes: int = 1 << 20) -> Iterator[Record]:
    """Every record, read as a consumer would: one region after the other."""
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes=max_bytes, end_offset=log.log_end_offset)
        assert result.region is not None
        data = result.region.read()
        assert len(data) == len(result.region)
        read = 0
        for log_batch in iterate_batches(data):
            read += log_batch.header.size
            offset = log_batch.header.next_offset
            yield from iterate_records(log_batch)
        assert read == len(data), "a region holds whole batches"


def offsets_of(log: PartitionLog) -> list[int]:
    return [record.offset for record in read_all(log)]


def values_of(log: PartitionLog) -> list[bytes]:
    return [bytes(record.value or b"") for record in read_all(log)]
