"""Requests from one node to another over real sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.host.peers import PeerConnections, PeerSettings
from ottla.model.deferred import Deferred
from ottla.wire.framing import parse_request, response_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.peers import Endpoint, PeerUnreachable

Answer = Callable[[Message], Message | None]


class FakePeer:
    """Supports Heartbeat and SyncGroup 0-2; answers through `answer`, where None means no response."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        # Answers are held back until so many bytes are there, and then sent in pieces of this size.
        self.held_bytes = 0
        self.piece_bytes = 1 << 30
        self.versions: list[int] = []
        self.connections = 0
        # Answers that are left out when the next is due.
        self.skipped = 0

    async def start(self) -> Endpoint:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        return Endpoint(host, port)

    async def stop(self) -> None:
        self.server.close()
        await self.server.wait_closed()

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        for start in range(0, len(data), self.piece_bytes):
            writer.write(data[start : start + self.piece_bytes])
            await writer.drain()
            # The other side reads before the next piece is there.
            for _ in range(3):
                await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        held = b""
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header, request = parse_request(memoryview(bytearray(await reader.readexactly(size))))
                response: Message | None
                if isinstance(request, ApiVersionsRequest):
                    spoken = [ApiVersion(api_key=key, min_version=0, max_version=2) for key in (12, 14)]
                    response = ApiVersionsResponse(api_keys=spoken)
                else:
                    self.versions.append(header.api_version)
                    response = self.answer(request)
                if response is None:
                    continue
                if self.skipped and not isinstance(request, ApiVersionsRequest):
                    self.skipped -= 1
                    continue
                parts = response_parts(header.api_key, header.api_version, header.correlation_id, response)
                held += b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
                if isinstance(request, ApiVersionsRequest) or len(held) >= self.held_bytes:
                    await self._write(writer, held)
                    held = b""
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


async def finished(deferred: Deferred[Message]) -> Message:
    done = asyncio.Event()
    deferred.when_done(lambda _: done.set())
    await asyncio.wait_for(done.wait(), 60)
    return deferred.result()


def run(answer: Answer, scenario: Callable[[PeerConnections, Endpoint, FakePeer], object]) -> None:
    async def main() -> None:
        peer = FakePeer(answer)
        endpoint = await peer.start()
        peers = PeerConnections(asyncio.get_running_loop(), client_id="1", response_bytes_max=1_000_000)
        try:
            await scenario(peers, endpoint, peer)  # type: ignore[misc]
        finally:
            peers.close()
            await peer.stop()

    asyncio.run(main())


def test_answers_come_back_in_the_version_both_speak() -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        sent = [
            peers.send(endpoint, HeartbeatRequest(group_id=str(number)), purpose="test", timeout_ms=5000)
            for number in range(3)
        ]
        answers = [await finished(deferred) for deferred in sent]
        assert [answer.error_code for answer in answers] == [0, 1, 2]  # type: ignore[attr-defined]
        assert peer.versions == [2, 2, 2]
        assert peer.connections == 1

    def answer(request: Message) -> Message:
        assert isinstance(request, HeartbeatRequest)
        return HeartbeatResponse(error_code=int(request.group_id))

    run(answer, scenario)


@pytest.mark.parametrize(("held_bytes", "piece_bytes"), [(0, 1), (0, 3), (70, 9), (70, 1 << 20)])
def test_answers_in_pieces_and_several_at_once(held_bytes: int, piece_bytes: int) -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        peer.held_bytes, peer.piece_bytes = held_bytes, piece_bytes
        sent = [
            peers.send(endpoint, HeartbeatRequest(group_id=str(number)), purpose="test", timeout_ms=5000)
            for number in range(10)
        ]
        answers = [await finished(deferred) for deferred in sent]
        assert [answer.error_code for answer in answers] == list(range(10))  # type: ignore[attr-defined]

    def answer(request: Message) -> Message:
        assert isinstance(request, HeartbeatRequest)
        return HeartbeatResponse(error_code=int(request.group_id))

    run(answer, scenario)


