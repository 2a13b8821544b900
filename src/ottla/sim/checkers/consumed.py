"""Consumers of `ottla.client` receive every record: alone once and in order, in a group before it is committed."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from ottla.model.ids import TopicPartition
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_records
from ottla.sim.checkers.checker import Checker, batches_of, final_log

__all__ = ["ConsumedRecords"]


class ConsumedRecords(Checker):
    """Compares what consumers received with the leaders' logs at the end."""

    rule = "consumers skip nothing"

    def finish(self) -> None:
        committed: dict[tuple[str, TopicPartition], int] = defaultdict(lambda: -1)
        for commit in (*self.history.commits, *self.history.fetched_commits):
            key = (commit.group, commit.partition)
            committed[key] = max(committed[key], commit.offset)
        offsets: dict[TopicPartition, tuple[list[int], list[int]] | None] = {}
        for (reader, partition), received in self.history.consumed.items():
            if partition not in offsets:
                offsets[partition] = self._offsets(partition)
            log_offsets = offsets[partition]
            if log_offsets is None:
                continue
            all_offsets, visible = log_offsets
            if reader in self.history.readers:
                wanted = visible if self.history.readers[reader] else all_offsets
                self._check_reader(reader, partition, received, wanted)
            else:
                self._check_group(reader, partition, received, visible, committed[reader, partition])

    def _check_group(
        self, group: str, partition: TopicPartition, received: list[int], visible: list[int], committed: int
    ) -> None:
        missing = sorted({offset for offset in visible if offset < committed}.difference(received))
        if missing:
            self.report(f"{group} committed {committed} of {partition}, but no member received {missing[:10]}")

    def _check_reader(self, reader: str, partition: TopicPartition, received: list[int], wanted: list[int]) -> None:
        if any(later <= earlier for earlier, later in pairwise(received)):
            self.report(f"{reader} received records of {partition} twice or out of order: {received[:200]}")
        missing = sorted({offset for offset in wanted if offset <= received[-1]}.difference(received))
        if missing:
            self.report(f"{reader} never received {missing[:10]} of {partition}, but {received[-1]}")

    def _offsets(self, partition: TopicPartition) -> tuple[list[int], list[int]] | None:
        """The offsets of all records, and the offsets of records outside of aborted transactions."""
        log = final_log(self.cluster, partition)
        if log is None or log.log_start_offset:
            return None
        all_offsets: list[int] = []
        visible: list[int] = []
        open_offsets: dict[int, list[int]] = defaultdict(list)
        for batch in batches_of(log, start=0, end=log.high_watermark):
            header = batch.header
            if header.is_control:
                ended = open_offsets.pop(header.producer_id, [])
                if read_control_type(next(iter(iterate_records(batch))).key) is ControlType.COMMIT:
                    visible += ended
                continue
            record_offsets = [record.offset for record in iterate_records(batch)]
            all_offsets += record_offsets
            if header.is_transactional:
                open_offsets[header.producer_id] += record_offsets
            else:
                visible += record_offsets
        return all_offsets, visible
