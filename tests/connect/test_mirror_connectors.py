"""MirrorMaker 2's connectors in a worker: records, checkpoints and heartbeats of another cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import LATEST
from ottla.mirror.connector_tasks import flow_of_connector
from ottla.mirror.messages import Checkpoint, Heartbeat, OffsetSync
from ottla.mirror.settings import MirrorError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import create, numbers_of, produce, produce_transactions, read_all
from tests.support.connect_live import LiveWorker, worker_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = "org.apache.kafka.connect.mirror"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with cluster() as source, cluster() as target:
        yield source, target


def keys(pair: tuple[Cluster, Cluster], kind: str, **more: str) -> dict[str, str]:
    source, target = pair
    return {
        "connector_class": f"{JAVA}.Mirror{kind}Connector",
        "source_cluster_alias": "a",
        "target_cluster_alias": "b",
        "source_cluster_bootstrap_servers": source.bootstrap,
        "target_cluster_bootstrap_servers": target.bootstrap,
        **more,
    }


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_records_checkpoints_and_heartbeats(pair: tuple[Cluster, Cluster], spark: SparkSession) -> None:
    source, target = pair
    asyncio.run(create(source, "t", partitions=4))
    asyncio.run(produce(source.bootstrap, "t", range(100)))
    asyncio.run(produce_transactions(source.bootstrap, "t", range(100, 120)))
    asyncio.run(commit(source, "g", {TopicPartition("t", 0): 5}))
    with LiveWorker(worker_properties(target.bootstrap, "mirrors"), spark) as worker:
        worker.put("records", **keys(pair, "Source", topics="t", tasks_max="2", ottla_commit_interval_ms="50"))
        worker.put("groups", **keys(pair, "Checkpoint", groups="g", emit_checkpoints_interval_seconds="1",
                                    sync_group_offsets_enabled="true"))  # fmt: skip
        worker.put("beats", **keys(pair, "Heartbeat"))
        copied = asyncio.run(read_all(target.bootstrap, "a.t", 110))
        theirs = asyncio.run(read_all(source.bootstrap, "t", 110))
        assert [record[2:] for record in copied] == [record[2:] for record in theirs]
        worker.wait(lambda: asyncio.run(committed(target, "g")), "records", "groups", "beats")
        # The tasks are planned again, with one worker less, and continue.
        worker.put("records", **keys(pair, "Source", topics="t", tasks_max="1", ottla_commit_interval_ms="50"))
        asyncio.run(produce(source.bootstrap, "t", range(200, 250)))
        copied = asyncio.run(read_all(target.bootstrap, "a.t", 160))
        theirs = asyncio.run(read_all(source.bootstrap, "t", 160))
        assert [record[2:] for record in copied] == [record[2:] for record in theirs]
        worker.request("PUT", "/connectors/records/pause")
        worker.wait(lambda: worker.status("records")["tasks"][0]["state"] == "PAUSED")
        asyncio.run(produce(source.bootstrap, "t", range(250, 260)))
        worker.request("PUT", "/connectors/records/resume")
        assert numbers_of(asyncio.run(read_all(target.bootstrap, "a.t", 170)))[-1] == 259
        ((_, _, key, value, _, _), *_) = asyncio.run(read_all(target.bootstrap, "heartbeats", 1))
        beat = Heartbeat.decode(bytes(key), bytes(value))  # type: ignore[arg-type, call-overload]
        assert (beat.source, beat.target) == ("a", "b")
    (checkpoint,) = {
        Checkpoint.decode(bytes(record[2]), bytes(record[3]))  # type: ignore[call-overload]
        for record in asyncio.run(read_all(target.bootstrap, "a.checkpoints.internal", 1))
    }
    at = TopicPartition("a.t", 0)
    assert (checkpoint.group_id, checkpoint.partition, checkpoint.source_offset) == ("g", at, 5)
    # MirrorMaker's own pairs of offsets name the same records on both sides.
    by_offset = {(record[0], record[1]): record[3] for record in theirs}
    ours = {(record[0], record[1]): record[3] for record in copied}
    syncs = [
        OffsetSync.decode(bytes(record[2]), bytes(record[3]))  # type: ignore[call-overload]
        for record in asyncio.run(read_all(source.bootstrap, "mm2-offset-syncs.b.internal", 4))
    ]
    known = [sync for sync in syncs if (sync.partition.partition, sync.source_offset) in by_offset]
    assert known
    for sync in known:
        number = sync.partition.partition
        assert by_offset[number, sync.source_offset] == ours[number, sync.target_offset]


async def commit(where: Cluster, group: str, offsets: dict[TopicPartition, int]) -> None:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        await admin.groups.alter_offsets(group, offsets)


async def committed(where: Cluster, group: str) -> bool:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        return bool(await admin.groups.offsets(group)) and bool(
            (await admin.offsets.numbers([TopicPartition("heartbeats", 0)], LATEST)).values()
        )


def test_a_configuration_for_kafka_is_understood() -> None:
    config = {
        "name": "records",
        "connector.class": f"{JAVA}.MirrorSourceConnector",
        "task.class": "x",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": "e:1",
        "target.cluster.bootstrap.servers": "w:1",
        "source.cluster.security.protocol": "PLAINTEXT",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "topics": "orders.*",
        "tasks.max": "3",
        "offset-syncs.topic.location": "target",
        "replication.factor": "2",
        "producer.override.batch.size": "1000",
        "errors.tolerance": "none",
    }
    flow = flow_of_connector(config)
    assert (flow.name, flow.replication_factor, flow.topics.matches("orders-1")) == ("east->west", 2, True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source.cluster.alias": ""}, "source.cluster.alias is missing"),
        ({"target.cluster.alias": "a"}, "are both a"),
        ({"source.cluster.bootstrap.servers": ""}, "a.bootstrap.servers"),
        ({"topic.regex": "x"}, "not a key of a mirror"),
    ],
)
def test_a_configuration_that_cannot_work(changes: dict[str, str], sentence: str) -> None:
    config = {
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "e:1",
        "target.cluster.bootstrap.servers": "w:1",
    }
    with pytest.raises(MirrorError, match=sentence):
        flow_of_connector({**config, **changes})
