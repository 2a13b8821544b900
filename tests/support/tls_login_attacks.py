"""Attacks on a SASL_SSL listener. They run in separate processes, beside the honest client of the test."""

from __future__ import annotations

import os
import random
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["ATTACKS", "SLOW_LOGINS", "TlsClient", "attack_until", "open_idle_connections"]

TOKEN_BYTES = 90_000
CLOSED = (ConnectionClosed, OSError)


class TlsClient(RawClient):
    """A raw client over TLS."""

    def __init__(
        self, port: int, trusted: str, *, store: str | None = None, version: ssl.TLSVersion | None = None
    ) -> None:
        super().__init__(f"127.0.0.1:{port}", timeout_seconds=60)
        context = ssl.create_default_context(cafile=trusted)
        if store is not None:
            context.load_cert_chain(store)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        self.socket: ssl.SSLSocket = context.wrap_socket(self.socket, server_hostname="localhost")  # type: ignore[assignment]

    def log_in(self, user: str, password: str) -> int:
        """Logs in with PLAIN; returns the error code."""
        self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        code: int = self.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2).error_code
        return code


def steps_out_of_order(port: int, trusted: str) -> None:
    with TlsClient(port, trusted) as client:
        steps = [
            (SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"), 2),
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 0),
            (SaslHandshakeRequest(mechanism="NONE"), 1),
        ]
        random.shuffle(steps)
        for request, version in steps:
            client.send(request, version)
        while client.socket.recv(4096):
            pass


def oversized_tokens(port: int, trusted: str) -> None:
    with TlsClient(port, trusted) as client:
        client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        commas = b"n,,n=alice,r=abc" + b",x=y" * (TOKEN_BYTES // 4)
        client.send(SaslAuthenticateRequest(auth_bytes=random.choice([commas, bytes(TOKEN_BYTES)])), 2)
        client.socket.sendall(struct.pack(">i", 90_000_000))
        while client.socket.recv(4096):
            pass


def truncated_tokens(port: int, trusted: str) -> None:
    with TlsClient(port, trusted) as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), random.choice([0, 1]))
        client.socket.sendall(struct.pack(">i", 500) + bytes(random.randrange(400)))


def truncated_records(port: int, trusted: str) -> None:
    """Sends TLS records that announce more data than they have, after a complete handshake."""
    with TlsClient(port, trusted) as client:
        raw = socket.socket(fileno=client.socket.detach())
        with raw:
            raw.sendall(
                b"\x17\x03\x03" + struct.pack(">H", random.choice([5, 0x4000, 0xFFFF])) + b"x" * random.randrange(9)
            )
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass


def renegotiation(port: int, trusted: str) -> None:
    """Requests a second handshake in a TLS 1.2 session, as far as possible without the session's keys."""
    with TlsClient(port, trusted, version=ssl.TLSVersion.TLSv1_2) as client:
        outgoing = ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=trusted)
        with suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
        raw = socket.socket(fileno=client.socket.detach())
        with raw:
            raw.sendall(outgoing.read())
            while raw.recv(4096):
                pass


def stuffed_credentials(port: int, trusted: str) -> None:
    with TlsClient(port, trusted) as client:
        client.log_in(f"user-{random.randrange(10**6)}", f"guess-{random.random()}")


def requests_before_the_login(port: int, trusted: str) -> None:
    with TlsClient(port, trusted) as client:
        client.send(MetadataRequest(topics=None), 12)
        client.receive_frame()


ATTACKS: dict[str, Callable[[int, str], None]] = {
    "logins out of order": steps_out_of_order,
    "oversized tokens": oversized_tokens,
    "truncated tokens": truncated_tokens,
    "truncated TLS records": truncated_records,
    "TLS renegotiation": renegotiation,
    "credential stuffing": stuffed_credentials,
    "requests before the login": requests_before_the_login,
}


# Slow-loris: tokens that arrive byte by byte after complete TLS handshakes.
SLOW_LOGINS = "slow logins"
SLOW_CONNECTIONS = 150


def send_byte_by_byte(port: int, trusted: str, seconds: float) -> int:
    """Sends bytes on many connections in turn; returns the number of sent bytes."""
    end, sent = time.monotonic() + seconds, 0
    frame = b"\0\1\0\0" + bytes(65_536)
    with ExitStack() as stack:
        slow = [stack.enter_context(TlsClient(port, trusted)) for _ in range(SLOW_CONNECTIONS)]
        for position in range(len(frame) - 1):
            for client in slow:
                client.socket.sendall(frame[position : position + 1])
                sent += 1
            if time.monotonic() > end:
                break
    return sent


def attack_until(name: str, port: int, trusted: str, seconds: float, begun: str) -> None:
    """Writes the number of attempts to the file when they end.

    Real attackers have their own machines. These get only the CPU time that the node and its clients leave.
    """
    if os.sched_getscheduler(0) == os.SCHED_RR:
        # The tests were started with `chrt -r 5` on a busy machine.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    else:
        os.setpriority(os.PRIO_PROCESS, 0, 19)
    if name == SLOW_LOGINS:
        Path(begun).write_text(str(send_byte_by_byte(port, trusted, seconds)))
        return
    attack, attempts, end = ATTACKS[name], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(*CLOSED):
            attack(port, trusted)
        attempts += 1
    Path(begun).write_text(str(attempts))


def open_idle_connections(port: int, trusted: str, count: int, ready: str, ends: str) -> None:
    """Opens connections with complete TLS handshakes, writes a file, and keeps them until the file `ends` exists."""
    context = ssl.create_default_context(cafile=trusted)
    connections = []
    session: ssl.SSLSession | None = None
    for _ in range(count):
        raw = socket.create_connection(("127.0.0.1", port), timeout=60)
        connected = context.wrap_socket(raw, server_hostname="localhost", session=session)
        connections.append(connected)
    Path(ready).write_text(str(len(connections)))
    while not Path(ends).exists():
        time.sleep(0.2)
    for connected in connections:
        connected.close()
