"""Compares the books of the stages of a pipeline, bucket by bucket. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.monitor.reconcile.books import StageBooks
from ottla.monitor.reconcile.stamps import NumberSet

__all__ = ["BucketRow", "Difference", "compare", "summarize"]

# A difference names this many of the missing numbers, or ranges of numbers.
NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One bucket of a stage, compared with the same bucket of the first stage."""

    stage: str
    records: int
    missing: int
    # Records beyond the count of the first stage. With stamps: repeated records in this stage.
    doubled: int
    late: int
    # Records without a stamp are compared by their count alone.
    is_by_stamp: bool
    # Origin and numbers of some missing records.
    named: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.doubled or self.late)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    bucket_ms: int
    stages: tuple[Difference, ...]

    @property
    def is_clean(self) -> bool:
        return all(stage.is_clean for stage in self.stages)


def compare(stages: Sequence[StageBooks], *, from_ms: int, to_ms: int) -> list[BucketRow]:
    """A row for each bucket that begins in the range and has a record in some stage."""
    buckets = sorted({bucket for stage in stages for bucket in stage.records if from_ms <= bucket < to_ms})
    first = stages[0]
    return [
        BucketRow(bucket_ms=bucket, stages=tuple(_difference(first, stage, bucket) for stage in stages))
        for bucket in buckets
    ]


def summarize(rows: Sequence[BucketRow]) -> list[Difference]:
    """The totals of each stage."""
    if not rows:
        return []
    totals = []
    for place, stage in enumerate(rows[0].stages):
        cells = [row.stages[place] for row in rows]
        named = [text for cell in cells for text in cell.named]
        totals.append(
            Difference(
                stage=stage.stage,
                records=sum(cell.records for cell in cells),
                missing=sum(cell.missing for cell in cells),
                doubled=sum(cell.doubled for cell in cells),
                late=sum(cell.late for cell in cells),
                is_by_stamp=all(cell.is_by_stamp for cell in cells),
                named=tuple(named[:NAMED_MAX]),
            )
        )
    return totals


def _difference(first: StageBooks, stage: StageBooks, bucket: int) -> Difference:
    by_stamp = not (first.unstamped[bucket] or stage.unstamped[bucket])
    records = stage.records[bucket]
    if by_stamp:
        missing = list(_missing(first, stage, bucket))
        return Difference(
            stage=stage.name,
            records=records,
            missing=sum(len(numbers) for _, numbers in missing),
            doubled=stage.doubled[bucket],
            late=stage.late[bucket],
            is_by_stamp=True,
            named=tuple(_named(missing)),
        )
    # A record that its stamp proves to be a duplicate does not make up for a missing record.
    once, wanted = records - stage.doubled[bucket], first.records[bucket] - first.doubled[bucket]
    return Difference(
        stage=stage.name,
        records=records,
        missing=max(wanted - once, 0),
        doubled=max(records - first.records[bucket], stage.doubled[bucket], 0),
        late=stage.late[bucket],
        is_by_stamp=False,
        named=(),
    )


def _missing(first: StageBooks, stage: StageBooks, bucket: int) -> Iterator[tuple[bytes, NumberSet]]:
    nothing = NumberSet()
    for (at, origin), numbers in first.numbers.items():
        if at == bucket:
            absent = numbers.without(stage.numbers.get((bucket, origin), nothing))
            if len(absent):
                yield origin, absent


def _named(missing: Sequence[tuple[bytes, NumberSet]]) -> Iterator[str]:
    left = NAMED_MAX
    for origin, numbers in missing:
        for start, end in numbers.intervals():
            if left == 0:
                return
            left -= 1
            yield f"{origin.hex()}:{start}" if end == start + 1 else f"{origin.hex()}:{start}-{end - 1}"
