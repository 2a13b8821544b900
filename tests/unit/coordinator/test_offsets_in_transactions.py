"""Offsets committed in transactions: pending until the marker, then committed or dropped, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.replica.transactional import Transaction, TransactionalAppends
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.metadata_records import FeatureLevelRecord, RemoveTopicRecord
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member, stable_group

NONE = ErrorCode.NONE
T0 = ("t", 0)
STRANGER = Uuid(b"0123456789abcdef")
UNSTABLE = -1000 - ErrorCode.UNSTABLE_OFFSET_COMMIT


class Coordinator:
    """Confirms every transaction unless a test sets another code."""

    is_enabled = True

    def __init__(self) -> None:
        self.code = NONE
        self.asked: list[tuple[Transaction, int, int, str]] = []

    def ask(
        self,
        transaction: Transaction,
        *,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        index: int,
    ) -> Deferred[ErrorCode]:
        self.asked.append((transaction, producer_id, producer_epoch, topic))
        return Deferred.resolved(self.code)


class Bench:
    def __init__(self, path: GroupPath, version: int = 6) -> None:
        self.path = path
        self.version = version
        self.coordinator = Coordinator()
        self.prepare()

    def prepare(self) -> None:
        self.path.broker.world = self.path.virtual.world
        self.path.broker.transactional_appends = TransactionalAppends(
            self.coordinator, self.path.broker.replicas.validations
        )

    def restart(self) -> None:
        self.path.crash()
        self.path.start()
        self.prepare()

    def commit(
        self,
        offset: int,
        *,
        group: str = "g",
        producer_id: int = 7,
        epoch: int = 0,
        version: int | None = None,
        topic: str = "t",
        index: int = 0,
        **fields: Any,
    ) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=fields.pop("metadata", None)
        )
        version = self.version if version is None else version
        known = self.path.image.topics.by_name.get(topic)
        named = {"name": topic} if version < 6 else {"topic_id": STRANGER if known is None else known.topic_id}
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(**named, partitions=[partition])],
            **fields,
        )
        response = self.path.ask(request, version)
        assert all(getattr(response.topics[0], field) == value for field, value in named.items())
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def end(
        self, *, commit: bool, producer_id: int = 7, epoch: int = 0, group: str = "g", coordinator_epoch: int = 0
    ) -> ErrorCode:
        index = self.path.groups.runtime.partition_of(group)
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=OFFSETS_TOPIC, partition_indexes=[index])],
            coordinator_epoch=coordinator_epoch,
        )
        response = self.path.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)

    def offset(self, group: str = "g", *, stable: bool = False, index: int = 0) -> int:
        return self.path.fetch_offsets(group, {"t": [index]}, require_stable=stable)["t", index]


@pytest.fixture(params=[5, 6], ids=["names", "ids"])
def bench(path: GroupPath, request: pytest.FixtureRequest) -> Bench:
    return Bench(path, request.param)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("commit", "seen"), [(True, 20), (False, 10)])
def test_offsets_count_when_their_transaction_is_committed(
    bench: Bench, commit: bool, seen: int, restarts: bool
) -> None:
    bench.path.commit_offsets("g", {T0: 10})
    assert bench.commit(20) is NONE
    if restarts:
        bench.restart()
    assert bench.offset() == 10
    assert bench.offset(stable=True) == UNSTABLE
    assert bench.offset(stable=True, index=1) == -1
    assert bench.end(commit=commit) is NONE
    assert bench.offset(stable=True) == seen
    bench.restart()
    assert bench.offset(stable=True) == seen


def test_the_coordinator_is_asked_once_for_a_transaction(bench: Bench) -> None:
    assert bench.commit(1) is NONE
    assert bench.commit(2, index=1) is NONE
    assert bench.coordinator.asked == [(Transaction("x", True, True), 7, 0, OFFSETS_TOPIC)]
    assert bench.end(commit=True) is NONE
    assert bench.commit(3, version=4) is NONE
    assert bench.coordinator.asked[1:] == [(Transaction("x", False, True), 7, 0, OFFSETS_TOPIC)]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, 5, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_the_coordinator_refuses_is_not_written(
    bench: Bench, code: ErrorCode, version: int, told: ErrorCode
) -> None:
    bench.coordinator.code = code
    assert bench.commit(1, version=version) is told
    assert bench.offset(stable=True) == -1
    assert "g" not in bench.path.shard("g").groups


def test_an_old_epoch_is_fenced(bench: Bench) -> None:
    assert bench.commit(1, epoch=1) is NONE
    assert bench.commit(2, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.end(commit=True, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.end(commit=True, epoch=1, coordinator_epoch=2) is NONE
    assert bench.end(commit=True, epoch=1, coordinator_epoch=1) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert bench.offset(stable=True) == 1


def test_a_late_commit_is_refused_before_it_reaches_the_state(bench: Bench) -> None:
    """The marker came between the coordinator's confirmation and the append."""
    assert bench.commit(1) is NONE
    assert bench.end(commit=True) is NONE
    committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=2)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[committed])],
    )
    groups, state = bench.path.groups, bench.path.shard("g")
    late = groups.commit_offsets_in_transaction(request, 6, lambda _partition: Deferred.resolved(None))
    bench.path.run()
    assert isinstance(late.error, KafkaError)
    assert late.error.code is ErrorCode.INVALID_TXN_STATE
    # Nothing has to be undone, so the shard keeps its state and is not loaded again.
    assert bench.path.shard("g") is state
    assert bench.offset(stable=True) == 1


