"""Workers that share their work, and what they keep in their topics. Their tasks move no records."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.errors import ConnectionLost
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.connect.control import connector_planner
from ottla.connect.worker import Worker
from ottla.model.errors import ErrorCode, KafkaError
from ottla.testing import Cluster, cluster
from tests.support.connect_workers import Api, FakeTask, fake_worker, until

SOURCE = {"connector.class": "LineSource", "topic": "lines", "file": "in.txt"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster(settings={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}) as running:
        yield running


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


class Team:
    """Workers of one group."""

    def __init__(self, broker: Cluster, directory: Path, name: str, **settings: str) -> None:
        self._broker = broker
        self._directory = directory
        self._name = name
        self._settings = settings
        self._stack = AsyncExitStack()
        self.members: list[tuple[Worker, Api, list[FakeTask]]] = []

    async def __aenter__(self) -> Team:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def join(self) -> tuple[Worker, Api, list[FakeTask]]:
        member = await self._stack.enter_async_context(
            fake_worker(self._broker.bootstrap, self._directory, distributed=True, name=self._name, **self._settings)
        )
        self.members.append(member)
        assert member[0].herder is not None
        await asyncio.wait_for(member[0].herder.ready.wait(), 90)
        return member

    def tasks(self) -> list[int]:
        """The number of tasks of every worker."""
        return [len(worker.herder.reconciler.owned().tasks) for worker, _, _ in self.members if worker.herder]

    def leaders(self) -> list[bool]:
        return [worker.herder.reconciler.is_leader for worker, _, _ in self.members if worker.herder]

    async def die(self, place: int) -> float:
        """Ends a worker without LeaveGroup: its session lasts until it expires.

        Returns the loop's time of the last heartbeat that was answered.
        """
        worker, _, started = self.members.pop(place)
        assert worker.herder is not None
        assert worker.herder._group is not None
        last_heard = worker.herder._group.member.confirmed_at
        for task in worker.herder._loops:
            task.cancel()
        await asyncio.gather(*worker.herder._loops, return_exceptions=True)
        worker.herder._loops.clear()
        worker.herder._group = None
        for fake_task in started:
            fake_task.stopped = True
        return last_heard


@on_loop
async def test_a_joining_worker_gets_its_share_and_a_change_reaches_all_workers(
    broker: Cluster, tmp_path: Path
) -> None:
    async with Team(broker, tmp_path, "shares") as team:
        _, api, first = await team.join()
        for name in ("a", "b"):
            config = {**SOURCE, "tasks.max": "3", "plan.tasks": "3"}
            status, _ = await api.call("POST", "/connectors", {"name": name, "config": config})
            assert status == 201
        await until(lambda: team.tasks() == [6])
        _, second_api, second = await team.join()
        await until(lambda: team.tasks() == [3, 3])
        running = {task.spec.task.id for task in first + second if not task.stopped}
        assert running == {f"{name}-{number}" for name in "ab" for number in range(3)}
        assert len([task for task in first + second if not task.stopped]) == 6
        # The follower gets the request, the leader decides, and both workers apply the change.
        follower = (api, second_api)[team.leaders().index(False)]
        changed = {**SOURCE, "tasks.max": "3", "plan.tasks": "3", "batch.size": "7"}
        status, info = await follower.call("PUT", "/connectors/a/config", changed)
        assert (status, info["config"]["batch.size"]) == (200, "7")
        await until(
            lambda: (
                sorted(
                    task.spec.task.config["batch.size"]
                    for task in first + second
                    if not task.stopped and task.spec.task.connector == "a" and "batch.size" in task.spec.task.config
                )
                == ["7", "7", "7"]
            )
        )
        for worker_api in (api, second_api):
            workers = set()
            for name in "ab":
                body = await worker_api.wait(
                    f"/connectors/{name}/status",
                    lambda body: [task["state"] for task in body["tasks"]] == ["RUNNING"] * 3,
                )
                workers |= {task["worker_id"] for task in body["tasks"]}
            assert len(workers) == 2
        # A task is restarted on its own worker. Any worker can be asked.
        for number in range(3):
            status, _ = await second_api.call("POST", f"/connectors/b/tasks/{number}/restart")
            assert status == 204
        await until(
            lambda: len([task for task in first + second if task.spec.task.connector == "b" and not task.stopped]) == 3
        )


@on_loop
async def test_the_work_of_a_worker_that_leaves_moves_at_once(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "leaves") as team:
        _, api, _ = await team.join()
        await api.call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "tasks.max": "4", "plan.tasks": "4"}})
        await until(lambda: team.tasks() == [4])
        await team.join()
        await until(lambda: team.tasks() == [2, 2])
        worker, _, _ = team.members.pop(0)
        await worker.stop()
        await until(lambda: team.tasks() == [4], 60)
        _, api, _ = team.members[0]
        await api.wait(
            "/connectors/a/status",
            lambda body: all(task["worker_id"] == team.members[0][0].herder.worker_id for task in body["tasks"]),  # type: ignore[union-attr]
        )


@on_loop
async def test_the_work_of_a_dead_worker_moves_when_its_session_ends(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "dies") as team:
        _, api, _ = await team.join()
        await api.call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "tasks.max": "4", "plan.tasks": "4"}})
        await until(lambda: team.tasks() == [4])
        await team.join()
        await until(lambda: team.tasks() == [2, 2])
        last_heard = await team.die(team.leaders().index(True))
        await until(lambda: team.tasks() == [4], 60)
        # Its session is six seconds, whatever the machine does; a timer may be early by a moment.
        assert asyncio.get_running_loop().time() - last_heard > 5.9
        assert team.leaders() == [True]


@on_loop
async def test_a_worker_that_is_back_at_its_address_does_not_wait_for_its_own_session(
    broker: Cluster, tmp_path: Path
) -> None:
    # Both are far longer than this test waits.
    patience = {"session_timeout_ms": "1800000", "rebalance_timeout_ms": "1800000"}
    settings = {**patience, "rest_advertised_host_name": "worker-1", "rest_advertised_port": "8083"}
    async with Team(broker, tmp_path, "returns", **settings) as team:
        worker, _, _ = await team.join()
        await worker.create({**SOURCE, "name": "a", "tasks.max": "4", "plan.tasks": "4"})
        await until(lambda: team.tasks() == [4])
        for _ in range(2):
            await team.die(0)
            await team.join()
            await until(lambda: team.tasks() == [4])


@on_loop
async def test_lost_work_can_wait_for_its_worker(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "waits", scheduled_rebalance_max_delay_ms="3000") as team:
        _, api, _ = await team.join()
        await api.call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "tasks.max": "4", "plan.tasks": "4"}})
        await until(lambda: team.tasks() == [4])
        await team.join()
        await until(lambda: team.tasks() == [2, 2])
        began = asyncio.get_running_loop().time()
        worker, _, _ = team.members.pop(team.leaders().index(False))
        await worker.stop()
        await until(lambda: team.tasks() == [4], 60)
        assert asyncio.get_running_loop().time() - began > 2.9


@on_loop
async def test_failed_tasks_say_why_and_are_restarted_by_policy(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "fails") as team:
        _, api, started = await team.join()
        config = {
            **SOURCE,
            "fail": "no such table",
            "tasks.restart.max.attempts": "2",
            "tasks.restart.backoff.ms": "100",
        }
        await api.call("POST", "/connectors", {"name": "a", "config": config})
        await until(lambda: len(started) == 3)
        body = await api.wait("/connectors/a/status", lambda body: body["tasks"][0]["state"] == "FAILED")
        assert body["tasks"][0]["trace"] == "Traceback: no such table"
        assert body["connector"]["state"] == "RUNNING"
        await asyncio.sleep(0.5)
        assert len(started) == 3, "two attempts were allowed"
        status, body = await api.call("POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true")
        assert (status, body["connector"]["state"], body["tasks"][0]["state"]) == (202, "RUNNING", "RESTARTING")
        await until(lambda: len(started) > 3)


@on_loop
async def test_a_task_that_keeps_trying_is_failed_until_it_works(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "retries") as team:
        _, api, started = await team.join()
        await api.call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "retry": "connection refused"}})
        body = await api.wait("/connectors/a/status", lambda body: bool(body["tasks"]))
        assert body["tasks"][0]["state"] == "FAILED"
        assert body["tasks"][0]["trace"].splitlines()[0] == "RetriableError: connection refused"
        assert 'task_status{connector="a",task="0",state="failed"} 1' in (await api.call("GET", "/metrics"))[1]
        started[0].events.on_running()
        await api.wait("/connectors/a/status", lambda body: body["tasks"][0]["state"] == "RUNNING")
        assert len(started) == 1, "it was not restarted"


@on_loop
async def test_a_connector_that_cannot_plan_is_failed(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "plans") as team:
        _, api, started = await team.join()
        await api.call("POST", "/connectors", {"name": "a", "config": {**SOURCE, "fail.plan": "no route to the host"}})
        body = await api.wait("/connectors/a/status", lambda body: body["connector"]["state"] == "FAILED")
        assert "no route to the host" in body["connector"]["trace"]
        assert body["tasks"] == []
        await api.call("POST", "/connectors", {"name": "b", "config": {**SOURCE, "plan.tasks": "2"}})
        body = await api.wait("/connectors/b/status", lambda body: body["connector"]["state"] == "FAILED")
        assert "tasks.max" in body["connector"]["trace"]
        assert started == []


@on_loop
async def test_secrets_are_filled_in_and_never_shown(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES_SECRET", "geheimnis")
    async with Team(broker, tmp_path, "secrets", config_providers="env") as team:
        _, api, started = await team.join()
        config = {**SOURCE, "password": "${env:LINES_SECRET}", "fail": "wrong password ${env:LINES_SECRET}"}
        await api.call("POST", "/connectors", {"name": "a", "config": config})
        await until(lambda: bool(started))
        assert started[0].spec.config["password"] == "geheimnis"
        assert started[0].spec.task.config["password"] == "geheimnis"
        body = await api.wait("/connectors/a/status", lambda body: body["tasks"][0]["state"] == "FAILED")
        shown = [
            body,
            await api.get("/connectors/a"),
            await api.get("/connectors/a/tasks"),
            (await api.call("PUT", "/connector-plugins/LineSource/config/validate", config))[1],
            await _records(broker, "secrets-config"),
            await _records(broker, "secrets-status"),
        ]
        assert "geheimnis" not in json.dumps(shown)
        assert "wrong password" in body["tasks"][0]["trace"]
        assert (await api.get("/connectors/a/tasks"))[0]["config"]["password"] == "${env:LINES_SECRET}"


@on_loop
async def test_the_topics_hold_what_kafka_connect_would_write(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "kept") as team:
        worker, api, _ = await team.join()
        await api.call("POST", "/connectors", {"name": "a", "config": SOURCE})
        await api.wait("/connectors/a/topics", lambda body: body == {"a": {"topics": ["lines"]}})
        await api.wait("/connectors/a/offsets", lambda body: bool(body["offsets"]))
        await api.call("PUT", "/connectors/a/pause")
        await api.wait("/connectors/a/status", lambda body: body["tasks"][0]["state"] == "PAUSED")
        await api.call("PUT", "/connectors/a/stop")
        await api.wait("/connectors/a/status", lambda body: body["connector"]["state"] == "STOPPED")
        configs = await _records(broker, "kept-config")
        task = {**SOURCE, "name": "a", "task.class": "tests.support.connect_workers.LineSource"}
        assert [record for record in configs if not record[0].startswith("tasks-fencing")] == [
            ["connector-a", {"properties": {**SOURCE, "name": "a"}}],
            ["task-a-0", {"properties": task}],
            ["commit-a", {"tasks": 1}],
            ["target-state-a", {"state": "PAUSED", "state.v2": "PAUSED"}],
            ["commit-a", {"tasks": 0}],
            ["target-state-a", {"state": "PAUSED", "state.v2": "STOPPED"}],
        ]
        assert ["tasks-fencing-a", {"task-count": 1}] in configs
        assert await _records(broker, "kept-offset") == [['["a",{"filename":"in.txt"}]', {"position": 14}]]
        statuses = await _records(broker, "kept-status")
        async with asyncio.timeout(90):
            while ["status-task-a-0", None] not in statuses:
                statuses = await _records(broker, "kept-status")
        assert worker.herder is not None
        assert [
            "status-task-a-0",
            {
                "state": "RUNNING",
                "trace": None,
                "worker_id": worker.herder.worker_id,
                "generation": next(value["generation"] for key, value in statuses if key == "status-task-a-0"),
                "version": "4.3.1",
            },
        ] in statuses
        (topic,) = [value for key, value in statuses if key == "status-topic-lines:connector-a"]
        assert set(topic["topic"]) == {"name", "connector", "task", "discoverTimestamp"}


@on_loop
async def test_fewer_tasks_fence_those_of_the_plan_before(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "fences") as team:
        worker, api, started = await team.join()
        config = {**SOURCE, "tasks.max": "3", "plan.tasks": "3"}
        await api.call("PUT", "/connectors/a/config", config)
        await until(lambda: team.tasks() == [3])
        await api.call("PUT", "/connectors/a/config", {**config, "plan.tasks": "1"})
        await until(lambda: team.tasks() == [1])
        assert worker.herder is not None
        engine: Any = worker.herder._engine
        assert engine.fenced == ["fences-a-0", "fences-a-1", "fences-a-2"]
        assert len([task for task in started if not task.stopped]) == 1


def test_tasks_are_replaced_when_those_before_are_fenced_and_no_sooner(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector_planner, "_FENCE_SECONDS", 0.01)

    async def run() -> None:
        async with Team(broker, tmp_path, "replaces") as team:
            worker, api, _ = await team.join()
            config = {**SOURCE, "tasks.max": "2", "plan.tasks": "2"}
            await api.call("PUT", "/connectors/a/config", config)
            await until(lambda: team.tasks() == [2])
            assert worker.herder is not None
            engine: Any = worker.herder._engine
            engine.obstacles += [ConnectionLost("away"), KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "busy")]
            await api.call("PUT", "/connectors/a/config", {**config, "plan.tasks": "1"})
            await until(lambda: team.tasks() == [1])
            assert (engine.obstacles, engine.fenced) == ([], ["replaces-a-0", "replaces-a-1"])

    asyncio.run(run())


@on_loop
async def test_what_a_dead_worker_has_open_is_ended_when_its_connector_is_deleted(
    broker: Cluster, tmp_path: Path
) -> None:
    async with Team(broker, tmp_path, "deletes", task_shutdown_graceful_timeout_ms="300") as team:
        for _ in range(2):
            await team.join()
        (_, api, _), _ = team.members
        config = {**SOURCE, "tasks.max": "4", "plan.tasks": "4"}
        await api.call("PUT", "/connectors/a/config", config)
        await until(lambda: team.tasks() == [2, 2])
        await team.die(team.leaders().index(False))
        ((worker, api, _),) = team.members
        assert worker.herder is not None
        engine: Any = worker.herder._engine
        assert (await api.call("DELETE", "/connectors/a"))[0] == 204
        await until(lambda: bool(engine.fenced))
        assert set(engine.fenced) == {f"deletes-a-{number}" for number in range(4)}
        # A connector that was created again has ended its former tasks itself, so its tasks are not fenced.
        await api.call("PUT", "/connectors/a/config", config)
        await worker.herder.reconciler.stale.fence_deleted("a", ["too late"])
        assert "too late" not in engine.fenced


@on_loop
async def test_a_cluster_wide_logger_is_set_on_every_worker(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "logs") as team:
        _, api, _ = await team.join()
        _, other, _ = await team.join()
        status, _ = await api.call("PUT", "/admin/loggers/some.logger.here?scope=cluster", {"level": "debug"})
        assert status == 204
        body = await other.wait("/admin/loggers/some.logger.here", lambda body: body["last_modified"] is not None)
        assert body["level"] == "DEBUG"
        status, names = await other.call("PUT", "/admin/loggers/some.logger", {"level": "WARN"})
        assert (status, names) == (200, ["some.logger", "some.logger.here"])


@on_loop
async def test_progress_and_metrics(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "measured") as team:
        _, api, started = await team.join()
        _, other, more = await team.join()
        await api.call("POST", "/connectors", {"name": 'a"b', "config": SOURCE})
        await until(lambda: bool(started or more))
        (task,) = started + more
        task.progress.on_batch(records=100, size=5_000, seconds=0.5)
        for worker_api in (api, other):
            body = await worker_api.wait('/connectors/a"b/tasks/0/progress', lambda body: body["records"] == 100)
            assert body["last_batch"]["duration_ms"] == 500.0
        pages = "".join([(await worker_api.call("GET", "/metrics"))[1] for worker_api in (api, other)])
        assert 'ottla_connect_task_records_total{connector="a\\"b",task="0"} 100' in pages
        assert 'ottla_connect_task_status{connector="a\\"b",task="0",state="running"} 1' in pages
        assert (await api.call("GET", '/connectors/a"b/tasks/5/progress'))[0] == 404


@on_loop
async def test_workers_of_apache_kafka_are_kept_out_of_the_group(broker: Cluster, tmp_path: Path) -> None:
    async with Team(broker, tmp_path, "protocol") as team:
        worker, _, _ = await team.join()
        assert worker.herder is not None
        from ottla.client.admin.groups import DescribedGroup, Groups

        async with asyncio.timeout(90):
            while True:
                group = (await Groups(worker.herder.cluster).describe(["protocol"]))["protocol"]
                assert isinstance(group, DescribedGroup)
                assert group.protocol_type == "connect"
                if group.state == "Stable":
                    break


async def _records(broker: Cluster, topic: str) -> list[Any]:
    settings = ClientSettings(bootstrap_servers=parse_bootstrap(broker.bootstrap))
    async with Consumer(settings, ConsumerSettings(read_committed=True)) as consumer:
        await consumer.assign(await consumer.partitions(topic))
        for partition, offset in (await consumer.beginning_offsets(consumer.assignment)).items():
            consumer.seek(partition, offset)
        ends = await consumer.end_offsets(consumer.assignment)
        records = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records += await consumer.poll(500)
    return [
        [(record.key or b"").decode(), None if record.value is None else json.loads(record.value)] for record in records
    ]