@pytest.mark.parametrize("piece_bytes", [1 << 14, 1 << 16, 1 << 30])
def test_large_and_small_answers_by_turns_arrive_whole(piece_bytes: int) -> None:
    sizes = [0, 200_000, 200_001, 10, 300_000, 65_536, 65_526, 3, 250_000]
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]

    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        def ask(number: int) -> Deferred[Message]:
            return peers.send(endpoint, SyncGroupRequest(group_id=str(number)), purpose="test", timeout_ms=5000)

        peer.piece_bytes = piece_bytes
        for number, body in enumerate(bodies):
            assert (await finished(ask(number))).assignment == body  # type: ignore[attr-defined]
        # Several at once: the size of one comes with the end of another, and all are kept.
        sent = [ask(number) for number in range(len(bodies))]
        answers = [await finished(deferred) for deferred in sent]
        assert [bytes(answer.assignment) for answer in answers] == bodies  # type: ignore[attr-defined]
        assert peer.connections == 1

    def answer(request: Message) -> Message:
        assert isinstance(request, SyncGroupRequest)
        return SyncGroupResponse(assignment=bodies[int(request.group_id)])

    run(answer, scenario)


def test_each_purpose_has_its_own_connection() -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        silent = peers.send(endpoint, HeartbeatRequest(group_id="silent"), purpose="a", timeout_ms=5000)
        answered = peers.send(endpoint, HeartbeatRequest(group_id="x"), purpose="b", timeout_ms=5000)
        await finished(answered)
        assert not silent.done
        assert peer.connections == 2

    def answer(request: Message) -> Message | None:
        assert isinstance(request, HeartbeatRequest)
        return None if request.group_id == "silent" else HeartbeatResponse()

    run(answer, scenario)


def test_a_silent_peer_fails_pending_requests_and_the_next_request_connects_again() -> None:
    silent = True

    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        nonlocal silent
        pending = peers.send(endpoint, HeartbeatRequest(), purpose="test", timeout_ms=50)
        with pytest.raises(PeerUnreachable, match="no answer within 50 ms"):
            await finished(pending)
        silent = False
        await finished(peers.send(endpoint, HeartbeatRequest(), purpose="test", timeout_ms=5000))
        assert peer.connections == 2

    run(lambda _: None if silent else HeartbeatResponse(), scenario)


def test_a_closed_port_and_an_unknown_api_are_unreachable() -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        pending = peers.send(Endpoint("127.0.0.1", 1), HeartbeatRequest(), purpose="test", timeout_ms=5000)
        with pytest.raises(PeerUnreachable):
            await finished(pending)
        from ottla.wire.messages.list_groups import ListGroupsRequest

        with pytest.raises(PeerUnreachable, match="does not support ListGroups"):
            await finished(peers.send(endpoint, ListGroupsRequest(), purpose="test", timeout_ms=5000))

    run(lambda _: HeartbeatResponse(), scenario)


def heartbeats(peers: PeerConnections, endpoint: Endpoint, count: int) -> list[Deferred[Message]]:
    return [
        peers.send(endpoint, HeartbeatRequest(group_id=str(number)), purpose="test", timeout_ms=2000)
        for number in range(count)
    ]


def echo(request: Message) -> Message:
    assert isinstance(request, HeartbeatRequest)
    return HeartbeatResponse(error_code=int(request.group_id))


def stumble(_: Deferred[Message]) -> None:
    raise RuntimeError("a defect")


