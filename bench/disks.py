"""`python -m bench.disks [cold] [recovery] [compaction] [--gigabytes 4]`: work that waits for the disk, beside Kafka.

cold: the latency of a producer alone, while four consumers read a whole topic from disk, and while they read it from
memory. recovery: kill -9 after the last record, page cache dropped; from the start to an acknowledged record in every
partition. compaction: a topic becomes compacted; from the change of its configuration until its size has settled.

The readers have the lowest priority of the processes, as if they had machines of their own: four of them take all of
two cores, and a producer that has no core says nothing about a broker. `--reader-nice 0` gives them the usual one. With
`--reader-rate 100` each of them reads 100 MB/s at most, as over a network. A reader receives all that its socket has
with one system call, which a kernel without preemption never interrupts: 4 MiB take it 7 to 14 ms on a processor that
the broker or the producer may be waiting for. With `--reader-buffer 131072` no call receives more than 128 KiB.

One broker after the other, each alone on the machine, with its files where `TMPDIR` says: that should be a disk. The
page cache is dropped through `/proc/sys/vm/drop_caches`, which needs the rights for it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from bench.measure import cpu_seconds
from ottla.client.blocking import BlockingProducer
from ottla.client.producer import ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from tests.support.brokers import ApacheKafka, Broker, OttlaFromFile

__all__ = ["main"]

PARTITIONS = 4
RECORD_BYTES = 100_000
READERS = 4
LOWEST_PRIORITY = 19
PULSE_RATE = 200
PULSE_S = 10.0
WAIT_S = 300.0
WAIT_S_PER_GB = 60.0
# Records of the compacted topic: a gigabyte has two and a half records for each of a million keys.
VALUE_BYTES = 380
KEYS_PER_GB = 1_000_000
RECORDS_PER_GB = 2_500_000
FILLED_AT_ONCE = 500_000
KEYS_SEGMENT_BYTES = 64 << 20
SETTLED_S = 6.0

SETTINGS = {
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    # The whole topic is dirty when it becomes compacted.
    "log.cleaner.min.cleanable.ratio": "0.01",
}

Metrics = dict[str, float]
Part = Callable[[Broker, float], Metrics]


class ReaderOptions(NamedTuple):
    """How the readers of old records run."""

    nice: int = LOWEST_PRIORITY
    # Megabytes per second of each reader; 0 without a limit.
    rate: float = 0.0
    # Bytes of the socket's receive buffer; 0 leaves it to the system.
    buffer_bytes: int = 0


def cold(broker: Broker, gigabytes: float, readers_are: ReaderOptions) -> Metrics:
    with broker:
        create(broker.bootstrap, "old", PARTITIONS)
        create(broker.bootstrap, "new", 1)
        fill(broker.bootstrap, "old", gigabytes)
        metrics = {"produce p50 ms": 0.0, "produce p99 ms": 0.0}
        pulse(broker.bootstrap, PULSE_S / 2)
        metrics["produce p50 ms"], metrics["produce p99 ms"] = pulse(broker.bootstrap, PULSE_S)
        wait_s = longest_wait_s(gigabytes)
        for kind in ("cold", "warm"):
            readers = [start_reader(broker.bootstrap, "old", wait_s, readers_are) for _ in range(READERS)]
            if kind == "cold":
                drop_page_cache()
            # The end of the log that is written to is in memory, as it always is.
            pulse(broker.bootstrap, PULSE_S / 10)
            cpu_s, began = cpu_seconds(broker.pid), time.monotonic()
            for reader in readers:
                let_read(reader)
            metrics[f"{kind} p50 ms"], metrics[f"{kind} p99 ms"] = pulse(
                broker.bootstrap, wait_s, lambda readers=readers: all(reader.poll() is not None for reader in readers)
            )
            metrics[f"{kind} read s"] = time.monotonic() - began
            metrics[f"{kind} broker CPU s"] = cpu_seconds(broker.pid) - cpu_s
            assert all(reader.returncode == 0 for reader in readers), "a reader failed"
    metrics["cold p99 / alone"] = metrics["cold p99 ms"] / metrics["produce p99 ms"]
    metrics["cold p99 / warm"] = metrics["cold p99 ms"] / metrics["warm p99 ms"]
    return metrics


def recovery(broker: Broker, gigabytes: float) -> Metrics:
    broker.start()
    create(broker.bootstrap, "old", PARTITIONS)
    fill(broker.bootstrap, "old", gigabytes)
    broker.kill()
    broker.start_timeout_s = longest_wait_s(gigabytes)
    drop_page_cache()
    began = time.monotonic()
    broker.start()
    try:
        started_s = time.monotonic() - began
        producer = Producer({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 20, "log_level": 0})
        for partition in range(PARTITIONS):
            producer.produce("old", b"x", partition=partition)
        assert producer.flush(WAIT_S) == 0
        return {
            "start s": started_s,
            "first record in every partition s": time.monotonic() - began,
            "CPU s": cpu_seconds(broker.pid),
            "largest RSS MB": largest_resident_bytes(broker.pid) / 1e6,
            "MB read from disk": disk_bytes(broker.pid, "read_bytes") / 1e6,
        }
    finally:
        broker.stop()


def compaction(broker: Broker, gigabytes: float) -> Metrics:
    with broker:
        create(broker.bootstrap, "keys", 1, {"segment.bytes": str(KEYS_SEGMENT_BYTES)})
        fill_keys(broker.bootstrap, "keys", gigabytes)
        os.sync()
        directory = broker.log_directory / "keys-0"
        before_bytes = log_bytes(directory)
        Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
        cpu_s = cpu_seconds(broker.pid)
        read, written = (disk_bytes(broker.pid, name) for name in ("rchar", "wchar"))
        began = changed = time.monotonic()
        alter(broker.bootstrap, "keys", {"cleanup.policy": "compact"})
        size = before_bytes
        wait_s = longest_wait_s(gigabytes)
        # The newest segment is never compacted, and the last pass may leave the one before it.
        wanted_bytes = before_bytes * KEYS_PER_GB / RECORDS_PER_GB + 3 * KEYS_SEGMENT_BYTES
        while size > wanted_bytes or time.monotonic() < changed + SETTLED_S:
            assert time.monotonic() < began + wait_s, f"{size} of {before_bytes} bytes after {wait_s:.0f} s"
            time.sleep(0.2)
            if (now := log_bytes(directory)) != size:
                size, changed = now, time.monotonic()
        return {
            "compaction s": changed - began,
            "CPU s": cpu_seconds(broker.pid) - cpu_s,
            "largest RSS MB": largest_resident_bytes(broker.pid) / 1e6,
            "MB read": (disk_bytes(broker.pid, "rchar") - read) / 1e6,
            "MB written": (disk_bytes(broker.pid, "wchar") - written) / 1e6,
            "MB before": before_bytes / 1e6,
            "MB after": size / 1e6,
        }


PARTS = ("cold", "recovery", "compaction")


def longest_wait_s(gigabytes: float) -> float:
    return max(WAIT_S, gigabytes * WAIT_S_PER_GB)


# Files and processes.


def drop_page_cache() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")


def largest_resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def disk_bytes(pid: int, name: str) -> int:
    """A counter of the process: bytes of its reads and writes, or those that came from the disk."""
    counters = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counters[name])


def log_bytes(directory: Path) -> int:
    """Segments in use; those of a compaction that is not complete, and deleted ones, have other suffixes."""
    total = 0
    for file in directory.glob("*.log"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


# Clients.


def create(bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs or {}))])[topic].result(60)


def alter(bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


def fill(bootstrap: str, topic: str, gigabytes: float) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.kbytes": 200_000, "linger.ms": 5})
    value = os.urandom(RECORD_BYTES)
    for number in range(int(gigabytes * 1e9 / RECORD_BYTES)):
        send(producer, topic, value, None, number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def fill_keys(bootstrap: str, topic: str, gigabytes: float) -> None:
    keys, records = int(KEYS_PER_GB * gigabytes), int(RECORDS_PER_GB * gigabytes)
    value = os.urandom(VALUE_BYTES)
    producer = BlockingProducer(
        ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap)),
        ProducerSettings(linger_ms=0, buffer_bytes=256 << 20),
    )
    for first in range(0, records, FILLED_AT_ONCE):
        numbers = np.arange(first, min(records, first + FILLED_AT_ONCE)) * 7919 % keys
        digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 12, "0")
        key = pc.binary_join_element_wise("key-", digits, "").cast(pa.binary())
        table = pa.table({"key": key, "value": pa.repeat(pa.scalar(value), len(numbers))})
        producer.send_table(topic, table)
    producer.close()


def send(producer: Producer, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def pulse(bootstrap: str, seconds: float, is_over: Callable[[], bool] = lambda: False) -> tuple[float, float]:
    """p50 and p99 of acknowledged records of 1 KiB at a steady rate, in milliseconds."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    latencies_s: list[float] = []
    value = os.urandom(1024)
    # The first record waits for connections and metadata.
    producer.produce("new", value)
    assert producer.flush(WAIT_S) == 0
    due = began = time.monotonic()
    while time.monotonic() < began + seconds and not is_over():
        due += 1 / PULSE_RATE
        while (pause_s := due - time.monotonic()) > 0:
            producer.poll(pause_s)
        # Measured from the moment at which the record was due, also if the machine was late.
        producer.produce("new", value, on_delivery=lambda *_, sent=due: latencies_s.append(time.monotonic() - sent))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    latencies_s.sort()
    return statistics.median(latencies_s) * 1000, latencies_s[int(len(latencies_s) * 0.99)] * 1000


