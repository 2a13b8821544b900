"""Sends buffers and regions of files in order, without ever blocking the loop.

Small buffers are joined and sent with one call; larger buffers are gathered. A `FileRegion` is sent with `os.sendfile`,
from the page cache straight to the socket. A small region is read and sent together with its neighbours, which is
cheaper. Before that the outbox checks whether the pages of the region are in memory. If they are not, a worker reads
them first, because a page fault inside sendfile would stall every other connection.

When the socket accepts no more bytes, the outbox waits until it is writable. When it needs the disk, it waits for the
worker. In both cases it resumes by itself and notifies its owner.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Protocol

from ottla.host.byte_stream import ByteStream
from ottla.model.deferred import Deferred
from ottla.model.ports import File, FileRegion, Lane, World
from ottla.wire.connection.outgoing import Outgoing

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop

__all__ = ["Outbox", "OutboxOwner"]

logger = logging.getLogger("ottla.host.outbox")

# Answers of up to this size together are joined into one buffer.
JOINED_MAX = 32 * 1024

# Regions up to this size are read and sent together with their neighbours. Larger regions are sent with sendfile, which
# takes four more system calls but no memory.
REGION_COPIED_MAX = 64 * 1024

# The most bytes that are gathered for one send. They stay in memory if the socket does not accept them.
GATHERED_BYTES_MAX = 256 * 1024

# Pages are read into memory and sent in runs of this size. The disk reads the next two while a run is sent.
REGION_RUN = 1024 * 1024
REGION_AHEAD = 2 * REGION_RUN

# The most bytes that a connection sends before the loop serves other connections. A few readers of old records would
# otherwise keep every producer waiting: each of them takes a millisecond for about this many bytes.
FLUSH_BYTES_MAX = 1024 * 1024

# The most buffers for one sendmsg. The kernel's limit is 1024.
BUFFERS_PER_SEND_MAX = 256


class OutboxOwner(Protocol):
    def outbox_moved(self) -> None:
        """Bytes were sent after a wait, perhaps all of them."""

    def outbox_waited(self, seconds: float) -> None:
        """Reports how long bytes have waited for the socket."""

    def outbox_failed(self, reason: str | None) -> None:
        """Called when sending has failed. `reason` is a sentence, or None if the client has disconnected."""


class _NoOwner:
    """The owner of a closed outbox."""

    def outbox_moved(self) -> None:
        """Nothing is waiting for it."""

    def outbox_waited(self, seconds: float) -> None:
        """Nothing is waiting for it."""

    def outbox_failed(self, reason: str | None) -> None:
        """Nothing is waiting for it."""


_NO_OWNER = _NoOwner()


class Outbox:
    """Moves the bytes of an `Outgoing` queue to a socket."""

    __slots__ = (
        "_closed",
        "_fd",
        "_loop",
        "_outgoing",
        "_owner",
        "_parts",
        "_region_sent",
        "_region_warm_until",
        "_sends_files",
        "_stream",
        "_waiting_for_disk",
        "_waiting_for_writable",
        "_waiting_since",
        "_world",
    )

    def __init__(
        self,
        *,
        loop: EventLoop,
        world: World,
        stream: ByteStream,
        outgoing: Outgoing,
        owner: OutboxOwner,
        sends_files: bool = True,
    ) -> None:
        self._loop = loop
        self._world = world
        self._stream = stream
        self._fd = stream.fileno()
        self._owner: OutboxOwner = owner
        self._sends_files = sends_files
        self._outgoing = outgoing
        self._parts = outgoing.parts
        # For the large region at the head of the queue: the bytes sent, and the position up to which its file is in
        # memory.
        self._region_sent = 0
        self._region_warm_until = -1
        self._waiting_for_writable = False
        self._waiting_since = 0.0
        self._waiting_for_disk = False
        self._closed = False

    def flush(self) -> bool:
        """Writes as much as the socket accepts. True if that was everything; the rest is sent without another call."""
        if self._waiting_for_writable or self._waiting_for_disk:
            return False
        return self._flush()

    def close(self) -> None:
        self._closed = True
        self._stop_waiting_for_writable()
        # The owner refers to this object: without this line only the garbage collector would free both.
        self._owner = _NO_OWNER

    def _flush(self) -> bool:
        parts = self._parts
        budget = FLUSH_BYTES_MAX
        try:
            while parts:
                part = parts[0]
                if isinstance(part, FileRegion) and len(part) > REGION_COPIED_MAX:
                    if self._sends_files:
                        sent = self._send_region(part)
                    else:
                        # The region is read and sent in pieces.
                        self._outgoing.split_first(REGION_COPIED_MAX)
                        continue
                else:
                    sent = self._send_buffers()
                if sent == 0:
                    # While the outbox waits for the disk, it must not be called because the socket is writable.
                    self._stop_waiting_for_writable()
                    return False
                budget -= sent
                if budget <= 0 and parts:
                    self._wait_for_writable()
                    return False
        except (BlockingIOError, InterruptedError):
            self._wait_for_writable()
            return False
        except OSError:
            self._owner.outbox_failed(None)
            return False
        self._outgoing.has_regions = False
        self._stop_waiting_for_writable()
        return True

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _wait_for_writable(self) -> None:
        if not self._waiting_for_writable:
            self._waiting_for_writable = True
            self._waiting_since = self._loop.time()
            self._loop.add_writer(self._fd, self._resume)

    def _stop_waiting_for_writable(self) -> None:
        if self._waiting_for_writable:
            self._waiting_for_writable = False
            self._loop.remove_writer(self._fd)
            self._owner.outbox_waited(self._loop.time() - self._waiting_since)

    def _resume(self) -> None:
        try:
            self._flush()
            self._owner.outbox_moved()
        except Exception:
            # A defect. Without this the connection would neither send nor be closed.
            logger.exception("a defect in sending answers; the connection is closed")
            self._owner.outbox_failed("an internal error")

    # -- buffers ---------------------------------------------------------------------------------------------------

    def _send_buffers(self) -> int:
        """Sends the buffers at the head of the queue with one call. Returns 0 if it has to wait for the disk."""
        outgoing, parts = self._outgoing, self._parts
        if len(parts) == 1:
            is_joined = not isinstance(parts[0], FileRegion)
        else:
            # Joining a few small answers is cheaper than passing each of them to the kernel.
            is_joined = not outgoing.has_regions and outgoing.unsent_bytes <= JOINED_MAX
        if is_joined:
            return outgoing.send_joined(self._stream.send)
        buffers, flags = self._gather()
        if not buffers:
            return 0
        sent = self._stream.sendmsg(buffers, (), flags)
        outgoing.sent(sent)
        return sent

    def _gather(self) -> tuple[list[bytes | bytearray | memoryview], int]:
        """The buffers at the head of the queue, with the bytes of small regions; MSG_MORE if a sendfile follows."""
        buffers: list[bytes | bytearray | memoryview] = []
        gathered = 0
        for index, part in enumerate(self._parts):
            if isinstance(part, FileRegion):
                size = part.length
                if size > REGION_COPIED_MAX:
                    return buffers, socket.MSG_MORE
                data = part.file.read_nowait(part.position, size)
                if data is None or len(data) < size:
                    if not buffers:
                        self._read_on_worker(part)
                    return buffers, 0
                self._parts[index] = data
                self._outgoing.unsent_bytes += size
                buffers.append(data)
            else:
                size = len(part)
                buffers.append(part)
            gathered += size
            if len(buffers) == BUFFERS_PER_SEND_MAX or gathered >= GATHERED_BYTES_MAX:
                break
        return buffers, 0

    def _read_on_worker(self, region: FileRegion) -> None:
        """Reads a small region that is not in memory. Its bytes replace it in the queue."""

        def on_read(deferred: Deferred[bytes]) -> None:
            self._waiting_for_disk = False
            if self._closed:
                return
            if deferred.error is not None:
                self._owner.outbox_failed(f"cannot read {region}: {deferred.error}")
                return
            if len(deferred.result()) < len(region):
                self._fail_short(region)
                return
            self._outgoing.replace_first(deferred.result())
            self._resume()

        self._waiting_for_disk = True
        self._world.workers.lane(Lane.READS).submit(region.read).when_done(on_read)

    # -- regions of files ------------------------------------------------------------------------------------------

    def _send_region(self, region: FileRegion) -> int:
        """Sends a run of the region at the head of the queue. Returns 0 if it has to wait for the disk."""
        file = region.file
        position = start = region.position + self._region_sent
        end = self._region_warm_until
        if start >= end:
            end = min(start + REGION_RUN, region.position + region.length)
            if not _is_in_memory(file, start, end - start):
                self._warm_on_worker(file, start, end - start)
                return 0
            self._region_warm_until = end
        descriptor, file_descriptor = self._fd, file.fileno()
        try:
            # After a call that sends less than requested, a client that reads meanwhile has usually made room for more.
            while position < end:
                sent = os.sendfile(descriptor, file_descriptor, position, end - position)
                if sent == 0:
                    self._fail_short(region)
                    return 0
                position += sent
        finally:
            self._region_sent = position - region.position
        if self._region_sent == region.length:
            self._parts.popleft()
            self._region_sent = 0
            self._region_warm_until = -1
        return position - start

    def _fail_short(self, region: FileRegion) -> None:
        """Fails the stream, because the response has announced bytes that the file does not have."""
        on_short_file = self._world.files.on_short_file
        if on_short_file is not None:
            on_short_file(region.file.path)
        self._owner.outbox_failed(f"{region} ends before its announced length")

    def _warm_on_worker(self, file: File, position: int, length: int) -> None:
        def on_warm(deferred: Deferred[int]) -> None:
            self._waiting_for_disk = False
            if self._closed:
                return
            if deferred.error is not None:
                self._owner.outbox_failed(f"cannot read {file.path}: {deferred.error}")
                return
            self._region_warm_until = position + length
            self._resume()

        self._waiting_for_disk = True
        self._world.workers.lane(Lane.READS).submit(_bring_into_memory, file, position, length).when_done(on_warm)


def _is_in_memory(file: File, position: int, length: int) -> bool:
    """True if the pages are most likely cached. Checks one byte of the first, a middle and the last page.

    The page cache loads and evicts pages in runs. But the beginning and the end of a region are usually cached, because
    the header of a batch there was just read. Only the middle shows whether the region was sent before.
    """
    return (
        file.read_nowait(position + length // 2, 1) is not None
        and file.read_nowait(position, 1) is not None
        and file.read_nowait(position + length - 1, 1) is not None
    )


def _bring_into_memory(file: File, position: int, length: int) -> int:
    file.read_ahead(position + length, REGION_AHEAD)
    return len(file.read(position, length))
