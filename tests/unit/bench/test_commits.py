"""The client that commits offsets, against a broker of three lines."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.commits import VERSION, commit_frame, drive_commits, failed_commits, percentile
from ottla.model.ports import FileRegion
from ottla.wire.codec import decode
from ottla.wire.framing import parse_request_header, response_parts
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def answer_with(error_code: int) -> bytes:
    parts = [OffsetCommitResponsePartition(partition_index=3, error_code=error_code)]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=parts)])
    pieces = response_parts(OffsetCommitRequest.API_KEY, VERSION, 1, response)
    return b"".join(piece for piece in pieces if not isinstance(piece, FileRegion))


@contextmanager
def broker(answer: bytes) -> Iterator[str]:
    """Answers every frame of one connection, each answer in two pieces."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as frames:
            while size := frames.read(4):
                frames.read(int.from_bytes(size, "big"))
                connection.sendall(answer[:3])
                connection.sendall(answer[3:])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_a_frame_is_a_commit_without_membership() -> None:
    frame = memoryview(commit_frame("g", "t", range(2, 4), offset=7))[4:]
    header = parse_request_header(frame)
    request, end = decode(OffsetCommitRequest, frame, header.api_version, header.body_position)
    assert end == len(frame)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    (topic,) = request.topics
    assert [(part.partition_index, part.committed_offset) for part in topic.partitions] == [(2, 7), (3, 7)]


def test_errors_are_found() -> None:
    assert failed_commits(answer_with(0)[4:]) == []
    assert failed_commits(answer_with(25)[4:]) == [25]


def test_commits_are_counted_and_timed() -> None:
    with broker(answer_with(0)) as bootstrap:
        outcome = drive_commits(bootstrap, [[commit_frame("g", "t", [3], offset=0)]], seconds=0.02)
    assert outcome.commits > 0
    assert 0 < outcome.p50_ms <= outcome.p99_ms


def test_a_refused_commit_ends_the_run() -> None:
    with broker(answer_with(25)) as bootstrap, pytest.raises(AssertionError, match="25"):
        drive_commits(bootstrap, [[commit_frame("g", "t", [3], offset=0)]], seconds=5)


def test_percentiles() -> None:
    assert percentile([5.0], 0.99) == 5.0
    assert percentile([float(number) for number in range(100, 0, -1)], 0.99) == 99.0
    assert percentile([1.0, 2.0], 0.5) == 1.0
