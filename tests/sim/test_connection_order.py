"""The checker of the order of answers watches the fetches of followers, in every form of their messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.model.ids import Uuid
from ottla.sim.checkers.connections import ConnectionOrder
from ottla.wire.follower_fetch import FollowerFetchRequest, FollowerFetchResponse, ReceivedSlice, message_of
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

TOPIC_ID = bytes(15) + b"\1"
REQUEST: Any = (2, 5, 100, 1, 1 << 20, 7, 1, [(TOPIC_ID, [(0, 3, 10, 3, 0, 1 << 20)])])


class Connection:
    pass


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("is_read_in_place", [True, False])
def test_a_high_watermark_that_goes_back_is_found(*, is_packed: bool, is_read_in_place: bool) -> None:
    reports: list[str] = []
    network = SimpleNamespace(observe=None)
    cluster: Any = SimpleNamespace(network=network, report=lambda _, sentence: reports.append(sentence), nodes={})
    ConnectionOrder(cluster, SimpleNamespace())  # type: ignore[arg-type]
    connection, observe = Connection(), network.observe
    assert observe is not None
    for high_watermark, count in ((9, 0), (10, 0), (8, 1)):
        request = FollowerFetchRequest(REQUEST) if is_packed else message_of(REQUEST)
        data = PartitionData(partition_index=0, high_watermark=high_watermark)
        response: Any = FetchResponse(responses=[FetchableTopicResponse(topic_id=Uuid(TOPIC_ID), partitions=[data])])
        if is_read_in_place:
            response = FollowerFetchResponse(7, [ReceivedSlice(TOPIC_ID, 0, high_watermark, 0, None)])
        observe(connection, "broker 2", request, response)
        assert len(reports) == count
