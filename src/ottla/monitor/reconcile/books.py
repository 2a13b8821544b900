"""The books of one stage: records by time bucket, and by stamp where records have one. Pure."""

from __future__ import annotations

from collections import Counter

from ottla.monitor.reconcile.stamps import NumberSet, Stamp

__all__ = ["StageBooks"]


class StageBooks:
    """The records of one stage, counted. The stamp of a record decides its bucket, or else its timestamp."""

    def __init__(self, name: str, bucket_ms: int, late_after_ms: int) -> None:
        self.name = name
        self.bucket_ms = bucket_ms
        self.records: Counter[int] = Counter()
        self.unstamped: Counter[int] = Counter()
        self.doubled: Counter[int] = Counter()
        self.late: Counter[int] = Counter()
        # (bucket, origin) -> the numbers of the records.
        self.numbers: dict[tuple[int, bytes], NumberSet] = {}
        self._late_after_ms = late_after_ms

    def add(self, timestamp_ms: int, stamp: Stamp | None) -> None:
        time_ms = timestamp_ms if stamp is None else stamp.time_ms
        bucket = time_ms - time_ms % self.bucket_ms
        self.records[bucket] += 1
        if stamp is None:
            self.unstamped[bucket] += 1
            return
        if timestamp_ms - stamp.time_ms > self._late_after_ms:
            self.late[bucket] += 1
        if not self.numbers.setdefault((bucket, stamp.origin), NumberSet()).add(stamp.number):
            self.doubled[bucket] += 1

    def add_count(self, bucket: int, count: int) -> None:
        """Records that a program has counted by itself."""
        self.records[bucket] += count
        self.unstamped[bucket] += count
