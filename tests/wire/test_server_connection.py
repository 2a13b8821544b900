"""The server end of a connection: when requests start, in which order answers leave, and when reading stops."""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.connection import server as module
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.server import CloseConnection, ConnectionLimits, ServerConnection
from ottla.wire.message import Part

# API keys of the handler below.
READ, WAITING_READ, WRITE, NO_ANSWER, CLOSE = range(5)


class Pending:
    def __init__(self, waiter: Any) -> None:
        self.ready = False
        self.parts: list[Part] | None = None
        self.close_reason: str | None = None
        self.held_bytes = 0
        self.holds_back = False
        self._waiter = waiter

    def on_queued(self, now: float) -> None:
        assert self.ready

    def answer(self, parts: list[Part] | None) -> None:
        self.ready, self.parts = True, parts
        self._waiter.response_ready()


class World:
    """One number that writes raise. A read shows it; a write shows which number it has made.

    A write is committed later, in order, and only committed writes are read: as records below the high watermark are.
    """

    def __init__(self) -> None:
        self.written = 0
        self.committed = 0
        self.waiting_writes: list[tuple[int, Pending]] = []
        self.waiting_reads: list[tuple[int, Pending]] = []
        self.started: list[int] = []

    def dispatch(self, frame: memoryview, connection: Any, waiter: Any) -> list[Part] | Pending | None:
        api_key, number = struct.unpack_from(">hxxi", frame)
        self.started.append(number)
        if api_key == READ:
            return self.frame(number, self.committed)
        pending = Pending(waiter)
        if api_key == WAITING_READ:
            self.waiting_reads.append((number, pending))
            return pending
        if api_key == CLOSE:
            raise CloseConnection("the client asked for it")
        self.written += 1
        if api_key == NO_ANSWER:
            return None
        self.waiting_writes.append((number, pending))
        return pending

    def starts_behind(self, api_key: int) -> Container[int]:
        return (WRITE,) if api_key == WRITE else ()

    def answered(self, parts: list[Part], connection: Any) -> Pending:
        pending = Pending(None)
        pending.ready, pending.parts = True, parts
        return pending

    def frame(self, number: int, shown: int) -> list[Part]:
        return [struct.pack(">iii", 8, number, shown)]

    def commit(self) -> None:
        self.committed = self.written
        waiting, self.waiting_writes = self.waiting_writes, []
        first = self.committed - len(waiting)
        for index, (number, pending) in enumerate(waiting):
            pending.answer(self.frame(number, first + index + 1))

    def end_reads(self) -> None:
        waiting, self.waiting_reads = self.waiting_reads, []
        for number, pending in waiting:
            pending.answer(self.frame(number, self.committed))


LIMITS = ConnectionLimits(request_bytes_max=1000, requests_unanswered_max=4, unsent_bytes_max=200)


class Driver:
    """Drives a connection as host and sim do, on byte strings."""

    def __init__(self, world: World, *, limits: ConnectionLimits = LIMITS, gate: Any = None) -> None:
        self.world = world
        self.ready = 0
        self.machine = ServerConnection(
            handler=world,
            context=None,
            limits=limits,
            buffers=ReceiveBuffers(),
            on_answer_ready=self._on_ready,
            gate=gate,
        )
        self.unread = b""
        self.sent = b""

    def _on_ready(self) -> None:
        self.ready += 1

    def step(self) -> None:
        machine = self.machine
        machine.collect_answers(0.0)
        if machine.is_paused and machine.may_resume:
            machine.resume()
            machine.collect_answers(0.0)
        if not machine.is_paused and self.unread:
            received = 0
            for target in machine.frames.targets():
                piece = self.unread[received : received + len(target)]
                target[: len(piece)] = piece
                received += len(piece)
            self.unread = self.unread[received:]
            machine.received(received)
            machine.collect_answers(0.0)
        machine.invariants()

    def send(self, count: int) -> None:
        outgoing = self.machine.outgoing
        data = b"".join(outgoing.parts)[:count]  # type: ignore[arg-type]
        self.sent += data
        outgoing.sent(len(data))

    def answers(self) -> list[tuple[int, int]]:
        """Number and value of every answer that was sent whole."""
        complete_bytes = len(self.sent) // 12 * 12
        return [struct.unpack_from(">xxxxii", self.sent, at) for at in range(0, complete_bytes, 12)]


def request(api_key: int, number: int) -> bytes:
    return struct.pack(">ihxxi", 8, api_key, number)


