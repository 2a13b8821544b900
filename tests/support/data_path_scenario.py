"""A scenario of data path requests to a fresh broker, one by one, and its answers.

The same scenario runs on Apache Kafka (`tests/data/make_data_path_answers.py` keeps its answers) and on Ottla. Values
that differ from run to run are normalised: ids become flags, messages are left out, records are decoded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.model.ids import Uuid
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.wire.message import Message, Structure
from ottla.wire.messages import offset_for_leader_epoch as epochs
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["SETTINGS", "play"]

# The records are old, and retention must not delete them while the scenario runs.
SETTINGS = {"log.retention.ms": "-1", "auto.create.topics.enable": "false"}

T0 = 1_700_000_000_000
STRANGER = Uuid(b"0123456789abcdef")
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "two": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "300"},
    "lz4": {"compression.type": "lz4"},
    "empty": {},
}

Said = tuple[str, Message, int]


def play(bootstrap: str) -> dict[str, Any]:
    """Sends all requests to a fresh broker; returns the answers by label, as plain values."""
    player = _Player(bootstrap)
    try:
        topic_ids = {name: player.create(name, settings) for name, settings in TOPICS.items()}
        player.say_all(_produce(topic_ids))
        player.say_all(_idempotence())
        player.say_all(_fetch(topic_ids))
        _sessions(player)
        player.say_all(_offsets())
        player.say_all(_deletions())
    finally:
        player.client.close()
    return player.answers


class _Player:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)
        self.answers: dict[str, Any] = {}

    def create(self, name: str, settings: Mapping[str, str]) -> Uuid:
        topic = CreatableTopic(
            name=name,
            num_partitions=2 if name == "two" else 1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
        answer = self.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]
        assert answer.error_code == 0, answer
        topic_id: Uuid = answer.topic_id
        self._wait_for_leader(name)
        return topic_id

    def say_all(self, requests: Iterator[Said]) -> None:
        for label, request, version in requests:
            self.say(label, request, version)

    def say(self, label: str, request: Message, version: int) -> Any:
        assert label not in self.answers, f"{label} is said twice"
        answered = getattr(request, "acks", 1) != 0
        try:
            if answered:
                answer = self.client.call(request, version)
                self.answers[label] = _plain(answer)
                return answer
            self.client.send(request, version, answered=False)
            # The next answer on the connection belongs to the next request, so this request was not answered.
            self.client.call(DescribeProducersRequest(), 0)
            self.answers[label] = "not answered"
        except ConnectionClosed:
            self.answers[label] = "connection closed"
            self.client.close()
            self.client = RawClient(self.bootstrap)
        return None

    def _wait_for_leader(self, name: str) -> None:
        """Waits for a leader: Kafka answers CreateTopics before the partitions have leaders."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.client.call(_list(name, -1), 11).topics[0].partitions[0].error_code == 0:
                return
            time.sleep(0.02)
        raise TimeoutError(f"{name} has no leader")


