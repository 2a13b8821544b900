"""Fetch sessions as KIP-227 has them."""

from __future__ import annotations

from random import Random

import pytest

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica.fetch_sessions import FetchedPartition, FetchPlan, FetchSessions
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

TOPIC_ID = Uuid(b"0123456789abcdef")


def fetch(
    *partitions: tuple[int, int], session_id: int = 0, epoch: int = 0, forget: tuple[int, ...] = (), topic: str = "t"
) -> FetchRequest:
    wanted = [FetchPartition(partition=index, fetch_offset=offset) for index, offset in partitions]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, topic_id=TOPIC_ID, partitions=wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, topic_id=TOPIC_ID, partitions=list(forget))]
        if forget
        else [],
    )


class Broker:
    """A session cache, a clock that only the test moves, and responses made of (high watermark, records)."""

    def __init__(self, slots_max: int = 10) -> None:
        self.sessions = FetchSessions(slots_max=slots_max, random=Random(1))
        self.now_ms = 1_000

    def plan(self, request: FetchRequest, *, version: int = 12, is_follower: bool = False) -> FetchPlan:
        return self.sessions.plan(request, version=version, is_follower=is_follower, now_ms=self.now_ms)

    def settle(
        self, plan: FetchPlan, answers: dict[int, PartitionData] | None = None
    ) -> tuple[ErrorCode, int, list[FetchedPartition]]:
        results = [
            (entry, (answers or {}).get(entry.index) or PartitionData(partition_index=entry.index, high_watermark=5))
            for entry in plan.entries.values()
        ]
        return self.sessions.settle(plan, results, now_ms=self.now_ms)

    def open(self, *partitions: tuple[int, int], version: int = 12, is_follower: bool = False) -> int:
        plan = self.plan(fetch(*partitions), version=version, is_follower=is_follower)
        error, session_id, _ = self.settle(plan)
        assert error is ErrorCode.NONE
        return session_id


def indexes_of(result: tuple[ErrorCode, int, list[FetchedPartition]]) -> list[int]:
    return [entry.index for entry, _ in result[2]]


def test_a_full_request_opens_a_session_and_tells_everything() -> None:
    broker = Broker()
    result = broker.settle(broker.plan(fetch((0, 10), (1, 20))))
    assert result[0] is ErrorCode.NONE
    assert result[1] > 0
    assert indexes_of(result) == [0, 1]
    session = broker.sessions.get(result[1])
    assert session is not None
    assert session.epoch == 1


def test_an_incremental_request_tells_only_what_is_new() -> None:
    broker = Broker()
    session_id = broker.open((0, 10), (1, 20), (2, 30))
    plan = broker.plan(fetch(session_id=session_id, epoch=1))
    answers = {1: PartitionData(partition_index=1, high_watermark=6)}
    assert indexes_of(broker.settle(plan, answers)) == [1]


@pytest.mark.parametrize(
    "news",
    [
        PartitionData(high_watermark=5, records=b"x"),
        PartitionData(high_watermark=5, log_start_offset=3),
        PartitionData(high_watermark=5, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        PartitionData(high_watermark=5, preferred_read_replica=2),
    ],
)
def test_what_counts_as_news(news: PartitionData) -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    assert indexes_of(broker.settle(broker.plan(fetch(session_id=session_id, epoch=1)), {0: news})) == [0]


def test_the_first_answer_after_an_error_is_told_again() -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    failed = PartitionData(high_watermark=-1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker.settle(broker.plan(fetch(session_id=session_id, epoch=1)), {0: failed})
    assert indexes_of(broker.settle(broker.plan(fetch(session_id=session_id, epoch=2)))) == [0]
    assert indexes_of(broker.settle(broker.plan(fetch(session_id=session_id, epoch=3)))) == []


@pytest.mark.parametrize("version", [12, 13])
def test_positions_are_updated_added_and_forgotten(version: int) -> None:
    broker = Broker()
    session_id = broker.open((0, 10), (1, 20), version=version)
    request = fetch((0, 11), (2, 1), session_id=session_id, epoch=1, forget=(1,))
    plan = broker.plan(request, version=version)
    assert {entry.index: entry.fetch_offset for entry in plan.entries.values()} == {0: 11, 2: 1}


def test_forgetting_everything_closes_the_session() -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    result = broker.settle(broker.plan(fetch(session_id=session_id, epoch=1, forget=(0,))))
    assert result == (ErrorCode.NONE, 0, [])
    assert len(broker.sessions) == 0


def test_an_unknown_session() -> None:
    broker = Broker()
    result = broker.settle(broker.plan(fetch((0, 1), session_id=77, epoch=1)))
    assert result == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])


def test_a_wrong_epoch() -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    result = broker.settle(broker.plan(fetch(session_id=session_id, epoch=2)))
    assert result == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    broker.plan(fetch(session_id=session_id, epoch=1))
    # A repeated request: what it changes in the session was applied already.
    result = broker.settle(broker.plan(fetch(session_id=session_id, epoch=1)))
    assert result == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])