STEPS = st.sampled_from(["step", "step", "send", "commit", "end reads", "write elsewhere"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([READ, WAITING_READ, WRITE, WRITE, NO_ANSWER]), max_size=25), st.lists(STEPS), st.data()
)
def test_answers_leave_in_order_and_never_show_the_past(apis: list[int], steps: list[str], data: st.DataObject) -> None:
    world = World()
    driver = Driver(world)
    stream = b"".join(request(api_key, number) for number, api_key in enumerate(apis))
    cut = data.draw(st.integers(0, len(stream)))
    driver.unread, later = stream[:cut], stream[cut:]

    def do(step: str) -> None:
        if step == "step":
            driver.step()
        elif step == "send":
            driver.send(data.draw(st.integers(1, 40)))
        elif step == "commit":
            world.commit()
        elif step == "end reads":
            world.end_reads()
        else:
            # Another client's write: it is committed at once only if no write waits.
            world.written += 1
            if not world.waiting_writes:
                world.committed = world.written

    for step in steps:
        do(step)
    driver.unread += later
    for _ in range(6 * len(apis) + 6):
        driver.step()
        driver.send(1000)
        world.commit()
        world.end_reads()
    driver.step()
    driver.send(1000)
    expected = [number for number, api_key in enumerate(apis) if api_key != NO_ANSWER]
    assert [number for number, _ in driver.answers()] == expected
    assert world.started == list(range(len(apis)))
    shown = [value for _, value in driver.answers()]
    assert shown == sorted(shown), "an answer shows less than an earlier one of its connection"


def test_a_request_is_started_when_those_before_it_are_answered() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = request(WAITING_READ, 0) + request(READ, 1) + request(READ, 2)
    driver.step()
    assert world.started == [0]
    assert driver.machine.is_paused
    world.committed = world.written = 7
    world.end_reads()
    assert driver.ready == 1
    assert world.started == [0], "not on the stack of whatever has made the answer ready"
    driver.step()
    driver.send(1000)
    assert driver.answers() == [(0, 7), (1, 7), (2, 7)]


def test_requests_that_may_overlap_are_started_as_they_arrive() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = request(WRITE, 0) + request(WRITE, 1) + request(READ, 2)
    driver.step()
    assert world.started == [0, 1]
    world.commit()
    driver.step()
    driver.send(1000)
    assert driver.answers() == [(0, 1), (1, 2), (2, 2)]


def test_a_request_that_takes_several_turns_holds_back_requests_that_may_overlap() -> None:
    world = World()
    driver = Driver(world)
    usual = world.dispatch

    def dispatch(frame: memoryview, connection: Any, waiter: Any) -> list[Part] | Pending | None:
        pending = usual(frame, connection, waiter)
        assert isinstance(pending, Pending)
        pending.holds_back = world.started[-1] == 1
        return pending

    driver.machine._dispatch = dispatch
    driver.unread = b"".join(request(WRITE, number) for number in range(4))
    driver.step()
    assert world.started == [0, 1], "the second request starts behind the first, and no request behind the second"
    world.commit()
    driver.step()
    assert world.started == [0, 1, 2, 3]


def test_reading_stops_at_the_limit_and_resumes_at_half_of_it() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = b"".join(request(WRITE, number) for number in range(9))
    driver.step()
    driver.step()
    assert len(world.started) == 4
    world.commit()
    driver.step()
    assert len(world.started) == 8


def test_a_client_that_does_not_read_its_answers_is_not_read_from() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = b"".join(request(READ, number) for number in range(100))
    for _ in range(10):
        driver.step()
    assert driver.machine.outgoing.unsent_bytes == 204
    driver.send(100)
    driver.step()
    assert len(world.started) == 17, "more than half of it is still unsent"
    driver.send(20)
    driver.step()
    assert len(world.started) > 17


def test_a_muted_connection_takes_nothing_and_answers_what_it_took() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = request(WRITE, 0)
    driver.step()
    driver.machine.mute()
    driver.unread = request(WRITE, 1)
    world.commit()
    driver.step()
    driver.send(1000)
    assert (driver.answers(), world.started) == ([(0, 1)], [0])
    driver.machine.unmute()
    driver.step()
    assert world.started == [0, 1]


def test_an_order_to_close_ends_the_connection_when_earlier_answers_are_sent() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = request(READ, 0) + request(CLOSE, 1) + request(READ, 2)
    driver.step()
    assert driver.machine.close_reason == "the client asked for it"
    assert not driver.machine.is_finished
    driver.send(1000)
    assert driver.machine.is_finished
    assert (driver.answers(), world.started) == ([(0, 0)], [0, 1])


def test_a_stopping_connection_ends_when_what_it_took_is_answered() -> None:
    world = World()
    driver = Driver(world)
    driver.unread = request(WRITE, 0) + request(READ, 1)
    driver.step()
    driver.machine.stop()
    assert not driver.machine.is_finished
    world.commit()
    driver.step()
    driver.send(1000)
    assert driver.machine.is_finished
    assert (driver.answers(), world.started) == ([(0, 1)], [0])


