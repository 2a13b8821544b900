"""A client beside a measurement that shows how long a node answers no request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient

__all__ = ["Witness"]

TIMEOUT_S = 300.0


class Witness:
    """Repeats a small request and records the longest wait."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_stopped = False
        self.longest_s = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_stopped = True
            thread.join()

    def _run(self) -> None:
        question = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        with RawClient(self._address, timeout_seconds=TIMEOUT_S) as client:
            while not self._is_stopped:
                asked_at = time.monotonic()
                client.call(question, 3)
                self.longest_s = max(self.longest_s, time.monotonic() - asked_at)
                time.sleep(0.002)
