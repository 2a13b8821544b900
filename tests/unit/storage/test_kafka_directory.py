"""A data directory that Apache Kafka 4.3 wrote: twelve transactions of ten records by three producers, every other
one aborted; left by a clean shutdown, or as a crash would have left it (index files preallocated, no marker)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.storage import lookups
from ottla.storage.manager import LogManager
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld
from tests.unit.storage.helpers import read_all

SOURCE = Path(__file__).parent / "data" / "kafka-4.3"
TXN = TopicPartition("txn", 0)


def copied() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directories("/k/txn-0")
    for path in SOURCE.rglob("*"):
        if path.is_file():
            files.write_atomically(f"/k/{path.relative_to(SOURCE)}", path.read_bytes())
    return files


def opened(files: MemoryFiles) -> LogManager:
    world = VirtualWorld(immediate_workers=True, files=files)
    config = BrokerConfig.embedded({"log.dirs": "/k"})
    logs = LogManager(world.world, config, cluster_id="YgIWkSA5SsezKkgkGR400w", node_id=0)
    logs.open().result()
    return logs


@pytest.mark.parametrize("clean", [True, False])
def test_every_record_and_transaction_is_there(clean: bool) -> None:
    files = copied()
    if not clean:
        files.remove("/k/.kafka_cleanshutdown")
        for name, size in (("index", 10_485_760), ("timeindex", 10_485_756)):
            path = f"/k/txn-0/00000000000000000000.{name}"
            files.write_atomically(path, files.read_bytes(path).ljust(size, b"\0"))
        files.remove("/k/txn-0/00000000000000000132.snapshot")
        files.write_atomically("/k/recovery-point-offset-checkpoint", b"0\n0\n")
    logs = opened(files)
    assert logs.had_clean_shutdown == clean
    assert logs.previous_broker_epoch == (210 if clean else -1)
    assert str(logs.topic_id_of(TXN)) == "RgNQXVALTrifDRDdfkrgKA"
    assert logs.directories[0].directory_id == Uuid.parse("lLWSwKpLG83kCtnMHteEsQ")
    log = logs.get(TXN)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 132, 132)
    keys = [bytes(record.key or b"") for record in read_all(log) if record.value == b"v"]
    assert keys == [b"%d%d%d" % (producer, turn, n) for producer in range(3) for turn in range(4) for n in range(10)]
    aborted = [(entry.first_offset, entry.last_offset) for entry in lookups.aborted_transactions(log.segments, 0, 132)]
    assert aborted == [(11, 21), (33, 43), (55, 65), (77, 87), (99, 109), (121, 131)]
    assert log.first_unstable_offset is None
    assert len(log.active_producers()) == 3
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0)]


def test_indexes_we_rebuild_are_what_kafka_wrote() -> None:
    files = copied()
    index, time_index = (files.read_bytes(f"/k/txn-0/00000000000000000000.{name}") for name in ("index", "timeindex"))
    files.remove("/k/.kafka_cleanshutdown")
    files.write_atomically("/k/recovery-point-offset-checkpoint", b"0\n0\n")
    world = VirtualWorld(immediate_workers=True, files=files)
    # The interval that node was configured with.
    config = BrokerConfig.embedded({"log.dirs": "/k", "log.index.interval.bytes": "500"})
    logs = LogManager(world.world, config, cluster_id="YgIWkSA5SsezKkgkGR400w", node_id=0)
    logs.open().result()
    logs.close().result()
    assert files.read_bytes("/k/txn-0/00000000000000000000.index") == index
    assert files.read_bytes("/k/txn-0/00000000000000000000.timeindex") == time_index