class Password:
    """A gate that opens when the client sends the password; requests of one API pass before."""

    is_open = False
    is_removable = True
    close_reason: str | None = None
    request_bytes_max = 64
    takes_bare_tokens = False

    def take(self, frame: memoryview, connection: Any, waiter: Any) -> list[Part] | None:
        api_key, number = struct.unpack_from(">hxxi", frame)
        if api_key == READ:
            return None
        if number == 13:
            self.close_reason = "an unlucky word"
            return [struct.pack(">iii", 8, number, -2)]
        if number != 42:
            raise CloseConnection("the wrong word")
        self.is_open = True
        return [struct.pack(">iii", 8, number, -1)]


def test_the_gate_answers_until_it_opens() -> None:
    world = World()
    driver = Driver(world, gate=Password())
    driver.unread = request(READ, 0) + request(WRITE, 42) + request(WRITE, 1)
    driver.step()
    world.commit()
    driver.step()
    driver.send(1000)
    assert driver.answers() == [(0, 0), (42, -1), (1, 1)]
    assert world.started == [0, 1]


class Ticket(Password):
    """A gate that stays in place: it refuses the second request after it has opened."""

    is_removable = False
    passed = 0

    def take(self, frame: memoryview, connection: Any, waiter: Any) -> list[Part] | None:
        if not self.is_open:
            return super().take(frame, connection, waiter)
        self.passed += 1
        if self.passed > 1:
            raise CloseConnection("the ticket has expired")
        return None


def test_a_gate_that_may_close_again_sees_every_request() -> None:
    world = World()
    driver = Driver(world, gate=Ticket())
    driver.unread = request(WRITE, 42) + request(READ, 1)
    driver.step()
    assert driver.machine.frames.size_max > Ticket.request_bytes_max
    driver.unread = request(READ, 2)
    driver.step()
    driver.send(1000)
    assert driver.answers() == [(42, -1), (1, 0)]
    assert world.started == [1]
    assert driver.machine.close_reason == "the ticket has expired"


def test_the_gate_may_answer_a_last_time() -> None:
    driver = Driver(World(), gate=Password())
    driver.unread = request(WRITE, 13) + request(WRITE, 42) + request(WRITE, 1)
    driver.step()
    assert not driver.machine.is_finished
    driver.send(1000)
    assert driver.machine.is_finished
    assert driver.machine.close_reason == "an unlucky word"
    assert driver.sent == struct.pack(">iii", 8, 13, -2)


def test_a_frame_before_the_gate_opens_is_small() -> None:
    driver = Driver(World(), gate=Password())
    driver.unread = struct.pack(">i", 65)
    driver.step()
    assert driver.machine.close_reason is not None


class Tokens(Password):
    """After a password of one byte, frames are tokens without a header; an empty token opens the gate."""

    takes_bare_tokens = False

    def take(self, frame: memoryview, connection: Any, waiter: Any) -> list[Part] | None:
        if not self.takes_bare_tokens:
            self.takes_bare_tokens = True
            return [struct.pack(">iii", 8, 1, -1)]
        if not frame:
            self.is_open, self.takes_bare_tokens = True, False
        return [struct.pack(">iii", 8, len(frame), -1)]


def test_tokens_may_be_shorter_than_a_request_until_the_gate_is_open() -> None:
    driver = Driver(World(), gate=Tokens())
    driver.unread = request(WRITE, 42) + b"\0\0\0\3abc" + b"\0\0\0\0"
    driver.step()
    driver.send(1000)
    assert driver.answers() == [(1, -1), (3, -1), (0, -1)]
    driver.unread = b"\0\0\0\3abc"
    driver.step()
    assert driver.machine.close_reason == "a request cannot have a size of 3 bytes"


def test_a_short_frame_before_the_handshake_is_refused() -> None:
    driver = Driver(World(), gate=Tokens())
    driver.unread = b"\0\0\0\3abc"
    driver.step()
    assert driver.machine.close_reason == "a request cannot have a size of 3 bytes"


def test_a_gate_that_does_not_open_ends_the_connection() -> None:
    world = World()
    driver = Driver(world, gate=Password())
    driver.unread = request(WRITE, 41) + request(WRITE, 42)
    driver.step()
    assert driver.machine.is_finished
    assert driver.machine.close_reason == "the wrong word"
    assert world.started == []


def test_held_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 20)
    world = World()
    driver = Driver(world)
    driver.unread = b"".join(request(WRITE, number) for number in range(6))
    driver.step()
    assert len(world.started) == 3
