"""One soak: a cluster of three nodes, the jobs on it, samples in every tenth, a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.testing
from tests.soak.churn import Groups, Restarts, Topics
from tests.soak.jobs import Findings, Job
from tests.soak.judge import Verdict, judge
from tests.soak.records import PARTITIONS, Ledger, LedgerReader, Table, Transactions, TransactionsReader
from tests.soak.samples import Sampler, series
from tests.support.fault_workload import wait_in_sync
from tests.support.kept_logs import copy_logs

__all__ = ["TENTHS", "SoakResult", "soak"]

TENTHS = 10
SAMPLES_PER_TENTH = 20
# Everything that ends by age ends within a tenth, so that its amount is the same in every tenth.
# Not sooner than a client may wait for a restart.
EXPIRY_MS_MIN = 15_000
EXPIRY_MS_MAX = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakResult:
    verdicts: Sequence[Verdict]
    counts: Mapping[str, int]
    findings: Sequence[str]

    @property
    def is_good(self) -> bool:
        return not self.findings and all(verdict.is_flat for verdict in self.verdicts)


def soak(
    seconds: float,
    *,
    rate: int = 600,
    logs: Path | None = None,
    on_tenth: Callable[[str], object] = lambda _: None,
    more_jobs: Callable[[Findings, ottla.testing.Cluster], Sequence[Job]] = lambda *_: (),
) -> SoakResult:
    """Runs for this long; `rate` is records per second, and `more_jobs` are those of a test.

    What the nodes wrote is kept in `logs` if something was found.
    """
    tenth_s = seconds / TENTHS
    findings = Findings()
    with ottla.testing.cluster(nodes=3, settings=_settings(tenth_s)) as cluster:
        _create_topics(cluster.bootstrap, tenth_s)
        jobs = [*_jobs(findings, cluster, rate=rate, tenth_s=tenth_s), *more_jobs(findings, cluster)]
        sampler = Sampler(findings, cluster, interval_s=tenth_s / SAMPLES_PER_TENTH)
        with ExitStack() as stack:
            # The last one started is the first one stopped: restarts end before readers do.
            for job in [*jobs, sampler]:
                job.start()
                stack.callback(job.stop)
            began, sentences_printed = time.monotonic(), 0
            for tenth in range(TENTHS):
                sampler.tenth = tenth
                time.sleep(max(0.0, began + (tenth + 1) * tenth_s - time.monotonic()))
                counts = ", ".join(f"{count} {name}" for name, count in sorted(findings.counts.items()))
                on_tenth(f"tenth {tenth + 1}: {counts}; {len(findings.sentences)} findings")
                for sentence in findings.sentences[sentences_printed:]:
                    on_tenth(f"  found: {sentence}")
                sentences_printed = len(findings.sentences)
        # Writers flush before their readers look for what is missing.
        for job in reversed(jobs):
            job.finish()
        if findings.sentences and logs is not None:
            copy_logs(cluster, logs)
        values = series(sampler.samples, TENTHS, node_kept=Restarts.NODE_KEPT)
        return SoakResult(verdicts=judge(values), counts=findings.counts, findings=findings.sentences)


def _expiry_ms(tenth_s: float) -> int:
    return round(min(max(tenth_s * 500, EXPIRY_MS_MIN), EXPIRY_MS_MAX))


def _settings(tenth_s: float) -> dict[str, str]:
    expiry_ms = str(_expiry_ms(tenth_s))
    return {
        "ottla.metrics.listener": "127.0.0.1:0",
        "min.insync.replicas": "2",
        # A producer that asks for its topic just after the deletion would create it again, and nobody would delete it.
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "400",
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.num.partitions": "6",
        "group.initial.rebalance.delay.ms": "0",
        # A member whose leave is lost in a restart holds its partitions for a session.
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "log.cleaner.backoff.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
        "offsets.topic.segment.bytes": str(1 << 20),
        "transaction.state.log.segment.bytes": str(1 << 20),
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": expiry_ms,
        "producer.id.expiration.ms": expiry_ms,
        "producer.id.expiration.check.interval.ms": expiry_ms,
        "transactional.id.expiration.ms": expiry_ms,
        "transaction.remove.expired.transaction.cleanup.interval.ms": expiry_ms,
        "metadata.log.max.record.bytes.between.snapshots": str(1 << 18),
        "metadata.log.segment.bytes": str(1 << 23),
        "metadata.max.retention.bytes": str(1 << 23),
    }


def _create_topics(bootstrap: str, tenth_s: float) -> None:
    short = {"retention.ms": str(_expiry_ms(tenth_s) * 2), "segment.bytes": str(1 << 20), "segment.ms": "10000"}
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": "5000",
    }
    topics = [
        NewTopic(Ledger.topic, PARTITIONS, 3, config=short),
        NewTopic(Transactions.topic, PARTITIONS, 3, config=short),
        NewTopic(Table.topic, 1, 3, config=compacted),
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics(topics).values():
        future.result(60)
    for topic in topics:
        wait_in_sync(bootstrap, topic.topic, [1, 2, 3])


def _jobs(findings: Findings, cluster: ottla.testing.Cluster, *, rate: int, tenth_s: float) -> list[Job]:
    bootstrap = cluster.bootstrap
    ledger = Ledger(findings, bootstrap, rate=rate)
    transactions = Transactions(findings, bootstrap)
    return [
        LedgerReader(findings, bootstrap, ledger),
        TransactionsReader(findings, bootstrap, transactions),
        ledger,
        transactions,
        Table(findings, bootstrap, rate=rate // 3, check_every_s=max(5.0, tenth_s / 2)),
        Topics(findings, bootstrap, pause_s=0.5),
        Groups(findings, bootstrap, Ledger.topic, pause_s=1.0),
        Restarts(findings, cluster, Ledger.topic, tenth_s=tenth_s),
    ]
