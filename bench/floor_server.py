"""A minimal server: it does only the unavoidable work with a client's batches.

Produce: receive, check the CRC, write the offset, write to a file, answer; all available bytes are received with one
call and answered with one, and nothing is copied. Fetch: find the position, send from the file. There is one topic
at a time, no log behind the files, no fairness between clients, no limits and no recovery. All other requests are
forwarded to a node behind it, so that real clients can use the server.

    python -m bench.floor_server --port PORT --behind PORT --directory DIRECTORY
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import struct
import sys
from bisect import bisect_right
from collections import deque
from pathlib import Path

from ottla.host.loop import new_event_loop
from ottla.host.loopback import send_without_pacing
from ottla.model.ports import FileRegion
from ottla.records.checksum import crc32c
from ottla.wire.framing import parse_request, parse_request_header, response_parts
from ottla.wire.message import Part
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.primitives import read_unsigned_varint

__all__: list[str] = []

SIZE = struct.Struct(">i")
PRODUCE, FETCH = 0, 1
TOPIC_ID_VERSION, TOPIC_ID_SIZE = 13, 16
# Acks and time-out.
BEFORE_TOPICS = 2 + 4
CHECKED_FROM = 21
LAST_OFFSET_DELTA_AT = 23
# Index, no error, first offset, append time, start offset; no records at fault, no message, no tagged fields.
PARTITION_ANSWER = struct.Struct(">ihqqqBBB")
# Tagged fields of the topic; no throttling; tagged fields of the answer.
ANSWER_END = bytes(1 + 4 + 1)
BUFFER_BYTES = 8 << 20
RECEIVED_MAX = 256 << 10
# Up to this many bytes of an incomplete frame are moved to the front of the buffer, which is still in the caches.
MOVED_MAX = 32 << 10
# Buffers are allocated beforehand: touching their memory for the first time costs as much as many requests.
BUFFERS = 8
# A consumer at the end of the log is answered after this time, so that it does not poll in a busy loop.
EMPTY_ANSWER_AFTER_S = 0.05


class PartitionFile:
    """Consecutive batches and their positions. `FileRegion` needs only the descriptor of a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.next_offset = self.size = 0
        self.first_offsets: list[int] = []
        self.positions: list[int] = []

    def fileno(self) -> int:
        return self.descriptor

    def append(self, batch: memoryview) -> int:
        first = self.next_offset
        crc32c(batch[CHECKED_FROM:])
        struct.pack_into(">q", batch, 0, first)
        os.pwrite(self.descriptor, batch, self.size)
        self.first_offsets.append(first)
        self.positions.append(self.size)
        self.size += len(batch)
        self.next_offset = first + SIZE.unpack_from(batch, LAST_OFFSET_DELTA_AT)[0] + 1
        return first

    def region(self, offset: int, bytes_max: int) -> FileRegion | None:
        """Whole batches, at least one, beginning with the batch that has this offset."""
        if offset >= self.next_offset:
            return None
        start = self.positions[bisect_right(self.first_offsets, offset) - 1]
        if start + bytes_max >= self.size:
            return FileRegion(self, start, self.size - start)  # type: ignore[arg-type]
        after = max(bisect_right(self.positions, start + bytes_max) - 1, bisect_right(self.positions, start))
        return FileRegion(self, start, self.positions[after] - start)  # type: ignore[arg-type]