def _produce(topic_ids: Mapping[str, Uuid]) -> Iterator[Said]:
    for version in (3, 5, 8, 9, 12):
        yield f"produce, version {version}", _records("plain", _batch("x", "y", timestamp=T0 + version)), version
    yield "produce by id", _records("", _batch("x"), topic_id=topic_ids["plain"]), 13
    yield "produce to an unknown id", _records("", _batch("x"), topic_id=STRANGER), 13
    yield "produce to an unknown topic", _records("nowhere", _batch("x")), 12
    yield "produce to an unknown partition", _records("plain", _batch("x"), index=9), 12
    yield "acks 2", _records("plain", _batch("x"), acks=2), 12
    yield "acks 0", _records("plain", _batch("z"), acks=0), 12
    yield "acks 0 to an unknown topic", _records("nowhere", _batch("x"), acks=0), 12
    yield "acks all", _records("plain", _batch("z"), acks=-1), 12
    damaged = _batch("x")
    damaged[-1] ^= 1
    old_batch = _batch("x")
    old_batch[16] = 1
    yield "a damaged batch", _records("plain", damaged), 12
    yield "a batch cut short", _records("plain", _batch("x")[:-3]), 12
    yield "less than a header", _records("plain", _batch("x")[:20]), 12
    yield "no records", _records("plain", b""), 12
    yield "two batches", _records("plain", _batch("x") + _batch("y")), 12
    yield "magic 1", _records("plain", old_batch), 12
    yield "control records", _records("plain", _batch("x", is_control=True)), 12
    transactional = _batch("x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    yield "transactional records without a transactional id", _records("plain", transactional), 12
    yield "zstd before version 7", _records("plain", _batch("x", codec=Codec.ZSTD)), 6
    yield "from the future", _records("plain", _batch("x", timestamp=int(time.time() * 1000) + 7_200_000)), 12
    yield "a base offset", _records("plain", _batch("x", base_offset=5)), 12
    yield "keyless to a compacted topic", _records("compacted", _batch("x", "y")), 12
    yield "keyed to a compacted topic", _records("compacted", _batch("x", key=b"k")), 12
    yield "LogAppendTime", _records("stamped", _batch("x", timestamp=5)), 12
    yield "too large", _records("small", _batch("x" * 500)), 12
    yield "recompressed", _records("lz4", _batch("x" * 100)), 12
    yield "to an internal topic", _records("__consumer_offsets", _batch("x")), 12


def _idempotence() -> Iterator[Said]:
    def send(label: str, sequence: int, *, producer: int = 900, epoch: int = 1) -> Said:
        records = _batch("x", producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        return label, _records("two", records), 12

    for sequence in range(3):
        yield send(f"sequence {sequence}", sequence)
    yield send("a duplicate", 0)
    yield send("a gap", 7)
    yield send("an old epoch", 3, epoch=0)
    yield send("a new epoch not from 0", 3, epoch=2)
    yield send("a new epoch", 0, epoch=2)
    yield send("an unknown producer not from 0", 5, producer=901, epoch=0)
    yield send("a negative sequence", -1, producer=902, epoch=0)
    wanted = [TopicRequest(name="two", partition_indexes=[0, 9]), TopicRequest(name="nowhere", partition_indexes=[0])]
    yield "describe producers", DescribeProducersRequest(topics=wanted), 0


def _fetch(topic_ids: Mapping[str, Uuid]) -> Iterator[Said]:
    for version in (4, 5, 7, 9, 11, 12):
        yield f"fetch, version {version}", _read("plain", {0: 0}), version
    for version in (13, 16, 18):
        yield f"fetch, version {version}", _read("", {0: 0}, topic_id=topic_ids["plain"]), version
    yield "fetch at the end", _read("plain", {0: 13}), 12
    yield "fetch beyond the end", _read("plain", {0: 99}), 12
    yield "fetch at -1", _read("plain", {0: -1}), 12
    yield "fetch from an unknown topic", _read("nowhere", {0: 0}), 12
    yield "fetch from an unknown partition", _read("plain", {9: 0}), 12
    yield "fetch from an unknown id", _read("", {0: 0}, topic_id=STRANGER), 13
    yield "fetch with a negative epoch", _read("plain", {0: 0}, epoch=-2), 12
    yield "fetch with a future epoch", _read("plain", {0: 0}, epoch=7), 12
    yield "fetch committed", _read("plain", {0: 0}, isolation_level=1), 12
    yield "fetch after epoch 0", _read("plain", {0: 0}, last_fetched_epoch=0), 12
    yield "fetch after an unknown epoch", _read("plain", {0: 0}, last_fetched_epoch=5), 12
    yield "fetch where logs part", _read("plain", {0: 50}, last_fetched_epoch=0), 12
    yield "fetch one byte", _read("plain", {0: 0}, max_bytes=1), 12
    yield "fetch no byte", _read("plain", {0: 0}, max_bytes=0), 12
    yield "fetch 150 bytes of a partition", _read("plain", {0: 0}, partition_max_bytes=150), 12
    yield "fetch one byte of two partitions", _read("two", {0: 0, 1: 0}, max_bytes=1), 12
    yield "fetch and wait for nothing", _read("empty", {0: 0}, max_wait_ms=100), 12
    yield "fetch recompressed", _read("lz4", {0: 0}), 12


def _sessions(player: _Player) -> None:
    opened = player.say("a full fetch", _read("two", {0: 0, 1: 0}, session_id=0, session_epoch=0), 12)
    session = opened.session_id
    player.say("incremental", _read("two", {}, session_id=session, session_epoch=1), 12)
    player.say("incremental, moved on", _read("two", {0: 4}, session_id=session, session_epoch=2), 12)
    player.say("incremental, nothing new", _read("two", {0: 5}, session_id=session, session_epoch=3), 12)
    player.say("incremental, wrong epoch", _read("two", {}, session_id=session, session_epoch=9), 12)
    player.say("incremental, unknown id", _read("two", {}, session_id=424_242, session_epoch=1), 12)
    player.say("incremental, by id", _read("", {}, session_id=session, session_epoch=4), 13)
    forget = FetchRequest(
        min_bytes=1,
        session_id=session,
        session_epoch=4,
        forgotten_topics_data=[ForgottenTopic(topic="two", partitions=[0, 1])],
    )
    player.say("everything forgotten", forget, 12)
    player.say("closed", _read("two", {0: 0}, session_id=session, session_epoch=-1), 12)
    player.say("a full fetch of an unknown topic", _read("nowhere", {0: 0}, session_id=0, session_epoch=0), 12)


def _offsets() -> Iterator[Said]:
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, T0 + 8, 4_000_000_000_000):
        yield f"list {timestamp}", _list("plain", timestamp), 11
    for timestamp in (-1, -2, -3, -4, -5, -6, 0):
        yield f"list {timestamp} of nothing", _list("empty", timestamp), 11
    for version in (1, 2, 4, 6, 7, 8):
        yield f"list -1, version {version}", _list("plain", -1), version
    for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10)):
        yield f"list {timestamp}, version {version}", _list("plain", timestamp), version
    yield "list committed", _list("plain", -1, isolation_level=1), 11
    yield "list of an unknown topic", _list("nowhere", -1), 11
    yield "list of an unknown partition", _list("plain", -1, index=5), 11
    yield "list with a future epoch", _list("plain", -1, epoch=9), 11
    yield "list for debugging", _list("plain", -1, replica_id=-2), 11
    for epoch in (-1, 0, 1, 5):
        yield f"end of epoch {epoch}", _epoch("plain", epoch), 4
    yield "end of epoch 0 of nothing", _epoch("empty", 0), 4
    yield "end of epoch 3 of nothing", _epoch("empty", 3), 4
    yield "end of an epoch with a future epoch", _epoch("plain", 0, current=4), 4
    yield "end of an epoch of an unknown topic", _epoch("nowhere", 0), 4


