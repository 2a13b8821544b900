"""Transactions: all or nothing, exactly once, and nobody reads what was aborted."""

from __future__ import annotations

from collections import Counter

from ottla.model.ids import TopicPartition
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_records
from ottla.sim.checkers.checker import Checker, batches_of, final_log
from ottla.sim.history import Outcome
from ottla.sim.workloads.consume import value_of

__all__ = ["Transactions"]


class Transactions(Checker):
    """Finds out from the markers in the leaders' logs what is committed, and holds clients and readers against it."""

    rule = "transactions"

    def finish(self) -> None:
        partitions = {partition for each in self.history.transactions for partition, _ in each.records}
        committed: Counter[tuple[TopicPartition, bytes]] = Counter()
        for partition in sorted(partitions):
            self._replay(partition, committed)
        for transaction in self.history.transactions:
            name = f"transaction {transaction.number} of {transaction.producer}"
            counts = [committed[record] for record in transaction.records]
            if any(count > 1 for count in counts):
                self.found(f"{name} has records more than once: {counts}")
            if transaction.outcome is Outcome.COMMITTED and 0 in counts:
                self.found(f"{name} was committed, and of its records these are there: {counts}")
            elif transaction.outcome is Outcome.ABORTED and any(counts):
                self.found(f"{name} was aborted, and of its records these are there: {counts}")
            elif transaction.outcome is Outcome.UNKNOWN and len({bool(count) for count in counts}) > 1:
                self.found(f"{name} is torn: {counts}")
        names = {each.producer.encode() for each in self.history.transactions}
        for partition, value in self.history.read_committed:
            if value.split(b"/")[0] in names and not committed[partition, value]:
                self.found(f"{value!r} of {partition} was read as committed, and is not")

    def _replay(self, partition: TopicPartition, committed: Counter[tuple[TopicPartition, bytes]]) -> None:
        log = final_log(self.cluster, partition)
        if log is None:
            return
        open_values: dict[int, list[bytes]] = {}
        for batch in batches_of(log, start=log.log_start_offset, end=log.high_watermark):
            header = batch.header
            if header.is_control:
                values = open_values.pop(header.producer_id, [])
                if read_control_type(next(iter(iterate_records(batch))).key) is ControlType.COMMIT:
                    committed.update((partition, value) for value in values)
            elif header.is_transactional:
                values = open_values.setdefault(header.producer_id, [])
                values.extend(value_of(record.value) for record in iterate_records(batch))
        for producer_id, values in open_values.items():
            self.found(f"{partition}: the transaction of producer {producer_id} with {values[0]!r} never ends")
