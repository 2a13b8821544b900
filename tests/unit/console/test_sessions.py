"""Sessions end at a logout and when they are too old, and their open streams end with them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.console.accounts import Account
from ottla.console.answers import ApiError
from ottla.console.sessions import IDLE_SECONDS_MAX, SECONDS_MAX, SESSIONS_OF_USER_MAX, SessionEnded, Sessions
from ottla.console.turns import Turns


def account(user: str) -> Account:
    return cast(Account, SimpleNamespace(user=user))


ACCOUNT = account("User:alice")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def new_sessions(clock: Clock | None = None) -> Sessions:
    return Sessions("cookie", is_secure=lambda _: False, clock=clock or Clock())


async def streaming(sessions: Sessions, session_id: str | None, opened: asyncio.Event) -> str:
    try:
        async with sessions.stream(session_id):
            opened.set()
            await asyncio.Event().wait()
    except SessionEnded:
        return "ended"
    raise AssertionError


async def opened_stream(sessions: Sessions, session_id: str | None) -> asyncio.Task[str]:
    opened = asyncio.Event()
    task = asyncio.ensure_future(streaming(sessions, session_id, opened))
    await opened.wait()
    return task


def test_a_logout_ends_the_streams_of_the_session_alone() -> None:
    async def scenario() -> None:
        sessions = new_sessions()
        own, other = sessions.begin(ACCOUNT), sessions.begin(ACCOUNT)
        streams = [await opened_stream(sessions, session) for session in (own, own, other)]
        sessions.end(own)
        assert await asyncio.gather(*streams[:2]) == ["ended", "ended"]
        assert not streams[2].done()
        streams[2].cancel()
        with pytest.raises(asyncio.CancelledError):
            await streams[2]

    asyncio.run(scenario())


def test_a_stream_ends_when_its_session_is_too_old_and_does_not_keep_it_alive() -> None:
    async def scenario() -> None:
        clock = Clock()
        sessions = new_sessions(clock)
        session_id = sessions.begin(ACCOUNT)
        clock.now += IDLE_SECONDS_MAX - 0.01
        stream = await opened_stream(sessions, session_id)
        assert await asyncio.wait_for(stream, 30) == "ended"

    asyncio.run(scenario())


def test_a_session_that_is_used_keeps_its_streams_until_its_latest_end() -> None:
    async def scenario() -> None:
        clock = Clock()
        sessions = new_sessions(clock)
        session_id = sessions.begin(ACCOUNT)
        clock.now += IDLE_SECONDS_MAX - 0.01
        stream = await opened_stream(sessions, session_id)
        assert sessions.account_of(session_id) is ACCOUNT
        await asyncio.sleep(0.05)
        assert not stream.done()
        clock.now = 1000.0 + SECONDS_MAX - 0.01
        assert sessions.account_of(session_id) is ACCOUNT
        assert await asyncio.wait_for(stream, 30) == "ended"
        clock.now += 0.01
        assert sessions.account_of(session_id) is None

    asyncio.run(scenario())


def test_a_session_lives_no_longer_than_the_token_behind_it() -> None:
    clock = Clock()
    sessions = new_sessions(clock)
    session_id = sessions.begin(ACCOUNT, seconds_max=60.0)
    clock.now += 59.0
    assert sessions.account_of(session_id) is ACCOUNT
    clock.now += 1.0
    assert sessions.account_of(session_id) is None


def test_many_logins_of_one_user_end_no_session_of_another() -> None:
    sessions = new_sessions()
    other = sessions.begin(account("User:bob"))
    own = [sessions.begin(ACCOUNT) for _ in range(SESSIONS_OF_USER_MAX + 1)]
    assert sessions.account_of(own[0]) is None
    assert sessions.account_of(own[1]) is not None
    assert sessions.account_of(own[-1]) is not None
    assert sessions.account_of(other) is not None


def test_a_failure_in_a_stream_is_no_end_of_the_session() -> None:
    async def scenario() -> None:
        sessions = new_sessions()
        async with sessions.stream(sessions.begin(ACCOUNT)):
            raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


@pytest.mark.parametrize("session_id", [None, "unknown"])
def test_a_stream_of_a_session_that_has_ended_does_not_begin(session_id: str | None) -> None:
    async def scenario() -> None:
        async with new_sessions().stream(session_id):
            raise AssertionError

    with pytest.raises(SessionEnded):
        asyncio.run(scenario())


def test_nobody_takes_all_turns() -> None:
    async def scenario() -> None:
        turns = Turns("searches", 4, most_each=2)
        held: list[Any] = [turns.turn(owner) for owner in ("alice", "alice", "bob")]
        for turn in held:
            await turn.__aenter__()
        with pytest.raises(ApiError, match="of yours"):
            await turns.turn("alice").__aenter__()
        async with turns.turn("bob"):
            with pytest.raises(ApiError, match="4 searches run"):
                await turns.turn("carol").__aenter__()
        for turn in held:
            await turn.__aexit__(None, None, None)
        assert turns.count == 0
        async with turns.turn("alice"):
            assert turns.count == 1

    asyncio.run(scenario())
