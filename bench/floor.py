"""What a produce costs before a broker has done anything of its own: the kernel's share, and the checksum.

A server receives frames of a fixed shape, computes the CRC32C of every batch, writes each to its file, and sends an
answer of the size that a broker's would have. It reads no protocol, keeps no log, and waits in `recv`. Its CPU time per
byte is the floor under every broker's: shown beside the goals, it tells how much of a ratio can be won at all. (What a
broker pays later for the same bytes, such as removing old segments, is not in it.)

    python -m bench.floor            the floor for all shapes of the bench
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from bench.measure import touch_memory
from bench.micro import Client, cpu_ns
from ottla.records.checksum import crc32c

__all__ = ["floor_s_per_gb"]

SIZE = struct.Struct(">i")
# As many as a Java producer has.
IN_FLIGHT = 5
# Enough for a steady figure, in a fraction of a second.
BYTES_PER_ROUND = 60_000_000
ROUNDS = 3
ANSWER_BYTES = 40
ANSWER_BYTES_PER_BATCH = 32
# What a batch of 1 KiB records leaves free of `batch.size`: a page that two batches share costs more than a whole one.
BATCH_BYTES_FREE = 828
SHAPES = [(16, 1), (16, 6), (128, 1), (128, 6)]


@cache
def floor_s_per_gb(batch_kib: int, batches_per_request: int) -> float:
    """CPU seconds per 1e9 bytes; the best of some rounds, for it is a floor."""
    batch_bytes = batch_kib * 1024 - BATCH_BYTES_FREE
    return min(measure(batch_bytes, batches_per_request) for _ in range(ROUNDS))


def measure(batch_bytes: int, batches_per_request: int) -> float:
    frame_bytes = batch_bytes * batches_per_request
    frame = SIZE.pack(frame_bytes) + os.urandom(frame_bytes)
    requests = max(BYTES_PER_ROUND // frame_bytes, 2 * IN_FLIGHT)
    with tempfile.TemporaryDirectory(prefix="ottla-floor-") as directory:
        touch_memory(Path(directory), requests * frame_bytes)
        command = [sys.executable, "-m", "bench.floor", "--serve", directory]
        command += ["--batch-bytes", str(batch_bytes), "--batches", str(batches_per_request)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            client = Client(int(server.stdout.readline()))
            client.drive([frame] * IN_FLIGHT, in_flight=IN_FLIGHT)
            before = cpu_ns(server.pid)
            client.drive([frame] * requests, in_flight=IN_FLIGHT)
            spent = cpu_ns(server.pid) - before
            # It ends when its only client does.
            client.close()
    return spent / (requests * frame_bytes)


def serve(directory: Path, batch_bytes: int, batches: int) -> None:
    """One client's frames, until it goes away."""
    files = [os.open(directory / str(number), os.O_RDWR | os.O_CREAT) for number in range(batches)]
    answer_size = ANSWER_BYTES + ANSWER_BYTES_PER_BATCH * batches
    answer = SIZE.pack(answer_size) + bytes(answer_size)
    frame = memoryview(bytearray(SIZE.size + batch_bytes * batches))
    parts = [frame[start : start + batch_bytes] for start in range(SIZE.size, len(frame), batch_bytes)]
    position = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        filled = 0
        while filled < len(frame):
            received = connection.recv_into(frame[filled:])
            if received == 0:
                return
            filled += received
        for file, part in zip(files, parts, strict=True):
            crc32c(part)
            os.pwrite(file, part, position)
        position += batch_bytes
        connection.send(answer)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.floor", description=__doc__)
    parser.add_argument("--serve", type=Path, metavar="DIRECTORY", help="be the server (started by the bench)")
    parser.add_argument("--batch-bytes", type=int, default=0)
    parser.add_argument("--batches", type=int, default=0)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.batch_bytes, options.batches)
        return
    for batch_kib, batches in SHAPES:
        floor = floor_s_per_gb(batch_kib, batches)
        print(f"{batches} x {batch_kib:3} KiB   {floor:.3f} CPU s/GB   {floor * batch_kib:5.1f} µs/batch", flush=True)


if __name__ == "__main__":
    main()
