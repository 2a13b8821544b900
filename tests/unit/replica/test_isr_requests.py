"""How changes of in-sync sets are divided into requests, and when these are sent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ottla.model.errors import ErrorCode
from ottla.wire.messages.alter_partition import AlterPartitionResponse
from tests.support.replica_cluster import ReplicaCluster
from tests.unit.replica.test_isr import LAG_MS, refusal


@pytest.mark.parametrize("sizes", [[20], [8, 8, 4]])
def test_partitions_share_requests(pair: ReplicaCluster, sizes: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr("ottla.replica.isr.PARTITIONS_PER_REQUEST_MAX", sizes[0])
    pair.create_topic(partitions=20)
    pair.run(1_000)
    pair.cut_off(2)
    for index in range(20):
        pair[1].produce("a", index=index)
    pair.run(2 * LAG_MS)
    assert [len(request.topics[0].partitions) for request in pair.alter_requests] == sizes
    assert all(pair.truth(index=index).isr == (1,) for index in range(20))


@pytest.mark.parametrize("is_refused", [False, True])
def test_only_repeated_changes_wait(pair: ReplicaCluster, is_refused: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr("ottla.replica.isr.PARTITIONS_PER_REQUEST_MAX", 2)
    monkeypatch.setattr("ottla.replica.isr.RETRY_BACKOFF_SECONDS", 1.0)
    asked_ms = []
    real = pair.decide

    def decide(request: Any) -> AlterPartitionResponse:
        asked_ms.append(pair.virtual.clock.ms)
        return refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR) if is_refused else real(request)

    pair.decide = decide  # type: ignore[method-assign]
    pair.create_topic(partitions=10)
    pair.run(1_000)
    pair.cut_off(2)
    for index in range(10):
        pair[1].produce("a", index=index)
    pair.run(2 * LAG_MS)
    first = asked_ms[:5]
    assert first[-1] - first[0] < 1_000
    assert bool(asked_ms[5:]) == is_refused
    pauses = [later - earlier for earlier, later in pairwise(asked_ms[4:])]
    assert all(pause >= 1_000 for pause in pauses)
