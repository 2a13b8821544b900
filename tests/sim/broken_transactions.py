"""Nodes with a defect in transactions: they accept late requests, or forget decisions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.offsets.table import OffsetTable
from ottla.coordinator.txn import partitions, service
from ottla.coordinator.txn.state import TransactionShard
from ottla.decisions import Decision
from ottla.storage.producer_state import ProducerState
from ottla.wire.messages.end_txn import EndTxnRequest


def ends_of_any_epoch_are_believed(patch: pytest.MonkeyPatch) -> None:
    """EndTxn of an earlier transaction, or of a producer that was replaced, ends the open transaction."""
    decide = service.decide_end

    def decide_end(shard: TransactionShard, request: EndTxnRequest, *more: Any) -> Decision[Any]:
        request.producer_epoch = shard.transaction(request.transactional_id).producer_epoch
        return decide(shard, request, *more)

    patch.setattr(service, "decide_end", decide_end)


def partitions_are_added_by_anybody(patch: pytest.MonkeyPatch) -> None:
    """AddPartitionsToTxn of an older epoch counts as one of the producer that has replaced it."""
    patch.setattr(partitions, "_check_producer", lambda *_: None)


def partitions_do_not_ask_the_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A record that arrives after the end of its transaction begins one without a coordinator (KIP-890)."""
    patch.setattr(ProducerState, "begin_verification", lambda *_, **__: None)
    patch.setattr(ProducerState, "check_in_transaction", lambda *_: None)


def offsets_of_aborted_transactions_count(patch: pytest.MonkeyPatch) -> None:
    end = OffsetTable.end_transaction
    patch.setattr(
        OffsetTable, "end_transaction", lambda table, producer_id, *, is_commit: end(table, producer_id, is_commit=True)
    )


def offsets_of_transactions_are_dropped(patch: pytest.MonkeyPatch) -> None:
    end = OffsetTable.end_transaction
    patch.setattr(
        OffsetTable,
        "end_transaction",
        lambda table, producer_id, *, is_commit: end(table, producer_id, is_commit=False),
    )


def decided_transactions_are_not_finished(patch: pytest.MonkeyPatch) -> None:
    """The next coordinator does not complete decided transactions."""

    def on_loaded(shard: TransactionShard, now_ms: int) -> None:
        shard.is_loaded = True

    patch.setattr(TransactionShard, "on_loaded", on_loaded)
