"""A batch that its leader refuses as too large while its transaction is aborted is not split and sent again."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from tests.unit.client.test_sender import Sending, run, until


def test_a_batch_that_is_too_large_is_not_split_while_its_transaction_is_aborted() -> None:
    async def work(sending: Sending) -> None:
        sending.cluster.connection.answering.clear()
        deliveries = [sending.send(b"x"), sending.send(b"y")]
        await until(lambda: bool(sending.cluster.connection.requests))
        sending.sender.gives_up = True
        sending.cluster.connection.answering.set()
        for delivery in deliveries:
            with pytest.raises(KafkaError):
                await delivery

    assert len(run(lambda *_: ErrorCode.MESSAGE_TOO_LARGE, work, waits=True).requests) == 1
