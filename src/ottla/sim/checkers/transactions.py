"""Transactions are atomic and exactly once, and no `read_committed` consumer sees an aborted record."""

from __future__ import annotations

from collections import Counter, defaultdict

from ottla.model.ids import TopicPartition
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_records
from ottla.sim.checkers.checker import Checker, batches_of, final_log
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History, Outcome
from ottla.sim.workloads.consume import value_of

__all__ = ["Transactions"]


class Transactions(Checker):
    """Derives the committed records from the markers in the leaders' logs and compares them with the history."""

    rule = "transactions"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        # The committed values by partition, in the order of their commits, and their offsets.
        self._order: dict[TopicPartition, list[bytes]] = defaultdict(list)
        self._visible: dict[TopicPartition, list[int]] = defaultdict(list)

    def finish(self) -> None:
        partitions = {partition for transaction in self.history.transactions for partition, _ in transaction.records}
        partitions |= {late.partition for late in self.history.late}
        for copies in self.history.copies:
            partitions |= {copies.source, copies.target}
        committed: Counter[tuple[TopicPartition, bytes]] = Counter()
        for partition in sorted(partitions):
            self._replay(partition, committed)
        for transaction in self.history.transactions:
            name = f"transaction {transaction.number} of {transaction.producer}"
            counts = [committed[record] for record in transaction.records]
            if any(count > 1 for count in counts):
                self.report(f"{name} has duplicate records; number of each record: {counts}")
            if transaction.outcome is Outcome.COMMITTED and 0 in counts:
                self.report(f"{name} was committed, but some records are missing; number of each record: {counts}")
            elif transaction.outcome is Outcome.ABORTED and any(counts):
                self.report(f"{name} was aborted, but some records are committed; number of each record: {counts}")
            elif transaction.outcome is Outcome.UNKNOWN and len({bool(count) for count in counts}) > 1:
                self.report(f"{name} is partly committed; number of each record: {counts}")
        for late in self.history.late:
            if committed[late.partition, late.value]:
                self.report(f"{late.description} was sent late and is committed: {late.value!r} in {late.partition}")
        self._check_copies(committed)
        names = {transaction.producer.encode() for transaction in self.history.transactions}
        for partition, value in self.history.read_committed:
            if value.split(b"/")[0] in names and not committed[partition, value]:
                self.report(f"{value!r} of {partition} was read with read_committed, but is not committed")

    def _check_copies(self, committed: Counter[tuple[TopicPartition, bytes]]) -> None:
        """Every record below the committed offset is copied once and in order; no record at or above it is copied."""
        for copies in self.history.copies:
            offsets = self._visible[copies.source]
            counts = {offset: committed[copies.target, copies.value(offset)] for offset in offsets}
            missing = [offset for offset in offsets if offset < copies.committed and not counts[offset]]
            if missing:
                self.report(f"{copies.name} committed offset {copies.committed} without copying {missing[:10]}")
            twice = [offset for offset in offsets if counts[offset] > 1]
            if twice:
                self.report(f"{copies.name} copied {twice[:10]} more than once")
            early = [offset for offset in offsets if offset >= copies.committed and counts[offset]]
            if early:
                self.report(f"{copies.name} committed offset {copies.committed} but copied {early[:10]} beyond it")
            prefix = copies.name.encode() + b"/"
            order = [int(value[len(prefix) :]) for value in self._order[copies.target] if value.startswith(prefix)]
            if order != sorted(order):
                self.report(f"{copies.name} copied out of order: {order[:50]}")
            strange = set(order).difference(offsets)
            if strange:
                self.report(f"{copies.name} copied records that are not committed: {sorted(strange)[:10]}")

    def _replay(self, partition: TopicPartition, committed: Counter[tuple[TopicPartition, bytes]]) -> None:
        log = final_log(self.cluster, partition)
        if log is None:
            return
        open_values: dict[int, list[tuple[int, bytes]]] = {}
        for batch in batches_of(log, start=log.log_start_offset, end=log.high_watermark):
            header = batch.header
            values: list[tuple[int, bytes]] = []
            if header.is_control:
                ended = open_values.pop(header.producer_id, [])
                if read_control_type(next(iter(iterate_records(batch))).key) is ControlType.COMMIT:
                    values = ended
            else:
                values = [(record.offset, value_of(record.value)) for record in iterate_records(batch)]
                if header.is_transactional:
                    open_values.setdefault(header.producer_id, []).extend(values)
                    continue
            committed.update((partition, value) for _, value in values)
            self._order[partition].extend(value for _, value in values)
            self._visible[partition].extend(offset for offset, _ in values)
        self._visible[partition].sort()
        for producer_id, values in open_values.items():
            self.report(
                f"{partition}: the transaction of producer {producer_id} with {values[0][1]!r} is still open at the end"
            )
