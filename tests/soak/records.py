"""Load with checks: records that must not be lost, transactions that must be whole, keys that keep their last value.

Every check reads beside its writer and forgets what it has compared: an hour needs no more memory than a minute.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.soak.jobs import Findings, Job

__all__ = ["Ledger", "LedgerReader", "Table", "Transactions", "TransactionsReader"]

PARTITIONS = 3
DELIVERY_MS = 120_000
FINISH_S = 90.0
TICK_S = 0.05

QUIET = {"log_level": 0, "socket.timeout.ms": 5_000, "topic.metadata.refresh.interval.ms": 2_000}


class Ledger(Job):
    """Numbers without a gap in every partition of a topic with retention, from an idempotent producer."""

    topic = "ledger"
    pause_s = TICK_S

    def __init__(self, findings: Findings, bootstrap: str, *, rate: int) -> None:
        super().__init__(findings)
        self._records_per_step = max(1, round(rate * TICK_S / PARTITIONS))
        self._next = 0
        # By partition, the highest acknowledged number.
        self.acknowledged = dict.fromkeys(range(PARTITIONS), -1)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": DELIVERY_MS, **QUIET}
        )

    def step(self) -> None:
        for _ in range(self._records_per_step):
            for partition in range(PARTITIONS):
                value = b"%d" % self._next
                self._producer.produce(self.topic, value.ljust(200), partition=partition, on_delivery=self._on_delivery)
            self._next += 1
        self._producer.poll(0)

    def finish(self) -> None:
        unacknowledged = self._producer.flush(FINISH_S)
        if unacknowledged:
            self.findings.report(f"{unacknowledged} records of the ledger were never acknowledged")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.findings.report(f"the ledger's record was refused: {error}")
            return
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        self.acknowledged[partition] = max(self.acknowledged[partition], int(value))
        self.counts["records acknowledged"] += 1


class LedgerReader(Job):
    """Every number of the ledger once and in order."""

    def __init__(self, findings: Findings, bootstrap: str, ledger: Ledger) -> None:
        super().__init__(findings)
        self._ledger = ledger
        self._expected = dict.fromkeys(range(PARTITIONS), 0)
        self._consumer = _reader(bootstrap, "ledger-reader", isolation="read_uncommitted")
        self._consumer.assign([TopicPartition(ledger.topic, partition, 0) for partition in range(PARTITIONS)])

    def step(self) -> None:
        for message in self._consumer.consume(500, timeout=0.5):
            error = message.error()
            if error is not None:
                _report_unless_passing(self.findings, "the reader of the ledger", error)
                continue
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            number = int(value)
            if number != self._expected[partition]:
                problem = "is there twice" if number < self._expected[partition] else "comes after a gap"
                self.findings.report(f"ledger-{partition}: {number} {problem}, expected {self._expected[partition]}")
            self._expected[partition] = number + 1
            self.counts["records read"] += 1

    def finish(self) -> None:
        end = time.monotonic() + FINISH_S
        while self._missing() and time.monotonic() < end:
            self.step()
        if missing := self._missing():
            self.findings.report(f"acknowledged records of the ledger cannot be read, by partition: {missing}")
        self._consumer.close()

    def _missing(self) -> dict[int, int]:
        acknowledged = self._ledger.acknowledged
        return {
            partition: number - self._expected[partition] + 1
            for partition, number in acknowledged.items()
            if number >= self._expected[partition]
        }


class Transactions(Job):
    """Numbered transactions with one record in every partition. Every third is aborted; ids are used for a while."""

    topic = "transactions"
    pause_s = 0.1
    PER_ID = 50

    def __init__(self, findings: Findings, bootstrap: str) -> None:
        super().__init__(findings)
        self._bootstrap = bootstrap
        self._number = 0
        # By number: "open", "committed", "aborted", or "unknown" if no answer came. The reader removes judged numbers.
        self.outcomes: dict[int, str] = {}
        self._producer: Producer | None = None

    def step(self) -> None:
        if self._producer is None or self._number % self.PER_ID == 0:
            self._producer = self._new_producer()
        number, self._number = self._number, self._number + 1
        self.outcomes[number] = "open"
        outcome = self._transact(self._producer, number)
        self.counts[f"transactions {outcome}"] += 1
        self.outcomes[number] = outcome

    def _new_producer(self) -> Producer:
        settings = {"transactional.id": f"soak-{self._number}", "transaction.timeout.ms": 30_000}
        producer = Producer({"bootstrap.servers": self._bootstrap, **settings, **QUIET})
        producer.init_transactions(DELIVERY_MS / 1000)
        return producer

    def _transact(self, producer: Producer, number: int) -> str:
        """Runs one transaction; returns its outcome."""
        is_committing = False
        try:
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(self.topic, b"%d" % number, partition=partition)
            if number % 3 == 0:
                producer.flush(DELIVERY_MS / 1000)
                producer.abort_transaction(DELIVERY_MS / 1000)
                return "aborted"
            is_committing = True
            producer.commit_transaction(DELIVERY_MS / 1000)
        except KafkaException as error:
            # The next one begins with a new id: the coordinator ends this transaction when it is too old.
            self._producer = None
            self.counts["producers replaced"] += 1
            # Without an answer to its commit a producer does not know the outcome; before that nothing is committed.
            return "unknown" if is_committing and not error.args[0].txn_requires_abort() else "aborted"
        return "committed"


class TransactionsReader(Job):
    """Committed transactions are whole and come once; of aborted ones nothing is seen."""

    def __init__(self, findings: Findings, bootstrap: str, transactions: Transactions) -> None:
        super().__init__(findings)
        self._outcomes = transactions.outcomes
        self._seen: dict[int, int] = {}
        self._last = dict.fromkeys(range(PARTITIONS), -1)
        self._consumer = _reader(bootstrap, "transactions-reader", isolation="read_committed")
        self._consumer.assign([TopicPartition(transactions.topic, partition, 0) for partition in range(PARTITIONS)])

    def step(self) -> None:
        for message in self._consumer.consume(500, timeout=0.5):
            error = message.error()
            if error is not None:
                _report_unless_passing(self.findings, "the reader of transactions", error)
                continue
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            number = int(value)
            if number <= self._last[partition]:
                self.findings.report(f"transactions-{partition}: {number} comes after {self._last[partition]}")
            self._last[partition] = number
            self._seen[number] = self._seen.get(number, 0) + 1
        self._judge_below(min(self._last.values()))

    def finish(self) -> None:
        end = time.monotonic() + FINISH_S
        committed = [number for number, outcome in list(self._outcomes.items()) if outcome == "committed"]
        while committed and min(self._last.values()) < committed[-1] and time.monotonic() < end:
            self.step()
        self._judge_below(max(self._outcomes, default=0) + 1)
        self._consumer.close()

    def _judge_below(self, end: int) -> None:
        """All numbers below have been read in every partition: later transactions were seen there."""
        for number in [number for number in list(self._outcomes) if number < end]:
            outcome, seen = self._outcomes.pop(number), self._seen.pop(number, 0)
            allowed = {"committed": (PARTITIONS,), "aborted": (0,)}.get(outcome, (0, PARTITIONS))
            if seen not in allowed:
                self.findings.report(f"transaction {number} is {outcome}, and {seen} of its records were read")
            self.counts["transactions checked"] += 1


class Table(Job):
    """Keys with rising versions in a compacted topic; some versions are tombstones. Read whole now and then."""

    topic = "table"
    pause_s = TICK_S
    KEYS = 500
    TOMBSTONE_EVERY = 7

    def __init__(self, findings: Findings, bootstrap: str, *, rate: int, check_every_s: float) -> None:
        super().__init__(findings)
        self._bootstrap = bootstrap
        self._records_per_step = max(1, round(rate * TICK_S))
        self._check_every_s = check_every_s
        self._next_check = time.monotonic() + check_every_s
        self._version = 0
        # By key, the last acknowledged version.
        self._acknowledged: dict[int, int] = {}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": DELIVERY_MS, **QUIET}
        )

    def step(self) -> None:
        for _ in range(self._records_per_step):
            version, self._version = self._version, self._version + 1
            value = None if self._is_tombstone(version) else (b"%d" % version).ljust(100)
            self._producer.produce(
                self.topic,
                value,
                b"%d" % (version % self.KEYS),
                partition=0,
                on_delivery=lambda error, _, version=version: self._on_delivery(error, version),
            )
        self._producer.poll(0)
        if time.monotonic() > self._next_check:
            self._check()
            self._next_check = time.monotonic() + self._check_every_s

    def finish(self) -> None:
        if self._producer.flush(FINISH_S):
            self.findings.report("records of the table were never acknowledged")
        self._check()

    def _is_tombstone(self, version: int) -> bool:
        return version // self.KEYS % self.TOMBSTONE_EVERY == self.TOMBSTONE_EVERY - 1

    def _on_delivery(self, error: KafkaError | None, version: int) -> None:
        if error is not None:
            self.findings.report(f"the table's record was refused: {error}")
        else:
            self._acknowledged[version % self.KEYS] = version

    def _check(self) -> None:
        expected = dict(self._acknowledged)
        versions = self._read_whole()
        for key, version in expected.items():
            value = versions.get(key)
            if value is None and not self._is_tombstone(version):
                # A later tombstone may have removed it.
                if self._version <= version + self.KEYS:
                    self.findings.report(f"table: version {version} of key {key} is lost")
            elif value is not None and value < version:
                self.findings.report(f"table: key {key} has version {value}, {version} was acknowledged")
        self.counts["tables checked"] += 1

    def _read_whole(self) -> dict[int, int]:
        """The last version by key; deleted keys are absent."""
        versions: dict[int, int] = {}
        consumer = _reader(self._bootstrap, "table-reader", isolation="read_uncommitted")
        try:
            place = TopicPartition(self.topic, 0, 0)
            deadline = time.monotonic() + FINISH_S
            first, end = self._watermarks(consumer, place, deadline)
            consumer.assign([TopicPartition(self.topic, 0, first)])
            while consumer.position([place])[0].offset < end:
                if time.monotonic() > deadline:
                    self.findings.report(f"table: cannot be read to its end {end}")
                    break
                for message in consumer.consume(1_000, timeout=0.2):
                    if message.error() is not None:
                        continue
                    key, value = message.key(), message.value()
                    assert isinstance(key, bytes)
                    versions.pop(int(key), None)
                    if isinstance(value, bytes):
                        versions[int(key)] = int(value)
            return versions
        finally:
            consumer.close()

    def _watermarks(self, consumer: Consumer, place: TopicPartition, deadline: float) -> tuple[int, int]:
        """Repeats the call, which does not retry when the leader moves."""
        while True:
            try:
                watermarks = consumer.get_watermark_offsets(place, timeout=5.0)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return watermarks


def _reader(bootstrap: str, group: str, *, isolation: str) -> Consumer:
    # "error": a reader that is thrown back to another offset would hide a loss.
    settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "error"}
    return Consumer({"bootstrap.servers": bootstrap, "isolation.level": isolation, **settings, **QUIET})


def _report_unless_passing(findings: Findings, client: str, error: KafkaError) -> None:
    """Restarts are part of the soak: clients wait and try again. An offset out of range is a loss."""
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        findings.report(f"{client}: {error}")
