"""Listeners on real loopback sockets: admission, idle connections, refusals, orderly ends."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.authorization import AllowAll
from ottla.broker.context import ConnectionContext, ListenerInfo, Principal, Unlimited
from ottla.broker.pending import Part, ResponseWaiter
from ottla.broker.statistics import NodeStatistics
from ottla.host.admission import Admission, AdmissionLimits
from ottla.host.connection import SharedReadState
from ottla.host.listener import UNSENT_BYTES_MAX, BindError, Listener, SocketOptions, bind
from ottla.host.logs import RateLimit
from ottla.model.ports import World
from ottla.wire.connection.request_memory import RequestMemory
from ottla.wire.connection.server import ConnectionLimits


class Echo:
    def dispatch(self, frame: memoryview, connection: ConnectionContext, waiter: ResponseWaiter) -> list[Part]:
        return [struct.pack(">i", len(frame)), frame]


class Served:
    """A listener that echoes, and clients that live on the same loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, world: World) -> None:
        self.loop = loop
        self.world = world
        self.clients: list[socket.socket] = []
        self.listeners: list[Listener] = []
        self.statistics = NodeStatistics()
        self.quota = Unlimited()
        self.principal_builder: Any = None

    def listen(
        self, admission: Admission | None = None, *, idle_ms_max: int = -1, name: str = "A", host: str = "127.0.0.1"
    ) -> Listener:
        options = SocketOptions(send_buffer_bytes=50_000, receive_buffer_bytes=50_000)
        bound = bind(host, 0, options)
        port = bound.getsockname()[1]
        info = ListenerInfo(
            name=name,
            security_protocol="PLAINTEXT",
            host="127.0.0.1",
            port=port,
            advertised_host="127.0.0.1",
            advertised_port=port,
        )
        broker: Any = SimpleNamespace(
            authorizer=AllowAll(),
            quota=self.quota,
            statistics=self.statistics,
            principal_builder=self.principal_builder,
            audit=None,
        )
        listener = Listener(
            loop=self.loop,
            world=self.world,
            broker=broker,
            dispatcher=Echo(),
            bound_socket=bound,
            info=info,
            admission=admission or Admission(AdmissionLimits()),
            shared=SharedReadState(self.loop, RequestMemory(request_bytes_max=1_000_000)),
            limits=ConnectionLimits(request_bytes_max=1000, requests_unanswered_max=10, unsent_bytes_max=10_000),
            options=options,
            idle_ms_max=idle_ms_max,
        )
        listener.open()
        self.listeners.append(listener)
        return listener

    def connect(self, listener: Listener) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)
        self.clients.append(client)
        self.run(self.loop.sock_connect(client, ("127.0.0.1", listener.info.port)))
        return client

    def echoes(self, client: socket.socket) -> bool:
        """Whether a request on this connection is answered (False: the other side closed it)."""

        async def ask() -> bool:
            try:
                await self.loop.sock_sendall(client, b"\x00\x00\x00\x08question")
                return await self.loop.sock_recv(client, 100) == b"\x00\x00\x00\x08question"
            except OSError:
                return False

        return bool(self.run(ask()))

    def is_served(self, client: socket.socket) -> bool:
        """Whether an answer is there after a few turns of the loop; an unserved client waits in the backlog."""
        client.send(b"\x00\x00\x00\x08question")
        for _ in range(20):
            self.run(asyncio.sleep(0))
        try:
            return bool(client.recv(100))
        except OSError:
            # Nothing has come, or it was cut off.
            return False

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 60))


@pytest.fixture
def served(loop: asyncio.AbstractEventLoop, world: World) -> Iterator[Served]:
    served = Served(loop, world)
    yield served
    for client in served.clients:
        client.close()
    for listener in served.listeners:
        listener.stop_accepting()
        listener.close_connections()


def test_answers_and_counts(served: Served) -> None:
    listener = served.listen()
    clients = [served.connect(listener) for _ in range(3)]
    assert all(served.echoes(client) for client in clients)
    assert listener.connections == 3
    assert served.statistics.connections_accepted == 3