@pytest.mark.parametrize(("version", "returns"), [(5, False), (6, False), (6, True)])
def test_a_topic_that_is_deleted_while_the_transaction_is_verified(
    path: GroupPath, version: int, returns: bool
) -> None:
    """A later topic with the same name must not get the offset."""
    bench = Bench(path, version)
    bench.path.create_topic("u")
    topic_id = bench.path.image.topics.by_name["u"].topic_id
    by_id = version >= 6
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                topic_id=bench.path.image.topics.by_name[name].topic_id if by_id else Uuid.ZERO,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)],
            )
            for name in ("u", "t")
        ],
    )
    verified: Deferred[None] = Deferred()
    committed = bench.path.groups.commit_offsets_in_transaction(request, bench.version, lambda _partition: verified)
    bench.path.run()
    bench.path.commit(RemoveTopicRecord(topic_id=topic_id))
    if returns:
        bench.path.create_topic("u")
    verified.resolve(None)
    bench.path.run()
    codes = {topic.name: topic.partitions[0].error_code for topic in committed.result().topics}
    assert codes == {"t": NONE, "u": ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert bench.end(commit=True) is NONE
    if not returns:
        bench.path.create_topic("u")
    assert bench.path.fetch_offsets("g", {"t": [0], "u": [0]}) == {("t", 0): 5, ("u", 0): -1}


@pytest.mark.parametrize("had_offset", [False, True])
def test_pending_offsets_of_a_new_topic_stay_when_those_of_its_namesake_are_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, had_offset: bool
) -> None:
    """The removal takes turns on a broker with very many offsets, so it may reach a group later."""
    path = bench.path
    if had_offset:
        path.commit_offsets("g", {T0: 10})
    removal, deleted = path.groups._forget_topics, []
    monkeypatch.setattr(type(path.groups), "_forget_topics", lambda _, topics: deleted.append(topics))
    path.commit(RemoveTopicRecord(topic_id=path.image.topics.by_name["t"].topic_id))
    path.create_topic("t", 1)
    assert bench.commit(20) is NONE
    assert deleted == [{"t"}]
    removal(deleted[0])
    path.run()
    assert bench.end(commit=True) is NONE
    assert bench.offset() == 20
    bench.restart()
    assert bench.offset() == 20


def test_pending_offsets_are_removed_with_their_topic(bench: Bench) -> None:
    assert bench.commit(20) is NONE
    bench.path.commit(RemoveTopicRecord(topic_id=bench.path.image.topics.by_name["t"].topic_id))
    bench.path.create_topic("t", 1)
    bench.path.run()
    assert bench.end(commit=True) is NONE
    assert bench.offset() == -1


def test_a_commit_outside_the_transaction_after_it_wins(bench: Bench) -> None:
    assert bench.commit(20) is NONE
    bench.path.commit_offsets("g", {T0: 30})
    assert bench.end(commit=True) is NONE
    assert bench.offset() == 30
    bench.restart()
    assert bench.offset() == 30
    assert bench.commit(40) is NONE
    assert bench.end(commit=True) is NONE
    assert bench.offset() == 40


def test_several_transactions_of_one_group(bench: Bench) -> None:
    assert bench.commit(1, producer_id=7) is NONE
    assert bench.commit(2, producer_id=8, index=1) is NONE
    assert bench.end(commit=True, producer_id=8) is NONE
    assert (bench.offset(stable=True), bench.offset(stable=True, index=1)) == (UNSTABLE, 2)
    assert bench.end(commit=False, producer_id=7) is NONE
    assert bench.offset(stable=True) == -1