class Files:
    """The partitions of the current topic."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._topic = b""
        self._partitions: dict[int, PartitionFile] = {}

    def produce(self, frame: memoryview) -> bytes:
        header = parse_request_header(frame)
        length, position = read_unsigned_varint(frame, header.body_position)
        position += max(length - 1, 0) + BEFORE_TOPICS + 1
        topic_at = position
        if header.api_version >= TOPIC_ID_VERSION:
            position += TOPIC_ID_SIZE
        else:
            length, position = read_unsigned_varint(frame, position)
            position += length - 1
        topic = bytes(frame[topic_at:position])
        if topic != self._topic:
            self._begin(topic)
        count, position = read_unsigned_varint(frame, position)
        pieces = [b"\0\x02", topic, bytes((count,))]
        for _ in range(count - 1):
            (index,) = SIZE.unpack_from(frame, position)
            length, start = read_unsigned_varint(frame, position + 4)
            position = start + length - 1
            first = self._file(index).append(frame[start:position])
            pieces.append(PARTITION_ANSWER.pack(index, 0, first, -1, 0, 1, 0, 0))
            position += 1
        pieces.append(ANSWER_END)
        answer = b"".join(pieces)
        return struct.pack(">ii", len(answer) + 4, header.correlation_id) + answer

    def fetch(self, frame: memoryview) -> tuple[list[Part], bool]:
        """The answer, and True if it has any records."""
        header, request = parse_request(frame)
        assert isinstance(request, FetchRequest)
        has_data = False
        topics = []
        for topic in request.topics:
            partitions = []
            for fetched in topic.partitions:
                file = self._file(fetched.partition)
                region = file.region(fetched.fetch_offset, fetched.partition_max_bytes)
                has_data = has_data or region is not None
                partitions.append(
                    PartitionData(
                        partition_index=fetched.partition,
                        high_watermark=file.next_offset,
                        last_stable_offset=file.next_offset,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=b"" if region is None else region,
                    )
                )
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
        answer = FetchResponse(responses=topics)
        return response_parts(FETCH, header.api_version, header.correlation_id, answer), has_data

    def _begin(self, topic: bytes) -> None:
        self._topic = topic
        for file in self._partitions.values():
            os.close(file.descriptor)
        self._partitions.clear()

    def _file(self, index: int) -> PartitionFile:
        file = self._partitions.get(index)
        if file is None:
            file = self._partitions[index] = PartitionFile(self._directory / str(index))
        return file


class Connection:
    """One client. Received bytes stay in a reused buffer until they are answered."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: socket.socket,
        behind: int,
        files: Files,
        buffers: list[memoryview],
    ) -> None:
        self._loop, self._client, self._files, self._buffers = loop, client, files, buffers
        self._behind = socket.create_connection(("127.0.0.1", behind))
        self._buffer = buffers.pop() if buffers else new_buffer()
        # The range of received bytes that are not answered yet.
        self._begin = self._end = 0
        self._unsent: deque[Part] = deque()
        self._writing = False
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.add_reader(client.fileno(), self._read)

    def _read(self) -> None:
        buffer, begin, end = self._buffer, self._begin, self._end
        try:
            received = self._client.recv_into(buffer[end : end + RECEIVED_MAX])
        except BlockingIOError:
            return
        except ConnectionError:
            received = 0
        if received == 0:
            self._close()
            return
        end += received
        answers: list[Part] = []
        while end - begin >= SIZE.size:
            (size,) = SIZE.unpack_from(buffer, begin)
            frame_end = begin + SIZE.size + size
            if frame_end > end:
                break
            answers += self._answer(buffer[begin + SIZE.size : frame_end])
            begin = frame_end
        if end - begin <= MOVED_MAX or end + RECEIVED_MAX > BUFFER_BYTES:
            buffer[: end - begin] = buffer[begin:end]
            begin, end = 0, end - begin
        self._begin, self._end = begin, end
        if answers:
            self._send(answers)

    def _answer(self, frame: memoryview) -> list[Part]:
        api_key = int.from_bytes(frame[:2], "big")
        if api_key == PRODUCE:
            return [self._files.produce(frame)]
        if api_key == FETCH:
            parts, has_data = self._files.fetch(frame)
            if has_data:
                return parts
            self._loop.call_later(EMPTY_ANSWER_AFTER_S, self._send, parts)
            return []
        self._behind.sendall(SIZE.pack(len(frame)))
        self._behind.sendall(frame)
        size = self._behind.recv(SIZE.size, socket.MSG_WAITALL)
        return [size + self._behind.recv(SIZE.unpack(size)[0], socket.MSG_WAITALL)]

    def _send(self, parts: list[Part]) -> None:
        self._unsent.extend(part for part in parts if len(part))
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                part = unsent[0]
                if isinstance(part, FileRegion):
                    sent = os.sendfile(self._client.fileno(), part.file.fileno(), part.position, part.length)
                    part.position += sent
                    part.length -= sent
                    if not part.length:
                        unsent.popleft()
                elif len(unsent) > 1 and not any(isinstance(part, FileRegion) for part in unsent):
                    joined = b"".join(unsent)  # type: ignore[arg-type]
                    unsent.clear()
                    unsent.append(joined)
                else:
                    more = socket.MSG_MORE if len(unsent) > 1 else 0
                    sent = self._client.send(part, more)
                    unsent[0] = memoryview(part)[sent:]
                    if sent == len(part):
                        unsent.popleft()
        except BlockingIOError:
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._client.fileno(), self._flush)
            return
        except OSError:
            self._close()
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._client.fileno())

    def _close(self) -> None:
        if self._client.fileno() < 0:
            return
        self._loop.remove_reader(self._client.fileno())
        self._loop.remove_writer(self._client.fileno())
        self._client.close()
        self._behind.close()
        self._unsent.clear()
        self._buffers.append(self._buffer)


def new_buffer() -> memoryview:
    return memoryview(bytearray(BUFFER_BYTES))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.floor_server", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--behind", type=int, required=True, help="the port of the node that answers everything else")
    parser.add_argument("--directory", type=Path, required=True)
    options = parser.parse_args()
    files = Files(options.directory)
    loop = new_event_loop()
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        listener.setblocking(False)
        send_without_pacing(listener)
        buffers = [new_buffer() for _ in range(BUFFERS)]
        loop.add_reader(
            listener.fileno(), lambda: Connection(loop, listener.accept()[0], options.behind, files, buffers) and None
        )
        print("ready", flush=True)
        loop.run_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
