"""Random stories of one log, with crashes between any two changes of its files: what was appended is there afterwards,
and all that is derived from it (epochs, producers, transactions) is what a plain list of batches says.

A crash of the process leaves the files as they are, a batch perhaps half written; a power cut takes with it what was
not synced, of each file or of some.
"""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.control import build_end_transaction_marker
from ottla.records.header import BatchHeader
from ottla.records.iterate import iterate_batches
from ottla.records.validate import AppendOrigin
from ottla.storage.log import PartitionLog
from tests.support.committed_reader import committed_records
from tests.support.files import MemoryFiles
from tests.unit.storage.helpers import LogBench, batch

CHANGES = frozenset({"append", "write", "truncate", "rename", "remove", "write_atomically", "create"})
NOT_CUT = 1 << 62


class Crash(BaseException):
    """The process ends here."""


class CrashingFiles(MemoryFiles):
    """Ends the process before one of the next changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_left: int | None = None
        self.torn: tuple[str, int] | None = None

    def check(self, operation: str, path: str) -> None:
        super().check(operation, path)
        if operation in CHANGES:
            if self.changes_left is not None:
                self.changes_left -= 1
                if self.changes_left < 0:
                    raise Crash
            is_batch = operation == "append" and path.endswith(".log")
            self.torn = (path, len(self.nodes[path].data)) if is_batch else None


class Written:
    """One batch: of which producer and epochs, and whether it ends a transaction."""

    def __init__(self, *, offset: int, count: int, leader_epoch: int, producer: int, epoch: int, sequence: int) -> None:
        self.offset = offset
        self.count = count
        self.leader_epoch = leader_epoch
        self.producer = producer
        self.epoch = epoch
        self.sequence = sequence
        self.in_transaction = False
        self.commit: bool | None = None

    @property
    def next_offset(self) -> int:
        return self.offset + self.count

    def is_same(self, header: BatchHeader) -> bool:
        return (self.offset, self.next_offset, self.leader_epoch, self.producer, self.epoch) == (
            *(header.base_offset, header.next_offset, header.leader_epoch),
            *(header.producer_id, header.producer_epoch),
        )


class Story:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.files = CrashingFiles()
        self.bench = LogBench(self.files, segment_bytes=random.choice([300, 700]), index_interval_bytes=0)
        self.log: PartitionLog = self.bench.log
        self.written: list[Written] = []
        self.high_watermark = 0
        self.leader_epoch = 0
        self.cut_at = NOT_CUT
        # What the checkpoints may still say after a crash.
        self.recovery_points = [0]
        self.start_offsets = [0]
        # The history of epochs is forgotten with the records, which may come back if the checkpoint was not written.
        self.epochs_from = 0
        # A cut that is not synced may be undone by a power cut.
        self.may_lose_power = True

    @property
    def end(self) -> int:
        return self.written[-1].next_offset if self.written else self.log.log_start_offset

    # ---- steps

    def write(self, producer: int, count: int, *, transactional: bool) -> None:
        last = self.last_of(producer)
        is_open = producer in self.open()
        new = Written(
            offset=self.log.log_end_offset,
            count=count,
            leader_epoch=self.leader_epoch,
            producer=producer,
            epoch=last.epoch if last else 0,
            sequence=last.sequence + (0 if last.commit is not None else last.count) if last else 0,
        )
        new.in_transaction = transactional or is_open
        if not any(
            earlier.producer == producer and earlier.epoch == new.epoch and earlier.commit is None
            for earlier in self.left()
        ):
            # The producer's records are deleted, and the log may have only a marker of it.
            new.epoch, new.sequence = new.epoch + 1, 0
        built = batch(
            *[b"%d" % (new.offset + number) for number in range(count)],
            timestamp=self.bench.world.clock.now_ms(),
            producer_id=producer,
            producer_epoch=new.epoch,
            sequence=new.sequence,
            transactional=new.in_transaction,
        )
        self.append(new, built, AppendOrigin.CLIENT)

    def end_transaction(self, producer: int, *, commit: bool, bump: bool) -> None:
        last = self.last_of(producer)
        if last is None:
            return
        new = Written(
            offset=self.log.log_end_offset,
            count=1,
            leader_epoch=self.leader_epoch,
            producer=producer,
            epoch=last.epoch + bump,
            sequence=0 if bump else last.sequence + (0 if last.commit is not None else last.count),
        )
        new.in_transaction, new.commit = True, commit
        built = build_end_transaction_marker(
            is_commit=commit,
            coordinator_epoch=0,
            producer_id=producer,
            producer_epoch=new.epoch,
            timestamp_ms=self.bench.world.clock.now_ms(),
        )
        self.append(new, built, AppendOrigin.COORDINATOR)

    def append(self, new: Written, built: bytearray, origin: AppendOrigin) -> None:
        self.written.append(new)
        result = self.bench.append_bytes(built, leader_epoch=self.leader_epoch, origin=origin)
        assert not result.duplicate
        assert result.first_offset == new.offset

    def truncate(self, batches: int) -> None:
        """Truncates uncommitted batches; another leader continues."""
        uncommitted = sum(written.offset >= self.high_watermark for written in self.written)
        kept = len(self.written) - min(batches, uncommitted)
        self.leader_epoch += 1
        self.may_lose_power = False
        # The checkpoint follows at once.
        self.recovery_points = [0]
        if kept < len(self.written):
            self.cut_at = self.written[kept].offset
            self.log.truncate_to(self.cut_at)
            del self.written[kept:]

    def step(self) -> None:
        random, log = self.random, self.log
        kind = random.random()
        if kind < 0.45:
            self.write(random.randrange(3), random.randint(1, 3), transactional=random.random() < 0.6)
        elif kind < 0.65:
            self.end_transaction(random.randrange(3), commit=random.random() < 0.4, bump=random.random() < 0.4)
        elif kind < 0.75:
            ends = [written.next_offset for written in self.written if written.next_offset > self.high_watermark]
            self.high_watermark = random.choice([self.high_watermark, *ends])
            log.update_high_watermark(self.high_watermark)
        elif kind < 0.8:
            log.roll()
        elif kind < 0.85:
            self.truncate(random.randint(1, 6))
        elif kind < 0.9:
            target = random.randint(log.log_start_offset, max(log.log_start_offset, self.high_watermark))
            log.advance_log_start_offset(target)
        elif kind < 0.95:
            expired = list(log.segments)[: random.randint(0, 2)]
            if len(log.segments) > 2 and expired and log.segments[len(expired)].base_offset <= self.high_watermark:
                log.delete_segments(expired)
                self.start_offsets = [log.log_start_offset]
        else:
            log.flush()
            # What lies beside an empty log is not synced.
            self.may_lose_power = self.may_lose_power or bool(self.written)
        self.bench.world.scheduler.run()
        log.invariants()

    # ---- crashes

    def restart(self, *, clean: bool, power_cut: bool, tears: bool = False) -> None:
        log, random, files = self.log, self.random, self.files
        self.epochs_from = max(self.epochs_from, log.log_start_offset)
        recovery_point = random.choice(self.recovery_points)
        start_offset = log.log_start_offset if clean else random.choice(self.start_offsets)
        if clean:
            log.flush()
            for path in log.close():
                if not files.is_directory(path):
                    files.open(path).sync()
        elif tears and files.torn is not None:
            path, length = files.torn
            if path in files.nodes and len(files.nodes[path].data) > length:
                del files.nodes[path].data[random.randint(length, len(files.nodes[path].data)) :]
        if power_cut:
            for node in files.nodes.values():
                if random.random() < 0.7:
                    node.data = bytearray(node.synced)
        while True:
            # A second crash may follow before the recovery is complete.
            files.changes_left = random.choice([None, None, random.randint(0, 6)])
            self.bench = LogBench(files, **self._settings())
            try:
                self.log = self.bench.open(clean=clean, recovery_point=recovery_point, log_start_offset=start_offset)
                break
            except Crash:
                clean = False
        files.changes_left = None
        self.recovery_points, self.start_offsets = [self.log.recovery_point], [self.log.log_start_offset]
        self.high_watermark = min(max(self.high_watermark, self.log.log_start_offset), self.log.log_end_offset)
        self.log.update_high_watermark(self.high_watermark)

    def _settings(self) -> dict[str, object]:
        return {"segment_bytes": self.bench.config.segment_bytes, "index_interval_bytes": 0}

    def crash(self, *, during_step: bool, power_cut: bool) -> None:
        before = list(self.written)
        self.cut_at = NOT_CUT
        safe_end = self.log.recovery_point if power_cut else self.end
        is_inside = False
        if during_step:
            self.files.changes_left = self.random.randint(0, 8)
            self.files.torn = None
            try:
                self.step()
            except Crash:
                is_inside = True
            self.files.changes_left = None
        # What a step that was cut off had done: a prefix of what was there before, or of what should be there now.
        longest = self.written if len(self.written) > len(before) else before
        self.restart(clean=False, power_cut=power_cut and self.may_lose_power, tears=is_inside)
        end = self.log.log_end_offset
        assert end >= min(safe_end, self.cut_at)
        self.written = [written for written in longest if written.next_offset <= end]
        assert self.end == end or not self.written

    # ---- what the list of batches says

    def left(self) -> list[Written]:
        return [written for written in self.written if written.offset >= self.epochs_from]

    def last_of(self, producer: int) -> Written | None:
        return next((written for written in reversed(self.written) if written.producer == producer), None)

    def transactions(self) -> list[tuple[int, list[Written], Written | None]]:
        """(producer, batches, marker or None while open)."""
        transactions: list[tuple[int, list[Written], Written | None]] = []
        is_open: dict[int, list[Written]] = {}
        for written in self.written:
            if written.commit is not None:
                if written.producer in is_open:
                    transactions.append((written.producer, is_open.pop(written.producer), written))
            elif written.in_transaction:
                is_open.setdefault(written.producer, []).append(written)
        return transactions + [(producer, batches, None) for producer, batches in is_open.items()]

    def open(self) -> set[int]:
        return {producer for producer, _, marker in self.transactions() if marker is None}

    def check(self) -> None:
        log, start = self.log, self.log.log_start_offset
        assert log.log_end_offset == self.end
        self.check_batches()
        self.check_epochs()
        unstable = [
            max(batches[0].offset, start)
            for _, batches, marker in self.transactions()
            if marker is None or marker.offset >= self.high_watermark
        ]
        # Deleted batches of an open transaction may be forgotten.
        undecided = [
            max(first_left.offset, start)
            for _, batches, marker in self.transactions()
            for first_left in [left for left in batches if left.next_offset > start][:1]
            if marker is None
        ]
        assert min([self.high_watermark, *unstable]) <= log.last_stable_offset <= min([self.high_watermark, *undecided])
        aborted = {
            aborted_batch.offset
            for _, batches, marker in self.transactions()
            if marker is not None and not marker.commit
            for aborted_batch in batches
        }
        expected = [
            offset
            for written in self.written
            if written.commit is None
            and written.offset not in aborted
            and written.next_offset <= log.last_stable_offset
            for offset in range(max(start, written.offset), written.next_offset)
        ]
        max_bytes = self.random.choice([1, 200, 1 << 20])
        assert [record.offset for record in committed_records(log, max_bytes=max_bytes)] == expected
        self.check_producers()

    def check_batches(self) -> None:
        log = self.log
        offset = max(log.log_start_offset, log.segments[0].base_offset)
        expected = [written for written in self.written if written.next_offset > offset]
        headers: list[BatchHeader] = []
        while offset < log.log_end_offset:
            read = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
            assert read.region is not None
            headers += [read_batch.header for read_batch in iterate_batches(read.region.read())]
            offset = headers[-1].next_offset
        assert len(headers) == len(expected)
        assert all(written.is_same(header) for written, header in zip(expected, headers, strict=True))

    def check_epochs(self) -> None:
        start = self.epochs_from = max(self.log.log_start_offset, self.epochs_from)
        expected: list[tuple[int, int]] = []
        for written in self.written:
            if written.next_offset > start and (not expected or expected[-1][0] != written.leader_epoch):
                expected.append((written.leader_epoch, max(written.offset, start)))
        if expected:
            log_epochs = [(epoch, max(offset, start)) for epoch, offset in self.log.epochs.entries]
            assert log_epochs[-len(expected) :] == expected

    def check_producers(self) -> None:
        """Every one of a producer's last five batches is recognised as a duplicate."""
        for producer in range(3):
            last = self.last_of(producer)
            if last is None or last.next_offset <= self.log.log_start_offset:
                continue
            recent = [
                written
                for written in self.written
                if written.producer == producer and written.epoch == last.epoch and written.commit is None
            ][-5:]
            for written in [written for written in recent if written.offset >= self.log.log_start_offset]:
                again = batch(
                    *[b"x"] * written.count,
                    producer_id=producer,
                    producer_epoch=written.epoch,
                    sequence=written.sequence,
                    transactional=written.in_transaction,
                )
                result = self.bench.append_bytes(again, leader_epoch=self.leader_epoch)
                assert (result.duplicate, result.first_offset) == (True, written.offset)
            if recent:
                gap = batch(producer_id=producer, producer_epoch=last.epoch, sequence=recent[-1].sequence + 10)
                with pytest.raises(KafkaError) as caught:
                    self.bench.append_bytes(gap, leader_epoch=self.leader_epoch)
                assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def run(seed: int) -> None:
    random = Random(seed)
    story = Story(random)
    for _ in range(random.randint(10, 50)):
        kind = random.random()
        if kind < 0.8:
            story.step()
        elif kind < 0.85:
            story.restart(clean=True, power_cut=story.may_lose_power and random.random() < 0.5)
        else:
            story.crash(during_step=random.random() < 0.7, power_cut=random.random() < 0.3)
        story.recovery_points.append(story.log.recovery_point)
        story.start_offsets.append(story.log.log_start_offset)
        story.check()


