"""A follower's half of a fetch session."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode
from ottla.replica import follower_fetch_session
from ottla.replica.follower_fetch_session import FollowerFetchSession
from ottla.wire.messages.fetch import FetchResponse

TOPIC = bytes(15) + b"\x07"
A, B, C = (TOPIC, 0), (TOPIC, 1), (TOPIC, 2)


def ask(session: FollowerFetchSession[str]) -> tuple[list[str], list[int], int, int]:
    """The listed and forgotten partitions of a request, its session and its epoch."""
    session_id, epoch = session.id, session.epoch
    listed, forgotten = session.begin_request()
    return listed, [index for topic in forgotten for index in topic.partitions], session_id, epoch


@pytest.fixture
def session() -> FollowerFetchSession[str]:
    """Session 9 with the partitions A and B."""
    session: FollowerFetchSession[str] = FollowerFetchSession()
    session.set(A, "a")
    session.set(B, "b")
    assert ask(session) == (["a", "b"], [], 0, 0)
    assert session.end_request(FetchResponse(session_id=9))
    return session


def test_later_requests_list_what_changed(session: FollowerFetchSession[str]) -> None:
    session.set(B, "b2")
    assert ask(session) == (["b2"], [], 9, 1)
    assert session.end_request(FetchResponse(session_id=9))
    assert ask(session) == ([], [], 9, 2)


def test_what_left_is_forgotten_once(session: FollowerFetchSession[str]) -> None:
    session.remove(A)
    session.remove(C)
    assert ask(session) == ([], [0], 9, 1)
    session.end_request(FetchResponse(session_id=9))
    assert ask(session) == ([], [], 9, 2)
    assert (session.get(A), session.get(B), len(session)) == (None, "b", 1)


def test_what_left_and_came_back_is_listed_and_not_forgotten(session: FollowerFetchSession[str]) -> None:
    session.remove(A)
    session.set(A, "a2")
    assert ask(session) == (["a2"], [], 9, 1)


def test_what_came_and_left_is_not_listed(session: FollowerFetchSession[str]) -> None:
    session.set(C, "c")
    session.remove(C)
    assert ask(session) == ([], [], 9, 1)


def test_a_restart_lists_everything_and_closes_the_old_session(session: FollowerFetchSession[str]) -> None:
    session.remove(A)
    session.restart()
    assert ask(session) == (["b"], [], 9, 0)


def test_a_session_that_is_gone(session: FollowerFetchSession[str]) -> None:
    ask(session)
    assert not session.end_request(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert ask(session) == (["a", "b"], [], 0, 0)


def test_an_epoch_that_was_lost(session: FollowerFetchSession[str]) -> None:
    ask(session)
    assert not session.end_request(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert ask(session) == (["a", "b"], [], 9, 0)


def test_without_room_for_a_session_there_is_none(session: FollowerFetchSession[str]) -> None:
    ask(session)
    assert session.end_request(FetchResponse(session_id=0))
    assert ask(session) == (["a", "b"], [], 0, 0)


def test_epochs_begin_again_after_the_largest(session: FollowerFetchSession[str]) -> None:
    session.epoch = 0x7FFFFFFF
    ask(session)
    session.end_request(FetchResponse(session_id=9))
    assert ask(session)[2:] == (9, 1)


class TestVeryMany:
    @pytest.fixture(autouse=True)
    def two_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(follower_fetch_session, "NEW_IN_REQUEST_MAX", 2)

    @pytest.fixture
    def many(self) -> FollowerFetchSession[str]:
        """Session 9 with five partitions, of which two were sent."""
        many: FollowerFetchSession[str] = FollowerFetchSession()
        for number in range(5):
            many.set((TOPIC, number), f"{number}")
        assert ask(many) == (["0", "1"], [], 0, 0)
        assert many.has_untold
        assert many.end_request(FetchResponse(session_id=9))
        return many

    def test_are_told_by_and_by(self, many: FollowerFetchSession[str]) -> None:
        # Moved partitions are always sent; unsent partitions follow in turn.
        many.set((TOPIC, 1), "1b")
        many.set((TOPIC, 4), "4b")
        assert ask(many) == (["1b", "2", "3"], [], 9, 1)
        assert many.has_untold
        many.end_request(FetchResponse(session_id=9))
        assert ask(many) == (["4b"], [], 9, 2)
        assert not many.has_untold
        many.end_request(FetchResponse(session_id=9))
        assert ask(many) == ([], [], 9, 3)

    def test_a_new_session_begins_with_those_that_have_waited(self, many: FollowerFetchSession[str]) -> None:
        many.restart()
        assert ask(many)[0] == ["2", "3"]
        many.restart()
        assert ask(many)[0] == ["4", "0"]

    def test_without_a_session_everything_is_in_each_request(self, many: FollowerFetchSession[str]) -> None:
        ask(many)
        many.end_request(FetchResponse(session_id=0))
        assert ask(many)[0] == ["4", "0", "1", "2", "3"]
        assert not many.has_untold
        # There is room again.
        many.end_request(FetchResponse(session_id=7))
        many.restart()
        assert len(ask(many)[0]) == 2

    def test_a_partition_that_leaves_before_it_was_sent_is_not_forgotten(self, many: FollowerFetchSession[str]) -> None:
        many.remove((TOPIC, 2))
        assert ask(many) == (["3", "4"], [], 9, 1)

    def test_what_comes_back_while_others_wait_is_left_out_first(self, many: FollowerFetchSession[str]) -> None:
        many.remove((TOPIC, 0))
        many.set((TOPIC, 0), "0b")
        assert ask(many) == (["2", "3"], [0], 9, 1)
        many.end_request(FetchResponse(session_id=9))
        assert ask(many) == (["4", "0b"], [], 9, 2)