def test_a_request_that_was_overtaken_while_it_waited() -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    waiting = broker.plan(fetch(session_id=session_id, epoch=1))
    broker.plan(fetch(session_id=session_id, epoch=2))
    assert broker.settle(waiting) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id, [])


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    broker = Broker()
    session_id = broker.open((0, 10), version=13)
    result = broker.settle(broker.plan(fetch(session_id=session_id, epoch=1), version=12))
    assert result[0] is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_and_opens_nothing() -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    result = broker.settle(broker.plan(fetch((0, 10), session_id=session_id, epoch=-1)))
    assert result[1] == 0
    assert indexes_of(result) == [0]
    assert len(broker.sessions) == 0


def test_a_full_request_replaces_the_session_it_names() -> None:
    broker = Broker()
    first = broker.open((0, 10))
    second = broker.settle(broker.plan(fetch((0, 10), session_id=first, epoch=0)))[1]
    assert second != first
    assert broker.sessions.get(first) is None
    assert len(broker.sessions) == 1


def test_the_epoch_wraps_to_one() -> None:
    broker = Broker()
    session_id = broker.open((0, 10))
    session = broker.sessions.get(session_id)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    broker.plan(fetch(session_id=session_id, epoch=0x7FFFFFFF))
    assert session.epoch == 1


def test_partitions_with_data_move_to_the_end() -> None:
    broker = Broker()
    session_id = broker.open((0, 10), (1, 20), (2, 30))
    data = {0: PartitionData(partition_index=0, high_watermark=5, records=b"x")}
    broker.settle(broker.plan(fetch(session_id=session_id, epoch=1)), data)
    plan = broker.plan(fetch(session_id=session_id, epoch=2))
    assert [entry.index for entry in plan.entries.values()] == [1, 2, 0]


class TestEviction:
    def test_no_session_when_all_slots_are_fresh(self) -> None:
        broker = Broker(slots_max=1)
        first = broker.open((0, 1))
        assert broker.open((0, 1), (1, 1)) == 0
        assert broker.sessions.get(first) is not None

    def test_an_unused_session_goes_first(self) -> None:
        broker = Broker(slots_max=2)
        used = broker.open((0, 1))
        unused = broker.open((0, 1), (1, 1), (2, 1))
        broker.now_ms += 120_001
        broker.plan(fetch(session_id=used, epoch=1))
        assert broker.open((0, 1)) > 0
        assert broker.sessions.get(unused) is None
        assert broker.sessions.get(used) is not None
        assert broker.sessions.evictions == 1

    def test_a_follower_displaces_a_consumer_but_not_the_other_way(self) -> None:
        broker = Broker(slots_max=1)
        broker.open((0, 1), (1, 1))
        follower = broker.open((0, 1), is_follower=True)
        assert follower > 0
        assert broker.open((0, 1), (1, 1)) == 0
        assert broker.sessions.get(follower) is not None

    def test_a_larger_one_displaces_a_smaller_one_that_is_old(self) -> None:
        broker = Broker(slots_max=1)
        old = broker.open((0, 1))
        broker.now_ms += 120_001
        broker.plan(fetch(session_id=old, epoch=1))
        assert broker.open((0, 1)) == 0
        assert broker.open((0, 1), (1, 1)) > 0
        assert broker.sessions.get(old) is None


def test_partitions_cached_counts_all_sessions() -> None:
    broker = Broker()
    broker.open((0, 1), (1, 1))
    broker.open((0, 1))
    assert broker.sessions.partitions_cached == 3


def test_consumers_sessions_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.replica.fetch_sessions.PARTITIONS_CACHED_MAX", 3)
    broker = Broker()
    session_id = broker.open((0, 1), (1, 1))
    assert broker.open((0, 1), (1, 1)) == 0, "answered, but without a session"
    assert broker.open((0, 1), (1, 1), is_follower=True) != 0
    grown = fetch((2, 1), (3, 1), session_id=session_id, epoch=1)
    assert broker.plan(grown).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.sessions.get(session_id) is None


def test_sessions_of_a_followers_former_run_do_not_stay() -> None:
    broker = Broker()
    former = [broker.open((index, 0), is_follower=True) for index in range(3)]
    consumer = broker.open((0, 0))
    living = broker.open((5, 0), is_follower=True)
    broker.now_ms += 120_001
    assert broker.plan(fetch(session_id=living, epoch=1), is_follower=True).error is ErrorCode.NONE
    opened = broker.open((0, 0), is_follower=True)
    assert [broker.sessions.get(session_id) is None for session_id in (*former, consumer, living, opened)] == [
        *(True, True, True),
        *(False, False, False),
    ]
    assert broker.sessions.evictions == 0


def test_followers_partitions_do_not_count_for_the_bound_of_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.replica.fetch_sessions.PARTITIONS_CACHED_MAX", 3)
    broker = Broker()
    broker.open((0, 0), (1, 0), (2, 0), (3, 0), is_follower=True)
    assert broker.open((0, 0), (1, 0))
    assert not broker.open((2, 0), (3, 0))
