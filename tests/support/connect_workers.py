"""Connect workers whose tasks move no data: an engine that records calls, and small connectors for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.cluster import Cluster
from ottla.connect.api import (
    ConfigDefinitions,
    ConfigType,
    Converter,
    Importance,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    Task,
)
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import TaskEvents, TaskProgress, TaskSpec
from ottla.connect.work.source_offsets import OffsetStore
from ottla.connect.worker import Worker
from ottla.model.ids import TopicPartition

__all__ = [
    "Api",
    "FakeEngine",
    "LineSink",
    "LineSource",
    "fake_worker",
    "plugins_for_tests",
    "until",
    "worker_properties",
]


class LineSource(SourceConnector):
    """Replaces Kafka's file source: the same settings and the same shape of offsets."""

    version = "4.3.1"
    aliases = ("org.apache.kafka.connect.file.FileStreamSourceConnector",)

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("file", ConfigType.STRING, default=None, importance=Importance.HIGH, documentation="The file.")
            .define("topic", ConfigType.STRING, importance=Importance.HIGH, documentation="The topic.")
            .define("batch.size", ConfigType.INT, default=2000, importance=Importance.LOW, documentation="Lines.")
        )

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        if config.get("fail.plan"):
            raise RuntimeError(config["fail.plan"])
        return [dict(config) for _ in range(int(config.get("plan.tasks", 1)))]

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[Any]) -> bool:
        return True


class LineSink(SinkConnector):
    version = "4.3.1"
    aliases = ("org.apache.kafka.connect.file.FileStreamSinkConnector",)

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "file", ConfigType.STRING, default=None, importance=Importance.HIGH, documentation="The file."
        )

    def writer(self, task: Task) -> SinkWriter:
        raise NotImplementedError

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[Any]) -> bool:
        return True


class PlainConverter(Converter):
    aliases = ("org.apache.kafka.connect.json.JsonConverter",)

    def to_bytes(self, frame: Any, column: str) -> Any:
        return frame

    def from_bytes(self, frame: Any, column: str) -> Any:
        return frame


def plugins_for_tests() -> Plugins:
    plugins = Plugins(installed=False)
    for plugin in (LineSource, LineSink, PlainConverter):
        plugins.add(plugin)
    return plugins


@dataclass
class FakeTask:
    spec: TaskSpec
    events: TaskEvents
    paused: bool
    stopped: bool = False
    beginning: asyncio.Task[None] | None = None
    progress: TaskProgress = field(default_factory=TaskProgress)

    def pause(self) -> None:
        self.paused = True
        self.events.on_paused()

    def resume(self) -> None:
        self.paused = False
        self.events.on_running()

    async def stop(self, timeout_ms: int) -> None:
        if self.beginning is not None:
            await asyncio.gather(self.beginning, return_exceptions=True)
        self.stopped = True


class FakeEngine:
    """Tasks run at once and do what their configuration says: nothing, leave offsets, or fail."""

    def __init__(
        self, config: WorkerConfig, plugins: Plugins, offsets: OffsetStore, cluster: Cluster, started: list[FakeTask]
    ) -> None:
        self._offsets = offsets
        self._cluster = cluster
        self.started = started
        self.is_started = False
        self.fenced: list[str] = []
        # Errors that the next calls of `fence` raise.
        self.obstacles: list[Exception] = []
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self.is_started = True

    async def stop(self) -> None:
        for task in list(self._background):
            task.cancel()

    def run(self, spec: TaskSpec, events: TaskEvents, *, paused: bool) -> FakeTask:
        task = FakeTask(spec, events, paused)
        self.started.append(task)
        later = task.beginning = asyncio.ensure_future(self._begin(task))
        self._background.add(later)
        later.add_done_callback(self._background.discard)
        return task

    async def fence(self, transactional_ids: list[str]) -> None:
        if self.obstacles:
            raise self.obstacles.pop()
        self.fenced += transactional_ids

    async def _begin(self, task: FakeTask) -> None:
        config = task.spec.config
        if config.get("fail"):
            task.events.on_failed(f"Traceback: {config['fail']}")
            return
        if config.get("retry"):
            task.events.on_retrying(f"RetriableError: {config['retry']}\nTraceback ...")
            return
        if task.paused:
            task.events.on_paused()
            return
        task.events.on_running()
        if "topic" in config:
            await self._cluster.fresh_topic(config["topic"], create=True)
            task.events.on_topic(config["topic"])
            await self._offsets.put(task.spec.task.connector, [({"filename": config["file"]}, {"position": 14})])
        elif "topics" in config and config.get("commit", "true") == "true":
            await self._cluster.fresh_topic(config["topics"], create=True)
            task.events.on_topic(config["topics"])
            topic_partition = TopicPartition(config["topics"], 0)
            await Groups(self._cluster).alter_offsets(task.spec.group_id, {topic_partition: CommittedOffset(3)})


class Api:
    """Calls of the REST interface."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url.rstrip("/")
        self._session = session

    async def call(
        self, method: str, path: str, body: Any = None, *, raw: str | None = None, content_type: str | None = None
    ) -> tuple[int, Any]:
        data = raw if raw is not None else None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type or "application/json"} if data is not None else {}
        async with self._session.request(method, self._url + path, data=data, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text and answer.content_type == "application/json" else text

    async def get(self, path: str) -> Any:
        status, body = await self.call("GET", path)
        assert status == 200, (path, status, body)
        return body

    async def wait(self, path: str, holds: Callable[[Any], bool], seconds: float = 90.0) -> Any:
        """Repeats the request until the answer satisfies the condition."""
        last: Any = None
        async with asyncio.timeout(seconds):
            while True:
                last = await self.call("GET", path)
                if last[0] == 200 and holds(last[1]):
                    return last[1]
                await asyncio.sleep(0.05)


async def until(holds: Callable[[], bool], seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


def worker_properties(
    bootstrap: str, directory: Path, *, name: str = "connect", **settings: str | None
) -> dict[str, str]:
    """The properties of a worker with small settings; `settings` replace them, and None removes a property."""
    properties = {
        "bootstrap.servers": bootstrap,
        "listeners": "http://127.0.0.1:0",
        "key.converter": "PlainConverter",
        "value.converter": "PlainConverter",
        "offset.storage.file.filename": str(directory / "offsets"),
        "group.id": name,
        **{
            f"{kind}.storage.{key}": value
            for kind in ("config", "offset", "status")
            for key, value in (("topic", f"{name}-{kind}"), ("replication.factor", "1"))
        },
        "offset.storage.partitions": "2",
        "status.storage.partitions": "2",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "200",
        **{key.replace("_", "."): text for key, text in settings.items()},
    }
    return {key: text for key, text in properties.items() if text is not None}


@asynccontextmanager
async def fake_worker(
    bootstrap: str,
    directory: Path,
    *,
    distributed: bool,
    name: str = "connect",
    plugins: Plugins | None = None,
    **settings: str | None,
) -> AsyncIterator[tuple[Worker, Api, list[FakeTask]]]:
    properties = worker_properties(bootstrap, directory, name=name, **settings)
    started: list[FakeTask] = []
    worker = Worker(
        WorkerConfig(properties, distributed=distributed),
        engine=lambda config, available, offsets, cluster: FakeEngine(config, available, offsets, cluster, started),
        plugins=plugins or plugins_for_tests(),
    )
    async with worker, aiohttp.ClientSession() as session:
        yield worker, Api(worker.url, session), started