def _deletions() -> Iterator[Said]:
    for offset in (3, 1, 999, -2, -1):
        yield f"delete to {offset}", _delete("plain", offset), 2
    yield "delete from a compacted topic", _delete("compacted", 0), 2
    yield "delete from an unknown topic", _delete("nowhere", 0), 2
    yield "delete from an internal topic", _delete("__consumer_offsets", 0), 2
    yield "fetch what was deleted", _read("plain", {0: 0}), 12
    yield "list -2 after deletion", _list("plain", -2), 11
    yield "list -1 after deletion", _list("plain", -1), 11
    yield "list -3 after deletion", _list("plain", -3), 11
    wanted = AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name="plain", partitions=[0])])
    yield "move to an unknown directory", AlterReplicaLogDirsRequest(dirs=[wanted]), 2
    described = [DescribableLogDirTopic(topic="empty", partitions=[0]), DescribableLogDirTopic(topic="nowhere")]
    yield "describe directories", DescribeLogDirsRequest(topics=described), 4


def _batch(*texts: str, timestamp: int = T0, key: bytes | None = None, **options: Any) -> bytearray:
    records = [Record(key=key, value=text.encode(), timestamp=timestamp + index) for index, text in enumerate(texts)]
    return build_batch(records, **options)


def _records(topic: str, records: Any, *, index: int = 0, acks: int = 1, topic_id: Uuid = Uuid.ZERO) -> ProduceRequest:
    partition = PartitionProduceData(index=index, records=records)
    data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[data])


def _read(
    topic: str,
    offsets: Mapping[int, int],
    *,
    topic_id: Uuid = Uuid.ZERO,
    epoch: int = -1,
    last_fetched_epoch: int = -1,
    partition_max_bytes: int = 1 << 20,
    max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, offset in offsets.items()
    ]
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)] if partitions else []
    return FetchRequest(min_bytes=1, max_bytes=max_bytes, topics=topics, **fields)


def _list(
    topic: str, timestamp: int, *, index: int = 0, epoch: int = -1, isolation_level: int = 0, replica_id: int = -1
) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )


def _epoch(topic: str, epoch: int, *, current: int = -1) -> epochs.OffsetForLeaderEpochRequest:
    wanted = epochs.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    return epochs.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[epochs.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )


def _delete(topic: str, offset: int) -> DeleteRecordsRequest:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    return DeleteRecordsRequest(topics=[wanted], timeout_ms=5_000)


# Fields whose values differ between brokers and runs: only their presence is kept.
_FLAGS = {"topic_id", "session_id", "log_dir", "total_bytes", "usable_bytes"}
_LEFT_OUT = {"error_message", "batch_index_error_message", "throttle_time_ms"}


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, Structure):
        return {field: _plain(getattr(value, field), field) for field in value.__slots__ if field not in _LEFT_OUT}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if name == "records":
        return _read_back(value)
    if name in _FLAGS:
        return bool(value)
    if name == "log_append_time_ms" and value > 0:
        return "now"
    return value


def _read_back(value: Any) -> list[list[Any]] | None:
    if value is None:
        return None
    return [
        [record.offset, str(bytes(record.value or b""), "utf-8")]
        for record_batch in iterate_batches(memoryview(bytearray(value)))
        for record in iterate_records(record_batch)
    ]
