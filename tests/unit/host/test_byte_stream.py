"""A connection over a stream that is no plain socket: bytes change on the way, and files pass through memory."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ottla.host.byte_stream import StreamTraits
from ottla.model.ports import FileRegion, World
from tests.unit.host.test_connection import Peer

# As an encrypted stream is.
TRAITS = StreamTraits(sends_files=False, keeps_bytes=True)
MASK = bytes(255 - number for number in range(256))
BUFFERED_BYTES = 50_000


class Masked:
    """Inverts every byte, and reads ahead of what it is asked for, as an encrypted stream does."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain
        self._read_ahead = b""
        self.fileno, self.close = plain.fileno, plain.close
        self.recv = plain.recv

    def recv_into(self, buffer: memoryview) -> int:
        if not self._read_ahead:
            self._read_ahead = self._plain.recv(BUFFERED_BYTES).translate(MASK)
        taken, self._read_ahead = self._read_ahead[: len(buffer)], self._read_ahead[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def recvmsg_into(self, buffers: Iterable[memoryview]) -> tuple[int, list[object], int, None]:
        return self.recv_into(next(iter(buffers))), [], 0, None

    def send(self, data: bytes | memoryview) -> int:
        return self._plain.send(bytes(data).translate(MASK))

    def sendmsg(self, buffers: Iterable[bytes], ancillary: object, flags: int) -> int:
        return self.send(b"".join(buffers))


@pytest.fixture
def peer(loop: asyncio.AbstractEventLoop, world: World) -> Iterator[Peer]:
    peer = Peer(loop, world, stream_of=Masked, traits=TRAITS, send_buffer_bytes=20_000)
    yield peer
    peer.connection.close()
    peer.client.close()


def exchange(peer: Peer, *requests: bytes) -> list[bytes]:
    """Sends them all at once and gives the answers."""
    data = b"".join(struct.pack(">i", len(request)) + request for request in requests).translate(MASK)

    async def talk() -> list[bytes]:
        sending = asyncio.ensure_future(peer.loop.sock_sendall(peer.client, data))
        answers, received = [], b""
        while len(answers) < len(requests):
            received += (await peer.loop.sock_recv(peer.client, 65_536)).translate(MASK)
            while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
                answers.append(received[4 : 4 + size])
                received = received[4 + size :]
        await sending
        return answers

    return peer.run(talk())  # type: ignore[return-value]


@pytest.mark.parametrize("size", [100, 40_000, 70_000, 500_000])
def test_requests_arrive_and_answers_leave_through_the_stream(peer: Peer, size: int) -> None:
    requests = [bytes([97 + number]) * size for number in range(5)]
    assert exchange(peer, *requests) == requests
    assert exchange(peer, b"a small one", *requests) == [b"a small one", *requests]


def test_bytes_that_the_stream_has_read_ahead_are_read_after_a_pause(peer: Peer) -> None:
    """Nothing is left in the socket by then, so that no event tells of them."""
    requests = [bytes([97 + number]) * 33_000 for number in range(3)]
    # The last request has begun with the bytes that were read for the second.
    peer.dispatcher.mutes[requests[1]] = 0.01
    assert exchange(peer, *requests) == requests


@pytest.mark.parametrize("size", [10_000, 65_536, 65_537, 1_000_000])
def test_regions_of_files_pass_through_memory(peer: Peer, world: World, tmp_path: Path, size: int) -> None:
    file = world.files.open(str(tmp_path / "segment"))
    data = bytes(number % 251 for number in range(size))
    file.append(b"before" + data + b"after")
    peer.dispatcher.answers[b"the region"] = [
        struct.pack(">i", size + 4) + b"<<",
        FileRegion(file, len(b"before"), size),
        b">>",
    ]
    assert exchange(peer, b"the region", b"something else") == [b"<<" + data + b">>", b"something else"]
    file.close()
