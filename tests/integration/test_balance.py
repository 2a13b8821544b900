"""`ottla balance` on a real cluster, while a producer writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import ottla.testing
from ottla.balance.execute import Executor, ProducersSuffer, find_topic_ids
from ottla.balance.journal import Journal
from ottla.balance.observe import observe, with_brokers
from ottla.balance.planner import Movement, make_plan
from ottla.balance.steps import Step, make_steps
from ottla.cli.app import run as run_command
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from tests.support.all_brokers import until_all_know

T = TypeVar("T")
PARTITIONS = 12
SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "3",
    # A throttle lets the first fetch pass: a replica must need several fetches, so that a throttled move still runs.
    "replica.fetch.max.bytes": "1024",
    "replica.fetch.response.max.bytes": "1024",
    "ottla.metrics.listener": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    """Four brokers, and a topic whose replicas are on three of them."""
    with ottla.testing.cluster(nodes=4, settings=SETTINGS) as running:
        assignment = {number: [number % 3 + 1, (number + 1) % 3 + 1] for number in range(PARTITIONS)}

        async def fill(admin: AdminClient) -> None:
            await admin.topics.create([NewTopic(name="t", assignment=assignment)])
            async with Producer(admin.connections) as producer:
                for number in range(2_000):
                    await producer.send("t", bytes(500), partition=number % PARTITIONS)

        with_admin(running, fill)
        yield running


def with_admin(cluster: ottla.testing.Cluster, work: Callable[[AdminClient], Awaitable[T]]) -> T:
    async def scenario() -> T:
        async with AdminClient(ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))) as admin:
            return await work(admin)

    return asyncio.run(scenario())


def replicas(cluster: ottla.testing.Cluster, name: str = "t") -> list[tuple[int, ...]]:
    async def look(admin: AdminClient) -> list[tuple[int, ...]]:
        topic = (await admin.topics.describe([name]))[name]
        assert not isinstance(topic, KafkaError)
        return [partition.replicas for partition in topic.partitions]

    return with_admin(cluster, look)


def balance(cluster: ottla.testing.Cluster, *words: str) -> int:
    return run_command(["balance", *words, "-b", cluster.bootstrap])


def test_a_plan_shows_what_would_move_and_changes_nothing(
    cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = replicas(cluster)
    capsys.readouterr()
    assert balance(cluster, "plan", "--drain", "1", "--json", "-o", str(tmp_path / "plan.json")) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert plan["bytes"] > 0
    assert all(row["violationsAfter"] == 0 for row in plan["goals"] if row["isHard"])
    moved = [movement for step in plan["steps"] for movement in step]
    assert all(1 not in movement["after"] for movement in moved)
    assert replicas(cluster) == before
    kafka = json.loads((tmp_path / "plan.json").read_text())
    assert len(kafka["partitions"]) == len(moved)
    assert balance(cluster, "plan", "--drain", "9") == 1
    assert "There is no broker 9" in capsys.readouterr().err


def test_a_replication_factor_that_cannot_be_restored_is_told(
    cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = ("--dead", "1", "--dead", "2", "--dead", "3")
    capsys.readouterr()
    assert balance(cluster, "plan", *dead, "--json") == 1
    (shortage,) = [
        shortage for shortage in json.loads(capsys.readouterr().out)["shortages"] if "t-0" in shortage["partitions"]
    ]
    assert (shortage["replicas"], shortage["brokers"]) == (2, [4])
    assert balance(cluster, "plan", *dead) == 1
    text = capsys.readouterr().out
    assert "cannot have 2 replicas: brokers 1, 2 and 3 are gone, and only broker 4 can take replicas. Start" in text
    assert "Nothing has to move" not in text


def test_a_broker_is_drained_and_filled_again(cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.json")
    options = ("--yes", "--journal", journal, "--latency-factor", "1000", "--throttle", "100000000")
    assert balance(cluster, "run", "--drain", "1", *options) == 0
    assert all(1 not in broker_ids for name in ("t", "ottla-monitor") for broker_ids in replicas(cluster, name))
    assert not Path(journal).exists()
    assert balance(cluster, "run", *options) == 0
    assert sum(1 in broker_ids for broker_ids in replicas(cluster)) >= 3


def test_a_step_is_taken_back_when_producers_suffer_and_resumed_later(
    cluster: ottla.testing.Cluster, tmp_path: Path
) -> None:
    before = replicas(cluster)
    path = tmp_path / "journal.json"

    class Complaining:
        def complaint(self) -> str | None:
            return "It is too slow."

    async def stopped(admin: AdminClient) -> None:
        state = with_brokers(await observe(admin), drained=[2])
        steps = make_steps(state, make_plan(state).movements).steps
        Journal(path, (await admin.cluster.describe()).cluster_id, steps, 1).write()
        # At one byte per second no replica catches up before the guard complains.
        executor = Executor(admin, throttle=1, guard=Complaining(), on_step=lambda *_: None)
        with pytest.raises(ProducersSuffer, match=r"It is too slow\. Step 1 was taken back"):
            await executor.run(steps)
        assert await admin.partitions.reassignments() == {}

    with_admin(cluster, stopped)
    # The order of the replicas may differ after a cancelled reassignment, as with Apache Kafka.
    assert [set(broker_ids) for broker_ids in replicas(cluster)] == [set(broker_ids) for broker_ids in before]
    # The journal is still there. Its throttle is removed, because one byte per second would never finish.
    journal = Journal.read(path)
    Journal(path, journal.cluster_id, journal.steps, None).write()
    assert balance(cluster, "resume", "--journal", str(path), "--no-guard") == 0
    assert all(2 not in broker_ids for broker_ids in replicas(cluster))
    assert not path.exists()


def test_a_plan_that_is_resumed_leaves_alone_what_was_changed_since(
    cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "journal.json"
    names = ("raised", "made-again", "moved")
    addresses = [node.address for node in cluster.nodes]
    movements = [Movement(partition=TopicPartition(name, 0), before=(1,), after=(2,), size_bytes=0.0) for name in names]

    async def interrupted(admin: AdminClient) -> None:
        await admin.topics.create([NewTopic(name=name, assignment={0: [1]}) for name in names])
        await asyncio.to_thread(until_all_know, addresses)
        steps = [Step((movement,)) for movement in movements]
        cluster_id = (await admin.cluster.describe()).cluster_id
        Journal(path, cluster_id, steps, None, topic_ids=await find_topic_ids(admin, steps)).write()
        await admin.partitions.reassign({TopicPartition("raised", 0): [1, 2, 3]})
        while await admin.partitions.reassignments():
            await asyncio.sleep(0.05)
        await admin.topics.delete(["made-again"])
        await admin.topics.create([NewTopic(name="made-again", assignment={0: [1]})])
        # A broker that has not replayed the change yet would return the id of the deleted topic.
        await asyncio.to_thread(until_all_know, addresses)

    with_admin(cluster, interrupted)
    capsys.readouterr()
    assert balance(cluster, "resume", "--journal", str(path), "--no-guard") == 1
    assert [replicas(cluster, name) for name in names] == [[(1, 2, 3)], [(1,)], [(2,)]]
    output = capsys.readouterr().out
    assert "raised-0: its replicas are (1, 2, 3), and no longer (1)" in output
    assert "made-again-0: the topic was deleted and created again" in output
    assert not path.exists()


def test_the_replicas_of_a_lost_broker_are_made_again(
    cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def put_on_victim(admin: AdminClient) -> None:
        await admin.topics.create([NewTopic(name="lost", assignment={0: [4, 1], 1: [2, 4]})])

    with_admin(cluster, put_on_victim)
    victim = cluster.node(4)
    victim.kill()

    async def until_gone(admin: AdminClient) -> None:
        while any(node.node_id == 4 for node in (await admin.cluster.describe()).brokers):
            await asyncio.sleep(0.1)

    with_admin(cluster, until_gone)
    options = ("--no-guard", "--probe", "0", "--journal", str(tmp_path / "journal.json"))
    # The dead broker is reported, and is not repaired before `--dead-after`.
    assert balance(cluster, "watch", "-n", "1", "--repair", "dead", *options) == 0
    assert "dead: broker 4 is gone" in capsys.readouterr().out
    assert all(4 in broker_ids for broker_ids in replicas(cluster, "lost"))
    assert balance(cluster, "watch", "-n", "1", "--repair", "dead", "--dead-after", "0s", *options) == 0
    assert all(
        4 not in broker_ids and len(broker_ids) == 2 for name in ("t", "lost") for broker_ids in replicas(cluster, name)
    )
    victim.start()
