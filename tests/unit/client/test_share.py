"""Share consumers without a broker: sessions, decisions about records, acquired records, and configuration."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.config import SHARE_KEYS, ConfigurationError, read_share
from ottla.client.consumer.deserializing import Deserializing
from ottla.client.consumer.membership import Subscription
from ottla.client.errors import ClientError
from ottla.client.share import Acknowledge, SharedRecord, ShareSettings
from ottla.client.share.acknowledgements import GAP, OffsetRange, ranges
from ottla.client.share.held import HeldRecords
from ottla.client.share.membership import ShareMembership
from ottla.client.share.records import AcquiredRange, AcquiredRecords
from ottla.client.share.session import ShareSession
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.errors import CorruptRecords
from ottla.records.record import Record
from ottla.serdes import SerializationError
from ottla.serdes.plain import plain_serde
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
FIRST, SECOND, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
PLAIN = Deserializing(None, None)
WHERE = {"bootstrap.servers": "a:1", "group.id": "g"}


class TestDecisions:
    def test_consecutive_offsets_are_one_range(self) -> None:
        accept, release = Acknowledge.ACCEPT, Acknowledge.RELEASE
        assert ranges({}) == []
        assert ranges({2: accept, 1: accept, 3: accept}) == [OffsetRange(1, 3, [accept])]
        assert ranges({1: accept, 2: GAP, 5: release}) == [
            OffsetRange(1, 2, [accept, GAP]),
            OffsetRange(5, 5, [release]),
        ]


class TestSession:
    def test_it_begins_with_everything_and_continues_with_changes(self) -> None:
        session = ShareSession()
        assert session.is_new
        plan = session.plan_fetch([FIRST, SECOND], {"t": A})
        assert (plan.epoch, plan.added, plan.forgotten) == (0, [(A, 0), (A, 1)], [])
        assert session.on_answer(0)
        plan = session.plan_fetch([FIRST, OTHER], {"t": A, "u": B})
        assert (plan.epoch, plan.added, plan.forgotten) == (1, [(B, 0)], [(A, 1)])
        assert session.on_answer(0)
        assert session.plan_acknowledge() == 2
        assert session.plan_acknowledge(final=True) == -1

    def test_a_topic_that_was_created_again_is_another(self) -> None:
        session = ShareSession()
        session.plan_fetch([FIRST], {"t": A})
        session.on_answer(0)
        plan = session.plan_fetch([FIRST], {"t": B})
        assert (plan.added, plan.forgotten) == ([(B, 0)], [(A, 0)])

    @pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH, None])
    def test_a_lost_session_has_nothing_to_acknowledge(self, code: ErrorCode | None) -> None:
        session = ShareSession()
        session.plan_fetch([FIRST], {"t": A})
        session.on_answer(0)
        decisions = {FIRST: {1: 1}, OTHER: {2: 1}}
        assert session.split(decisions) == ({FIRST: {1: 1}}, {OTHER: {2: 1}})
        if code is None:
            session.on_no_answer()
        else:
            assert not session.on_answer(code)
        assert session.is_new
        assert session.split(decisions) == ({}, decisions)

    def test_other_errors_continue_a_session(self) -> None:
        session = ShareSession()
        session.plan_fetch([FIRST], {"t": A})
        # A session that was refused does not exist.
        assert session.on_answer(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        assert session.is_new
        session.plan_fetch([FIRST], {"t": A})
        session.on_answer(0)
        assert session.on_answer(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert session.plan_acknowledge() == 2


def record(offset: int, partition: int = 0) -> SharedRecord:
    return SharedRecord("t", partition, offset, 0, 0, None, b"", (), 0, 1)


class TestHeldRecords:
    def test_the_last_decision_counts_and_each_is_taken_once(self) -> None:
        held = HeldRecords()
        held.deliver(1, [record(0), record(1)])
        held.deliver(2, [record(5, partition=1)])
        held.acknowledge("t", 0, 0, Acknowledge.REJECT)
        held.acknowledge("t", 0, 0, Acknowledge.ACCEPT)
        assert held.undecided == 2
        held.accept_all()
        assert held.take() == {1: {FIRST: {0: 1, 1: 1}}, 2: {SECOND: {5: 1}}}
        assert held.take() == {}
        with pytest.raises(ClientError, match="offset 0 is not held"):
            held.acknowledge("t", 0, 0, Acknowledge.ACCEPT)

    def test_renewed_records_stay(self) -> None:
        held = HeldRecords()
        held.deliver(1, [record(0), record(1)])
        held.acknowledge("t", 0, 0, Acknowledge.RENEW)
        held.acknowledge("t", 0, 1, Acknowledge.RENEW)
        held.acknowledge("t", 0, 1, Acknowledge.ACCEPT)
        assert held.has_renewals
        assert held.take() == {1: {FIRST: {0: 4, 1: 1}}}
        assert held.records == [record(0)]
        held.acknowledge("t", 0, 0, Acknowledge.ACCEPT)
        assert held.take() == {1: {FIRST: {0: 1}}}
        assert held.partitions_of(1) == set()

    def test_a_decision_may_change_to_a_renewal(self) -> None:
        held = HeldRecords()
        held.deliver(1, [record(0)])
        held.acknowledge("t", 0, 0, Acknowledge.ACCEPT)
        held.acknowledge("t", 0, 0, Acknowledge.RENEW)
        assert held.take() == {1: {FIRST: {0: 4}}}
        assert held.records == [record(0)]
        held.acknowledge("t", 0, 0, Acknowledge.ACCEPT)

    def test_a_broker_that_is_gone_has_released_its_records(self) -> None:
        held = HeldRecords()
        held.deliver(1, [record(0)])
        held.deliver(2, [record(5, partition=1)])
        assert held.partitions_of(1) == {FIRST}
        held.drop(1)
        assert held.records == [record(5, partition=1)]
        with pytest.raises(ClientError, match="offset 0 is not held"):
            held.acknowledge("t", 0, 0, Acknowledge.ACCEPT)


def batch(base: int, *values: bytes) -> bytes:
    return bytes(build_batch([Record(value=value) for value in values], base_offset=base))


def acquired(content: bytes, *ranges_: AcquiredRange) -> AcquiredRecords:
    return AcquiredRecords(FIRST, 1, ranges_, memoryview(content), check_crcs=True)


class TestAcquiredRecords:
    def test_only_acquired_records_are_taken_and_the_rest_is_a_gap(self) -> None:
        content = batch(0, b"a", b"b", b"c") + batch(5, b"d")
        fetched = acquired(content, AcquiredRange(1, 3, 1), AcquiredRange(5, 6, 2))
        first = fetched.take(1, PLAIN)
        assert ([shared_record.value for shared_record in first.records], first.decided) == ([b"b"], {})
        rest = fetched.take(10, PLAIN)
        assert [(shared_record.value, shared_record.delivery_count) for shared_record in rest.records] == [
            (b"c", 1),
            (b"d", 2),
        ]
        assert (rest.decided, rest.error, fetched.offsets) == ({3: GAP, 6: GAP}, None, [])

    def test_a_damaged_batch_is_rejected_alone(self) -> None:
        damaged = bytearray(batch(1, b"b", b"c"))
        damaged[-1] ^= 1
        fetched = acquired(batch(0, b"a") + bytes(damaged) + batch(3, b"d"), AcquiredRange(0, 3, 1))
        first = fetched.take(10, PLAIN)
        assert [shared_record.value for shared_record in first.records] == [b"a"]
        assert first.decided == {1: Acknowledge.REJECT, 2: Acknowledge.REJECT}
        assert isinstance(first.error, CorruptRecords)
        assert [shared_record.value for shared_record in fetched.take(10, PLAIN).records] == [b"d"]

    def test_a_record_that_cannot_be_deserialized_is_released_alone(self) -> None:
        fetched = acquired(batch(0, b"1", b"{", b"2"), AcquiredRange(0, 2, 1))
        json = Deserializing(None, plain_serde("json").deserializer)
        first = fetched.take(10, json)
        assert ([shared_record.value for shared_record in first.records], first.decided) == (
            [1],
            {1: Acknowledge.RELEASE},
        )
        assert isinstance(first.error, SerializationError)
        assert [shared_record.value for shared_record in fetched.take(10, json).records] == [2]


class TestConfiguration:
    def test_both_modes(self) -> None:
        _, settings = read_share(WHERE)
        assert not settings.explicit
        assert not settings.limits_records
        modes = {"share.acknowledgement.mode": "EXPLICIT", "share.acquire.mode": "record_limit", "max.poll.records": 7}
        _, settings = read_share({**WHERE, **modes})
        assert settings.explicit
        assert settings.limits_records
        assert settings.max_poll_records == 7
        with pytest.raises(ConfigurationError, match="must be one of implicit, explicit"):
            read_share({**WHERE, "share.acknowledgement.mode": "often"})

    @pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "isolation.level", "group.protocol"])
    def test_settings_of_other_groups_are_refused_with_a_reason(self, name: str) -> None:
        assert name not in SHARE_KEYS
        with pytest.raises(ConfigurationError, match=f"{name} is no setting of a share consumer: "):
            read_share({**WHERE, name: "x"})


class TestMembership:
    def test_topics_that_change_during_a_heartbeat_are_told_with_the_next(self) -> None:
        sent_topics: list[list[str] | None] = []

        class Cluster:
            GROUP = 0
            random = random.Random(1)

            async def ask_coordinator(self, _kind: int, _key: str, request: Callable[[], Any], **_: Any) -> Any:
                sent_topics.append(request().subscribed_topic_names)
                if len(sent_topics) == 1:
                    member.change(("t", "u"))
                return ShareGroupHeartbeatResponse(member_id="m", member_epoch=1, heartbeat_interval_ms=1)

        async def nothing(*_: Any) -> None:
            return

        async def scenario() -> None:
            for _ in range(3):
                await member._heartbeat()

        cluster: Any = Cluster()
        member = ShareMembership(cluster, ShareSettings(group_id="g"), Subscription(("t",)), nothing)
        asyncio.run(scenario())
        assert sent_topics == [["t"], ["t", "u"], None]