def test_beyond_the_limit_per_address_connections_are_closed(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    listener = served.listen(Admission(AdmissionLimits(connections_per_address_max=2)))
    first, second, third = (served.connect(listener) for _ in range(3))
    assert served.echoes(first)
    assert served.echoes(second)
    assert not served.echoes(third)
    assert "max.connections.per.ip" in caplog.text
    assert served.statistics.connections_refused == 1
    first.close()
    while listener.connections > 1:
        served.run(asyncio.sleep(0))
    assert served.echoes(served.connect(listener))


class Impatient(Unlimited):
    """Lets so many connections of an address in, and holds the others for a while."""

    limits_connections = True

    def __init__(self, admitted: int, held_seconds: float) -> None:
        self.admitted = admitted
        self.held_seconds = held_seconds

    def connected(self, address: str) -> float:
        assert address == "127.0.0.1"
        self.admitted -= 1
        return 0.0 if self.admitted >= 0 else self.held_seconds


def test_who_connects_too_often_is_not_served_and_cut_off_later(served: Served) -> None:
    served.quota = Impatient(admitted=1, held_seconds=0.5)
    listener = served.listen()
    assert served.echoes(served.connect(listener))
    held = served.connect(listener)
    while not served.statistics.connections_refused:
        served.run(asyncio.sleep(0))
    assert not served.is_served(held)
    assert listener.connections == 1
    assert served.statistics.connections_refused == 1
    # In the end the connection is closed, and no state of it is left.
    assert not served.echoes(held)
    assert not listener._held


def test_those_who_are_held_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.host.listener.HELD_CONNECTIONS_MAX", 2)
    served.quota = Impatient(admitted=0, held_seconds=1000.0)
    listener = served.listen()
    clients = [served.connect(listener) for _ in range(3)]
    assert not served.echoes(clients[2])
    assert len(listener._held) == 2
    listener.close_connections()
    assert not served.echoes(clients[0])


def test_a_principal_builder_that_fails_costs_its_connection_alone(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    clients = iter(range(10))

    def build(_: ConnectionContext, principal: Principal) -> Principal:
        if next(clients) < 2:
            raise LookupError("no such user")
        return principal

    served.principal_builder = build
    listener = served.listen(Admission(AdmissionLimits(connections_per_address_max=1)))
    assert [served.echoes(served.connect(listener)) for _ in range(3)] == [False, False, True]
    assert "principal.builder.class failed" in caplog.text


def test_overrides_by_address_go_before_the_general_limit(served: Served) -> None:
    limits = AdmissionLimits(connections_per_address_max=0, connections_per_address_overrides={"127.0.0.1": 1})
    listener = served.listen(Admission(limits))
    assert served.echoes(served.connect(listener))
    assert not served.echoes(served.connect(listener))


@pytest.mark.parametrize(
    "limits",
    [AdmissionLimits(connections_max=1), AdmissionLimits(connections_per_listener_max={"A": 1})],
)
def test_at_the_limit_of_connections_the_next_waits_until_one_ends(served: Served, limits: AdmissionLimits) -> None:
    listener = served.listen(Admission(limits))
    first = served.connect(listener)
    assert served.echoes(first)
    second = served.connect(listener)
    assert not served.is_served(second)
    first.close()

    async def answered() -> bytes:
        return await served.loop.sock_recv(second, 100)

    assert served.run(answered()) == b"\x00\x00\x00\x08question"


def test_a_listeners_own_limit_leaves_the_others_alone(served: Served) -> None:
    admission = Admission(AdmissionLimits(connections_per_listener_max={"A": 0}))
    closed, open_to_all = served.listen(admission, name="A"), served.listen(admission, name="B")
    assert not served.is_served(served.connect(closed))
    assert served.echoes(served.connect(open_to_all))


@pytest.mark.parametrize(
    "limits",
    [
        AdmissionLimits(connections_per_second_max=2),
        AdmissionLimits(connections_per_listener_per_second_max={"A": 2}),
    ],
)
def test_who_comes_too_fast_waits_for_the_next_second(
    served: Served, limits: AdmissionLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = Admission(limits)
    second = 7.0
    original = admission.seconds_to_wait

    def seconds_to_wait(listener_name: str, now_seconds: float) -> float:
        return min(original(listener_name, second), 0.001)

    monkeypatch.setattr(Admission, "seconds_to_wait", lambda _, *arguments: seconds_to_wait(*arguments))
    listener = served.listen(admission)
    first, second_client, third = (served.connect(listener) for _ in range(3))
    assert served.echoes(first)
    assert served.echoes(second_client)
    assert not served.is_served(third)
    second = 8.0
    assert served.run(served.loop.sock_recv(third, 100)) == b"\x00\x00\x00\x08question"


def test_idle_connections_are_closed_and_busy_ones_stay(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.host.listener.IDLE_SWEEP_SECONDS_MAX", 0.01)
    listener = served.listen(idle_ms_max=3_600_000)
    idle, busy = served.connect(listener), served.connect(listener)
    assert served.echoes(idle)
    assert served.echoes(busy)
    idle_port = idle.getsockname()[1]
    (connection,) = [accepted for accepted in listener._connections if accepted.context.client_port == idle_port]
    # The connection has been idle for more than an hour.
    connection.last_active -= 3_601
    while listener.connections == 2:
        assert served.echoes(busy)
    assert served.run(served.loop.sock_recv(idle, 1)) == b""
    assert served.echoes(busy)


def test_what_is_not_our_protocol_gets_one_line_each_but_never_many(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    listener = served.listen()
    clock = SimpleNamespace(seconds=7.0, monotonic=lambda: clock.seconds)
    listener._refusals = RateLimit(clock, lines_per_second=5)  # type: ignore[arg-type]
    good = served.connect(listener)

    def refused() -> None:
        bad = served.connect(listener)
        served.run(served.loop.sock_sendall(bad, b"GET / HTTP/1.1\r\n\r\n"))
        assert served.run(served.loop.sock_recv(bad, 1)) == b""

    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            refused()
        clock.seconds += 1
        refused()
        refused()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 7
    assert all("127.0.0.1" in line and "socket.request.max.bytes" in line for line in lines)
    # Suppressed lines are counted in the next line that is logged, and only there.
    assert [line.endswith("(45 similar lines suppressed)") for line in lines] == [False] * 5 + [True, False]
    assert not any("left out" in line for line in lines[:5] + lines[6:])
    assert served.statistics.frames_refused == 52
    assert served.echoes(good)


def test_stopping_closes_idle_connections_and_refuses_new_ones(served: Served) -> None:
    listener = served.listen()
    client = served.connect(listener)
    assert served.echoes(client)
    listener.stop_accepting()
    assert served.run(served.loop.sock_recv(client, 1)) == b""
    assert listener.connections == 0
    with pytest.raises(ConnectionRefusedError):
        served.connect(listener)


def accepted_by(served: Served, listener: Listener) -> socket.socket:
    assert served.echoes(served.connect(listener))
    (connection,) = listener._connections
    return connection._stream


def test_what_does_not_leave_the_machine_is_neither_paced_nor_held_back(served: Served) -> None:
    accepted = accepted_by(served, served.listen())
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"reno"
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) != UNSENT_BYTES_MAX


def test_where_clients_may_be_far_away_the_system_decides_how_to_send(served: Served) -> None:
    with socket.socket() as usual:
        expected = usual.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    accepted = accepted_by(served, served.listen(host=""))
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) == expected
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES_MAX


def test_a_taken_port_is_one_sentence() -> None:
    taken = bind("127.0.0.1", 0, SocketOptions())
    port = taken.getsockname()[1]
    with pytest.raises(BindError, match=rf"^Port {port} is in use by another process, so 127.0.0.1:{port} cannot"):
        bind("127.0.0.1", port, SocketOptions())
    taken.close()


def test_an_unknown_host_is_one_sentence() -> None:
    with pytest.raises(BindError, match=r"^The host name 'no such host' of a listener cannot be resolved: .*\.$"):
        bind("no such host", 0, SocketOptions())


def test_an_empty_host_means_every_address() -> None:
    bound = bind("", 0, SocketOptions())
    with bound, socket.create_connection(("127.0.0.1", bound.getsockname()[1]), timeout=5):
        pass


def test_the_client_that_was_silent_for_longest_can_be_found(served: Served) -> None:
    listener = served.listen()
    assert listener.longest_silent is None
    first, second = served.connect(listener), served.connect(listener)
    assert served.echoes(second)
    assert served.echoes(first)
    served.run(asyncio.sleep(0.001))
    assert served.echoes(first)
    silent = listener.longest_silent
    assert silent is not None
    assert silent.context.client_port == second.getsockname()[1]
