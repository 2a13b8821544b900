"""The shortcut for OffsetCommit answers as the handler does: see `ottla.broker.apis.offset_commit.shortcut`.

The same request with an unknown tagged field goes to the handler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.model.ids import Uuid
from ottla.testing import Cluster, cluster
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.integration.data_path import create_topic
from tests.support.raw_client import RawClient

OFFSET_COMMIT = OffsetCommitRequest.API_KEY
NO_TAGS, A_TAG = b"\x00", b"\x01\x63\x01x"
HEADER_SIZE = 5
LOADING = (14, 15, 16)


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        with RawClient(started.bootstrap) as client:
            create_topic(client, partitions=2, name="t")
            client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            while code_of(commit(client, "ready", 1)) in LOADING:
                pass
        yield started


@pytest.fixture
def client(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap) as connected:
        yield connected


def commit(
    client: RawClient, group: str, offset: int, *, version: int = 9, tags: bytes = NO_TAGS, **fields: Any
) -> bytes:
    """The response, beginning with its correlation id."""
    partition = OffsetCommitRequestPartition(
        partition_index=fields.pop("partition", 0), committed_offset=offset, committed_leader_epoch=3
    )
    topic = OffsetCommitRequestTopic(name="t" if version < 10 else "", partitions=[partition])
    if version >= 10:
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        topic.topic_id = fields.pop("topic_id", answer.topics[0].topic_id)
    request = OffsetCommitRequest(group_id=group, topics=[topic], **fields)
    frame = b"".join(bytes(part) for part in request_parts(OFFSET_COMMIT, version, 7, "quick", request))[4:]  # type: ignore[arg-type]
    assert frame.endswith(NO_TAGS)
    frame = frame[:-1] + tags
    client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    return client.receive_frame()


def code_of(answer: bytes, version: int = 9) -> int:
    response, _ = decode(OffsetCommitResponse, memoryview(answer), version, HEADER_SIZE)
    return int(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_the_answer_is_the_same_and_the_offset_is_there(client: RawClient, version: int) -> None:
    answers = {
        commit(client, f"g-{version}", offset, version=version, tags=tags)
        for offset in range(1, 9)
        for tags in (NO_TAGS, A_TAG, NO_TAGS)
    }
    assert len(answers) == 1
    assert code_of(answers.pop(), version) == 0
    group = OffsetFetchRequestGroup(group_id=f"g-{version}", topics=None)
    (partition,) = client.call(OffsetFetchRequest(groups=[group]), 9).groups[0].topics[0].partitions
    assert (partition.partition_index, partition.committed_offset, partition.committed_leader_epoch) == (0, 8, 3)


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize(
    "refused",
    [{"partition": 2}, {"generation_id_or_member_epoch": 5, "member_id": "nobody"}, {"group_instance_id": "nobody"}],
)
def test_a_refusal_is_the_same(client: RawClient, version: int, refused: dict[str, Any]) -> None:
    name = f"r-{version}-{'-'.join(refused)}"
    quick, usual = (
        [commit(client, name, 1, version=version, tags=tags, **refused) for _ in range(3)] for tags in (NO_TAGS, A_TAG)
    )
    assert quick == usual


def test_a_topic_that_is_not_there_is_refused_alike(client: RawClient) -> None:
    unknown = Uuid(bytes(15) + b"x")
    quick, usual = (commit(client, "u", 1, version=10, tags=tags, topic_id=unknown) for tags in (NO_TAGS, A_TAG))
    assert quick == usual
    assert code_of(quick, 10) == 100
