"""`python -m bench.latency`: how long a producer waits for three brokers under a steady load.

Kafka's Java producer sends records of 1 KiB at fixed rates to six partitions with three replicas, acks=all, without
linger. One cluster runs at a time: Apache Kafka first, then Ottla, each with the same warm-up. Figures are medians of
the rounds; CPU is the sum of the three brokers. The machine has to be idle.

The producer runs in one warm JVM (`java/PacedProducer`). `--fresh-client` runs kafka-producer-perf-test in a JVM of its
own for each round. The start of that JVM competes with the brokers for the processors and is a part of the higher
percentiles, and the tool reports whole milliseconds.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from bench.before import earlier_cluster
from bench.cases import topic
from bench.clients import Clients, Outcome, opened, producer_arguments, producer_outcome
from bench.curve import wait_in_sync
from bench.measure import Meter
from tests.support import jars
from tests.support.broker_clusters import BrokerCluster, KafkaCluster, OttlaCluster
from tests.support.java import java_command, unavailable_reason

__all__ = ["main"]

RATES = (1_000, 5_000, 10_000, 20_000)
PARTITIONS = 6
RECORD_SIZE = 1024
RATIO_MAX = 0.7
GOALS = ("p50 ms", "p99 ms", "p99.9 ms")
SETTINGS = {"log.segment.delete.delay.ms": "1000"}
PRODUCER = {"acks": "all", "linger.ms": "0"}
# The steps of the warm-up: at full speed, and at a fixed rate.
WARM_UP_RECORDS = 200_000
WARM_UP_SECONDS = 4
# The options of Kafka's own start script.
TOOL_OPTIONS = ["-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]

Figures = dict[str, float]
Maker = Callable[[Path, dict[str, str]], BrokerCluster]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if reason := unavailable_reason():
        print(f"bench: {reason}")
        return 1
    results: dict[str, dict[int, Figures]] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-latency-") as scratch:
        for name, make in contestants(options).items():
            with opened() as clients, make(Path(scratch) / name, SETTINGS) as cluster:
                warm_up(cluster, clients, options.warm_up)
                results[name] = {rate: measure(cluster, clients, name, rate, options) for rate in options.rates}
    report(results)
    print(f"{time.monotonic() - begun:.0f} s")
    return 0


def contestants(options: argparse.Namespace) -> dict[str, Maker]:
    ours: dict[str, Maker] = {"Ottla": OttlaCluster}
    if options.ours:
        return ours
    if options.before is not None:
        return {"before": lambda *place: cluster_of(earlier_cluster(options.before / "src")(*place)), **ours}
    return {"Apache Kafka": KafkaCluster, **ours}


def cluster_of(broker: object) -> BrokerCluster:
    assert isinstance(broker, BrokerCluster)
    return broker


def warm_up(cluster: BrokerCluster, clients: Clients, seconds: float) -> None:
    """Full speed and the rates of the measurement in turn: the JVM of a broker becomes faster for minutes."""
    end = time.monotonic() + seconds
    with topic(cluster, PARTITIONS) as name:
        wait_in_sync(cluster.bootstrap, name, PARTITIONS)
        for rate in itertools.cycle((-1, *RATES)):
            produce = clients.java_paced if rate > 0 else clients.java_produce
            records = rate * WARM_UP_SECONDS if rate > 0 else WARM_UP_RECORDS
            produce(cluster.bootstrap, name, records=records, record_size=RECORD_SIZE, rate=rate, settings=PRODUCER)
            if time.monotonic() > end:
                return


def measure(cluster: BrokerCluster, clients: Clients, name: str, rate: int, options: argparse.Namespace) -> Figures:
    """The medians of the rounds at one rate."""
    rounds: list[Figures] = []
    produce = produce_in_fresh_jvm if options.fresh_client else clients.java_paced
    for _ in range(options.rounds):
        with topic(cluster, PARTITIONS) as used:
            wait_in_sync(cluster.bootstrap, used, PARTITIONS)
            records = rate * options.seconds
            with Meter(cluster.pids, clients.pids) as meter:
                outcome = produce(
                    cluster.bootstrap, used, records=records, record_size=RECORD_SIZE, rate=rate, settings=PRODUCER
                )
        rounds.append(figures_of(outcome, meter))
        show(name, rate, rounds[-1])
    return {metric: median(figures[metric] for figures in rounds) for metric in rounds[0]}


def produce_in_fresh_jvm(
    bootstrap: str, topic: str, *, records: int, record_size: int, rate: int, settings: dict[str, str]
) -> Outcome:
    arguments = producer_arguments(
        bootstrap, topic, records=records, record_size=record_size, rate=rate, settings=settings
    )
    tool = [java_command(), *TOOL_OPTIONS, "-cp", jars.class_path(jars.TOOLS)]
    command = [*tool, "org.apache.kafka.tools.ProducerPerformance", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return producer_outcome(done.stdout, records)


def figures_of(outcome: Outcome, meter: Meter) -> Figures:
    """Kafka's tool reports whole milliseconds; 0 is taken as half a millisecond, so that a ratio exists."""
    percentiles = zip(GOALS, (outcome.p50_ms, outcome.p99_ms, outcome.p999_ms), strict=True)
    return {
        **{metric: value or 0.5 for metric, value in percentiles},
        "records/s": outcome.records_per_s,
        "broker CPU s": meter.broker_cpu_s,
        "others %": 100 * meter.others_share,
    }


def show(name: str, rate: int, figures: Figures) -> None:
    words = (f"{metric} {value:.4g}" for metric, value in figures.items())
    print(f"{name:>12} {rate:>6,}/s: {', '.join(words)}", flush=True)


def report(results: dict[str, dict[int, Figures]]) -> None:
    """Medians, and the ratios of the last contestant to the first."""
    print("\nMedians:")
    for name, by_rate in results.items():
        for rate, figures in by_rate.items():
            show(name, rate, figures)
    if len(results) > 1:
        peer, ours = results.values()
        print("\nRatios:")
        for rate, figures in ours.items():
            ratios = {metric: value / peer[rate][metric] for metric, value in figures.items() if metric != "others %"}
            missed = [metric for metric in GOALS if ratios[metric] > RATIO_MAX]
            show("ratio", rate, ratios)
            if missed:
                print(f"{'':>12} above {RATIO_MAX:g}: {', '.join(missed)}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--ours", action="store_true", help="Ottla alone")
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout instead of Apache Kafka")
    parser.add_argument(
        "--rates",
        type=lambda text: tuple(int(rate) for rate in text.split(",")),
        default=RATES,
        metavar="N,N,...",
        help="records per second (default: 1,000 to 20,000)",
    )
    parser.add_argument("--seconds", type=int, default=6, help="duration of a round (default: 6)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds at each rate (default: 2)")
    parser.add_argument("--warm-up", type=float, default=60, metavar="SECONDS", help="before the rounds (default: 60)")
    parser.add_argument("--fresh-client", action="store_true", help="a new JVM for the client of each round")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
