"""No acknowledged record is lost, and records of an idempotent producer exist once and in order."""

from __future__ import annotations

from collections import defaultdict

from ottla.model.ids import TopicPartition
from ottla.records.iterate import iterate_records
from ottla.sim.checkers.checker import Checker, batches_of, final_log
from ottla.sim.history import Sent
from ottla.sim.workloads.consume import value_of

__all__ = ["Delivery", "ReadRecordsStay"]

ACKS_ALL = -1


class Delivery(Checker):
    """Compares acknowledgements to producers with the leaders' logs at the end."""

    rule = "no acknowledged record is lost"

    def finish(self) -> None:
        by_partition: dict[TopicPartition, list[Sent]] = defaultdict(list)
        for sent in self.history.sent:
            by_partition[sent.partition].append(sent)
        for partition, records in by_partition.items():
            log = final_log(self.cluster, partition)
            if log is None:
                self.report(f"{partition} has no leader at the end")
                continue
            places: dict[bytes, list[int]] = defaultdict(list)
            for batch in batches_of(log, start=log.log_start_offset, end=log.high_watermark):
                if not batch.header.is_control:
                    for record in iterate_records(batch):
                        places[value_of(record.value)].append(record.offset)
            self._check_kept(records, places)
            self._check_once_and_in_order(records, places)

    def _check_kept(self, records: list[Sent], places: dict[bytes, list[int]]) -> None:
        for sent in records:
            if sent.acks != ACKS_ALL or sent.offset is None:
                continue
            offsets = places.get(sent.value)
            if not offsets:
                self.report(f"{sent.partition}: {sent.value!r} was acknowledged at offset {sent.offset} and is missing")
            elif sent.offset >= 0 and sent.offset not in offsets:
                self.report(
                    f"{sent.partition}: {sent.value!r} was acknowledged at offset {sent.offset} and is at {offsets}"
                )

    def _check_once_and_in_order(self, records: list[Sent], places: dict[bytes, list[int]]) -> None:
        last: dict[tuple[str, int], tuple[int, int]] = {}
        for sent in records:
            if not sent.is_idempotent:
                continue
            offsets = places.get(sent.value, [])
            if len(offsets) > 1:
                self.cluster.report(
                    "idempotent writes", f"{sent.partition}: {sent.value!r} was written more than once, at {offsets}"
                )
            if sent.acks == ACKS_ALL and offsets:
                key = (sent.producer, sent.session)
                number, offset = last.get(key, (-1, -1))
                if offsets[0] < offset:
                    self.cluster.report(
                        "idempotent order",
                        f"{sent.partition}: {sent.value!r} is at {offsets[0]}, before record {number} at {offset}",
                    )
                last[key] = (sent.number, offsets[0])


class ReadRecordsStay(Checker):
    """Every record that a reader received still exists at its offset."""

    rule = "read records stay"

    def finish(self) -> None:
        for partition, values in self.history.read.items():
            log = final_log(self.cluster, partition)
            if log is None:
                continue
            log_values: dict[int, bytes] = {}
            for batch in batches_of(log, start=log.log_start_offset, end=log.high_watermark):
                if not batch.header.is_control:
                    log_values.update((record.offset, value_of(record.value)) for record in iterate_records(batch))
            for offset, value in values.items():
                if offset >= log.log_start_offset and log_values.get(offset) != value:
                    self.report(
                        f"{partition} offset {offset} was read as {value!r} and is now {log_values.get(offset)!r}"
                    )
