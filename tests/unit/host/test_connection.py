"""Connections over a socket pair, with a dispatcher that the test controls."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.context import CloseConnection, ConnectionContext, ListenerInfo
from ottla.broker.pending import Part, PendingResponse, ResponseWaiter
from ottla.broker.statistics import ApiStatistics
from ottla.host.byte_stream import PLAIN, StreamTraits
from ottla.host.connection import Connection, SharedReadState
from ottla.model.deferred import Deferred
from ottla.model.ports import FileRegion, World
from ottla.wire.connection import frames
from ottla.wire.connection.request_memory import RequestMemory
from ottla.wire.connection.server import ConnectionLimits

LISTENER = ListenerInfo(
    name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    host="127.0.0.1",
    port=1,
    advertised_host="127.0.0.1",
    advertised_port=1,
)


class RawRoute:
    """The handler's result is the answer's bytes."""

    def encode(self, response: bytes, context: object, request: object) -> list[Part]:
        return framed(response)

    def answer_error(
        self, error: BaseException, context: object, request: object, *, charged: object = None
    ) -> list[Part]:
        raise error


class FakeDispatcher:
    """Echoes requests, parks those that begin with `park`, and does what others ask for."""

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.parked: list[Deferred[bytes]] = []
        # Called with each request first.
        self.before: Callable[[bytes], object] | None = None
        self.overlapping = frozenset([int.from_bytes(b"pa", "big")])
        self.time = lambda: 0.0
        self.answers: dict[bytes, list[Part]] = {}
        # The seconds for which the connection is muted after these requests.
        self.mutes: dict[bytes, float] = {}

    def dispatch(
        self, frame: memoryview, connection: ConnectionContext, waiter: ResponseWaiter
    ) -> list[Part] | PendingResponse | None:
        if self.before is not None:
            self.before(bytes(frame))
        self.frames.append(frame)
        request = bytes(frame)
        if request in self.mutes:
            assert connection.mute is not None
            connection.mute(self.mutes[request])
        if request in self.answers:
            return self.answers[request]
        if request.startswith(b"park"):
            deferred: Deferred[bytes] = Deferred()
            pending = PendingResponse(RawRoute(), request, object(), waiter)  # type: ignore[arg-type]
            deferred.when_done(pending)
            self.parked.append(deferred)
            return pending
        if request.startswith(b"nothing"):
            return None
        if request.startswith(b"close"):
            raise CloseConnection("it asked for it")
        return framed(request)

    def starts_behind(self, api_key: int) -> frozenset[int]:
        """Requests that are parked overlap with all that begin with a small letter, which is most of them here."""
        first = chr(api_key >> 8)
        return self.overlapping if first.islower() else frozenset()

    def answered(self, parts: list[Part], connection: ConnectionContext) -> PendingResponse:
        return PendingResponse.answered(parts, now=self.time(), statistics=connection.last_statistics)


class Peer:
    """Both ends: ours under test, and the client's."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        world: World,
        *,
        send_buffer_bytes: int = 0,
        stream_of: Callable[[socket.socket], Any] | None = None,
        traits: StreamTraits = PLAIN,
        gate: Any = None,
        **settings: int,
    ) -> None:
        self.loop = loop
        ours, self.client = socket.socketpair()
        if send_buffer_bytes:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        ours.setblocking(False)
        self.client.setblocking(False)
        self.dispatcher = FakeDispatcher()
        self.dispatcher.time = loop.time
        self.closed_with: list[str | None] = []
        limits = {"request_bytes_max": 10_000_000, "requests_unanswered_max": 100, "unsent_bytes_max": 1_000_000}
        self.connection = Connection(
            loop=loop,
            world=world,
            stream=stream_of(ours) if stream_of is not None else ours,
            traits=traits,
            context=ConnectionContext(listener=LISTENER, client_host="test", client_port=1),
            dispatcher=self.dispatcher,
            owner=self,
            shared=SharedReadState(loop, RequestMemory(request_bytes_max=1_000_000)),
            limits=ConnectionLimits(**{**limits, **settings}),
            gate=gate,
        )

    def connection_closed(self, connection: Connection, reason: str | None) -> None:
        self.closed_with.append(reason)

    def run(self, awaitable: object) -> object:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 60))  # type: ignore[arg-type]

    def send(self, *requests: bytes) -> None:
        self.run(self.loop.sock_sendall(self.client, b"".join(sized(request) for request in requests)))

    def receive(self) -> bytes:
        async def receive() -> bytes:
            (size,) = struct.unpack(">i", await self._receive_exactly(4))
            return await self._receive_exactly(size)

        return self.run(receive())  # type: ignore[return-value]

    async def _receive_exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = await self.loop.sock_recv(self.client, size - len(received))
            assert chunk, "the connection was closed"
            received += chunk
        return received

    def until(self, condition: object) -> None:
        async def poll() -> None:
            while not condition():  # type: ignore[operator]
                await asyncio.sleep(0)

        self.run(poll())

    def is_closed_for_client(self) -> bool:
        return self.run(self.loop.sock_recv(self.client, 1)) == b""


