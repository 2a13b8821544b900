"""The background scrub: damage in closed segments is found at a limited rate, and intact segments are left alone."""

from __future__ import annotations

import sys

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition
from ottla.storage.log import PartitionLog
from ottla.storage.segment_check import SegmentCheck, check_segment
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)
RATE = "ottla_log_scrub_bytes_per_second"


def filled(node: Node, *, segments: int = 4, **overrides: object) -> PartitionLog:
    node.start()
    log = node.create("t", segment_bytes=600, index_interval_bytes=1, **overrides)
    while len(log.segments) < segments:
        node.append(log, b"value-%02d" % log.log_end_offset * 5)
    # The first round begins with a start.
    node.stop()
    node.start()
    return node.create("t", segment_bytes=600, index_interval_bytes=1, **overrides)


def content(node: Node, log: PartitionLog, number: int) -> bytearray:
    data: bytearray = node.files.nodes[log.segments[number].path].data
    return data


def damaged(log: PartitionLog) -> list[int]:
    return sorted(log.files.failures.damaged_segments)


def test_a_rotten_byte_is_found() -> None:
    node = Node(**{RATE: "1000000"})
    log = filled(node)
    node.world.scheduler.advance(2_000)
    assert node.logs.maintenance.scrubbed_bytes > 0
    assert damaged(log) == []
    data = content(node, log, 1)
    data[-1] ^= 1
    # Within the interval no second round begins.
    node.world.scheduler.advance(3_600_000)
    assert damaged(log) == []
    node.world.scheduler.advance(86_400_000)
    assert damaged(log) == [log.segments[1].base_offset]
    assert "checksum" in log.files.failures.damaged_segments[log.segments[1].base_offset]


def test_the_rate_is_kept_and_can_change() -> None:
    node = Node(**{RATE: "100"})
    log = filled(node)
    closed = sum(segment.size for segment in log.segments) - log.segments.active.size
    node.world.scheduler.advance(1_000)
    first = node.logs.maintenance.scrubbed_bytes
    assert first < closed / 2
    node.world.scheduler.advance(closed // 100 * 1000 + 5_000)
    assert node.logs.maintenance.scrubbed_bytes == closed
    off = {RATE.replace("_", "."): "0"}
    node.logs.config = node.logs.config.with_dynamic(dynamic=off)
    node.world.scheduler.advance(2 * 86_400_000)
    assert node.logs.maintenance.scrubbed_bytes == closed
    node.logs.config = node.logs.config.with_dynamic(dynamic={RATE.replace("_", "."): "1000000"})
    node.world.scheduler.advance(10_000)
    assert node.logs.maintenance.scrubbed_bytes == 2 * closed


def test_it_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ottla.storage.scrub", raising=False)
    node = Node()
    filled(node)
    node.world.scheduler.advance(86_400_000)
    assert node.logs.maintenance.scrubbed_bytes == 0
    assert "ottla.storage.scrub" not in sys.modules
    assert BrokerConfig.embedded().ottla_log_scrub_bytes_per_second == 0


def test_segments_that_change_meanwhile_are_no_damage() -> None:
    node = Node(**{RATE: "300", "ottla_log_scrub_interval_ms": "1000"})
    log = filled(node, segments=8)
    for number in range(12):
        node.world.scheduler.advance(700)
        if number == 4:
            log.delete_segments([log.segments[0]])
        elif number == 6:
            log.truncate_to(log.segments[4].base_offset + 1)
        elif number == 9:
            node.logs.delete(PARTITION)
    assert damaged(log) == []
    node.stop()
    node.world.scheduler.advance(100_000)


def check(node: Node, log: PartitionLog, number: int) -> SegmentCheck:
    segment = log.segments[number]
    return check_segment(
        SegmentCheck(
            node.files,
            segment.path,
            segment.base_offset,
            size=segment.size,
            end_offset=log.segments[number + 1].base_offset,
            may_have_gaps=log.may_have_gaps,
        )
    )


@pytest.mark.parametrize("compacted", [True, False])
def test_what_a_check_finds(compacted: bool) -> None:
    node = Node()
    log = filled(node, cleanup_policy="compact" if compacted else "delete")
    base, end = log.segments[1].base_offset, log.segments[2].base_offset
    data = content(node, log, 1)
    whole = bytes(data)
    size = 12 + int.from_bytes(data[8:12], "big")
    log.segments[1].syncable_files()
    assert not check(node, log, 1).damages
    assert check(node, log, 1).index_damage is None
    # A byte of a record: only its batch is affected.
    data[size - 1] ^= 1
    assert [(damage.first_offset, damage.last_offset) for damage in check(node, log, 1).damages] == [(base, base)]
    # The offset of a batch, which no checksum covers.
    data[:] = whole
    data[size + 7] ^= 0x40
    assert [(damage.first_offset, damage.last_offset) for damage in check(node, log, 1).damages] == [
        (base + 1, end - 1)
    ]
    # Bytes that are no batch: the rest is affected.
    data[:] = whole
    data[size + 16] ^= 0xFF
    assert [(damage.first_offset, damage.last_offset) for damage in check(node, log, 1).damages] == [
        (base + 1, end - 1)
    ]
    # A truncated file.
    data[:] = whole[:size]
    damages = check(node, log, 1).damages
    assert (damages[0].first_offset, damages[0].last_offset) == (base, end - 1)
    assert "has" in damages[0].reason
    # An index entry that points elsewhere.
    data[:] = whole
    index = node.files.nodes[log.segments[1].path.replace(".log", ".index")].data
    index[7] ^= 1
    assert check(node, log, 1).index_damage is not None
    assert not check(node, log, 1).damages