def test_after_a_defect_no_request_gets_the_answer_to_another_one(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        await finished(peers.send(endpoint, HeartbeatRequest(group_id="7"), purpose="test", timeout_ms=2000))
        # Three answers in one read, then the others: what comes behind the defect is lost.
        peer.held_bytes = 3 * 14
        sent = heartbeats(peers, endpoint, 6)
        sent[0].when_done(stumble)
        for deferred in sent[1:]:
            with pytest.raises(PeerUnreachable):
                await finished(deferred)
        peer.held_bytes = 0
        again = heartbeats(peers, endpoint, 2)
        assert [(await finished(heartbeat)).error_code for heartbeat in again] == [0, 1]  # type: ignore[attr-defined]

    run(echo, scenario)
    assert "a defect" in caplog.text


def test_a_response_to_another_request_ends_the_connection() -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        peer.skipped = 1
        for deferred in heartbeats(peers, endpoint, 2):
            with pytest.raises(PeerUnreachable):
                await finished(deferred)

    run(echo, scenario)


def test_a_defect_in_one_waiter_leaves_no_other_waiting_when_the_connection_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(peers: PeerConnections, endpoint: Endpoint, peer: FakePeer) -> None:
        first, second = heartbeats(peers, endpoint, 2)
        first.when_done(stumble)
        peers.disconnect(endpoint, purpose="test")
        with pytest.raises(PeerUnreachable):
            await finished(second)

    run(lambda _: None, scenario)
    assert "a defect" in caplog.text


def test_a_name_that_cannot_be_resolved_now_may_be_asked_for_again() -> None:
    class BusyWorkers:
        def submit(self, function: object, *arguments: object) -> Deferred[Any]:
            return Deferred.failed(OSError("too much to do"))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        peers = PeerConnections(loop, client_id="1", response_bytes_max=1000, workers=BusyWorkers())
        for _ in range(2):
            pending = peers.send(Endpoint("a.name", 1), HeartbeatRequest(), purpose="test", timeout_ms=100)
            assert isinstance(pending.error, PeerUnreachable)
        peers.close()

    asyncio.run(main())


def test_an_attempt_may_take_twice_as_long_as_the_last_up_to_a_limit() -> None:
    """KIP-601; after a successful connection, the timeout begins at its minimum again."""

    class NameServer:
        def __init__(self) -> None:
            self.is_there = False

        def submit(self, function: object, *arguments: object) -> Deferred[Any]:
            return Deferred.resolved("127.0.0.1") if self.is_there else Deferred.failed(OSError("unknown host"))

    async def main() -> None:
        loop, names, peer = asyncio.get_running_loop(), NameServer(), FakePeer(lambda _: HeartbeatResponse())
        limits: list[str] = []
        call_later = loop.call_later

        def noting(delay: float, callback: Any, *arguments: Any) -> Any:
            limits.extend(argument for argument in arguments if str(argument).startswith("not connected"))
            return call_later(delay, callback, *arguments)

        loop.call_later = noting  # type: ignore[method-assign]
        settings = PeerSettings(setup_timeout_ms=10_000, setup_timeout_ms_max=30_000)
        peers = PeerConnections(loop, client_id="1", response_bytes_max=1000, workers=names, settings=settings)
        endpoint = Endpoint("a.name", (await peer.start()).port)

        def ask() -> Deferred[Message]:
            return peers.send(endpoint, HeartbeatRequest(), purpose="test", timeout_ms=60_000)

        for _ in range(3):
            assert isinstance(ask().error, PeerUnreachable)
        names.is_there = True
        await finished(ask())
        # The connection is closed, which resets the timeouts.
        peers._connections[endpoint, "test"].close("cut")
        await finished(ask())
        peers.close()
        await peer.stop()
        assert limits == [f"not connected within {limit} ms" for limit in (10_000, 20_000, 30_000, 30_000, 10_000)]

    asyncio.run(main())


def test_only_followers_have_a_receive_buffer_of_their_own() -> None:
    async def main() -> None:
        peer = FakePeer(lambda _: HeartbeatResponse())
        endpoint = await peer.start()
        settings = PeerSettings(replica_receive_buffer_bytes=30_000)
        peers = PeerConnections(asyncio.get_running_loop(), client_id="1", response_bytes_max=1000, settings=settings)
        sizes = {}
        for purpose in ("replica-fetch-0", "elections"):
            await finished(peers.send(endpoint, HeartbeatRequest(), purpose=purpose, timeout_ms=60_000))
            connected = peers._connections[endpoint, purpose]._socket
            assert connected is not None
            sizes[purpose] = connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        peers.close()
        await peer.stop()
        # Linux doubles the size for its own bookkeeping.
        assert sizes["replica-fetch-0"] in (30_000, 60_000)
        assert sizes["elections"] not in (30_000, 60_000)

    asyncio.run(main())
