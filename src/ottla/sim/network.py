"""A network of hosts: connections that carry bytes in order, over links that delay, block and break.

What TCP promises holds (in order, no gaps, no repeats on one connection), and nothing more:
- bytes that were sent together may arrive in pieces;
- a connection holds a bounded number of bytes that the receiver has not read; a sender that fills it has to wait;
- two connections between the same hosts overtake each other as delays fall;
- a blocked link (a partition; each direction has its own) keeps bytes back, as retransmission would, and delivers them
  when it opens again; a sender that waits too long gives its side of the connection up, and only its side;
- a reset loses what is under way and tells both sides, or only one: the other is then half open, and learns of it when
  it sends;
- a program that is killed has its connections closed by its operating system; one whose power is cut does not, and its
  peers find out when they send to the host that has come back;
- a frozen program is connected to and sent to, and does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.process import Process
from ottla.wire.message import Message

__all__ = ["Host", "Link", "Listener", "Network", "Socket"]

# How long a sender retransmits before it gives up; Linux takes a quarter of an hour, which would hide much.
RETRANSMISSION_US = (10 * SECOND_US, 30 * SECOND_US)

# Bytes that were sent and not read yet, at most; each end of a connection draws one of these. The smallest is far below
# what an operating system allows, so that senders really have to wait.
WINDOW_BYTES = (16 * 1024, 64 * 1024, 256 * 1024)

# One in so many sends arrives in two pieces.
SPLIT_ONE_IN = 12

# How long it takes a sender to hear that there is room again.
ROOM_DELAY_US = 200

DELAY_US = (100, 600)
LOCAL_DELAY_US = (5, 30)


class Host:
    """A machine: up or down, and whatever process runs on it."""

    __slots__ = ("is_up", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True


class Link:
    """One direction between two hosts."""

    __slots__ = ("bytes_per_second", "delay_us", "held", "is_blocked")

    def __init__(self) -> None:
        self.delay_us = DELAY_US
        self.bytes_per_second = 0
        self.is_blocked = False
        self.held: list[tuple[Callable[..., object], tuple[Any, ...]]] = []


class Socket:
    """One end of a connection: a stream of bytes, read and written without blocking, as a real socket is.

    `take` says what to call when bytes can be read, when there is room for more, and when the connection has ended.
    """

    __slots__ = (
        "_arrival_us",
        "_end_reason",
        "_inbox",
        "_is_announced",
        "_is_giving_up",
        "_is_reading",
        "_is_stalled",
        "_network",
        "_on_closed",
        "_on_readable",
        "_on_writable",
        "_unread_by_peer",
        "_wants_room",
        "_window_bytes",
        "is_closed",
        "local",
        "peer",
        "process",
    )

    def __init__(self, network: Network, local: str, process: Process, *, window_bytes: int) -> None:
        self._network = network
        self.local = local
        self.process = process
        self.peer: Socket | None = None
        self.is_closed = False
        self._on_readable: Callable[[], object] | None = None
        self._on_writable: Callable[[], object] | None = None
        self._on_closed: Callable[[str], object] | None = None
        self._is_reading = False
        # A program that is slow to read, whatever it wants.
        self._is_stalled = False
        # True while a call of `_on_readable` is planned.
        self._is_announced = False
        self._inbox = bytearray()
        # The other side has closed: told when everything before is read.
        self._end_reason: str | None = None
        self._window_bytes = window_bytes
        self._unread_by_peer = 0
        self._wants_room = False
        self._arrival_us = 0
        self._is_giving_up = False

    def take(
        self,
        *,
        on_readable: Callable[[], object],
        on_writable: Callable[[], object],
        on_closed: Callable[[str], object],
    ) -> None:
        """Begins to read."""
        self._on_readable, self._on_writable, self._on_closed = on_readable, on_writable, on_closed
        self.read(True)

    def read(self, is_wanted: bool) -> None:
        """Begins or ceases to read; the end of a connection that is not read from is not noticed."""
        self._is_reading = is_wanted
        self._announce()

    def stall(self, is_stalled: bool) -> None:
        """The program does not get to read for a while."""
        self._is_stalled = is_stalled
        self._announce()

    def send(self, data: bytes | memoryview) -> int:
        """Takes as many bytes as there is room for; raises BlockingIOError where there is none."""
        if self.is_closed:
            raise BrokenPipeError("the connection is closed")
        room = self._window_bytes - self._unread_by_peer
        if room <= 0:
            self._wants_room = True
            raise BlockingIOError
        taken = bytes(data[:room])
        self._unread_by_peer += len(taken)
        if len(taken) < len(data):
            self._wants_room = True
        self._network.transmit(self, taken)
        return len(taken)

    def recv_into(self, buffer: memoryview) -> int:
        """As many bytes as there are and as fit; raises BlockingIOError where there are none."""
        inbox = self._inbox
        count = min(len(buffer), len(inbox))
        if not count:
            raise BlockingIOError
        buffer[:count] = inbox[:count]
        del inbox[:count]
        if self.peer is not None:
            self.peer._make_room(count)
        return count

    def close(self) -> None:
        """Ends the connection from this side; the other side is told."""
        if not self.is_closed:
            self._end()
            if self.peer is not None:
                self._network.tell_closed(self, "the peer closed the connection")

    def vanish(self, reason: str | None = None) -> None:
        """Ends this side alone, at once, and tells its program where there is a reason."""
        if self.is_closed:
            return
        self._end()
        if reason is not None and self._on_closed is not None:
            self.process.plan(0, self._on_closed, reason)

    def arrive(self, data: bytes) -> None:
        """Bytes come from the network."""
        if self.is_closed:
            return
        self._inbox += data
        self._announce()

    def end_after_inbox(self, reason: str) -> None:
        """The other side has closed the connection in good order."""
        self._end_reason = reason
        self._announce()

    def _end(self) -> None:
        self.is_closed = True
        self._inbox.clear()
        self._network.forget(self)

    def _announce(self) -> None:
        is_due = self._inbox or self._end_reason is not None
        if is_due and self._is_reading and not self._is_stalled and not self._is_announced and not self.is_closed:
            self._is_announced = True
            self.process.plan(0, self._be_read)

    def _be_read(self) -> None:
        self._is_announced = False
        if self.is_closed or not self._is_reading or self._is_stalled:
            return
        if self._inbox:
            assert self._on_readable is not None
            self._on_readable()
            self._announce()
        elif self._end_reason is not None:
            self.vanish(self._end_reason)

    def _make_room(self, count: int) -> None:
        self._unread_by_peer -= count
        if self._wants_room and not self.is_closed:
            self._wants_room = False
            self.process.plan(ROOM_DELAY_US, self._tell_room)

    def _tell_room(self) -> None:
        if not self.is_closed and self._on_writable is not None:
            self._on_writable()


class Listener:
    """A bound port. Who connects before it is opened waits in the backlog."""

    __slots__ = ("_backlog", "_on_accept", "is_closed", "process")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.is_closed = False
        self._on_accept: Callable[[Socket], object] | None = None
        self._backlog: list[Socket] = []

    def open(self, on_accept: Callable[[Socket], object]) -> None:
        self._on_accept = on_accept
        backlog, self._backlog = self._backlog, []
        for socket in backlog:
            self.accept(socket)

    def accept(self, socket: Socket) -> None:
        if self._on_accept is None:
            self._backlog.append(socket)
        else:
            self.process.plan(0, self._on_accept, socket)


class Network:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._random: Random = kernel.random_for("network")
        self._hosts: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        # In the order of their making; a dictionary because a set would have an order of its own.
        self._sockets: dict[Socket, None] = {}
        # Shown every answer that any client or node gets: connection, its name, request, response.
        self.observe: Callable[[object, str, Message, Message], object] = lambda *_: None

    # -- hosts and links -------------------------------------------------------------------------------------------

    def host(self, name: str) -> Host:
        found = self._hosts.get(name)
        if found is None:
            found = self._hosts[name] = Host(name)
        return found

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link()
            if source == target:
                found.delay_us = LOCAL_DELAY_US
        return found

    def block(self, source: str, target: str) -> None:
        self.link(source, target).is_blocked = True

    def unblock(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.is_blocked = False
        held, link.held = link.held, []
        arrival_us = self._kernel.now_us + self._random.randrange(*link.delay_us)
        for callback, arguments in held:
            # In the order in which they were sent, and before whatever the same connection sends from now on.
            arrival_us += 1
            if callback == self._arrive:
                arguments[0]._arrival_us = arrival_us
            self._kernel.after(arrival_us - self._kernel.now_us, callback, *arguments)

    def heal(self) -> None:
        """Every link is open and fast again."""
        for source, target in list(self._links):
            self.restore_speed(source, target)
            self.unblock(source, target)

    def restore_speed(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.delay_us = LOCAL_DELAY_US if source == target else DELAY_US
        link.bytes_per_second = 0

    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of hosts that have ever spoken."""
        return list(self._links)

    @property
    def host_names(self) -> list[str]:
        return list(self._hosts)

    def sockets_of(self, host: str) -> list[Socket]:
        """The open ends of connections on a host."""
        return [socket for socket in self._sockets if socket.local == host]

    def end_process(self, process: Process, *, is_told: bool) -> None:
        """The process is gone, and with it its ports and connections; `is_told` when its host still says so."""
        for key, listener in list(self._listeners.items()):
            if listener.process is process:
                listener.is_closed = True
                del self._listeners[key]
        for socket in [socket for socket in self._sockets if socket.process is process]:
            if is_told:
                socket.close()
            else:
                socket.vanish()

    # -- connections -----------------------------------------------------------------------------------------------

    def bind(self, host: str, port: int, process: Process) -> Listener:
        assert (host, port) not in self._listeners, f"{host}:{port} is bound twice"
        listener = self._listeners[host, port] = Listener(process)
        return listener

    def unbind(self, host: str, port: int) -> None:
        listener = self._listeners.pop((host, port), None)
        if listener is not None:
            listener.is_closed = True

    def connect(
        self,
        *,
        process: Process,
        source: str,
        target: str,
        port: int,
        on_connected: Callable[[Socket], object],
        on_refused: Callable[[str], object],
    ) -> Socket:
        """Begins a connection; the socket may be closed before it is connected."""
        socket = self._new_socket(source, process)

        def on_syn() -> None:
            listener = self._listeners.get((target, port))
            if not self.host(target).is_up:
                return
            if listener is None:
                self._carry(target, source, 0, process.run, on_refused, ("connection refused",))
                return
            remote = self._new_socket(target, listener.process)
            remote.peer = socket
            listener.accept(remote)
            self._carry(target, source, 0, process.run, on_syn_ack, (remote,))

        def on_syn_ack(remote: Socket) -> None:
            if socket.is_closed:
                remote.vanish("the peer is gone")
                return
            socket.peer = remote
            on_connected(socket)

        self._carry(source, target, 0, on_syn)
        return socket

    def transmit(self, sender: Socket, data: bytes) -> None:
        self._kernel.trace("bytes", number=crc32(data))
        if len(data) > 1 and not self._random.randrange(SPLIT_ONE_IN):
            middle = self._random.randrange(1, len(data))
            self._transmit(sender, data[:middle])
            self._transmit(sender, data[middle:])
        else:
            self._transmit(sender, data)

    def _transmit(self, sender: Socket, data: bytes) -> None:
        receiver = sender.peer
        assert receiver is not None
        link = self.link(sender.local, receiver.local)
        if link.is_blocked or not self.host(receiver.local).is_up:
            self._kernel.counts["bytes held back"] += 1
            if not sender._is_giving_up:
                sender._is_giving_up = True
                self._kernel.after(self._random.randrange(*RETRANSMISSION_US), self._give_up, sender, link)
            if link.is_blocked:
                link.held.append((self._arrive, (sender, receiver, data)))
            return
        delay_us = self._random.randrange(*link.delay_us)
        if link.bytes_per_second:
            delay_us += len(data) * SECOND_US // link.bytes_per_second
        # Never before what was sent earlier on the same connection.
        arrival_us = max(self._kernel.now_us + delay_us, sender._arrival_us + 1)
        sender._arrival_us = arrival_us
        self._kernel.after(arrival_us - self._kernel.now_us, self._arrive, sender, receiver, data)

    def tell_closed(self, closed: Socket, reason: str) -> None:
        receiver = closed.peer
        assert receiver is not None
        if not self.host(closed.local).is_up:
            return
        self._carry(closed.local, receiver.local, closed._arrival_us, receiver.end_after_inbox, reason)

    def reset(self, socket: Socket, *, is_one_sided: bool) -> None:
        """Breaks a connection; with `is_one_sided` the other end goes on believing in it."""
        self._kernel.trace("connection reset", f"{socket.local} {'one side' if is_one_sided else 'both sides'}")
        peer = socket.peer
        socket.vanish("connection reset")
        if peer is not None and not is_one_sided:
            peer.vanish("connection reset")

    def forget(self, socket: Socket) -> None:
        self._sockets.pop(socket, None)

    def _new_socket(self, local: str, process: Process) -> Socket:
        socket = Socket(self, local, process, window_bytes=self._random.choice(WINDOW_BYTES))
        self._sockets[socket] = None
        return socket

    # -- delivery --------------------------------------------------------------------------------------------------

    def _carry(
        self, source: str, target: str, not_before_us: int, callback: Callable[..., object], *arguments: Any
    ) -> None:
        """Something without a connection to wait for: a SYN, its answer, a reset."""
        link = self.link(source, target)
        if link.is_blocked:
            link.held.append((callback, arguments))
            return
        arrival_us = max(self._kernel.now_us + self._random.randrange(*link.delay_us), not_before_us + 1)
        self._kernel.after(arrival_us - self._kernel.now_us, callback, *arguments)

    def _arrive(self, sender: Socket, receiver: Socket, data: bytes) -> None:
        if not self.host(receiver.local).is_up:
            return
        if receiver.is_closed:
            # The host knows no such connection (any more), and says so.
            self._kernel.counts["bytes to a closed connection"] += 1
            self._carry(receiver.local, sender.local, 0, sender.vanish, "connection reset by peer")
            return
        receiver.arrive(data)

    def _give_up(self, sender: Socket, link: Link) -> None:
        sender._is_giving_up = False
        if not sender.is_closed and (
            link.is_blocked or (sender.peer is not None and not self.host(sender.peer.local).is_up)
        ):
            self._kernel.trace("connection timed out", sender.local)
            sender.vanish("connection timed out")
