"""Bytes through an encrypted stream: whatever is accepted arrives once and in order, however slowly it is read."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ottla.host.tls_stream import RECORD_BYTES, TlsStream
from ottla.tls.authority import new_authority
from ottla.tls.contexts import client_context, server_context
from ottla.tls.settings import tls_settings

AUTHORITY = new_authority()
PAIR = AUTHORITY.for_node("localhost")
SERVER = server_context(
    tls_settings(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": PAIR.key,
            "ssl.keystore.certificate.chain": PAIR.certificates,
        }
    )
)
CLIENT = client_context(
    tls_settings({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate})
)


class Ends:
    def __init__(self) -> None:
        near, far = socket.socketpair()
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        self.near = SERVER.wrap_socket(near, server_side=True, do_handshake_on_connect=False)
        self.far = CLIENT.wrap_socket(far, server_hostname="localhost", do_handshake_on_connect=False)
        waiting = [self.near, self.far]
        while waiting:
            for end in list(waiting):
                with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    end.do_handshake()
                    waiting.remove(end)
        self.stream = TlsStream(self.near)

    def read(self, size: int) -> bytes:
        with suppress(ssl.SSLWantReadError):
            return self.far.recv(size)
        return b""


@pytest.fixture
def ends() -> Iterator[Ends]:
    both_ends = Ends()
    yield both_ends
    both_ends.stream.close()
    both_ends.far.close()


@pytest.mark.parametrize("seed", range(8))
def test_bytes_arrive_in_order_through_a_full_socket(ends: Ends, seed: int) -> None:
    """The queue grows and is cut in other ways between two attempts, as the queue of an outbox is."""
    chance = random.Random(seed)
    sent, received = bytearray(), bytearray()
    queue: list[bytes] = []
    blocked = 0
    while len(sent) < 600_000:
        queue += [
            chance.randbytes(chance.choice((1, 90, 5000, RECORD_BYTES, 40_000))) for _ in range(chance.randint(1, 4))
        ]
        try:
            if chance.random() < 0.5:
                # Some of the queue is offered, in pieces or joined.
                count = ends.stream.sendmsg(queue[: chance.randint(1, len(queue))], (), 0)
            else:
                count = ends.stream.send(b"".join(queue) if chance.random() < 0.5 else queue[0])
        except BlockingIOError:
            blocked += 1
            received += ends.read(chance.randint(1, 30_000))
            continue
        whole = b"".join(queue)
        sent += whole[:count]
        queue = [whole[count:]] if len(whole) > count else []
    rest = b"".join(queue)
    while len(received) < len(sent) + len(rest):
        with suppress(BlockingIOError):
            rest_sent = ends.stream.send(rest) if rest else 0
            sent += rest[:rest_sent]
            rest = rest[rest_sent:]
        received += ends.read(65_536)
    assert blocked
    assert received == sent


def test_a_read_fills_its_buffer_from_several_records(ends: Ends) -> None:
    data = random.Random(1).randbytes(60_000)
    received = bytearray()
    at = 0
    while len(received) < len(data):
        with suppress(ssl.SSLWantWriteError):
            at += ends.far.send(data[at : at + 3000])
        buffer = memoryview(bytearray(10_000))
        with suppress(BlockingIOError):
            received += buffer[: ends.stream.recvmsg_into([buffer[:7000], buffer[7000:]])[0]]
    assert received == data


def test_bytes_that_openssl_holds_are_read_without_an_event(ends: Ends) -> None:
    ends.far.send(b"a" * 5000)
    small = memoryview(bytearray(1000))
    assert [ends.stream.recv_into(small) for _ in range(5)] == [1000] * 5
    with pytest.raises(BlockingIOError):
        ends.stream.recv_into(small)


def test_the_end_and_a_broken_record(ends: Ends) -> None:
    buffer = memoryview(bytearray(1000))
    ends.far.send(b"last words")
    raw = socket.socket(fileno=ends.far.detach())
    raw.send(b"\x17\x03\x03\x00\x30" + bytes(48))
    assert ends.stream.recv_into(buffer) == len(b"last words")
    with suppress(ssl.SSLError):
        assert ends.stream.recv_into(buffer) == 0
    raw.close()


def test_a_client_that_says_goodbye(ends: Ends) -> None:
    with suppress(OSError):
        ends.far.unwrap()
    assert ends.stream.recv_into(memoryview(bytearray(10))) == 0
    ends.stream.close()
    ends.stream.close()
