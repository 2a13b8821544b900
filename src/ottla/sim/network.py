"""A network of hosts: connections that carry bytes in order, over links that delay, block and break.

The guarantees are those of TCP (in order, no gaps, no duplicates on one connection), and nothing more:
- bytes that were sent together may arrive in pieces;
- a connection holds a bounded number of unread bytes; a sender that fills it has to wait;
- two connections between the same hosts can overtake each other, because delays are random;
- a blocked link (a partition; each direction has its own) holds bytes back and delivers them when it opens again, as
  retransmission would; a sender that waits too long closes its end of the connection, and only its end;
- a reset loses the bytes in flight and notifies both ends, or only one: then the other end is half open, and notices
  the reset when it sends;
- the operating system closes the connections of a killed program; after a power loss they are not closed, and peers
  notice it when they send to the restarted host;
- a frozen program accepts connections and bytes, and does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.process import Process
from ottla.wire.message import Message

__all__ = ["Detour", "Host", "Link", "Listener", "Network", "Socket"]

# The time that a sender retransmits before it closes its end. Linux takes 15 minutes, which would hide defects.
RETRANSMISSION_US = (10 * SECOND_US, 30 * SECOND_US)

# The most bytes that are sent and not yet read; every end of a connection draws one of these. The smallest is far below
# the limit of an operating system, so that senders really have to wait.
WINDOW_BYTES = (16 * 1024, 64 * 1024, 256 * 1024)

# The inverse of the probability that the bytes of a send arrive in two pieces.
SPLIT_ONE_IN = 12

# The delay until a sender is notified of new room.
ROOM_DELAY_US = 200

DELAY_US = (100, 600)
LOCAL_DELAY_US = (5, 30)


class Host:
    """A machine: up or down, and the process that runs on it."""

    __slots__ = ("is_up", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True


class Link:
    """One direction of the link between two hosts."""

    __slots__ = ("bytes_per_second", "delay_us", "held", "is_blocked")

    def __init__(self) -> None:
        self.delay_us = DELAY_US
        self.bytes_per_second = 0
        self.is_blocked = False
        self.held: list[tuple[Callable[..., object], tuple[Any, ...]]] = []


class Socket:
    """One end of a connection: a stream of bytes, read and written without blocking, like a real socket.

    `take` sets the callbacks for readable bytes, for room to send, and for the end of the connection.
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
        # Set by the fault `slow readers`: the program cannot read, even if it wants to.
        self._is_stalled = False
        # True while a call of `_on_readable` is planned.
        self._is_announced = False
        self._inbox = bytearray()
        # Set when the other end has closed. Reported when all earlier bytes are read.
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
        """Starts or stops reading. A connection that is not read does not notice that it was closed."""
        self._is_reading = is_wanted
        self._announce()

    def stall(self, is_stalled: bool) -> None:
        """Prevents the program from reading, or allows it again."""
        self._is_stalled = is_stalled
        self._announce()

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Sends as many bytes as there is room for. Raises BlockingIOError if there is none."""
        if self.is_closed:
            raise BrokenPipeError("the connection is closed")
        room = self._window_bytes - self._unread_by_peer
        if room <= 0:
            self._wants_room = True
            raise BlockingIOError
        sent = bytes(data[:room])
        self._unread_by_peer += len(sent)
        if len(sent) < len(data):
            self._wants_room = True
        self._network.transmit(self, sent)
        return len(sent)

    def recv_into(self, buffer: memoryview) -> int:
        """Receives as many bytes as are there and fit. Raises BlockingIOError if there are none."""
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
        """Closes the connection from this end and notifies the other end."""
        if not self.is_closed:
            self._end()
            if self.peer is not None:
                self._network.announce_close(self, "the peer closed the connection")

    def vanish(self, reason: str | None = None) -> None:
        """Ends only this end, at once. Its program is notified if there is a reason."""
        if self.is_closed:
            return
        self._end()
        if reason is not None and self._on_closed is not None:
            self.process.plan(0, self._on_closed, reason)

    def arrive(self, data: bytes) -> None:
        """Bytes have arrived from the network."""
        if self.is_closed:
            return
        self._inbox += data
        self._announce()

    def end_after_inbox(self, reason: str) -> None:
        """The other end has closed the connection without a reset."""
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
            self.process.plan(0, self._call_reader)

    def _call_reader(self) -> None:
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
            self.process.plan(ROOM_DELAY_US, self._announce_room)

    def _announce_room(self) -> None:
        if not self.is_closed and self._on_writable is not None:
            self._on_writable()


class Listener:
    """A bound port. Connections wait in the backlog until it is opened."""

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


class Detour:
    """Delays some requests of a host, and the answers to them."""

    __slots__ = ("answer_seconds", "on_sent", "request_seconds")

    def __init__(
        self,
        *,
        request_seconds: float = 0.0,
        answer_seconds: float = 0.0,
        on_sent: Callable[[Message], object] | None = None,
    ) -> None:
        self.request_seconds = request_seconds
        self.answer_seconds = answer_seconds
        # Called with every delayed request when it is sent.
        self.on_sent = on_sent


class Network:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._random: Random = kernel.random_for("network")
        self._hosts: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        # In the order of their creation. A dictionary, because the order of a set is not deterministic.
        self._sockets: dict[Socket, None] = {}
        # Called with every answer that a client or node gets: connection, its name, request, response.
        self.observe: Callable[[object, str, Message, Message], object] = lambda *_: None
        # Detours by the sender's host, and by the API key or the purpose of the connection.
        self.detours: dict[tuple[str, int | str], Detour] = {}

    # -- hosts and links -------------------------------------------------------------------------------------------

    def host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(name)
        return host

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
            if source == target:
                link.delay_us = LOCAL_DELAY_US
        return link

    def block(self, source: str, target: str) -> None:
        self.link(source, target).is_blocked = True

    def unblock(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.is_blocked = False
        held, link.held = link.held, []
        arrival_us = self._kernel.now_us + self._random.randrange(*link.delay_us)
        for callback, arguments in held:
            # In the order in which they were sent, and before everything that the same connection sends from now on.
            arrival_us += 1
            if callback == self._arrive:
                arguments[0]._arrival_us = arrival_us
            self._kernel.after(arrival_us - self._kernel.now_us, callback, *arguments)

    def heal(self) -> None:
        """Opens every link and restores its speed; ends all detours."""
        self.detours.clear()
        for source, target in list(self._links):
            self.restore_speed(source, target)
            self.unblock(source, target)

    def restore_speed(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.delay_us = LOCAL_DELAY_US if source == target else DELAY_US
        link.bytes_per_second = 0

    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of hosts that have ever had a link."""
        return list(self._links)

    @property
    def host_names(self) -> list[str]:
        return list(self._hosts)

    def sockets_of(self, host: str) -> list[Socket]:
        """The open ends of connections on a host."""
        return [socket for socket in self._sockets if socket.local == host]

    def end_process(self, process: Process, *, notifies_peers: bool) -> None:
        """Ends the ports and connections of a process. With `notifies_peers` its host still runs and closes them."""
        for key, listener in list(self._listeners.items()):
            if listener.process is process:
                listener.is_closed = True
                del self._listeners[key]
        for socket in [socket for socket in self._sockets if socket.process is process]:
            if notifies_peers:
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
        """Opens a connection. The socket may be closed before it is connected."""
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
        # The bytes never arrive before earlier bytes of the same connection.
        arrival_us = max(self._kernel.now_us + delay_us, sender._arrival_us + 1)
        sender._arrival_us = arrival_us
        self._kernel.after(arrival_us - self._kernel.now_us, self._arrive, sender, receiver, data)

    def announce_close(self, closed: Socket, reason: str) -> None:
        receiver = closed.peer
        assert receiver is not None
        if not self.host(closed.local).is_up:
            return
        self._carry(closed.local, receiver.local, closed._arrival_us, receiver.end_after_inbox, reason)

    def reset(self, socket: Socket, *, is_one_sided: bool) -> None:
        """Breaks a connection. With `is_one_sided` the other end is not notified and stays half open."""
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
        """Delivers a segment that does not wait for earlier bytes: a SYN, its answer, a reset."""
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
            # The host does not have this connection (any more), and answers with a reset.
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
