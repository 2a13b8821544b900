"""Any interleaving of transactions, crashes, truncations and compactions: a read-committed consumer sees what a model
says, on the log that was written and on one that was copied from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ottla.records.build import build_batch
from ottla.records.control import build_end_transaction_marker
from ottla.records.record import Record
from ottla.records.validate import AppendOrigin
from ottla.storage.log import PartitionLog
from tests.support.committed_reader import committed_records
from tests.support.files import MemoryFiles
from tests.unit.storage.cleaner.cleaned_logs import Bench, batches_of

Seen = tuple[int, str, str]
SEGMENT_BYTES = "700"
DELETED = ""


class Producer:
    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0


class Written:
    """A batch in the model: its records, or the marker."""

    def __init__(self, offset: int, producer: int, records: list[tuple[str, str]], *, in_transaction: bool) -> None:
        self.offset = offset
        self.producer = producer
        self.records = records
        self.in_transaction = in_transaction
        self.commit: bool | None = None
        # The producer's epoch and sequence number after this batch.
        self.epoch = 0
        self.sequence = 0

    @property
    def next_offset(self) -> int:
        return self.offset + max(1, len(self.records))


class Model:
    """A log with transactions, as a reader of committed records understands it."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.high_watermark = 0

    @property
    def end(self) -> int:
        return self.written[-1].next_offset if self.written else 0

    def transactions(self) -> Iterator[tuple[int, int, bool | None, int]]:
        """(producer, first offset, whether committed or None while open, offset of the marker or -1)."""
        first: dict[int, int] = {}
        for batch in self.written:
            if batch.commit is not None:
                if batch.producer in first:
                    yield batch.producer, first.pop(batch.producer), batch.commit, batch.offset
            elif batch.in_transaction:
                first.setdefault(batch.producer, batch.offset)
        for producer, offset in first.items():
            yield producer, offset, None, -1

    def open(self) -> dict[int, int]:
        return {producer: first for producer, first, commit, _ in self.transactions() if commit is None}

    @property
    def decided_offset(self) -> int:
        """The offset below which no transaction is open."""
        return min([self.high_watermark, *self.open().values()])

    @property
    def last_stable_offset(self) -> int:
        """As `decided_offset`; unreplicated markers do not count yet."""
        unstable = [first for _, first, _, marker in self.transactions() if marker >= self.high_watermark]
        return min([self.decided_offset, *unstable])

    def committed(self, end_offset: int) -> list[Seen]:
        aborted = {
            (producer, first, marker) for producer, first, commit, marker in self.transactions() if commit is False
        }
        seen: list[Seen] = []
        for batch in self.written:
            if batch.commit is not None or batch.offset >= end_offset:
                continue
            if batch.in_transaction and any(
                producer == batch.producer and first <= batch.offset < marker for producer, first, marker in aborted
            ):
                continue
            seen += [(batch.offset + number, key, value) for number, (key, value) in enumerate(batch.records)]
        return seen


def consume(log: PartitionLog, max_bytes: int) -> list[Seen]:
    return [
        (record.offset, bytes(record.key or b"").decode(), bytes(record.value or b"").decode())
        for record in committed_records(log, max_bytes=max_bytes)
    ]


