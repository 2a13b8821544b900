"""`ottla mirror-maker`: MirrorMaker 1's flags."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import LATEST
from ottla.client.producer import Producer
from ottla.mirror.mirror_maker import MirrorMaker, MirrorMakerOptions, included_topics
from ottla.mirror.settings import MirrorError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster, node_environment
from tests.mirror.flows import create, numbers_of, produce, read_all

COMMAND = [sys.executable, "-m", "ottla.cli.main", "mirror-maker"]


def test_topics_are_copied_and_a_stopped_run_is_continued(tmp_path: Path) -> None:
    with cluster() as source, cluster() as target:
        for where in (source, target):
            for topic in ("orders", "payments", "other"):
                # The partitions of the two sides differ: the key decides.
                asyncio.run(create(where, topic, partitions=3 if where is source else 2))
        asyncio.run(produce(source.bootstrap, "payments", range(20)))
        asyncio.run(produce(source.bootstrap, "other", range(5)))
        consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
        consumer.write_text(
            f"bootstrap.servers={source.bootstrap}\ngroup.id=mm\nauto.offset.reset=earliest\n"
            "key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer\n"
        )
        producer.write_text(f"bootstrap.servers={target.bootstrap}\nlinger.ms=5\n")
        arguments = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        arguments += ["--include", "orders,pay.*", "--num.streams", "2", "--offset.commit.interval.ms", "200"]
        for numbers in (range(100), range(100, 150)):
            asyncio.run(produce(source.bootstrap, "orders", numbers))
            run_until_copied([*arguments, "--abort.on.send.failure", "true"], target, numbers.stop)
        ours = asyncio.run(read_all(target.bootstrap, "orders", 150))
        assert numbers_of(ours) == list(range(150))
        theirs = asyncio.run(read_all(source.bootstrap, "orders", 150))
        assert sorted(map(str, (record[2:] for record in ours))) == sorted(map(str, (record[2:] for record in theirs)))
        assert numbers_of(asyncio.run(read_all(target.bootstrap, "payments", 20))) == list(range(20))
        assert asyncio.run(ends(target, "other")) == 0


def run_until_copied(arguments: list[str], target: Cluster, count: int) -> None:
    running = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=node_environment()
    )
    try:
        asyncio.run(read_all(target.bootstrap, "orders", count))
        asyncio.run(read_all(target.bootstrap, "payments", 20))
    finally:
        running.send_signal(signal.SIGTERM)
        output, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert output == "ready\n"


async def ends(where: Cluster, topic: str) -> int:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        places = [TopicPartition(topic, number) for number in (await admin.topics.all())[topic].partitions]
        return sum((await admin.offsets.numbers(places, LATEST)).values())


def test_patterns_are_those_of_kafka() -> None:
    assert included_topics("orders, pay.*").fullmatch("payments")
    with pytest.raises(MirrorError, match="no regular expression"):
        included_topics("(")


@pytest.mark.parametrize(
    ("consumer", "producer", "sentence"),
    [
        ({"bootstrap.servers": "h:1"}, {"bootstrap.servers": "h:1"}, "needs a group.id"),
        ({"group.id": "g"}, {"bootstrap.servers": "h:1"}, "consumer's file needs bootstrap.servers"),
        ({"group.id": "g", "bootstrap.servers": "h:1"}, {}, "producer's file needs bootstrap.servers"),
    ],
)
def test_files_that_cannot_work(consumer: dict[str, str], producer: dict[str, str], sentence: str) -> None:
    with pytest.raises(MirrorError, match=sentence):
        MirrorMaker(consumer, producer, MirrorMakerOptions(include="t"))


def test_a_record_that_cannot_be_written_ends_the_run_or_is_left_out() -> None:
    with cluster() as source, cluster() as target:

        async def work(aborts: bool) -> MirrorMaker:
            copying = MirrorMaker(
                {"bootstrap.servers": source.bootstrap, "group.id": f"mm-{aborts}", "auto.offset.reset": "earliest"},
                # A batch for each record.
                {"bootstrap.servers": target.bootstrap, "batch.size": "1"},
                MirrorMakerOptions(include="t", commit_interval_ms=100, aborts_on_send_failure=aborts),
            )
            await copying.run(lambda: copying.copied >= 10)
            return copying

        asyncio.run(create(source, "t", partitions=1))
        asyncio.run(create(target, "t", partitions=1, configs={"max.message.bytes": "200"}))
        asyncio.run(produce(source.bootstrap, "t", range(5)))
        asyncio.run(produce_large(source.bootstrap))
        with pytest.raises(MirrorError, match="could not be written"):
            asyncio.run(work(True))
        asyncio.run(produce(source.bootstrap, "t", range(5, 10)))
        done = asyncio.run(work(False))
        assert (done.copied, done.failed) == (10, 1)


async def produce_large(bootstrap: str) -> None:
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        await producer.send_and_wait("t", b"x" * 5_000)


def test_classes_of_java_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("")
    words = ["--consumer.config", str(file), "--producer.config", str(file), "--include", "t", "--message.handler", "X"]
    result = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, env=node_environment())
    assert result.returncode == 1
    assert "classes of Java" in result.stderr
