"""DeleteRecords, where followers have to follow."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import delete_records
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.support.replica_cluster import ReplicaCluster


class TestDeletingRecords:
    def delete(self, cluster: ReplicaCluster, offset: int, *, timeout_ms: int = 5_000) -> Any:
        wanted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        return cluster[1].call(delete_records, DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms), 2)

    def result(self, response: Any) -> tuple[int, int]:
        answer = (response.result() if isinstance(response, Deferred) else response).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    @pytest.fixture(autouse=True)
    def _topic(self, pair: ReplicaCluster) -> None:
        pair.create_topic()
        for text in "abc":
            pair[1].produce(text)
        pair.run(1_000)

    def test_it_is_answered_when_the_followers_have_followed(self, pair: ReplicaCluster) -> None:
        answer = self.delete(pair, 2)
        assert not answer.done
        pair.run(1_000)
        assert self.result(answer) == (ErrorCode.NONE, 2)
        assert pair[2].log().log_start_offset == 2
        # Nothing to wait for the second time.
        assert self.result(self.delete(pair, 2)) == (ErrorCode.NONE, 2)

    def test_a_follower_that_does_not_come(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        answer = self.delete(pair, 2)
        pair.run(5_000)
        assert self.result(answer) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert self.result(self.delete(pair, 2, timeout_ms=0)) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    def test_a_broker_that_is_away_is_not_waited_for(self, pair: ReplicaCluster) -> None:
        pair.cut_off(2)
        pair.fence(2)
        assert self.result(self.delete(pair, 3)) == (ErrorCode.NONE, 3)

    def test_a_leader_that_is_replaced_meanwhile(self, pair: ReplicaCluster) -> None:
        answer = self.delete(pair, 2)
        pair.elect(2)
        pair.run()
        assert self.result(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert not pair[1].partition().parked_deletes
