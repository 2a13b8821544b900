"""Responses of several connections are sent together; a single connection does not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.host.send_turn import SENDERS_MAX, SendTurn


class Turns:
    """A scheduler whose turns end by hand."""

    def __init__(self) -> None:
        self.planned: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object:
        self.planned.append(callback)
        return None

    def end(self) -> None:
        planned, self.planned = self.planned, []
        for callback in planned:
            callback()


class Sent:
    def __init__(self) -> None:
        self.count = 0

    def send_answers(self) -> None:
        self.count += 1


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def send_turn(turns: Turns) -> SendTurn:
    return SendTurn(turns)  # type: ignore[arg-type]


def test_answers_of_one_turn_leave_at_its_end(turns: Turns, send_turn: SendTurn) -> None:
    for _ in range(3):
        senders = [Sent() for _ in range(5)]
        assert [send_turn.postpones(sender) for sender in senders] == [True] * len(senders)
        assert [sender.count for sender in senders] == [0] * 5
        assert len(turns.planned) == 1
        turns.end()
        assert [sender.count for sender in senders] == [1] * 5


def test_who_has_all_the_traffic_sends_at_once(turns: Turns, send_turn: SendTurn) -> None:
    alone, other = Sent(), Sent()
    assert send_turn.postpones(alone)
    turns.end()
    assert alone.count == 1
    assert [send_turn.postpones(alone) for _ in range(5)] == [False] * 5
    assert not turns.planned, "and nothing is planned for it"
    assert send_turn.postpones(other)
    assert send_turn.postpones(alone)
    turns.end()
    assert (alone.count, other.count) == (2, 1)


def test_who_asks_twice_in_a_turn_keeps_its_place(turns: Turns, send_turn: SendTurn) -> None:
    sent = Sent()
    assert send_turn.postpones(sent)
    assert send_turn.postpones(sent), "what it has sent already is nothing to the second call"
    turns.end()
    assert not turns.planned


def test_the_first_of_many_does_not_wait_for_all(turns: Turns, send_turn: SendTurn) -> None:
    senders = [Sent() for _ in range(SENDERS_MAX + 1)]
    assert [send_turn.postpones(sender) for sender in senders] == [True] * len(senders)
    assert [sender.count for sender in senders] == [1] * SENDERS_MAX + [0]
    turns.end()
    assert senders[-1].count == 1
