"""An exact copy that is deleted and made again while a batch is on its way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.mirror.copying.exact import ExactCopier
from ottla.mirror.copying.pairs import Pair
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

COPY = TopicPartition("copy", 0)
FIRST, SECOND = Uuid(b"1" * 16), Uuid(b"2" * 16)


class Target:
    """Deletes the copy before the first request, and has a new topic of its name afterwards."""

    def __init__(self) -> None:
        self.metadata = MetadataCache()
        self.settings = SimpleNamespace(api_timeout_ms=60_000, backoff_ms=lambda _attempts: 0)
        self.requests: list[str] = []
        self.make(FIRST)

    def make(self, topic_id: Uuid) -> None:
        self.metadata.topics["copy"] = TopicInfo("copy", topic_id, False, {0: PartitionInfo(0, 1, 0, (), (), ())}, None)

    async def refresh(self, _topics: object) -> MetadataCache:
        self.make(SECOND)
        return self.metadata

    async def node_connection(self, _leader: int, _purpose: str) -> Any:
        return self

    async def ask(self, _request: ProduceRequest, **_: Any) -> ProduceResponse:
        is_deleted = not self.requests
        self.requests.append(str(self.metadata.topics["copy"].topic_id))
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.NONE
        answer = PartitionProduceResponse(index=0, error_code=error, base_offset=-1)
        return ProduceResponse(responses=[TopicProduceResponse(name="copy", partition_responses=[answer])])


def test_no_batch_from_the_middle_goes_to_the_new_copy() -> None:
    async def scenario() -> None:
        target = Target()
        copier: Any = ExactCopier.__new__(ExactCopier)
        copier._target, copier._released, copier._copies, copier._origins = target, {}, {"copy"}, {}
        copier._flow = SimpleNamespace(name="a->b")
        copier._topics = SimpleNamespace(exact_copies=_nothing)
        pair = Pair(TopicPartition("source", 0), COPY, "s", str(FIRST))
        copier._origins = {pair.source: SimpleNamespace(topic_ids=pair.topic_ids)}
        assert await copier.accept([pair]) == [pair]
        with pytest.raises(KafkaError) as caught:
            await copier._write({COPY: b"the batch at offset 100"})
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert target.requests == [str(FIRST)]

    asyncio.run(scenario())


async def _nothing(_topics: object) -> dict[str, bool]:
    return {}