def test_members_and_generations_are_checked(bench: Bench) -> None:
    unknown = ErrorCode.ILLEGAL_GENERATION if bench.version < 6 else ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.commit(1, generation_id_or_member_epoch=3) is unknown
    member = Member(bench.path, "g")
    stable_group(bench.path, member)
    ours: dict[str, Any] = {"generation_id_or_member_epoch": member.generation, "member_id": member.member_id}
    assert bench.commit(1, **ours) is NONE
    later = {**ours, "generation_id_or_member_epoch": member.generation + 1}
    assert bench.commit(1, **later) is ErrorCode.ILLEGAL_GENERATION
    assert bench.commit(1, **{**ours, "member_id": "stranger"}) is ErrorCode.UNKNOWN_MEMBER_ID
    # A producer without group metadata may commit (KIP-98), as with Apache Kafka.
    assert bench.commit(2) is NONE


def test_epochs_of_the_consumer_protocol_are_checked(bench: Bench) -> None:
    bench.path.commit(FeatureLevelRecord(name="group.version", feature_level=1))
    member = ConsumerMember(bench.path, "g", "a")
    member.join()
    member.converge()
    ours: dict[str, Any] = {"generation_id_or_member_epoch": member.epoch, "member_id": "a"}
    assert bench.commit(1, **ours) is NONE
    stale = ErrorCode.ILLEGAL_GENERATION if bench.version < 6 else ErrorCode.STALE_MEMBER_EPOCH
    assert bench.commit(1, **{**ours, "generation_id_or_member_epoch": member.epoch + 1}) is stale


def test_what_is_refused_before_the_coordinator_is_asked(bench: Bench) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if bench.version < 6 else ErrorCode.UNKNOWN_TOPIC_ID
    assert bench.commit(1, topic="nowhere") is unknown
    assert bench.commit(1, index=99) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bench.commit(1, group="") is ErrorCode.INVALID_GROUP_ID
    assert not bench.coordinator.asked


def test_metadata_has_a_limit(bench: Bench) -> None:
    assert bench.commit(1, metadata="x" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.offset(stable=True) == -1


def test_deleted_offsets_do_not_come_back_with_a_commit(bench: Bench) -> None:
    assert bench.commit(20) is NONE
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    assert bench.path.ask(OffsetDeleteRequest(group_id="g", topics=[topic]), 0).error_code == NONE
    assert bench.end(commit=True) is NONE
    assert bench.offset(stable=True) == -1
    bench.restart()
    assert bench.offset(stable=True) == -1


def test_a_deleted_group_takes_its_pending_offsets_with_it(bench: Bench) -> None:
    assert bench.commit(20) is NONE
    response = bench.path.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert response.results[0].error_code == NONE
    assert bench.end(commit=True) is NONE
    assert bench.offset(stable=True) == -1
    assert "g" not in bench.path.shard("g").groups


def test_open_transactions_keep_offsets_from_expiring(make: Callable[..., GroupPath]) -> None:
    bench = Bench(make(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000"))
    bench.path.commit_offsets("g", {T0: 10, ("t", 1): 10})
    assert bench.commit(20) is NONE
    bench.path.advance(120_000)
    assert (bench.offset(), bench.offset(index=1)) == (10, -1)
    assert bench.end(commit=True) is NONE
    assert bench.offset() == 20
    bench.path.advance(120_000)
    assert bench.offset() == -1
    assert "g" not in bench.path.shard("g").groups


def test_markers_wait_for_the_offsets_to_be_loaded(bench: Bench) -> None:
    assert bench.commit(20) is NONE
    bench.path.crash()
    bench.path.start(runs=False)
    bench.prepare()
    index = bench.path.groups.runtime.partition_of("g")
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=OFFSETS_TOPIC, partition_indexes=[index])],
        coordinator_epoch=0,
    )
    answer = bench.path.begin(WriteTxnMarkersRequest(markers=[marker]), 1).result()
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.path.run()
    assert bench.end(commit=True) is NONE
    assert bench.offset() == 20


def test_a_member_of_a_consumer_group_names_its_epoch(bench: Bench) -> None:
    bench.path.commit(FeatureLevelRecord(name="group.version", feature_level=1))
    assert ConsumerMember(bench.path, "g", "a").join() is NONE
    code = ErrorCode.STALE_MEMBER_EPOCH if bench.version >= 6 else ErrorCode.ILLEGAL_GENERATION
    assert bench.commit(1, member_id="a", generation_id_or_member_epoch=-1) is code
