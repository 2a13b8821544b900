"""A follower's half of a fetch session."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica.follower_session import FollowerSession
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC = Uuid(bytes(15) + b"\x07")
A, B, C = (TOPIC, 0), (TOPIC, 1), (TOPIC, 2)


def ask(session: FollowerSession[str]) -> tuple[list[str], list[int], int, int]:
    """What a request lists and leaves out, its session and its epoch."""
    request = FetchRequest()
    listed = list(session.begin_request(request))
    forgotten = [index for topic in request.forgotten_topics_data for index in topic.partitions]
    return listed, forgotten, request.session_id, request.session_epoch


@pytest.fixture
def session() -> FollowerSession[str]:
    """Open as number 9, with A and B in it."""
    session: FollowerSession[str] = FollowerSession()
    session.set(A, "a")
    session.set(B, "b")
    assert ask(session) == (["a", "b"], [], 0, 0)
    assert session.end_request(FetchResponse(session_id=9))
    return session


def test_later_requests_list_what_changed(session: FollowerSession[str]) -> None:
    session.set(B, "b2")
    assert ask(session) == (["b2"], [], 9, 1)
    assert session.end_request(FetchResponse(session_id=9))
    assert ask(session) == ([], [], 9, 2)


def test_what_left_is_forgotten_once(session: FollowerSession[str]) -> None:
    session.remove(A)
    session.remove(C)
    assert ask(session) == ([], [0], 9, 1)
    session.end_request(FetchResponse(session_id=9))
    assert ask(session) == ([], [], 9, 2)
    assert (session.get(A), session.get(B), len(session)) == (None, "b", 1)


def test_what_left_and_came_back_is_listed_and_not_forgotten(session: FollowerSession[str]) -> None:
    session.remove(A)
    session.set(A, "a2")
    assert ask(session) == (["a2"], [], 9, 1)


def test_what_came_and_left_is_not_listed(session: FollowerSession[str]) -> None:
    session.set(C, "c")
    session.remove(C)
    assert ask(session) == ([], [2], 9, 1)


def test_a_restart_lists_everything_and_closes_the_old_session(session: FollowerSession[str]) -> None:
    session.remove(A)
    session.restart()
    assert ask(session) == (["b"], [], 9, 0)


def test_a_session_that_is_gone(session: FollowerSession[str]) -> None:
    ask(session)
    assert not session.end_request(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert ask(session) == (["a", "b"], [], 0, 0)


def test_an_epoch_that_was_lost(session: FollowerSession[str]) -> None:
    ask(session)
    assert not session.end_request(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert ask(session) == (["a", "b"], [], 9, 0)


def test_without_room_for_a_session_there_is_none(session: FollowerSession[str]) -> None:
    ask(session)
    assert session.end_request(FetchResponse(session_id=0))
    assert ask(session) == (["a", "b"], [], 0, 0)


def test_epochs_begin_again_after_the_largest(session: FollowerSession[str]) -> None:
    session._epoch = 0x7FFFFFFF
    ask(session)
    session.end_request(FetchResponse(session_id=9))
    assert ask(session)[2:] == (9, 1)
