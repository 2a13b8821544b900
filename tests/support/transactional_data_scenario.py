"""A scenario of records, markers and offsets of transactions, sent request by request to a fresh broker: its answers.

The same scenario runs on Apache Kafka (`tests/data/make_transactional_data_answers.py` keeps its answers) and on
Ottla. Producer ids become numbers in the order of their appearance; times and messages are left out.
"""

from __future__ import annotations

import time
from typing import Any

from ottla.model.errors import ErrorCode
from ottla.records.build import build_batch
from ottla.records.iterate import iterate_batches
from ottla.records.record import Record
from ottla.wire.message import Message, Structure
from ottla.wire.messages import add_partitions_to_txn as ap
from ottla.wire.messages import describe_producers as dp
from ottla.wire.messages import fetch as f
from ottla.wire.messages import list_offsets as lo
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages import produce as p
from ottla.wire.messages import txn_offset_commit as tc
from ottla.wire.messages import write_txn_markers as wm
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.raw_client import RawClient
from tests.support.transaction_scenario import make_ready

__all__ = ["SETTINGS", "play"]

SETTINGS: dict[str, str] = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}

_LEFT_OUT = frozenset(("throttle_time_ms", "session_id", "last_timestamp", "record_errors", "error_message"))
READ_COMMITTED = 1
Producer = tuple[str, int, int]
"""Transactional id, producer id, epoch."""


def play(bootstrap: str) -> dict[str, Any]:
    """Sends all requests to a fresh broker; returns the answers by label, as plain values."""
    player = _Player(bootstrap)
    try:
        make_ready(player.client)
        for part in (_first_version, _second_version, _refusals, _markers, _offsets, _offsets_second_version):
            part(player)
    finally:
        player.client.close()
    return player.answers