@pytest.mark.parametrize("seed", range(20))
def test_a_log_is_after_any_crash_what_was_appended(seed: int) -> None:
    for number in range(5):
        run(seed * 1000 + number)


def three_segments() -> tuple[CrashingFiles, LogBench]:
    files = CrashingFiles()
    bench = LogBench(files, index_interval_bytes=0)
    for number in range(3):
        bench.append(b"aborted", producer_id=1, producer_epoch=0, sequence=number, transactional=True)
        bench.end_transaction(1, commit=False)
        bench.log.roll()
    bench.log.flush()
    bench.advance_high_watermark()
    return files, bench


@pytest.mark.parametrize("changes", range(12))
def test_a_crash_during_retention_leaves_segments_with_their_aborted_transactions(changes: int) -> None:
    files, bench = three_segments()
    files.changes_left = changes
    with contextlib.suppress(Crash):
        bench.log.delete_segments(list(bench.log.segments)[:2])
    files.changes_left = None
    log = LogBench(files).open(recovery_point=bench.log.recovery_point)
    log.update_high_watermark(log.log_end_offset)
    assert log.log_end_offset == 6
    assert list(committed_records(log, max_bytes=1 << 20)) == []


@pytest.mark.parametrize("changes", range(16))
def test_a_crash_during_a_truncation_leaves_no_hole(changes: int) -> None:
    files, bench = three_segments()
    files.changes_left = changes
    with contextlib.suppress(Crash):
        bench.log.truncate_to(1)
    files.changes_left = None
    log = LogBench(files).open(recovery_point=bench.log.recovery_point)
    offset = 0
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
        assert read.region is not None
        header = next(iter(iterate_batches(read.region.read()))).header
        assert header.base_offset == offset
        offset = header.next_offset
