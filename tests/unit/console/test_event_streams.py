"""A failed stream ends with an error event, for every kind of error."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ottla.console.event_streams import error_event, failing_aloud
from ottla.model.errors import ErrorCode, KafkaError


class FakeStream:
    """Stands for the answer, and for the call with its request."""

    def __init__(self) -> None:
        self.request = self
        self.method, self.path = "GET", "/api/topics/orders/tail"
        self.transport: Any = None
        self.sent: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.sent.append(data)


async def failed_with(error: BaseException) -> list[bytes]:
    stream: Any = FakeStream()
    async with failing_aloud(stream, stream, error_event):
        raise error
    sent: list[bytes] = stream.sent
    return sent


def test_an_error_of_the_cluster_is_told() -> None:
    (sent,) = asyncio.run(failed_with(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic 'orders'.")))
    assert sent.startswith(b"event: error\ndata: {")
    assert b"UNKNOWN_TOPIC_OR_PARTITION" in sent


def test_an_unexpected_error_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        (sent,) = asyncio.run(failed_with(RuntimeError("secret")))
    assert b'"code":"INTERNAL"' in sent
    assert b"secret" not in sent
    assert "/api/topics/orders/tail" in caplog.text
    assert "secret" in caplog.text


def test_a_browser_that_went_away_is_told_nothing() -> None:
    assert asyncio.run(failed_with(ConnectionResetError())) == []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(failed_with(asyncio.CancelledError()))
