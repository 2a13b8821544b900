"""Produce requests that cost a leader as much work per byte as they can, while an honest client is served."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.records.build import assemble_batch
from ottla.records.compression import Codec
from ottla.records.record import append_contents, record_content
from ottla.records.validate import RECORDS_PER_BYTE_MAX
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.hostile import Siege, create, measured_turns
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.faults

PARTITIONS = 16
# Machines that run these tests are busy. Before the bounds existed, the gap was between 0.4 and 63 seconds.
GAP_SECONDS_MAX = 1.0
ANSWER_SECONDS_MAX = 10.0
MEMORY_BYTES_MAX = 1024 * 1024 * 1024

# Key, no value, offset delta 0: equal records compress to almost nothing.
SMALLEST_RECORD = b"\x0c\0\0\0\0\1\0"


def claiming(count: int, *, noise: bytes = b"") -> bytes:
    """A batch with `count` records. With noise it has bytes enough for its records to be accepted."""
    payload = bytearray()
    if noise:
        append_contents(payload, [record_content(b"", noise)], first_offset_delta=0, timestamp_delta=0)
    payload += SMALLEST_RECORD * (count - bool(noise))
    now_ms = time.time_ns() // 1_000_000
    batch = assemble_batch(
        payload,
        base_offset=0,
        last_offset_delta=count - 1,
        record_count=count,
        attributes=Codec.ZSTD,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
    )
    return bytes(batch)


def produce(topic: str, batches: list[bytes]) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=memoryview(batch)) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with measured_turns(), ottla.testing.cluster() as cluster:
        create(cluster.bootstrap, "plain", PARTITIONS)
        create(cluster.bootstrap, "compacted", PARTITIONS, cleanup_policy="compact")
        yield cluster


def besieged(attack: str, nodes: ottla.testing.Cluster) -> Siege:
    return Siege(attack, nodes, memory_bytes_max=MEMORY_BYTES_MAX, gap_seconds_max=GAP_SECONDS_MAX)


def test_without_an_attack(nodes: ottla.testing.Cluster) -> None:
    """The figure to compare the others with: on a busy machine the honest client has gaps without any attack."""
    with besieged("no attack", nodes), RawClient(nodes.bootstrap) as client:
        for _ in range(10_000):
            client.call(ApiVersionsRequest(), 0)


@pytest.mark.parametrize("topic", ["plain", "compacted"])
@pytest.mark.parametrize("count", [100_000, 1_000_000, 8_000_000])
def test_a_batch_that_claims_more_records_than_it_has_bytes(
    nodes: ottla.testing.Cluster, topic: str, count: int
) -> None:
    batch = claiming(count)
    request = produce(topic, [batch] * PARTITIONS)
    attack = f"{count} claimed records in {len(batch)} bytes, {topic}"
    with besieged(attack, nodes), RawClient(nodes.bootstrap) as client:
        begun = time.monotonic()
        for _ in range(20):
            answers = client.call(request, 9).responses[0].partition_responses
            assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_RECORD}
        assert time.monotonic() - begun < ANSWER_SECONDS_MAX


def test_the_dearest_batches_that_are_accepted(nodes: ottla.testing.Cluster) -> None:
    """Topics are created meanwhile, and a small batch for a compacted topic does not wait for the large ones."""
    noise = random.Random(1).randbytes(100_000)
    batch = claiming(len(noise) * RECORDS_PER_BYTE_MAX, noise=noise)
    attack = f"{PARTITIONS} x {len(batch)} bytes with {RECORDS_PER_BYTE_MAX} records for each byte"
    with besieged(attack, nodes), RawClient(nodes.bootstrap, timeout_seconds=120) as attacker:
        attacker.send(produce("compacted", [batch] * PARTITIONS), 9)
        for number in range(5):
            begun = time.monotonic()
            create(nodes.bootstrap, f"meanwhile-{number}", cleanup_policy="compact")
            with RawClient(nodes.bootstrap) as client:
                small = claiming(2_000, noise=noise[:600])
                answer = client.call(produce(f"meanwhile-{number}", [small]), 9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert time.monotonic() - begun < ANSWER_SECONDS_MAX
        codes = {answer.error_code for answer in attacker.receive().responses[0].partition_responses}
        assert codes <= {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_one_record_that_decompresses_to_the_limit(nodes: ottla.testing.Cluster, codec: Codec) -> None:
    """Decompression does not hold the interpreter's lock, and not all partitions are decompressed at the same time."""
    payload = bytearray()
    append_contents(payload, [record_content(b"", bytes(127 << 20))], first_offset_delta=0, timestamp_delta=0)
    now_ms = time.time_ns() // 1_000_000
    batch = bytes(
        assemble_batch(
            payload,
            base_offset=0,
            last_offset_delta=0,
            record_count=1,
            attributes=codec,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
        )
    )
    attack = f"{PARTITIONS} x {len(batch)} bytes that decompress to 127 MiB, {codec.name.lower()}"
    with besieged(attack, nodes), RawClient(nodes.bootstrap, timeout_seconds=120) as client:
        answers = client.call(produce("compacted", [batch] * PARTITIONS), 9).responses[0].partition_responses
        assert {answer.error_code for answer in answers} <= {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}
