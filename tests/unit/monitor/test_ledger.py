"""The books of the monitor: every probe ends as read, lost, doubled, out of order or failed."""

from __future__ import annotations

import random

from ottla.monitor.latencies import Latencies
from ottla.monitor.ledger import FAILED_KEPT_MAX, PartitionLedger, Seen
from ottla.monitor.outages import Outages


def sent_and_acknowledged(ledger: PartitionLedger, at: float) -> int:
    number = ledger.send(at)
    ledger.acknowledge(number, at, at + 0.01)
    return number


def test_an_acknowledged_probe_is_read_once() -> None:
    ledger = PartitionLedger()
    number = sent_and_acknowledged(ledger, 1.0)
    assert ledger.awaited == 1
    assert ledger.read(number, 1.5) is Seen.FIRST
    assert (ledger.produced, ledger.consumed, ledger.lost, ledger.duplicated, ledger.awaited) == (1, 1, 0, 0, 0)
    assert ledger.latency.max_ms == 500


def test_a_probe_can_be_read_before_its_acknowledgement() -> None:
    ledger = PartitionLedger()
    number = ledger.send(1.0)
    assert ledger.read(number, 1.1) is Seen.FIRST
    ledger.acknowledge(number, 1.0, 1.2)
    assert ledger.give_up(100.0) == []
    assert (ledger.produced, ledger.consumed, ledger.lost) == (1, 1, 0)


def test_a_second_read_is_a_duplicate() -> None:
    ledger = PartitionLedger()
    number = sent_and_acknowledged(ledger, 1.0)
    ledger.read(number, 1.1)
    assert ledger.read(number, 1.2) is Seen.DUPLICATE
    assert (ledger.consumed, ledger.duplicated) == (1, 1)


def test_a_probe_that_is_not_read_in_time_is_lost_and_found_when_it_is_read_later() -> None:
    ledger = PartitionLedger()
    lost, read = sent_and_acknowledged(ledger, 1.0), sent_and_acknowledged(ledger, 2.0)
    ledger.read(read, 2.1)
    assert ledger.give_up(1.5) == [lost]
    assert ledger.lost == 1
    assert ledger.read(lost, 9.0) is Seen.OUT_OF_ORDER
    assert (ledger.lost, ledger.late, ledger.reordered) == (0, 1, 1)


def test_a_failed_send_is_neither_lost_nor_doubled_whether_it_was_written_or_not() -> None:
    ledger = PartitionLedger()
    absent, present = ledger.send(1.0), ledger.send(1.0)
    ledger.fail(absent)
    ledger.fail(present)
    assert ledger.read(present, 2.0) is Seen.FIRST
    assert ledger.give_up(100.0) == []
    assert (ledger.failed, ledger.lost, ledger.duplicated) == (2, 0, 0)


def test_memory_is_bounded_while_every_send_fails() -> None:
    ledger = PartitionLedger()
    for _ in range(FAILED_KEPT_MAX + 10):
        ledger.fail(ledger.send(1.0))
    assert len(ledger._failed) == FAILED_KEPT_MAX


def test_an_outage_begins_while_probes_wait_and_ends_with_their_answer() -> None:
    ledger = PartitionLedger()
    outages = Outages(3.0)
    number = ledger.send(10.0)
    assert outages.check({0: ledger}, 12.9) == []
    (begun,) = outages.check({0: ledger}, 13.0)
    assert (begun.side, begun.began_at, begun.ended_at) == ("produce", 10.0, None)
    assert outages.check({0: ledger}, 14.0) == []
    ledger.acknowledge(number, 10.0, 15.0)
    (ended,) = outages.check({0: ledger}, 15.0)
    assert ended is begun
    assert outages.seconds(99.0) == 5.0
    # Acknowledged, and not read: the other side is out now.
    (unread,) = outages.check({0: ledger}, 18.0)
    assert unread.side == "consume"
    ledger.read(number, 19.0)
    assert outages.check({0: ledger}, 19.0) == [unread]
    assert outages.count == 2


def test_quantiles_are_exact_to_five_percent() -> None:
    generator = random.Random(4)
    values = sorted(generator.lognormvariate(2, 1) for _ in range(2_000))
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    for share in (0.01, 0.5, 0.99, 0.999, 1.0):
        exact = values[max(round(share * len(values)) - 1, 0)]
        assert exact * 0.95 <= latencies.quantile(share) <= exact * 1.06
    assert Latencies().quantile(0.5) == 0
