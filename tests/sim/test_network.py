"""The guarantees of the simulated network, and their limits."""

from __future__ import annotations

import asyncio

import pytest

from ottla.sim.event_loop import SimEventLoop, SimTransport
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.network import WINDOW_BYTES, Network, Socket
from ottla.sim.process import Process


class Pair:
    """A connection from host a to host b, and what arrived on either side."""

    def __init__(self, *, frozen: bool = False) -> None:
        self.kernel = Kernel(7)
        self.network = Network(self.kernel)
        self.processes = {name: Process(self.kernel, name, on_defect=_raise) for name in "ab"}
        self.arrived: dict[str, bytes] = {"a": b"", "b": b""}
        self.has_room: list[str] = []
        self.closed: dict[str, list[str]] = {"a": [], "b": []}
        self.sockets: dict[str, Socket] = {}
        self.network.bind("b", 1, self.processes["b"]).open(lambda socket: self._take("b", socket))
        self.network.connect(
            process=self.processes["a"],
            source="a",
            target="b",
            port=1,
            on_connected=lambda socket: self._take("a", socket),
            on_refused=self.closed["a"].append,
        )
        self.run(1)

    def _take(self, name: str, socket: Socket) -> None:
        self.sockets[name] = socket
        socket.take(
            on_readable=lambda: self._read(name),
            on_writable=lambda: self.has_room.append(name),
            on_closed=self.closed[name].append,
        )

    def _read(self, name: str) -> None:
        buffer = bytearray(100)
        count = self.sockets[name].recv_into(memoryview(buffer))
        self.arrived[name] += buffer[:count]

    def run(self, seconds: float) -> None:
        self.kernel.run_until(self.kernel.now_us + round(seconds * SECOND_US))


def _raise(sentence: str, error: BaseException) -> None:
    raise AssertionError(sentence) from error


def test_bytes_arrive_in_order() -> None:
    pair = Pair()
    pair.network.link("a", "b").delay_us = (1, 1_000_000)
    sent = [bytes([number]) * 3 for number in range(50)]
    for data in sent:
        pair.sockets["a"].send(data)
    pair.run(5)
    assert pair.arrived["b"] == b"".join(sent)


def test_a_blocked_direction_keeps_bytes_and_the_other_does_not() -> None:
    pair = Pair()
    pair.network.block("a", "b")
    pair.sockets["a"].send(b"late")
    pair.sockets["b"].send(b"at once")
    pair.run(1)
    assert (pair.arrived["a"], pair.arrived["b"]) == (b"at once", b"")
    pair.network.unblock("a", "b")
    pair.run(1)
    assert pair.arrived["b"] == b"late"


def test_what_was_kept_back_arrives_in_order_and_before_what_comes_later() -> None:
    pair = Pair()
    pair.network.link("a", "b").delay_us = (1, 1_000_000)
    pair.network.block("a", "b")
    sent = [bytes([number]) * 3 for number in range(40)]
    for data in sent[:20]:
        pair.sockets["a"].send(data)
    pair.network.unblock("a", "b")
    for data in sent[20:]:
        pair.sockets["a"].send(data)
    pair.run(5)
    assert pair.arrived["b"] == b"".join(sent)


def test_who_waits_too_long_for_a_blocked_link_gives_up_alone() -> None:
    pair = Pair()
    pair.network.block("a", "b")
    pair.sockets["a"].send(b"never")
    pair.run(60)
    assert pair.closed == {"a": ["connection timed out"], "b": []}


def test_a_half_open_connection_is_noticed_by_the_sender() -> None:
    pair = Pair()
    pair.network.reset(pair.sockets["b"], is_one_sided=True)
    pair.run(1)
    assert pair.closed == {"a": [], "b": ["connection reset"]}
    pair.sockets["a"].send(b"is anybody there")
    pair.run(1)
    assert pair.closed["a"] == ["connection reset by peer"]


def test_a_killed_program_notifies_its_peers_and_a_lost_host_does_not() -> None:
    pair = Pair()
    pair.network.end_process(pair.processes["b"], notifies_peers=True)
    pair.run(1)
    assert pair.closed["a"] == ["the peer closed the connection"]
    pair = Pair()
    pair.network.host("b").is_up = False
    pair.network.end_process(pair.processes["b"], notifies_peers=False)
    pair.run(1)
    assert pair.closed["a"] == []


def test_a_frozen_program_answers_when_it_is_resumed() -> None:
    pair = Pair()
    pair.processes["b"].freeze()
    pair.sockets["a"].send(b"hello")
    pair.run(5)
    assert pair.arrived["b"] == b""
    pair.processes["b"].resume()
    pair.run(1)
    assert pair.arrived["b"] == b"hello"


def test_a_sender_waits_for_a_receiver_that_does_not_read() -> None:
    pair = Pair()
    sender, receiver = pair.sockets["a"], pair.sockets["b"]
    receiver.stall(True)
    sent = 0
    while (taken := sender.send(bytes(10_000))) == 10_000:
        sent += taken
    sent += taken
    assert sent in WINDOW_BYTES
    with pytest.raises(BlockingIOError):
        sender.send(b"more")
    pair.run(5)
    assert (pair.arrived["b"], pair.has_room) == (b"", [])
    receiver.stall(False)
    pair.run(5)
    assert len(pair.arrived["b"]) == sent
    assert pair.has_room == ["a"]
    assert sender.send(b"more") == 4


def test_the_end_of_a_connection_is_noticed_when_everything_is_read() -> None:
    pair = Pair()
    pair.sockets["b"].read(False)
    pair.sockets["a"].send(b"last words")
    pair.sockets["a"].close()
    pair.run(5)
    assert pair.closed["b"] == []
    pair.sockets["b"].read(True)
    pair.run(5)
    assert pair.arrived["b"] == b"last words"
    assert pair.closed["b"] == ["the peer closed the connection"]


def test_a_transport_that_closes_with_unsent_bytes_does_not_look_at_new_ones_for_ever() -> None:
    pair = Pair()
    loop = SimEventLoop(pair.network, pair.processes["a"], host="a", on_defect=_raise)  # type: ignore[abstract]
    transport = SimTransport(loop, pair.sockets["a"], asyncio.BufferedProtocol())
    pair.sockets["b"].read(False)
    sent = bytes(max(WINDOW_BYTES) + 1)
    transport.write(sent)
    transport.close()
    pair.sockets["b"].send(b"late")
    pair.run(1)
    pair.sockets["b"].read(True)
    pair.run(1)
    assert pair.arrived["b"] == sent
    assert pair.closed["b"]
