"""Transactional producing: throughput, CPU time, and the latency of a commit.

A Java producer writes in transactions of 10 ms or 100 ms. As fast as it can, that shows throughput and CPU time per
byte; at a fixed rate, the duration of a commit: sending the remaining records, the coordinator's decision, and the
answer. Markers are written after the answer, and delay the next transaction if they are slow.
"""

from __future__ import annotations

import itertools

from bench.cases import KIB, Case, Goal, Metrics, per_gigabyte, records_for, topic
from bench.clients import Clients
from bench.measure import Meter
from tests.support.brokers import Broker

__all__ = ["full_transaction_cases", "quick_transaction_cases"]

CPU = Goal(ratio=0.6)
AT_MOST_PEER = Goal(ratio=1.0)
AT_LEAST_PEER = Goal(ratio=1.0, at_most=False)

PARTITIONS = 6
RATE = 10_000
SECONDS = 4

numbers = itertools.count()


def quick_transaction_cases() -> list[Case]:
    return [throughput_case(1024, 100), commit_case(10), commit_case(100)]


def full_transaction_cases() -> list[Case]:
    throughput = [throughput_case(size, length_ms) for size in (100, 1024) for length_ms in (10, 100)]
    return [*throughput, commit_case(10), commit_case(100)]


def throughput_case(record_size: int, transaction_ms: int) -> Case:
    records = records_for(record_size)
    settings = {"batch.size": str(16 * KIB), "linger.ms": "5"}

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, PARTITIONS) as name, Meter(broker.pids, clients.pids) as meter:
            outcome = clients.java_transactions(
                broker.bootstrap,
                name,
                transactional_id=f"throughput-{next(numbers)}",
                records=records,
                record_size=record_size,
                transaction_ms=transaction_ms,
                settings=settings,
            )
        return {**per_gigabyte(meter, records * record_size), "records/s": outcome.records_per_s}

    return Case(
        group="transactions",
        name=f"{record_size} B, 16 KiB batches, {PARTITIONS} p, transactions of {transaction_ms} ms",
        run=run,
        goals={"broker CPU s/GB": CPU, "records/s": AT_LEAST_PEER},
        warm_up_runs=1,
        seconds=4.0,
    )


def commit_case(transaction_ms: int) -> Case:
    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, PARTITIONS) as name, Meter(broker.pids, clients.pids) as meter:
            outcome = clients.java_transactions(
                broker.bootstrap,
                name,
                transactional_id=f"commit-{next(numbers)}",
                records=RATE * SECONDS,
                record_size=100,
                rate=RATE,
                transaction_ms=transaction_ms,
                settings={"linger.ms": "0"},
            )
        assert outcome.p50_ms is not None
        assert outcome.p99_ms is not None
        return {
            "commit p50 ms": outcome.p50_ms,
            "commit p99 ms": outcome.p99_ms,
            "broker CPU us/record": meter.broker_cpu_s / (RATE * SECONDS) * 1e6,
            "others": meter.others_share,
        }

    return Case(
        group="commit of a transaction",
        name=f"transactions of {transaction_ms} ms, {RATE:,} records/s, 100 B, {PARTITIONS} p",
        run=run,
        goals={"commit p99 ms": AT_MOST_PEER},
        warm_up_runs=1,
        seconds=SECONDS + 1.5,
    )