@pytest.fixture
def peer(loop: asyncio.AbstractEventLoop, world: World) -> Peer:
    return new_peer(loop, world)


def new_peer(loop: asyncio.AbstractEventLoop, world: World, **settings: int) -> Peer:
    return Peer(loop, world, **settings)


@pytest.fixture(autouse=True)
def _close_what_is_open(monkeypatch: pytest.MonkeyPatch) -> object:
    peers: list[Peer] = []
    original = Peer.__init__

    def remember(self: Peer, *arguments: object, **settings: object) -> None:
        original(self, *arguments, **settings)  # type: ignore[arg-type]
        peers.append(self)

    monkeypatch.setattr(Peer, "__init__", remember)
    yield
    for peer in peers:
        peer.connection.close()
        peer.client.close()


def sized(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def framed(answer: bytes) -> list[Part]:
    return [sized(answer)]


def test_pipelined_requests_are_answered_in_order(peer: Peer) -> None:
    requests = [b"request %04d" % number for number in range(500)]
    peer.send(*requests)
    assert [peer.receive() for _ in requests] == requests


def test_the_context_says_that_the_client_is_gone(peer: Peer) -> None:
    assert not peer.connection.context.is_gone
    peer.client.close()
    peer.until(lambda: peer.connection.context.is_gone)
    assert peer.closed_with == [None]


def test_each_frame_has_a_writable_buffer_of_its_own(peer: Peer) -> None:
    peer.send(b"first request", b"second request")
    peer.receive(), peer.receive()
    first, second = peer.dispatcher.frames
    assert not first.readonly
    first[:5] = b"XXXXX"
    peer.send(b"third request")
    peer.receive()
    assert bytes(first) == b"XXXXX request"
    assert bytes(second) == b"second request"


@pytest.mark.parametrize("size", [9, 60_000, 65_536, 200_000, 1_048_576, 1_500_000, 5_000_000])
def test_frames_of_any_size_arrive_whole(peer: Peer, size: int) -> None:
    request = os.urandom(16) * (size // 16 + 1)
    request = b"x" + request[: size - 1]

    async def send_and_receive() -> bytes:
        sending = asyncio.ensure_future(peer.loop.sock_sendall(peer.client, sized(request) + sized(b"after it")))
        (length,) = struct.unpack(">i", await peer._receive_exactly(4))
        answer = await peer._receive_exactly(length)
        await sending
        return answer

    peer_settings_ok = peer.run(send_and_receive())
    assert peer_settings_ok == request
    assert peer.receive() == b"after it"


def test_a_large_frame_that_is_there_needs_one_turn_of_the_loop(peer: Peer) -> None:
    request = os.urandom(100_000)
    peer.run(peer.loop.sock_sendall(peer.client, sized(request)))
    peer.run(peer._receive_exactly(4 + len(request)))
    # After a large frame only the size of the next is asked for; what has come with it is read at once.
    peer.client.sendall(sized(request))
    seen = len(peer.dispatcher.frames)
    peer.connection._on_readable()
    assert len(peer.dispatcher.frames) == seen + 1
    assert bytes(peer.dispatcher.frames[-1]) == request
    peer.run(peer._receive_exactly(4 + len(request)))
    # A size that comes alone waits for the rest.
    peer.client.sendall(sized(request)[:4])
    peer.connection._on_readable()
    assert len(peer.dispatcher.frames) == seen + 1
    assert peer.closed_with == []
    peer.client.sendall(request)
    assert peer.receive() == request


def test_bytes_that_trickle_in_one_by_one(peer: Peer) -> None:
    for byte in sized(b"slow request") + sized(b"slow request two"):
        peer.run(peer.loop.sock_sendall(peer.client, bytes([byte])))
        peer.run(asyncio.sleep(0))
    assert peer.receive() == b"slow request"
    assert peer.receive() == b"slow request two"


def test_answers_wait_for_the_pending_one_before_them(peer: Peer) -> None:
    peer.send(b"park one", b"request two", b"park three", b"nothing 3", b"request four")
    peer.until(lambda: len(peer.dispatcher.frames) == 5)
    first_parked, second_parked = peer.dispatcher.parked
    second_parked.resolve(b"three")
    first_parked.resolve(b"one")
    assert [peer.receive() for _ in range(4)] == [b"one", b"request two", b"three", b"request four"]


def test_an_answer_that_waits_for_an_earlier_one_is_counted(peer: Peer) -> None:
    parked, quick = ApiStatistics(), ApiStatistics()
    peer.connection.context.last_statistics = quick
    peer.send(b"request zero", b"park one", b"request two")
    peer.until(lambda: len(peer.dispatcher.frames) == 3)
    assert peer.receive() == b"request zero"
    peer.run(asyncio.sleep(0.02))
    peer.connection.context.last_statistics = parked
    peer.dispatcher.parked[0].resolve(b"one")
    assert [peer.receive(), peer.receive()] == [b"one", b"request two"]
    # Only the response that was ready early has a queue wait time, once.
    assert (sum(quick.queue_wait_times), sum(parked.queue_wait_times)) == (1, 0)
    assert 0.01 < quick.queue_wait_seconds < 20


def test_a_pending_answer_resolved_while_a_later_request_is_handled(peer: Peer) -> None:
    peer.send(b"park one")
    peer.until(lambda: peer.dispatcher.parked)
    peer.dispatcher.before = lambda _: peer.dispatcher.parked[0].resolve(b"one")
    peer.send(b"request two")
    assert [peer.receive(), peer.receive()] == [b"one", b"request two"]


@pytest.mark.parametrize("size", [-1, 0, 7, 10_000_001, 2**31 - 1])
def test_an_impossible_size_closes_the_connection_after_what_was_answered(peer: Peer, size: int) -> None:
    peer.run(peer.loop.sock_sendall(peer.client, sized(b"a good one") + struct.pack(">i", size) + b"garbage"))
    assert peer.receive() == b"a good one"
    assert peer.is_closed_for_client()
    assert len(peer.closed_with) == 1
    assert str(size) in str(peer.closed_with[0])


def test_a_large_frame_that_is_only_announced_costs_little(peer: Peer) -> None:
    peer.run(peer.loop.sock_sendall(peer.client, struct.pack(">i", 9_999_999) + b"beginning"))
    peer.until(lambda: peer.connection._machine.frames._frame is not None)
    assert len(peer.connection._machine.frames._frame) <= frames.FRAME_ALLOCATION_UNPROVEN
    # A client that has sent a large frame gets the full buffer at once, so later frames are not copied.
    peer.run(peer.loop.sock_sendall(peer.client, bytes(9_999_999 - len(b"beginning"))))
    assert len(peer.receive()) == 9_999_999
    peer.run(peer.loop.sock_sendall(peer.client, struct.pack(">i", 9_999_999) + b"beginning"))
    peer.until(lambda: peer.connection._machine.frames._frame is not None)
    assert len(peer.connection._machine.frames._frame) == frames.FRAME_ALLOCATION_FIRST


def test_an_order_to_close_ends_the_connection_once_what_was_answered_is_sent(peer: Peer) -> None:
    peer.send(b"request one", b"close please", b"request three")
    assert peer.receive() == b"request one"
    assert peer.is_closed_for_client()
    assert peer.closed_with == ["it asked for it"]
    assert len(peer.dispatcher.frames) == 2


def test_a_pending_request_may_fail_with_an_order_to_close(peer: Peer) -> None:
    peer.send(b"park one")
    peer.until(lambda: peer.dispatcher.parked)
    peer.dispatcher.parked[0].fail(CloseConnection("acks=0 failed"))
    assert peer.is_closed_for_client()
    assert peer.closed_with == ["acks=0 failed"]


def test_a_client_that_goes_away_is_noticed_and_its_late_answers_dropped(peer: Peer) -> None:
    peer.send(b"park one")
    peer.until(lambda: peer.dispatcher.parked)
    peer.client.close()
    peer.until(lambda: peer.closed_with)
    assert peer.closed_with == [None]
    peer.dispatcher.parked[0].resolve(b"too late")
    peer.run(asyncio.sleep(0))
    assert peer.connection.closed


def test_reading_stops_at_the_limit_of_unanswered_requests(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer = new_peer(loop, world, requests_unanswered_max=4)
    peer.send(*[b"park %04d" % number for number in range(50)])
    peer.until(lambda: len(peer.dispatcher.parked) == 4)
    for _ in range(20):
        peer.run(asyncio.sleep(0))
    assert len(peer.dispatcher.parked) == 4
    for number in range(50):
        peer.until(lambda number=number: len(peer.dispatcher.parked) > number)
        assert len(peer.dispatcher.parked) <= number + 4
        peer.dispatcher.parked[number].resolve(b"answer %04d" % number)
        assert peer.receive() == b"answer %04d" % number


def test_a_slow_reader_holds_a_bounded_amount_of_answers(loop: asyncio.AbstractEventLoop, world: World) -> None:
    peer = new_peer(loop, world, unsent_bytes_max=100_000)
    peer.dispatcher.answers[b"big answer"] = framed(b"x" * 50_000)
    peer.send(*[b"big answer"] * 100)
    for _ in range(50):
        peer.run(asyncio.sleep(0))
    assert len(peer.dispatcher.frames) < 50
    assert peer.connection._machine.outgoing.unsent_bytes <= 150_004
    assert [peer.receive() for _ in range(100)] == [b"x" * 50_000] * 100


@pytest.mark.parametrize("size", [10, 8 * 1024, 100_000, 3_000_000])
def test_regions_of_files_are_sent_between_buffers(peer: Peer, world: World, tmp_path: Path, size: int) -> None:
    content = os.urandom(1024) * (size // 1024 + 2)
    file = world.files.open(str(tmp_path / "segment"))
    file.append(content)
    region, second = FileRegion(file, 7, size), FileRegion(file, 0, 5)
    length = 3 + size + 5 + 4
    peer.dispatcher.answers[b"fetch it"] = [struct.pack(">i", length) + b"abc", b"", region, second, b"tail"]
    peer.send(b"fetch it", b"and then")
    assert peer.receive() == b"abc" + content[7 : 7 + size] + content[:5] + b"tail"
    assert peer.receive() == b"and then"
    peer.send(b"still there")
    assert peer.receive() == b"still there"


class ColdFile:
    """A file whose pages are not in memory until a worker has read them."""

    def __init__(self, file: object) -> None:
        self._file = file
        self.warm = False
        self.positions_read: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def read(self, position: int, length: int) -> bytes:
        self.positions_read.append(position)
        self.gate.wait(20)
        self.warm = True
        return self._file.read(position, length)  # type: ignore[attr-defined, no-any-return]

    def read_nowait(self, position: int, length: int) -> bytes | None:
        return self._file.read(position, length) if self.warm else None  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [100, 100_000])
def test_cold_regions_are_read_on_a_worker_first(peer: Peer, world: World, tmp_path: Path, size: int) -> None:
    file = world.files.open(str(tmp_path / "segment"))
    file.append(b"y" * size)
    cold = ColdFile(file)
    peer.dispatcher.answers[b"fetch it"] = [struct.pack(">i", size), FileRegion(cold, 0, size)]  # type: ignore[arg-type]
    peer.send(b"fetch it", b"and then")
    assert peer.receive() == b"y" * size
    assert cold.warm
    assert peer.receive() == b"and then"


@pytest.mark.parametrize("size", [100, 100_000])
def test_other_requests_do_not_disturb_a_region_that_waits_for_the_disk(
    peer: Peer, world: World, tmp_path: Path, size: int
) -> None:
    file = world.files.open(str(tmp_path / "segment"))
    file.append(b"y" * size)
    cold = ColdFile(file)
    cold.gate.clear()
    peer.dispatcher.answers[b"fetch it"] = [struct.pack(">i", size), FileRegion(cold, 0, size)]  # type: ignore[arg-type]
    peer.send(b"fetch it")
    peer.until(lambda: cold.positions_read)
    for number in range(3):
        peer.send(b"request %d" % number)
        peer.until(lambda number=number: len(peer.dispatcher.frames) == number + 2)
    cold.gate.set()
    assert peer.receive() == b"y" * size
    assert [peer.receive() for _ in range(3)] == [b"request 0", b"request 1", b"request 2"]
    assert cold.positions_read == [0]


def test_each_region_is_asked_whether_it_is_cold(peer: Peer, world: World, tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        file = world.files.open(str(tmp_path / name))
        file.append(name.encode() * 40_000)
        files.append(ColdFile(file))
    parts: list[Part] = [struct.pack(">i", 200_000), *(FileRegion(file, 0, 100_000) for file in files)]  # type: ignore[arg-type]
    peer.dispatcher.answers[b"fetch it"] = parts
    peer.send(b"fetch it")
    assert peer.receive() == (b"one" * 40_000)[:100_000] + (b"two" * 40_000)[:100_000]
    assert [file.warm for file in files] == [True, True]


def test_a_region_after_one_that_left_in_pieces_is_asked_too(
    loop: asyncio.AbstractEventLoop, world: World, tmp_path: Path
) -> None:
    peer = new_peer(loop, world, send_buffer_bytes=4096)
    files = []
    for name in ("one", "two"):
        file = world.files.open(str(tmp_path / name))
        file.append(name.encode() * 50_000)
        files.append(ColdFile(file))
    parts: list[Part] = [struct.pack(">i", 250_000)]
    parts += [FileRegion(files[0], 0, 150_000), FileRegion(files[1], 0, 100_000)]  # type: ignore[arg-type]
    peer.dispatcher.answers[b"fetch it"] = parts
    peer.send(b"fetch it")
    assert peer.receive() == b"one" * 50_000 + (b"two" * 50_000)[:100_000]
    assert [file.positions_read for file in files] == [[0], [0]]


def test_small_answers_leave_in_pieces_when_the_socket_takes_no_more(
    loop: asyncio.AbstractEventLoop, world: World
) -> None:
    peer = new_peer(loop, world, send_buffer_bytes=4096)
    requests = [b"%04d" % number * 75 for number in range(90)]
    peer.send(*requests)
    peer.until(lambda: len(peer.dispatcher.frames) == len(requests))
    assert peer.connection._machine.outgoing.parts
    assert [peer.receive() for _ in requests] == requests


@pytest.mark.parametrize("size", [30_000, 300])
def test_a_region_beyond_the_end_of_its_file_closes_the_connection(
    peer: Peer, world: World, tmp_path: Path, size: int
) -> None:
    file = world.files.open(str(tmp_path / "segment"))
    file.append(b"z" * (size - 1))
    peer.dispatcher.answers[b"fetch it"] = [struct.pack(">i", size), FileRegion(file, 0, size)]
    peer.send(b"fetch it")
    peer.until(lambda: peer.closed_with)
    assert "segment" in str(peer.closed_with[0])
