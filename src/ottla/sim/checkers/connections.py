"""A request never sees older state than an earlier answer on its connection showed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ottla.model.ids import Uuid
from ottla.records.header import read_header
from ottla.sim.checkers.checker import Checker
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.wire.follower_fetch import FollowerFetchRequest, FollowerFetchResponse, ReceivedSlice
from ottla.wire.message import Message
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

__all__ = ["ConnectionOrder"]

ACKS_ALL = -1
LATEST = -1

_Key = tuple[str, int]


@dataclass(slots=True)
class _Shown:
    """The end of a partition as answers on one connection have shown it, within one leader epoch."""

    epoch: int
    end: int
    by: str


class ConnectionOrder(Checker):
    """Watches every connection of clients and nodes.

    Three answers show where the committed records of a partition end: a Fetch and a ListOffsets directly, and a Produce
    with acks=all by its last offset. A request is only compared with earlier ones of the same leader epoch, since the
    high watermark of another leadership may be lower.
    """

    rule = "answers of a connection never go back"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        self._shown: WeakKeyDictionary[object, dict[_Key, _Shown]] = WeakKeyDictionary()
        cluster.network.observe = self._on_answer

    def _on_answer(
        self, connection: object, name: str, request: Message, response: Message | FollowerFetchResponse
    ) -> None:
        if isinstance(request, FollowerFetchRequest):
            request = request.unpacked()
        if isinstance(request, FetchRequest) and isinstance(response, FetchResponse | FollowerFetchResponse):
            self._on_fetch(connection, name, request, response)
        elif isinstance(request, ListOffsetsRequest) and isinstance(response, ListOffsetsResponse):
            self._on_list_offsets(connection, name, request, response)
        elif isinstance(request, ProduceRequest) and isinstance(response, ProduceResponse):
            self._on_produce(connection, request, response)

    def _on_fetch(
        self, connection: object, name: str, request: FetchRequest, response: FetchResponse | FollowerFetchResponse
    ) -> None:
        epochs = {
            (str(topic.topic_id), partition.partition): partition.current_leader_epoch
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic_id, row in _fetched(response):
            key = (topic_id, row.partition_index)
            epoch = epochs.get(key, -1)
            if not row.error_code and epoch >= 0:
                self._compare(connection, name, key, epoch, row.high_watermark, "Fetch")

    def _on_list_offsets(
        self, connection: object, name: str, request: ListOffsetsRequest, response: ListOffsetsResponse
    ) -> None:
        questions = {
            (topic.name, partition.partition_index): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic in response.topics:
            for row in topic.partitions:
                question = questions[topic.name, row.partition_index]
                if row.error_code or question.timestamp != LATEST or request.isolation_level:
                    continue
                key = (self._topic_id(topic.name), row.partition_index)
                self._compare(connection, name, key, row.leader_epoch, row.offset, "ListOffsets")

    def _on_produce(self, connection: object, request: ProduceRequest, response: ProduceResponse) -> None:
        if request.acks != ACKS_ALL:
            return
        counts = {
            (str(topic.topic_id), data.index): read_header(data.records).last_offset_delta + 1  # type: ignore[arg-type]
            for topic in request.topic_data
            for data in topic.partition_data
        }
        for topic in response.responses:
            for row in topic.partition_responses:
                key = (str(topic.topic_id), row.index)
                shown = self._shown.get(connection, {}).get(key)
                if shown is not None and not row.error_code and row.base_offset + counts[key] > shown.end:
                    shown.end, shown.by = row.base_offset + counts[key], "Produce"

    def _compare(self, connection: object, name: str, key: _Key, epoch: int, end: int, api: str) -> None:
        shown = self._shown.setdefault(connection, {}).setdefault(key, _Shown(epoch, end, api))
        if shown.epoch != epoch:
            shown.epoch, shown.end, shown.by = epoch, end, api
        elif end < shown.end:
            self.report(f"{name}, partition {key[1]}: {api} answers {end} after {shown.by} has answered {shown.end}")
        else:
            shown.end, shown.by = end, api

    def _topic_id(self, name: str) -> str:
        """The topic's id in the image of any node. A name has one id while the topic exists."""
        for node in self.cluster.nodes.values():
            if node.broker is not None and name in node.broker.metadata.image.topics.by_name:
                return str(node.broker.metadata.image.topics.by_name[name].topic_id)
        return name


def _fetched(response: FetchResponse | FollowerFetchResponse) -> Iterator[tuple[str, PartitionData | ReceivedSlice]]:
    """The partitions of a response, and the ids of their topics."""
    if isinstance(response, FollowerFetchResponse):
        yield from ((str(Uuid(piece.topic_id)), piece) for piece in response.slices)
    else:
        yield from ((str(topic.topic_id), row) for topic in response.responses for row in topic.partitions)
