"""Memory of the console stays flat while topics are watched live, for as long as FAULTS_SECONDS says."""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import psutil
import pytest
from confluent_kafka import Producer

import ottla.testing
from tests.support.consoles import Browser, ConsoleProcess, console_process

pytestmark = pytest.mark.faults

RECORDS_PER_SECOND = 1_000
# Buffers and caches have their size after this time, and a short run is half warm-up.
WARM_UP_SECONDS = 60.0
GROWTH_BYTES_MAX = 8 * 1024 * 1024
TAILS = (
    "/api/topics/watched/tail",
    "/api/topics/watched/tail?decode=text&filter=ord",
    "/api/topics/watched/tail?filter=%3D+value.amount+%3E+500",
    "/api/live",
)


@contextmanager
def produced(bootstrap: str) -> Iterator[None]:
    """A steady load, larger than what a tail shows."""
    stopped = threading.Event()

    def run() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        number = 0
        began = time.monotonic()
        while not stopped.wait(0.05):
            while number < (time.monotonic() - began) * RECORDS_PER_SECOND:
                order = {"order": number, "amount": number % 1_000, "note": "x" * 400}
                producer.produce("watched", json.dumps(order), key=str(number % 97), headers=[("source", b"web")])
                number += 1
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


class Reader:
    """A page that is open all the time."""

    def __init__(self, browser: Browser, path: str) -> None:
        self.stream = browser.stream(path)
        self.count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for line in self.stream:
                self.count += line.startswith(b"event: ")
        except (OSError, ValueError):
            return


def stalled(console: ConsoleProcess, path: str) -> socket.socket:
    """A browser that asks and never reads."""
    parts = urlsplit(console.url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    return connection


def test_memory_stays_flat_during_a_live_tail(faults_seconds: float) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(ottla.testing.cluster())
        console = stack.enter_context(console_process(cluster.bootstrap))
        browser = console.browser()
        browser.change("POST", "/api/topics", {"name": "watched", "partitions": 4})
        stack.enter_context(produced(cluster.bootstrap))
        readers = [Reader(browser, path) for path in TAILS]
        stack.enter_context(stalled(console, TAILS[0]))
        process = psutil.Process(console.process.pid)
        resident_sizes = []
        began = time.monotonic()
        while (passed := time.monotonic() - began) < faults_seconds:
            time.sleep(0.5)
            if passed > min(WARM_UP_SECONDS, faults_seconds / 2):
                resident_sizes.append(process.memory_info().rss)
            # Pages that are opened and closed leave nothing behind.
            browser.get("/api/topics/watched/messages?limit=20")
        counts = [reader.count for reader in readers]
        quarter = max(len(resident_sizes) // 4, 1)
        growth = statistics.median(resident_sizes[-quarter:]) - statistics.median(resident_sizes[:quarter])
        megabytes = [size // 2**20 for size in resident_sizes]
        print(f"console: {megabytes[0]} MiB after the warm-up, {max(megabytes)} at most, {growth / 2**20:+.1f} growth")
        assert all(count > faults_seconds / 4 for count in counts), counts
        assert growth < GROWTH_BYTES_MAX, megabytes
