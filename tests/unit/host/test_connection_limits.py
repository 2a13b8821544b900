"""Connections that meet a defect in the server, that are closing, or that hold too much memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from ottla.model.ports import World
from ottla.wire.connection import server
from tests.unit.host.test_connection import Peer, framed

NewPeer = Callable[..., Peer]


@pytest.fixture
def new_peer(loop: asyncio.AbstractEventLoop, world: World) -> Iterator[NewPeer]:
    peers: list[Peer] = []

    def new(**settings: int) -> Peer:
        peers.append(Peer(loop, world, **settings))
        return peers[-1]

    yield new
    for peer in peers:
        peer.connection.close()
        peer.client.close()


@pytest.fixture
def peer(new_peer: NewPeer) -> Peer:
    return new_peer()


def fail_at(peer: Peer, request: bytes) -> None:
    """From now on this request raises an exception in the server."""

    def before(received: bytes) -> None:
        if received == request:
            raise RuntimeError("a defect")

    peer.dispatcher.before = before


def some_turns(peer: Peer) -> None:
    for _ in range(20):
        peer.run(asyncio.sleep(0))


def test_a_defect_in_what_was_held_back_ends_the_connection(
    new_peer: NewPeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer = new_peer(requests_unanswered_max=2)
    fail_at(peer, b"a defect")
    peer.send(b"park one", b"park two", b"a defect", b"after it")
    peer.until(lambda: len(peer.dispatcher.parked) == 2)
    for parked in peer.dispatcher.parked:
        parked.resolve(b"answered")
    some_turns(peer)
    # The boundaries of later frames in the stream are lost.
    assert peer.closed_with == ["an internal error"]
    assert "a defect" in caplog.text


def test_a_defect_after_a_silence_ends_the_connection(peer: Peer) -> None:
    fail_at(peer, b"a defect")
    peer.dispatcher.mutes[b"be silent"] = 0.001
    peer.send(b"be silent", b"a defect", b"after it")
    assert peer.receive() == b"be silent"
    assert peer.is_closed_for_client()
    assert peer.closed_with == ["an internal error"]


def test_a_defect_after_a_slow_reader_has_read_ends_the_connection(
    new_peer: NewPeer,
) -> None:
    peer = new_peer(send_buffer_bytes=4096, unsent_bytes_max=500_000)
    fail_at(peer, b"a defect")
    peer.dispatcher.answers[b"a large answer"] = framed(bytes(1_000_000))
    peer.send(b"a large answer", b"a defect", b"after it")

    async def read_to_the_end() -> None:
        while await peer.loop.sock_recv(peer.client, 65_536):
            pass

    peer.run(read_to_the_end())
    assert peer.closed_with == ["an internal error"]


def test_an_answer_that_cannot_be_given_ends_the_connection(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    peer.send(b"park one", b"park two")
    peer.until(lambda: len(peer.dispatcher.parked) == 2)
    peer.dispatcher.parked[0].fail(RuntimeError("a defect"))
    assert peer.is_closed_for_client()
    assert peer.closed_with == ["an internal error"]
    assert "a defect" in caplog.text
    peer.dispatcher.parked[1].resolve(b"too late")


def test_nothing_is_taken_for_a_request_any_more_while_the_last_answer_leaves(
    new_peer: NewPeer,
) -> None:
    peer = new_peer(send_buffer_bytes=4096)
    peer.dispatcher.answers[b"a large answer"] = framed(bytes(500_000))
    peer.send(b"a large answer", b"close please")
    peer.until(lambda: len(peer.dispatcher.frames) == 2)
    peer.send(b"too late")
    some_turns(peer)
    assert len(peer.dispatcher.frames) == 2
    assert peer.receive() == bytes(500_000)
    peer.until(lambda: peer.closed_with)
    assert peer.closed_with == ["it asked for it"]


def test_reading_stops_at_the_limit_of_what_unanswered_requests_hold(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HELD_BYTES_MAX", 100)
    requests = [b"park %04d" % number + bytes(21) for number in range(10)]
    peer.send(*requests)
    peer.until(lambda: len(peer.dispatcher.parked) == 4)
    some_turns(peer)
    assert len(peer.dispatcher.parked) == 4
    for number in range(10):
        peer.until(lambda number=number: len(peer.dispatcher.parked) > number)
        assert len(peer.dispatcher.parked) <= number + 4
        peer.dispatcher.parked[number].resolve(b"answer %04d" % number)
        assert peer.receive() == b"answer %04d" % number


def test_reading_stops_at_the_limit_of_answers_that_wait_for_others(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HELD_BYTES_MAX", 1000)
    peer.dispatcher.answers[b"a long answer"] = framed(bytes(496))
    peer.send(b"park one", *[b"a long answer"] * 5)
    peer.until(lambda: len(peer.dispatcher.frames) == 3)
    some_turns(peer)
    assert len(peer.dispatcher.frames) == 3
    peer.dispatcher.parked[0].resolve(b"one")
    assert [len(peer.receive()) for _ in range(6)] == [3] + [496] * 5


def test_a_stopping_connection_takes_no_further_request(peer: Peer) -> None:
    peer.send(b"park one", b"park two")
    peer.until(lambda: len(peer.dispatcher.parked) == 2)
    peer.connection.stop_reading()
    peer.send(b"request three")
    peer.dispatcher.parked[0].resolve(b"one")
    assert peer.receive() == b"one"
    for _ in range(10):
        peer.run(asyncio.sleep(0))
    assert len(peer.dispatcher.frames) == 2
    peer.dispatcher.parked[1].resolve(b"two")
    assert peer.receive() == b"two"


def test_stopping_awaits_pending_answers_and_then_closes(peer: Peer) -> None:
    peer.send(b"park one")
    peer.until(lambda: peer.dispatcher.parked)
    peer.connection.stop_reading()
    peer.send(b"request two")
    peer.run(asyncio.sleep(0))
    assert not peer.connection.closed
    peer.dispatcher.parked[0].resolve(b"one")
    assert peer.receive() == b"one"
    peer.until(lambda: peer.connection.closed)
    assert len(peer.dispatcher.frames) == 1
    assert peer.closed_with == [None]
