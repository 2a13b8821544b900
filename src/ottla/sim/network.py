"""A network of hosts: connections that carry frames in order, over links that delay, block and break.

A frame is delivered whole; what TCP promises holds (in order, no gaps, no repeats on one connection), and nothing more:
- two connections between the same hosts overtake each other as delays fall;
- a blocked link (a partition; each direction has its own) keeps frames back, as retransmission would, and delivers them
  when it opens again; a sender that waits too long gives its side of the connection up, and only its side;
- a reset loses what is under way and tells both sides, or only one: the other is then half open, and learns of it when
  it sends;
- a program that is killed has its connections closed by its operating system; one whose power is cut does not, and its
  peers find out when they send to the host that has come back;
- a frozen program is connected to and sent to, and does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from zlib import crc32

from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.process import Process

__all__ = ["Host", "Link", "Listener", "Network", "Socket"]

# How long a sender retransmits before it gives up; Linux takes a quarter of an hour, which would hide much.
RETRANSMISSION_US = (10 * SECOND_US, 30 * SECOND_US)

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
    """One end of a connection. Frames that nobody takes yet are kept."""

    __slots__ = (
        "_arrival_us",
        "_inbox",
        "_is_giving_up",
        "_network",
        "is_closed",
        "listener",
        "local",
        "on_closed",
        "on_frame",
        "peer",
        "process",
    )

    def __init__(self, network: Network, local: str, process: Process) -> None:
        self._network = network
        self.local = local
        self.process = process
        self.peer: Socket | None = None
        self.on_frame: Callable[[bytes], object] | None = None
        self.on_closed: Callable[[str], object] | None = None
        # Where the connection was accepted, on the side that asked for it.
        self.listener: Listener | None = None
        self.is_closed = False
        self._arrival_us = 0
        self._is_giving_up = False
        self._inbox: list[bytes] = []

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Lowest and highest version of each API that the other side serves, as ApiVersions would tell."""
        return {} if self.listener is None else self.listener.versions

    def send(self, frame: bytes) -> None:
        if self.is_closed:
            return
        assert self.peer is not None
        self._network.transmit(self, frame)

    def take_frames(self, on_frame: Callable[[bytes], object], on_closed: Callable[[str], object]) -> None:
        self.on_frame, self.on_closed = on_frame, on_closed
        inbox, self._inbox = self._inbox, []
        for frame in inbox:
            self.process.plan(0, self._deliver, frame)

    def close(self) -> None:
        """Ends the connection from this side; the other side is told."""
        if not self.is_closed:
            self.is_closed = True
            self._network.forget(self)
            if self.peer is not None:
                self._network.tell_closed(self, "the peer closed the connection")

    def vanish(self, reason: str | None = None) -> None:
        """Ends this side alone, and tells whoever uses it when there is a reason."""
        if self.is_closed:
            return
        self.is_closed = True
        self._network.forget(self)
        if reason is not None and self.on_closed is not None:
            self.process.plan(0, self.on_closed, reason)

    def _deliver(self, frame: bytes) -> None:
        if self.is_closed:
            return
        if self.on_frame is None:
            self._inbox.append(frame)
        else:
            self.on_frame(frame)


class Listener:
    """A bound port. Who connects before it is opened waits in the backlog."""

    __slots__ = ("_backlog", "_on_accept", "is_closed", "process", "versions")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.is_closed = False
        self._on_accept: Callable[[Socket], object] | None = None
        self._backlog: list[Socket] = []

    def open(self, on_accept: Callable[[Socket], object], versions: Mapping[int, tuple[int, int]]) -> None:
        self._on_accept = on_accept
        self.versions = versions
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
        socket = Socket(self, source, process)
        self._sockets[socket] = None

        def on_syn() -> None:
            listener = self._listeners.get((target, port))
            if not self.host(target).is_up:
                return
            if listener is None:
                self._carry(target, source, 0, process.run, on_refused, ("connection refused",))
                return
            remote = Socket(self, target, listener.process)
            self._sockets[remote] = None
            remote.peer = socket
            listener.accept(remote)
            self._carry(target, source, 0, process.run, on_syn_ack, (remote, listener))

        def on_syn_ack(remote: Socket, listener: Listener) -> None:
            if socket.is_closed:
                remote.vanish("the peer is gone")
                return
            socket.peer = remote
            socket.listener = listener
            on_connected(socket)

        self._carry(source, target, 0, on_syn)
        return socket

    def transmit(self, sender: Socket, frame: bytes) -> None:
        receiver = sender.peer
        assert receiver is not None
        self._kernel.trace("frame", number=crc32(frame))
        link = self.link(sender.local, receiver.local)
        if link.is_blocked or not self.host(receiver.local).is_up:
            self._kernel.counts["frame held back"] += 1
            if not sender._is_giving_up:
                sender._is_giving_up = True
                self._kernel.after(self._random.randrange(*RETRANSMISSION_US), self._give_up, sender, link)
            if link.is_blocked:
                link.held.append((self._arrive, (sender, receiver, frame)))
            return
        delay_us = self._random.randrange(*link.delay_us)
        if link.bytes_per_second:
            delay_us += len(frame) * SECOND_US // link.bytes_per_second
        # Never before what was sent earlier on the same connection.
        arrival_us = max(self._kernel.now_us + delay_us, sender._arrival_us + 1)
        sender._arrival_us = arrival_us
        self._kernel.after(arrival_us - self._kernel.now_us, self._arrive, sender, receiver, frame)

    def tell_closed(self, closed: Socket, reason: str) -> None:
        receiver = closed.peer
        assert receiver is not None
        if not self.host(closed.local).is_up:
            return
        self._carry(closed.local, receiver.local, closed._arrival_us, receiver.vanish, reason)

    def reset(self, socket: Socket, *, is_one_sided: bool) -> None:
        """Breaks a connection; with `is_one_sided` the other end goes on believing in it."""
        self._kernel.trace("connection reset", f"{socket.local} {'one side' if is_one_sided else 'both sides'}")
        peer = socket.peer
        socket.vanish("connection reset")
        if peer is not None and not is_one_sided:
            peer.vanish("connection reset")

    def forget(self, socket: Socket) -> None:
        self._sockets.pop(socket, None)

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

    def _arrive(self, sender: Socket, receiver: Socket, frame: bytes) -> None:
        if not self.host(receiver.local).is_up:
            return
        if receiver.is_closed:
            # The host knows no such connection (any more), and says so.
            self._kernel.counts["frame to nobody"] += 1
            self._carry(receiver.local, sender.local, 0, sender.vanish, "connection reset by peer")
            return
        receiver.process.run(receiver._deliver, (frame,))

    def _give_up(self, sender: Socket, link: Link) -> None:
        sender._is_giving_up = False
        if not sender.is_closed and (
            link.is_blocked or (sender.peer is not None and not self.host(sender.peer.local).is_up)
        ):
            self._kernel.trace("connection timed out", sender.local)
            sender.vanish("connection timed out")
