"""The least that three processes in Python do for a replicated record: the floor of `bench.replicated`.

A leader receives a frame, appends it to a file and sends it to two followers. Each follower appends it to a file and
answers with as many bytes as a fetch has. After both answers the leader answers the client. The same event loop and the
same system calls as in a node; no protocol, no checksums, no log, no requests of other clients.

    python -m bench.replicated_floor leader FILE             prints the port of the leader
    python -m bench.replicated_floor follower FILE PORT
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

from ottla.host.loop import EventLoop, new_event_loop

__all__ = ["FloorCluster"]

FOLLOWERS = 2
BUFFER_BYTES = 64 * 1024
SIZE = struct.Struct(">i")
# A frame with a length of its own: the sizes of a follower's fetch and of the answer to a produce of one partition.
FETCH = SIZE.pack(110) + bytes(110)
PRODUCED = SIZE.pack(60) + bytes(60)
# The first bytes of a follower.
HELLO = SIZE.pack(1) + b"f"


class FloorCluster:
    """The three processes."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._processes: list[subprocess.Popen[str]] = []
        self.port = 0

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    def __enter__(self) -> Self:
        leader = self._start("leader")
        assert leader.stdout is not None
        self.port = int(leader.stdout.readline())
        for number in range(FOLLOWERS):
            self._start("follower", str(number), str(self.port))
        assert leader.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, role: str, name: str = "leader", *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "bench.replicated_floor", role, str(self._directory / name), *arguments]
        self._processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return self._processes[-1]


class Frames:
    """Receives whole frames from a socket."""

    def __init__(self, loop: EventLoop, connection: socket.socket, on_frame: Callable[[memoryview], None]) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._loop = loop
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._received = 0
        self.on_frame = on_frame
        loop.add_reader(connection.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        count = self.connection.recv_into(self._buffer[self._received :])
        if not count:
            self._loop.remove_reader(self.connection.fileno())
            return
        end, start = self._received + count, 0
        while end - start >= SIZE.size:
            frame_end = start + SIZE.size + SIZE.unpack_from(self._buffer, start)[0]
            if frame_end > end:
                break
            self.on_frame(self._buffer[start:frame_end])
            start = frame_end
        remainder = bytes(self._buffer[start:end])
        self._buffer[: len(remainder)] = remainder
        self._received = len(remainder)


class Leader:
    """Accepts the followers, and clients that wait for each answer."""

    def __init__(self, loop: EventLoop, path: str) -> None:
        self._loop = loop
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._followers: list[socket.socket] = []
        self._client: socket.socket | None = None
        self._missing = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        loop.add_reader(self._listener.fileno(), self._on_connection)
        print(self._listener.getsockname()[1], flush=True)

    def _on_connection(self) -> None:
        connection, _ = self._listener.accept()
        frames = Frames(self._loop, connection, lambda frame: self._on_first_frame(frames, frame))

    def _on_first_frame(self, frames: Frames, frame: memoryview) -> None:
        if frame != HELLO:
            frames.on_frame = lambda record: self._on_record(frames.connection, record)
            frames.on_frame(frame)
            return
        frames.on_frame = self._on_fetch
        self._followers.append(frames.connection)
        if len(self._followers) == FOLLOWERS:
            print("ready", flush=True)

    def _on_record(self, client: socket.socket, frame: memoryview) -> None:
        os.write(self._file, frame)
        self._client, self._missing = client, FOLLOWERS
        for follower in self._followers:
            follower.send(frame)

    def _on_fetch(self, _frame: memoryview) -> None:
        self._missing -= 1
        if not self._missing and self._client is not None:
            self._client.send(PRODUCED)


def follow(loop: EventLoop, path: str, port: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    leader = socket.create_connection(("127.0.0.1", port))

    def on_record(frame: memoryview) -> None:
        os.write(file, frame)
        leader.send(FETCH)

    Frames(loop, leader, on_record)
    leader.send(HELLO)


def main() -> None:
    role, path, *port = sys.argv[1:]
    loop = new_event_loop()
    if role == "leader":
        Leader(loop, path)
    else:
        follow(loop, path, int(port[0]))
    loop.run_forever()


if __name__ == "__main__":
    main()
