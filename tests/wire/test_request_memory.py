"""The memory of large requests that are not complete: bounded over all connections, and never a deadlock."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.request_memory import PROGRESS_BYTES, UNCOUNTED_BYTES, RequestMemory
from ottla.wire.connection.server import ConnectionLimits, ServerConnection
from tests.wire.test_server_connection import NO_ANSWER, WAITING_READ, World, request

MIB = 1024 * 1024
REQUEST_BYTES_MAX = 4 * MIB
LIMITS = ConnectionLimits(request_bytes_max=REQUEST_BYTES_MAX, requests_unanswered_max=4, unsent_bytes_max=1000)


def large(size: int) -> bytes:
    return struct.pack(">ihxxi", size, NO_ANSWER, 1) + bytes(size - 8)


class Client:
    """A client with bytes to send, and the driver of its connection."""

    def __init__(self, node: Node, data: bytes) -> None:
        self.node = node
        self.machine = ServerConnection(
            handler=node.world, context=None, limits=LIMITS, buffers=node.buffers, on_answer_ready=self._on_ready
        )
        self.unsent = data
        self._is_planned = False

    def _on_ready(self) -> None:
        self._is_planned = True

    def send(self, count: int) -> None:
        """Sends bytes, as far as the node reads them."""
        machine = self.machine
        if self._is_planned:
            self._is_planned = False
            machine.collect_answers(0.0)
            if machine.is_paused and machine.may_resume:
                machine.resume()
        while count and self.unsent and not machine.is_paused:
            received = 0
            for target in machine.frames.targets():
                piece = self.unsent[received : min(received + len(target), count)]
                target[: len(piece)] = piece
                received += len(piece)
            self.unsent, count = self.unsent[received:], count - received
            machine.received(received)
        machine.invariants()
        self.node.check()

    @property
    def is_done(self) -> bool:
        return not self.unsent and not self.machine.counted_bytes


class Node:
    def __init__(self, *, limit_bytes: int) -> None:
        self.world = World()
        self.limit_bytes = limit_bytes
        self.memory = RequestMemory(request_bytes_max=REQUEST_BYTES_MAX, limit_bytes=limit_bytes)
        self.buffers = ReceiveBuffers(memory=self.memory)
        self.clients: list[Client] = []

    def connect(self, data: bytes) -> Client:
        self.clients.append(Client(self, data))
        return self.clients[-1]

    def check(self) -> None:
        counted = sum(client.machine.counted_bytes for client in self.clients)
        assert self.memory.used_bytes == counted <= self.limit_bytes


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([100, UNCOUNTED_BYTES, 300_000, MIB, 2 * MIB + 1, REQUEST_BYTES_MAX]), min_size=1),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([10, 70_000, 600_000, 3 * MIB])), max_size=60),
    st.sampled_from([REQUEST_BYTES_MAX, REQUEST_BYTES_MAX + 1, 2 * REQUEST_BYTES_MAX]),
)
def test_all_requests_are_completed_within_the_limit(
    sizes: list[int], turns: list[tuple[int, int]], limit_bytes: int
) -> None:
    """Each client sends two requests, in any order; nothing is closed, and at the end nothing is counted."""
    node = Node(limit_bytes=limit_bytes)
    for size in sizes:
        node.connect(large(size) * 2)
    for index, count in turns:
        node.clients[index % len(sizes)].send(count)
    for _ in range(4 * len(sizes)):
        for client in node.clients:
            client.send(5 * MIB)
    assert [client.machine.close_reason for client in node.clients] == [None] * len(sizes)
    assert all(client.is_done for client in node.clients)
    assert (node.memory.used_bytes, node.memory.waiting) == (0, 0)
    assert len(node.world.started) == 2 * len(sizes)


def filled_node() -> Node:
    """Three of four requests of 4 MiB have used up the memory: two may be completed, and one waits."""
    node = Node(limit_bytes=3 * REQUEST_BYTES_MAX - MIB)
    for _ in range(3):
        node.connect(large(REQUEST_BYTES_MAX))
        node.clients[-1].send(3 * MIB)
    assert node.memory.waiting == 1
    return node


def test_a_connection_that_waits_is_not_read_and_goes_on_when_there_is_room() -> None:
    node = filled_node()
    waiting = next(client for client in node.clients if client.machine.frames.waits_for_room)
    before = len(waiting.unsent)
    waiting.send(MIB)
    assert len(waiting.unsent) == before
    first = next(client for client in node.clients if client is not waiting)
    first.send(REQUEST_BYTES_MAX)
    waiting.send(REQUEST_BYTES_MAX)
    assert waiting.is_done


def test_a_small_request_needs_no_room() -> None:
    node = filled_node()
    small = node.connect(large(UNCOUNTED_BYTES - 4))
    small.send(MIB)
    assert small.is_done


def test_a_client_that_stops_sending_while_others_wait_is_closed() -> None:
    node = filled_node()
    waiting = next(client for client in node.clients if client.machine.frames.waits_for_room)
    slow, steady = (client for client in node.clients if client is not waiting)
    node.memory.close_slow_senders()
    steady.send(PROGRESS_BYTES)
    slow.send(PROGRESS_BYTES - 1)
    node.memory.close_slow_senders()
    assert slow.machine.close_reason is not None
    assert "too slowly" in slow.machine.close_reason
    assert steady.machine.close_reason is waiting.machine.close_reason is None
    waiting.send(REQUEST_BYTES_MAX)
    assert waiting.is_done


def test_a_connection_that_ends_gives_its_memory_back() -> None:
    node = filled_node()
    waiting = next(client for client in node.clients if client.machine.frames.waits_for_room)
    for client in node.clients:
        if client is not waiting:
            client.machine.drop()
            break
    waiting.send(REQUEST_BYTES_MAX)
    assert waiting.is_done
    for client in node.clients:
        client.machine.drop()
    assert (node.memory.used_bytes, node.memory.waiting) == (0, 0)


def test_a_complete_request_behind_an_unanswered_one_is_counted_and_may_not_stay_for_ever() -> None:
    node = Node(limit_bytes=3 * REQUEST_BYTES_MAX)
    blocked = [node.connect(request(WAITING_READ, 0) + large(REQUEST_BYTES_MAX)) for _ in range(2)]
    for client in blocked:
        client.send(5 * MIB)
        assert client.machine.counted_bytes == REQUEST_BYTES_MAX
    # Not while there is room for others.
    waiting = [node.connect(large(REQUEST_BYTES_MAX)) for _ in range(2)]
    for client in waiting:
        client.send(MIB)
    node.world.end_reads()
    for client in [*blocked, *waiting]:
        client.send(5 * MIB)
        assert client.is_done
    again = [node.connect(request(WAITING_READ, 0) + large(REQUEST_BYTES_MAX)) for _ in range(3)]
    late = node.connect(large(REQUEST_BYTES_MAX))
    for client in [*again, late]:
        client.send(5 * MIB)
    assert late.machine.frames.waits_for_room
    node.memory.close_slow_senders()
    node.memory.close_slow_senders()
    assert {client.machine.close_reason is None for client in again} == {False}
    late.send(5 * MIB)
    assert late.is_done


def test_the_limit_follows_the_largest_request() -> None:
    assert RequestMemory(request_bytes_max=500 * MIB).limit_bytes == 1000 * MIB
    assert RequestMemory(request_bytes_max=MIB).limit_bytes == 256 * MIB
    assert RequestMemory(request_bytes_max=100, limit_bytes=1).limit_bytes == 100