class _Player:
    def __init__(self, bootstrap: str) -> None:
        self.client = RawClient(bootstrap, client_id="client")
        self.answers: dict[str, Any] = {}
        self._producers: dict[int, str] = {}

    def say(self, label: str, request: Message, version: int) -> Any:
        assert label not in self.answers, f"said twice: {label}"
        answer = self.client.call(request, version)
        self.answers[label] = self.plain(answer)
        return answer

    def plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Structure):
            fields = {slot: self.plain(getattr(value, slot), slot) for slot in value.__slots__ if slot not in _LEFT_OUT}
            return {type(value).__name__: fields} if isinstance(value, Message) else fields
        if name == "producer_id" and value >= 0:
            return self._producers.setdefault(value, f"producer {len(self._producers)}")
        if name == "records":
            batches = iterate_batches(memoryview(bytearray(value or b"")))
            return [(batch.header.base_offset, batch.header.record_count, batch.header.is_control) for batch in batches]
        if not isinstance(value, list):
            return value if isinstance(value, int | str | type(None)) else str(value)
        return sorted((self.plain(element) for element in value), key=repr)

    def init(self, transactional_id: str, version: int = 4) -> Producer:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = self.client.call(request, version)
        assert not answer.error_code, ErrorCode(answer.error_code)
        return transactional_id, answer.producer_id, answer.producer_epoch

    def add(self, producer: Producer, *partitions: int) -> None:
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer[0],
            v3_and_below_producer_id=producer[1],
            v3_and_below_producer_epoch=producer[2],
            v3_and_below_topics=[ap.AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
        )
        for _ in range(3000):
            (topic,) = self.client.call(request, 3).results_by_topic_v3_and_below
            if {result.partition_error_code for result in topic.results_by_partition} == {0}:
                return
            time.sleep(0.01)
        raise AssertionError(f"not added: {topic}")

    def end(self, producer: Producer, *, commits: bool, version: int = 4) -> Producer:
        name, producer_id, epoch = producer
        request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commits)
        answer = self.client.call(request, version)
        assert not answer.error_code, ErrorCode(answer.error_code)
        self.settle(name)
        return (name, answer.producer_id, answer.producer_epoch) if version >= 5 else producer

    def settle(self, transactional_id: str) -> None:
        """Waits until the transaction's markers are written."""
        for _ in range(3000):
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            if self.client.call(request, 0).transaction_states[0].transaction_state.startswith("Complete"):
                return
            time.sleep(0.01)
        raise AssertionError(f"{transactional_id} does not end")

    def produce(
        self,
        label: str,
        producer: Producer,
        *,
        sequence: int,
        version: int,
        index: int = 0,
        is_transactional: bool = True,
        names: bool = True,
    ) -> None:
        self.say(
            label,
            p.ProduceRequest(
                transactional_id=producer[0] if names else None,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[
                    p.TopicProduceData(
                        name="t",
                        partition_data=[
                            p.PartitionProduceData(
                                index=index,
                                records=_batch(producer, sequence=sequence, is_transactional=is_transactional),
                            )
                        ],
                    )
                ],
            ),
            version,
        )

    def look(self, label: str, *, index: int = 0) -> None:
        """Reads with both isolation levels, and describes the producers."""
        partition = f.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for kind, level in (("all", 0), ("committed", READ_COMMITTED)):
            topic = f.FetchTopic(topic="t", partitions=[partition])
            request = f.FetchRequest(max_bytes=1 << 24, topics=[topic], isolation_level=level)
            self.say(f"{label}: read {kind}", request, 11)
        latest = lo.ListOffsetsTopic(
            name="t", partitions=[lo.ListOffsetsPartition(partition_index=index, timestamp=-1)]
        )
        self.say(f"{label}: end", lo.ListOffsetsRequest(isolation_level=READ_COMMITTED, topics=[latest]), 7)
        described = dp.DescribeProducersRequest(topics=[dp.TopicRequest(name="t", partition_indexes=[index])])
        self.say(f"{label}: producers", described, 0)

    def mark(
        self, label: str, producer: Producer, *, coordinator_epoch: int, version: int = 0, index: int = 0, **fields: Any
    ) -> None:
        marker = wm.WritableTxnMarker(
            producer_id=producer[1],
            producer_epoch=producer[2],
            transaction_result=fields.pop("commits", False),
            topics=[wm.WritableTxnMarkerTopic(name=fields.pop("topic", "t"), partition_indexes=[index])],
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
        )
        self.say(label, wm.WriteTxnMarkersRequest(markers=[marker]), 2)

    def commit_offsets(self, label: str, producer: Producer, *, version: int, **fields: Any) -> None:
        partition = tc.TxnOffsetCommitRequestPartition(
            partition_index=fields.pop("index", 0),
            committed_offset=fields.pop("offset", 5),
            committed_metadata=fields.pop("metadata", "note"),
        )
        request = tc.TxnOffsetCommitRequest(
            transactional_id=producer[0],
            group_id=fields.pop("group", "g"),
            producer_id=producer[1],
            producer_epoch=producer[2],
            topics=[tc.TxnOffsetCommitRequestTopic(name=fields.pop("topic", "t"), partitions=[partition])],
            **fields,
        )
        self.say(label, request, version)

    def add_offsets(self, label: str, producer: Producer) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=producer[0], producer_id=producer[1], producer_epoch=producer[2], group_id="g"
        )
        self.say(label, request, 3)

    def offsets(self, label: str) -> None:
        topics = [of.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
        for stable in (False, True):
            group = of.OffsetFetchRequestGroup(group_id="g", topics=topics)
            self.say(f"{label}: stable {stable}", of.OffsetFetchRequest(groups=[group], require_stable=stable), 8)


def _batch(producer: Producer, *, sequence: int, is_transactional: bool = True) -> memoryview:
    return memoryview(
        build_batch(
            [Record(key=None, value=b"value", timestamp=1_700_000_000_000)],
            producer_id=producer[1],
            producer_epoch=producer[2],
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def _first_version(player: _Player) -> None:
    first = player.init("first")
    player.produce("1: not added", first, sequence=0, version=11)
    player.produce("1: not added, an old client", first, sequence=0, version=9)
    player.add(first, 0)
    player.produce("1: first batch", first, sequence=0, version=11)
    player.produce("1: second batch", first, sequence=1, version=9)
    player.produce("1: a duplicate", first, sequence=1, version=9)
    player.produce("1: out of order", first, sequence=7, version=9)
    player.produce("1: outside the transaction", first, sequence=2, version=9, is_transactional=False)
    player.look("1: open")
    player.end(first, commits=True)
    player.look("1: committed")
    player.produce("1: late", first, sequence=2, version=11)
    player.add(first, 0)
    player.produce("1: next transaction", first, sequence=2, version=11)
    player.end(first, commits=False)
    player.look("1: aborted")


def _second_version(player: _Player) -> None:
    second = player.init("second", 5)
    player.produce("2: first batch", second, sequence=0, version=12, index=1)
    player.produce("2: second batch", second, sequence=1, version=12, index=1)
    player.look("2: open", index=1)
    later = player.end(second, commits=True, version=5)
    player.look("2: committed", index=1)
    player.produce("2: late", second, sequence=2, version=12, index=1)
    player.produce("2: not from zero", later, sequence=1, version=12, index=1)
    player.produce("2: from zero", later, sequence=0, version=12, index=1)
    last = player.end(later, commits=False, version=5)
    player.look("2: aborted", index=1)
    player.produce("2: a new partition, not from zero", last, sequence=3, version=12, index=2)
    player.end(last, commits=False, version=5)


def _refusals(player: _Player) -> None:
    stranger = ("stranger", 4_000, 0)
    player.produce("an unknown transactional id", stranger, sequence=0, version=11)
    player.produce("an unknown transactional id is added", stranger, sequence=0, version=12)
    player.produce("no transactional id", stranger, sequence=0, version=11, names=False)
    first, second = player.init("one", 5), player.init("other", 5)
    data = [
        p.PartitionProduceData(index=index, records=_batch(producer, sequence=0))
        for index, producer in enumerate((first, second))
    ]
    request = p.ProduceRequest(
        transactional_id="one",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[p.TopicProduceData(name="t", partition_data=data)],
    )
    player.say("two producers in one request", request, 12)
    newer = player.init("one", 5)
    player.produce("an instance that was replaced", first, sequence=0, version=12)
    player.produce("an instance that was replaced, before", first, sequence=0, version=11)
    assert newer[2] > first[2]


def _markers(player: _Player) -> None:
    player.init("ended", 5)
    ended = player.init("ended", 5)
    player.produce("markers: first batch", ended, sequence=0, version=12, index=2)
    name, producer_id, epoch = ended
    player.mark("markers: the same epoch, version 2", ended, coordinator_epoch=9, version=2, index=2)
    player.mark("markers: an older epoch", (name, producer_id, epoch - 1), coordinator_epoch=9, index=2)
    player.mark(
        "markers: a newer epoch, version 2", (name, producer_id, epoch + 1), coordinator_epoch=9, version=2, index=2
    )
    player.mark("markers: once more", (name, producer_id, epoch + 1), coordinator_epoch=9, version=2, index=2)
    player.mark("markers: an older coordinator", (name, producer_id, epoch + 1), coordinator_epoch=8, index=2)
    player.mark("markers: nothing to end", ("none", 5_000, 0), coordinator_epoch=0, index=2)
    player.mark("markers: an unknown topic", ended, coordinator_epoch=0, topic="nowhere")
    player.mark("markers: an unknown partition", ended, coordinator_epoch=0, index=99)
    player.look("markers", index=2)


def _offsets(player: _Player) -> None:
    producer = player.init("offsets")
    player.commit_offsets("offsets: not added", producer, version=4)
    player.commit_offsets("offsets: not added, an old client", producer, version=3)
    player.add_offsets("offsets: added", producer)
    player.commit_offsets("offsets: first", producer, version=3)
    player.commit_offsets("offsets: second", producer, version=0, index=1, offset=6)
    player.commit_offsets("offsets: a generation nobody knows", producer, version=3, generation_id_or_member_epoch=3)
    stranger = {"generation_id_or_member_epoch": 0, "member_id": "stranger"}
    player.commit_offsets("offsets: a stranger", producer, version=3, **stranger)
    player.commit_offsets("offsets: an unknown topic", producer, version=3, topic="nowhere")
    player.commit_offsets("offsets: an unknown partition", producer, version=3, index=99)
    player.commit_offsets("offsets: too much to say", producer, version=3, metadata="x" * 5000)
    player.commit_offsets("offsets: no group", producer, version=3, group="")
    older = (producer[0], producer[1], producer[2] - 1)
    player.commit_offsets("offsets: an older epoch", older, version=3)
    player.offsets("offsets: open")
    player.end(producer, commits=True)
    player.offsets("offsets: committed")
    player.commit_offsets("offsets: late", producer, version=4)


def _offsets_second_version(player: _Player) -> None:
    producer = player.init("offsets 2", 5)
    player.commit_offsets("offsets 2: first", producer, version=5, offset=50)
    player.offsets("offsets 2: open")
    later = player.end(producer, commits=False, version=5)
    player.offsets("offsets 2: aborted")
    player.commit_offsets("offsets 2: late", producer, version=5)
    player.commit_offsets("offsets 2: next", later, version=5, offset=60)
    player.end(later, commits=True, version=5)
    player.offsets("offsets 2: committed")