def start_reader(bootstrap: str, topic: str, wait_s: float, options: ReaderOptions) -> subprocess.Popen[bytes]:
    """A process that is ready to read, and waits for `let_read`: a cold start of Python is not part of the measure."""
    command = [sys.executable, "-m", "bench.disks", "--read", bootstrap, topic, str(wait_s)]
    command += ["--reader-nice", str(options.nice), "--reader-rate", str(options.rate)]
    command += ["--reader-buffer", str(options.buffer_bytes)]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    assert reader.stdout.readline(), "a reader failed"
    return reader


def let_read(reader: subprocess.Popen[bytes]) -> None:
    assert reader.stdin is not None
    reader.stdin.close()


def read_whole(bootstrap: str, topic: str, wait_s: float, options: ReaderOptions) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "fetch.message.max.bytes": 1 << 22,
            "enable.auto.commit": False,
            "socket.receive.buffer.bytes": options.buffer_bytes,
        }
    )
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(place, timeout=60)[1] for place in places]
    missing = sum(ends)
    # Connects, and has the broker load its code for fetches.
    consumer.assign([TopicPartition(topic, 0, ends[0] - 1)])
    assert consumer.consume(1, timeout=60), "the last record did not arrive"
    consumer.unassign()
    print("ready", flush=True)
    sys.stdin.read()
    consumer.assign(places)
    begun, read_bytes = time.monotonic(), 0
    while missing > 0:
        assert time.monotonic() < begun + wait_s, f"{missing} records are missing"
        read = [len(message) for message in consumer.consume(100, timeout=1.0) if message.error() is None]
        missing -= len(read)
        read_bytes += sum(read)
        if options.rate:
            time.sleep(max(0.0, begun + read_bytes / (options.rate * 1e6) - time.monotonic()))
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.disks", description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--only", choices=("kafka", "ottla"), help="one of the two brokers")
    parser.add_argument(
        "--reader-nice", type=int, default=LOWEST_PRIORITY, help="priority of the readers (default: 19)"
    )
    parser.add_argument("--reader-rate", type=float, default=0.0, help="MB/s of each reader (default: no limit)")
    parser.add_argument(
        "--reader-buffer", type=int, default=0, metavar="BYTES", help="of each reader's socket (default: the system's)"
    )
    parser.add_argument("--read", nargs=3, metavar=("BOOTSTRAP", "TOPIC", "WAIT_S"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    readers = ReaderOptions(options.reader_nice, options.reader_rate, options.reader_buffer)
    if options.read:
        bootstrap, topic, wait_s = options.read
        os.nice(readers.nice)
        read_whole(bootstrap, topic, float(wait_s), readers)
        return
    kinds: dict[str, type[ApacheKafka] | type[OttlaFromFile]] = {"kafka": ApacheKafka, "ottla": OttlaFromFile}
    works: Mapping[str, Part] = {
        "cold": partial(cold, readers_are=readers),
        "recovery": recovery,
        "compaction": compaction,
    }
    for part in options.parts or PARTS:
        results: dict[str, Metrics] = {}
        for name, kind in kinds.items():
            if options.only not in (None, name):
                continue
            directory = Path(tempfile.mkdtemp(prefix="ottla-disks-"))
            try:
                results[name] = works[part](kind(directory, SETTINGS), options.gigabytes)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        print(f"{part}, {options.gigabytes:g} GB\n{'':<36}" + "".join(f"{name:>10}" for name in results), flush=True)
        for metric in next(iter(results.values())):
            cells = "".join(f"{metrics[metric]:>10.2f}" for metrics in results.values())
            print(f"{metric:<36}{cells}", flush=True)


if __name__ == "__main__":
    main()
