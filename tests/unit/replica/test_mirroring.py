"""Topics that a mirror writes: batches keep their offsets, and other producers are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import produce
from ottla.broker.context import ConnectionContext, RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.records.build import assemble_batch
from ottla.records.control import build_end_transaction_marker
from ottla.records.header import ATTRIBUTES_POSITION
from ottla.replica.mirroring import BATCHES_MAX
from ottla.storage.lookups import aborted_transactions
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.data_path import LISTENER, batch
from tests.support.replica_cluster import ReplicaCluster


def mirror(cluster: ReplicaCluster, *batches: bytes | bytearray | memoryview, client_id: str = "__mirror/a") -> Any:
    """The answer to a request of the mirror `a`, once the cluster has come to rest."""
    records = memoryview(bytearray(b"".join(batches)))
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=50_000)
    now_ms = cluster.virtual.clock.now_ms()
    context = RequestContext(request.API_KEY, 12, 1, client_id, connection, now_ms)
    answer = produce.handle(request, context, cluster[1].broker)
    cluster.run(5_000)
    response = answer.result() if isinstance(answer, Deferred) else answer
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def empty(base_offset: int, count: int) -> bytearray:
    """A batch that stands for `count` offsets without records."""
    return assemble_batch(
        b"",
        base_offset=base_offset,
        last_offset_delta=count - 1,
        record_count=0,
        attributes=0,
        base_timestamp=-1,
        max_timestamp=-1,
    )


@pytest.fixture
def mirrored(pair: ReplicaCluster) -> ReplicaCluster:
    pair.create_topic(ottla_mirror_name="a")
    pair.run()
    return pair


def error_of(answer: PartitionProduceResponse) -> ErrorCode:
    return ErrorCode(answer.error_code)


def test_batches_keep_their_offsets_on_leader_and_follower(mirrored: ReplicaCluster) -> None:
    answer = mirror(mirrored, batch("a", "b"), batch("c", base_offset=2))
    assert (error_of(answer), answer.base_offset) == (ErrorCode.NONE, 0)
    answer = mirror(mirrored, empty(3, 40), batch("d", base_offset=43))
    assert (error_of(answer), answer.base_offset) == (ErrorCode.NONE, 3)
    assert mirrored[1].values() == ["a", "b", "c", "d"]
    assert mirrored[1].partition().high_watermark == 44
    assert mirrored[2].bytes() == mirrored[1].bytes()
    assert mirrored[2].log().epochs.entries == mirrored[1].log().epochs.entries


def test_the_first_batch_begins_where_the_source_begins(mirrored: ReplicaCluster) -> None:
    assert error_of(mirror(mirrored, batch("a", base_offset=5_000))) is ErrorCode.NONE
    for node in (mirrored[1], mirrored[2]):
        assert (node.log().log_start_offset, node.log().log_end_offset) == (5_000, 5_001)


def test_a_repeated_batch_is_not_written_twice(mirrored: ReplicaCluster) -> None:
    mirror(mirrored, batch("a", "b"))
    answer = mirror(mirrored, batch("a", "b"), batch("c", base_offset=2))
    assert error_of(answer) is ErrorCode.NONE
    answer = mirror(mirrored, batch("a", "b"))
    assert error_of(answer) is ErrorCode.NONE
    assert mirrored[1].values() == ["a", "b", "c"]
    assert mirrored[2].bytes() == mirrored[1].bytes()


def test_after_a_crash_the_log_is_whole(mirrored: ReplicaCluster) -> None:
    mirror(mirrored, batch("a", base_offset=7), empty(8, 3), batch("b", base_offset=11))
    mirrored.cut_off(2)
    mirrored[2].crash()
    mirrored[2].start()
    assert (mirrored[2].log().log_start_offset, mirrored[2].log().log_end_offset) == (7, 12)
    assert mirrored[2].values() == ["a", "b"]


def test_transactions_of_the_source_are_transactions_here(mirrored: ReplicaCluster) -> None:
    producer = {"producer_id": 9, "producer_epoch": 3}
    mirror(mirrored, batch("a", "b", base_sequence=0, is_transactional=True, **producer))
    assert mirrored[1].partition().last_stable_offset == 0
    marker = build_end_transaction_marker(
        is_commit=False, coordinator_epoch=0, timestamp_ms=1_700_000_000_000, base_offset=2, **producer
    )
    assert error_of(mirror(mirrored, marker)) is ErrorCode.NONE
    for node in (mirrored[1], mirrored[2]):
        assert node.log().last_stable_offset == 3
        aborted = aborted_transactions(node.log().segments, 0, 3)
        assert [(transaction.first_offset, transaction.last_offset) for transaction in aborted] == [(0, 2)]


@pytest.mark.parametrize("client_id", ["__mirror/b", "test", "", "__mirror/"])
def test_nobody_else_may_write(mirrored: ReplicaCluster, client_id: str) -> None:
    answer = mirror(mirrored, batch("a"), client_id=client_id)
    assert error_of(answer) is ErrorCode.POLICY_VIOLATION
    assert "'a'" in answer.error_message
    assert mirrored[1].bytes() == b""


def test_a_producer_writes_again_when_the_mirror_has_ended(mirrored: ReplicaCluster) -> None:
    mirror(mirrored, batch("a", base_offset=3))
    mirrored.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="ottla.mirror.name", value=None))
    answer = mirrored[1].produce("b")
    assert (error_of(answer), answer.base_offset) == (ErrorCode.NONE, 4)
    assert error_of(mirror(mirrored, batch("c", base_offset=5))) is ErrorCode.POLICY_VIOLATION


def damaged() -> memoryview:
    bad = batch("a")
    bad[ATTRIBUTES_POSITION + 30] ^= 1
    return bad


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([batch("c", base_offset=3)], ErrorCode.OFFSET_OUT_OF_RANGE),
        ([batch("c", base_offset=2), batch("d", base_offset=4)], ErrorCode.INVALID_RECORD),
        ([batch("c", "d", base_offset=1)], ErrorCode.INVALID_RECORD),
        ([batch("c", base_offset=2)[:-1]], ErrorCode.INVALID_RECORD),
        ([batch("c", base_offset=-5)], ErrorCode.INVALID_RECORD),
        ([damaged()], ErrorCode.CORRUPT_MESSAGE),
        ([empty(offset, 1) for offset in range(BATCHES_MAX + 1)], ErrorCode.INVALID_RECORD),
        ([b""], ErrorCode.INVALID_RECORD),
    ],
    ids=["gap", "gap inside", "diverged", "cut", "negative", "damaged", "too many", "nothing"],
)
def test_what_does_not_continue_the_log_is_refused(
    mirrored: ReplicaCluster, batches: list[bytes], code: ErrorCode
) -> None:
    mirror(mirrored, batch("a", "b"))
    written = mirrored[1].bytes()
    assert error_of(mirror(mirrored, *batches)) is code
    assert mirrored[1].bytes() == written
