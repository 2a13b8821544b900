"""Makes `kafka-directory.tar.xz`: a data directory as Apache Kafka writes it, and what a client reads from it.

The topics cover what a log can hold: every codec, headers, null keys and values, several segments, both timestamp
types, committed and aborted transactions with their markers, and a compacted log after the cleaner has been over it.

    .venv/bin/python -m tests.data.make_kafka_directory
"""

from __future__ import annotations

import json
import tarfile
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import ApacheKafka
from tests.support.reading import read_partition

__all__ = ["ARCHIVE", "main"]

ARCHIVE = Path(__file__).with_name("kafka-directory.tar.xz")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLEANER_PATIENCE_S = 60.0

TOPICS = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "segments": {"segment.bytes": "1048576"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "transactions": {},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "86400000",
    },
}
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        broker = ApacheKafka(Path(scratch), SETTINGS)
        with broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            created = admin.create_topics([NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()])
            for future in created.values():
                future.result(30)
            for codec in CODECS:
                write_codec(broker, codec)
            write_segments(broker)
            write_append_time(broker)
            write_transactions(broker)
            write_compacted(broker)
            expected = {
                f"{topic}-{partition}": read_partition(broker.bootstrap, topic, partition)
                for topic in TOPICS
                for partition in range(2)
            }
        (broker.log_directory / "expected.json").write_text(json.dumps(expected, separators=(",", ":")))
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            archive.add(broker.log_directory, "kafka-directory", filter=anonymous)
    records = sum(len(records) for records in expected.values())
    print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size} bytes, {records} records")


def write_codec(broker: ApacheKafka, codec: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 20})
    for number in range(100):
        producer.produce(
            f"codec-{codec}",
            key=None if number % 3 == 0 else f"key {number}".encode(),
            value=None if number % 7 == 3 else f"value {number} ".encode() * (number % 5 + 1),
            headers=[("first", b"\x00\xff"), ("second", None), ("first", b"again")] if number % 2 else [],
            timestamp=1_700_000_000_000 + number * 1000,
            partition=number % 2,
        )
    assert producer.flush(30) == 0


def write_segments(broker: ApacheKafka) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.size": 32768})
    for number in range(3500):
        producer.produce("segments", key=str(number).encode(), value=bytes(1000), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0


def write_append_time(broker: ApacheKafka) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("append-time", value=b"stamped by the broker", timestamp=1_000, partition=0)
    assert producer.flush(30) == 0


def write_transactions(broker: ApacheKafka) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "fixture", "linger.ms": 5})
    producer.init_transactions(30)
    for round_number in range(4):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("transactions", value=f"{round_number}.{number}".encode(), partition=number % 2)
        assert producer.flush(30) == 0
        producer.abort_transaction(30) if round_number % 2 else producer.commit_transaction(30)


def write_compacted(broker: ApacheKafka) -> None:
    """Writes keys again and again, and waits until the cleaner has left gaps in the offsets."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    deadline = time.monotonic() + CLEANER_PATIENCE_S
    for round_number in range(1_000):
        for key in ("changes", "changes too", "deleted", f"stays {round_number}"):
            value = None if key == "deleted" else f"{round_number}".encode()
            producer.produce("compacted", key=key.encode(), value=value, partition=0)
        assert producer.flush(30) == 0
        time.sleep(0.3)
        records = read_partition(broker.bootstrap, "compacted", 0)
        if round_number > 3 and records[-1]["offset"] - records[0]["offset"] + 1 > len(records):
            return
        assert time.monotonic() < deadline, "the cleaner did not come"


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Owner and time of the files are left out, and lock files are no data."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith("/.lock") else member


if __name__ == "__main__":
    main()
