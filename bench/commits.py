"""Offset commits as fast as the broker answers them: some connections, each with one commit in flight.

Consumers that commit synchronously behave like this; the other work of a consumer is left out. The frames are built
beforehand; one thread serves all connections, so that the same small client is used for both brokers.
"""

from __future__ import annotations

import math
import selectors
import socket
import statistics
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from ottla.model.ports import FileRegion
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

__all__ = ["CommitOutcome", "commit_frame", "drive_commits", "failed_commits", "percentile"]

VERSION = 9
TIMEOUT_S = 30.0
# An answer's size and correlation id, and the empty tags of its header.
SIZE = struct.Struct(">i")
HEADER_SIZE = 5


class CommitOutcome(NamedTuple):
    commits: int
    commits_per_s: float
    p50_ms: float
    p99_ms: float


def commit_frame(group: str, topic: str, partitions: Sequence[int], *, offset: int) -> bytes:
    """An OffsetCommit of a client that is no member of the group."""
    offsets = [
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset) for partition in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=offsets)],
    )
    parts = request_parts(OffsetCommitRequest.API_KEY, VERSION, 1, "bench", request)
    return b"".join(part for part in parts if not isinstance(part, FileRegion))


def failed_commits(answer: bytes) -> list[int]:
    """The error codes in an answer (without its size) that are not zero."""
    response, _ = decode(OffsetCommitResponse, memoryview(answer), VERSION, HEADER_SIZE)
    return [part.error_code for topic in response.topics for part in topic.partitions if part.error_code]


def drive_commits(bootstrap: str, frames: Sequence[Sequence[bytes]], *, seconds: float) -> CommitOutcome:
    """Opens a connection for every list of frames; each connection repeats its list until the time is up."""
    host, _, port = bootstrap.partition(":")
    connections = [Connection(socket.create_connection((host, int(port)), TIMEOUT_S), own) for own in frames]
    selector = selectors.DefaultSelector()
    latencies: list[float] = []
    try:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        start = time.perf_counter()
        for connection in connections:
            connection.send()
        waiting = len(connections)
        while waiting:
            ready = selector.select(TIMEOUT_S)
            assert ready, f"no answer in {TIMEOUT_S} s"
            for key, _ in ready:
                connection = key.data
                if (latency := connection.receive()) is None:
                    continue
                latencies.append(latency)
                if time.perf_counter() - start < seconds:
                    connection.send()
                else:
                    waiting -= 1
        elapsed = time.perf_counter() - start
    finally:
        selector.close()
        for connection in connections:
            connection.socket.close()
    p50, p99 = statistics.median(latencies) * 1e3, percentile(latencies, 0.99) * 1e3
    return CommitOutcome(len(latencies), len(latencies) / elapsed, p50, p99)


def percentile(values: Sequence[float], share: float) -> float:
    """The percentile: the smallest value that is not exceeded by this share of the values."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * share) - 1]


class Connection:
    """One consumer's connection, with at most one commit in flight."""

    def __init__(self, connected: socket.socket, frames: Sequence[bytes]) -> None:
        self.socket = connected
        self._frames = frames
        self._turn = 0
        self._sent_at = 0.0
        self._received = b""
        # Every commit of this connection has the same partitions, so all good answers are equal.
        self._good = b""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self) -> None:
        frame = self._frames[self._turn % len(self._frames)]
        self._turn += 1
        self._sent_at = time.perf_counter()
        self.socket.sendall(frame)

    def receive(self) -> float | None:
        """The seconds until the answer, or None while it is incomplete."""
        piece = self.socket.recv(1 << 16)
        assert piece, "the broker closed the connection"
        answer = self._received + piece
        if len(answer) < SIZE.size or len(answer) < SIZE.size + SIZE.unpack_from(answer)[0]:
            self._received = answer
            return None
        latency = time.perf_counter() - self._sent_at
        self._received = b""
        if answer != self._good:
            failures = failed_commits(answer[SIZE.size :])
            assert not failures, f"the broker answered with {failures[:3]}"
            self._good = answer
        return latency
