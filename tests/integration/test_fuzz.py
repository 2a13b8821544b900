"""Arbitrary input does not harm the node or its other connections, and memory stays bounded."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from ottla.broker.apis import HANDLERS
from tests.support.bystander import Bystander

SEEDS = range(8)


@pytest.fixture(scope="module")
def target() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(settings={"socket.request.max.bytes": "10000000"}) as cluster:
        yield cluster


@pytest.fixture
def bystander(target: ottla.testing.Cluster) -> Iterator[Bystander]:
    with Bystander(target.bootstrap) as bystander:
        bystander.asks()
        before = resident_bytes(target)
        yield bystander
        bystander.asks()
    assert target.node(1).running
    assert "Traceback" not in target.node(1).output
    assert resident_bytes(target) - before < 60_000_000


def connect(cluster: ottla.testing.Cluster) -> socket.socket:
    host, _, port = cluster.bootstrap.partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def resident_bytes(cluster: ottla.testing.Cluster) -> int:
    pages = Path(f"/proc/{cluster.node(1).pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def send_and_drop(cluster: ottla.testing.Cluster, data: bytes) -> None:
    """Sends, waits until the node has answered or closed the connection, and disconnects."""
    with connect(cluster) as connected:
        try:
            connected.sendall(data)
            connected.shutdown(socket.SHUT_WR)
            while connected.recv(65536):
                pass
        except OSError:
            # The node may close the connection while the test is still sending.
            return


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("seed", SEEDS)
def test_random_bytes(target: ottla.testing.Cluster, bystander: Bystander, seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(25):
        send_and_drop(target, generator.randbytes(generator.randrange(1, 3000)))
        bystander.asks()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_bytes_in_a_frame(target: ottla.testing.Cluster, bystander: Bystander, seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(25):
        send_and_drop(target, framed(generator.randbytes(generator.randrange(8, 3000))))
        bystander.asks()


@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_a_good_header_and_garbage_behind_it(target: ottla.testing.Cluster, bystander: Bystander, api_key: int) -> None:
    generator = random.Random(api_key)
    spec = HANDLERS[api_key]
    for version in range(spec.min_version, spec.max_version + 1):
        header = struct.pack(">hhih", api_key, version, 7, 4) + b"fuzz\x00"
        for size in (0, 1, 3, 17, 200):
            send_and_drop(target, framed(header + generator.randbytes(size)))
        # The node must not trust lengths that exceed the received data by far.
        for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 9):
            send_and_drop(target, framed(header + length * 5))
        bystander.asks()


def test_truncated_frames(target: ottla.testing.Cluster, bystander: Bystander) -> None:
    whole = framed(struct.pack(">hhih", 3, 1, 7, 4) + b"fuzz" + struct.pack(">ih", 1, 5) + b"topic")
    for length in range(len(whole)):
        send_and_drop(target, whole[:length])
    bystander.asks()


def test_giant_sizes_are_refused_or_cost_only_what_was_sent(
    target: ottla.testing.Cluster, bystander: Bystander
) -> None:
    for size in (-1, -(2**31), 2**31 - 1, 10_000_001):
        send_and_drop(target, struct.pack(">i", size) + b"x" * 100)
    # Many connections announce allowed sizes and never send that much data.
    before = resident_bytes(target)
    waiting = []
    for _ in range(50):
        connected = connect(target)
        connected.sendall(struct.pack(">i", 10_000_000) + b"x" * 1000)
        waiting.append(connected)
    bystander.asks()
    assert resident_bytes(target) - before < 80_000_000
    for connected in waiting:
        connected.close()


def test_a_flood_of_requests_by_a_client_that_never_reads(target: ottla.testing.Cluster, bystander: Bystander) -> None:
    request = framed(struct.pack(">hhih", 18, 0, 1, -1))
    with connect(target) as connected:
        connected.settimeout(0.2)
        try:
            for _ in range(20_000):
                connected.sendall(request * 100)
        except TimeoutError:
            # Both directions are full: this is the back-pressure.
            pass
        else:
            pytest.fail("the node reads on for a client that never reads")
        bystander.asks()
