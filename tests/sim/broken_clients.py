"""Clients with a defect, for the checkers of applications."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.aborted import AbortedTransactions
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.producer.sender import Sender


def a_retry_gets_new_sequence_numbers(patch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again looks like another batch to the leader."""
    number = Sender._number

    def number_again(sender: Sender, batch: Any) -> None:
        batch.producer_id = -1
        number(sender, batch)

    patch.setattr(Sender, "_number", number_again)


def the_last_record_of_a_batch_is_skipped(patch: pytest.MonkeyPatch) -> None:
    open_batch = Consumer._open

    async def open_most(consumer: Consumer, batch: Any, state: Any, limit: int) -> Any:
        records = await open_batch(consumer, batch, state, limit)
        return records[:-1] if len(records) > 2 else records

    patch.setattr(Consumer, "_open", open_most)


def aborted_records_are_handed_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedTransactions, "covers", lambda *_: False)


def a_transaction_ends_before_its_records_are_sent(patch: pytest.MonkeyPatch) -> None:
    async def flush(_: Producer) -> None:
        return

    patch.setattr(Producer, "flush", flush)