class Story:
    """Carries out one list of steps on a log and on the model."""

    def __init__(self, root: Path) -> None:
        self.bench = Bench(root, files=MemoryFiles())
        self.log = self._open(clean=False)
        self.model = Model()
        self.producers = [Producer(number) for number in range(3)]
        self.is_compacted = False
        self.is_rebuilt = False
        self.counter = 0

    def _open(self, *, clean: bool) -> PartitionLog:
        return self.bench.log(clean_shutdown=clean, internal_segment_bytes=SEGMENT_BYTES, index_interval_bytes="0")

    def write(self, producer: Producer, keys: str, *, transactional: bool) -> None:
        if producer.producer_id in self.model.open() and not transactional:
            return
        # A capital letter deletes its key.
        pairs = [
            (key.lower(), DELETED if key.isupper() else str(self.counter + number)) for number, key in enumerate(keys)
        ]
        self.counter += len(pairs)
        built = build_batch(
            [
                Record(key=key.encode(), value=value.encode() or None, timestamp=self.bench.now_ms)
                for key, value in pairs
            ],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=transactional,
        )
        producer.sequence += len(pairs)
        batch = Written(
            self._append(built, AppendOrigin.CLIENT), producer.producer_id, pairs, in_transaction=transactional
        )
        self._note(batch, producer)

    def end(self, producer: Producer, *, commit: bool, bump: bool) -> None:
        if bump:
            producer.epoch += 1
            producer.sequence = 0
        built = build_end_transaction_marker(
            is_commit=commit,
            coordinator_epoch=0,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            timestamp_ms=self.bench.now_ms,
        )
        batch = Written(self._append(built, AppendOrigin.COORDINATOR), producer.producer_id, [], in_transaction=True)
        batch.commit = commit
        self._note(batch, producer)

    def _note(self, batch: Written, producer: Producer) -> None:
        batch.epoch, batch.sequence = producer.epoch, producer.sequence
        self.model.written.append(batch)

    def _append(self, built: bytearray, origin: AppendOrigin) -> int:
        result = self.log.append_built(built, leader_epoch=0, now_ms=self.bench.now_ms, origin=origin)
        self.bench.world.scheduler.run()
        return result.first_offset

    def replicate(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.model.high_watermark = self.model.end

    def restart(self, *, clean: bool) -> None:
        if clean:
            self.log.flush()
            self.log.close()
        self.log = self._open(clean=clean)
        self.is_rebuilt = True
        # Opening a log in this bench commits what is in it.
        self.model.high_watermark = self.model.end

    def truncate(self, batches: int) -> None:
        """A new leader lacks uncommitted batches: producers continue from before these batches."""
        model = self.model
        uncommitted = sum(batch.offset >= model.high_watermark for batch in model.written)
        kept = len(model.written) - min(batches, uncommitted)
        target = model.written[kept].offset if kept < len(model.written) else model.end
        self.log.truncate_to(target)
        del model.written[kept:]
        for producer in self.producers:
            last = [batch for batch in model.written if batch.producer == producer.producer_id]
            producer.epoch, producer.sequence = (last[-1].epoch, last[-1].sequence) if last else (0, 0)

    def compact(self) -> None:
        self.is_compacted = True
        self.bench.clean()

    def check(self, max_bytes: int) -> None:
        model, log = self.model, self.log
        assert log.log_end_offset == model.end
        # A state built from a snapshot does not know which markers before it were replicated.
        assert model.last_stable_offset <= log.last_stable_offset <= model.decided_offset
        assert self.is_rebuilt or log.last_stable_offset == model.last_stable_offset
        self.check_view(log, max_bytes)
        open_here = {
            entry.producer_id: entry.current_transaction_first_offset
            for entry in log.active_producers()
            if entry.current_transaction_first_offset >= 0
        }
        assert open_here == model.open()

    def check_view(self, log: PartitionLog, max_bytes: int) -> None:
        expected, seen = self.model.committed(log.last_stable_offset), consume(log, max_bytes)
        if not self.is_compacted:
            assert seen == expected
            return
        assert set(seen) <= set(expected), "nothing aborted, nothing invented"
        assert [offset for offset, _, _ in seen] == sorted({offset for offset, _, _ in seen})
        newest = {key: (offset, value) for offset, key, value in expected}
        newest_seen = {key: (offset, value) for offset, key, value in seen}
        for key, newest_record in newest.items():
            assert newest_seen.get(key) == newest_record or (newest_record[1] == DELETED and key not in newest_seen)

    def check_copy(self) -> None:
        """A follower builds the same state out of the same bytes."""
        copy = self.bench.log("copy", internal_segment_bytes="450")
        for batch in batches_of(self.log):
            copy.append_as_follower(bytes(batch.view))
        copy.update_high_watermark(min(self.model.high_watermark, copy.log_end_offset))
        assert copy.last_stable_offset == self.model.last_stable_offset
        self.check_view(copy, 1 << 20)


def run(steps: list[tuple[object, ...]], max_bytes: int) -> None:
    story = Story(Path("/data"))
    for step in steps:
        match step:
            case ("write", int(number), str(keys), bool(transactional)):
                story.write(story.producers[number], keys, transactional=transactional)
            case ("end", int(number), bool(commit), bool(bump)):
                story.end(story.producers[number], commit=commit, bump=bump)
            case ("truncate", int(batches)):
                story.truncate(batches)
            case ("replicate",):
                story.replicate()
            case ("roll",):
                story.log.roll()
            case ("compact",):
                story.log.roll()
                story.compact()
            case ("wait",):
                story.bench.world.scheduler.advance(2000)
            case ("crash",) | ("stop",):
                story.restart(clean=step == ("stop",))
            case _:
                raise AssertionError(step)
        story.log.invariants()
        story.check(max_bytes)
    story.check_copy()


def random_steps(random: Random) -> Iterator[tuple[object, ...]]:
    others = [
        ("replicate",),
        ("roll",),
        ("compact",),
        ("wait",),
        ("crash",),
        ("stop",),
        ("truncate", 1),
        ("truncate", 3),
    ]
    for _ in range(random.randint(10, 60)):
        kind = random.random()
        if kind < 0.45:
            keys = "".join(random.choices("abcabcABC", k=random.randint(1, 3)))
            yield "write", random.randrange(3), keys, random.random() < 0.8
        elif kind < 0.65:
            yield "end", random.randrange(3), random.random() < 0.5, random.random() < 0.5
        else:
            yield random.choice(others)


@pytest.mark.parametrize("seed", range(40))
def test_readers_of_committed_data_see_what_was_committed(seed: int) -> None:
    random = Random(seed)
    for _ in range(5):
        run(list(random_steps(random)), random.choice([1, 150, 1 << 20]))
