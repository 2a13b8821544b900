"""The client's side of fetch sessions, and when it opens a new one (KIP-227)."""

from __future__ import annotations

import pytest

from ottla.client.consumer.fetch_session import FetchPlan, FetchSession
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.fetch import FetchPartition

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
IDS = {"t": A, "u": B}
FIRST, SECOND, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def wanting(**offsets: int) -> dict[TopicPartition, FetchPartition]:
    """`t0=5`: partition 0 of t, from offset 5 on."""
    return {
        TopicPartition(name[0], int(name[1:])): FetchPartition(partition=int(name[1:]), fetch_offset=offset)
        for name, offset in offsets.items()
    }


def sent(plan: FetchPlan) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, partition.partition): partition.fetch_offset
        for topic in plan.topics
        for partition in topic.partitions
    }


def forgotten(plan: FetchPlan) -> set[tuple[Uuid, int]]:
    return {(topic.topic_id, number) for topic in plan.forgotten for number in topic.partitions}


@pytest.fixture
def session() -> FetchSession:
    """Two partitions of t and one of u were asked for, and session 9 was given."""
    session = FetchSession()
    plan = session.plan(wanting(t0=0, t1=0, u0=0), IDS)
    assert (plan.session_id, plan.epoch) == (0, 0)
    assert sent(plan) == {FIRST: 0, SECOND: 0, OTHER: 0}
    assert session.accepts(error_code=0, session_id=9)
    return session


def test_only_what_changed_is_sent(session: FetchSession) -> None:
    plan = session.plan(wanting(t0=0, t1=7, u0=0), IDS)
    assert (plan.session_id, plan.epoch) == (9, 1)
    assert (sent(plan), forgotten(plan)) == ({SECOND: 7}, set())
    assert session.accepts(error_code=0, session_id=9)
    plan = session.plan(wanting(t0=0, t1=7, u0=0), IDS)
    assert (plan.epoch, plan.topics, plan.forgotten) == (2, [], [])


def test_a_new_leader_epoch_is_a_change(session: FetchSession) -> None:
    wanted = wanting(t0=0, t1=0, u0=0)
    wanted[FIRST].current_leader_epoch = 4
    assert sent(session.plan(wanted, IDS)) == {FIRST: 0}


def test_what_is_not_wanted_is_forgotten_and_told_again_later(session: FetchSession) -> None:
    plan = session.plan(wanting(t1=0), IDS)
    assert (sent(plan), forgotten(plan)) == ({}, {(A, 0), (B, 0)})
    assert session.accepts(error_code=0, session_id=9)
    plan = session.plan(wanting(t0=0, t1=0), IDS)
    assert (sent(plan), forgotten(plan)) == ({FIRST: 0}, set())


def test_a_topic_that_was_made_again_replaces_the_old_one(session: FetchSession) -> None:
    new = Uuid(b"n" * 16)
    plan = session.plan(wanting(t0=0, t1=0, u0=0), {**IDS, "u": new})
    assert [topic.topic_id for topic in plan.topics] == [new]
    assert forgotten(plan) == {(B, 0)}


@pytest.mark.parametrize(
    ("code", "next_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 9),
    ],
)
def test_a_broker_that_disagrees_is_told_everything_again(session: FetchSession, code: int, next_id: int) -> None:
    session.plan(wanting(t0=3, t1=0, u0=0), IDS)
    assert not session.accepts(error_code=code, session_id=0)
    plan = session.plan(wanting(t0=3, t1=0, u0=0), IDS)
    assert (plan.session_id, plan.epoch) == (next_id, 0)
    assert (sent(plan), plan.forgotten) == ({FIRST: 3, SECOND: 0, OTHER: 0}, [])
    # The same complaint about a request in full is an error like any other, lest it goes on for ever.
    assert session.accepts(error_code=code, session_id=0)


def test_after_silence_everything_is_told_again(session: FetchSession) -> None:
    session.plan(wanting(t0=3, t1=0, u0=0), IDS)
    session.on_no_answer()
    plan = session.plan(wanting(t0=3, u0=0), IDS)
    assert (plan.session_id, plan.epoch, sent(plan), plan.forgotten) == (9, 0, {FIRST: 3, OTHER: 0}, [])
    assert session.accepts(error_code=0, session_id=10)
    assert session.plan(wanting(t0=3, u0=0), IDS)[:2] == (10, 1)


def test_names_and_ids_are_never_mixed(session: FetchSession) -> None:
    plan = session.plan(wanting(t0=0, t1=0, u0=0), None)
    assert (plan.session_id, plan.epoch, len(sent(plan))) == (9, 0, 3)
    assert all(topic.topic_id == Uuid.ZERO for topic in plan.topics)


@pytest.mark.parametrize("refused_at", ["the first request", "a later one"])
def test_without_a_session_every_request_is_in_full(session: FetchSession, refused_at: str) -> None:
    if refused_at == "the first request":
        session = FetchSession()
    session.plan(wanting(t0=0), IDS)
    assert session.accepts(error_code=0, session_id=0)
    plan = session.plan(wanting(t0=0), IDS)
    assert (plan.session_id, plan.epoch, sent(plan)) == (0, 0, {FIRST: 0})
    assert session.final() is None


def test_another_error_is_not_hidden(session: FetchSession) -> None:
    session.plan(wanting(t0=0), IDS)
    assert session.accepts(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=0)
    assert session.plan(wanting(t0=0), IDS).epoch == 0


def test_epochs_begin_again_at_one(session: FetchSession) -> None:
    session._epoch = 0x7FFFFFFF
    session.plan(wanting(t0=0), IDS)
    assert session.accepts(error_code=0, session_id=9)
    assert session.plan(wanting(t0=0), IDS).epoch == 1


def test_the_end_names_the_session(session: FetchSession) -> None:
    assert session.final() == FetchPlan(9, -1, [], [])
